//! What an exit was about, packed: from the words KVM traces, by vendor.

use super::{APIC_PAGE, ICR_OFFSET, X2APIC_ICR};
use crate::key::PackedDetail;
use trace::exit_reason::{Isa, svm, vmx};
use trace::kvm::Exit;

/// Registers of the x2APIC. [X2APIC "x2APIC Register Address Space"]
const X2APIC_FIRST: u32 = 0x800;
const X2APIC_LAST: u32 = 0x8ff;

#[inline]
pub fn detail_of_exit(exit: Exit) -> PackedDetail {
    let Exit { isa, reason, info1, info2, interruption } = exit;
    match Isa::from_number(isa) {
        Some(Isa::Svm) => detail_of_svm_exit(reason, info1, info2),
        Some(Isa::Vmx) => detail_of_vmx_exit(reason, info1, interruption),
        None => PackedDetail::UNKNOWN,
    }
}

/// [APM2 "SVM Intercept Exit Codes"] [APM2 "AVIC Exits"]
#[inline]
fn detail_of_svm_exit(reason: u32, info1: u64, info2: u64) -> PackedDetail {
    match reason {
        svm::NESTED_PAGE_FAULT if info2 & !0xfff == APIC_PAGE => {
            PackedDetail::register((info2 & 0xff0) as u16, info1 & 2 != 0)
        }
        svm::IO => PackedDetail::port((info1 >> 16) as u16, info1 & 1 == 0),
        svm::AVIC_INCOMPLETE_IPI => PackedDetail::incomplete_ipi((info2 >> 32) as u32),
        svm::AVIC_UNACCELERATED_ACCESS => {
            PackedDetail::register((info1 & 0xff0) as u16, info1 >> 32 & 1 != 0)
        }
        _ => PackedDetail::UNKNOWN,
    }
}

/// [SDM3 "Basic VM-Exit Information"]
#[inline]
fn detail_of_vmx_exit(reason: u32, info1: u64, interruption: u32) -> PackedDetail {
    match reason & 0xffff {
        vmx::EXTERNAL_INTERRUPT if interruption >> 31 != 0 => {
            PackedDetail::vector(interruption as u8)
        }
        vmx::IO_INSTRUCTION => PackedDetail::port((info1 >> 16) as u16, info1 & 8 == 0),
        vmx::APIC_WRITE => PackedDetail::register((info1 & 0xff0) as u16, true),
        vmx::APIC_ACCESS => PackedDetail::register((info1 & 0xff0) as u16, info1 >> 12 & 0xf == 1),
        vmx::EOI_INDUCED => PackedDetail::vector(info1 as u8),
        _ => PackedDetail::UNKNOWN,
    }
}

#[inline]
pub fn detail_of_msr(index: u32, is_write: bool, value: u64) -> PackedDetail {
    match index {
        X2APIC_ICR if is_write => PackedDetail::icr(value as u32, true),
        X2APIC_FIRST..=X2APIC_LAST => {
            PackedDetail::register(((index - X2APIC_FIRST) << 4) as u16, is_write)
        }
        _ => PackedDetail::msr(index, is_write),
    }
}

#[inline]
pub fn detail_of_mmio(address: u64, is_write: bool, value: u64) -> PackedDetail {
    if address & !0xfff != APIC_PAGE {
        return PackedDetail::OTHER_MMIO;
    }
    detail_of_register((address & 0xff0) as u16, is_write, value, false)
}

#[inline]
pub fn detail_of_register(
    offset: u16,
    is_write: bool,
    value: u64,
    is_x2apic: bool,
) -> PackedDetail {
    if offset == ICR_OFFSET && is_write {
        PackedDetail::icr(value as u32, is_x2apic)
    } else {
        PackedDetail::register(offset, is_write)
    }
}
