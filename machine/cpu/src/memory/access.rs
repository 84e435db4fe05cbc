//! What accesses are for.

/// What an access wants to do. An operation that reads and writes wants to write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    Read,
    Write,
    Execute,
}
