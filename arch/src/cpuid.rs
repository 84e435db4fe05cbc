//! CPUID feature bits by name. [APM3 "Obtaining Processor Information Via the CPUID Instruction"]
//! [SDM2 "CPUID"]

use serde::{Deserialize, Serialize};

/// A result register of the CPUID instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Register {
    /// The first of the four that [`FeatureSet::leaf`] gives.
    Eax,
    /// The second.
    Ebx,
    /// The third.
    Ecx,
    /// The fourth.
    Edx,
}

/// Where a feature bit stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// What EAX held before CPUID.
    pub leaf: u32,
    /// What ECX held before CPUID; 0 for leaves that do not look at it.
    pub subleaf: u32,
    /// In which result.
    pub register: Register,
    /// 0–31.
    pub bit: u8,
}

macro_rules! features {
    ($($name:ident = $text:literal, $leaf:literal . $subleaf:literal $register:ident $bit:literal;)*) => {
        /// A feature that CPUID can announce.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        #[repr(u8)]
        pub enum Feature {
            $(
                #[doc = concat!(
                    "`", $text, "`: leaf ", stringify!($leaf), ", subleaf ", $subleaf, ", ",
                    stringify!($register), " bit ", $bit, "."
                )]
                $name,
            )*
        }

        impl Feature {
            /// In the order of their numbers in a [`FeatureSet`].
            pub const ALL: &'static [Self] = &[$(Self::$name,)*];

            /// The name that Linux prints in /proc/cpuinfo, or the manual's where it prints none.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$name => $text,)*
                }
            }

            /// The leaf and the bit by which the processor announces it.
            pub const fn place(self) -> Place {
                match self {
                    $(Self::$name => Place {
                        leaf: $leaf,
                        subleaf: $subleaf,
                        register: Register::$register,
                        bit: $bit,
                    },)*
                }
            }
        }
    };
}

features! {
    Fpu = "fpu", 0x1 . 0 Edx 0;
    Vme = "vme", 0x1 . 0 Edx 1;
    De = "de", 0x1 . 0 Edx 2;
    Pse = "pse", 0x1 . 0 Edx 3;
    Tsc = "tsc", 0x1 . 0 Edx 4;
    Msr = "msr", 0x1 . 0 Edx 5;
    Pae = "pae", 0x1 . 0 Edx 6;
    Mce = "mce", 0x1 . 0 Edx 7;
    Cx8 = "cx8", 0x1 . 0 Edx 8;
    Apic = "apic", 0x1 . 0 Edx 9;
    Sep = "sep", 0x1 . 0 Edx 11;
    Mtrr = "mtrr", 0x1 . 0 Edx 12;
    Pge = "pge", 0x1 . 0 Edx 13;
    Mca = "mca", 0x1 . 0 Edx 14;
    Cmov = "cmov", 0x1 . 0 Edx 15;
    Pat = "pat", 0x1 . 0 Edx 16;
    Pse36 = "pse36", 0x1 . 0 Edx 17;
    Clflush = "clflush", 0x1 . 0 Edx 19;
    Mmx = "mmx", 0x1 . 0 Edx 23;
    Fxsr = "fxsr", 0x1 . 0 Edx 24;
    Sse = "sse", 0x1 . 0 Edx 25;
    Sse2 = "sse2", 0x1 . 0 Edx 26;
    Ht = "ht", 0x1 . 0 Edx 28;
    Sse3 = "pni", 0x1 . 0 Ecx 0;
    Pclmulqdq = "pclmulqdq", 0x1 . 0 Ecx 1;
    Monitor = "monitor", 0x1 . 0 Ecx 3;
    Vmx = "vmx", 0x1 . 0 Ecx 5;
    Est = "est", 0x1 . 0 Ecx 7;
    Ssse3 = "ssse3", 0x1 . 0 Ecx 9;
    Fma = "fma", 0x1 . 0 Ecx 12;
    Cx16 = "cx16", 0x1 . 0 Ecx 13;
    Pcid = "pcid", 0x1 . 0 Ecx 17;
    Sse41 = "sse4_1", 0x1 . 0 Ecx 19;
    Sse42 = "sse4_2", 0x1 . 0 Ecx 20;
    X2apic = "x2apic", 0x1 . 0 Ecx 21;
    Movbe = "movbe", 0x1 . 0 Ecx 22;
    Popcnt = "popcnt", 0x1 . 0 Ecx 23;
    TscDeadline = "tsc_deadline_timer", 0x1 . 0 Ecx 24;
    Aes = "aes", 0x1 . 0 Ecx 25;
    Xsave = "xsave", 0x1 . 0 Ecx 26;
    Avx = "avx", 0x1 . 0 Ecx 28;
    F16c = "f16c", 0x1 . 0 Ecx 29;
    Rdrand = "rdrand", 0x1 . 0 Ecx 30;
    Hypervisor = "hypervisor", 0x1 . 0 Ecx 31;
    Arat = "arat", 0x6 . 0 Eax 2;
    Ida = "ida", 0x6 . 0 Eax 1;
    Hwp = "hwp", 0x6 . 0 Eax 7;
    HwpEpp = "hwp_epp", 0x6 . 0 Eax 10;
    Aperfmperf = "aperfmperf", 0x6 . 0 Ecx 0;
    Fsgsbase = "fsgsbase", 0x7 . 0 Ebx 0;
    TscAdjust = "tsc_adjust", 0x7 . 0 Ebx 1;
    Bmi1 = "bmi1", 0x7 . 0 Ebx 3;
    Avx2 = "avx2", 0x7 . 0 Ebx 5;
    Smep = "smep", 0x7 . 0 Ebx 7;
    Bmi2 = "bmi2", 0x7 . 0 Ebx 8;
    Erms = "erms", 0x7 . 0 Ebx 9;
    Invpcid = "invpcid", 0x7 . 0 Ebx 10;
    Rdseed = "rdseed", 0x7 . 0 Ebx 18;
    Adx = "adx", 0x7 . 0 Ebx 19;
    Smap = "smap", 0x7 . 0 Ebx 20;
    Clflushopt = "clflushopt", 0x7 . 0 Ebx 23;
    Clwb = "clwb", 0x7 . 0 Ebx 24;
    ShaNi = "sha_ni", 0x7 . 0 Ebx 29;
    Umip = "umip", 0x7 . 0 Ecx 2;
    Pku = "pku", 0x7 . 0 Ecx 3;
    Vaes = "vaes", 0x7 . 0 Ecx 9;
    Vpclmulqdq = "vpclmulqdq", 0x7 . 0 Ecx 10;
    Rdpid = "rdpid", 0x7 . 0 Ecx 22;
    Fsrm = "fsrm", 0x7 . 0 Edx 4;
    Uintr = "uintr", 0x7 . 0 Edx 5;
    MdClear = "md_clear", 0x7 . 0 Edx 10;
    SpecCtrl = "spec_ctrl", 0x7 . 0 Edx 26;
    Stibp = "stibp", 0x7 . 0 Edx 27;
    FlushL1d = "flush_l1d", 0x7 . 0 Edx 28;
    ArchCapabilities = "arch_capabilities", 0x7 . 0 Edx 29;
    Ssbd = "ssbd", 0x7 . 0 Edx 31;
    Psfd = "psfd", 0x7 . 2 Edx 0;
    IpredCtrl = "ipred_ctrl", 0x7 . 2 Edx 1;
    RrsbaCtrl = "rrsba_ctrl", 0x7 . 2 Edx 2;
    BhiCtrl = "bhi_ctrl", 0x7 . 2 Edx 4;
    Xsaveopt = "xsaveopt", 0xD . 1 Eax 0;
    Xsavec = "xsavec", 0xD . 1 Eax 1;
    Xgetbv1 = "xgetbv1", 0xD . 1 Eax 2;
    Xsaves = "xsaves", 0xD . 1 Eax 3;
    Syscall = "syscall", 0x8000_0001 . 0 Edx 11;
    Nx = "nx", 0x8000_0001 . 0 Edx 20;
    Mmxext = "mmxext", 0x8000_0001 . 0 Edx 22;
    FxsrOpt = "fxsr_opt", 0x8000_0001 . 0 Edx 25;
    Pdpe1gb = "pdpe1gb", 0x8000_0001 . 0 Edx 26;
    Rdtscp = "rdtscp", 0x8000_0001 . 0 Edx 27;
    LongMode = "lm", 0x8000_0001 . 0 Edx 29;
    LahfLm = "lahf_lm", 0x8000_0001 . 0 Ecx 0;
    CmpLegacy = "cmp_legacy", 0x8000_0001 . 0 Ecx 1;
    Svm = "svm", 0x8000_0001 . 0 Ecx 2;
    Extapic = "extapic", 0x8000_0001 . 0 Ecx 3;
    Cr8Legacy = "cr8_legacy", 0x8000_0001 . 0 Ecx 4;
    Abm = "abm", 0x8000_0001 . 0 Ecx 5;
    Sse4a = "sse4a", 0x8000_0001 . 0 Ecx 6;
    Misalignsse = "misalignsse", 0x8000_0001 . 0 Ecx 7;
    Prefetchw = "3dnowprefetch", 0x8000_0001 . 0 Ecx 8;
    Topoext = "topoext", 0x8000_0001 . 0 Ecx 22;
    HwPstate = "hw_pstate", 0x8000_0007 . 0 Edx 7;
    Cpb = "cpb", 0x8000_0007 . 0 Edx 9;
    InvariantTsc = "constant_tsc", 0x8000_0007 . 0 Edx 8;
    Clzero = "clzero", 0x8000_0008 . 0 Ebx 0;
    Xsaveerptr = "xsaveerptr", 0x8000_0008 . 0 Ebx 2;
    Wbnoinvd = "wbnoinvd", 0x8000_0008 . 0 Ebx 9;
    Ibpb = "ibpb", 0x8000_0008 . 0 Ebx 12;
    Npt = "npt", 0x8000_000A . 0 Edx 0;
    Lbrv = "lbrv", 0x8000_000A . 0 Edx 1;
    SvmLock = "svm_lock", 0x8000_000A . 0 Edx 2;
    NripSave = "nrip_save", 0x8000_000A . 0 Edx 3;
    TscScale = "tsc_scale", 0x8000_000A . 0 Edx 4;
    VmcbClean = "vmcb_clean", 0x8000_000A . 0 Edx 5;
    FlushByAsid = "flushbyasid", 0x8000_000A . 0 Edx 6;
    DecodeAssists = "decodeassists", 0x8000_000A . 0 Edx 7;
    PauseFilter = "pausefilter", 0x8000_000A . 0 Edx 10;
    PauseFilterThreshold = "pfthreshold", 0x8000_000A . 0 Edx 12;
    Avic = "avic", 0x8000_000A . 0 Edx 13;
    VirtualVmsaveVmload = "v_vmsave_vmload", 0x8000_000A . 0 Edx 15;
    Vgif = "vgif", 0x8000_000A . 0 Edx 16;
    X2avic = "x2avic", 0x8000_000A . 0 Edx 18;
    Vnmi = "vnmi", 0x8000_000A . 0 Edx 25;
    ExtLvtAvicAccessChange = "extlvt_avic_access_chg", 0x8000_000A . 0 Edx 27;
    SvmeAddressCheck = "svme_addr_chk", 0x8000_000A . 0 Edx 28;
    IdleHlt = "idle_hlt", 0x8000_000A . 0 Edx 30;
    X2avicExt = "x2avic_ext", 0x8000_000A . 0 Ecx 6;
    NullSelectorClearsBase = "null_sel_clr_base", 0x8000_0021 . 0 Eax 6;
    LfenceSerializing = "lfence_always_serializing", 0x8000_0021 . 0 Eax 2;
    AutomaticIbrs = "autoibrs", 0x8000_0021 . 0 Eax 8;
    SrsoNo = "srso_no", 0x8000_0021 . 0 Eax 29;
}

impl Feature {
    /// Finds a feature by the name that [`Feature::name`] gives.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|feature| feature.name() == name)
    }
}

/// A set of features.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct FeatureSet {
    words: [u64; 4],
}

impl FeatureSet {
    /// Whether the processor would announce it.
    pub const fn contains(&self, feature: Feature) -> bool {
        self.words[feature as usize / 64] >> (feature as usize % 64) & 1 != 0
    }

    /// Announces the feature.
    pub fn insert(&mut self, feature: Feature) {
        self.words[feature as usize / 64] |= 1 << (feature as usize % 64);
    }

    /// Conceals the feature.
    pub fn remove(&mut self, feature: Feature) {
        self.words[feature as usize / 64] &= !(1 << (feature as usize % 64));
    }

    /// Those that are in the set, in the order of [`Feature::ALL`].
    pub fn iter(&self) -> impl Iterator<Item = Feature> + '_ {
        Feature::ALL.iter().copied().filter(|feature| self.contains(*feature))
    }

    /// The bits of the four result registers that the set's features give, in the order of
    /// [`Register`].
    pub fn leaf(&self, leaf: u32, subleaf: u32) -> [u32; 4] {
        let mut registers = [0; 4];
        for (number, place) in PLACES.iter().enumerate() {
            let is_in = self.words[number / 64] >> (number % 64) & 1 != 0;
            if place.leaf == leaf && place.subleaf == subleaf && is_in {
                registers[place.register as usize] |= 1 << place.bit;
            }
        }
        registers
    }
}

const _: () = assert!(Feature::ALL.len() <= 256);

/// Where the features show, by their numbers.
static PLACES: [Place; Feature::ALL.len()] = {
    let mut places = [Feature::ALL[0].place(); Feature::ALL.len()];
    let mut at = 0;
    while at < places.len() {
        places[Feature::ALL[at] as usize] = Feature::ALL[at].place();
        at += 1;
    }
    places
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_feature_has_a_place_and_a_name_of_its_own() {
        for (i, a) in Feature::ALL.iter().enumerate() {
            assert_eq!(Feature::from_name(a.name()), Some(*a));
            for b in &Feature::ALL[i + 1..] {
                assert_ne!(a.place(), b.place(), "{a:?} {b:?}");
            }
        }
    }
}
