//! Raw inputs to facts.

pub mod cpu;
mod initial_disk;
mod iommu;
mod remapping;
mod vm;

pub use remapping::pci_address;
pub use vm::is_process_list;

use crate::acpi;
use crate::inputs::{Content, Inputs};
use crate::log;
use reading::{Boot, ConfigurationFile, Fact, Facts, InterruptCounter, Kernel, Module, Reading};
use std::collections::BTreeMap;

/// Modules that matter: KVM, its vendor halves, and others' KVM back ends.
const MODULES: &[&str] = &["kvm", "kvm_amd", "kvm_intel"];

/// Decodes everything that is in the inputs.
pub fn facts(inputs: &Inputs) -> Facts {
    let log = log_lines(inputs);
    let kernel = kernel(inputs, &log);
    let iommus = iommu::units(inputs, kernel.get());
    Facts {
        origin: inputs.origin.clone(),
        incomplete: inputs.incomplete().map(String::from),
        command_line: command_line(inputs, &log),
        distribution: inputs
            .first_text(&["etc/os-release", "usr/lib/os-release"])
            .map(|text| os_release(&text)),
        foreign: foreign(inputs),
        cpus: cpu::kinds(inputs),
        modules: modules(inputs),
        iommus,
        ivrs: table(inputs, "IVRS", acpi::ivrs),
        dmar: table(inputs, "DMAR", acpi::dmar),
        madt: table(inputs, "APIC", acpi::madt),
        interrupts: inputs.text("proc/interrupts").map(|text| interrupts(&text)),
        remapping_entries: remapping::entries(inputs),
        inhibit_names: inhibit_names(inputs),
        modprobe: modprobe(inputs),
        vms: vm::running(inputs),
        definitions: definitions(inputs),
        boot: boot(inputs),
        initial_disk: initial_disk::read(inputs),
        kernel,
        log,
    }
}

fn kernel(inputs: &Inputs, log: &Fact<Vec<String>>) -> Fact<Kernel> {
    let banner = inputs.text("proc/version");
    let of_banner = |banner: &str| {
        Some(banner.strip_prefix("Linux version ")?.split_whitespace().next()?.to_string())
    };
    let release = inputs.text("proc/sys/kernel/osrelease");
    if let Some(text) = release.get() {
        let kernel = Kernel::parse(text, banner.get().map(String::as_str));
        return release.and_then(|text| kernel.ok_or(format!("'{text}' is not a kernel release")));
    }
    if let Some(found) = banner.get().and_then(|text| Kernel::parse(&of_banner(text)?, Some(text)))
    {
        return Fact::value(banner.place, found);
    }
    // `uname -a`: Linux HOST RELEASE #1 …
    let uname = inputs.first_text(&["sos_commands/kernel/uname_-a", "sos_commands/kernel/uname"]);
    if let Some(found) =
        uname.get().and_then(|text| Kernel::parse(text.split_whitespace().nth(2)?, Some(text)))
    {
        return Fact::value(uname.place, found);
    }
    let logged = log.get().into_iter().flatten().find(|line| line.starts_with("Linux version "));
    match logged.and_then(|line| Kernel::parse(&of_banner(line)?, Some(line))) {
        Some(kernel) => Fact::value(log.place.clone(), kernel),
        None => Fact::unreadable(release.place, "not recorded in this input"),
    }
}

/// Lines that are nothing but the value of `amd-iommu/features`: `EFR`, `EFR:EFR2` or `EFR2:EFR`.
pub fn iommu_features(text: &str) -> Vec<String> {
    let lines: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let is_number = |part: &str| {
        let digits = part.strip_prefix("0x").unwrap_or(part);
        !digits.is_empty()
            && digits.len() <= 16
            && digits.bytes().all(|byte| byte.is_ascii_hexdigit())
    };
    let is_value = |line: &&str| {
        line.split(':').count() <= 2 && line.len() >= 10 && line.split(':').all(is_number)
    };
    match !lines.is_empty() && lines.len() <= 128 && lines.iter().all(is_value) {
        true => lines.into_iter().map(String::from).collect(),
        false => vec![],
    }
}

/// What /proc/cpuinfo and lscpu say on other architectures.
fn foreign(inputs: &Inputs) -> Option<&'static str> {
    const MARKS: [(&str, &str); 6] = [
        ("CPU implementer", "an arm64"),
        ("aarch64", "an arm64"),
        ("rv64", "a RISC-V"),
        ("IBM/S390", "an s390x"),
        ("ppc64", "a POWER"),
        ("LoongArch", "a LoongArch"),
    ];
    let text = inputs.first_text(&["proc/cpuinfo", "sos_commands/processor/lscpu", "lscpu"]);
    let text = text.get()?;
    let is_x86 = ["GenuineIntel", "AuthenticAMD", "HygonGenuine", "flags"]
        .iter()
        .any(|mark| text.contains(mark));
    let found = MARKS.iter().find(|(mark, _)| text.contains(mark)).filter(|_| !is_x86);
    found.map(|(_, name)| *name)
}

fn command_line(inputs: &Inputs, log: &Fact<Vec<String>>) -> Fact<String> {
    let direct = inputs.text("proc/cmdline");
    if direct.get().is_some() {
        return direct;
    }
    let logged = log.get().into_iter().flatten().find_map(|line| line.split_once("Command line: "));
    match logged {
        Some((_, text)) => Fact::value(log.place.clone(), text.to_string()),
        None => direct,
    }
}

fn os_release(text: &str) -> BTreeMap<String, String> {
    text.lines()
        .take(200)
        .filter_map(|line| line.split_once('='))
        .map(|(key, value)| {
            (key.trim().to_string(), value.trim().trim_matches(['"', '\'']).to_string())
        })
        .collect()
}

/// The wanted lines of the kernel log. A log whose beginning was overwritten proves nothing by
/// silence.
fn log_lines(inputs: &Inputs) -> Fact<Vec<String>> {
    let candidates = [
        "avicenna/dmesg.txt",
        "dmesg.txt",
        "dmesg",
        "sos_commands/kernel/dmesg",
        "sos_commands/kernel/dmesg_-T",
    ];
    let fact = inputs.first_text(&candidates);
    let fact = if fact.get().is_some() {
        fact
    } else {
        let other = inputs
            .below("dmesg")
            .chain(inputs.below("sos_commands/kernel/dmesg"))
            .map(|(path, _)| path)
            .next();
        other.map_or(fact, |path| inputs.text(path))
    };
    fact.and_then(|text| {
        let mut lines = log::lines(&text);
        lines.extend(
            text.lines()
                .filter_map(|line| Some(line[line.find("Linux version ")?..].to_string()))
                .take(1),
        );
        Ok(lines)
    })
}

fn table<T>(
    inputs: &Inputs,
    name: &str,
    parse: impl FnOnce(&[u8]) -> Result<T, acpi::Damage>,
) -> Fact<T> {
    inputs
        .bytes(&format!("sys/firmware/acpi/tables/{name}"))
        .and_then(|bytes| parse(bytes).map_err(|damage| format!("damaged table: {damage}")))
}

fn modules(inputs: &Inputs) -> BTreeMap<String, Fact<Module>> {
    let mut names: Vec<String> = MODULES.iter().map(|name| name.to_string()).collect();
    for (path, _) in inputs.below("sys/module/kvm") {
        if let Some(name) = path.split('/').nth(2)
            && !names.iter().any(|known| known == name)
        {
            names.push(name.to_string());
        }
    }
    names.into_iter().map(|name| (name.clone(), module(inputs, &name))).collect()
}

fn module(inputs: &Inputs, name: &str) -> Fact<Module> {
    let folder = format!("sys/module/{name}/");
    let place = format!("/sys/module/{name}");
    if !inputs.has_below(&folder) {
        return match inputs.was_searched("sys/module") {
            true => Fact::absent(place),
            false => Fact::unreadable(place, "not recorded in this input"),
        };
    }
    let prefix = format!("{folder}parameters/");
    let parameters = inputs
        .below(&prefix)
        .map(|(path, _)| (path[prefix.len()..].to_string(), inputs.text(path)))
        .collect();
    let users = inputs.text(&format!("{folder}refcnt"));
    let users = users.get().and_then(|text| text.parse().ok());
    let has_state = inputs.bytes(&format!("{folder}initstate")).get().is_some();
    Fact::value(place, Module { is_builtin: users.is_none() && !has_state, users, parameters })
}

/// The rows of /proc/interrupts that have a name and not a number, and those of IOMMUs and vfio.
pub(crate) fn interrupts(text: &str) -> Vec<InterruptCounter> {
    let mut counters = vec![];
    for line in text.lines().skip(1).take(20_000) {
        let Some((label, rest)) = line.trim().split_once(':') else { continue };
        let is_posted = label.bytes().all(|b| b.is_ascii_uppercase())
            || rest.contains("AMD-Vi")
            || rest.contains("dmar")
            || rest.contains("vfio-");
        if !is_posted {
            continue;
        }
        let words: Vec<&str> = rest.split_whitespace().collect();
        let counts =
            words.iter().take_while(|word| word.bytes().all(|b| b.is_ascii_digit())).count();
        let total = words[..counts]
            .iter()
            .filter_map(|word| word.parse::<u64>().ok())
            .fold(0, u64::saturating_add);
        counters.push(InterruptCounter {
            label: label.into(),
            total,
            description: words[counts..].join(" "),
        });
    }
    counters
}

/// Names of inhibit reasons from the event's own format file, where the kernel prints them (6.11
/// and later).
fn inhibit_names(inputs: &Inputs) -> Fact<BTreeMap<u32, String>> {
    let event = "events/kvm/kvm_apicv_inhibit_changed/format";
    let fact = inputs.first_text(&[
        &format!("sys/kernel/tracing/{event}"),
        &format!("sys/kernel/debug/tracing/{event}"),
    ]);
    fact.and_then(|format| {
        let numbering = trace::inhibit::Numbering::from_print_format(&format)
            .ok_or("this kernel prints numbers without names")?;
        let names = trace::inhibit::Reason::ALL
            .into_iter()
            .filter_map(|reason| Some((numbering.bit(reason)?, reason.name().to_string())));
        Ok(names.collect())
    })
}

fn definitions(inputs: &Inputs) -> Vec<ConfigurationFile> {
    let folders = [("etc/pve/qemu-server/", ".conf"), ("etc/libvirt/qemu/", ".xml")];
    let mut found = vec![];
    for (folder, ending) in folders {
        for (path, content) in inputs.below(folder) {
            if let Content::Bytes(bytes) = content
                && path.ends_with(ending)
            {
                let text = String::from_utf8_lossy(bytes).into_owned();
                found.push(ConfigurationFile { path: format!("/{path}"), text });
            }
        }
    }
    found
}

/// Files and folders that tell how the kernel command line and the initial RAM disk are kept.
const BOOT: &[&str] = &[
    "boot/efi/loader/entries/",
    "boot/loader/entries/",
    "efi/loader/entries/",
    "etc/default/grub",
    "etc/dracut.conf",
    "etc/initramfs-tools/modules",
    "etc/kernel/cmdline",
    "etc/kernel/proxmox-boot-uuids",
    "etc/kernelstub/configuration",
    "etc/mkinitcpio.",
];

fn boot(inputs: &Inputs) -> Boot {
    let file = |path: &str| {
        let bytes = inputs.bytes(path);
        let text = String::from_utf8_lossy(bytes.get()?).into_owned();
        Some(ConfigurationFile { path: format!("/{path}"), text })
    };
    let programs = inputs.text(crate::wanted::PROGRAM_LIST);
    Boot {
        files: BOOT
            .iter()
            .flat_map(|path| inputs.below(path))
            .filter_map(|(path, _)| file(path))
            .collect(),
        tools: programs.get().into_iter().flat_map(|text| text.lines()).map(String::from).collect(),
    }
}

/// Files of modprobe.d in the order modprobe reads them: by file name, a folder that comes first
/// hides the same name.
fn modprobe(inputs: &Inputs) -> Fact<Vec<ConfigurationFile>> {
    const FOLDERS: &[&str] = &[
        "etc/modprobe.d/",
        "run/modprobe.d/",
        "usr/local/lib/modprobe.d/",
        "usr/lib/modprobe.d/",
        "lib/modprobe.d/",
    ];
    let mut files: BTreeMap<String, ConfigurationFile> = BTreeMap::new();
    for folder in FOLDERS {
        for (path, content) in inputs.below(folder) {
            let name = &path[folder.len()..];
            if let Content::Bytes(bytes) = content
                && name.ends_with(".conf")
            {
                files.entry(name.to_string()).or_insert_with(|| ConfigurationFile {
                    path: format!("/{path}"),
                    text: String::from_utf8_lossy(bytes).into_owned(),
                });
            }
        }
    }
    let reading = if !files.is_empty()
        || FOLDERS.iter().any(|folder| inputs.was_searched(folder.trim_end_matches('/')))
    {
        Reading::Value(files.into_values().collect())
    } else {
        Reading::Unreadable("not recorded in this input".into())
    };
    Fact { place: "/etc/modprobe.d".into(), reading }
}
