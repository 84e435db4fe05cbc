//! The interrupt command register in the virtual-APIC page: which values are IPIs that need no
//! exit. [SDM3 "APIC-Write Emulation"] [SDM3 "Virtualizing MSR-Based APIC Accesses"]

use super::{Apicv, ApicvExit, Completion, IpiSend};
use crate::SharedMemory;
use arch::apic::{DeliveryMode, DestinationMode, FIRST_LEGAL_VECTOR, Icr, Register, Scope};
use arch::identity::Vector;
use arch::vmx::apicv::NotificationControl;
use interrupt::page::ApicPage;

pub(super) const COMMAND: u16 = Register::Command.offset();
pub(super) const COMMAND_HIGH: u16 = Register::CommandHigh.offset();

impl Apicv {
    /// The low half of the ICR was written in the page by a memory access.
    pub(super) fn command_by_memory(&mut self, memory: &mut impl SharedMemory) -> Completion {
        let page = self.page.within(memory);
        let command = Icr::from_dwords(page.read_u32(COMMAND), page.read_u32(COMMAND_HIGH));
        let vector = Vector(command.vector());
        let is_self = self.controls.delivers_interrupts
            && has_no_reserved_bits(command)
            && command.shorthand() == Scope::SelfOnly
            && is_fixed_and_edge(command)
            && vector.0 >= FIRST_LEGAL_VECTOR;
        if is_self {
            self.virtualize_self_ipi(memory, vector);
            return Completion::Done;
        }
        let is_clean =
            has_no_reserved_bits(command) || self.behaviour.ignores_reserved_command_bits;
        if self.controls.virtualizes_ipis && is_clean {
            return self.send_or_exit(memory, command, command.destination() >> 24);
        }
        Completion::Exit(self.command_exit(memory))
    }

    /// The 64 bits of the ICR were written in the page by WRMSR.
    pub(super) fn command_by_msr(
        &self,
        memory: &mut impl SharedMemory,
        command: Icr,
    ) -> Completion {
        self.send_or_exit(memory, command, command.destination())
    }

    /// IPI virtualization takes physical, fixed, edge-triggered commands without a shorthand, and
    /// with the old delivery status clear.
    fn send_or_exit(
        &self,
        memory: &mut impl SharedMemory,
        command: Icr,
        target: u32,
    ) -> Completion {
        let is_virtualized = command.shorthand() == Scope::Destination
            && command.destination_mode() == DestinationMode::Physical
            && !command.is_send_pending()
            && is_fixed_and_edge(command);
        if is_virtualized {
            Completion::Send(IpiSend::new(Vector(command.vector()), target))
        } else {
            Completion::Exit(self.command_exit(memory))
        }
    }

    /// The exit for an ICR that is not virtualized, the same by memory, by MSR and by SENDUIPI.
    pub(super) fn command_exit(&self, memory: &mut impl SharedMemory) -> ApicvExit {
        if self.behaviour.leaves_busy_set {
            let mut page = self.page.within(memory);
            let command = Icr::from_dwords(page.read_u32(COMMAND), 0);
            page.write_u32(COMMAND, command.with_is_send_pending(true).low());
        }
        ApicvExit::ApicWrite(COMMAND)
    }

    /// SENDUIPI's notification to `receiver`, whose descriptor names a vector and a virtual APIC ID
    /// in the form of the guest's mode. Without IPI virtualization it exits as a write of the ICR.
    /// [SDM2 "SENDUIPI"]
    pub fn user_interrupt(
        &self,
        memory: &mut impl SharedMemory,
        receiver: NotificationControl,
    ) -> Completion {
        let ipi = IpiSend::of_user_interrupt(receiver, !self.controls.virtualizes_accesses);
        match self.controls.virtualizes_ipis {
            true => Completion::Send(ipi),
            false => Completion::Exit(ipi.exit(self, memory)),
        }
    }

    /// Puts a command where the guest's mode has the ICR: two dwords where accesses by memory are
    /// virtualized, else 64 bits at 300h.
    pub(super) fn store_command(&self, memory: &mut impl SharedMemory, command: Icr) {
        if !self.controls.virtualizes_accesses {
            memory.write_u64(self.page.0.offset(COMMAND.into()), command.into_bits());
        } else {
            let mut page = self.page.within(memory);
            page.write_u32(COMMAND_HIGH, command.high());
            page.write_u32(COMMAND, command.low());
        }
    }
}

/// Bits 31:20, 17:16, 13 and the old delivery status.
fn has_no_reserved_bits(command: Icr) -> bool {
    command.into_bits() & Icr::X2_RESERVED_WITH_STATUS == 0
}

fn is_fixed_and_edge(command: Icr) -> bool {
    command.delivery_mode() == DeliveryMode::Fixed && !command.is_level()
}
