//! What QEMU's machine types, accelerators and topologies mean for interrupts: names, defaults and
//! limits.
//!
//! Sources: QEMU 2.8 to 10.2, `hw/i386/pc*.c`, `hw/i386/microvm.c`, `hw/core/machine-smp.c`,
//! `accel/kvm/kvm-all.c`, `include/hw/i386/topology.h`. Left out: machines of other architectures.

use crate::vm::{Accelerator, Machine, MachineFamily};
use reading::version::Version;

/// Reads a machine type name: upstream's, and distributions' versions of `pc` and `q35`.
pub fn machine(name: &str) -> Machine {
    use MachineFamily as F;
    // Proxmox appends its own revision.
    let base = name.split('+').next().unwrap_or(name);
    let versioned = |prefix: &str| base.strip_prefix(prefix).map(Version::parse);
    let (family, version) = match base {
        "pc" | "ubuntu" | "kvm" | "xenfv" => (F::I440fx, None),
        "q35" | "ubuntu-q35" => (F::Q35, None),
        "microvm" | "nitro-enclave" => (F::Microvm, None),
        "isapc" => (F::Isapc, None),
        "none" => (F::Unknown, None),
        _ => {
            if let Some(version) = versioned("pc-i440fx-").or_else(|| versioned("xenfv-")) {
                (F::I440fx, version)
            } else if let Some(version) = versioned("pc-q35-") {
                (F::Q35, version)
            } else if let Some(version) = versioned("pc-") {
                (F::I440fx, version)
            } else if base.starts_with("rhel")
                && base[4..].starts_with(|c: char| c.is_ascii_digit())
            {
                (F::I440fx, None)
            } else if is_foreign(base) {
                (F::Foreign, None)
            } else {
                (F::Unknown, None)
            }
        }
    };
    Machine { family, version, name: name.to_owned() }
}

/// Machines of other architectures that people run under KVM or keep beside x86 ones.
fn is_foreign(name: &str) -> bool {
    const PREFIXES: [&str; 9] = [
        "virt",
        "pseries",
        "s390-ccw",
        "powernv",
        "spapr",
        "sbsa-ref",
        "raspi",
        "malta",
        "loongson3",
    ];
    PREFIXES.iter().any(|prefix| name.starts_with(prefix))
}

/// Whether the machine type's own default is a split irqchip; `None` where that is not known.
///
/// Upstream has it for microvm and for pc-q35-4.0 alone: 4.0.1 took it back.
pub fn splits_irqchip_by_default(machine: &Machine, qemu: Option<Version>) -> Option<bool> {
    const Q35_SPLIT: Version = Version::new(4, 0, 0);
    match machine.family {
        MachineFamily::Microvm => Some(true),
        MachineFamily::I440fx | MachineFamily::Isapc => Some(false),
        MachineFamily::Q35 => match (machine.version, machine.name.as_str()) {
            (Some(version), _) => Some(version == Q35_SPLIT),
            // The alias names the newest version, which in QEMU 4.0.0 is the one that splits.
            (None, "q35" | "ubuntu-q35") => Some(qemu == Some(Q35_SPLIT)),
            // Ubuntu's version of QEMU 4.0.
            (None, name) if name.contains("eoan") => None,
            (None, _) => Some(false),
        },
        MachineFamily::OfVmm | MachineFamily::Foreign | MachineFamily::Unknown => None,
    }
}

/// Largest number of vCPUs a machine type takes; `None` where that is not known.
pub fn vcpu_limit(machine: &Machine, qemu: Option<Version>) -> Option<u32> {
    let at_least = |major, minor| Version::new(major, minor, 0);
    match machine.family {
        MachineFamily::I440fx => Some(255),
        MachineFamily::Isapc => Some(1),
        MachineFamily::Microvm => Some(288),
        MachineFamily::Q35 => {
            // Distributions' own versions raise the limit as they please.
            let version = match machine.version {
                Some(version) => version,
                None if matches!(machine.name.as_str(), "q35" | "ubuntu-q35") => {
                    qemu.unwrap_or(Version::new(u16::MAX, 0, 0))
                }
                None => return None,
            };
            Some(if version >= at_least(9, 0) {
                4096
            } else if version >= at_least(8, 1) {
                1024
            } else if version >= at_least(2, 8) {
                288
            } else {
                255
            })
        }
        MachineFamily::OfVmm | MachineFamily::Foreign | MachineFamily::Unknown => None,
    }
}

/// The accelerator a name or a list of fallbacks (`kvm:tcg`) selects first.
pub fn accelerator(list: &str) -> Accelerator {
    match list.split(':').next().unwrap_or_default().trim() {
        "kvm" => Accelerator::Kvm,
        "tcg" | "qtest" => Accelerator::Tcg,
        "hvf" | "whpx" | "nvmm" | "hax" | "xen" | "mshv" => Accelerator::Other,
        _ => Accelerator::Unknown,
    }
}

/// The CPU topology of `-smp`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Topology {
    pub cpus: Option<u32>,
    pub maxcpus: Option<u32>,
    pub sockets: Option<u32>,
    pub dies: Option<u32>,
    pub modules: Option<u32>,
    pub cores: Option<u32>,
    pub threads: Option<u32>,
}

/// vCPUs at start, at most, and the largest APIC ID.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Cpus {
    pub present: u32,
    pub possible: u32,
    pub largest_apic_id: u32,
}

impl Topology {
    /// Fills in what was not given, as QEMU does: the missing level of sockets or cores takes the
    /// rest.
    pub fn resolve(&self) -> Cpus {
        let level = |value: Option<u32>| u64::from(value.unwrap_or(1).max(1));
        let (dies, modules, threads) = (level(self.dies), level(self.modules), level(self.threads));
        let given = self.sockets.is_some() || self.cores.is_some() || self.threads.is_some();
        let product = [dies, modules, level(self.cores), threads]
            .into_iter()
            .fold(level(self.sockets), u64::saturating_mul)
            .min(u64::from(u32::MAX));
        let product_given = if given { product } else { 1 };
        let possible = u64::from(self.maxcpus.or(self.cpus).unwrap_or(0)).max(1);
        let possible = match (self.maxcpus, self.cpus) {
            (None, None) => product_given,
            _ => possible,
        };
        let present = self.cpus.map_or(possible, u64::from);
        let cores = match (self.cores, self.sockets) {
            (Some(_), _) => level(self.cores),
            // Which of the two takes the rest changed with 6.2; the APIC IDs come out the same.
            (None, sockets) => {
                let rest =
                    [dies, modules, threads].into_iter().fold(level(sockets), u64::saturating_mul);
                possible.div_ceil(rest.max(1)).max(1)
            }
        };
        let largest = largest_apic_id(possible.max(present), [dies, modules, cores, threads]);
        let narrow = |value: u64| u32::try_from(value).unwrap_or(u32::MAX);
        Cpus {
            present: narrow(present),
            possible: narrow(possible),
            largest_apic_id: narrow(largest),
        }
    }
}

/// APIC ID of the last of `count` CPUs: each level of the topology takes whole bits.
fn largest_apic_id(count: u64, [dies, modules, cores, threads]: [u64; 4]) -> u64 {
    let bits = |of: u64| u64::BITS - (of.max(1) - 1).leading_zeros();
    let mut index = count.saturating_sub(1);
    let mut id = 0u64;
    let mut shift = 0u32;
    for of in [threads, cores, modules, dies] {
        id |= (index % of) << shift.min(63);
        index /= of;
        shift += bits(of);
    }
    if shift >= 32 { u64::from(u32::MAX) } else { id | (index << shift) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn machine_type_names_give_family_and_version() {
        use MachineFamily as F;
        for (name, family, version) in [
            ("pc", F::I440fx, None),
            ("q35", F::Q35, None),
            ("pc-q35-4.0", F::Q35, Some((4, 0, 0))),
            ("pc-q35-4.0.1", F::Q35, Some((4, 0, 1))),
            ("pc-q35-4.0+pve0", F::Q35, Some((4, 0, 0))),
            ("pc+pve1", F::I440fx, None),
            ("pc-i440fx-9.2+pve1", F::I440fx, Some((9, 2, 0))),
            ("pc-i440fx-rhel7.6.0", F::I440fx, None),
            ("pc-q35-rhel9.4.0", F::Q35, None),
            ("pc-q35-noble", F::Q35, None),
            ("pc-1.3", F::I440fx, Some((1, 3, 0))),
            ("rhel6.6.0", F::I440fx, None),
            ("microvm", F::Microvm, None),
            ("virt-9.0", F::Foreign, None),
            ("s390-ccw-virtio", F::Foreign, None),
            ("$MACHINE", F::Unknown, None),
        ] {
            let read = machine(name);
            let numbers = read.version.map(|v| (v.major, v.minor, v.patch));
            assert_eq!((read.family, numbers), (family, version), "{name}");
        }
    }

    #[test]
    fn only_microvm_and_q35_4_0_split_by_default() {
        for (name, qemu, expected) in [
            ("pc", None, Some(false)),
            ("q35", None, Some(false)),
            ("q35", Some("4.0.0"), Some(true)),
            ("q35", Some("4.0.1"), Some(false)),
            ("pc-q35-3.1", None, Some(false)),
            ("pc-q35-4.0", None, Some(true)),
            ("pc-q35-4.0.1", None, Some(false)),
            ("pc-q35-4.1", None, Some(false)),
            ("pc-i440fx-4.0", None, Some(false)),
            ("pc-q35-eoan", None, None),
            ("pc-q35-rhel9.4.0", None, Some(false)),
            ("microvm", None, Some(true)),
            ("unheard-of", None, None),
        ] {
            let qemu = qemu.and_then(Version::parse);
            assert_eq!(splits_irqchip_by_default(&machine(name), qemu), expected, "{name}");
        }
    }

    #[test]
    fn vcpu_limits_follow_the_machine_version() {
        for (name, qemu, expected) in [
            ("pc", None, Some(255)),
            ("pc-i440fx-10.0", None, Some(255)),
            ("pc-q35-2.7", None, Some(255)),
            ("pc-q35-8.0", None, Some(288)),
            ("pc-q35-8.2", None, Some(1024)),
            ("pc-q35-9.0", None, Some(4096)),
            ("q35", Some("8.1"), Some(1024)),
            ("q35", None, Some(4096)),
            ("pc-q35-rhel9.4.0", None, None),
            ("microvm", None, Some(288)),
        ] {
            let qemu = qemu.and_then(Version::parse);
            assert_eq!(vcpu_limit(&machine(name), qemu), expected, "{name}");
        }
    }

    #[test]
    fn uneven_topologies_spread_apic_ids() {
        let topology = |cpus, sockets, cores, threads| Topology {
            cpus: Some(cpus),
            sockets,
            cores,
            threads,
            ..Topology::default()
        };
        for (smp, expected) in [
            (topology(4, None, None, None), (4, 4, 3)),
            (topology(288, Some(288), Some(1), Some(1)), (288, 288, 287)),
            // 48 cores take 6 bits, 2 threads 1: the second socket starts at 128.
            (topology(192, Some(2), Some(48), Some(2)), (192, 192, 128 + 95)),
            (topology(240, Some(5), Some(48), None), (240, 240, 256 + 47)),
            (Topology { sockets: Some(2), cores: Some(4), ..Topology::default() }, (8, 8, 7)),
            (Topology { cpus: Some(2), maxcpus: Some(300), ..Topology::default() }, (2, 300, 299)),
            (Topology::default(), (1, 1, 0)),
            (
                topology(u32::MAX, Some(u32::MAX), Some(u32::MAX), Some(u32::MAX)),
                (u32::MAX, u32::MAX, u32::MAX),
            ),
        ] {
            let cpus = smp.resolve();
            assert_eq!((cpus.present, cpus.possible, cpus.largest_apic_id), expected, "{smp:?}");
        }
    }
}
