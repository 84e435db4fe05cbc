//! Kernel modules.

use super::place::{MODULES, PARAMETERS};
use crate::plan::ModuleParameter;
use anyhow::Context;
use rules::feature::{COMMON_MODULE, vendor_of_module};
use rustix::fs::{Mode, OFlags};
use std::collections::BTreeMap;
use std::ffi::CString;
use std::path::Path;

/// What modules were last loaded with, by name.
#[derive(Debug, Default)]
pub(crate) struct Modules {
    loaded: BTreeMap<String, Vec<ModuleParameter>>,
}

impl Modules {
    /// Loads all modules of the initial RAM disk but KVM's for a vendor, which an arm of the
    /// experiment has parameters for.
    pub(crate) fn load_all() -> anyhow::Result<Self> {
        load_missing(&[])?;
        Ok(Self::default())
    }

    /// Loads KVM with an arm's parameters, unless it is loaded so; what the kernel then shows.
    pub(crate) fn load(
        &mut self,
        parameters: &[ModuleParameter],
    ) -> anyhow::Result<Vec<ModuleParameter>> {
        let mut wanted: BTreeMap<String, Vec<ModuleParameter>> = BTreeMap::new();
        for parameter in parameters {
            wanted.entry(parameter.module.clone()).or_default().push(parameter.clone());
        }
        if self.loaded != wanted {
            // As `modprobe -r` does it: from Linux 6.17 on, the common module remembers what the
            // vendor's has switched off, and after avic=0 never accelerates an IPI again.
            let vendors = self.loaded.keys().cloned().collect::<Vec<_>>();
            let all = vendors.iter().map(String::as_str);
            let all: Vec<&str> =
                all.chain((!vendors.is_empty()).then_some(COMMON_MODULE)).collect();
            self.loaded.clear();
            all.into_iter().try_for_each(unload)?;
            load_missing(parameters)?;
            self.loaded = wanted;
        }
        Ok(parameters.iter().map(shown).collect())
    }
}

fn unload(name: &str) -> anyhow::Result<()> {
    match rustix::system::delete_module(&CString::new(name)?, 0) {
        Ok(()) | Err(rustix::io::Errno::NOENT) => Ok(()),
        Err(error) => Err(error).with_context(|| format!("cannot unload {name}")),
    }
}

/// Loads what is not loaded yet; a vendor's module only if there are parameters for it.
fn load_missing(parameters: &[ModuleParameter]) -> anyhow::Result<()> {
    for path in modules()? {
        let Some(name) = name(&path) else { continue };
        let own: Vec<String> = parameters
            .iter()
            .filter(|parameter| parameter.module == name)
            .map(|parameter| format!("{}={}", parameter.name, parameter.value))
            .collect();
        let waits = vendor_of_module(name).is_some() && own.is_empty();
        // The kernel reads and verifies a module before it says that it has it already.
        if !waits && !Path::new("/sys/module").join(name).exists() {
            load(&path, format!("{} {}", own.join(" "), chosen(name)).trim())?;
        }
    }
    Ok(())
}

/// `path` is NUMBER-NAME.ko.
fn name(path: &str) -> Option<&str> {
    let file = path.rsplit('/').next()?.strip_suffix(".ko")?;
    Some(file.split_once('-')?.1)
}

/// The parameters that the lab was given for a module: lines of MODULE.NAME=VALUE.
fn chosen(name: &str) -> String {
    let text = std::fs::read_to_string(PARAMETERS).unwrap_or_default();
    let own = text.lines().filter_map(|line| line.split_once('.'));
    let own = own.filter(|(module, _)| *module == name);
    own.map(|(_, parameter)| parameter).collect::<Vec<_>>().join(" ")
}

fn modules() -> anyhow::Result<Vec<String>> {
    let names = std::fs::read_dir(MODULES)
        .with_context(|| format!("the initial RAM disk has no {MODULES}"))?;
    let mut paths: Vec<String> =
        names.filter_map(|entry| Some(entry.ok()?.path().to_string_lossy().into_owned())).collect();
    paths.sort();
    Ok(paths)
}

fn load(path: &str, parameters: &str) -> anyhow::Result<()> {
    let file = rustix::fs::open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
    match rustix::system::finit_module(&file, &CString::new(parameters)?, 0) {
        Ok(()) | Err(rustix::io::Errno::EXIST) => Ok(()),
        Err(error) => Err(error).with_context(|| {
            let name = name(path).unwrap_or(path);
            let why = match error {
                rustix::io::Errno::NOEXEC => ": it was built for another kernel than this one",
                // What vendors' modules answer where the processor is not theirs.
                rustix::io::Errno::OPNOTSUPP | rustix::io::Errno::NODEV => {
                    ": this processor is not what it drives"
                }
                _ => "",
            };
            format!("cannot load the module {name} {parameters}{why}")
        }),
    }
}

/// A parameter as the kernel shows it; without a value where it shows none.
fn shown(parameter: &ModuleParameter) -> ModuleParameter {
    let path = format!("/sys/module/{}/parameters/{}", parameter.module, parameter.name);
    let value = std::fs::read_to_string(path).unwrap_or_default().trim().to_owned();
    ModuleParameter { value, ..parameter.clone() }
}
