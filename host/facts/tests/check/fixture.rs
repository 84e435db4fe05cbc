//! Hosts made of a few texts, for tests of the rules.

use facts::Inputs;
use rules::capability::{Report, check};

/// Changes to a host: a path with its new content, or `None` to leave it unrecorded.
pub type Change = (&'static str, Option<&'static str>);

/// A processor listing with the leaves that decide on AMD.
const GENOA: &str = "\
CPU 0:
   0x00000000 0x00: eax=0x00000010 ebx=0x68747541 ecx=0x444d4163 edx=0x69746e65
   0x00000001 0x00: eax=0x00a10f11 ebx=0x00200800 ecx=0x7efa320b edx=0x178bfbff
   0x80000000 0x00: eax=0x80000028 ebx=0x68747541 ecx=0x444d4163 edx=0x69746e65
   0x80000001 0x00: eax=0x00a10f11 ebx=0x40000000 ecx=0x75c237ff edx=0x2fd3fbff
   0x8000000a 0x00: eax=0x00000001 ebx=0x00008000 ecx=0x00000000 edx=0x119fbfff
   0x8000001f 0x00: eax=0x0101fd3f ebx=0x0000417a ecx=0x000003ee edx=0x00000001
";

/// A Genoa host with everything on.
const AMD: &[(&str, &str)] = &[
    ("cpuid.txt", GENOA),
    (
        "proc/cpuinfo",
        "processor\t: 0\nvendor_id\t: AuthenticAMD\ncpu family\t: 25\nmodel\t\t: 17\nstepping\t: 1\nflags\t\t: svm npt avic x2avic cx16\n",
    ),
    ("proc/sys/kernel/osrelease", "6.18.44"),
    ("proc/cmdline", "root=/dev/sda1 iommu=pt"),
    ("sys/module/kvm/parameters/halt_poll_ns", "200000"),
    ("sys/module/kvm_amd/initstate", "live"),
    ("sys/module/kvm_amd/refcnt", "0"),
    ("sys/module/kvm_amd/parameters/avic", "Y"),
    ("sys/module/kvm_amd/parameters/npt", "Y"),
    ("sys/module/kvm_amd/parameters/nested", "1"),
    ("sys/module/kvm_amd/parameters/enable_ipiv", "Y"),
    ("sys/module/kvm_amd/parameters/enable_device_posted_irqs", "Y"),
    ("sys/module/kvm_amd/parameters/sev_snp", "N"),
    ("sys/class/iommu/ivhd0/amd-iommu/features", "25bf732fa2295afe:1d"),
    ("sys/class/iommu/ivhd1/amd-iommu/features", "25bf732fa2295afe:1d"),
    ("avicenna/dmesg.txt", "AMD-Vi: Virtual APIC enabled\nkvm_amd: AVIC enabled"),
];

/// A Sapphire Rapids host with everything on.
const INTEL: &[(&str, &str)] = &[
    (
        "cpuid.txt",
        "CPUID 00000000: 00000020-756E6547-6C65746E-49656E69 [GenuineIntel]\n\
         CPUID 00000001: 000806F8-00100800-7FFEFBFF-BFEBFBFF\n\
         MSR 0000003A: 0000-0000-0000-0005\n\
         MSR 00000481: 0000-00FF-0000-0016\n\
         MSR 00000482: FFFB-FFFE-0401-E172\n\
         MSR 0000048B: CFFF-3FFF-0000-0000\n\
         MSR 00000492: 0000-0000-0000-0010\n",
    ),
    (
        "proc/cpuinfo",
        "processor\t: 0\nvendor_id\t: GenuineIntel\ncpu family\t: 6\nmodel\t\t: 143\nstepping\t: 8\nflags\t\t: vmx cx16\nvmx flags\t: vtpr vapic_reg vid posted_intr ipi_virt\n",
    ),
    ("proc/sys/kernel/osrelease", "6.18.44"),
    ("proc/cmdline", "root=/dev/sda1 intel_iommu=on"),
    ("sys/module/kvm/parameters/halt_poll_ns", "200000"),
    ("sys/module/kvm_intel/initstate", "live"),
    ("sys/module/kvm_intel/refcnt", "0"),
    ("sys/module/kvm_intel/parameters/enable_apicv", "Y"),
    ("sys/module/kvm_intel/parameters/enable_ipiv", "Y"),
    ("sys/module/kvm_intel/parameters/enable_device_posted_irqs", "Y"),
    ("sys/class/iommu/dmar0/intel-iommu/cap", "9ed008c40780c66"),
    ("sys/class/iommu/dmar0/intel-iommu/ecap", "3ee9e86f050df"),
    ("avicenna/dmesg.txt", "DMAR-IR: Enabled IRQ remapping in x2apic mode"),
];

/// A firmware table with its length and checksum.
pub fn table(signature: &str, header: usize, body: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0; header];
    bytes[..4].copy_from_slice(signature.as_bytes());
    bytes.extend_from_slice(body);
    let length = bytes.len() as u32;
    bytes[4..8].copy_from_slice(&length.to_le_bytes());
    let sum = bytes.iter().fold(0u8, |sum, byte| sum.wrapping_add(*byte));
    bytes[9] = sum.wrapping_neg();
    bytes
}

/// An IVRS with one type 11h block that scopes the given I/O APIC.
pub fn ivrs(io_apic: u8) -> Vec<u8> {
    let mut block = vec![0x11, 0xB0, 48, 0, 2, 0, 0x40, 0];
    block.extend_from_slice(&0xFEB8_0000u64.to_le_bytes());
    block.extend_from_slice(&[0; 8]);
    block.extend_from_slice(&0x25bf_732f_a229_5afe_u64.to_le_bytes());
    block.extend_from_slice(&0x1D_u64.to_le_bytes());
    block.extend_from_slice(&[0x48, 0, 0, 0, io_apic, 0xA0, 0, 1]);
    table("IVRS", 48, &block)
}

/// A DMAR with flags and one unit that scopes the given I/O APIC.
pub fn dmar(flags: u8, io_apic: u8) -> Vec<u8> {
    let mut unit = vec![0, 0, 24, 0, 1, 0, 0, 0];
    unit.extend_from_slice(&0xFED9_0000u64.to_le_bytes());
    unit.extend_from_slice(&[3, 8, 0, 0, io_apic, 0xF0, 0x1F, 0]);
    let mut bytes = table("DMAR", 48, &unit);
    bytes[37] = flags;
    bytes
}

pub fn madt(io_apic: u8) -> Vec<u8> {
    table("APIC", 44, &[1, 12, io_apic, 0, 0, 0, 0xC0, 0xFE, 0, 0, 0, 0])
}

/// Who writes the snapshots.
const STAMP: facts::snapshot::Stamp<'_> =
    facts::snapshot::Stamp { tool: "test", host: None, time: None };

/// What is read of a snapshot of these inputs.
pub fn redacted(inputs: &Inputs) -> Inputs {
    let mut read = Inputs::new("redacted");
    for member in facts::snapshot::members(inputs, &STAMP).unwrap() {
        read.insert(member.path, member.bytes);
    }
    facts::snapshot::apply_manifest(&mut read);
    read
}

fn answers(report: &Report) -> Vec<(String, String, rules::Answer)> {
    let rows = report.answers.iter().chain(&report.findings);
    rows.map(|row| (row.id.to_string(), row.subject.to_string(), row.answer)).collect()
}

pub struct Host {
    files: Vec<(String, Vec<u8>)>,
}

impl Host {
    pub fn amd() -> Host {
        let mut host = Host::of(AMD);
        host.put("sys/firmware/acpi/tables/IVRS", ivrs(0x20));
        host.put("sys/firmware/acpi/tables/APIC", madt(0x20));
        host
    }

    pub fn intel() -> Host {
        let mut host = Host::of(INTEL);
        host.put("sys/firmware/acpi/tables/DMAR", dmar(1, 2));
        host.put("sys/firmware/acpi/tables/APIC", madt(2));
        host
    }

    pub fn empty() -> Host {
        Host { files: vec![] }
    }

    fn of(files: &[(&str, &str)]) -> Host {
        Host {
            files: files
                .iter()
                .map(|(path, text)| (path.to_string(), text.as_bytes().to_vec()))
                .collect(),
        }
    }

    pub fn put(&mut self, path: &str, bytes: Vec<u8>) {
        self.files.retain(|(known, _)| known != path);
        self.files.push((path.into(), bytes));
    }

    pub fn with(mut self, changes: &[Change]) -> Host {
        for (path, content) in changes {
            match content {
                Some(text) => self.put(path, text.as_bytes().to_vec()),
                None => self.files.retain(|(known, _)| !known.starts_with(path)),
            }
        }
        self
    }

    pub fn inputs(&self) -> Inputs {
        let mut inputs = Inputs::new("test");
        for (path, bytes) in &self.files {
            inputs.insert(path.clone(), bytes.clone());
        }
        // Where a folder is recorded at all, what is missing in it does not exist.
        for folder in ["sys/module", "sys/class/iommu", "sys/firmware/acpi/tables"] {
            if self.files.iter().any(|(path, _)| path.starts_with(folder)) {
                inputs.mark_searched(folder);
            }
        }
        inputs
    }

    /// The answers; they are the same for a redacted snapshot of the host.
    pub fn report(&self) -> Report {
        let inputs = self.inputs();
        let report = check(&facts::facts(&inputs));
        let redacted = check(&facts::facts(&redacted(&inputs)));
        assert_eq!(answers(&redacted), answers(&report), "of a redacted snapshot, and of the host");
        report
    }
}
