//! Files from which another program makes a machine's configuration: what they are, and what is to
//! be judged in their place. What such a program adds is not known here, so no answer is taken from
//! them.

/// What a file is, and what tells more.
struct Row {
    /// Beginnings of lines, all of which a file of this kind has; blanks in front do not count.
    marks: &'static [&'static str],
    /// It may hold whole command lines, which are judged.
    holds_commands: bool,
    /// Whose it is.
    whose: &'static str,
    /// What is to be judged.
    instead: &'static str,
}

impl Row {
    fn is_met(&self, text: &str) -> bool {
        let has = |mark: &&str| text.lines().any(|line| line.trim_start().starts_with(mark));
        self.marks.iter().all(has)
    }
}

const fn row(marks: &'static [&'static str], whose: &'static str, instead: &'static str) -> Row {
    Row { marks, holds_commands: false, whose, instead }
}

/// Sources: the documentation of Incus 6 and LXD 5.21 (`raw.qemu`), of OpenStack's nova 2025.1
/// (`[libvirt]`), of Terraform's provider dmacvicar/libvirt 0.8, of vagrant-libvirt 0.12, of Cloud
/// Hypervisor 48 (`vm.create`), and of NixOS 25.05.
const ROWS: [Row; 8] = [
    row(&["raw.qemu:"], "Incus or LXD, which adds most of QEMU's arguments", PROCESS),
    row(&["limits.cpu:", "type: virtual-machine"], "Incus or LXD", PROCESS),
    row(&["resource \"libvirt_domain\""], "Terraform's provider for libvirt", DOMAIN),
    row(&["Vagrant.configure"], "Vagrant", DOMAIN),
    row(&["[DEFAULT]", "[libvirt]"], "OpenStack's nova", DOMAIN),
    row(&["hw:cpu_policy"], "OpenStack's nova", DOMAIN),
    Row { holds_commands: true, ..row(&["boot.extraModprobeConfig"], "NixOS", NIXOS) },
    Row { holds_commands: true, ..row(&["boot.kernelParams"], "NixOS", NIXOS) },
];

const PROCESS: &str = "avicenna why NAME, or avicenna lint /proc/PID/cmdline";
const DOMAIN: &str = "virsh dumpxml NAME | avicenna lint -";
const NIXOS: &str = "avicenna check, or avicenna lint /etc/modprobe.d/nixos.conf /proc/cmdline";

/// Whether a text is of another program as a whole.
pub fn is_one(text: &str) -> bool {
    ROWS.iter().any(|row| !row.holds_commands && row.is_met(text))
}

/// What it is, and what to judge in its place.
pub fn told(text: &str) -> Option<String> {
    let row = ROWS.iter().find(|row| row.is_met(text))?;
    Some(format!(
        "a file of {}, from which the configuration is made; judge what it made: {}",
        row.whose, row.instead
    ))
}
