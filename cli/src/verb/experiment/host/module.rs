//! KVM's modules with the parameters of a setting.

use super::options::Options;
use super::said::Said;
use super::undo::{Undo, run, write};
use ::experiment::place::{Change, Failure, Remark, Teller, Weight};
use ::experiment::plan::{Plan, Setting};
use rules::feature::{COMMON_MODULE, vendor_of_module};
use std::collections::{BTreeMap, BTreeSet};

/// Module, parameter, value.
pub type Wanted = (String, String, String);

/// What a feature is called as a parameter, and what has to be on with it.
fn of_feature(of: &str, level: &str) -> Vec<Wanted> {
    let value = if level == "on" { "Y" } else { "N" };
    let one = |module: &str, name: &str, value: &str| (module.into(), name.into(), value.into());
    match of {
        "avic" | "x2avic" => vec![one("kvm_amd", "avic", value)],
        "apicv" => vec![one("kvm_intel", "enable_apicv", value)],
        "ipiv" => {
            vec![one("kvm_intel", "enable_apicv", "Y"), one("kvm_intel", "enable_ipiv", value)]
        }
        _ => Vec::new(),
    }
}

/// The parameters that a setting asks for.
pub fn wanted(plan: &Plan, setting: &Setting) -> Vec<Wanted> {
    let mut all = Vec::new();
    for factor in &plan.factors {
        let Some(level) = setting.get(&factor.name) else { continue };
        let of = factor.of.as_deref().unwrap_or_default();
        match factor.kind.as_str() {
            "feature" => all.extend(of_feature(of, level)),
            "parameter" => {
                let (module, name) = of.split_once('.').unwrap_or_default();
                all.push((module.into(), name.into(), level.clone()));
            }
            _ => {}
        }
    }
    all
}

/// What is proved of a trial: what it asks for, and the vendor's own switch.
pub fn shown(options: &Options, plan: &Plan, setting: &Setting) -> Vec<Wanted> {
    let mut all = wanted(plan, setting);
    for (module, name) in [("kvm_amd", "avic"), ("kvm_intel", "enable_apicv")] {
        let is_there = value(options, module, name).is_some();
        if is_there && !all.iter().any(|one| (one.0.as_str(), one.1.as_str()) == (module, name)) {
            all.push((module.into(), name.into(), String::new()));
        }
    }
    all
}

fn path(module: &str, name: &str) -> String {
    format!("sys/module/{module}/parameters/{name}")
}

/// As the kernel shows it; of a vendor's module with Y and N for 1 and 0.
pub fn value(options: &Options, module: &str, name: &str) -> Option<String> {
    let text = options.text(&path(module, name)).ok()?;
    Some(normal(module, text.trim()).to_owned())
}

/// Vendors' switches are numbers on some kernels, and truths on others.
fn normal<'v>(module: &str, value: &'v str) -> &'v str {
    match value {
        "1" if vendor_of_module(module).is_some() => "Y",
        "0" if vendor_of_module(module).is_some() => "N",
        other => other,
    }
}

/// Those of the wanted that are otherwise now.
pub fn differing(options: &Options, wanted: &[Wanted]) -> Result<Vec<Wanted>, Failure> {
    let differs =
        |one: &&Wanted| value(options, &one.0, &one.1).as_deref() != Some(normal(&one.0, &one.2));
    Ok(wanted.iter().filter(differs).cloned().collect())
}

/// Whether the modules can be loaded again.
pub fn check(options: &Options, plan: &Plan) -> Vec<Remark> {
    let of_module =
        |one: &&::experiment::plan::Factor| matches!(one.kind.as_str(), "feature" | "parameter");
    let mut remarks = Vec::new();
    for factor in plan.factors.iter().filter(of_module) {
        let Some(level) = factor.levels.first() else { continue };
        let setting = Setting::from([(factor.name.clone(), level.clone())]);
        for (module, name, _) in wanted(plan, &setting) {
            if value(options, &module, &name).is_none() {
                let cause = format!("{module} has no parameter {name} here, or is not loaded");
                let remedy = format!("modprobe {module}, or a kernel that has it");
                remarks.push(Remark::new(Weight::Blocks, cause, remedy));
            }
        }
    }
    if !remarks.is_empty() || !plan.factors.iter().any(|one| one.kind == "feature") {
        return remarks;
    }
    if !super::super::program::is_program("modprobe") {
        remarks.push(Remark::new(Weight::Blocks, "modprobe is not on this host", "install kmod"));
    }
    let cause = "the modules are loaded again for each block: every virtual machine of this host \
                 that is not named by --vm has to be stopped before";
    remarks.push(Remark::new(Weight::Note, cause, ""));
    remarks
}

/// Loads modules with the wanted parameters and else those that they have; what they had at first
/// is in the journal before.
pub fn load(
    options: &Options,
    wanted: &[Wanted],
    kept: &mut BTreeSet<String>,
    teller: &mut dyn Teller,
) -> Result<(), Failure> {
    let mut modules: BTreeMap<&str, Vec<&Wanted>> = BTreeMap::new();
    for one in wanted {
        modules.entry(&one.0).or_default().push(one);
    }
    for (module, wanted) in modules {
        let mut parameters = all_parameters(options, module);
        if kept.insert(module.to_owned()) {
            let undo = Undo::Module { module: module.into(), parameters: parameters.clone() };
            let names: Vec<&str> = wanted.iter().map(|one| one.1.as_str()).collect();
            let what = format!("{module}'s {}", names.join(", "));
            teller.change(Change { what, undo: undo.to_text() })?;
        }
        let is_wanted =
            |one: &str| wanted.iter().any(|(_, name, _)| one.split('=').next() == Some(name));
        parameters.retain(|one| !is_wanted(one));
        parameters.extend(wanted.iter().map(|(_, name, value)| format!("{name}={value}")));
        reload(options, module, &parameters).map_err(Failure::Failed)?;
    }
    Ok(())
}

/// All parameters of a module as they are now; those that are switches or numbers.
fn all_parameters(options: &Options, module: &str) -> Vec<String> {
    let folder = options.file(&format!("sys/module/{module}/parameters"));
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut all: Vec<String> = entries
        .filter_map(|entry| {
            let name = entry.file_name().into_string().ok()?;
            let text = options.text(&path(module, &name)).ok()?;
            let value = text.trim();
            let is_plain = !value.is_empty() && value.chars().all(|c| c.is_ascii_alphanumeric());
            is_plain.then(|| format!("{name}={value}"))
        })
        .collect();
    all.sort();
    all
}

/// A vendor's module goes with the common one, which else remembers what was off (from Linux 6.17
/// on); another module's parameter is written, where it can be.
pub fn reload(options: &Options, module: &str, parameters: &[String]) -> Said<()> {
    if vendor_of_module(module).is_none() {
        for (name, value) in parameters.iter().filter_map(|one| one.split_once('=')) {
            let now = self::value(options, module, name);
            if now.as_deref() != Some(normal(module, value)) {
                write(options, &path(module, name), value)?;
            }
        }
        return Ok(());
    }
    let command =
        |words: &[&str]| -> Vec<String> { words.iter().map(|word| (*word).into()).collect() };
    run(&command(&["modprobe", "-r", module]))?;
    // Another user of it keeps it, which only matters where it remembers.
    let _ = run(&command(&["modprobe", "-r", COMMON_MODULE]));
    let all = [&["modprobe".to_owned(), module.to_owned()], parameters].concat();
    run(&all).map(|_| ())
}
