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

/// What makes a module or a package of Nix; lists in it are computed.
const NIX: Row = row(&[], "NixOS", NIXOS);

/// Whether a text is of another program as a whole.
pub fn is_one(text: &str) -> bool {
    is_nix(text) || ROWS.iter().any(|row| !row.holds_commands && row.is_met(text))
}

/// What it is, and what to judge in its place.
pub fn told(text: &str) -> Option<String> {
    let row = ROWS.iter().find(|row| row.is_met(text)).or(is_nix(text).then_some(&NIX))?;
    Some(format!(
        "a file of {}, from which the configuration is made; judge what it made: {}",
        row.whose, row.instead
    ))
}

/// Words of Nix and of its packages that no other language has.
const NIX_WORDS: [&str; 6] =
    ["${pkgs.", "with pkgs;", "import <nixpkgs", "mkDerivation", "lib.mkIf ", "lib.optionals "];

/// A function of an attribute set as the whole file, `{ config, pkgs, ... }:`, or words of it.
fn is_nix(text: &str) -> bool {
    if NIX_WORDS.iter().any(|word| text.contains(word)) {
        return true;
    }
    let code =
        text.lines().map(str::trim).skip_while(|line| line.is_empty() || line.starts_with('#'));
    let head: String = code.take(40).flat_map(|line| [line, " "]).collect();
    let Some((names, _)) = head.strip_prefix('{').and_then(|rest| rest.split_once('}')) else {
        return false;
    };
    let behind = head[names.len() + 2..].trim_start();
    let is_name = |c: char| c.is_alphanumeric() || "_-., ?'".contains(c);
    names.chars().all(is_name) && (behind.starts_with(':') || behind.starts_with('@'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_nix_are_known_by_their_first_line_or_their_words() {
        for (text, is_one) in [
            ("{ config, pkgs, ... }:\n{ }\n", true),
            ("# a comment\n\n{ self\n, nixpkgs ? null\n, ...\n}@inputs:\nlet x = 1; in x\n", true),
            ("{pkgs, ...}: with pkgs; [ ]\n", true),
            ("{ \"a\": { \"b\": 1 } }\n", false),
            ("{ qemu-system-x86_64 -enable-kvm; }\n", false),
            ("rec {\n  run = \"${pkgs.qemu}/bin/qemu-system-x86_64 -enable-kvm\";\n}\n", true),
            ("{}\n", false),
            ("", false),
        ] {
            assert_eq!(is_nix(text), is_one, "{text}");
        }
    }
}
