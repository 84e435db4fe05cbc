//! Accesses to the APIC's registers, by memory (xAVIC) and by MSR (x2AVIC).
//! [APM2 "Guest vAPIC Register Access Behavior"]
//!
//! The caller has done what precedes AVIC: for memory the nested walk of APIC_BAR's page, for MSRs
//! the privilege check and the permission map.

use super::{Avic, EndOfInterrupt, IrregularAccess, ReadOnlyMsrWrite};
use crate::SharedMemory;
use arch::address::SystemPhysical;
use arch::apic::{Icr, Scope};
use arch::identity::Vector;
use arch::svm::avic::{
    NoAcceleration, ReadRule, RegisterRule, WriteRule, msr_access, register, rule,
};
use arch::svm::msr::X2APIC_FIRST;
use interrupt::page::{ApicPage, Bank};

/// What a read comes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadOutcome {
    /// From the backing page, zero-extended.
    Value(u64),
    /// #VMEXIT 402h, RIP at the instruction.
    Fault(NoAcceleration),
    /// #GP(0); MSRs only.
    GeneralProtection,
}

/// What a write comes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteOutcome {
    /// It is done and changed nothing that gates interrupts.
    Done,
    /// It is done; pending interrupts are to be evaluated.
    Evaluate,
    /// It is done and took this vector out of service; pending interrupts are to be evaluated.
    Ended(Vector),
    /// It is done and sends an IPI: see [`super::IpiSend`].
    Send(Icr),
    /// #VMEXIT 402h, RIP after the instruction, the value in the page.
    Trap(NoAcceleration),
    /// #VMEXIT 402h, RIP at the instruction, nothing changed.
    Fault(NoAcceleration),
    /// #GP(0); MSRs only.
    GeneralProtection,
}

/// Delivery status, bit 12 of the ICR.
const BUSY: u32 = 1 << 12;

impl Avic {
    /// A read of `size` (1, 2, 4 or 8) bytes at `offset` into the APIC page, not crossing its end.
    pub fn read_page(&self, memory: &mut impl SharedMemory, offset: u16, size: u8) -> ReadOutcome {
        match self.refusal(memory, offset, size, false) {
            Some(access) => ReadOutcome::Fault(access),
            None => ReadOutcome::Value(self.read_bytes(memory, offset, size)),
        }
    }

    /// A write of `size` (1, 2, 4 or 8) bytes at `offset` into the APIC page, not crossing its end.
    pub fn write_page(
        &mut self,
        memory: &mut impl SharedMemory,
        offset: u16,
        size: u8,
        value: u64,
    ) -> WriteOutcome {
        if let Some(access) = self.refusal(memory, offset, size, true) {
            return WriteOutcome::Fault(access);
        }
        if is_register(offset, size) {
            return self.write_register(memory, offset, value as u32);
        }
        self.write_bytes(memory, offset, size, value);
        WriteOutcome::Done
    }

    /// The fault that an access to the APIC page would end in, found without making the access.
    pub fn refusal(
        &self,
        memory: &mut impl SharedMemory,
        offset: u16,
        size: u8,
        is_write: bool,
    ) -> Option<NoAcceleration> {
        let rule = self.rule(offset);
        let is_irregular = !is_register(offset, size);
        let behaviour = &self.behaviour;
        let is_fault = if is_write {
            rule.write == WriteRule::Fault
                || is_irregular && behaviour.irregular_write == IrregularAccess::Fault
        } else {
            rule.read == ReadRule::Fault
                || is_irregular && behaviour.irregular_read == IrregularAccess::Fault
        };
        if is_fault {
            return Some(no_acceleration(offset, is_write, Vector(0)));
        }
        let ends_interrupt = is_write && !is_irregular && rule.write == WriteRule::EndOfInterrupt;
        if !ends_interrupt || !behaviour.level_eoi_is_fault {
            return None;
        }
        let page = self.backing_page.within(memory);
        let vector = page.highest(Bank::InService)?;
        page.contains(Bank::TriggerMode, vector).then(|| no_acceleration(offset, true, vector))
    }

    /// RDMSR of 800h–8FFh.
    pub fn read_msr(&self, memory: &mut impl SharedMemory, msr: u32) -> ReadOutcome {
        let offset = page_offset(msr);
        let is_readable = msr_access(msr).is_some_and(|access| {
            let is_eoi = offset == register::END_OF_INTERRUPT;
            access.is_readable || is_eoi && !self.behaviour.eoi_read_is_refused
        });
        if !is_readable {
            return ReadOutcome::GeneralProtection;
        }
        if self.rule(offset).read == ReadRule::Fault {
            return ReadOutcome::Fault(no_acceleration(offset, false, Vector(0)));
        }
        let low = self.backing_page.within(memory).read_u32(offset);
        // The ICR is one MSR but two registers of the page.
        let high = if offset == register::INTERRUPT_COMMAND_LOW {
            self.backing_page.within(memory).read_u32(self.command_high())
        } else {
            0
        };
        ReadOutcome::Value(u64::from(high) << 32 | u64::from(low))
    }

    /// WRMSR to 800h–8FFh. [APM2 "x2APIC Register Address Space"]
    pub fn write_msr(
        &mut self,
        memory: &mut impl SharedMemory,
        msr: u32,
        value: u64,
    ) -> WriteOutcome {
        let offset = page_offset(msr);
        let Some(access) = msr_access(msr) else {
            return WriteOutcome::GeneralProtection;
        };
        let Some(writable) = access.writable else {
            return match self.behaviour.read_only_msr_write {
                ReadOnlyMsrWrite::GeneralProtection => WriteOutcome::GeneralProtection,
                ReadOnlyMsrWrite::NoAcceleration => {
                    WriteOutcome::Fault(no_acceleration(offset, true, Vector(0)))
                }
            };
        };
        if value & !writable != 0 {
            return WriteOutcome::GeneralProtection;
        }
        if offset == register::INTERRUPT_COMMAND_LOW {
            let high = self.command_high();
            self.backing_page.within(memory).write_u32(high, (value >> 32) as u32);
        }
        self.write_register(memory, offset, value as u32)
    }

    fn write_register(
        &mut self,
        memory: &mut impl SharedMemory,
        offset: u16,
        value: u32,
    ) -> WriteOutcome {
        match self.rule(offset).write {
            WriteRule::Fault => {
                return WriteOutcome::Fault(no_acceleration(offset, true, Vector(0)));
            }
            WriteRule::TaskPriority => {
                self.write_task_priority(memory, value as u8);
                return WriteOutcome::Evaluate;
            }
            WriteRule::EndOfInterrupt => return self.write_eoi(memory, value),
            WriteRule::InterruptCommand => return self.write_command(memory, value),
            WriteRule::SelfIpi => {
                return WriteOutcome::Send(
                    Icr::new().with_vector(value as u8).with_shorthand(Scope::SelfOnly),
                );
            }
            WriteRule::Accelerated | WriteRule::Trap => {}
        }
        self.backing_page.within(memory).write_u32(offset, value);
        match self.rule(offset).write {
            WriteRule::Trap => WriteOutcome::Trap(no_acceleration(offset, true, Vector(0))),
            _ => WriteOutcome::Done,
        }
    }

    fn write_eoi(&mut self, memory: &mut impl SharedMemory, value: u32) -> WriteOutcome {
        let eoi = register::END_OF_INTERRUPT;
        match self.end_of_interrupt(memory) {
            EndOfInterrupt::Nothing => WriteOutcome::Done,
            EndOfInterrupt::Ended(vector) => WriteOutcome::Ended(vector),
            EndOfInterrupt::Exit(vector) if self.behaviour.level_eoi_is_fault => {
                WriteOutcome::Fault(no_acceleration(eoi, true, vector))
            }
            EndOfInterrupt::Exit(vector) => {
                self.backing_page.within(memory).write_u32(eoi, value);
                WriteOutcome::Trap(no_acceleration(eoi, true, vector))
            }
        }
    }

    fn write_command(&mut self, memory: &mut impl SharedMemory, low: u32) -> WriteOutcome {
        let busy = if self.behaviour.leaves_busy_set { BUSY } else { 0 };
        let low = low & !BUSY | busy;
        self.backing_page.within(memory).write_u32(register::INTERRUPT_COMMAND_LOW, low);
        let high = self.backing_page.within(memory).read_u32(self.command_high());
        WriteOutcome::Send(Icr::from_dwords(low, high))
    }

    /// Where the page keeps the destination.
    fn command_high(&self) -> u16 {
        if self.is_x2apic() && self.behaviour.x2avic_icr_is_whole {
            register::INTERRUPT_COMMAND_LOW + 4
        } else {
            register::INTERRUPT_COMMAND_HIGH
        }
    }

    fn rule(&self, offset: u16) -> RegisterRule {
        let offset = offset & 0xFF0;
        if offset == register::SELF_IPI && self.is_x2apic() {
            return RegisterRule {
                first: offset,
                last: offset,
                read: ReadRule::Fault,
                write: WriteRule::SelfIpi,
            };
        }
        rule(offset, self.extended_lvt_change)
    }

    /// Bytes of the page; its registers' padding is memory like any other.
    fn read_bytes(&self, memory: &mut impl SharedMemory, offset: u16, size: u8) -> u64 {
        (0..u16::from(size)).fold(0, |value, byte| {
            let at = offset + byte;
            let dword = memory.read_u32(self.dword(at));
            value | u64::from(dword >> (at % 4 * 8) & 0xFF) << (byte * 8)
        })
    }

    fn write_bytes(&self, memory: &mut impl SharedMemory, offset: u16, size: u8, value: u64) {
        for byte in 0..u16::from(size) {
            let at = offset + byte;
            let shift = at % 4 * 8;
            let kept = memory.read_u32(self.dword(at)) & !(0xFF << shift);
            let new = (value >> (byte * 8) & 0xFF) as u32;
            memory.write_u32(self.dword(at), kept | new << shift);
        }
    }

    fn dword(&self, offset: u16) -> SystemPhysical {
        self.backing_page.0.offset(u64::from(offset & !3))
    }
}

/// Registers are the first, aligned dword of their sixteen bytes.
const fn is_register(offset: u16, size: u8) -> bool {
    offset.is_multiple_of(16) && size == 4
}

const fn page_offset(msr: u32) -> u16 {
    ((msr - X2APIC_FIRST) << 4) as u16
}

const fn no_acceleration(offset: u16, is_write: bool, vector: Vector) -> NoAcceleration {
    NoAcceleration { offset: offset & 0xFF0, is_write, vector: vector.0 }
}
