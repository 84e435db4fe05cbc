//! Intel and Zhaoxin: the parts of APICv, IPI virtualization, and what kvm_intel makes of them.
//!
//! [SDM3 "Capability Reporting Facility for VMX"]; arch/x86/kvm/vmx/vmx.c, capabilities.h of Linux
//! 5.6 to 7.3. The capability registers decide; without them the kernel's `vmx flags` (5.6 and
//! later) do, and without those the model where it tells.

mod model;

use super::conclusion::{conclude, every, flag_evidence};
use super::draft::Draft;
use super::initial_disk;
use super::parameter::{
    asked, asked_for_and_not_loaded, device_posting_parameter, driver_loaded, loaded_otherwise,
    parameter_of, reload, unread, without_cause,
};
use super::row::Row;
use super::vt_d;
use crate::feature::{Feature, INTEL_MODULE};
use crate::finding::{Answer, Evidence, Finding, Needs, Severity};
pub use model::HAS as HAS_BY_MODEL;
use reading::cpu::Register;
use reading::{CpuKind, Facts, KernelFeature, boolean};

/// A VMX control: the register whose upper half allows it, its bit, and the kernel's name for it.
struct Control {
    id: Row,
    statement: &'static str,
    register: u32,
    bit: u32,
    /// In `vmx flags`; `None` for one the kernel does not list.
    flag: Option<&'static str>,
    /// In the ordinary `flags`, where kernels before 5.6 listed some.
    old_flag: Option<&'static str>,
    /// Controls that KVM demands before it uses this one.
    needs: &'static [Row],
    severity: Severity,
}

/// [SDM3 "Reporting of VMX Capabilities"]: 481h pin-based, 482h primary, 48Bh secondary, 492h
/// tertiary.
const CONTROLS: &[Control] = &[
    Control {
        id: Row::CpuTprShadow,
        statement: "the CPU has a TPR shadow",
        register: 0x482,
        bit: 21,
        flag: Some("vtpr"),
        old_flag: Some("tpr_shadow"),
        needs: &[],
        severity: Severity::Error,
    },
    Control {
        id: Row::CpuApicRegister,
        statement: "the CPU virtualizes APIC registers",
        register: 0x48B,
        bit: 8,
        flag: Some("vapic_reg"),
        old_flag: None,
        needs: &[Row::CpuTprShadow],
        severity: Severity::Error,
    },
    Control {
        id: Row::CpuInterruptDelivery,
        statement: "the CPU delivers virtual interrupts",
        register: 0x48B,
        bit: 9,
        flag: Some("vid"),
        old_flag: None,
        needs: &[Row::CpuTprShadow],
        severity: Severity::Error,
    },
    Control {
        id: Row::CpuPostedInterrupts,
        statement: "the CPU processes posted interrupts",
        register: 0x481,
        bit: 7,
        flag: Some("posted_intr"),
        old_flag: None,
        needs: &[Row::CpuInterruptDelivery],
        severity: Severity::Error,
    },
    Control {
        id: Row::CpuX2apicMode,
        statement: "the CPU virtualizes x2APIC mode",
        register: 0x48B,
        bit: 4,
        flag: None,
        old_flag: None,
        needs: &[Row::CpuTprShadow],
        severity: Severity::Warning,
    },
    Control {
        id: Row::CpuIpi,
        statement: "the CPU virtualizes IPIs",
        register: 0x492,
        bit: 4,
        flag: Some("ipi_virt"),
        old_flag: None,
        needs: &[],
        severity: Severity::Warning,
    },
];

pub fn check(facts: &Facts) -> (Vec<Finding>, Vec<Finding>) {
    let mut findings: Vec<Finding> = facts.cpus.iter().flat_map(processor).collect();
    let driver = driver_loaded(facts, INTEL_MODULE, every(&findings, Row::CpuVmx));
    let apicv = apicv_enabled(facts, &findings, &driver);
    let ipi = ipi_enabled(facts, &findings, apicv.answer);
    let iommu = vt_d::rows(facts);
    let vtd = iommu.iter().find(|row| row.is(Row::IommuPostingOn)).cloned();
    let can_post = vtd.as_ref().map_or(Answer::Unknown, |row| row.answer);
    let posting =
        device_posting_parameter(facts, Feature::PostedInterrupts, apicv.answer, can_post);

    let active = conclude(
        Row::AnswerActive,
        &[&apicv],
        "kvm_intel runs with APICv: each VM uses it unless its configuration inhibits it",
    );
    let ipis = conclude(
        Row::AnswerIpi,
        &[&active, &ipi],
        "the CPU delivers physical-mode IPIs to running vCPUs",
    );
    let device_rows: Vec<&Finding> = [&active, &posting].into_iter().chain(vtd.as_ref()).collect();
    let devices = conclude(
        Row::AnswerDevice,
        &device_rows,
        "VT-d posts MSIs with a single destination to vCPUs",
    );

    findings.extend([driver, apicv, ipi, posting]);
    findings.extend(iommu);
    (vec![active, ipis, devices], findings)
}

fn processor(cpu: &CpuKind) -> Vec<Finding> {
    let mut rows = vec![vmx(cpu), vmx_enabled(cpu)];
    for control in CONTROLS {
        let row = control_row(cpu, control, &rows);
        rows.push(row);
    }
    rows.push(client_part(cpu, &rows));
    rows
}

fn vmx(cpu: &CpuKind) -> Finding {
    let bit = cpu.cpuid.get().and_then(|cpuid| cpuid.bit(1, Register::Ecx, 5));
    let listed = cpu.flags.get().map(|flags| flags.contains("vmx"));
    let draft = Draft::new(
        Row::CpuVmx,
        cpu.subject(),
        "the CPU has VMX",
        "[SDM3 \"Discovering Support for VMX\"] CPUID 1 ECX bit 5",
    )
    .severity(Severity::Error)
    .evidence(cpu.cpuid.evidence("CPUID 00000001h ECX bit 5", |_| {
        bit.map_or("not recorded", |bit| if bit { "1" } else { "0" })
    }))
    .evidence(flag_evidence(cpu, "vmx"));
    let hidden = if cpu.is_virtual() == Some(true) {
        "; the hypervisor below hides or lacks it"
    } else {
        ""
    };
    match bit.or(listed) {
        Some(true) => draft.answer(Answer::Yes, "the processor reports it"),
        Some(false) => {
            draft.answer(Answer::No, &format!("the processor does not report it{hidden}"))
        }
        None => draft.answer(Answer::Unknown, "neither CPUID nor flags were recorded"),
    }
}

/// IA32_FEATURE_CONTROL: firmware can lock VMX off.
fn vmx_enabled(cpu: &CpuKind) -> Finding {
    let control = cpu.msr(0x3A);
    let in_cpuid = cpu.cpuid.get().and_then(|cpuid| cpuid.bit(1, Register::Ecx, 5));
    let listed = cpu.flags.get().map(|flags| flags.contains("vmx"));
    let draft = Draft::new(
        Row::CpuVmxEnabled,
        cpu.subject(),
        "firmware leaves VMX enabled",
        "[SDM3 \"IA32_FEATURE_CONTROL\"] bits 0 and 2; arch/x86/kernel/cpu/feat_ctl.c",
    )
    .severity(Severity::Error)
    .evidence(control.evidence("IA32_FEATURE_CONTROL", |value| format!("{value:#x}")))
    .evidence(flag_evidence(cpu, "vmx"))
    .fix("enable VT-x in the firmware setup", Needs::Firmware);
    match (control.get().map(|value| value & 0b101), in_cpuid, listed) {
        (Some(0b001), _, _) => draft.answer(Answer::No, "locked without VMX"),
        (Some(_), _, _) => draft.answer(Answer::Yes, "VMX is allowed, or not locked"),
        (None, _, Some(true)) => draft.answer(
            Answer::Yes,
            "the kernel lists vmx, which it does not when firmware locked it off",
        ),
        (None, Some(true), Some(false)) => {
            draft.answer(Answer::No, "CPUID reports VMX and the kernel does not list it")
        }
        _ => draft.answer(Answer::Unknown, "the register was not read and nothing else tells"),
    }
}

/// Is the control allowed to be 1? `Err` names what is not known.
fn allowed(cpu: &CpuKind, control: &Control) -> Result<bool, String> {
    // The secondary controls exist if the primary ones can activate them, and so do the tertiary
    // ones.
    let primary = cpu.msr(0x482);
    let activates = match control.register {
        0x48B => Some(63),
        0x492 => Some(49),
        _ => None,
    };
    if let Some(bit) = activates {
        match primary.get() {
            Some(value) if value >> bit & 1 == 0 => return Ok(false),
            Some(_) => {}
            None => return Err(not_read(cpu, 0x482)),
        }
    }
    let register = cpu.msr(control.register);
    match register.get() {
        // The tertiary register holds allowed-1 bits in all its 64.
        Some(value) if control.register == 0x492 => Ok(value >> control.bit & 1 == 1),
        Some(value) => Ok(value >> (32 + control.bit) & 1 == 1),
        None if register.is_absent() => Ok(false),
        None => Err(not_read(cpu, control.register)),
    }
}

fn not_read(cpu: &CpuKind, register: u32) -> String {
    let fact = cpu.msr(register);
    fact.evidence("", |_| "").value.replace("not known", &format!("MSR {register:X}h"))
}

fn control_row(cpu: &CpuKind, control: &Control, earlier: &[Finding]) -> Finding {
    let register = cpu.msr(control.register);
    let listed =
        control.flag.and_then(|flag| cpu.vmx_flags.get().map(|flags| flags.contains(flag)));
    let source = format!(
        "[SDM3 \"Reporting of VMX Capabilities\"] MSR {:X}h bit {}",
        control.register, control.bit
    );
    let mut draft = Draft::new(control.id, cpu.subject(), control.statement, source)
        .severity(control.severity)
        .evidence(
            register
                .evidence(format!("MSR {:X}h", control.register), |value| format!("{value:#018x}")),
        )
        .fix("none: another processor", Needs::Hardware);
    if let Some(flag) = control.flag {
        draft = draft.evidence(cpu.vmx_flags.evidence(format!("vmx flag {flag}"), |flags| {
            if flags.contains(flag) { "listed" } else { "not listed" }
        }));
    }
    let old = control.old_flag.and_then(|flag| {
        let flags = cpu.flags.get()?;
        Some(flags.contains(flag))
    });
    if let Some(flag) = control.old_flag {
        draft = draft.evidence(flag_evidence(cpu, flag));
    }
    let of =
        |id: Row| earlier.iter().find(|row| row.is(id)).map_or(Answer::Unknown, |row| row.answer);
    if of(Row::CpuVmx) == Answer::No {
        return draft.answer(Answer::No, "the processor shows no VMX");
    }
    match (allowed(cpu, control), listed) {
        (Ok(true), _) => match control.needs.iter().find(|id| of(**id) == Answer::No) {
            Some(missing) => {
                draft.answer(Answer::No, &format!("allowed, but KVM drops it without {missing}"))
            }
            None => draft.answer(Answer::Yes, "the capability register allows it"),
        },
        (Ok(false), _) => draft.answer(Answer::No, "the capability registers do not allow it"),
        (Err(_), _) if old == Some(true) => draft.answer(Answer::Yes, "the kernel lists its flag"),
        (Err(_), None) if old == Some(false) => {
            draft.answer(Answer::No, "the kernel does not list its flag")
        }
        (Err(_), Some(true)) => draft.answer(Answer::Yes, "the kernel lists its flag"),
        (Err(_), Some(false)) => draft.answer(Answer::No, "the kernel does not list its flag"),
        (Err(why), None) => match model::has_apicv(cpu).filter(|_| is_of_apicv(control.id)) {
            Some(true) => draft.answer(Answer::Yes, model::HAS),
            Some(false) if control.id != Row::CpuTprShadow => {
                draft.answer(Answer::No, model::HAS_NOT)
            }
            _ => draft.answer(Answer::Unknown, &why),
        },
    }
}

fn is_of_apicv(row: Row) -> bool {
    matches!(
        row,
        Row::CpuTprShadow
            | Row::CpuApicRegister
            | Row::CpuInterruptDelivery
            | Row::CpuPostedInterrupts
    )
}

/// Client parts lacked posted interrupts for years after the servers had them.
fn client_part(cpu: &CpuKind, rows: &[Finding]) -> Finding {
    let posted = rows
        .iter()
        .find(|row| row.is(Row::CpuPostedInterrupts))
        .map_or(Answer::Unknown, |row| row.answer);
    let is_client = model::is_client_without(cpu);
    let draft = Draft::new(
        Row::CpuClientPart,
        cpu.subject(),
        "this is not a client part known to lack posted interrupts",
        "published dumps of MSR 481h: models 3Ch, 3Dh, 46h, 47h, 4Eh, 5Eh, 66h, 8Eh, 9Eh, A6h (Haswell to Comet Lake)",
    )
    .severity(Severity::Note)
    .evidence(Evidence::new(
        "model",
        "CPUID 00000001h EAX",
        cpu.signature.map_or("not known".into(), |s| s.to_string()),
    ));
    match (is_client, posted) {
        (_, Answer::Yes) => draft.answer(Answer::Yes, "it has posted interrupts"),
        (Some(true), _) => {
            draft.answer(Answer::No, "a client part of these models: APICv cannot be switched on")
        }
        (Some(false), _) => draft.answer(Answer::Yes, "not one of these models"),
        (None, _) => draft.answer(Answer::Unknown, "the model is not known"),
    }
}

fn apicv_enabled(facts: &Facts, cpus: &[Finding], driver: &Finding) -> Finding {
    let (value, fact) = parameter_of(facts, Feature::Apicv);
    let draft = Draft::new(
        Row::KvmApicv,
        "host",
        "kvm_intel has APICv enabled",
        "arch/x86/kvm/vmx/vmx.c cpu_has_vmx_apicv: register virtualization, interrupt delivery and posted interrupts",
    )
    .severity(Severity::Error)
    .evidence(fact.evidence("parameter enable_apicv", String::clone));
    if value == Some(true) {
        return draft.answer(
            Answer::Yes,
            "the parameter reads Y, which the module keeps only if the CPU has all it needs",
        );
    }
    const NEEDED: [(Row, &str); 4] = [
        (Row::CpuTprShadow, "a TPR shadow"),
        (Row::CpuApicRegister, "APIC-register virtualization"),
        (Row::CpuInterruptDelivery, "virtual-interrupt delivery"),
        (Row::CpuPostedInterrupts, "posted interrupts"),
    ];
    let lacking: Vec<&str> = NEEDED
        .iter()
        .filter(|(id, _)| every(cpus, *id) == Answer::No)
        .map(|(_, name)| *name)
        .collect();
    if !lacking.is_empty() {
        return draft
            .fix("none: another processor", Needs::Hardware)
            .answer(Answer::No, &format!("the CPU lacks {}", lacking.join(", ")));
    }
    let given =
        asked(facts, INTEL_MODULE, "enable_apicv").filter(|(text, _)| boolean(text) == Some(false));
    let loaded = || {
        let is_open = given.is_none();
        is_open.then(|| loaded_otherwise(facts, Feature::Apicv)).flatten()
    };
    if let Some((reason, evidence, (line, needs))) = loaded()
        .or_else(|| asked_for_and_not_loaded(facts, Feature::Apicv))
        .filter(|_| value == Some(false))
    {
        return draft.evidence_all(evidence).fix(line, needs).answer(Answer::No, &reason);
    }
    let of_disk = initial_disk::gives(facts, Feature::Apicv).filter(|(text, _)| {
        value == Some(false) && given.is_none() && boolean(text) == Some(false)
    });
    if let Some((text, evidence)) = of_disk {
        let (line, needs) = initial_disk::renewal(facts);
        let disk = &facts.initial_disk.place;
        let reason = format!(
            "the module was loaded from the initial RAM disk {disk}, which has an older copy and gives it enable_apicv={text}"
        );
        return draft.evidence(evidence).fix(line, needs).answer(Answer::No, &reason);
    }
    match (value, given) {
        (Some(_), Some((text, place))) => draft
            .evidence(Evidence::new("option enable_apicv", place.clone(), text.clone()))
            .fix(format!("remove enable_apicv={text} from {place}"), reload(facts, INTEL_MODULE))
            .answer(Answer::No, "the option enable_apicv is given as off"),
        (Some(_), None) => draft
            .fix(switch_on(facts, "enable_apicv=1"), reload(facts, INTEL_MODULE))
            .answer(Answer::No, "the parameter reads N: the CPU lacks a part, it was given when the module was loaded, or kvm keeps it from an earlier load"),
        (None, _) if driver.answer == Answer::No => draft.answer(Answer::No, &driver.reason),
        (None, Some((text, place))) => draft
            .evidence(Evidence::new("option enable_apicv", place.clone(), text.clone()))
            .fix(format!("remove enable_apicv={text} from {place}"), reload(facts, INTEL_MODULE))
            .answer(Answer::No, "the option enable_apicv is given as off"),
        (None, None) => draft.answer(Answer::Unknown, &unread("enable_apicv", &fact)),
    }
}

fn is_builtin(facts: &Facts) -> bool {
    reload(facts, INTEL_MODULE) == Needs::Reboot
}

fn switch_on(facts: &Facts, option: &str) -> String {
    match is_builtin(facts) {
        true => format!("kvm_intel.{option} on the kernel command line"),
        false => format!("echo 'options kvm_intel {option}' >>/etc/modprobe.d/avicenna.conf"),
    }
}

fn ipi_enabled(facts: &Facts, cpus: &[Finding], apicv: Answer) -> Finding {
    let (value, fact) = parameter_of(facts, Feature::IpiVirtualization);
    let kernel = facts.kernel_has(KernelFeature::IntelIpiv);
    let draft = Draft::new(
        Row::KvmIpi,
        "host",
        "kvm_intel uses IPI virtualization",
        "arch/x86/kvm/vmx/vmx.c, parameter enable_ipiv, 6.0 and later",
    )
    .evidence(fact.evidence("parameter enable_ipiv", String::clone))
    .evidence(facts.kernel.evidence("kernel", |kernel| kernel.release.clone()));
    let cpu = every(cpus, Row::CpuIpi);
    match value {
        Some(true) => draft.answer(Answer::Yes, "the parameter reads Y"),
        Some(false) if cpu == Answer::No => draft
            .fix("none: another processor", Needs::Hardware)
            .answer(Answer::No, "the CPU does not virtualize IPIs"),
        Some(false) if cpu == Answer::Unknown => {
            draft.fix(switch_on(facts, "enable_ipiv=1"), reload(facts, INTEL_MODULE)).answer(
                Answer::No,
                "the parameter reads N: APICv is off, the CPU lacks it, or it was given so",
            )
        }
        Some(false) => without_cause(facts, draft, Feature::IpiVirtualization, apicv),
        None if cpu == Answer::No => draft
            .fix("none: another processor", Needs::Hardware)
            .answer(Answer::No, "the CPU does not virtualize IPIs"),
        None if kernel == Some(false) || fact.is_absent() => draft
            .fix("run kernel 6.0 or later", Needs::Reboot)
            .answer(Answer::No, "this kernel does not know IPI virtualization"),
        None => draft.answer(Answer::Unknown, &unread("enable_ipiv", &fact)),
    }
}
