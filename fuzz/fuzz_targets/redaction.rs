//! A file of a host as it goes out: whatever it holds it is made up in bounds, and the same words
//! become the same. The first byte chooses the file.
#![no_main]

use facts::Inputs;
use facts::snapshot::{Stamp, members};
use libfuzzer_sys::fuzz_target;

const PATHS: [&str; 12] = [
    "proc/7/cmdline",
    "proc/cmdline",
    "proc/cpuinfo",
    "etc/libvirt/qemu/web.xml",
    "var/log/libvirt/qemu/web.log",
    "etc/pve/qemu-server/100.conf",
    "etc/modprobe.d/kvm.conf",
    "etc/default/grub",
    "sos_commands/process/ps_auxwww",
    "sos_commands/kernel/dmesg",
    "boot/loader/entries/1.conf",
    "etc/kubevirt/vm.yaml",
];
/// Nothing becomes more than this many times as much.
const MOST: usize = 16;

fuzz_target!(|bytes: &[u8]| {
    let Some((first, rest)) = bytes.split_first() else { return };
    let path = PATHS[usize::from(*first) % PATHS.len()];
    let mut inputs = Inputs::new("fuzz");
    inputs.insert(path, rest.to_vec());
    let stamp = Stamp { tool: "fuzz", host: None, time: None };
    let all = members(&inputs, &stamp).expect("random numbers");
    let written: usize = all.iter().map(|one| one.bytes.len()).sum();
    assert!(written <= MOST * (rest.len() + 1024), "{written} bytes of {}", rest.len());
});
