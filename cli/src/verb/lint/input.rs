//! What to judge: files, standard input, and the configurations inside a host's folder or archive.

use anyhow::Context;
use facts::inputs::Content;
use rules::configuration::{Kind, MAX_BYTES};
use rules::host::cpu::Vendor as CpuVendor;
use rules::inhibit::Vendor;
use rules::version::Version;
use std::fs::File;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};

/// One text to judge.
pub struct Input {
    pub name: String,
    /// Where it can be mended.
    pub path: Option<PathBuf>,
    /// Part of a recorded host, which is not changed.
    pub is_of_host: bool,
    pub text: Result<String, String>,
    /// What its place in a host says it is.
    pub kind: Option<Kind>,
    /// What its host says.
    pub vendors: Vec<Vendor>,
    pub kernel: Option<Version>,
}

impl Input {
    fn new(name: String, bytes: Result<Vec<u8>, String>) -> Self {
        let text = bytes.and_then(|bytes| {
            if bytes.len() > MAX_BYTES {
                return Err(format!("larger than {MAX_BYTES} bytes"));
            }
            String::from_utf8(bytes).map_err(|error| {
                let at = error.utf8_error().valid_up_to();
                format!("not UTF-8 text, at byte {at}")
            })
        });
        Self {
            name,
            path: None,
            is_of_host: false,
            text,
            kind: None,
            vendors: Vec::new(),
            kernel: None,
        }
    }
}

/// All inputs behind the named files.
pub fn collect(files: &[PathBuf]) -> anyhow::Result<Vec<Input>> {
    let mut found = Vec::new();
    for file in files {
        if file.as_os_str() == "-" {
            found.push(Input::new("<stdin>".to_owned(), read(std::io::stdin())));
        } else if file.is_dir() || is_archive(file) {
            found.extend(of_host(file)?);
        } else {
            let bytes = File::open(file).map_err(|error| error.to_string()).and_then(read);
            let mut input = Input::new(super::shown(file), bytes);
            input.path = Some(file.clone());
            found.push(input);
        }
    }
    Ok(found)
}

/// Reads at most one byte more than is accepted.
fn read(from: impl Read) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    from.take(MAX_BYTES as u64 + 1).read_to_end(&mut bytes).map_err(|error| error.to_string())?;
    Ok(bytes)
}

fn is_archive(file: &Path) -> bool {
    let mut head = Vec::new();
    let Ok(file) = File::open(file) else { return false };
    file.take(512).read_to_end(&mut head).is_ok()
        && facts::archive::Packing::detect(&head).is_some()
}

/// The configurations a recorded host holds.
fn of_host(path: &Path) -> anyhow::Result<Vec<Input>> {
    let inputs = facts::recorded(path)?;
    let facts = facts::facts(&inputs);
    let kernel = facts.kernel.get().and_then(|kernel| Version::parse(&kernel.release));
    let mut vendors: Vec<Vendor> =
        facts.cpus.iter().filter_map(|cpu| vendor(cpu.vendor.as_ref()?)).collect();
    vendors.sort();
    vendors.dedup();
    let mut found = Vec::new();
    for (name, content) in inputs.files() {
        let Some(kind) = kind_of(name) else { continue };
        let bytes = match content {
            Content::Bytes(bytes) => Ok(bytes.clone()),
            Content::Unreadable(why) => Err(why.clone()),
        };
        let mut input = Input::new(format!("{}:/{name}", super::shown(path)), bytes);
        // Most of a host's files of these kinds have nothing to do with virtual machines.
        let is_empty = input.text.as_ref().is_ok_and(|text| text.trim().is_empty());
        let concerns = match (&input.text, kind) {
            (Ok(text), Kind::Modprobe) => text.contains("kvm"),
            (Ok(text), Kind::ProcessCommandLine) => {
                rules::configuration::read(name, text, Some(kind), &Default::default()).is_ok()
            }
            _ => true,
        };
        if is_empty || !concerns {
            continue;
        }
        input.is_of_host = true;
        input.kind = Some(kind);
        input.vendors.clone_from(&vendors);
        input.kernel = kernel;
        found.push(input);
    }
    Ok(found)
}

fn vendor(vendor: &CpuVendor) -> Option<Vendor> {
    match vendor {
        CpuVendor::Amd | CpuVendor::Hygon => Some(Vendor::Amd),
        CpuVendor::Intel | CpuVendor::Zhaoxin => Some(Vendor::Intel),
        CpuVendor::Other(_) => None,
    }
}

/// What a file of a host is, by its place.
fn kind_of(path: &str) -> Option<Kind> {
    let is_in = |folder: &str, extension: &str| {
        path.strip_prefix(folder)
            .is_some_and(|rest| !rest.contains('/') && rest.ends_with(extension))
    };
    if path == "proc/cmdline" || path == "etc/default/grub" || path == "etc/kernel/cmdline" {
        Some(Kind::KernelCommandLine)
    } else if ["etc/modprobe.d/", "run/modprobe.d/", "usr/lib/modprobe.d/", "lib/modprobe.d/"]
        .iter()
        .any(|folder| is_in(folder, ".conf"))
    {
        Some(Kind::Modprobe)
    } else if ["etc/libvirt/qemu/", "run/libvirt/qemu/", "var/run/libvirt/qemu/"]
        .iter()
        .any(|folder| is_in(folder, ".xml"))
    {
        Some(Kind::LibvirtXml)
    } else if is_in("var/log/libvirt/qemu/", ".log") {
        Some(Kind::LibvirtLog)
    } else if is_in("etc/pve/qemu-server/", ".conf") {
        Some(Kind::Proxmox)
    } else {
        let pid = path.strip_prefix("proc/")?.strip_suffix("/cmdline")?;
        pid.parse::<u32>().ok().map(|_| Kind::ProcessCommandLine)
    }
}

/// Writes a file anew beside the old one and takes its place, so that there is always a whole one.
pub fn replace(path: &Path, text: &str) -> anyhow::Result<()> {
    let path = path.canonicalize()?;
    let permissions = path.metadata()?.permissions();
    let name = path.file_name().context("no file name")?.to_string_lossy().into_owned();
    let beside = path.with_file_name(format!(".{name}.avicenna"));
    let mut file = File::create(&beside)?;
    file.write_all(text.as_bytes())?;
    file.set_permissions(permissions)?;
    file.sync_all()?;
    std::fs::rename(&beside, &path)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_a_host_are_known_by_their_place() {
        for (path, expected) in [
            ("proc/cmdline", Some(Kind::KernelCommandLine)),
            ("proc/4711/cmdline", Some(Kind::ProcessCommandLine)),
            ("proc/self/cmdline", None),
            ("etc/modprobe.d/kvm.conf", Some(Kind::Modprobe)),
            ("etc/modprobe.d/kvm.conf.bak", None),
            ("etc/libvirt/qemu/a.xml", Some(Kind::LibvirtXml)),
            ("etc/libvirt/qemu/networks/default.xml", None),
            ("var/log/libvirt/qemu/a.log", Some(Kind::LibvirtLog)),
            ("etc/pve/qemu-server/100.conf", Some(Kind::Proxmox)),
            ("etc/passwd", None),
        ] {
            assert_eq!(kind_of(path), expected, "{path}");
        }
    }
}
