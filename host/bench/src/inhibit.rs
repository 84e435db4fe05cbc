//! What makes KVM run a virtual machine without AVIC or APICv. [KVM-API "KVM_SET_GUEST_DEBUG"]
//!
//! Each way is done to a spare vCPU that the guest knows nothing of and that never
//! runs, since KVM inhibits whole virtual machines: so the guest's own processors are the same with
//! and without it, and what a run then loses is what the inhibit costs. KVM's timer chip, which
//! inhibits AVIC alone, is [`crate::Timer::KernelReinject`].
//!
//! Left out: aliased APIC IDs and guests within guests, which the guest's own processors would have
//! to take part in, and encrypted guests.

use crate::error::BenchError;
use crate::processor::write_msr;
use kvm_bindings::{
    KVM_CAP_HYPERV_SYNIC, KVM_GUESTDBG_BLOCKIRQ, KVM_GUESTDBG_ENABLE, kvm_enable_cap,
    kvm_guest_debug, kvm_lapic_state,
};
use kvm_ioctls::VcpuFd;
use serde::{Deserialize, Serialize};

/// HV_X64_MSR_SINT0, its AutoEOI bit, and a vector that no guest here uses, unmasked.
/// [TLFS "SynIC Virtual Interrupt Vectors"]
const SINT0: u32 = 0x4000_0090;
const AUTO_EOI: u64 = 1 << 17;
const SINT_VECTOR: u64 = 0xE8;
/// IA32_APIC_BASE: the xAPIC is on, at the page behind the usual one. [SDM3 "Local APIC Status and
/// Location"]
const APIC_BASE: u32 = 0x1B;
const MOVED_BASE: u64 = 0xFEE0_1000 | 1 << 11;
/// Offset of the ID register in a local APIC's page, and the byte of it that holds an xAPIC's ID.
const APIC_ID: usize = 0x20 + 3;
/// An ID that no vCPU of these virtual machines has.
const OTHER_ID: u8 = 0xFE;

/// A reason for KVM to inhibit AVIC and APICv.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Inhibit {
    /// Hyper-V's synthetic interrupt controller with AutoEOI: HYPERV.
    AutoEoi,
    /// A debugger that blocks interrupts: BLOCKIRQ.
    BlockIrq,
    /// An xAPIC with another ID than it was made with: APIC_ID_MODIFIED (Linux 6.0 and newer).
    ApicId,
    /// An APIC that is not where it was made: APIC_BASE_MODIFIED (Linux 6.0
    /// and newer).
    ApicBase,
}

impl Inhibit {
    /// Does to a processor what KVM inhibits for; the processor must not run afterwards.
    pub(crate) fn set(self, spare: &VcpuFd) -> Result<(), BenchError> {
        match self {
            Self::AutoEoi => {
                let synic = kvm_enable_cap { cap: KVM_CAP_HYPERV_SYNIC, ..Default::default() };
                spare
                    .enable_cap(&synic)
                    .map_err(|error| BenchError::kvm("KVM_CAP_HYPERV_SYNIC", error))?;
                write_msr(spare, "KVM_SET_MSRS of SINT0", SINT0, AUTO_EOI | SINT_VECTOR)
            }
            Self::BlockIrq => {
                let control = KVM_GUESTDBG_ENABLE | KVM_GUESTDBG_BLOCKIRQ;
                let debug = kvm_guest_debug { control, ..Default::default() };
                spare
                    .set_guest_debug(&debug)
                    .map_err(|error| BenchError::kvm("KVM_SET_GUEST_DEBUG", error))
            }
            Self::ApicId => {
                let state =
                    spare.get_lapic().map_err(|error| BenchError::kvm("KVM_GET_LAPIC", error))?;
                let state = with_other_id(state);
                spare.set_lapic(&state).map_err(|error| BenchError::kvm("KVM_SET_LAPIC", error))
            }
            Self::ApicBase => {
                write_msr(spare, "KVM_SET_MSRS of IA32_APIC_BASE", APIC_BASE, MOVED_BASE)
            }
        }
    }
}

fn with_other_id(mut state: kvm_lapic_state) -> kvm_lapic_state {
    state.regs[APIC_ID] = OTHER_ID as _;
    state
}
