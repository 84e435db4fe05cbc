//! What this processor's SVM can do. [APM2 "Enabling SVM"]

use arch::svm::SvmFeatures;
use arch::svm::feature::LEAF;
use arch::svm::msr::{VM_CR, VmCr};
use core::fmt::{Display, Formatter};
use runtime::instruction::{cpuid, cpuid_if_present, read_msr};

const EXTENDED_FEATURES: u32 = 0x8000_0001;
const ECX_SVM: u32 = 1 << 2;

#[derive(Clone, Copy, Debug)]
pub struct Features {
    pub avic: bool,
    pub x2avic: bool,
    pub next_rip: bool,
    pub decode_assists: bool,
    pub flush_by_asid: bool,
    /// Address space identifiers, 0 included.
    pub asids: u32,
}

impl Display for Features {
    fn fmt(&self, f: &mut Formatter<'_>) -> core::fmt::Result {
        write!(f, "\"avic\":{},\"x2avic\":{}", self.avic, self.x2avic)
    }
}

impl Features {
    /// Refuses where SVM or nested paging is missing, or firmware switched SVM off.
    pub fn read() -> Result<Self, &'static str> {
        if cpuid_if_present(EXTENDED_FEATURES, 0).ecx & ECX_SVM == 0 {
            return Err("CPUID Fn8000_0001 ECX bit 2 is clear");
        }
        if VmCr::from_bits(read_msr(VM_CR)).svm_disabled() {
            return Err("VM_CR.SVMDIS is set");
        }
        let leaf = cpuid(LEAF, 0);
        let features = SvmFeatures::from_bits_retain(leaf.edx);
        if !features.contains(SvmFeatures::NESTED_PAGING) {
            return Err("CPUID Fn8000_000A EDX bit 0 is clear: no nested paging");
        }
        let avic = features.contains(SvmFeatures::AVIC);
        Ok(Self {
            avic,
            x2avic: avic && features.contains(SvmFeatures::X2AVIC),
            next_rip: features.contains(SvmFeatures::NEXT_RIP_SAVE),
            decode_assists: features.contains(SvmFeatures::DECODE_ASSISTS),
            flush_by_asid: features.contains(SvmFeatures::FLUSH_BY_ASID),
            asids: leaf.ebx.max(2),
        })
    }
}
