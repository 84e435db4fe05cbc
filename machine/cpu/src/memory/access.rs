//! What accesses are for.

/// What an access wants to do. An operation that reads and writes wants to write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    Read,
    Write,
    Execute,
}

impl Access {
    /// Whether it is among the grants for reads, writes and fetches.
    #[inline(always)]
    pub fn is_granted(self, (reads, writes, fetches): (bool, bool, bool)) -> bool {
        match self {
            Self::Read => reads,
            Self::Write => writes,
            Self::Execute => fetches,
        }
    }
}
