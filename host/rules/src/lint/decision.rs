//! What several rules decide alike.

pub mod boot;
pub mod machine;
pub mod module;
