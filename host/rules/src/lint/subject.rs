//! What rules are asked about: a machine, or the parameters of a host, on one target.

use crate::configuration::{Kind, ModuleOption};
use crate::inhibit::{PredictedInhibit, Reason, Vendor, predict};
use crate::vm::VmConfiguration;
use reading::Kernel;
use reading::version::Version;

/// One machine on one target, as rules see it.
#[derive(Clone, Copy)]
pub struct Subject<'a> {
    pub vm: &'a VmConfiguration,
    pub kernel: Option<&'a Kernel>,
    pub qemu: Option<Version>,
    pub vendors: &'a [Vendor],
}

impl Subject<'_> {
    /// The predicted inhibits of a reason, with the vendors they hit.
    pub fn inhibits(&self, reason: Reason) -> Vec<(Vendor, PredictedInhibit)> {
        let mut found = Vec::new();
        for &vendor in self.vendors {
            let predicted = predict(vendor, self.kernel, self.qemu, self.vm);
            let matching = predicted.into_iter().filter(|one| one.reason == reason);
            found.extend(matching.map(|one| (vendor, one)));
        }
        found
    }
}

/// The options of a host on one target, as rules see them.
#[derive(Clone, Copy)]
pub struct Options<'a> {
    /// How they are written.
    pub kind: Kind,
    pub given: &'a [ModuleOption],
    pub kernel: Option<&'a Kernel>,
    pub vendors: &'a [Vendor],
    /// What other files of the same host give.
    pub elsewhere: &'a [ModuleOption],
    /// What of it counts more.
    pub later: &'a [ModuleOption],
}
