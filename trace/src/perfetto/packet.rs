//! The parts of Perfetto's trace packets that an export has.
//! [PERFETTO "trace_packet.proto", "track_event.proto", "track_descriptor.proto",
//! "interned_data.proto", "debug_annotation.proto"]

use prost::Message;

/// A trace is nothing but packets.
#[cfg(test)]
#[derive(Clone, PartialEq, Message)]
pub struct Trace {
    #[prost(message, repeated, tag = "1")]
    pub packets: Vec<Packet>,
}

#[derive(Clone, PartialEq, Message)]
pub struct Packet {
    /// In nanoseconds.
    #[prost(uint64, optional, tag = "8")]
    pub timestamp: Option<u64>,
    /// Whose interned names it uses.
    #[prost(uint32, optional, tag = "10")]
    pub sequence: Option<u32>,
    #[prost(message, optional, tag = "11")]
    pub event: Option<TrackEvent>,
    /// Names that are used from here on.
    #[prost(message, optional, tag = "12")]
    pub interned: Option<Interned>,
    /// [`CLEARED`] or [`NEEDED`].
    #[prost(uint32, optional, tag = "13")]
    pub flags: Option<u32>,
    #[prost(message, optional, tag = "60")]
    pub track: Option<Track>,
}

/// Names that were interned before mean nothing from here on.
pub const CLEARED: u32 = 1;
/// The packet uses interned names.
pub const NEEDED: u32 = 2;

#[derive(Clone, PartialEq, Message)]
pub struct Track {
    #[prost(uint64, optional, tag = "1")]
    pub id: Option<u64>,
    #[prost(string, optional, tag = "2")]
    pub name: Option<String>,
    #[prost(uint64, optional, tag = "5")]
    pub parent: Option<u64>,
    /// [`BY_RANK`].
    #[prost(uint32, optional, tag = "11")]
    pub order_of_children: Option<u32>,
    #[prost(int32, optional, tag = "12")]
    pub rank: Option<i32>,
}

/// Children stand in the order of their ranks.
pub const BY_RANK: u32 = 3;

#[derive(Clone, PartialEq, Message)]
pub struct TrackEvent {
    #[prost(message, repeated, tag = "4")]
    pub fields: Vec<Field>,
    /// [`BEGIN`], [`END`] or [`INSTANT`].
    #[prost(uint32, optional, tag = "9")]
    pub kind: Option<u32>,
    #[prost(uint64, optional, tag = "10")]
    pub name: Option<u64>,
    #[prost(uint64, optional, tag = "11")]
    pub track: Option<u64>,
    /// Events with one of these in common are joined by an arrow.
    #[prost(fixed64, repeated, packed = "false", tag = "47")]
    pub flows: Vec<u64>,
}

pub const BEGIN: u32 = 1;
pub const END: u32 = 2;
pub const INSTANT: u32 = 3;

#[derive(Clone, PartialEq, Message)]
pub struct Field {
    #[prost(uint64, optional, tag = "1")]
    pub name: Option<u64>,
    /// A number that is shown in hexadecimal.
    #[prost(uint64, optional, tag = "7")]
    pub number: Option<u64>,
    #[prost(uint64, optional, tag = "17")]
    pub text: Option<u64>,
}

#[derive(Clone, PartialEq, Message)]
pub struct Interned {
    #[prost(message, repeated, tag = "2")]
    pub events: Vec<Name>,
    #[prost(message, repeated, tag = "3")]
    pub fields: Vec<Name>,
    #[prost(message, repeated, tag = "29")]
    pub texts: Vec<Name>,
}

#[derive(Clone, PartialEq, Message)]
pub struct Name {
    #[prost(uint64, optional, tag = "1")]
    pub id: Option<u64>,
    #[prost(string, optional, tag = "2")]
    pub name: Option<String>,
}
