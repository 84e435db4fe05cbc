//! QEMU's `-readconfig` files: sections of options, as `-writeconfig` once wrote them.
//!
//! Source: `util/qemu-config.c` of QEMU 7.2. Left out: groups without influence on interrupts.

use super::pairs::Pair;
use super::qemu::{Global, Property, QemuSettings, placed, truth};
use super::qemu_arguments::object;
use super::{Hints, InputError};
use crate::position::Lines;
use crate::vm::{Accelerator, Setting, VmConfiguration};

/// Sections of one file.
const MAX_SECTIONS: usize = 10_000;

/// A section with its keys; ranges are of the source.
#[derive(Debug, Default)]
pub struct Section {
    pub group: String,
    pub id: Option<String>,
    pub pairs: Vec<Pair>,
    /// The header line.
    pub start: usize,
    /// End of its last line with content.
    pub end: usize,
}

/// Reads the sections of a file.
pub fn sections(lines: &Lines<'_>) -> Result<Vec<Section>, InputError> {
    let mut found: Vec<Section> = Vec::new();
    let mut start = 0;
    for line in lines.text().split_inclusive('\n') {
        let content = line.trim();
        let at = start + (line.len() - line.trim_start().len());
        let end = at + content.len();
        start += line.len();
        if content.is_empty() || content.starts_with('#') {
            continue;
        }
        if let Some(header) = content.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            if found.len() >= MAX_SECTIONS {
                let message = format!("more than {MAX_SECTIONS} sections");
                return Err(InputError::at(lines.position(at, end), message));
            }
            let (group, id) = match header.split_once(char::is_whitespace) {
                Some((group, id)) => (group, Some(id.trim().trim_matches('"').to_owned())),
                None => (header, None),
            };
            let group = group.trim().to_owned();
            found.push(Section { group, id, pairs: Vec::new(), start: at, end });
            continue;
        }
        let (Some(section), Some((key, value))) = (found.last_mut(), content.split_once('='))
        else {
            let message = "neither a [section] nor a key = \"value\" of one".to_owned();
            return Err(InputError::at(lines.position(at, end), message));
        };
        let quoted = value.trim();
        let inner = quoted.trim_matches('"');
        let value_start = at + content.len() - quoted.len() + usize::from(quoted.starts_with('"'));
        section.pairs.push(Pair {
            key: key.trim().to_owned(),
            value: Some(inner.to_owned()),
            at: at..end,
            value_at: value_start..value_start + inner.len(),
        });
        section.end = end;
    }
    Ok(found)
}

/// The machine a file describes.
pub fn machine(
    file: &str,
    lines: &Lines<'_>,
    hints: &Hints,
) -> Result<VmConfiguration, InputError> {
    let sections = sections(lines)?;
    let mut settings = QemuSettings::default();
    for section in &sections {
        apply(&mut settings, section, lines);
    }
    let first = sections.first().map_or(0, |section| section.start);
    let last = sections.last().map_or(0, |section| section.end);
    let mut vm = settings.resolve(file, lines.position(first, last), hints.qemu);
    if settings.accelerator.is_none() {
        let why = "the command line that reads this file may name the accelerator";
        vm.accelerator = Setting::unknown(Accelerator::Unknown, why);
    }
    Ok(vm)
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
