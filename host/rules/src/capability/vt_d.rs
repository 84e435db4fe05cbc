//! VT-d: remapping, extended interrupt mode and posting of each unit, and whether the kernel uses
//! them.
//!
//! [VTD "Capability Register"], [VTD "Extended Capability Register"],
//! [VTD "DMA Remapping Reporting Structure"]; drivers/iommu/intel/irq_remapping.c of Linux 5.15 to
//! 7.3.

use super::conclusion::{removed, taken};
use super::draft::Draft;
use super::row::Row;
use crate::boot_word::{self, Takes};
use crate::finding::{Answer, Finding, Needs, Severity};
use crate::inhibit::Vendor;
use reading::cpu::Register;
use reading::iommu::VtdCapability;
use reading::{Facts, Iommu, IommuKind};

pub fn rows(facts: &Facts) -> Vec<Finding> {
    let mut rows = vec![present(facts), table_allows(facts), no_opt_out(facts)];
    for unit in units(facts) {
        rows.extend(unit_rows(unit));
    }
    let remapping = remapping_on(facts, &rows);
    rows.push(remapping);
    let posting = posting_on(facts, &rows);
    rows.push(posting);
    rows.push(scopes(facts));
    rows
}

fn units(facts: &Facts) -> Vec<&Iommu> {
    facts.iommus.get().into_iter().flatten().filter(|iommu| iommu.kind == IommuKind::VtD).collect()
}

fn present(facts: &Facts) -> Finding {
    let draft = Draft::new(
        Row::IommuPresent,
        "host",
        "an IOMMU is in use",
        "/sys/class/iommu; [VTD \"DMA Remapping Reporting Structure\"]",
    )
    .evidence(facts.iommus.evidence("IOMMU units", |units| {
        units.iter().map(|unit| unit.name.as_str()).collect::<Vec<_>>().join(" ")
    }))
    .evidence(facts.dmar.evidence("DMAR table", |dmar| format!("{} units", dmar.units.len())));
    if !units(facts).is_empty() {
        return draft.answer(Answer::Yes, "the driver registered it");
    }
    if let Some(word) = boot_word::taking(facts, Vendor::Intel, &[Takes::Iommu]) {
        let (word, fix) = (word.text(), removed(word));
        return draft.fix(fix, Needs::Reboot).answer(Answer::No, &format!("{word} is given"));
    }
    if is_off_by_default(facts) {
        return draft
            .fix("intel_iommu=on on the kernel command line", Needs::Reboot)
            .answer(
                Answer::No,
                "the firmware describes it and this kernel does not use it unless asked to: intel_iommu=on is not given",
            );
    }
    match (facts.iommus.is_absent(), facts.dmar.is_absent()) {
        (true, true) => draft
            .fix("enable VT-d in the firmware setup, if the machine has it", Needs::Firmware)
            .answer(Answer::No, "the firmware describes none and the kernel uses none"),
        (true, false) => draft
            .fix("see the kernel log for DMAR; enable VT-d in the firmware setup", Needs::Firmware)
            .answer(Answer::No, "the kernel uses none"),
        (false, _) => {
            draft.answer(Answer::Unknown, "which IOMMUs the kernel uses was not recorded")
        }
    }
}

/// The units are there and nothing forbids them, but the kernel registered none: several
/// distributions build theirs without CONFIG_INTEL_IOMMU_DEFAULT_ON. (drivers/iommu/intel/iommu.c)
pub fn is_off_by_default(facts: &Facts) -> bool {
    // The table is root's to read; the kernel tells of it too.
    let is_told =
        || facts.dmar.is_unknown() && facts.log_line("DMAR-IR: Enabled IRQ remapping").is_some();
    let has_units = facts.dmar.get().is_some_and(|dmar| !dmar.units.is_empty()) || is_told();
    let is_asked_for = |word: &str| {
        let values = word.strip_prefix("intel_iommu=").unwrap_or_default();
        values.split(',').any(|value| matches!(value, "on" | "off"))
    };
    has_units
        && facts.iommus.is_absent()
        && facts.command_line.get().is_some()
        && !facts.command_line_words().any(is_asked_for)
}

fn table_allows(facts: &Facts) -> Finding {
    let draft = Draft::new(
        Row::IommuTableRemapping,
        "host",
        "the firmware allows interrupt remapping (DMAR INTR_REMAP)",
        "[VTD \"DMA Remapping Reporting Structure\"] flags bit 0",
    )
    .evidence(facts.dmar.evidence("DMAR flags", |dmar| format!("{:#04x}", dmar.flags)))
    .fix("enable VT-d interrupt remapping in the firmware setup", Needs::Firmware);
    match facts.dmar.get().map(|dmar| dmar.has_interrupt_remapping()) {
        Some(true) => draft.answer(Answer::Yes, "the flag is set"),
        Some(false) => draft.answer(
            Answer::No,
            "the flag is clear: the kernel does not remap interrupts, whatever the units can do",
        ),
        None if facts.dmar.is_absent() => draft.answer(Answer::No, "there is no DMAR table"),
        None => draft.answer(Answer::Unknown, "the table was not read"),
    }
}

fn no_opt_out(facts: &Facts) -> Finding {
    let overridden = facts.kernel_argument_has("intremap", "no_x2apic_optout");
    let draft = Draft::new(
        Row::IommuX2apicOptOut,
        "host",
        "the firmware does not opt out of x2APIC",
        "[VTD \"DMA Remapping Reporting Structure\"] flags bit 1; irq_remapping.c dmar_x2apic_optout",
    )
    .evidence(facts.dmar.evidence("DMAR flags", |dmar| format!("{:#04x}", dmar.flags)))
    .fix("intremap=no_x2apic_optout on the kernel command line, or the firmware setup", Needs::Reboot);
    if let Some(word) = boot_word::taking(facts, Vendor::Intel, &[Takes::X2apic]) {
        let fix = removed(word);
        return draft.fix(fix, Needs::Reboot).answer(Answer::No, &taken(word));
    }
    match facts.dmar.get().map(|dmar| dmar.opts_out_of_x2apic()) {
        Some(false) => draft.answer(Answer::Yes, "the flag is clear"),
        Some(true) if overridden => {
            draft.answer(Answer::Yes, "it does, and intremap=no_x2apic_optout overrides it")
        }
        Some(true) => draft.answer(Answer::No, "the flag is set: the host stays in xAPIC mode"),
        None if facts.dmar.is_absent() => {
            draft.severity(Severity::Note).answer(Answer::Unknown, "there is no DMAR table")
        }
        None => draft.answer(Answer::Unknown, "the table was not read"),
    }
}

fn unit_rows(unit: &Iommu) -> Vec<Finding> {
    let capability = match (unit.cap.get(), unit.ecap.get()) {
        (Some(&cap), Some(&ecap)) => Some(VtdCapability { cap, ecap }),
        _ => None,
    };
    let row = |id,
               statement: &str,
               source: &str,
               severity,
               value: fn(VtdCapability) -> bool,
               bad: &str| {
        let draft = Draft::new(id, &unit.name, statement, source)
            .severity(severity)
            .evidence(unit.cap.evidence("CAP", |value| format!("{value:#x}")))
            .evidence(unit.ecap.evidence("ECAP", |value| format!("{value:#x}")))
            .fix("none: another processor", Needs::Hardware);
        match capability.map(value) {
            Some(true) => draft.answer(Answer::Yes, "the capability is reported"),
            Some(false) => draft.answer(Answer::No, bad),
            None => draft.answer(Answer::Unknown, "the capability registers were not recorded"),
        }
    };
    vec![
        row(
            Row::IommuRemapping,
            "the unit remaps interrupts",
            "[VTD \"Extended Capability Register\"] bit 3 IR",
            Severity::Warning,
            VtdCapability::has_remapping,
            "not reported: the kernel then remaps on no unit",
        ),
        row(
            Row::IommuExtendedMode,
            "the unit reaches 32-bit APIC IDs (EIM)",
            "[VTD \"Extended Capability Register\"] bit 4 EIM",
            Severity::Note,
            VtdCapability::has_extended_mode,
            "not reported: the host stays in xAPIC mode",
        ),
        row(
            Row::IommuPosting,
            "the unit posts interrupts",
            "[VTD \"Capability Register\"] bit 59 PI",
            Severity::Warning,
            VtdCapability::has_posting,
            "not reported: the kernel then posts on no unit",
        ),
    ]
}

fn every(rows: &[Finding], id: Row) -> Answer {
    let mut found = rows.iter().filter(|row| row.is(id)).map(|row| row.answer).peekable();
    if found.peek().is_none() { Answer::Unknown } else { found.fold(Answer::Yes, Answer::and) }
}

fn remapping_on(facts: &Facts, rows: &[Finding]) -> Finding {
    let line = facts.log_line("Enabled IRQ remapping in");
    let draft =
        Draft::new(
            Row::IommuRemappingOn,
            "host",
            "interrupt remapping is on",
            "drivers/iommu/intel/irq_remapping.c intel_prepare_irq_remapping, 5.15 to 7.3",
        )
        .evidence(facts.command_line.evidence("intremap", |_| {
            facts.kernel_argument("intremap").unwrap_or("not given (on)")
        }))
        .evidence(
            facts.log.evidence("kernel log", |_| line.unwrap_or("does not say that it is enabled")),
        );
    let words = [Takes::Remapping, Takes::Apic];
    if let Some(word) = boot_word::taking(facts, Vendor::Intel, &words) {
        let fix = removed(word);
        return draft.fix(fix, Needs::Reboot).answer(Answer::No, &taken(word));
    }
    if let Some(line) = line {
        return draft.answer(Answer::Yes, &format!("the kernel says: {line}"));
    }
    let needed = [every(rows, Row::IommuTableRemapping), every(rows, Row::IommuRemapping)];
    let present = every(rows, Row::IommuPresent);
    let all = needed.into_iter().fold(present, Answer::and);
    match all {
        Answer::No => draft.answer(Answer::No, "the firmware or a unit does not allow it"),
        Answer::Yes if facts.command_line.get().is_some() => {
            draft.answer(Answer::Yes, "firmware and every unit allow it, and nothing forbids it")
        }
        _ => draft.answer(
            Answer::Unknown,
            "the table, the units or the kernel command line are not known",
        ),
    }
}

fn posting_on(facts: &Facts, rows: &[Finding]) -> Finding {
    let has_cx16 = facts.cpus.first().and_then(|cpu| {
        let in_cpuid = cpu.cpuid.get().and_then(|cpuid| cpuid.bit(1, Register::Ecx, 13));
        in_cpuid.or_else(|| cpu.flags.get().map(|flags| flags.contains("cx16")))
    });
    let draft = Draft::new(
        Row::IommuPostingOn,
        "host",
        "VT-d may post interrupts",
        "drivers/iommu/intel/irq_remapping.c set_irq_posting_cap: every unit has PI, the CPU has CMPXCHG16B, no nopost",
    )
    .evidence(facts.command_line.evidence("intremap", |_| facts.kernel_argument("intremap").unwrap_or("not given (on)")));
    let words = [Takes::Posting, Takes::Messages];
    if let Some(word) = boot_word::taking(facts, Vendor::Intel, &words) {
        let fix = removed(word);
        return draft.fix(fix, Needs::Reboot).answer(Answer::No, &taken(word));
    }
    if has_cx16 == Some(false) {
        return draft.answer(Answer::No, "the CPU lacks CMPXCHG16B");
    }
    if every(rows, Row::IommuPresent) == Answer::No {
        return draft.answer(Answer::No, "no IOMMU is in use");
    }
    let (remapping, posting) = (every(rows, Row::IommuRemappingOn), every(rows, Row::IommuPosting));
    match (remapping, posting, has_cx16) {
        (Answer::No, _, _) => draft.answer(Answer::No, "interrupt remapping is off"),
        (_, Answer::No, _) => draft.answer(Answer::No, "a unit cannot post, and then none does"),
        (Answer::Yes, Answer::Yes, Some(true)) => {
            draft.answer(Answer::Yes, "every unit can post, and remapping is on")
        }
        _ => draft.answer(Answer::Unknown, "remapping, the units or the CPU are not fully known"),
    }
}

/// An I/O APIC without a unit makes the kernel refuse interrupt remapping.
fn scopes(facts: &Facts) -> Finding {
    let draft = Draft::new(
        Row::IommuIoApicScope,
        "host",
        "every I/O APIC has an IOMMU",
        "drivers/iommu/intel/irq_remapping.c parse_ioapics_under_ir: '[Firmware Bug]: ioapic n has no mapping iommu'",
    )
    .evidence(facts.madt.evidence("I/O APICs", |madt| format!("{:?}", madt.io_apics)))
    .evidence(facts.dmar.evidence("I/O APICs in a scope", |dmar| {
        format!("{:?}", dmar.units.iter().flat_map(|unit| unit.io_apics.iter()).collect::<Vec<_>>())
    }))
    .fix("a firmware update", Needs::Firmware);
    let (Some(madt), Some(dmar)) = (facts.madt.get(), facts.dmar.get()) else {
        let why = match facts.dmar.is_absent() {
            true => "the firmware describes no IOMMU",
            false => "the tables were not recorded",
        };
        return draft.severity(Severity::Note).answer(Answer::Unknown, why);
    };
    match madt.io_apics.iter().find(|id| !dmar.units.iter().any(|unit| unit.io_apics.contains(id)))
    {
        None => draft.answer(Answer::Yes, "each I/O APIC of the MADT is in a unit's scope"),
        Some(id) => draft.answer(
            Answer::No,
            &format!("I/O APIC {id} is in no scope: the kernel then does not remap interrupts"),
        ),
    }
}
