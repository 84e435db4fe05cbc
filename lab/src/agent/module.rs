//! Kernel modules.

use super::MODULES;
use anyhow::Context;
use rustix::fs::{Mode, OFlags};
use std::ffi::CString;
use std::path::Path;

/// The module whose parameter is the feature.
pub(super) const FEATURE_MODULE: &str = "kvm_amd";

/// Loads all modules of the initial RAM disk but the one whose parameter is the feature, unless a
/// shell is to have that one too.
pub(super) fn load_all() -> anyhow::Result<()> {
    for path in modules()? {
        let is_feature = path.ends_with(&format!("{FEATURE_MODULE}.ko"));
        if !is_feature {
            load(&path, "")?;
        } else if Path::new(super::SHELL).exists() {
            load(&path, "avic=1")?;
        }
    }
    Ok(())
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

/// Loads the feature's module anew with the feature off or on; what its parameter then says.
pub(super) fn reload(is_on: bool) -> anyhow::Result<String> {
    let own = format!("{FEATURE_MODULE}.ko");
    let path = modules()?.into_iter().find(|path| path.ends_with(&own));
    let path = path.with_context(|| format!("the initial RAM disk has no {own}"))?;
    let name = CString::new(FEATURE_MODULE)?;
    match rustix::system::delete_module(&name, 0) {
        Ok(()) | Err(rustix::io::Errno::NOENT) => {}
        Err(error) => return Err(error).context("cannot unload kvm_amd"),
    }
    load(&path, if is_on { "avic=1" } else { "avic=0" })?;
    let parameter = format!("/sys/module/{FEATURE_MODULE}/parameters/avic");
    Ok(std::fs::read_to_string(parameter).unwrap_or_default().trim().to_owned())
}
