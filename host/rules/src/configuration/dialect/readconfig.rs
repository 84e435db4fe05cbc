//! QEMU's `-readconfig` files: sections of options, as `-writeconfig` once wrote them.
//!
//! Source: `util/qemu-config.c` of QEMU 7.2. Left out: groups without influence on interrupts.

mod edit;
mod section;

use super::{Contents, Dialect};
use crate::configuration::input::{Hints, InputError, Kind};
use crate::configuration::pairs::Pair;
use crate::configuration::qemu::{Global, Property, QemuSettings, placed, truth};
use crate::configuration::qemu_arguments::object;
use crate::position::Lines;
use crate::vm::{Accelerator, Setting, VmConfiguration};
use edit::Sections;
use section::{Section, sections};

/// Groups of options that a section may be of.
const GROUPS: [&str; 26] = [
    "accel",
    "action",
    "boot-opts",
    "chardev",
    "device",
    "drive",
    "fsdev",
    "global",
    "machine",
    "memory",
    "mon",
    "name",
    "netdev",
    "numa",
    "object",
    "overcommit",
    "rtc",
    "sandbox",
    "smbios",
    "smp-opts",
    "spice",
    "tpmdev",
    "trace",
    "virtfs",
    "vnc",
    "fw_cfg",
];

/// One machine.
pub struct Readconfig;

impl Dialect for Readconfig {
    fn kind(&self) -> Kind {
        Kind::Readconfig
    }

    fn recognizes(&self, text: &str) -> bool {
        let mut lines =
            text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
        let inner = lines
            .next()
            .and_then(|header| header.strip_prefix('['))
            .and_then(|rest| rest.strip_suffix(']'));
        inner
            .and_then(|inner| inner.split_whitespace().next())
            .is_some_and(|group| GROUPS.contains(&group))
    }

    fn read<'t>(
        &self,
        file: &str,
        lines: &Lines<'t>,
        hints: &Hints,
    ) -> Result<Contents<'t>, InputError> {
        let sections = sections(lines)?;
        let vms = vec![machine(file, lines, &sections, hints)];
        let text = Sections { text: lines.text(), sections };
        Ok(Contents::machines(Kind::Readconfig, lines, vms, text))
    }
}

/// The machine a file describes.
fn machine(file: &str, lines: &Lines<'_>, sections: &[Section], hints: &Hints) -> VmConfiguration {
    let mut settings = QemuSettings::default();
    for section in sections {
        apply(&mut settings, section, lines);
    }
    let first = sections.first().map_or(0, |section| section.start);
    let last = sections.last().map_or(0, |section| section.end);
    let mut vm = settings.resolve(file, lines.position(first, last), hints.qemu);
    if settings.accelerator.is_none() {
        let why = "the command line that reads this file may name the accelerator";
        vm.accelerator = Setting::unknown(Accelerator::Unknown, why);
    }
    vm
}

fn apply(settings: &mut QemuSettings, section: &Section, lines: &Lines<'_>) {
    let header = lines.position(section.start, section.end);
    let mut list = section.pairs.clone();
    match section.group.as_str() {
        "machine" | "accel" => {
            for pair in &list {
                let at = lines.position(pair.at.start, pair.at.end);
                let value = pair.value.clone().unwrap_or_default();
                match pair.key.replace('_', "-").as_str() {
                    "type" => settings.machine_type = Some(placed(value, at)),
                    "accel" => settings.accelerator = Some(placed(value, at)),
                    key => settings.machine.push(Property { key: key.to_owned(), value, at }),
                }
            }
        }
        "global" => {
            let get = |key: &str| list.iter().find(|pair| pair.key == key);
            let value = |key: &str| get(key).and_then(|pair| pair.value.clone());
            if let (Some(driver), Some(key), Some(written)) =
                (value("driver"), value("property"), get("value"))
            {
                let at = lines.position(written.at.start, written.at.end);
                let value = written.value.clone().unwrap_or_default();
                settings.globals.push(Global { driver, property: Property { key, value, at } });
            }
        }
        "device" | "object" => {
            if let Some(id) = &section.id {
                let at = section.start..section.end;
                let value_at = section.end..section.end;
                list.push(Pair { key: "id".to_owned(), value: Some(id.clone()), at, value_at });
            }
            let (into, key) = if section.group == "device" {
                (&mut settings.devices, "driver")
            } else {
                (&mut settings.objects, "qom-type")
            };
            into.extend(object(&list, key, header, lines));
        }
        "smp-opts" => {
            for pair in &list {
                let number = pair.value.as_deref().and_then(|value| value.parse().ok());
                let topology = &mut settings.topology;
                match pair.key.as_str() {
                    "cpus" => topology.cpus = number,
                    "maxcpus" => topology.maxcpus = number,
                    "sockets" => topology.sockets = number,
                    "dies" => topology.dies = number,
                    "cores" => topology.cores = number,
                    "threads" => topology.threads = number,
                    _ => {}
                }
            }
            settings.topology_at = Some(header);
        }
        "rtc" => {
            let is_local =
                |pair: &Pair| pair.key == "base" && pair.value.as_deref() == Some("localtime");
            if list.iter().any(is_local) {
                settings.is_local_time = Some(header);
            }
        }
        "overcommit" => {
            let cpu_pm = list.iter().find(|pair| pair.key == "cpu-pm");
            if let Some(on) = cpu_pm.and_then(|pair| truth(pair.value.as_deref()?)) {
                settings.cpu_pm = Some(placed(on, header));
            }
        }
        "name" => {
            let named = list.into_iter().find(|pair| pair.key == "guest");
            settings.name = named.and_then(|pair| pair.value);
        }
        _ => {}
    }
}
