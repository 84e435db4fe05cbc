//! Proxmox VE virtual machine configurations (`/etc/pve/qemu-server/ID.conf`), translated to what
//! qemu-server tells QEMU.
//!
//! Sources: `qm.conf(5)` of Proxmox VE 9 and qemu-server 9. Left out: storage and network,
//! snapshots' sections (a snapshot has the configuration of its time; the first section is the one
//! that starts), custom CPU models.

mod edit;
mod entry;

use super::{Contents, Dialect};
use crate::configuration::input::{Hints, InputError, Kind};
use crate::configuration::pairs::pairs;
use crate::configuration::qemu::{Global, Object, Property, QemuSettings, placed};
use crate::configuration::qemu_arguments::additional_settings;
use crate::configuration::qemu_machine;
use crate::configuration::shell::{self, Word};
use crate::finding::Position;
use crate::position::Lines;
use crate::vm::{Guest, Manager, VmConfiguration};
use edit::Entries;
pub use entry::{Entry, entries};
use reading::version::Version;

/// Keys that are rare elsewhere; one is enough where every line is of this form.
const TELLING: [&str; 29] = [
    "agent",
    "allow-ksm",
    "amd-sev",
    "balloon",
    "bios",
    "bootdisk",
    "cdrom",
    "cicustom",
    "citype",
    "cores",
    "cpulimit",
    "cpuunits",
    "freeze",
    "hookscript",
    "hugepages",
    "intel-tdx",
    "localtime",
    "onboot",
    "ostype",
    "scsihw",
    "smbios1",
    "sockets",
    "startdate",
    "tablet",
    "tdf",
    "vcpus",
    "vga",
    "vmgenid",
    "watchdog",
];

/// Keys that other files have too.
const COMMON: [&str; 33] = [
    "acpi",
    "affinity",
    "arch",
    "args",
    "autostart",
    "boot",
    "ciuser",
    "cpu",
    "description",
    "digest",
    "hotplug",
    "keyboard",
    "kvm",
    "lock",
    "machine",
    "memory",
    "meta",
    "name",
    "nameserver",
    "numa",
    "parent",
    "protection",
    "searchdomain",
    "shares",
    "smp",
    "snaptime",
    "spice_enhancements",
    "sshkeys",
    "startup",
    "tags",
    "template",
    "vmstate",
    "vmstatestorage",
];

/// Keys that end in a number.
const NUMBERED: [&str; 17] = [
    "audio", "efidisk", "hostpci", "ide", "ipconfig", "net", "numa", "parallel", "rng", "sata",
    "scsi", "serial", "tpmstate", "unused", "usb", "virtio", "virtiofs",
];

/// The machine of the first section.
pub struct Proxmox;

impl Dialect for Proxmox {
    fn kind(&self) -> Kind {
        Kind::Proxmox
    }

    fn recognizes(&self, text: &str) -> bool {
        is_configuration(text)
    }

    fn read<'t>(
        &self,
        file: &str,
        lines: &Lines<'t>,
        hints: &Hints,
    ) -> Result<Contents<'t>, InputError> {
        let entries: Vec<Entry<'t>> = entries(lines.text()).collect();
        let vms = vec![machine(file, lines, &entries, hints)?];
        Ok(Contents::machines(Kind::Proxmox, lines, vms, Entries(entries)))
    }
}

/// Whether a text looks like such a file.
fn is_configuration(text: &str) -> bool {
    let is_numbered = |key: &str| {
        let name = key.trim_end_matches(|c: char| c.is_ascii_digit());
        name.len() < key.len() && NUMBERED.contains(&name)
    };
    let is_telling = |key: &str| TELLING.contains(&key) || is_numbered(key);
    let telling = entries(text).filter(|entry| is_telling(entry.key)).count();
    let meaningful = text
        .lines()
        .take_while(|line| !line.starts_with('['))
        .filter(|line| !line.trim().is_empty() && !line.starts_with('#'))
        .count();
    let known =
        entries(text).filter(|entry| is_telling(entry.key) || COMMON.contains(&entry.key)).count();
    let has_option = |entry: Entry<'_>| entry.key == "machine" && entry.value.contains(",viommu=");
    telling >= 3 || known == meaningful && (telling >= 1 || entries(text).any(has_option))
}

/// The machine of a file.
fn machine(
    file: &str,
    lines: &Lines<'_>,
    entries: &[Entry<'_>],
    hints: &Hints,
) -> Result<VmConfiguration, InputError> {
    let mut reader = Reader { lines, settings: QemuSettings::default() };
    let value = |key: &str| entries.iter().find(|entry| entry.key == key).copied();
    reader.machine(value("machine"));
    if let Some(arch) = value("arch").filter(|arch| arch.value != "x86_64") {
        let program = format!("qemu-system-{}", arch.value);
        reader.settings.program = Some(placed(program, reader.place(&arch)));
    }
    // A template is started by backups only, and then without KVM.
    let without_kvm = value("kvm")
        .filter(|kvm| kvm.value == "0")
        .or_else(|| value("template").filter(|template| template.value == "1"));
    reader.settings.accelerator = Some(match &without_kvm {
        Some(off) => placed("tcg".to_owned(), reader.place(off)),
        None => placed("kvm".to_owned(), lines.position(0, 0)),
    });
    reader.settings.name = value("name").map(|name| name.value.to_owned());
    reader.cpu(value("cpu"));
    let windows = value("ostype").and_then(|ostype| windows_version(ostype.value));
    if let Some(ostype) = value("ostype") {
        reader.guest(&ostype, windows, value("bios"), hints);
    }
    reader.topology(value("sockets"), value("cores"), value("vcpus"));
    reader.sev(value("amd-sev"));
    reader.tdx(value("intel-tdx"));
    reader.devices(entries);
    if let Some(args) = value("args") {
        reader.arguments(&args)?;
    }
    let span = lines.position(0, entries.iter().map(Entry::end).max().unwrap_or(0));
    let mut vm = reader.settings.resolve(file, span, hints.qemu);
    if without_kvm.is_none() {
        let reason = "Proxmox uses KVM unless kvm: 0";
        vm.accelerator = crate::vm::Setting::by_default(vm.accelerator.value, reason);
    }
    vm.manager = Manager::Proxmox;
    Ok(vm)
}

/// Generation of Windows behind an `ostype`, as qemu-server counts it.
fn windows_version(ostype: &str) -> Option<u32> {
    match ostype {
        "wxp" | "w2k" | "w2k3" => Some(5),
        "w2k8" | "wvista" => Some(6),
        _ => ostype.strip_prefix("win")?.parse().ok(),
    }
}

struct Reader<'t, 'l> {
    lines: &'l Lines<'t>,
    settings: QemuSettings,
}

impl Reader<'_, '_> {
    fn place(&self, entry: &Entry<'_>) -> Position {
        self.lines.position(entry.start, entry.end())
    }

    fn set(&mut self, key: &str, value: &str, at: Position) {
        self.settings.machine.push(Property { key: key.to_owned(), value: value.to_owned(), at });
    }

    fn feature(&mut self, key: &str, value: &str, at: Position) {
        self.settings.features.push(Property { key: key.to_owned(), value: value.to_owned(), at });
    }

    fn machine(&mut self, entry: Option<Entry<'_>>) {
        let Some(entry) = entry else { return };
        let at = self.place(&entry);
        for pair in pairs(&Word::plain(entry.value, entry.value_start)) {
            let place = self.lines.position(pair.at.start, pair.at.end);
            match (pair.key.as_str(), pair.value.as_deref()) {
                (name, None) | ("type", Some(name)) => {
                    self.settings.machine_type = Some(placed(name.to_owned(), place));
                }
                ("viommu", Some("intel")) => {
                    self.set("kernel-irqchip", "split", place);
                    let property = |key: &str| Property { key: key.into(), value: "on".into(), at };
                    let properties = vec![property("intremap")];
                    let kind = "intel-iommu".to_owned();
                    self.settings.devices.push(Object { kind, at: place, properties });
                }
                ("viommu", Some("virtio")) => {
                    let kind = "virtio-iommu-pci".to_owned();
                    let device = Object { kind, at: place, properties: Vec::new() };
                    self.settings.devices.push(device);
                }
                _ => {}
            }
        }
    }

    fn cpu(&mut self, entry: Option<Entry<'_>>) {
        let Some(entry) = entry else { return };
        for pair in pairs(&Word::plain(entry.value, entry.value_start)) {
            let at = self.lines.position(pair.at.start, pair.at.end);
            match (pair.key.as_str(), pair.value.as_deref()) {
                (name, None) | ("cputype", Some(name)) => {
                    self.settings.cpu_model = Some(placed(name.to_owned(), at));
                }
                ("hidden", Some("1")) => self.feature("kvm", "off", at),
                ("flags", Some(flags)) => {
                    for flag in flags.split(';') {
                        let name = flag.trim_start_matches(['+', '-']).replace('_', "-");
                        // Proxmox names one switch for both vendors.
                        let name = if name == "nested-virt" { "svm" } else { &name };
                        let value = if flag.starts_with('-') { "off" } else { "on" };
                        self.feature(name, value, at);
                    }
                }
                _ => {}
            }
        }
    }

    fn guest(
        &mut self,
        entry: &Entry<'_>,
        windows: Option<u32>,
        bios: Option<Entry<'_>>,
        hints: &Hints,
    ) {
        let at = self.place(entry);
        let Some(windows) = windows else {
            match entry.value {
                "l24" | "l26" => self.settings.guest = Some(placed(Guest::Linux, at)),
                "solaris" => self.feature("x2apic", "off", at),
                _ => {}
            }
            return;
        };
        self.settings.guest = Some(placed(Guest::Windows, at));
        self.settings.is_local_time = Some(at);
        if windows >= 6 {
            let property = Property { key: "lost_tick_policy".into(), value: "discard".into(), at };
            self.settings.globals.push(Global { driver: "kvm-pit".to_owned(), property });
            self.set("hpet", "off", at);
        }
        let is_ovmf = bios.is_some_and(|bios| bios.value == "ovmf");
        if windows < 6 || (is_ovmf && windows < 8) {
            return;
        }
        let version = self
            .settings
            .machine_type
            .as_ref()
            .and_then(|machine| qemu_machine::machine(&machine.value).version)
            .or(hints.qemu);
        let at_least =
            |major, minor| version.is_none_or(|version| version >= Version::new(major, minor, 0));
        for flag in ["hv-vapic", "hv-time"] {
            self.feature(flag, "on", at);
        }
        if at_least(2, 6) {
            for flag in ["hv-reset", "hv-vpindex", "hv-runtime"] {
                self.feature(flag, "on", at);
            }
        }
        if windows >= 7 {
            self.feature("hv-relaxed", "on", at);
            if at_least(2, 12) {
                self.feature("hv-synic", "on", at);
                self.feature("hv-stimer", "on", at);
            }
            if at_least(3, 1) {
                self.feature("hv-ipi", "on", at);
            }
        }
        if windows >= 11 && self.has_revision((11, 0), 2) {
            self.feature("hv-evmcs", "on", at);
        }
    }

    /// Whether the machine type names this version with at least this revision of Proxmox's own:
    /// `11.0+pve2`.
    fn has_revision(&self, (major, minor): (u16, u16), revision: u32) -> bool {
        let Some(machine) = &self.settings.machine_type else { return false };
        let wanted = Version::new(major, minor, 0);
        let given = machine.value.split_once("+pve").and_then(|(_, text)| text.parse().ok());
        qemu_machine::machine(&machine.value).version.is_some_and(|version| {
            version > wanted
                || (version == wanted && given.is_some_and(|given: u32| given >= revision))
        })
    }

    fn topology(
        &mut self,
        sockets: Option<Entry<'_>>,
        cores: Option<Entry<'_>>,
        vcpus: Option<Entry<'_>>,
    ) {
        let number = |entry: &Option<Entry<'_>>| {
            entry.as_ref().and_then(|entry| entry.value.parse::<u32>().ok())
        };
        let (socket_count, core_count) =
            (number(&sockets).unwrap_or(1), number(&cores).unwrap_or(1));
        let topology = &mut self.settings.topology;
        topology.sockets = Some(socket_count);
        topology.cores = Some(core_count);
        topology.maxcpus = Some(socket_count.saturating_mul(core_count));
        topology.cpus = number(&vcpus).or(topology.maxcpus);
        let entry = cores.or(sockets).or(vcpus);
        self.settings.topology_at = entry.map(|entry| self.place(&entry));
    }

    fn sev(&mut self, entry: Option<Entry<'_>>) {
        let Some(entry) = entry else { return };
        let at = self.place(&entry);
        let list = pairs(&Word::plain(entry.value, entry.value_start));
        let is = |name: &str| {
            list.iter().any(|pair| pair.value.as_deref() == Some(name) || pair.key == name)
        };
        let kind = if is("snp") { "sev-snp-guest" } else { "sev-guest" };
        let policy = if is("es") { "5" } else { "1" };
        let property =
            |key: &str, value: &str| Property { key: key.into(), value: value.into(), at };
        let properties = vec![property("id", "sev0"), property("policy", policy)];
        self.settings.objects.push(Object { kind: kind.to_owned(), at, properties });
        self.set("confidential-guest-support", "sev0", at);
    }

    fn tdx(&mut self, entry: Option<Entry<'_>>) {
        let Some(entry) = entry else { return };
        let at = self.place(&entry);
        let id = Property { key: "id".into(), value: "tdx0".into(), at };
        let object = Object { kind: "tdx-guest".to_owned(), at, properties: vec![id] };
        self.settings.objects.push(object);
        self.set("confidential-guest-support", "tdx0", at);
        self.set("kernel-irqchip", "split", at);
    }

    fn devices(&mut self, entries: &[Entry<'_>]) {
        for entry in entries {
            let is_hostpci =
                entry.key.strip_prefix("hostpci").is_some_and(|n| n.parse::<u8>().is_ok());
            if is_hostpci {
                let at = self.place(entry);
                let kind = "vfio-pci".to_owned();
                self.settings.devices.push(Object { kind, at, properties: Vec::new() });
            }
            if entry.key == "localtime" && entry.value == "1" {
                self.settings.is_local_time = Some(self.place(entry));
            }
        }
    }

    /// `args:` are words appended to the command line.
    fn arguments(&mut self, entry: &Entry<'_>) -> Result<(), InputError> {
        let mut commands = shell::commands(entry.value)?;
        for command in &mut commands {
            for word in &mut command.words {
                word.shift(entry.value_start);
            }
            self.settings.extend(additional_settings(&command.words, self.lines));
        }
        Ok(())
    }
}
