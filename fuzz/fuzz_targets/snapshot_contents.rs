//! What a snapshot's files say, past the archive: each record is a path's number, a length, and the
//! bytes.
#![no_main]

use facts::Inputs;
use libfuzzer_sys::fuzz_target;

const PATHS: [&str; 24] = [
    "cpuid.txt",
    "proc/cpuinfo",
    "proc/cmdline",
    "proc/version",
    "proc/interrupts",
    "proc/sys/kernel/osrelease",
    "proc/4711/cmdline",
    "etc/os-release",
    "etc/modprobe.d/kvm.conf",
    "etc/default/grub",
    "etc/libvirt/qemu/web.xml",
    "run/libvirt/qemu/web.xml",
    "var/log/libvirt/qemu/web.log",
    "etc/pve/qemu-server/100.conf",
    "sys/module/kvm_amd/parameters/avic",
    "sys/class/iommu/ivhd0/amd-iommu/features",
    "sys/class/iommu/dmar0/intel-iommu/ecap",
    "sys/firmware/acpi/tables/IVRS",
    "sys/firmware/acpi/tables/DMAR",
    "sys/firmware/acpi/tables/APIC",
    "sys/kernel/tracing/events/kvm/kvm_apicv_inhibit_changed/format",
    "sos_commands/processor/lscpu",
    "sos_commands/process/ps_auxwww",
    "avicenna/manifest.json",
];

fuzz_target!(|bytes: &[u8]| {
    let mut inputs = Inputs::new("fuzz");
    let mut rest = bytes;
    while let [path, low, high, after @ ..] = rest {
        let length = usize::from(u16::from_le_bytes([*low, *high])).min(after.len());
        inputs.insert(PATHS[usize::from(*path) % PATHS.len()], after[..length].to_vec());
        rest = &after[length..];
    }
    facts::snapshot::apply_manifest(&mut inputs);
    let facts = facts::facts(&inputs);
    let report = rules::capability::check(&facts);
    let vms: Vec<_> = facts.vms.get().into_iter().flatten().collect();
    let _ = rules::why::why(&facts, &report, &vms, |_| Err("not looked".into()));
});
