//! What goes wrong, in words.

/// Done, or why not.
pub type Said<T> = Result<T, String>;
