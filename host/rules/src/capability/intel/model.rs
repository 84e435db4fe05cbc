//! What a processor's model tells of APICv where neither its capability registers nor the kernel's
//! `vmx flags` are in the input.
//!
//! From 165 dumps of InstLatx64 with MSR 48Bh and 481h or 48Dh: the lists have models all of whose
//! dumps agree on APIC-register virtualization, virtual-interrupt delivery and posted interrupts.
//! 3Eh is in none: Ivy Bridge-EP has all three, and the desktop part of that model has not.

use reading::{CpuKind, Vendor};

/// Servers from Haswell-EP on, small cores from Goldmont on, and clients from Ice Lake on.
const WITH_APICV: &[u32] = &[
    0x3F, 0x4F, 0x55, 0x56, 0x5C, 0x5F, 0x6A, 0x7A, 0x7E, 0x8A, 0x8C, 0x8D, 0x8F, 0x96, 0x97, 0x9A,
    0x9C, 0xA5, 0xA7, 0xAA, 0xAD, 0xB5, 0xB7, 0xBA, 0xBD, 0xBE, 0xBF, 0xC5, 0xC6, 0xCF, 0xD5, 0xD7,
];

/// Clients of Haswell and Broadwell, Skylake to Cannon Lake, and Comet Lake's smallest. The other
/// Comet Lake, A5h, has it.
const CLIENTS_WITHOUT: &[u32] = &[0x3C, 0x3D, 0x46, 0x47, 0x4E, 0x5E, 0x66, 0x8E, 0x9E, 0xA6];

/// Up to Sandy Bridge-EP and Ivy Bridge, and small cores before Goldmont.
const EARLIER_WITHOUT: &[u32] = &[0x17, 0x1D, 0x2C, 0x2D, 0x37, 0x3A, 0x4C, 0x4D];

/// Why a row answers yes that only the model speaks for.
pub const HAS: &str = "all published dumps of this model allow it; its own registers were not read";
/// Why it answers no.
pub const HAS_NOT: &str =
    "no published dump of this model allows it; its own registers were not read";

/// Whether the model has APICv; `None` where it does not tell, as in a virtual machine.
pub fn has_apicv(cpu: &CpuKind) -> Option<bool> {
    let model = intel_family_6(cpu)?;
    if cpu.is_virtual() == Some(true) {
        None
    } else if WITH_APICV.contains(&model) {
        Some(true)
    } else if CLIENTS_WITHOUT.contains(&model) || EARLIER_WITHOUT.contains(&model) {
        Some(false)
    } else {
        None
    }
}

/// Whether it is a client part of the years in which only servers had APICv; `None` if the model
/// is not known.
pub fn is_client_without(cpu: &CpuKind) -> Option<bool> {
    cpu.signature?;
    Some(intel_family_6(cpu).is_some_and(|model| CLIENTS_WITHOUT.contains(&model)))
}

fn intel_family_6(cpu: &CpuKind) -> Option<u32> {
    let signature = cpu.signature.filter(|signature| signature.family == 6)?;
    (cpu.vendor == Some(Vendor::Intel)).then_some(signature.model)
}
