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
use kvm_ioctls::{VcpuFd, VmFd};
use serde::{Deserialize, Serialize};
use std::os::fd::AsRawFd;
use std::sync::Arc;

/// `_IO(KVMIO, 0x71)` [KVM-API "KVM_REINJECT_CONTROL"]
const REINJECT_CONTROL: libc::c_ulong = 0xAE71;

/// HV_X64_MSR_SINT0, its AutoEOI bit, and a vector that no guest here uses, unmasked.
/// [TLFS "SynIC Virtual Interrupt Vectors"]
const SINT0: u32 = 0x4000_0090;
const AUTO_EOI: u64 = 1 << 17;
const SINT_VECTOR: u64 = 0xE8;
const SINT_MASKED: u64 = 1 << 16;
/// IA32_APIC_BASE: the xAPIC is on, at the page behind the usual one. [SDM3 "Local APIC Status and
/// Location"]
const APIC_BASE: u32 = 0x1B;
const MOVED_BASE: u64 = 0xFEE0_1000 | 1 << 11;
const USUAL_BASE: u64 = 0xFEE0_0000 | 1 << 11;
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
        self.prepare(spare)?;
        match self {
            Self::AutoEoi => {
                write_msr(spare, "KVM_SET_MSRS of SINT0", SINT0, AUTO_EOI | SINT_VECTOR)
            }
            Self::BlockIrq => debug(spare, KVM_GUESTDBG_ENABLE | KVM_GUESTDBG_BLOCKIRQ),
            Self::ApicId => set_lapic(spare, &with_other_id(lapic(spare)?)),
            Self::ApicBase => {
                write_msr(spare, "KVM_SET_MSRS of IA32_APIC_BASE", APIC_BASE, MOVED_BASE)
            }
        }
    }

    /// What it needs besides, which inhibits nothing.
    fn prepare(self, spare: &VcpuFd) -> Result<(), BenchError> {
        if self != Self::AutoEoi {
            return Ok(());
        }
        let synic = kvm_enable_cap { cap: KVM_CAP_HYPERV_SYNIC, ..Default::default() };
        spare.enable_cap(&synic).map_err(|error| BenchError::kvm("KVM_CAP_HYPERV_SYNIC", error))
    }
}

/// What a virtual machine is inhibited by for a time, while it runs; each way there and back is one
/// request to KVM.
pub struct Inhibitor(By);

enum By {
    /// A processor that the guest knows nothing of and that never runs, with its APIC as it was.
    Spare(Inhibit, VcpuFd, Box<kvm_lapic_state>),
    /// KVM's timer chip.
    Timer(Arc<VmFd>),
}

impl Inhibitor {
    /// See [`crate::VirtualMachine::inhibitor`]; no vCPU has `id` yet.
    pub(crate) fn new(
        vm: Arc<VmFd>,
        id: u64,
        inhibit: Option<Inhibit>,
    ) -> Result<Self, BenchError> {
        let Some(inhibit) = inhibit else { return Ok(Self(By::Timer(vm))) };
        let spare =
            vm.create_vcpu(id).map_err(|error| BenchError::kvm("KVM_CREATE_VCPU", error))?;
        inhibit.prepare(&spare)?;
        let state = Box::new(lapic(&spare)?);
        Ok(Self(By::Spare(inhibit, spare, state)))
    }

    /// What KVM inhibits for.
    pub fn set(&self) -> Result<(), BenchError> {
        match &self.0 {
            By::Timer(vm) => set_reinjection(vm, true),
            By::Spare(Inhibit::ApicId, spare, before) => set_lapic(spare, &with_other_id(**before)),
            By::Spare(Inhibit::AutoEoi, spare, _) => {
                write_msr(spare, "KVM_SET_MSRS of SINT0", SINT0, AUTO_EOI | SINT_VECTOR)
            }
            By::Spare(inhibit, spare, _) => inhibit.set(spare),
        }
    }

    /// The same as before, which KVM need not take as a reason to end the inhibit.
    pub fn lift(&self) -> Result<(), BenchError> {
        match &self.0 {
            By::Timer(vm) => set_reinjection(vm, false),
            By::Spare(Inhibit::AutoEoi, spare, _) => {
                write_msr(spare, "KVM_SET_MSRS of SINT0", SINT0, SINT_MASKED)
            }
            By::Spare(Inhibit::BlockIrq, spare, _) => debug(spare, 0),
            By::Spare(Inhibit::ApicId, spare, before) => set_lapic(spare, before),
            By::Spare(Inhibit::ApicBase, spare, _) => {
                write_msr(spare, "KVM_SET_MSRS of IA32_APIC_BASE", APIC_BASE, USUAL_BASE)
            }
        }
    }
}

/// Whether KVM's timer injects ticks late that the guest missed.
pub(crate) fn set_reinjection(vm: &VmFd, is_on: bool) -> Result<(), BenchError> {
    let mut control = [0u8; 32];
    control[0] = is_on.into();
    // SAFETY: the request reads the 32 bytes of a kvm_reinject_control, all of which are here.
    let result = unsafe { libc::ioctl(vm.as_raw_fd(), REINJECT_CONTROL, control.as_mut_ptr()) };
    if result < 0 {
        let error = kvm_ioctls::Error::last();
        return Err(BenchError::kvm("KVM_REINJECT_CONTROL", error));
    }
    Ok(())
}

fn debug(spare: &VcpuFd, control: u32) -> Result<(), BenchError> {
    let debug = kvm_guest_debug { control, ..Default::default() };
    spare.set_guest_debug(&debug).map_err(|error| BenchError::kvm("KVM_SET_GUEST_DEBUG", error))
}

fn lapic(spare: &VcpuFd) -> Result<kvm_lapic_state, BenchError> {
    spare.get_lapic().map_err(|error| BenchError::kvm("KVM_GET_LAPIC", error))
}

fn set_lapic(spare: &VcpuFd, state: &kvm_lapic_state) -> Result<(), BenchError> {
    spare.set_lapic(state).map_err(|error| BenchError::kvm("KVM_SET_LAPIC", error))
}

fn with_other_id(mut state: kvm_lapic_state) -> kvm_lapic_state {
    state.regs[APIC_ID] = OTHER_ID as _;
    state
}
