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
        let path = std::env::temp_dir().join(format!("avicenna-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        for (file, text) in HOST.iter().chain(changes) {
            let file = path.join("host").join(file);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, text).unwrap();
        }
        Folder(path)
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
