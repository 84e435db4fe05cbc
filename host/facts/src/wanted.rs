//! Which files of a host are worth reading, for all sources alike.

/// One `*` stands for any part of one path component. What matches is read; its folder counts as
/// searched.
pub const PATTERNS: &[&str] = &[
    "proc/cpuinfo",
    "proc/cmdline",
    "proc/version",
    "proc/sys/kernel/osrelease",
    "proc/interrupts",
    "etc/os-release",
    "usr/lib/os-release",
    "sys/kernel/security/lockdown",
    "sys/module/kvm*/parameters/*",
    "sys/module/kvm*/refcnt",
    "sys/module/kvm*/initstate",
    "sys/class/iommu/*/amd-iommu/features",
    "sys/class/iommu/*/amd-iommu/cap",
    "sys/class/iommu/*/intel-iommu/cap",
    "sys/class/iommu/*/intel-iommu/ecap",
    "sys/class/iommu/*/intel-iommu/version",
    "sys/firmware/acpi/tables/IVRS",
    "sys/firmware/acpi/tables/DMAR",
    "sys/firmware/acpi/tables/APIC",
    "sys/kernel/tracing/events/kvm/*/format",
    "sys/kernel/debug/tracing/events/kvm/*/format",
    "sys/kernel/debug/kvm/*",
    "sys/kernel/debug/kvm/*/*",
    "sys/kernel/debug/iommu/intel/ir_translation_struct",
    "sys/kernel/debug/iommu/amd/irqtbl",
    "sys/kernel/iommu_groups/*/type",
    "sys/module/vfio*/parameters/*",
    "etc/modprobe.d/*",
    "run/modprobe.d/*",
    "usr/lib/modprobe.d/*",
    "lib/modprobe.d/*",
    "usr/local/lib/modprobe.d/*",
    "etc/default/grub",
    "etc/default/grub.d/*",
    "etc/kernel/cmdline",
    "etc/kernel/proxmox-boot-uuids",
    "etc/kernelstub/configuration",
    "boot/loader/entries/*.conf",
    "boot/efi/loader/entries/*.conf",
    "efi/loader/entries/*.conf",
    "etc/initramfs-tools/modules",
    "etc/dracut.conf",
    "etc/dracut.conf.d/*.conf",
    "etc/mkinitcpio.conf",
    "etc/mkinitcpio.d/*.preset",
    "etc/libvirt/qemu/*.xml",
    "run/libvirt/qemu/*.xml",
    "var/run/libvirt/qemu/*.xml",
    "var/log/libvirt/qemu/*.log",
    "etc/pve/qemu-server/*.conf",
    // sosreport keeps the output of commands here.
    "sos_commands/processor/cpuid*",
    "sos_commands/processor/lscpu*",
    "sos_commands/kernel/dmesg*",
    "sos_commands/kernel/uname*",
    "sos_commands/process/ps_*",
    "sos_commands/boot/lsinitrd*",
    "sos_commands/virsh/*",
    // What a snapshot holds beside the host's own files, and what people put beside it by hand.
    "avicenna/*",
    "avicenna/*/*",
    "cpuid*",
    "dmesg*",
    "acpidump*",
];

/// Programs whose presence says how the kernel command line is kept, in the folders of
/// [`PROGRAM_FOLDERS`].
pub const PROGRAMS: &[&str] = &[
    "proxmox-boot-tool",
    "kernelstub",
    "grubby",
    "update-grub",
    "grub-mkconfig",
    "grub2-mkconfig",
    "kernel-install",
    "rpm-ostree",
    "transactional-update",
    "sdbootutil",
    "update-initramfs",
    "dracut",
    "mkinitcpio",
];
/// Where those programs are looked for.
pub const PROGRAM_FOLDERS: &[&str] =
    &["usr/sbin", "usr/bin", "sbin", "bin", "run/current-system/sw/bin"];

/// The list of them that were found.
pub const PROGRAM_LIST: &str = "avicenna/programs.txt";

/// Command lines of processes; only those of virtual machine monitors are kept.
pub const PROCESSES: &str = "proc/*/cmdline";

/// Processes that have a virtual machine of KVM open and are not monitors that are known: a number
/// and a program a line.
pub const HOLDERS: &str = "avicenna/kvm-holders.txt";

/// PCI functions that such processes have through vfio: a number and an address a line.
pub const VFIO: &str = "avicenna/vfio-functions.txt";

/// True if a path matches a pattern, component by component.
pub fn matches(pattern: &str, path: &str) -> bool {
    let (mut wanted, mut found) = (pattern.split('/'), path.split('/'));
    loop {
        match (wanted.next(), found.next()) {
            (None, None) => return true,
            (Some(wanted), Some(found)) if component_matches(wanted, found) => {}
            _ => return false,
        }
    }
}

fn component_matches(wanted: &str, found: &str) -> bool {
    match wanted.split_once('*') {
        None => wanted == found,
        Some((before, after)) => {
            found.len() >= before.len() + after.len()
                && found.starts_with(before)
                && found.ends_with(after)
        }
    }
}

/// True if any source wants this path.
pub fn is_wanted(path: &str) -> bool {
    PATTERNS.iter().any(|pattern| matches(pattern, path)) || is_process(path)
}

/// A file below `/proc/PID` that is wanted.
pub fn is_process(path: &str) -> bool {
    matches(PROCESSES, path)
        && path.split('/').nth(1).is_some_and(|pid| pid.bytes().all(|b| b.is_ascii_digit()))
}

/// True if the pattern is of the host's own files, whose absence says something.
pub fn is_of_host(pattern: &str) -> bool {
    !pattern.starts_with("avicenna/") && !pattern.starts_with("sos_commands/")
}

/// The folder before the first component with a star.
pub fn fixed_folder(pattern: &str) -> &str {
    let star = pattern.find('*').unwrap_or(pattern.len());
    pattern[..star].rfind('/').map_or("", |slash| &pattern[..slash])
}

/// True if a command line is that of a program that runs virtual machines with KVM.
pub fn is_monitor(arguments: &[String]) -> bool {
    let Some(program) = arguments.first() else { return false };
    let name = program.rsplit('/').next().unwrap_or(program);
    name.starts_with("qemu-system-")
        || name.starts_with("cloud-hypervisor")
        || name.starts_with("firecracker")
        || matches!(name, "qemu-kvm" | "qemu" | "kvm" | "crosvm" | "krunvm" | "openvmm")
            && arguments.len() > 1
        || matches!(name, "lkvm" | "lkvm-static" | "kvmtool")
            && arguments.get(1).is_some_and(|word| word == "run")
}

/// Splits /proc/PID/cmdline.
pub fn arguments(bytes: &[u8]) -> Vec<String> {
    bytes
        .split(|&byte| byte == 0)
        .map(|word| String::from_utf8_lossy(word).into_owned())
        .filter(|word| !word.is_empty())
        .take(20_000)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn star_matches_within_one_component_only() {
        let rows = [
            ("sys/module/kvm*/parameters/*", "sys/module/kvm_amd/parameters/avic", true),
            ("sys/module/kvm*/parameters/*", "sys/module/kvm/refcnt", false),
            ("etc/libvirt/qemu/*.xml", "etc/libvirt/qemu/networks/default.xml", false),
            ("proc/cpuinfo", "proc/cpuinfo", true),
            ("proc/cpuinfo", "proc", false),
            ("cpuid*", "cpuid_-r", true),
            ("a*ab", "ab", false),
        ];
        for (pattern, path, expected) in rows {
            assert_eq!(matches(pattern, path), expected, "{pattern} {path}");
        }
        assert!(is_process("proc/17/cmdline") && !is_process("proc/self/cmdline"));
        assert_eq!(fixed_folder("sys/module/kvm*/refcnt"), "sys/module");
        assert_eq!(fixed_folder("proc/cpuinfo"), "proc");
    }

    #[test]
    fn a_monitor_is_known_by_its_program_and_not_by_an_argument() {
        let rows: &[(&[&str], bool)] = &[
            (&["/usr/bin/qemu-system-x86_64", "-S"], true),
            (&["/usr/bin/kvm", "-id", "100"], true),
            (&["/usr/libexec/qemu-kvm", "-name", "x"], true),
            (&["firecracker", "--api-sock", "/x"], true),
            (&["./lkvm", "run", "-k", "bzImage"], true),
            (&["lkvm", "list"], false),
            (&["grep", "qemu-system-x86_64"], false),
            (&["kvm"], false),
            (&[], false),
        ];
        for (words, expected) in rows {
            let words: Vec<String> = words.iter().map(|word| word.to_string()).collect();
            assert_eq!(is_monitor(&words), *expected, "{words:?}");
        }
    }
}
