//! The samples of the operators' pages are what the program prints for the hosts they are about.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The sample's host: AVIC off by an option, the IOMMU driver by a kernel argument, one machine.
const HOST: [(&str, &str); 15] = [
    (
        "proc/cpuinfo",
        "processor\t: 0\nvendor_id\t: AuthenticAMD\ncpu family\t: 25\nmodel\t\t: 17\n\
         model name\t: AMD EPYC 9654\nstepping\t: 1\n\
         flags\t\t: fpu vme svm npt avic x2avic cx16 apic lm\n",
    ),
    ("proc/sys/kernel/osrelease", "6.12.10\n"),
    ("proc/cmdline", "root=/dev/sda1 quiet amd_iommu_intr=legacy\n"),
    (
        "proc/interrupts",
        "       CPU0   CPU1\n 34:   1200     40  IR-PCI-MSIX-0000:01:00.0 0-edge \
         vfio-msix[0](0000:01:00.0)\nPIN:      0      0  Posted-interrupt notification\n",
    ),
    (
        "proc/4711/cmdline",
        "qemu-system-x86_64\0-name\0guest=web\0-machine\0pc-q35-8.2,accel=kvm\0-smp\x004\0\
         -device\0vfio-pci,host=0000:01:00.0\0",
    ),
    ("sys/module/kvm_amd/parameters/avic", "N\n"),
    ("sys/module/kvm_amd/parameters/npt", "Y\n"),
    ("sys/module/kvm_amd/refcnt", "1\n"),
    ("sys/module/kvm_amd/initstate", "live\n"),
    ("sys/module/kvm/refcnt", "3\n"),
    ("sys/class/iommu/ivhd0/amd-iommu/features", "25bf732fa2295afe:1d\n"),
    ("etc/modprobe.d/kvm.conf", "options kvm_amd avic=0 nested=1\n"),
    ("etc/default/grub", "GRUB_CMDLINE_LINUX_DEFAULT=\"quiet amd_iommu_intr=legacy\"\n"),
    ("etc/os-release", "ID=debian\n"),
    ("usr/sbin/update-grub", ""),
];

struct Folder(PathBuf);

impl Folder {
    /// A folder with the sample's host in it, but for some files.
    fn new(name: &str, changes: &[(&str, &str)]) -> Folder {
        let folder = Folder::empty(name);
        HOST.iter().chain(changes).for_each(|(file, text)| folder.put(file, text));
        folder
    }

    fn empty(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("avicenna-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).unwrap();
        Folder(path)
    }

    /// A file of the host.
    fn put(&self, file: &str, text: &str) {
        let file = self.0.join("host").join(file);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, text).unwrap();
    }

    /// Runs a command line of a page, in front of which `avicenna` stands.
    fn says(&self, command: &str) -> String {
        let output = Command::new(env!("CARGO_BIN_EXE_avicenna"))
            .args(command.split(' ').skip(1))
            .current_dir(&self.0)
            .output()
            .unwrap();
        assert!(output.status.code().is_some_and(|code| code < 2), "{command}: {output:?}");
        let text = [output.stdout, output.stderr].concat();
        String::from_utf8(text).unwrap()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Commands of a page's sample, each with what the page shows below it.
fn samples(page: &str) -> Vec<(String, String)> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/operators").join(page);
    let text = fs::read_to_string(path).unwrap();
    let (_, sample) = text.split_once("## Sample").expect("a sample");
    let block = sample.split("```").nth(1).expect("in a block");
    let parts = block.split("$ ").skip(1);
    parts
        .map(|part| part.split_once('\n').expect("a command and what it says"))
        .map(|(command, said)| (command.to_owned(), said.to_owned()))
        .collect()
}

/// Pages fold lines; what is piped is not folded.
fn words(text: &str) -> Vec<&str> {
    text.split_whitespace().collect()
}

/// An EPYC 9654 with Proxmox VE 8.4 and twenty-one machines; 101 has a device of its own.
fn proxmox() -> Folder {
    let folder = Folder::empty("proxmox");
    for (file, text) in [
        HOST[0],
        ("proc/sys/kernel/osrelease", "6.8.12-4-pve\n"),
        ("proc/cmdline", "root=/dev/mapper/pve-root ro quiet\n"),
        ("sys/module/kvm/initstate", "live\n"),
        ("sys/module/kvm/refcnt", "21\n"),
        ("sys/module/kvm_amd/initstate", "live\n"),
        ("sys/module/kvm_amd/refcnt", "21\n"),
        ("sys/module/kvm_amd/parameters/avic", "N\n"),
        ("sys/module/kvm_amd/parameters/npt", "Y\n"),
        ("sys/module/kvm_amd/parameters/sev_snp", "N\n"),
        ("sys/class/iommu/ivhd0/amd-iommu/features", "25bf732fa2295afe:1d\n"),
        ("avicenna/dmesg.txt", "AMD-Vi: Virtual APIC enabled\n"),
        ("etc/os-release", "ID=debian\n"),
    ] {
        folder.put(file, text);
    }
    for id in 101..=121 {
        let own = if id == 101 { "args: -device vfio-pci,host=01:00.0\n" } else { "" };
        let definition =
            format!("{own}cores: 4\ncpu: host\nmachine: q35\nname: vm{id}\nostype: l26\n");
        folder.put(&format!("etc/pve/qemu-server/{id}.conf"), &definition);
        let words = format!(
            "/usr/bin/kvm -id {id} -name vm{id},debug-threads=on -chardev \
             socket,id=qmp,path=/var/run/qemu-server/{id}.qmp -machine type=pc-q35-9.2+pve1 -cpu host -enable-kvm "
        );
        folder.put(&format!("proc/{}/cmdline", 2000 + id), &words.replace(' ', "\0"));
    }
    folder
}

/// RHEL 9.5 on Sapphire Rapids, as an ordinary user sees it.
fn rhel() -> Folder {
    let folder = Folder::empty("rhel");
    for (file, text) in [
        (
            "proc/cpuinfo",
            "processor\t: 0\nvendor_id\t: GenuineIntel\ncpu family\t: 6\nmodel\t\t: 143\n\
             model name\t: Intel(R) Xeon(R) Platinum 8480+\nstepping\t: 8\nflags\t\t: vmx cx16\n\
             vmx flags\t: vnmi vtpr vapic_reg vid posted_intr ipi_virt\n",
        ),
        ("proc/sys/kernel/osrelease", "5.14.0-503.11.1.el9_5.x86_64\n"),
        ("proc/cmdline", "BOOT_IMAGE=(hd0,gpt2)/vmlinuz root=/dev/mapper/rhel-root ro\n"),
        ("sys/module/kvm/refcnt", "1\n"),
        ("sys/module/kvm_intel/refcnt", "0\n"),
        ("sys/module/kvm_intel/parameters/enable_apicv", "Y\n"),
        ("sys/module/kvm_intel/parameters/enable_ipiv", "Y\n"),
        ("sys/class/iommu/.keep", ""),
        ("avicenna/dmesg.txt", "DMAR-IR: Enabled IRQ remapping in x2apic mode\n"),
        ("etc/modprobe.d/kvm.conf", "options kvm_intel enable_ipiv=1\n"),
        ("usr/sbin/grubby", ""),
        ("boot/loader/entries/a.conf", "title RHEL\nlinux /vmlinuz\noptions ro\n"),
    ] {
        folder.put(file, text);
    }
    folder
}

/// What perf recorded of a machine in production.
fn recording() -> Folder {
    let folder = Folder::empty("recording");
    let packed = "../host/capture/tests/data/small-x2apic-big.data.zst";
    let packed = fs::File::open(Path::new(env!("CARGO_MANIFEST_DIR")).join(packed)).unwrap();
    let mut out = fs::File::create(folder.0.join("perf.data")).unwrap();
    zstd::stream::copy_decode(packed, &mut out).unwrap();
    folder
}

#[test]
fn stories_are_told_word_by_word() {
    for (page, folder) in [
        ("story-proxmox.md", proxmox()),
        ("story-rhel.md", rhel()),
        ("story-recording.md", recording()),
    ] {
        for (command, shown) in samples(page) {
            let said = folder.says(&command);
            let (shown, is_cut) = match shown.trim_end().strip_suffix('…') {
                Some(shown) => (shown, true),
                None => (shown.as_str(), false),
            };
            let (said_words, shown_words) = (words(&said), words(shown));
            let is_same = match is_cut {
                true => said_words.starts_with(&shown_words),
                false => said_words == shown_words,
            };
            assert!(is_same, "{page}: {command}\n{said}");
        }
    }
}

#[test]
fn pages_show_what_is_printed() {
    let avic_on: &[(&str, &str)] = &[
        ("sys/module/kvm_amd/parameters/avic", "Y\n"),
        ("etc/modprobe.d/kvm.conf", "options kvm_amd avic=1\n"),
    ];
    for (page, changes) in [("check.md", &[][..]), ("enable.md", &[]), ("why.md", avic_on)] {
        let folder = Folder::new(page, changes);
        let samples = samples(page);
        assert!(!samples.is_empty(), "{page}");
        for (command, shown) in samples {
            let said = folder.says(&command);
            let (said_words, shown_words) = (words(&said), words(&shown));
            if shown.starts_with('…') {
                // What a line with an ellipsis stands for is shown above.
                let shown = shown.split_once('\n').map_or("", |(_, rest)| rest);
                assert!(said_words.ends_with(&words(shown)), "{page}: {command}\n{said}");
                continue;
            }
            assert_eq!(said_words, shown_words, "{page}: {command}\n{said}");
        }
    }
}
