//! What several rules about parameters of modules say alike.

use crate::configuration::change::ParameterChange;
use crate::configuration::{Kind, ModuleOption};
use crate::feature::vendor_of_module;
use crate::inhibit::Vendor;
use crate::lint::outcome::Outcome;
use crate::lint::subject::Options;

/// The kernel's reading of a switch; a name alone is a yes.
pub fn switch(option: &ModuleOption) -> Option<bool> {
    match option.value.as_deref() {
        None => Some(true),
        Some("1" | "y" | "Y" | "t" | "T" | "on" | "ON" | "On") => Some(true),
        Some("0" | "n" | "N" | "f" | "F" | "off" | "OFF" | "Off") => Some(false),
        Some(_) => None,
    }
}

pub fn is_open(option: &ModuleOption) -> bool {
    let has_variable = |text: &str| text.contains(['$', '`']);
    has_variable(&option.name) || option.value.as_deref().is_some_and(has_variable)
}

/// Says that variables may hold what the rule looks for in KVM's modules, if there are any.
pub fn open_words(options: &Options<'_>, outcome: &mut Outcome) {
    open_words_of(options, outcome, |module| module.starts_with("kvm"));
}

/// The same of other modules. A file of modprobe.d names the module on each line; on a kernel
/// command line a variable may hold any words.
pub fn open_words_of(
    options: &Options<'_>,
    outcome: &mut Outcome,
    concerns: impl Fn(&str) -> bool,
) {
    if !outcome.found.is_empty() {
        return;
    }
    let may_hold = |option: &&ModuleOption| {
        is_open(option) && (options.kind != Kind::Modprobe || concerns(&option.module))
    };
    if let Some(open) = options.given.iter().find(may_hold) {
        let text = open.value.as_deref().filter(|value| value.contains('$')).unwrap_or(&open.name);
        let what = match text.strip_prefix("$(install ").and_then(|rest| rest.strip_suffix(')')) {
            Some(line) => format!("what the line 'install {line}' gives"),
            None => text.to_owned(),
        };
        outcome.undecided(Some(open.at), format!("{what} is not known here"));
    }
}

/// Whether what counts more gives the same parameter, so that this one does nothing: a file that is
/// read later, or the kernel command line.
fn is_overridden(option: &ModuleOption, options: &Options<'_>) -> bool {
    options
        .later
        .iter()
        .any(|other| other.module == option.module && other.name == option.name && !is_open(other))
}

/// Reports every option that fits and counts, and open words if none does.
pub fn each(
    options: &Options<'_>,
    outcome: &mut Outcome,
    violated: impl Fn(&ModuleOption, &mut Outcome),
) {
    let counts = |option: &&ModuleOption| !is_open(option) && !is_overridden(option, options);
    for option in options.given.iter().filter(counts) {
        // A rule for one vendor has nothing to say about the other's module.
        let concerns =
            vendor_of_module(&option.module).is_none_or(|vendor| options.vendors.contains(&vendor));
        if concerns && option.module.starts_with("kvm") {
            violated(option, outcome);
        }
    }
    open_words(options, outcome);
}

fn full_name(option: &ModuleOption, kind: Kind) -> String {
    if kind == Kind::Modprobe {
        option.name.clone()
    } else {
        format!("{}.{}", option.module, option.name)
    }
}

pub fn set(option: &ModuleOption, kind: Kind, value: &'static str) -> ParameterChange {
    let name = full_name(option, kind);
    ParameterChange::Set { at: option.at, value_at: option.value_at, name, value }
}

pub fn remove(option: &ModuleOption, kind: Kind) -> ParameterChange {
    ParameterChange::Remove { at: option.at, name: full_name(option, kind) }
}

pub fn concerned(option: &ModuleOption) -> Vec<Vendor> {
    vendor_of_module(&option.module).into_iter().collect()
}
