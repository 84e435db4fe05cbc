//! Exits are counted twice.

use crate::plan::Setting;
use serde::{Serialize, Serializer};

/// Whether the hypervisor's software and the machine counted the same exits.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Agreement {
    #[serde(rename = "is_on", serialize_with = "as_bool")]
    #[cfg_attr(test, schemars(with = "bool"))]
    /// Which side it is about.
    pub setting: Setting,
    /// Who counted besides the machine, for readers.
    pub counted_by: &'static str,
    /// That count: KVM's tracepoints, or the reference hypervisor's own.
    pub software: u64,
    /// The machine's own count.
    pub machine: u64,
    /// Exit codes whose counts differ: name, software, machine.
    pub differences: Vec<(String, u64, u64)>,
}

fn as_bool<S: Serializer>(setting: &Setting, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_bool(setting.is_on())
}
