//! Accesses to the APIC's registers, by memory and by MSR.
//! [SDM3 "Virtualizing Memory-Mapped APIC Accesses"] [SDM3 "Virtualizing MSR-Based APIC Accesses"]
//!
//! The caller has done what precedes: for memory the walk of guest and EPT tables, for MSRs the
//! privilege check and the MSR bitmap.

use super::command::COMMAND_HIGH;
use super::{Apicv, ApicvExit, CommandHalves, Completion, HoleRead};
use crate::SharedMemory;
use arch::address::SystemPhysical;
use arch::apic::{FIRST_LEGAL_VECTOR, Icr, MSR_FIRST, MSR_LAST, Register};
use arch::identity::Vector;
use arch::vmx::apicv::{MsrWriteRule, ReadRule, WriteRule, msr_write_rule, rule};
use arch::vmx::qualification::{ApicAccess, ApicAccessKind};
use interrupt::page::ApicPage;

/// What RDMSR of 800h–8FFh comes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MsrRead {
    /// The value of EDX:EAX.
    Virtualized(u64),
    /// As outside VMX, from the processor's own APIC.
    Ordinary,
    /// \#GP(0).
    GeneralProtection,
}

/// What WRMSR to 800h–8FFh comes to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MsrWrite {
    /// The virtual-APIC page took it; what follows.
    Virtualized(Completion),
    /// As outside VMX, to the processor's own APIC.
    Ordinary,
    /// \#GP(0), with nothing changed.
    GeneralProtection,
}

const SELF_IPI: u16 = Register::SelfIpi.offset();
/// The MSRs from here on are none of x2APIC mode on Intel parts.
const MSR_HOLES: u32 = 0x840;

impl Apicv {
    /// Whether a system physical address, the end of all translation, is in the APIC-access page.
    pub const fn covers(&self, at: SystemPhysical) -> bool {
        self.controls.virtualizes_accesses && at.0 & !0xFFF == self.access_page.0
    }

    /// The fault-like APIC-access VM exit in which an access ends, found without making it.
    pub fn refusal(&self, kind: ApicAccessKind, offset: u16, size: u8) -> Option<ApicAccess> {
        let is_virtualized = match kind {
            ApicAccessKind::LinearRead => self.virtualizes_read(offset, size),
            ApicAccessKind::LinearWrite => self.virtualizes_write(offset, size),
            ApicAccessKind::PhysicalDelivery | ApicAccessKind::PhysicalInstruction => {
                let exit = ApicAccess::new().with_kind(kind);
                return self.behaviour.physical_access_exits.then_some(exit);
            }
            _ => false,
        };
        let exit = ApicAccess::new().with_kind(kind).with_offset(offset & 0xFFF);
        (!is_virtualized).then_some(exit)
    }

    /// A read of `size` bytes at `offset` into the APIC-access page by an instruction.
    pub fn read_page(
        &self,
        memory: &mut impl SharedMemory,
        offset: u16,
        size: u8,
    ) -> Result<u32, ApicAccess> {
        match self.refusal(ApicAccessKind::LinearRead, offset, size) {
            Some(exit) => Err(exit),
            None => {
                let register = self.page.within(memory).read_u32(offset & !15);
                Ok(register >> (offset % 4 * 8) & mask(size))
            }
        }
    }

    /// A write of `size` bytes at `offset` into the APIC-access page by an instruction. What
    /// follows waits for [`Apicv::complete_operation`].
    pub fn write_page(
        &mut self,
        memory: &mut impl SharedMemory,
        offset: u16,
        size: u8,
        value: u32,
    ) -> Result<(), ApicAccess> {
        if let Some(exit) = self.refusal(ApicAccessKind::LinearWrite, offset, size) {
            return Err(exit);
        }
        let (shift, mut page) = (offset % 4 * 8, self.page.within(memory));
        let kept = page.read_u32(offset & !15) & !(mask(size) << shift);
        page.write_u32(offset & !15, kept | (value & mask(size)) << shift);
        self.unfinished_write = Some(offset);
        Ok(())
    }

    /// APIC-write emulation: the instruction, or the delivery of the event that cut it short, is
    /// complete. It comes before anything that waits at the instruction boundary, SMI and INIT
    /// included. An operation that ends in a VM exit owes nothing: VM entry forgets the write.
    /// [SDM3 "APIC-Write Emulation"]
    pub fn complete_operation(&mut self, memory: &mut impl SharedMemory) -> Completion {
        let Some(offset) = self.unfinished_write.take() else {
            return Completion::Done;
        };
        match rule(offset).write {
            WriteRule::TaskPriority => {
                let mut page = self.page.within(memory);
                let task = page.read_u32(offset) & 0xFF;
                page.write_u32(offset, task);
                self.virtualize_task_priority(memory).into()
            }
            WriteRule::EndOfInterrupt if self.controls.delivers_interrupts => {
                self.page.within(memory).write_u32(offset, 0);
                self.virtualize_eoi(memory).into()
            }
            WriteRule::Command => self.command_by_memory(memory),
            _ if offset & !3 == COMMAND_HIGH => {
                let mut page = self.page.within(memory);
                let high = page.read_u32(COMMAND_HIGH) & Icr::X_HIGH_WRITABLE;
                page.write_u32(COMMAND_HIGH, high);
                Completion::Done
            }
            _ => Completion::Exit(ApicvExit::ApicWrite(offset)),
        }
    }

    /// RDMSR of 800h–8FFh; others are ordinary.
    pub fn read_msr(&self, memory: &mut impl SharedMemory, msr: u32) -> MsrRead {
        let register = Register::of_msr(msr);
        let is_named = register == Some(Register::TaskPriority)
            || self.controls.virtualizes_registers && (MSR_FIRST..=MSR_LAST).contains(&msr);
        if !self.controls.virtualizes_x2apic || !is_named {
            return MsrRead::Ordinary;
        }
        let is_hole = msr >= MSR_HOLES || register.is_none();
        if is_hole && self.behaviour.hole_read == HoleRead::GeneralProtection {
            return MsrRead::GeneralProtection;
        }
        MsrRead::Virtualized(memory.read_u64(self.page.0.offset(page_offset(msr).into())))
    }

    /// WRMSR to 800h–8FFh; others are ordinary. Whether the processor's own APIC is in x2APIC mode
    /// does not matter where the write is virtualized.
    pub fn write_msr(&mut self, memory: &mut impl SharedMemory, msr: u32, value: u64) -> MsrWrite {
        let rule = msr_write_rule(msr);
        if !self.virtualizes_msr_write(rule) {
            return MsrWrite::Ordinary;
        }
        if value & rule.reserved() != 0 {
            return MsrWrite::GeneralProtection;
        }
        let vector = Vector(value as u8);
        let is_stored = rule != MsrWriteRule::SelfIpi
            || self.behaviour.stores_self_ipi
            || vector.0 < FIRST_LEGAL_VECTOR;
        if is_stored {
            memory.write_u64(self.page.0.offset(page_offset(msr).into()), value);
        }
        MsrWrite::Virtualized(match rule {
            MsrWriteRule::TaskPriority => self.virtualize_task_priority(memory).into(),
            MsrWriteRule::EndOfInterrupt => self.virtualize_eoi(memory).into(),
            MsrWriteRule::SelfIpi if vector.0 < FIRST_LEGAL_VECTOR => {
                Completion::Exit(ApicvExit::ApicWrite(SELF_IPI))
            }
            MsrWriteRule::SelfIpi => {
                self.virtualize_self_ipi(memory, vector);
                Completion::Done
            }
            MsrWriteRule::Command | MsrWriteRule::Never => {
                self.command_by_msr(memory, Icr::from_bits(value))
            }
        })
    }

    fn virtualizes_read(&self, offset: u16, size: u8) -> bool {
        let controls = self.controls;
        let is_named = match rule(offset & !15).read {
            ReadRule::Always => true,
            ReadRule::WithDeliveryOrRegisters => {
                controls.delivers_interrupts || controls.virtualizes_registers
            }
            ReadRule::WithRegisters => controls.virtualizes_registers,
            ReadRule::Never => false,
        };
        is_named && self.virtualizes_any(offset, size)
    }

    fn virtualizes_write(&self, offset: u16, size: u8) -> bool {
        let controls = self.controls;
        let alone = self.behaviour.ipi_virtualization_alone;
        let is_named = match rule(offset & !15).write {
            WriteRule::TaskPriority => true,
            WriteRule::EndOfInterrupt => {
                controls.delivers_interrupts || controls.virtualizes_registers
            }
            WriteRule::Command => {
                let by_ipis = controls.virtualizes_ipis && alone != CommandHalves::Neither;
                controls.delivers_interrupts || controls.virtualizes_registers || by_ipis
            }
            WriteRule::CommandHigh => {
                let by_ipis = controls.virtualizes_ipis && alone == CommandHalves::Both;
                controls.virtualizes_registers || by_ipis
            }
            WriteRule::Exit => controls.virtualizes_registers,
            WriteRule::Never => false,
        };
        is_named && self.virtualizes_any(offset, size)
    }

    /// What every virtualized access needs. Without APIC-register virtualization the rules name the
    /// first byte of a register, with it any of its four.
    fn virtualizes_any(&self, offset: u16, size: u8) -> bool {
        self.controls.uses_tpr_shadow
            && self.unfinished_write.is_none()
            && size <= 4
            && offset % 16 + u16::from(size) <= 4
            && (self.controls.virtualizes_registers || offset.is_multiple_of(16))
    }

    fn virtualizes_msr_write(&self, rule: MsrWriteRule) -> bool {
        let controls = self.controls;
        controls.virtualizes_x2apic
            && match rule {
                MsrWriteRule::TaskPriority => true,
                MsrWriteRule::EndOfInterrupt | MsrWriteRule::SelfIpi => {
                    controls.delivers_interrupts
                }
                MsrWriteRule::Command => controls.virtualizes_ipis,
                MsrWriteRule::Never => false,
            }
    }
}

const fn mask(size: u8) -> u32 {
    ((1u64 << (size as u32 * 8)) - 1) as u32
}

const fn page_offset(msr: u32) -> u16 {
    ((msr - MSR_FIRST) << 4) as u16
}
