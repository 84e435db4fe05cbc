//! Parameters of KVM's modules: what they read, what was asked for, and what makes them read
//! otherwise.

use super::draft::Draft;
use super::initial_disk::{self, Copy};
use super::row::Row;
use crate::configuration::given;
use crate::feature::{COMMON_MODULE, Feature, Parameter};
use crate::finding::{Answer, Evidence, Finding, Needs, Severity};
use reading::{Fact, Facts, Reading, boolean};

/// What switches a feature, and its evidence.
pub fn parameter_of(facts: &Facts, feature: Feature) -> (Option<bool>, Fact<String>) {
    let Parameter { module, name, .. } = feature.parameter();
    parameter(facts, module, name)
}

/// A boolean module parameter and its evidence.
pub fn parameter(facts: &Facts, module: &str, name: &str) -> (Option<bool>, Fact<String>) {
    let fact = facts.parameter(module, name);
    (fact.get().and_then(|text| boolean(text)), fact)
}

/// The vendor's module is loaded.
pub fn driver_loaded(facts: &Facts, module: &str, can_load: Answer) -> Finding {
    let fact = facts.module(module);
    let others: Vec<&str> = facts
        .modules
        .iter()
        .filter(|(name, fact)| name.starts_with("kvm_") && *name != module && fact.get().is_some())
        .map(|(name, _)| name.as_str())
        .collect();
    let draft = Draft::new(
        Row::KvmDriver,
        "host",
        format!("{module} is loaded"),
        "arch/x86/kvm, /sys/module",
    )
    .severity(Severity::Error)
    .evidence(fact.evidence(format!("module {module}"), |module| {
        match (module.is_builtin, module.users) {
            (true, _) => "built in".to_string(),
            (false, Some(users)) => format!("loaded, {users} users"),
            (false, None) => "loaded".to_string(),
        }
    }));
    if fact.get().is_some() {
        return draft.answer(Answer::Yes, "the module is there");
    }
    if fact.is_unknown() {
        return draft.answer(Answer::Unknown, "the loaded modules were not recorded");
    }
    match (can_load, others.first()) {
        (Answer::No, Some(other)) => draft.answer(
            Answer::No,
            &format!("the processor shows no virtualization, and KVM runs on {other} instead"),
        ),
        (Answer::No, None) => {
            draft.answer(Answer::No, "the processor shows no virtualization to drive")
        }
        (_, Some(other)) => draft.answer(Answer::No, &format!("KVM runs on {other} instead")),
        (_, None) => draft
            .fix(format!("modprobe {module}"), Needs::Live)
            .answer(Answer::No, "the module is not loaded"),
    }
}

/// The parameter that allows posting of device interrupts, whichever module of this kernel has it.
pub fn device_posting_parameter(
    facts: &Facts,
    feature: Feature,
    active: Answer,
    iommu: Answer,
) -> Finding {
    let Parameter { module, name, since } = feature.parameter();
    let draft = Draft::new(
        Row::KvmDevicePosting,
        "host",
        "KVM may post device interrupts",
        format!(
            "arch/x86/kvm/x86.c, svm/svm.c, vmx/vmx.c, parameter {name}, {} and later",
            since.map_or("any", |_| "6.16")
        ),
    );
    let facts_of = [parameter(facts, module, name), parameter(facts, COMMON_MODULE, name)];
    if let Some((value, fact)) = facts_of.iter().find(|(value, _)| value.is_some()) {
        let draft = draft.evidence(fact.evidence(format!("parameter {name}"), String::clone));
        return match value {
            Some(false) if iommu == Answer::No => draft.answer(
                Answer::No,
                "the parameter reads N, as it does where the IOMMU cannot post",
            ),
            Some(false) => without_cause(facts, draft, feature, active),
            _ => draft.answer(
                Answer::Yes,
                "the parameter reads Y, which the kernel grants only if the IOMMU can post",
            ),
        };
    }
    let fact = &facts_of[0].1;
    let draft = draft.evidence(fact.evidence(format!("parameter {name}"), String::clone));
    if fact.is_absent() {
        return draft
            .answer(Answer::Yes, "this kernel has no such parameter: it always posts when it can");
    }
    match since.and_then(|since| facts.kernel_has(since)) {
        Some(false) => draft.answer(
            Answer::Yes,
            "kernels before 6.16 have no such parameter: they post when they can",
        ),
        _ => draft.answer(Answer::Unknown, &unread(name, fact)),
    }
}

/// A parameter that reads N although the hardware has what it stands for. The variable is kvm's,
/// the parameter its vendor half's: loading that half with APIC virtualization off clears it, and
/// loading it again does not set it, unless the option is given. (arch/x86/kvm/x86.c, svm/svm.c,
/// vmx/vmx.c: enable_apicv, enable_ipiv, enable_device_posted_irqs)
pub fn without_cause(facts: &Facts, draft: Draft, feature: Feature, active: Answer) -> Finding {
    let Parameter { module, name: option, .. } = feature.parameter();
    if let Some((text, place)) =
        asked(facts, module, option).filter(|(text, _)| boolean(text) == Some(false))
    {
        return draft
            .evidence(Evidence::new(format!("option {option}"), place.clone(), text.clone()))
            .fix(format!("{option}=1 instead of {option}={text} in {place}"), reload(facts, module))
            .answer(Answer::No, &format!("the option {option} is given as off"));
    }
    if active == Answer::No {
        return draft.answer(
            Answer::No,
            "the parameter reads N, as it does while APIC virtualization is off",
        );
    }
    let (line, needs) = match facts.module(COMMON_MODULE).get().is_some_and(|kvm| kvm.is_builtin) {
        true => (
            format!("echo 'options {module} {option}=1' >>/etc/modprobe.d/avicenna.conf"),
            reload(facts, module),
        ),
        false => (reload_line(facts, module), Needs::ModuleReload),
    };
    draft.fix(line, needs).answer(
        Answer::No,
        &format!("the parameter reads N and no option asks for it: it was given by hand, or kvm keeps the N of an earlier load of {module} without APIC virtualization until kvm itself is loaded again"),
    )
}

/// The option as given to the module, on the kernel command line or in modprobe.d.
pub fn asked(facts: &Facts, module: &str, option: &str) -> Option<(String, String)> {
    given::option(facts, module, option)
}

/// The parameter reads N although files of modprobe.d or the kernel command line ask for it: the
/// module was loaded before they did, or from an initial RAM disk that has older ones. With the
/// reason, what was read, and what repairs it.
pub fn asked_for_and_not_loaded(
    facts: &Facts,
    feature: Feature,
) -> Option<(String, Vec<Evidence>, (String, Needs))> {
    let Parameter { module, name, .. } = feature.parameter();
    let (value, place) =
        asked(facts, module, name).filter(|(text, _)| boolean(text) == Some(true))?;
    if parameter(facts, module, name).0 != Some(false) {
        return None;
    }
    let needs = reload(facts, module);
    let again = match needs {
        Needs::Reboot => "reboot".to_owned(),
        _ => reload_line(facts, module),
    };
    let reason = format!("{name} is asked for in {place}, but the module was loaded without it");
    let option = Evidence::new(format!("option {name}"), place.clone(), value);
    if place == facts.command_line.place {
        // It was there before any module.
        let reason = format!("{reason}: by insmod, or by a command that gave it another value");
        return Some((reason, vec![option], (again, needs)));
    }
    let disk = facts.initial_disk.place.as_str();
    let renewed = initial_disk::renewal(facts);
    let (why, of_disk, fix) = match initial_disk::copy(facts, feature) {
        Copy::Older(evidence) => {
            let why = format!("from the initial RAM disk {disk}, which has an older copy");
            (why, Some(evidence), renewed)
        }
        Copy::Innocent(evidence) => {
            let why =
                format!("before the file said so; the initial RAM disk {disk} is not the cause");
            (why, Some(evidence), (again, needs))
        }
        Copy::MayBeOlder(evidence) => {
            let why = format!(
                "from the initial RAM disk {disk}, which may have an older copy, or before the file said so"
            );
            (why, Some(evidence), renewed)
        }
        Copy::Unknown => {
            let why = "before the file said so, or from an initial RAM disk that has an older copy";
            (why.to_owned(), None, (again, needs))
        }
    };
    let reason = format!("{reason}: {why}");
    Some((reason, std::iter::once(option).chain(of_disk).collect(), fix))
}

/// A line of modprobe.d loads the module by a command of its own, so that no option of ours may
/// reach it. With the reason, what was read, and what repairs it.
pub fn loaded_otherwise(
    facts: &Facts,
    feature: Feature,
) -> Option<(String, Vec<Evidence>, (String, Needs))> {
    let Parameter { module, name, .. } = feature.parameter();
    let (line, place) = given::unfollowed(facts, module)?;
    let evidence = Evidence::new(format!("install {module}"), place.clone(), line.clone());
    let reason = format!(
        "the module was loaded without {name}=1, and what the next load gives it is up to a command: {line} in {place}"
    );
    let fix = format!("have that line pass {name}=1 on, or take it out");
    Some((reason, vec![evidence], (fix, reload(facts, module))))
}

/// Unloads a module and loads it again: kvm keeps what its vendor half cleared, so both go. One
/// that is built in stays.
pub fn reload_line(facts: &Facts, module: &str) -> String {
    match facts.module(COMMON_MODULE).get().is_some_and(|kvm| kvm.is_builtin) {
        true => format!("modprobe -r {module} && modprobe {module}"),
        false => format!("modprobe -r {module} {COMMON_MODULE} && modprobe {module}"),
    }
}

/// What it takes to give a module other options.
pub fn reload(facts: &Facts, module: &str) -> Needs {
    match facts.module(module).get().is_some_and(|module| module.is_builtin) {
        true => Needs::Reboot,
        false => Needs::ModuleReload,
    }
}

/// Why a parameter is not known.
pub fn unread(name: &str, fact: &Fact<String>) -> String {
    match &fact.reading {
        Reading::Unreadable(why) => format!("parameter {name}: {why}"),
        Reading::NotUnderstood(what) => format!("parameter {name}: not understood: {what}"),
        Reading::Absent => format!("the module has no parameter {name}"),
        Reading::Value(value) => {
            format!("parameter {name} reads '{value}', which is neither Y nor N")
        }
    }
}
