//! What both ends of the wire know.

/// Where the board has the two functions at the ends of a wire: the guest's, and the host's own.
pub(super) const ADDRESS: &str = "0000:00:15.0";
pub(super) const OWN_ADDRESS: &str = "0000:00:16.0";
/// What the guest sends in one stream.
pub(super) const BYTES: u64 = 50_000_000;
/// In one write.
pub(super) const MESSAGE: usize = 16_384;
/// Messages of one byte that the host answers, one after the other, before the stream.
pub(super) const ROUND_TRIPS: u32 = 500;
/// Records on the guest's console: it is about to begin, it is over.
pub(super) const BEGINS: &str = "network_begins";
pub(super) const OVER: &str = "network";
/// What the host adds.
pub(super) const OF_HOST: &str = "network_host";
