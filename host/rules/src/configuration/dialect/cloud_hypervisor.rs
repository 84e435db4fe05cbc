//! Cloud Hypervisor's configuration of a machine: what `vm.create` of its API takes, JSON.
//!
//! Source: Cloud Hypervisor v48 vmm/src/api/openapi/cloud-hypervisor.yaml, `VmConfig`. Left out:
//! everything that cannot change what becomes of interrupts.

use super::{Contents, Dialect};
use crate::configuration::input::{Hints, InputError, Kind};
use crate::configuration::other_vmm;
use crate::configuration::yaml::{self, Node};
use crate::position::Lines;
use crate::vm::{Passthrough, Setting, VmConfiguration, Vmm};

/// One machine.
pub struct CloudHypervisor;

impl Dialect for CloudHypervisor {
    fn kind(&self) -> Kind {
        Kind::CloudHypervisor
    }

    /// JSON with numbers of processors as this API has them.
    fn recognizes(&self, text: &str) -> bool {
        let has = |key: &str| text.contains(&format!("\"{key}\""));
        text.trim_start().starts_with('{') && has("cpus") && has("boot_vcpus")
    }

    fn read<'t>(
        &self,
        file: &str,
        lines: &Lines<'t>,
        _: &Hints,
    ) -> Result<Contents<'t>, InputError> {
        Ok(Contents::fixed(Kind::CloudHypervisor, lines, vec![machine(file, lines)?]))
    }
}

fn machine(file: &str, lines: &Lines<'_>) -> Result<VmConfiguration, InputError> {
    let documents = yaml::documents(lines)?;
    let root = documents.first();
    // `vm.info` has the same below `config`.
    let root = root.and_then(|root| root.get("config").or(Some(root)));
    let Some(root) = root.filter(|root| root.path(&["cpus", "boot_vcpus"]).is_some()) else {
        return Err(InputError::whole("no cpus.boot_vcpus in this cloud-hypervisor configuration"));
    };
    let place = |node: &Node| lines.position(node.at.start, node.at.end);
    let mut vm = VmConfiguration::defaults(Vmm::CloudHypervisor, file, place(root));
    other_vmm::apply_defaults(&mut vm);
    let number = |key: &str| {
        let node = root.path(&["cpus", key])?;
        let count = node.text()?.parse::<u32>().ok().filter(|count| *count > 0)?;
        Some((count, place(node)))
    };
    if let Some((count, at)) = number("boot_vcpus") {
        let (most, most_at) = number("max_vcpus").unwrap_or((count, at));
        vm.vcpus = Setting::written(count, at);
        vm.max_vcpus = Setting::written(most.max(count), most_at);
        vm.max_apic_id = Setting::written(most.max(count) - 1, most_at);
    }
    if let Some(node) = root.path(&["cpus", "kvm_hyperv"]).filter(|node| node.is_true()) {
        other_vmm::cloud_hypervisor_hyperv(&mut vm, place(node));
    }
    let kernel = root.path(&["payload", "kernel"]).or_else(|| root.path(&["kernel", "path"]));
    if let Some(kernel) = kernel.filter(|node| node.text().is_some()) {
        other_vmm::boots_kernel(&mut vm, kernel.text(), place(kernel));
    }
    for device in root.get("devices").map(Node::children).unwrap_or_default() {
        let driver = "vfio".to_owned();
        let at = place(device);
        vm.passthrough.push(Passthrough { driver, at, bypasses: Vec::new() });
    }
    Ok(vm)
}
