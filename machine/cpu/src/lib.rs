//! One logical processor.

pub mod svm;
