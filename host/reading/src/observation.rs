//! What is seen of a running machine while it is watched.

use crate::function::InterruptCounter;
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt;
use trace::inhibit::Reason;

/// Where KVM sent an interrupt at last: `kvm_pi_irte_update`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Route {
    /// The IOMMU posts it.
    pub is_posted: bool,
    /// The vCPU that takes it; `None` where the kernel names none.
    pub vcpu: Option<u32>,
    /// The guest's vector.
    pub vector: u32,
}

impl fmt::Display for Route {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.vcpu {
            Some(vcpu) => write!(f, "vCPU {vcpu}, vector {:02x}h", self.vector),
            None => write!(f, "vector {:02x}h", self.vector),
        }
    }
}

/// What was seen of a running machine for a while.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Observation {
    /// How: "tracefs, 5 s".
    pub source: String,
    /// For how long it was watched.
    pub seconds: f64,
    /// Seconds with each reason set, as far as changes were seen.
    #[cfg_attr(feature = "schema", schemars(with = "Vec<(String, f64)>"))]
    pub reasons: Vec<(Reason, f64)>,
    /// Seconds with no reason set; `None` if no change told the state.
    pub active_seconds: Option<f64>,
    /// Inhibits set and cleared.
    pub changes: u64,
    /// Interrupts that the hardware took.
    pub accelerated: u64,
    /// Interrupts that software injected.
    pub injected: u64,
    /// Where KVM last sent interrupts of functions, by the host's number of the interrupt.
    #[cfg_attr(feature = "schema", schemars(with = "BTreeMap<String, Route>"))]
    pub routes: BTreeMap<u32, Route>,
    /// Times that the host took interrupts of functions, by number.
    #[cfg_attr(feature = "schema", schemars(with = "BTreeMap<String, u64>"))]
    pub taken: BTreeMap<u32, u64>,
    /// vCPUs that KVM woke for a posted interrupt, on the whole host: entries of AMD's
    /// GA log, interrupts with Intel's wake-up vector.
    pub woken: u64,
    /// Rows of `/proc/interrupts` at the end.
    #[serde(skip)]
    pub interrupts: Vec<InterruptCounter>,
}

impl Observation {
    /// Part of the time with the feature active.
    pub fn active_share(&self) -> Option<f64> {
        match self.active_seconds {
            Some(active) if self.seconds > 0.0 => Some((active / self.seconds).clamp(0.0, 1.0)),
            Some(_) => None,
            // Without a change the state never changed: interrupts tell which it was.
            None if self.accelerated > 0 && self.injected == 0 => Some(1.0),
            None if self.injected > 0 && self.accelerated == 0 => Some(0.0),
            None => None,
        }
    }
}
