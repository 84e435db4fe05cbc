//! The devices of a PC board, as plain state and pure reactions: an access or a moment in, values
//! and effects out. Nothing here knows a processor, an APIC or a host file.

pub mod map;
