//! AMD-Vi: can each IOMMU post interrupts to vCPUs, and does the driver let it.
//!
//! [IOMMU "Extended Feature Register"], [IOMMU "Guest Virtual APIC"]; drivers/iommu/amd/init.c of
//! Linux 5.15 to 7.3. The driver decides by the firmware's copy of the feature register (IVHD) and
//! shows it in sysfs; a type 10h block has no copy, and then its feature-reporting field decides
//! about GASup.

use super::conclusion::{removed, taken};
use super::draft::Draft;
use super::kvm_amd;
use super::parameter::parameter;
use super::row::Row;
use crate::boot_word::{self, Takes};
use crate::feature::AMD_MODULE;
use crate::finding::{Answer, Evidence, Finding, Needs, Severity};
use crate::inhibit::Vendor;
use reading::cpu::Register;
use reading::iommu::{Efr, Efr2};
use reading::{Facts, IommuKind, Ivhd, KernelFeature};

/// What is known of one unit, from sysfs or, without it, from the firmware table.
struct Unit {
    name: String,
    evidence: Evidence,
    guest_apic: Option<bool>,
    guest_apic_mode: Option<bool>,
    x2apic: Option<bool>,
    snp: Option<bool>,
    guest_apic_under_snp: Option<bool>,
}

pub fn rows(facts: &Facts) -> Vec<Finding> {
    let mut rows = vec![present(facts)];
    rows.extend(units(facts));
    let guest_apic = guest_apic_on(facts, &rows);
    rows.push(guest_apic);
    rows.extend([scopes(facts), irt_cache(facts), irt_flush(facts)]);
    rows
}

/// The rows of every unit.
pub fn units(facts: &Facts) -> Vec<Finding> {
    known_units(facts).iter().flat_map(unit_rows).collect()
}

fn known_units(facts: &Facts) -> Vec<Unit> {
    let of_sysfs: Vec<Unit> = facts
        .iommus
        .get()
        .into_iter()
        .flatten()
        .filter(|iommu| iommu.kind == IommuKind::AmdVi)
        .map(|iommu| {
            let features = iommu.amd.get();
            let efr = features.map(|features| Efr(features.efr));
            let efr2 = features.and_then(|features| features.efr2).map(Efr2);
            Unit {
                name: iommu.name.clone(),
                evidence: iommu.amd.evidence("extended features", |features| match features.efr2 {
                    Some(efr2) => format!(
                        "EFR {:#x}, EFR2 {efr2:#x} ({})",
                        features.efr,
                        features.format.describe()
                    ),
                    None => format!("EFR {:#x} ({})", features.efr, features.format.describe()),
                }),
                // A type 10h block reports GASup itself; both have to agree for the driver to use
                // it.
                guest_apic: efr.map(|efr| efr.has_guest_apic() && only_old_block_allows(facts)),
                guest_apic_mode: efr.map(Efr::has_guest_apic_mode),
                x2apic: efr.map(Efr::has_x2apic),
                snp: efr.map(Efr::has_snp),
                guest_apic_under_snp: efr2.map(Efr2::has_guest_apic_under_snp),
            }
        })
        .collect();
    if !of_sysfs.is_empty() {
        return of_sysfs;
    }
    facts
        .ivrs
        .get()
        .map(|ivrs| ivrs.blocks_in_use().map(|block| of_table(&facts.ivrs.place, block)).collect())
        .unwrap_or_default()
}

/// False if the firmware has nothing newer than type 10h and its first block denies GASup.
fn only_old_block_allows(facts: &Facts) -> bool {
    let Some(ivrs) = facts.ivrs.get() else { return true };
    let mut used = ivrs.blocks_in_use().filter(|block| block.kind == 0x10).peekable();
    used.peek().is_none() || used.all(Ivhd::has_guest_apic)
}

fn of_table(place: &str, block: &Ivhd) -> Unit {
    let (bus, device, function) =
        (block.device_id >> 8, block.device_id >> 3 & 31, block.device_id & 7);
    Unit {
        name: format!("iommu {:04x}:{bus:02x}:{device:02x}.{function}", block.segment),
        evidence: Evidence::new(
            "IVHD block",
            place,
            match block.efr {
                Some(efr) => format!(
                    "type {:x}h, EFR {efr:#x}, EFR2 {:#x}",
                    block.kind,
                    block.efr2.unwrap_or(0)
                ),
                None => format!("type 10h, feature reporting {:#x}", block.attributes),
            },
        ),
        guest_apic: Some(block.has_guest_apic()),
        guest_apic_mode: block.has_guest_apic_mode(),
        x2apic: Some(block.has_x2apic()),
        snp: block.efr.map(|efr| Efr(efr).has_snp()),
        guest_apic_under_snp: block.efr2.map(|efr2| Efr2(efr2).has_guest_apic_under_snp()),
    }
}

fn unit_rows(unit: &Unit) -> Vec<Finding> {
    let row = |id, statement: &str, field: &str, value: Option<bool>, bad: &str| {
        let draft = Draft::new(
            id,
            &unit.name,
            statement,
            format!("[IOMMU \"Extended Feature Register\"] {field}"),
        )
        .evidence(unit.evidence.clone())
        .fix("a firmware update may report it; otherwise another board or CPU", Needs::Firmware);
        match value {
            Some(true) => draft.answer(Answer::Yes, &format!("reported in {field}")),
            Some(false) => draft.answer(Answer::No, bad),
            None => draft.answer(
                Answer::Unknown,
                "the register was not recorded, and a type 10h block does not tell",
            ),
        }
    };
    let mut x2apic = row(
        Row::IommuX2apic,
        "the IOMMU remaps to 32-bit APIC IDs (XTSup)",
        "bit 2",
        unit.x2apic,
        "bit 2 is clear: hosts with more than 255 processors, and x2APIC hosts, lose interrupt remapping",
    );
    x2apic.severity = Severity::Note;
    vec![
        row(
            Row::IommuGuestApic,
            "the IOMMU has guest virtual APIC entries (GASup)",
            "bit 7",
            unit.guest_apic,
            "bit 7 is clear: the driver stays in legacy mode, although it may print GA_vAPIC",
        ),
        row(
            Row::IommuGuestApicMode,
            "the IOMMU has guest virtual APIC mode (GAMSup)",
            "bits 23:21",
            unit.guest_apic_mode,
            "bit 21 is clear: entries can be remapped and not posted",
        ),
        x2apic,
    ]
}

fn present(facts: &Facts) -> Finding {
    let blocks = facts.ivrs.get().map(|ivrs| ivrs.blocks_in_use().count());
    let draft = Draft::new(
        Row::IommuPresent,
        "host",
        "an IOMMU is in use",
        "/sys/class/iommu; [IOMMU \"I/O Virtualization ACPI table\"]",
    )
    .severity(Severity::Warning)
    .evidence(facts.iommus.evidence("IOMMU units", |units| {
        units.iter().map(|unit| unit.name.as_str()).collect::<Vec<_>>().join(" ")
    }))
    .evidence(facts.ivrs.evidence("IVRS table", |_| format!("{} units", blocks.unwrap_or(0))))
    .evidence(
        facts
            .command_line
            .evidence("amd_iommu", |_| facts.kernel_argument("amd_iommu").unwrap_or("not given")),
    );
    if facts.iommus.get().is_some_and(|units| !units.is_empty()) {
        return draft.answer(Answer::Yes, "the driver registered it");
    }
    if let Some(word) = boot_word::taking(facts, Vendor::Amd, &[Takes::Iommu]) {
        let (word, fix) = (word.text(), removed(word));
        return draft.fix(fix, Needs::Reboot).answer(Answer::No, &format!("{word} is given"));
    }
    match (facts.iommus.is_absent(), facts.ivrs.is_absent()) {
        (true, true) => draft
            .fix("enable the IOMMU in the firmware setup, if the machine has one", Needs::Firmware)
            .answer(Answer::No, "the firmware describes none and the kernel uses none"),
        (true, false) => draft
            .fix(
                "see the kernel log for AMD-Vi; enable the IOMMU in the firmware setup",
                Needs::Firmware,
            )
            .answer(Answer::No, "the kernel uses none"),
        (false, _) => {
            draft.answer(Answer::Unknown, "which IOMMUs the kernel uses was not recorded")
        }
    }
}

/// The driver's mode: guest virtual APIC, or legacy.
fn guest_apic_on(facts: &Facts, rows: &[Finding]) -> Finding {
    let line = facts.log_line("AMD-Vi: Virtual APIC enabled");
    let draft = Draft::new(
        Row::IommuGuestApicOn,
        "host",
        "the IOMMU driver runs in guest virtual APIC mode",
        "drivers/iommu/amd/init.c: amd_iommu_guest_ir, check_features, 5.15 to 7.3",
    )
    .evidence(facts.command_line.evidence("amd_iommu_intr", |_| {
        facts.kernel_argument("amd_iommu_intr").unwrap_or("not given (vapic)")
    }))
    .evidence(
        facts.log.evidence("kernel log", |_| line.unwrap_or("does not say that it is enabled")),
    );
    if let Some((answer, reason, fix)) = forbidden(facts, rows) {
        let draft = match fix {
            Some((line, needs)) => draft.fix(line, needs),
            None => draft,
        };
        return draft.answer(answer, &reason);
    }
    if let Some(line) = line {
        return draft.answer(Answer::Yes, &format!("the kernel says: {line}"));
    }
    let units = rows.iter().filter(|row| {
        [Row::IommuPresent, Row::IommuGuestApic, Row::IommuGuestApicMode]
            .iter()
            .any(|id| row.is(*id))
    });
    let all = units.fold(Answer::Yes, |all, row| all.and(row.answer));
    match (all, facts.command_line.get().is_some(), snp_allows(facts)) {
        (Answer::Yes, true, Some(true)) => {
            draft.answer(Answer::Yes, "every unit can, and nothing forbids it")
        }
        (Answer::Yes, false, _) => {
            draft.answer(Answer::Unknown, "the kernel command line is not known")
        }
        (Answer::Yes, _, _) => draft
            .answer(Answer::Unknown, "every unit can, but whether SEV-SNP forbids it is not known"),
        _ => draft.answer(Answer::Unknown, "the IOMMUs are not fully known"),
    }
}

type Fix = Option<(String, Needs)>;

/// What rules guest mode out, the operator's own settings first.
fn forbidden(facts: &Facts, rows: &[Finding]) -> Option<(Answer, String, Fix)> {
    let no = |reason: &str, fix: Fix| Some((Answer::No, reason.to_owned(), fix));
    let words = [Takes::Posting, Takes::Remapping, Takes::Apic, Takes::Messages];
    if let Some(word) = boot_word::taking(facts, Vendor::Amd, &words) {
        let reason = taken(word);
        return no(&reason, Some((removed(word), Needs::Reboot)));
    }
    if let Some(row) = rows.iter().find(|row| row.is(Row::IommuPresent) && row.answer == Answer::No)
    {
        return no("no IOMMU is in use", row.fix.clone().map(|fix| (fix.line, fix.needs)));
    }
    if rows.iter().any(|row| row.is(Row::IommuGuestApic) && row.answer == Answer::No) {
        return no("a unit lacks GASup, which puts all of them into legacy mode", None);
    }
    if rows.iter().any(|row| row.is(Row::IommuGuestApicMode) && row.answer == Answer::No) {
        return no("a unit lacks GAMSup, which puts all of them into legacy guest mode", None);
    }
    if snp_allows(facts) == Some(false) {
        return no(
            "SEV-SNP is on, and the IOMMU has no guest mode under it (SNPAVICSup)",
            Some((
                "kvm_amd.sev_snp=0 and amd_iommu=… without SNP, if no SNP guest is needed".into(),
                Needs::Reboot,
            )),
        );
    }
    let has_cx16 = facts.cpus.first().and_then(|cpu| cpu.cpuid.get()?.bit(1, Register::Ecx, 13));
    if has_cx16 == Some(false) {
        return no("the CPU lacks CMPXCHG16B, which 128-bit entries need", None);
    }
    if facts.log_line("AMD-Vi: Disabling interrupt remapping").is_some() {
        return no(
            "the kernel disabled interrupt remapping: see the firmware bugs in its log",
            Some(("update the firmware".into(), Needs::Firmware)),
        );
    }
    None
}

/// Does SNP leave guest mode usable? Yes if it is off.
fn snp_allows(facts: &Facts) -> Option<bool> {
    if facts.log_line("Virtual APIC due to SNP").is_some() {
        return Some(false);
    }
    let units = known_units(facts);
    if !units.is_empty() && units.iter().all(|unit| unit.snp == Some(false)) {
        return Some(true);
    }
    match kvm_amd::snp_is_on(facts) {
        Some(true) => units
            .iter()
            .map(|unit| unit.guest_apic_under_snp)
            .try_fold(true, |all, one| Some(all && one?)),
        Some(false) => Some(true),
        None => parameter(facts, AMD_MODULE, "sev_snp").0.map(|on| !on),
    }
}

/// An I/O APIC that no IVHD block knows makes the driver give up interrupt remapping.
fn scopes(facts: &Facts) -> Finding {
    let draft = Draft::new(
        Row::IommuIoApicScope,
        "host",
        "every I/O APIC has an IOMMU",
        "drivers/iommu/amd/init.c check_ioapic_information: '[Firmware Bug]: AMD-Vi: IOAPIC[n] not in IVRS table'",
    )
    .evidence(facts.madt.evidence("I/O APICs", |madt| format!("{:?}", madt.io_apics)))
    .evidence(facts.ivrs.evidence("I/O APICs with a special entry", |ivrs| {
        format!("{:?}", ivrs.blocks_in_use().flat_map(|block| block.io_apics.iter()).collect::<Vec<_>>())
    }))
    .fix("ivrs_ioapic[ID]=BUS:DEVICE.FUNCTION on the kernel command line, or a firmware update", Needs::Reboot);
    let (Some(madt), Some(ivrs)) = (facts.madt.get(), facts.ivrs.get()) else {
        let why = match facts.ivrs.is_absent() {
            true => "the firmware describes no IOMMU",
            false => "the tables were not recorded",
        };
        return draft.severity(Severity::Note).answer(Answer::Unknown, why);
    };
    let missing = madt
        .io_apics
        .iter()
        .find(|id| !ivrs.blocks_in_use().any(|block| block.io_apics.contains(id)));
    match missing {
        None => draft.answer(Answer::Yes, "each I/O APIC of the MADT has a special device entry"),
        Some(_) if facts.command_line_words().any(|word| word.starts_with("ivrs_ioapic")) => draft
            .answer(Answer::Yes, "the firmware forgot one, and the kernel command line gives it"),
        Some(id) => draft.answer(
            Answer::No,
            &format!("I/O APIC {id} has no entry: the driver then disables interrupt remapping"),
        ),
    }
}

/// `amd_iommu=irtcachedis`, from 6.5: every interrupt then reads its entry from memory.
fn irt_cache(facts: &Facts) -> Finding {
    let draft = Draft::new(
        Row::IommuEntryCache,
        "host",
        "the IOMMU may cache interrupt remapping entries",
        "Documentation/admin-guide/kernel-parameters.txt amd_iommu=irtcachedis, 6.5 and later",
    )
    .severity(Severity::Note)
    .evidence(
        facts
            .command_line
            .evidence("amd_iommu", |_| facts.kernel_argument("amd_iommu").unwrap_or("not given")),
    )
    .fix("remove irtcachedis from amd_iommu=", Needs::Reboot);
    if facts.command_line.get().is_none() {
        return draft.answer(Answer::Unknown, "the kernel command line is not known");
    }
    match facts.kernel_argument_has("amd_iommu", "irtcachedis") {
        true => draft.answer(Answer::No, "irtcachedis is given"),
        false => draft.answer(Answer::Yes, "nothing disables the cache"),
    }
}

/// Posting follows a vCPU by two fields of its entries, which the IOMMU does not cache; before 6.8
/// the driver flushed the entry all the same, whenever a vCPU was scheduled in or out.
fn irt_flush(facts: &Facts) -> Finding {
    let draft = Draft::new(
        Row::IommuEntryFlush,
        "host",
        "entries of running vCPUs change without a flush of the IOMMU",
        "drivers/iommu/amd/iommu.c, commits 57cdb720eaa5 (6.8) and 98aeb4ea5599 (6.5, with irtcachedis)",
    )
    .severity(Severity::Note)
    .evidence(facts.kernel.evidence("kernel", |kernel| kernel.release.clone()))
    .evidence(
        facts
            .command_line
            .evidence("amd_iommu", |_| facts.kernel_argument("amd_iommu").unwrap_or("not given")),
    )
    .fix("a kernel of 6.8 or later; from 6.5 on amd_iommu=irtcachedis", Needs::Reboot);
    if facts.kernel.get().is_none() {
        return draft.answer(Answer::Unknown, "the kernel is not known");
    }
    let is_uncached = facts.kernel_argument_has("amd_iommu", "irtcachedis");
    let has = |feature| facts.kernel_has(feature);
    match (has(KernelFeature::EntryFlushLeftOut), has(KernelFeature::EntryCacheSwitch)) {
        (Some(true), _) => {
            draft.answer(Answer::Yes, "kernels from 6.8 on flush only what the IOMMU caches")
        }
        (_, Some(true)) if is_uncached => {
            draft.answer(Answer::Yes, "irtcachedis is given: nothing is cached, nor flushed")
        }
        (Some(false), Some(true)) if facts.command_line.get().is_none() => {
            draft.answer(Answer::Unknown, "the kernel command line is not known")
        }
        (Some(false), _) => draft.answer(
            Answer::No,
            "kernels before 6.8 flush the entry whenever a vCPU is scheduled in or out",
        ),
        (None, _) => draft.answer(
            Answer::Unknown,
            "this distribution's kernel carries newer features: its version does not tell",
        ),
    }
}
