//! Running virtual machines: command lines, libvirt's status files, KVM's statistics.

use crate::inputs::{Content, Inputs};
use crate::wanted;
use rules::host::{ConfigurationFile, Fact, Reading, RunningVm};
use std::collections::BTreeMap;

/// Most machines that are read.
const MACHINES_LIMIT: usize = 4096;

pub fn running(inputs: &Inputs) -> Fact<Vec<RunningVm>> {
    let place = "/proc/*/cmdline";
    let mut machines: Vec<RunningVm> = inputs
        .below("proc/")
        .filter(|(path, _)| wanted::is_process(path))
        .filter_map(|(path, content)| match content {
            Content::Bytes(bytes) => {
                Some((path.split('/').nth(1)?.parse().ok()?, wanted::arguments(bytes)))
            }
            Content::Unreadable(_) => None,
        })
        .filter(|(_, arguments)| wanted::is_monitor(arguments))
        .map(|(pid, arguments)| machine(inputs, pid, arguments))
        .take(MACHINES_LIMIT)
        .collect();
    if machines.is_empty() {
        machines = of_process_list(inputs);
    }
    machines.sort_by_key(|machine| machine.pid);
    let reading = if !machines.is_empty() || inputs.was_searched(wanted::PROCESSES) {
        Reading::Value(machines)
    } else {
        Reading::Unreadable("not recorded in this input".into())
    };
    Fact { place: place.into(), reading }
}

fn machine(inputs: &Inputs, pid: u32, arguments: Vec<String>) -> RunningVm {
    let name = name(&arguments);
    RunningVm {
        pid,
        xml: name.as_deref().and_then(|name| domain(inputs, name)),
        statistics: statistics(inputs, pid),
        name,
        arguments,
    }
}

/// A sosreport has the process list of `ps`: its last column is the command line.
fn of_process_list(inputs: &Inputs) -> Vec<RunningVm> {
    let mut machines = vec![];
    for (_, content) in inputs.below("sos_commands/process/ps_") {
        let Content::Bytes(bytes) = content else { continue };
        for line in String::from_utf8_lossy(bytes).lines().take(100_000) {
            let words: Vec<&str> = line.split_whitespace().collect();
            let Some(start) = words
                .iter()
                .position(|word| word.starts_with('/') || word.starts_with("qemu-system-"))
            else {
                continue;
            };
            let arguments: Vec<String> =
                words[start..].iter().map(|word| word.to_string()).collect();
            let pid = words[..start].iter().find_map(|word| word.parse::<u32>().ok());
            if let Some(pid) = pid
                && wanted::is_monitor(&arguments)
                && !machines.iter().any(|machine: &RunningVm| machine.pid == pid)
                && machines.len() < MACHINES_LIMIT
            {
                machines.push(machine(inputs, pid, arguments));
            }
        }
    }
    machines
}

/// `-name guest=NAME,…`, `-name NAME`, `--id NAME`, `--name NAME`, Proxmox's `-id 100 -name NAME,…`.
fn name(arguments: &[String]) -> Option<String> {
    let mut words = arguments.iter();
    while let Some(word) = words.next() {
        if matches!(word.trim_start_matches('-'), "name" | "id") && word.starts_with('-') {
            let value = words.next()?;
            let first = value.split(',').next().unwrap_or(value);
            let name = first.strip_prefix("guest=").unwrap_or(first);
            // Proxmox gives the number first and the name later; the name is what people know.
            if word.ends_with("id") && arguments.iter().any(|other| other == "-name") {
                continue;
            }
            return Some(name.to_string());
        }
    }
    None
}

/// libvirt's status file of a running domain; the persistent definition where that is not readable.
fn domain(inputs: &Inputs, name: &str) -> Option<ConfigurationFile> {
    let places = [
        format!("run/libvirt/qemu/{name}.xml"),
        format!("var/run/libvirt/qemu/{name}.xml"),
        format!("etc/libvirt/qemu/{name}.xml"),
    ];
    places.into_iter().find_map(|path| {
        let text = inputs.text(&path).get()?.clone();
        Some(ConfigurationFile { path: format!("/{path}"), text })
    })
}

/// KVM's debugfs names a machine's folder PID-FD.
fn statistics(inputs: &Inputs, pid: u32) -> Fact<BTreeMap<String, u64>> {
    let place = format!("/sys/kernel/debug/kvm/{pid}-*");
    let prefix = format!("sys/kernel/debug/kvm/{pid}-");
    let values: BTreeMap<String, u64> = inputs
        .below(&prefix)
        .filter_map(|(path, _)| {
            let name = path.rsplit('/').next()?.to_string();
            Some((name, inputs.text(path).get()?.parse().ok()?))
        })
        .collect();
    if !values.is_empty() {
        return Fact::value(place, values);
    }
    let why = match inputs.bytes("sys/kernel/debug/kvm").reading {
        Reading::Unreadable(why) => why,
        _ => "debugfs is not mounted or not readable".into(),
    };
    Fact::unreadable(place, why)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn name_is_the_one_people_use() {
        let rows: &[(&[&str], Option<&str>)] = &[
            (&["qemu-system-x86_64", "-name", "guest=web,debug-threads=on"], Some("web")),
            (&["/usr/bin/kvm", "-id", "100", "-name", "web,debug-threads=on"], Some("web")),
            (&["firecracker", "--id", "f1"], Some("f1")),
            (&["qemu-system-x86_64", "-m", "1G"], None),
            (&["qemu-system-x86_64", "-name"], None),
        ];
        for (words, expected) in rows {
            let words: Vec<String> = words.iter().map(|word| word.to_string()).collect();
            assert_eq!(name(&words).as_deref(), *expected, "{words:?}");
        }
    }
}
