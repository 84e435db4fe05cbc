//! What the silicon's records say, in words, and the section of the manual behind each.

use super::extent::EOI_MSR;
use super::kind::ICR_MSR;
use super::{Doing, Makes};
use crate::drive::counters::Reason;
use crate::drive::example::{exit_of, register_of};
use arch::apic::{DestinationMode, Icr, Scope};
use arch::svm::ExitCode;
use arch::svm::avic::IncompleteIpi;
use trace::exit_reason::{Isa, vmx};
use trace::{Event, Record};

/// A record in words.
pub(super) struct Words {
    pub doing: Doing,
    pub text: String,
    pub rule: &'static str,
    pub makes: Option<Makes>,
}

/// Of EVENTINJ and of the entry interruption information. [APM2 "Event Injection"] [SDM3
/// "VM-Entry Interruption-Information Field"]
const IS_INJECTED: u64 = 1 << 31;

/// None for what says nothing about interrupts. `isa` says whose manual is meant.
pub(super) fn of(record: &Record, isa: Isa, is_x2apic: bool) -> Option<Words> {
    let by = |amd: &'static str, intel: &'static str| if isa == Isa::Svm { amd } else { intel };
    let (doing, text, rule) = match record.event {
        Event::SvmExit { .. } | Event::VmxExit { .. } => {
            let (_, reason) = exit_of(record)?;
            let rule = by("APM2 \"#VMEXIT\"", "SDM3 \"VM Exits\"");
            (Doing::Exit, exit(record, reason), rule)
        }
        Event::Entry { injected, .. } => entry(injected, isa),
        Event::VirtualIpiSent { icr, .. } => (
            Doing::Hardware,
            format!("writes ICR, {}: the processor sends it itself", destination(icr, is_x2apic)),
            by("APM2 \"AVIC IPI Delivery\"", "SDM3 \"IPI Virtualization\""),
        ),
        Event::Posted { vector, .. } => (
            Doing::Hardware,
            format!(
                "requests vector {:x}h in the target's {}",
                vector.0,
                by("backing page", "posted-interrupt descriptor")
            ),
            by("APM2 \"AVIC Backing Page\"", "SDM3 \"Posted-Interrupt Processing\""),
        ),
        Event::Doorbell { target } => (
            Doing::Hardware,
            format!("rings the doorbell of APIC ID {}", target.0),
            "APM2 \"AVIC Doorbell\"",
        ),
        Event::PostedTaken { vector, .. } => (
            Doing::Hardware,
            format!("takes the notification: PIR into the virtual IRR, highest {:x}h", vector.0),
            "SDM3 \"Posted-Interrupt Processing\"",
        ),
        Event::VirtualInterruptAccepted { vector, .. } => (
            Doing::Hardware,
            format!("moves vector {:x}h of the virtual APIC from IRR to ISR", vector.0),
            by("APM2 \"Virtual Interrupt Delivery\"", "SDM3 \"Virtual-Interrupt Delivery\""),
        ),
        Event::VirtualInterruptDelivered { vector, .. } => (
            Doing::Hardware,
            format!("enters the guest's handler of vector {:x}h: no exit", vector.0),
            by("APM2 \"Virtual Interrupt Delivery\"", "SDM3 \"Virtual-Interrupt Delivery\""),
        ),
        Event::VirtualEndOfInterrupt { vector, .. } => (
            Doing::Hardware,
            format!("EOI of vector {:x}h: no exit", vector.0),
            by("APM2 \"Guest vAPIC Register Access Behavior\"", "SDM3 \"EOI Virtualization\""),
        ),
        Event::MessageSignalled { address, data, .. } => (
            Doing::Hardware,
            format!("writes its message: {data:x}h to {:x}h", address.0),
            "PCI \"Message Signalled Interrupts\"",
        ),
        Event::GuestLogged { tag, .. } => (
            Doing::Hardware,
            format!("logs that a vCPU which does not run has an interrupt, GATag {tag:x}h"),
            "IOMMU \"Guest Virtual APIC Log\"",
        ),
        _ => host(record, isa)?,
    };
    let makes = match record.event {
        Event::Posted { .. } => Some(Makes::Request),
        Event::PostedTaken { .. } => Some(Makes::Taken),
        Event::VirtualInterruptAccepted { .. } => Some(Makes::Accepted),
        Event::VirtualEndOfInterrupt { .. } => Some(Makes::Ended),
        _ => None,
    };
    Some(Words { doing, text, rule, makes })
}

/// What an IOMMU does is another manual's.
pub(super) fn rule_of_iommu(event: &Event, isa: Isa) -> Option<&'static str> {
    match event {
        Event::Posted { .. } | Event::Doorbell { .. } if isa == Isa::Svm => {
            Some("IOMMU \"Guest Virtual APIC Interrupt Controller\"")
        }
        Event::Posted { .. } => Some("VTD \"Interrupt-Posting Hardware Operation\""),
        _ => None,
    }
}

/// The section about what a hypervisor has changed in memory, by how the change is worded.
pub(super) fn rule_of_change(text: &str, isa: Isa) -> &'static str {
    let by = |amd: &'static str, intel: &'static str| if isa == Isa::Svm { amd } else { intel };
    let rows = [
        ("int_ctl.", "APM2 \"Virtual Interrupts\""),
        ("pin-based:", "SDM3 \"Pin-Based VM-Execution Controls\""),
        ("secondary:", "SDM3 \"Processor-Based VM-Execution Controls\""),
        ("tertiary:", "SDM3 \"Processor-Based VM-Execution Controls\""),
        ("IsRunning ", "APM2 \"Physical APIC ID Table\""),
        ("host APIC ID ", "APM2 \"Physical APIC ID Table\""),
        ("IRTE: ", by("IOMMU \"Interrupt Remapping Tables\"", "VTD \"Interrupt Remapping\"")),
        ("PIR[", "SDM3 \"Posted-Interrupt Processing\""),
        ("ON ", "SDM3 \"Posted-Interrupt Processing\""),
        ("SN ", "SDM3 \"Posted-Interrupt Processing\""),
        ("NV ", "SDM3 \"Posted-Interrupt Processing\""),
        ("NDST ", "SDM3 \"Posted-Interrupt Processing\""),
    ];
    let row = rows.iter().find(|(start, _)| text.starts_with(start));
    let page = by("APM2 \"AVIC Backing Page\"", "SDM3 \"Virtual-Interrupt Delivery\"");
    row.map_or(page, |(_, rule)| rule)
}

fn entry(injected: u64, isa: Isa) -> (Doing, String, &'static str) {
    if injected & IS_INJECTED == 0 {
        let rule = match isa {
            Isa::Svm => "APM2 \"VMRUN Instruction\"",
            Isa::Vmx => "SDM3 \"VM Entries\"",
        };
        return (Doing::Entry, "enters the guest".into(), rule);
    }
    let (field, rule) = match isa {
        Isa::Svm => ("EVENTINJ", "APM2 \"Event Injection\""),
        Isa::Vmx => ("the entry interruption information", "SDM3 \"Event Injection\""),
    };
    let text = format!("enters the guest with vector {:x}h injected by {field}", injected & 0xFF);
    (Doing::Entry, text, rule)
}

/// What an exit is for, as far as that is about interrupts.
fn exit(record: &Record, reason: Reason) -> String {
    let name = reason.name();
    let register =
        register_of(record).map(|offset| format!(", register {offset:03x}h of the APIC"));
    let why = match record.event {
        Event::SvmExit { code: ExitCode::AvicIncompleteIpi, info1, info2, .. } => {
            format!(", {:?}", IncompleteIpi::from_exit_info([info1, info2]).reason)
        }
        Event::VmxExit { reason: vmx::EOI_INDUCED, qualification, .. } => {
            format!(", vector {qualification:x}h")
        }
        _ => String::new(),
    };
    format!("VM exit: {name}{}{why}", register.unwrap_or_default())
}

/// What an ICR says. In xAPIC mode the destination has eight bits, the highest of 64.
fn destination(icr: u64, is_x2apic: bool) -> String {
    let icr = Icr::from_bits(icr);
    let destination = if is_x2apic { icr.destination() } else { icr.destination() >> 24 };
    let whom = match (icr.shorthand(), icr.destination_mode()) {
        (Scope::Destination, DestinationMode::Physical) => {
            format!("to APIC ID {}", destination)
        }
        (Scope::Destination, DestinationMode::Logical) => {
            format!("to logical destination {:x}h", destination)
        }
        (Scope::SelfOnly, _) => "to itself".into(),
        (Scope::All, _) => "to all".into(),
        (Scope::AllButSelf, _) => "to all others".into(),
    };
    format!("vector {:x}h {whom}", icr.vector())
}

/// The access that a guest left for.
pub(super) fn of_access(record: &Record, is_x2apic: bool) -> Option<String> {
    match record.event {
        Event::MsrWrite { index: ICR_MSR, value } => {
            Some(format!("WRMSR {ICR_MSR:x}h, ICR: {}", destination(value, is_x2apic)))
        }
        Event::MsrWrite { index: EOI_MSR, .. } => Some(format!("WRMSR {EOI_MSR:x}h, EOI")),
        Event::MsrWrite { index, value } => Some(format!("WRMSR {index:x}h of {value:x}h")),
        Event::MsrRead { index, .. } => Some(format!("RDMSR {index:x}h")),
        _ => None,
    }
}

/// What the host's own processors and interrupts do.
fn host(record: &Record, isa: Isa) -> Option<(Doing, String, &'static str)> {
    let apic = match isa {
        Isa::Svm => "APM2 \"Local APIC\"",
        Isa::Vmx => "SDM3 \"Advanced Programmable Interrupt Controller (APIC)\"",
    };
    let text = match record.event {
        Event::InterruptSent { destination, vector, .. } => {
            format!("sends vector {:x}h to APIC ID {destination} of the host", vector.0)
        }
        Event::InterruptAccepted { vector, .. } => {
            format!("vector {:x}h arrives at the host's APIC", vector.0)
        }
        Event::InterruptDelivered { vector, .. } => {
            format!("the host's handler of vector {:x}h", vector.0)
        }
        Event::EndOfInterrupt { vector } => format!("the host's EOI of vector {:x}h", vector.0),
        Event::Halt { .. } => "halts".to_owned(),
        Event::Wake {} => "wakes".to_owned(),
        _ => return None,
    };
    Some((Doing::Host, text, apic))
}
