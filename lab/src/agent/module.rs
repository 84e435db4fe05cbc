//! Kernel modules.

use super::{MODULES, PARAMETERS};
use anyhow::Context;
use rustix::fs::{Mode, OFlags};
use std::ffi::CString;
use std::path::Path;

/// The module whose parameter is the feature.
const FEATURE_MODULE: &str = "kvm_amd";
/// What goes before it is loaded anew, as `modprobe -r` does. The second remembers, from Linux 6.17
/// on, what the first has switched off: after avic=0 it never accelerates an IPI again.
const UNLOADED: [&str; 2] = [FEATURE_MODULE, "kvm"];

/// Loads all modules of the initial RAM disk but the one whose parameter is the feature.
pub(super) fn load_all() -> anyhow::Result<()> {
    load_with(None)
}

/// Loads what is not loaded yet, the feature's module only with parameters.
fn load_with(parameters: Option<&str>) -> anyhow::Result<()> {
    for path in modules()? {
        if !path.ends_with(&format!("{FEATURE_MODULE}.ko")) {
            // The kernel reads and verifies a module before it says that it has it already.
            if !name(&path).is_some_and(|name| Path::new("/sys/module").join(name).exists()) {
                load(&path, &chosen(&path))?;
            }
        } else if let Some(parameters) = parameters {
            load(&path, &format!("{parameters} {}", chosen(&path)))?;
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
fn chosen(path: &str) -> String {
    let text = std::fs::read_to_string(PARAMETERS).unwrap_or_default();
    let own = text.lines().filter_map(|line| line.split_once('.'));
    let own = own.filter(|(module, _)| Some(*module) == name(path));
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
        Err(error) => Err(error).with_context(|| format!("cannot load {path} {parameters}")),
    }
}

/// Loads KVM with the feature off or on, unless it is loaded so; what the module's parameter says.
pub(super) fn reload(is_on: bool) -> anyhow::Result<String> {
    let found = parameter();
    if found == if is_on { "Y" } else { "N" } {
        return Ok(found);
    }
    for name in UNLOADED {
        match rustix::system::delete_module(&CString::new(name)?, 0) {
            Ok(()) => {}
            // A kvm that no kvm_amd has used yet has nothing to forget.
            Err(rustix::io::Errno::NOENT) => break,
            Err(error) => return Err(error).with_context(|| format!("cannot unload {name}")),
        }
    }
    load_with(Some(if is_on { "avic=1" } else { "avic=0" }))?;
    Ok(parameter())
}

/// As the kernel shows it; empty where the module is not loaded.
fn parameter() -> String {
    let path = format!("/sys/module/{FEATURE_MODULE}/parameters/avic");
    std::fs::read_to_string(path).unwrap_or_default().trim().to_owned()
}
