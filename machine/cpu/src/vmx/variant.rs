//! The switches of VMX: the points that its manual leaves open.

use super::apicv::{CommandHalves, HoleRead, PostedRequest};
use crate::variant::row::{Variant, choice};

/// All of them.
pub(crate) const VARIANTS: &[Variant] = &[
    choice!("ipi-virtualization-alone",
        "which halves of the ICR are virtual by memory where IPI virtualization alone makes them so",
        "SDM3 \"IPI Virtualization\" names both; KVM never has it alone",
        vmx.apicv.ipi_virtualization_alone: "both" = CommandHalves::Both,
        "low" = CommandHalves::Low, "neither" = CommandHalves::Neither),
    choice!("ipi-reserved-bits",
        "an IPI by memory whose ICR has reserved bits set, under IPI virtualization",
        "SDM3 \"APIC-Write Emulation\" lists them for an IPI to the processor itself",
        vmx.apicv.ignores_reserved_command_bits: "exit" = false, "sent" = true),
    choice!("apic-write-busy",
        "the delivery status that the page keeps at an APIC-write exit for the ICR",
        "Linux found it set on some parts, and clears it since 6.6",
        vmx.apicv.leaves_busy_set: "clear" = false, "set" = true),
    choice!("x2apic-hole-read",
        "RDMSR of 800h to 8FFh that is not a register, with APIC-register virtualization",
        "SDM3 \"Virtualizing MSR-Based APIC Accesses\" reads as the page for any index",
        vmx.apicv.hole_read: "page" = HoleRead::Page, "gp" = HoleRead::GeneralProtection),
    choice!("posted-request",
        "the new RVI of posted-interrupt processing, where RVI was below a vector in VIRR",
        "SDM3 \"Posted-Interrupt Processing\" takes the maximum; emulators search the page",
        vmx.apicv.posted_request: "maximum" = PostedRequest::Maximum,
        "highest-in-page" = PostedRequest::HighestInPage),
];
