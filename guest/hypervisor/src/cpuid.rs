//! What the guest's CPUID says: the processor's, without what this hypervisor does not provide.

use runtime::clock;
use runtime::instruction::{CpuidResult, cpuid};

const SIGNATURE: &[u8; 12] = b"AvicennaHyp\0";
const HYPERVISOR_LEAF: u32 = 0x4000_0000;
/// EAX: the time stamp counter's kHz.
const HYPERVISOR_TIMING: u32 = 0x4000_0010;

const ECX_1_HYPERVISOR: u32 = 1 << 31;
/// MONITOR, VMX, TSC deadline, XSAVE, OSXSAVE, AVX, F16C, FMA, PCID.
const ECX_1_HIDDEN: u32 =
    1 << 3 | 1 << 5 | 1 << 24 | 1 << 26 | 1 << 27 | 1 << 28 | 1 << 29 | 1 << 12 | 1 << 17;
const ECX_1_X2APIC: u32 = 1 << 21;
/// SVM, extended APIC space, SKINIT, and others that need MSRs we refuse.
const ECX_8000_0001_HIDDEN: u32 = 1 << 2 | 1 << 3 | 1 << 10 | 1 << 12;

fn word(bytes: &[u8]) -> u32 {
    bytes.iter().rev().fold(0, |word, byte| word << 8 | u32::from(*byte))
}

const EDX_7_UINTR: u32 = 1 << 5;

/// What a guest has only where the vendor's part lets it.
#[derive(Clone, Copy)]
pub struct Offered {
    pub x2apic: bool,
    pub user_interrupts: bool,
}

/// What the vCPU with an APIC ID reads.
pub fn answer(id: u32, offered: Offered, leaf: u32, subleaf: u32) -> CpuidResult {
    let mut result = cpuid(leaf, subleaf);
    match leaf {
        1 => {
            let x2apic = if offered.x2apic { ECX_1_X2APIC } else { 0 };
            result.ebx = result.ebx & 0xFFFF | (id & 0xFF) << 24;
            result.ecx = result.ecx & !(ECX_1_HIDDEN | ECX_1_X2APIC) | ECX_1_HYPERVISOR | x2apic;
        }
        7 if subleaf == 0 && offered.user_interrupts => {
            result = CpuidResult { eax: 0, ebx: 0, ecx: 0, edx: result.edx & EDX_7_UINTR };
        }
        // TSC_ADJUST is among the features of leaf 7; topology and state saving describe the host.
        7 | 0xD => result = CpuidResult { eax: 0, ebx: 0, ecx: 0, edx: 0 },
        0xB => (result.eax, result.ebx, result.edx) = (0, 0, id),
        HYPERVISOR_LEAF => {
            result = CpuidResult {
                eax: HYPERVISOR_TIMING,
                ebx: word(&SIGNATURE[..4]),
                ecx: word(&SIGNATURE[4..8]),
                edx: word(&SIGNATURE[8..]),
            };
        }
        HYPERVISOR_TIMING => {
            let khz = clock::kilohertz().unwrap_or(0) as u32;
            result = CpuidResult { eax: khz, ebx: 0, ecx: 0, edx: 0 };
        }
        0x4000_0001..=0x4FFF_FFFF => result = CpuidResult { eax: 0, ebx: 0, ecx: 0, edx: 0 },
        0x8000_0001 => result.ecx &= !ECX_8000_0001_HIDDEN,
        0x8000_000A => result = CpuidResult { eax: 0, ebx: 0, ecx: 0, edx: 0 },
        _ => {}
    }
    result
}
