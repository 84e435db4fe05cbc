//! Running virtual machines: command lines, libvirt's status files, KVM's statistics.

use super::remapping::pci_address;
use crate::inputs::{Content, Inputs};
use crate::wanted;
use reading::{ConfigurationFile, Fact, Reading, RunningVm};
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
        .chain(holders(inputs))
        .map(|(pid, arguments)| machine(inputs, pid, arguments))
        .take(MACHINES_LIMIT)
        .collect();
    if machines.is_empty() {
        machines = of_process_list(inputs);
    }
    machines.sort_by_key(|machine| machine.pid);
    let is_listed = inputs.incomplete().is_none() && has_process_list(inputs);
    let reading = if !machines.is_empty() || inputs.was_searched(wanted::PROCESSES) || is_listed {
        Reading::Value(machines)
    } else {
        Reading::Unreadable("not recorded in this input".into())
    };
    Fact { place: place.into(), reading }
}

/// Processes that have a machine of KVM open and are not monitors that are known: their numbers and
/// programs.
fn holders(inputs: &Inputs) -> Vec<(u32, Vec<String>)> {
    let text = inputs.text(wanted::HOLDERS);
    let lines = text.get().into_iter().flat_map(|text| text.lines());
    lines
        .filter_map(|line| {
            let (pid, program) = line.split_once(' ')?;
            Some((pid.parse().ok()?, vec![program.to_owned()]))
        })
        .collect()
}

fn has_process_list(inputs: &Inputs) -> bool {
    inputs
        .below("sos_commands/process/ps_")
        .any(|(path, _)| inputs.text(path).get().is_some_and(|text| is_process_list(text)))
}

fn machine(inputs: &Inputs, pid: u32, arguments: Vec<String>) -> RunningVm {
    let program = || Some(arguments.first()?.rsplit('/').next()?.to_owned());
    let name = match wanted::is_monitor(&arguments) {
        true => name(&arguments),
        false => program(),
    };
    RunningVm {
        pid,
        xml: name.as_deref().and_then(|name| domain(inputs, name)),
        statistics: statistics(inputs, pid),
        functions: functions(inputs, pid, &arguments),
        name,
        arguments,
    }
}

/// By what the process has open, and without that by its command line, where all that are given at
/// its start stand.
fn functions(inputs: &Inputs, pid: u32, arguments: &[String]) -> Fact<Vec<String>> {
    let opened = inputs.text(wanted::VFIO);
    if let Some(text) = opened.get() {
        let own = text.lines().filter_map(|line| line.split_once(' '));
        let own = own.filter(|(holder, _)| holder.parse() == Ok(pid));
        let mut own: Vec<String> = own.map(|(_, address)| address.to_owned()).collect();
        own.sort();
        return Fact::value(opened.place, own);
    }
    let words = arguments.iter().filter(|word| {
        word.contains("vfio-pci")
            || word.contains("/sys/bus/pci/devices/")
            || word.contains("host=")
    });
    let parts = words.flat_map(|word| word.split(['=', ',', '"', '/', '}', '{', ' ']));
    let mut found: Vec<String> = parts.filter_map(pci_address).collect();
    found.sort();
    found.dedup();
    Fact::value(format!("/proc/{pid}/cmdline"), found)
}

/// A sosreport has the process lists of `ps`: the heading says where the number stands, and the
/// last column is the command line.
fn of_process_list(inputs: &Inputs) -> Vec<RunningVm> {
    let mut machines = vec![];
    for (_, content) in inputs.below("sos_commands/process/ps_") {
        let Content::Bytes(bytes) = content else { continue };
        let text = String::from_utf8_lossy(bytes);
        let mut lines = text.lines().take(100_000);
        let Some(columns) = lines.find_map(Columns::read) else { continue };
        for line in lines {
            let Some((pid, arguments)) = columns.process(line) else { continue };
            if wanted::is_monitor(&arguments)
                && !machines.iter().any(|machine: &RunningVm| machine.pid == pid)
                && machines.len() < MACHINES_LIMIT
            {
                machines.push(machine(inputs, pid, arguments));
            }
        }
    }
    machines
}

/// Whether a text is a process list: one of its first lines is a heading.
pub fn is_process_list(text: &str) -> bool {
    text.lines().take(5).any(|line| Columns::read(line).is_some())
}

/// Columns of a process list.
struct Columns {
    pid: usize,
    /// Words before the command line.
    before_command: usize,
}

impl Columns {
    fn read(line: &str) -> Option<Columns> {
        let names: Vec<&str> = line.split_whitespace().collect();
        let pid = names.iter().position(|name| *name == "PID")?;
        let is_command = |name: &str| matches!(name, "COMMAND" | "CMD" | "ARGS");
        // A full date of start is five words: "Sat Nov 22 08:13:00 2026".
        let dates = names.iter().filter(|name| **name == "STARTED").count();
        let is_list = names.len() > 2 && names.last().is_some_and(|name| is_command(name));
        is_list.then(|| Columns { pid, before_command: names.len() - 1 + 4 * dates })
    }

    fn process(&self, line: &str) -> Option<(u32, Vec<String>)> {
        let words: Vec<&str> = line.split_whitespace().collect();
        let pid = words.get(self.pid)?.parse().ok()?;
        let arguments = words.get(self.before_command..)?;
        Some((pid, arguments.iter().map(|word| word.to_string()).collect()))
    }
}

/// `-name guest=NAME,…`, `-name NAME`, `--id NAME`, `--name NAME`, Proxmox's
/// `-id 100 -name NAME,…`.
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
    fn process_lists_say_where_the_number_and_the_command_stand() {
        let command = "/usr/libexec/qemu-kvm -name guest=web,debug-threads=on -accel kvm";
        let rows = [
            (
                "USER PID %CPU %MEM VSZ RSS TTY STAT START TIME COMMAND",
                "qemu 4711 1.0 0.1 100 100 ? Sl 10:00 0:01",
            ),
            (
                "F S USER UID PID PPID PGID SID CLS PRI PSR ADDR SZ WCHAN STARTED TTY TIME CMD",
                "6 S qemu 107 4711 1 4711 4711 TS 19 3 - 100 poll_schedule_timeo Sat Nov 22 08:13:00 2026 ? 00:00:01",
            ),
            (
                "F UID PID PPID PRI NI VSZ RSS WCHAN STAT TTY TIME COMMAND",
                "6 107 4711 1 20 0 1 1 do_sys Sl ? 0:01",
            ),
        ];
        for (heading, words) in rows {
            assert!(is_process_list(heading), "{heading}");
            let text = format!("{heading}\n{words} {command}\n{words} grep qemu-kvm -name\n");
            let mut inputs = Inputs::new("test");
            inputs.insert("sos_commands/process/ps_list", text.into_bytes());
            let found = running(&inputs);
            let found: Vec<_> =
                found.get().unwrap().iter().map(|vm| (vm.pid, vm.name.as_deref())).collect();
            assert_eq!(found, [(4711, Some("web"))], "{heading}");
        }
        assert!(!is_process_list("the PID of its COMMAND is here"));
    }

    #[test]
    fn a_program_that_holds_a_machine_is_one_that_runs_it() {
        let mut inputs = Inputs::new("test");
        inputs.insert("proc/13/cmdline", b"/usr/bin/other".to_vec());
        inputs.insert(wanted::HOLDERS, b"12 /opt/bin/monitor\n".to_vec());
        let found = running(&inputs);
        let found: Vec<_> =
            found.get().unwrap().iter().map(|vm| (vm.pid, vm.name.as_deref())).collect();
        assert_eq!(found, [(12, Some("monitor"))]);
    }

    #[test]
    fn functions_are_those_that_the_process_has_open_or_else_those_of_its_command_line() {
        let words = |words: &[&str]| words.iter().map(|word| word.to_string()).collect::<Vec<_>>();
        for (arguments, expected) in [
            (&["qemu", "-device", "vfio-pci,host=3b:00.1,id=x"][..], &["0000:3b:00.1"][..]),
            (
                &[
                    "qemu",
                    "-device",
                    r#"{"driver":"vfio-pci","host":"0000:3b:00.1","bus":"pci.4"}"#,
                ],
                &["0000:3b:00.1"],
            ),
            (
                &["qemu", "-device", "vfio-pci,sysfsdev=/sys/bus/pci/devices/0001:01:00.0"],
                &["0001:01:00.0"],
            ),
            (
                &["cloud-hypervisor", "--device", "path=/sys/bus/pci/devices/0000:01:00.0/"],
                &["0000:01:00.0"],
            ),
            (&["qemu", "-device", "virtio-net,mac=00:16:3e:00:00:01"], &[]),
        ] {
            let found = functions(&Inputs::new("test"), 7, &words(arguments));
            assert_eq!(found.get().unwrap(), expected, "{arguments:?}");
        }
        let mut inputs = Inputs::new("test");
        inputs.insert(wanted::VFIO, b"7 0000:3b:00.2\n8 0000:3b:00.3\n7 0000:3b:00.1\n".to_vec());
        let found = functions(&inputs, 7, &words(&["qemu"]));
        assert_eq!(found.get().unwrap(), &["0000:3b:00.1", "0000:3b:00.2"]);
    }

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
