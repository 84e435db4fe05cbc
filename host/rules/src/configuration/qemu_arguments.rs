//! QEMU command lines: shell text, scripts, libvirt's `.args` files, `/proc/PID/cmdline`, unit
//! files.
//!
//! Sources: `qemu-options.hx` and `system/vl.c` of QEMU 7.2 to 10.2, and options removed before.
//! Left out: options without influence on interrupts.

use super::pairs::{Pair, pairs};
use super::qemu::{Global, Object, Property, QemuSettings, placed, truth};
use super::qemu_machine::Topology;
use super::qemu_program::{only_informs, starts_machine};
use super::shell::{Command, Word};
use crate::finding::Position;
use crate::position::Lines;
use crate::vm::Unresolved;
use std::ops::Range;

/// Options of QEMU that take no value.
const WITHOUT_VALUE: [&str; 54] = [
    "h",
    "help",
    "version",
    "enable-kvm",
    "no-hpet",
    "no-acpi",
    "no-reboot",
    "no-shutdown",
    "nodefaults",
    "no-user-config",
    "nographic",
    "curses",
    "snapshot",
    "S",
    "s",
    "daemonize",
    "full-screen",
    "no-fd-bootchk",
    "no-quit",
    "alt-grab",
    "ctrl-grab",
    "no-frame",
    "sdl",
    "usb",
    "win2k-hack",
    "rtc-td-hack",
    "localtime",
    "no-kvm",
    "no-kvm-irqchip",
    "no-kvm-pit",
    "no-kvm-pit-reinjection",
    "tdf",
    "mem-prealloc",
    "singlestep",
    "one-insn-per-tb",
    "xen-attach",
    "xen-create",
    "portrait",
    "audio-help",
    "preconfig",
    "only-migratable",
    "nouserconfig",
    "enable-sync-profile",
    "enable-fips",
    "semihosting",
    "old-param",
    "async-teardown",
    "enable-hax",
    "no-hax",
    "perfmap",
    "jitdump",
    "enable-hvf",
    "version-json",
    "no-sandbox",
];

/// One option of a command line with its place.
#[derive(Clone, Debug)]
pub struct Flag<'t> {
    pub name: String,
    /// The option word and its value.
    pub at: Range<usize>,
    pub value: Option<Word<'t>>,
}

/// A machine's command line: program and options.
#[derive(Clone, Debug, Default)]
pub struct Invocation<'t> {
    pub program: Option<Word<'t>>,
    pub flags: Vec<Flag<'t>>,
    /// Words that are neither options nor their values.
    pub positional: Vec<Word<'t>>,
    pub span: Range<usize>,
}

/// The QEMU command line of a shell command, if it is one.
pub fn invocation<'t>(command: &Command<'t>) -> Option<Invocation<'t>> {
    let program = (0..command.words.len()).find(|&index| starts_machine(&command.words, index));
    let (program, rest) = match program {
        Some(index) => (command.words.get(index), index + 1),
        // The name may be in a variable, or left out.
        None => {
            let first = command.words.first()?;
            let is_option = |word: &Word<'_>| known_option(word).is_some();
            let named_by_variable = first.has_expansion
                && !first.text.contains('=')
                && command.words.get(1).is_some_and(is_option);
            if is_option(first) {
                (None, 0)
            } else if named_by_variable && looks_like_qemu(&command.words[1..]) {
                (Some(first), 1)
            } else {
                return None;
            }
        }
    };
    let words = &command.words[rest..];
    if program.is_none() && !looks_like_qemu(words) {
        return None;
    }
    // A name that comes out of a variable stands elsewhere.
    let first = program.or(command.words.first())?;
    let last = command.words.iter().rev().find(|word| word.raw.start >= first.raw.start)?;
    let mut found = Invocation {
        program: program.cloned(),
        span: first.raw.start..last.raw.end,
        ..Invocation::default()
    };
    read_flags(words, &mut found);
    (!only_informs(&found)).then_some(found)
}

/// Options that another input adds to QEMU's command line.
pub fn additional_settings(words: &[Word<'_>], lines: &Lines<'_>) -> QemuSettings {
    let mut found = Invocation::default();
    read_flags(words, &mut found);
    settings(&found, lines)
}

fn read_flags<'t>(words: &[Word<'t>], found: &mut Invocation<'t>) {
    let mut index = 0;
    while let Some(word) = words.get(index) {
        index += 1;
        let text = word.text.as_ref();
        let Some(name) = option_name(text).filter(|_| !word.has_expansion) else {
            found.positional.push(word.clone());
            continue;
        };
        let value = if WITHOUT_VALUE.contains(&name) {
            None
        } else {
            words.get(index).filter(|next| known_option(next).is_none()).cloned()
        };
        index += usize::from(value.is_some());
        let end = value.as_ref().map_or(word.raw.end, |value| value.raw.end);
        let at = word.raw.start.min(end)..end.max(word.raw.start);
        found.flags.push(Flag { name: name.to_owned(), at, value });
    }
}

pub(super) fn option_name(text: &str) -> Option<&str> {
    let name = text.strip_prefix("--").or_else(|| text.strip_prefix('-'))?;
    name.starts_with(|c: char| c.is_ascii_alphabetic()).then_some(name)
}

/// Options that matter here, so that a missing value does not swallow them.
fn known_option<'w>(word: &'w Word<'_>) -> Option<&'w str> {
    let name = option_name(word.text.as_ref())?;
    const KNOWN: [&str; 18] = [
        "machine",
        "M",
        "accel",
        "cpu",
        "smp",
        "device",
        "global",
        "object",
        "readconfig",
        "kernel",
        "append",
        "m",
        "drive",
        "netdev",
        "name",
        "rtc",
        "overcommit",
        "gdb",
    ];
    (KNOWN.contains(&name) || WITHOUT_VALUE.contains(&name)).then_some(name)
}

/// A command line without a program's name is one of QEMU if it has a few of its options.
fn looks_like_qemu(words: &[Word<'_>]) -> bool {
    const TELLING: [&str; 8] =
        ["machine", "M", "accel", "enable-kvm", "cpu", "smp", "nodefaults", "device"];
    // `--enable-kvm` alone is an option of QEMU's build too.
    let is_alone = words.len() == 1 && words[0].text.starts_with("--");
    let is_telling =
        |word: &Word<'_>| known_option(word).is_some_and(|name| TELLING.contains(&name));
    !is_alone && words.iter().any(is_telling)
}

/// What one command line tells QEMU.
pub fn settings(invocation: &Invocation<'_>, lines: &Lines<'_>) -> QemuSettings {
    let mut settings = QemuSettings::default();
    if let Some(program) = &invocation.program {
        let at = lines.position(program.raw.start, program.raw.end);
        let name = program.text.trim_start_matches("ExecStart=");
        settings.program = Some(placed(name.to_owned(), at));
    }
    for word in invocation.positional.iter().filter(|word| word.has_expansion) {
        let at = lines.position(word.raw.start, word.raw.end);
        leave_open(&mut settings, at, format!("{} is not known here", word.text));
    }
    for flag in &invocation.flags {
        apply(&mut settings, flag, lines);
    }
    settings
}

fn leave_open(settings: &mut QemuSettings, at: Position, what: String) {
    settings.is_incomplete.get_or_insert_with(|| what.clone());
    settings.unresolved.push(Unresolved { at, what });
}

/// What stands in `-cpu` decides features, and nothing of the machine around the processor.
fn leave_cpu_open(settings: &mut QemuSettings, at: Position, text: &str) {
    let what = format!("{text} is not known here");
    settings.open_cpu.get_or_insert_with(|| what.clone());
    settings.unresolved.push(Unresolved { at, what });
}

fn apply(settings: &mut QemuSettings, flag: &Flag<'_>, lines: &Lines<'_>) {
    let at = lines.position(flag.at.start, flag.at.end);
    let place = |range: &Range<usize>| lines.position(range.start, range.end);
    match flag.name.as_str() {
        "enable-kvm" => settings.accelerator = Some(placed("kvm".into(), at)),
        "no-kvm" => settings.accelerator = Some(placed("tcg".into(), at)),
        "enable-hax" | "enable-hvf" => settings.accelerator = Some(placed("hvf".into(), at)),
        "no-hpet" => settings.machine.push(property("hpet", "off", at)),
        "no-kvm-irqchip" => settings.machine.push(property("kernel-irqchip", "off", at)),
        "no-kvm-pit-reinjection" => settings.globals.push(Global {
            driver: "kvm-pit".into(),
            property: property("lost_tick_policy", "discard", at),
        }),
        "localtime" => settings.is_local_time = Some(at),
        "s" => settings.debugger = Some(at),
        _ => {}
    }
    let Some(word) = &flag.value else { return };
    let list = || pairs(word);
    match flag.name.as_str() {
        "machine" | "M" => machine(settings, &list(), lines, true),
        "accel" => accel(settings, &list(), lines),
        "cpu" => cpu(settings, &list(), lines),
        "smp" => smp(settings, &list(), at),
        "global" => global(settings, &list(), place(&word.source(0..word.text.len()))),
        "device" => settings.devices.extend(object(&list(), "driver", at, lines)),
        "object" => settings.objects.extend(object(&list(), "qom-type", at, lines)),
        "rtc" => {
            let local =
                |pair: &Pair| pair.key == "base" && pair.value.as_deref() == Some("localtime");
            if let Some(pair) = list().iter().find(|pair| local(pair)) {
                settings.is_local_time = Some(place(&pair.at));
            }
        }
        "kernel" => settings.has_kernel = Some(at),
        "gdb" => settings.debugger = Some(at),
        "overcommit" => {
            for pair in list().iter().filter(|pair| pair.key == "cpu-pm") {
                if let Some(on) = pair.value.as_deref().and_then(truth) {
                    settings.cpu_pm = Some(placed(on, place(&pair.at)));
                }
            }
        }
        "name" => {
            let named = |pair: &Pair| pair.value.is_none() || pair.key == "guest";
            if let Some(pair) = list().into_iter().find(named) {
                settings.name = Some(pair.value.unwrap_or(pair.key));
            }
        }
        "readconfig" if !has_devices_only(&word.text) => {
            leave_open(settings, at, format!("-readconfig {} is not read here", word.text));
        }
        _ => {}
    }
}

/// Files that tools ship with devices alone in them: Proxmox VE's, and QEMU's USB controllers.
fn has_devices_only(file: &str) -> bool {
    file.starts_with("/usr/share/qemu-server/pve-") || file.ends_with("/ich9-ehci-uhci.cfg")
}

fn property(key: &str, value: &str, at: Position) -> Property {
    Property { key: key.to_owned(), value: value.to_owned(), at }
}

fn dashes(key: &str) -> String {
    key.replace('_', "-")
}

fn machine(settings: &mut QemuSettings, list: &[Pair], lines: &Lines<'_>, has_type: bool) {
    for (index, pair) in list.iter().enumerate() {
        let at = lines.position(pair.at.start, pair.at.end);
        match (&pair.value, dashes(&pair.key).as_str()) {
            (None, _) if index == 0 && has_type => {
                settings.machine_type = Some(placed(pair.key.clone(), at));
            }
            (Some(name), "type") => settings.machine_type = Some(placed(name.clone(), at)),
            (Some(list), "accel") => settings.accelerator = Some(placed(list.clone(), at)),
            (Some(value), key) => settings.machine.push(property(key, value, at)),
            (None, _) if pair.key.contains(['$', '`']) => {
                leave_open(settings, at, format!("{} is not known here", pair.key));
            }
            // QEMU takes a bare word for "on", "noX" for "off".
            (None, key) => match key.strip_prefix("no") {
                Some(name) => settings.machine.push(property(name, "off", at)),
                None => settings.machine.push(property(key, "on", at)),
            },
        }
    }
}

fn accel(settings: &mut QemuSettings, list: &[Pair], lines: &Lines<'_>) {
    let mut rest = list;
    if let Some((first, others)) = list.split_first() {
        let name = match (&first.value, first.key.as_str()) {
            (None, name) => Some(name.to_owned()),
            (Some(name), "accel") => Some(name.clone()),
            _ => None,
        };
        if let Some(name) = name {
            let at = lines.position(first.at.start, first.at.end);
            // Further -accel options are fallbacks: the first one counts.
            if settings.accelerator.is_none() {
                settings.accelerator = Some(placed(name.clone(), at));
            }
            rest = if name == "kvm" { others } else { &[] };
        }
    }
    machine(settings, rest, lines, false);
}

fn cpu(settings: &mut QemuSettings, list: &[Pair], lines: &Lines<'_>) {
    settings.features.clear();
    settings.open_cpu = None;
    for (index, pair) in list.iter().enumerate() {
        let at = lines.position(pair.at.start, pair.at.end);
        if index == 0 && pair.value.is_none() {
            settings.cpu_model = Some(placed(pair.key.clone(), at));
            if pair.key.contains(['$', '`']) {
                leave_cpu_open(settings, at, &pair.key);
            }
            continue;
        }
        let feature = match (&pair.value, pair.key.as_str()) {
            (Some(value), key) => property(&dashes(key), value, at),
            (None, key) if key.contains(['$', '`']) => {
                leave_cpu_open(settings, at, key);
                continue;
            }
            (None, key) => match (key.strip_prefix('+'), key.strip_prefix('-')) {
                (Some(name), _) => property(&dashes(name), "on", at),
                (_, Some(name)) => property(&dashes(name), "off", at),
                _ => property(&dashes(key), "on", at),
            },
        };
        settings.features.push(feature);
    }
}

fn smp(settings: &mut QemuSettings, list: &[Pair], at: Position) {
    let topology: &mut Topology = &mut settings.topology;
    for (index, pair) in list.iter().enumerate() {
        let (key, value) = match &pair.value {
            Some(value) => (pair.key.as_str(), value.as_str()),
            None if index == 0 => ("cpus", pair.key.as_str()),
            None => continue,
        };
        let Ok(number) = value.parse::<u32>() else {
            if value.contains(['$', '`']) {
                settings
                    .unresolved
                    .push(Unresolved { at, what: format!("{value} is not known here") });
            }
            continue;
        };
        let level = match key {
            "cpus" => &mut topology.cpus,
            "maxcpus" => &mut topology.maxcpus,
            "sockets" => &mut topology.sockets,
            "dies" => &mut topology.dies,
            "modules" | "clusters" => &mut topology.modules,
            "cores" => &mut topology.cores,
            "threads" => &mut topology.threads,
            _ => continue,
        };
        *level = Some(number);
    }
    settings.topology_at = Some(at);
}

fn global(settings: &mut QemuSettings, list: &[Pair], at: Position) {
    let get = |key: &str| list.iter().find(|p| p.key == key).and_then(|p| p.value.clone());
    if let (Some(driver), Some(name), Some(value)) = (get("driver"), get("property"), get("value"))
    {
        settings.globals.push(Global { driver, property: property(&name, &value, at) });
    } else if let Some(Pair { key, value: Some(value), .. }) = list.first()
        && let Some((driver, name)) = key.split_once('.')
    {
        let property = property(name, value, at);
        settings.globals.push(Global { driver: driver.to_owned(), property });
    } else if let Some(Pair { key, .. }) = list.first().filter(|p| p.key.contains(['$', '`'])) {
        leave_open(settings, at, format!("{key} is not known here"));
    }
}

/// A `-device` or `-object` value.
pub fn object(list: &[Pair], type_key: &str, at: Position, lines: &Lines<'_>) -> Option<Object> {
    let first = list.first()?;
    let kind = match list.iter().find(|pair| pair.key == type_key) {
        Some(pair) => pair.value.clone()?,
        None if first.value.is_none() => first.key.clone(),
        None => return None,
    };
    let properties = list
        .iter()
        .filter_map(|pair| {
            let at = lines.position(pair.at.start, pair.at.end);
            Some(Property { key: pair.key.clone(), value: pair.value.clone()?, at })
        })
        .collect();
    Some(Object { kind, at, properties })
}
