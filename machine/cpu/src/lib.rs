//! One logical processor.

pub mod float;
pub mod svm;
pub mod vector;
