//! The kernel that the emulated host boots, by the name that a user gave, or the usual one.

use super::arguments::HostArguments;
use crate::status::Usage;
use lab::host::Host;
use lab::host::distribution::{DISTRIBUTIONS, USUAL};
use lab::host::kernel::{Kernel, Needs, NoModule};
use lab::plan::vendor;
use lab::watch::{Halt, Watch};

/// The kernel of the host, or the reason why the built-in hypervisor takes its place: only where no
/// kernel was named, since one that is named is wanted.
pub(super) enum Found {
    Kernel(Box<Kernel>),
    BuiltIn { instead: Option<String> },
}

pub(super) fn kernel(
    arguments: &HostArguments,
    host: &Host,
    modules: &[&str],
    watch: &mut Watch<'_>,
) -> anyhow::Result<Found> {
    let name = arguments.kernel.as_deref();
    let has_modules = !(arguments.modules.is_empty() && arguments.loaded.is_empty());
    if name == Some("builtin") {
        if has_modules {
            return Err(Usage::of(anyhow::anyhow!(
                "the built-in hypervisor has no modules: --module and --load need a kernel"
            )));
        }
        return Ok(Found::BuiltIn { instead: None });
    }
    let of_wires: &[&str] = if host.wires.is_empty() { &[] } else { &["ixgbevf"] };
    let has_functions = host.has_pulse || !host.wires.is_empty();
    let to_give: &[&str] =
        if has_functions && host.iommu.is_some() { &lab::workload::device::MODULES } else { &[] };
    let modules =
        &[modules, of_wires, to_give, host.modules_of_clock(), host.modules_of_folders()].concat();
    let named = &arguments.loaded;
    let needs = Needs { vendor: vendor(&host.model), modules, named };
    match Kernel::find(name.unwrap_or(USUAL), needs, watch) {
        Ok(mut kernel) => {
            for module in &arguments.modules {
                kernel.replace_module(module).map_err(Usage::of)?;
            }
            Ok(Found::Kernel(Box::new(kernel)))
        }
        Err(error) if error.downcast_ref::<Halt>().is_some() => Err(error),
        Err(error) if error.downcast_ref::<NoModule>().is_some() => Err(Usage::of(error)),
        Err(error) => match name {
            // The built-in hypervisor could not take them.
            None if has_modules => Err(error),
            None => Ok(Found::BuiltIn {
                instead: Some(format!(
                    "the built-in hypervisor ran, not KVM: the kernel of {USUAL} could not be had \
                     ({error:#})"
                )),
            }),
            // What could not be fetched was named well.
            Some(name) if DISTRIBUTIONS.iter().any(|one| one.name == name) => Err(error),
            Some(_) => Err(Usage::of(error)),
        },
    }
}

/// A kernel, where nothing else will do.
pub(super) fn real_kernel(
    arguments: &HostArguments,
    host: &Host,
    watch: &mut Watch<'_>,
) -> anyhow::Result<Kernel> {
    // The function for measuring is there to be given to a process.
    let is_given = host.has_pulse || !host.devices.is_empty();
    let modules: &[&str] = if is_given { &lab::workload::device::MODULES } else { &[] };
    match kernel(arguments, host, modules, watch)? {
        Found::Kernel(kernel) => Ok(*kernel),
        Found::BuiltIn { instead: Some(why) } => Err(anyhow::anyhow!(why)),
        Found::BuiltIn { instead: None } => Err(Usage::of(anyhow::anyhow!(
            "--kernel builtin: the built-in hypervisor has no programs; a distribution's kernel is needed"
        ))),
    }
}
