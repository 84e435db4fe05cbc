//! Modules of the kernel and their parameters.

use crate::fact::Fact;
use serde::Serialize;
use std::collections::BTreeMap;

/// The module that holds what both vendors share.
pub const COMMON_MODULE: &str = "kvm";
/// AMD's half: SVM, AVIC.
pub const AMD_MODULE: &str = "kvm_amd";
/// Intel's half: VMX, APICv, posted interrupts.
pub const INTEL_MODULE: &str = "kvm_intel";

/// A loaded or built-in kernel module.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Module {
    /// No reference count: built into the kernel, cannot be reloaded.
    pub is_builtin: bool,
    /// Reference count of `/sys/module/NAME/refcnt`; `None` where there is none.
    pub users: Option<u32>,
    /// By name, as below `/sys/module/NAME/parameters`.
    pub parameters: BTreeMap<String, Fact<String>>,
}

/// The kernel takes `-` and `_` for the same in names of modules and parameters.
pub fn same_parameter(a: &str, b: &str) -> bool {
    a.len() == b.len()
        && a.bytes()
            .zip(b.bytes())
            .all(|(a, b)| a == b || (a == b'-' && b == b'_') || (a == b'_' && b == b'-'))
}

/// A boolean parameter as the kernel prints it and as people write it.
pub fn boolean(text: &str) -> Option<bool> {
    match text.trim() {
        "Y" | "y" | "1" | "on" | "true" => Some(true),
        "N" | "n" | "0" | "off" | "false" => Some(false),
        _ => None,
    }
}
