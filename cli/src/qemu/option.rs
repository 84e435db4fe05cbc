//! QEMU's options, a row each, as its manual's chapter on invocation has them.

use super::request::Request;
use super::{device, processor};

/// What an option does.
pub(super) enum Meaning {
    /// It says something of the machine or of the run. An error is why it cannot be honoured.
    Does(fn(&mut Request, &str) -> Result<(), String>),
    /// The machine is as it asks for.
    Holds,
    /// It has no effect, which is said.
    Ignored,
    /// It cannot be honoured, and why.
    Refused(&'static str),
}

/// An option.
pub(super) struct Row {
    pub name: &'static str,
    pub takes_value: bool,
    pub meaning: Meaning,
}

use Meaning::{Does, Holds, Ignored, Refused};

/// With a value behind it.
const fn value(name: &'static str, meaning: Meaning) -> Row {
    Row { name, takes_value: true, meaning }
}

/// A word alone.
const fn word(name: &'static str, meaning: Meaning) -> Row {
    Row { name, takes_value: false, meaning }
}

const ONLY_DISKS: &str =
    "what is booted is -kernel, or a disk by -bios: -drive if=virtio,file=FILE,format=raw";
const NO_MIGRATION: &str = "a running machine cannot be taken over";

/// All that are known.
pub(super) const OPTIONS: &[Row] = &[
    word("h", Does(|request, _| request.ask(super::request::Question::Help))),
    word("help", Does(|request, _| request.ask(super::request::Question::Help))),
    word("version", Does(|request, _| request.ask(super::request::Question::Version))),
    value("kernel", Does(|request, text| request.set_kernel(text))),
    value("initrd", Does(|request, text| request.set_initrd(text))),
    value("append", Does(|request, text| request.set_append(text))),
    value("smp", Does(|request, text| request.set_processors(text))),
    value("m", Does(|request, text| request.set_memory(text))),
    value("cpu", Does(processor::set)),
    value("machine", Does(device::machine)),
    value("M", Does(device::machine)),
    value("accel", Does(device::accelerator)),
    word("enable-kvm", Ignored),
    value("device", Does(device::add)),
    value("drive", Does(device::drive)),
    value("fsdev", Does(device::name_folder)),
    value("virtfs", Does(device::share)),
    value("net", Does(device::nothing)),
    value("parallel", Does(device::nothing)),
    value("netdev", Does(device::network)),
    value("nic", Does(device::interface)),
    value("serial", Does(device::serial)),
    value("monitor", Does(|request, text| request.set_monitor(text))),
    value("qmp", Does(|request, text| request.set_protocol(text))),
    value("mon", Does(|request, text| request.set_named_monitor(text))),
    value("chardev", Does(|request, text| request.add_character(text))),
    value("gdb", Does(|request, text| request.set_gdb(text))),
    word("s", Does(|request, _| request.set_gdb("tcp::1234"))),
    word("S", Does(|request, _| request.set_stopped())),
    value("global", Ignored),
    value("overcommit", Ignored),
    value("name", Holds),
    value("display", Does(device::display)),
    value("vnc", Does(device::display)),
    value("vga", Does(device::display)),
    word("nographic", Holds),
    word("nodefaults", Holds),
    word("no-user-config", Holds),
    word("no-reboot", Does(|request, _| request.set_ends_at_reset())),
    word("no-shutdown", Ignored),
    word("no-hpet", Ignored),
    word("no-acpi", Ignored),
    word("snapshot", Does(|request, _| request.set_snapshot())),
    value("boot", Ignored),
    value("rtc", Ignored),
    value("k", Ignored),
    value("echr", Ignored),
    value("msg", Ignored),
    value("bios", Does(|request, text| request.set_firmware(text))),
    value("pflash", Does(device::flash)),
    value("cdrom", Refused(ONLY_DISKS)),
    value("hda", Refused("there is no IDE: -drive if=virtio,file=FILE,format=raw")),
    value("fda", Refused(ONLY_DISKS)),
    value("incoming", Refused(NO_MIGRATION)),
    value("loadvm", Refused(NO_MIGRATION)),
    value("dtb", Refused("an x86 machine has no device tree")),
    value("object", Refused("the machine has no objects of QEMU's")),
    word("daemonize", Refused("the run stays in the foreground")),
];

/// The row of a word of the command line.
pub(super) fn find(text: &str) -> Option<&'static Row> {
    let name = text.strip_prefix("--").or(text.strip_prefix('-'))?;
    OPTIONS.iter().find(|row| row.name == name)
}

/// What `-help` says below its first line.
pub(super) fn help() -> String {
    let mut text = String::new();
    for row in OPTIONS {
        let value = if row.takes_value { " VALUE" } else { "" };
        let meaning = match row.meaning {
            Does(_) | Holds => String::new(),
            Ignored => "  (without effect)".to_owned(),
            Refused(why) => format!("  (refused: {why})"),
        };
        text += &format!("-{}{value}{meaning}\n", row.name);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_option_has_one_row_and_one_or_two_hyphens() {
        for (index, row) in OPTIONS.iter().enumerate() {
            let first = OPTIONS.iter().position(|other| other.name == row.name);
            assert_eq!(first, Some(index), "-{}", row.name);
        }
        assert!(find("-smp").is_some() && find("--smp").is_some());
        assert!(find("smp").is_none() && find("---smp").is_none() && find("-").is_none());
    }
}
