//! Accesses of a guest under xAVIC to its APIC page, and CR8. [APM2 "AVIC Backing Page"]
//!
//! The nested walk has found the page by now. Accesses that fault are known before anything is
//! read or written; those that trap leave their exit for the end of the instruction.

use super::avic::{Avic, ReadOutcome, WriteOutcome};
use super::ipi;
use super::state::Exit;
use crate::costs::Step;
use crate::memory::Access;
use crate::state::Attention;
use crate::svm::intercept;
use crate::{Bus, Cpu, Stop};
use arch::svm::ExitCode;
use arch::svm::avic::NoAcceleration;
use bus::{ControlBlock, Happening};

/// The exit of an access that AVIC refuses beforehand.
pub(crate) fn check_apic_page(
    cpu: &mut Cpu,
    bus: &mut Bus<'_>,
    offset: u16,
    size: usize,
    access: Access,
) -> Result<(), Stop> {
    let Some(avic) = cpu.guest.running.svm().and_then(|guest| guest.avic) else {
        return Ok(());
    };
    let is_write = access == Access::Write;
    match avic.refusal(bus.memory, offset, size as u8, is_write) {
        None => Ok(()),
        Some(access) => {
            Err(intercept::exit_fault(cpu, ExitCode::AvicNoAcceleration, access.into_exit_info()))
        }
    }
}

pub(crate) fn read_apic_page(cpu: &mut Cpu, bus: &mut Bus<'_>, offset: u16, size: u8) -> u64 {
    let Some(avic) = cpu.guest.running.svm().and_then(|guest| guest.avic) else {
        return !0;
    };
    match avic.read_page(bus.memory, offset, size) {
        ReadOutcome::Value(value) => {
            cpu.clock.take(Step::AvicRead);
            value
        }
        // Refused beforehand.
        ReadOutcome::Fault(_) | ReadOutcome::GeneralProtection => !0,
    }
}

pub(crate) fn write_apic_page(cpu: &mut Cpu, bus: &mut Bus<'_>, offset: u16, size: u8, value: u64) {
    let Some(mut avic) = cpu.guest.running.svm().and_then(|guest| guest.avic) else {
        return;
    };
    let outcome = avic.write_page(bus.memory, offset, size, value);
    // What the write causes comes before the next instruction of the block.
    cpu.pending.note_code_change();
    // Refused beforehand, so that it cannot fault here.
    let _ = apply_avic_write(cpu, bus, avic, outcome);
}

/// Takes over what a write changed and arranges for what it causes.
pub(super) fn apply_avic_write(
    cpu: &mut Cpu,
    bus: &mut Bus<'_>,
    avic: Avic,
    outcome: WriteOutcome,
) -> Result<(), Stop> {
    let Some(guest) = cpu.guest.running.svm_mut() else { return Ok(()) };
    guest.avic = Some(avic);
    match outcome {
        WriteOutcome::Done => {
            cpu.clock.take(Step::AvicWrite);
            Ok(())
        }
        WriteOutcome::Evaluate => {
            cpu.pending.raise(Attention::VIRTUAL_INTERRUPT);
            cpu.clock.take(Step::AvicWrite);
            Ok(())
        }
        WriteOutcome::Ended(vector) => {
            let block = ControlBlock::Vmcb(guest.vmcb);
            let happening = Happening::VirtualEndOfInterrupt { block, vector };
            bus.platform.record(cpu.visit(), happening);
            cpu.pending.raise(Attention::VIRTUAL_INTERRUPT);
            cpu.clock.take(Step::AvicWrite);
            Ok(())
        }
        WriteOutcome::Send(command) => {
            ipi::begin(cpu, bus, command);
            Ok(())
        }
        WriteOutcome::Trap(access) => {
            guest.exit = Some(no_acceleration(access));
            cpu.pending.raise(Attention::GUEST_BOUNDARY);
            Ok(())
        }
        WriteOutcome::Fault(access) => {
            Err(intercept::exit_fault(cpu, ExitCode::AvicNoAcceleration, access.into_exit_info()))
        }
        WriteOutcome::GeneralProtection => Err(Stop::GENERAL_PROTECTION),
    }
}

/// CR8 of a guest whose task priority is virtual; None where it is the processor's.
pub(crate) fn read_cr8(cpu: &Cpu) -> Option<u64> {
    let guest = cpu.guest.running.svm()?;
    match &guest.avic {
        Some(avic) => Some(avic.read_cr8().into()),
        None if guest.interrupts.masks_interrupts() => {
            Some(guest.interrupts.task_priority().into())
        }
        None => None,
    }
}

/// True if CR8 was virtual. Without V_INTR_MASKING a write reaches both V_TPR and the
/// processor's TPR. [APM2 "Virtualizing APIC.TPR"]
pub(crate) fn write_cr8(cpu: &mut Cpu, bus: &mut Bus<'_>, value: u64) -> bool {
    let Some(guest) = cpu.guest.running.svm_mut() else { return false };
    let value = value as u8 & 15;
    guest.interrupts.set_task_priority(value);
    cpu.pending.raise(Attention::VIRTUAL_INTERRUPT);
    match &mut guest.avic {
        Some(avic) => {
            avic.write_cr8(bus.memory, value);
            true
        }
        None => guest.interrupts.masks_interrupts(),
    }
}

fn no_acceleration(access: NoAcceleration) -> Exit {
    Exit { code: ExitCode::AvicNoAcceleration, info: access.into_exit_info(), next_rip: 0 }
}
