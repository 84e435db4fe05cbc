//! One kind of core: its CPUID, its capability registers and what the kernel made of them.

use crate::fact::Fact;
use serde::{Serialize, Serializer};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// Who made the processor, by the string of CPUID leaf 0.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Vendor {
    /// SVM and AVIC.
    Amd,
    /// Zen 1 under licence: SVM and AVIC as AMD, family 18h.
    Hygon,
    /// VMX and APICv.
    Intel,
    /// Centaur and Shanghai: VMX as Intel's.
    Zhaoxin,
    /// By CPUID's string; there are no rules for it.
    Other(String),
}

impl Vendor {
    /// From CPUID's string, as Fn0000_0000 and `/proc/cpuinfo` have it.
    pub fn parse(text: &str) -> Vendor {
        match text.trim_end_matches('\0').trim() {
            "AuthenticAMD" => Vendor::Amd,
            "HygonGenuine" => Vendor::Hygon,
            "GenuineIntel" => Vendor::Intel,
            "CentaurHauls" | "Shanghai" => Vendor::Zhaoxin,
            other => Vendor::Other(other.to_string()),
        }
    }

    /// Its processors have AMD's virtualization, if any.
    pub fn has_svm(&self) -> bool {
        matches!(self, Vendor::Amd | Vendor::Hygon)
    }

    /// Its processors have Intel's virtualization, if any.
    pub fn has_vmx(&self) -> bool {
        matches!(self, Vendor::Intel | Vendor::Zhaoxin)
    }
}

impl fmt::Display for Vendor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Vendor::Amd => "AMD",
            Vendor::Hygon => "Hygon",
            Vendor::Intel => "Intel",
            Vendor::Zhaoxin => "VIA or Zhaoxin",
            Vendor::Other(name) => name,
        })
    }
}

/// A register of a CPUID leaf.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Register {
    /// First of what CPUID returns.
    Eax = 0,
    /// Second.
    Ebx = 1,
    /// Third.
    Ecx = 2,
    /// Fourth.
    Edx = 3,
}

impl fmt::Display for Register {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(["EAX", "EBX", "ECX", "EDX"][*self as usize])
    }
}

/// The CPUID leaves of one logical processor, by leaf and subleaf.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cpuid {
    leaves: BTreeMap<(u32, u32), [u32; 4]>,
}

impl Cpuid {
    /// Keeps EAX, EBX, ECX, EDX of a leaf; what was there before is replaced.
    pub fn insert(&mut self, leaf: u32, subleaf: u32, registers: [u32; 4]) {
        self.leaves.insert((leaf, subleaf), registers);
    }

    /// No leaf is known.
    pub fn is_empty(&self) -> bool {
        self.leaves.is_empty()
    }

    /// How many leaves and subleaves are known.
    pub fn len(&self) -> usize {
        self.leaves.len()
    }

    /// Leaf, subleaf and EAX, EBX, ECX, EDX, in order.
    pub fn iter(&self) -> impl Iterator<Item = (u32, u32, [u32; 4])> + '_ {
        self.leaves.iter().map(|(&(leaf, subleaf), &registers)| (leaf, subleaf, registers))
    }

    /// Whether this leaf and subleaf was recorded.
    pub fn has(&self, leaf: u32, subleaf: u32) -> bool {
        self.leaves.contains_key(&(leaf, subleaf))
    }

    /// The registers of a leaf that was recorded.
    pub fn leaf(&self, leaf: u32) -> Option<[u32; 4]> {
        self.leaves.get(&(leaf, 0)).copied()
    }

    /// A register of a leaf. A leaf above the processor's highest counts as zero, whatever was
    /// recorded: Intel's answer with the data of another leaf there. One that the processor has but
    /// that was not recorded is not known. [SDM2 "CPUID"],
    /// [APM3 "Standard and Extended Function Numbers"]
    pub fn register(&self, leaf: u32, register: Register) -> Option<u32> {
        let range = leaf & 0xC000_0000;
        if let Some([highest, ..]) = self.leaf(range) {
            // Processors below the extended range return leaf data in EAX, not a maximum.
            let is_a_maximum = highest & 0xC000_0000 == range;
            if leaf != range && (leaf > highest || !is_a_maximum) {
                return Some(0);
            }
        }
        self.leaf(leaf).map(|registers| registers[register as usize])
    }

    /// A bit of subleaf 0; `None` where the leaf is not known.
    pub fn bit(&self, leaf: u32, register: Register, bit: u32) -> Option<bool> {
        self.register(leaf, register).map(|value| value >> bit & 1 == 1)
    }

    /// From leaf 0: EBX, EDX, ECX hold twelve characters.
    pub fn vendor(&self) -> Option<Vendor> {
        let [_, b, c, d] = self.leaf(0)?;
        let bytes: Vec<u8> = [b, d, c].iter().flat_map(|word| word.to_le_bytes()).collect();
        Some(Vendor::parse(&String::from_utf8_lossy(&bytes)))
    }

    /// Family, model and stepping as printed: extended fields added. [APM3 "Fn0000_0001 EAX"]
    pub fn signature(&self) -> Option<Signature> {
        let eax = self.leaf(1)?[0];
        let (family, model) = (eax >> 8 & 15, eax >> 4 & 15);
        let extended_model = eax >> 16 & 15;
        Some(Signature {
            family: if family == 15 { family + (eax >> 20 & 255) } else { family },
            model: if family == 6 || family == 15 { model | extended_model << 4 } else { model },
            stepping: eax & 15,
        })
    }

    /// From leaves 8000_0002h to 8000_0004h, without padding.
    pub fn brand(&self) -> Option<String> {
        let mut bytes = Vec::with_capacity(48);
        for leaf in 0x8000_0002..=0x8000_0004 {
            bytes.extend(self.leaf(leaf)?.iter().flat_map(|word| word.to_le_bytes()));
        }
        let text = String::from_utf8_lossy(&bytes);
        let text = text.trim_end_matches('\0').split_whitespace().collect::<Vec<_>>().join(" ");
        (!text.is_empty()).then_some(text)
    }

    /// What distinguishes one kind of core from another here: what rules read of CPUID, and no
    /// identity or setting of the single processor.
    pub fn kind(&self) -> Vec<u32> {
        const PARTS: &[(u32, [u32; 4])] = &[
            (0, [0, !0, !0, !0]),
            // VMX, CMPXCHG16B, x2APIC, hypervisor. EBX holds the APIC ID.
            (1, [!0, 0, 1 << 5 | 1 << 13 | 1 << 21 | 1 << 31, 0]),
            // The type of a hybrid part's core.
            (0x1A, [0xFF00_0000, 0, 0, 0]),
            // SVM.
            (0x8000_0001, [0, 0, 1 << 2, 0]),
            (0x8000_000A, [!0; 4]),
            (0x8000_001F, [!0, 0, 0, 0]),
        ];
        PARTS
            .iter()
            .flat_map(|(leaf, masks)| {
                const REGISTERS: [Register; 4] =
                    [Register::Eax, Register::Ebx, Register::Ecx, Register::Edx];
                REGISTERS.into_iter().zip(masks).map(|(register, mask)| {
                    self.register(*leaf, register).unwrap_or_default() & mask
                })
            })
            .collect()
    }
}

impl Serialize for Cpuid {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.leaves.iter().map(|((leaf, subleaf), [a, b, c, d])| {
            (format!("{leaf:08x}.{subleaf:02x}"), format!("{a:08x}-{b:08x}-{c:08x}-{d:08x}"))
        }))
    }
}

/// Family, model and stepping.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Signature {
    /// Base and extended family added: 19h for Zen 3 and 4.
    pub family: u32,
    /// Extended model in front of the base model.
    pub model: u32,
    /// The lowest four bits of leaf 1's EAX.
    pub stepping: u32,
}

impl fmt::Display for Signature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "family {:X}h model {:X}h stepping {}", self.family, self.model, self.stepping)
    }
}

/// All processors of a host that are alike.
#[derive(Clone, Debug, Serialize)]
pub struct CpuKind {
    /// Their numbers: "0-15".
    pub cpus: String,
    /// `None` where neither CPUID nor `/proc/cpuinfo` told it.
    pub vendor: Option<Vendor>,
    /// `None` where neither CPUID nor `/proc/cpuinfo` told it.
    pub signature: Option<Signature>,
    /// The marketing name.
    pub brand: Option<String>,
    /// Leaves as the processor returns them, of one core of this kind.
    pub cpuid: Fact<Cpuid>,
    /// Capability registers that were asked for, by number.
    pub msrs: BTreeMap<u32, Fact<u64>>,
    /// `flags` of /proc/cpuinfo: what the kernel left of CPUID.
    pub flags: Fact<BTreeSet<String>>,
    /// Single features that were told by name, where the whole list was not.
    #[serde(skip)]
    pub told: BTreeMap<&'static str, bool>,
    /// `vmx flags` of /proc/cpuinfo; absent before Linux 5.6 and where there is no VMX.
    pub vmx_flags: Fact<BTreeSet<String>>,
}

impl CpuKind {
    /// As findings name it: "cpu 0-15".
    pub fn subject(&self) -> String {
        format!("cpu {}", self.cpus)
    }

    /// One of [`CpuKind::msrs`]. Unreadable when it was not asked for.
    pub fn msr(&self, number: u32) -> Fact<u64> {
        self.msrs.get(&number).cloned().unwrap_or_else(|| {
            Fact::unreadable(format!("MSR {number:X}h"), "not recorded in this input")
        })
    }

    /// True if a hypervisor shows this processor: then it describes a virtual machine, not the
    /// silicon.
    pub fn is_virtual(&self) -> Option<bool> {
        match self.cpuid.get().and_then(|cpuid| cpuid.bit(1, Register::Ecx, 31)) {
            Some(bit) => Some(bit),
            None => self.flags.get().map(|flags| flags.contains("hypervisor")),
        }
    }

    /// True for Zen 4, as the kernel's own model ranges say (arch/x86/kernel/cpu/amd.c, 6.18).
    pub fn is_zen4(&self) -> Option<bool> {
        let Signature { family, model, .. } = self.signature?;
        Some(family == 0x19 && (matches!(model, 0x10..=0x1F) || matches!(model, 0x60..=0xAF)))
    }
}
