//! The dialects that are known, and the front of them all: recognizing and reading an input.

use super::dialect::cloud_hypervisor::CloudHypervisor;
use super::dialect::command_line::{CommandLine, ProcessCommandLine};
use super::dialect::firecracker::Firecracker;
use super::dialect::kubevirt::Kubevirt;
use super::dialect::libvirt_log::LibvirtLog;
use super::dialect::libvirt_xml::LibvirtXml;
use super::dialect::module_options::{KernelCommandLine, Modprobe};
use super::dialect::proxmox::Proxmox;
use super::dialect::readconfig::Readconfig;
use super::dialect::{Contents, Dialect};
use super::foreign;
use super::input::{Hints, InputError, Kind, MAX_BYTES};
use crate::position::Lines;

/// In the order in which an input is asked for; what tells most comes first. A configuration of
/// Proxmox VE holds arguments of QEMU and is not a command line.
const DIALECTS: [&dyn Dialect; 11] = [
    &ProcessCommandLine,
    &LibvirtLog,
    &LibvirtXml,
    &Kubevirt,
    &Firecracker,
    &CloudHypervisor,
    &Modprobe,
    &Proxmox,
    &CommandLine,
    &Readconfig,
    &KernelCommandLine,
];

fn recognized(text: &str) -> Option<&'static dyn Dialect> {
    let is_blank = text.trim_start_matches('\u{feff}').trim_start().is_empty();
    if is_blank || foreign::is_one(text) {
        return None;
    }
    DIALECTS.into_iter().find(|dialect| dialect.recognizes(text))
}

/// Recognizes an input by its content.
pub fn detect(text: &str) -> Option<Kind> {
    recognized(text).map(Dialect::kind)
}

/// Reads an input; `kind` of `None` means to recognize it.
pub fn read<'t>(
    file: &str,
    text: &'t str,
    kind: Option<Kind>,
    hints: &Hints,
) -> Result<Contents<'t>, InputError> {
    if text.len() > MAX_BYTES {
        return Err(InputError::whole(format!("too big: more than {} MiB", MAX_BYTES >> 20)));
    }
    let dialect = match kind {
        Some(kind) => DIALECTS.into_iter().find(|dialect| dialect.kind() == kind),
        None => recognized(text),
    };
    let dialect = dialect.ok_or_else(|| {
        let names: Vec<_> = Kind::ALL.iter().map(|kind| kind.name()).collect();
        if let Some(told) = foreign::told(text) {
            return InputError::whole(told);
        }
        match text.trim().is_empty() {
            true => InputError::whole("empty"),
            false => {
                let names = names.join(", ");
                InputError::whole(format!(
                    "unknown: not recognized as any of {names} (--kind says)"
                ))
            }
        }
    })?;
    let contents = dialect.read(file, &Lines::new(text), hints)?;
    let kind = contents.kind;
    if contents.vms.is_empty() && !kind.is_of_host() {
        return Err(InputError::whole(format!("no virtual machine in this {}", kind.name())));
    }
    Ok(contents)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_has_its_dialect() {
        for kind in Kind::ALL {
            let of_kind = DIALECTS.iter().filter(|dialect| dialect.kind() == kind);
            assert_eq!(of_kind.count(), 1, "{}", kind.name());
        }
    }
}
