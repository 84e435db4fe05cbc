//! Firecracker's configuration file: what `--config-file` takes, JSON.
//!
//! Source: Firecracker 1.x docs/getting-started.md, src/vmm/src/resources.rs. Left out: everything
//! that cannot change what becomes of interrupts; Firecracker has no setting for its PIT.

use super::{Contents, Dialect};
use crate::configuration::input::{Hints, InputError, Kind};
use crate::configuration::other_vmm;
use crate::configuration::yaml::{self, Node};
use crate::position::Lines;
use crate::vm::{Guest, Setting, VmConfiguration, Vmm};

/// One machine.
pub struct Firecracker;

impl Dialect for Firecracker {
    fn kind(&self) -> Kind {
        Kind::Firecracker
    }

    /// JSON with a kernel to boot and a machine or its drives.
    fn recognizes(&self, text: &str) -> bool {
        let has = |key: &str| text.contains(&format!("\"{key}\""));
        text.trim_start().starts_with('{')
            && has("boot-source")
            && (has("machine-config") || has("drives"))
    }

    fn read<'t>(
        &self,
        file: &str,
        lines: &Lines<'t>,
        _: &Hints,
    ) -> Result<Contents<'t>, InputError> {
        Ok(Contents::fixed(Kind::Firecracker, lines, vec![machine(file, lines)?]))
    }
}

fn machine(file: &str, lines: &Lines<'_>) -> Result<VmConfiguration, InputError> {
    let documents = yaml::documents(lines)?;
    let Some(root) = documents.first() else {
        return Err(InputError::whole("no object in this firecracker configuration"));
    };
    let place = |node: &Node| lines.position(node.at.start, node.at.end);
    let mut vm = VmConfiguration::defaults(Vmm::Firecracker, file, place(root));
    other_vmm::apply_defaults(&mut vm);
    if let Some(kernel) = root.path(&["boot-source", "kernel_image_path"]) {
        vm.guest = Setting::implied(Guest::Linux, place(kernel), "a kernel is loaded directly");
    }
    if let Some(node) = root.path(&["machine-config", "vcpu_count"])
        && let Some(count) = node.text().and_then(|text| text.parse::<u32>().ok())
        && count > 0
    {
        vm.vcpus = Setting::written(count, place(node));
        vm.max_vcpus = Setting::written(count, place(node));
        vm.max_apic_id = Setting::written(count - 1, place(node));
    }
    Ok(vm)
}
