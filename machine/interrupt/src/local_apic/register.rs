//! What reading and writing each register does.

use super::{LocalApic, local_vector::Raised};
use crate::page::{ApicPage, Bank};
use arch::apic::{
    DeliveryMode, DestinationMode, Dfr, Esr, ExtendedControl, FIRST_LEGAL_VECTOR, Icr,
    InterruptMessage, Ldr, LocalVector, Lvt, Register, Scope,
};
use arch::identity::Vector;
use arch::time::Picoseconds;
use bus::Effect;

impl LocalApic {
    pub(super) fn read_register(&mut self, register: Register, now: Picoseconds) -> u32 {
        match register {
            Register::CurrentCount => {
                self.run_timer(now);
                self.current_count(now)
            }
            Register::ArbitrationPriority => u32::from(self.priority()),
            Register::EndOfInterrupt
            | Register::SpecificEndOfInterrupt
            | Register::RemoteRead
            | Register::SelfIpi => 0,
            Register::InService(_) | Register::Request(_) | Register::TriggerMode(_) => {
                self.run_timer(now);
                self.read_raw(register)
            }
            _ => self.read_raw(register),
        }
    }

    pub(super) fn write_register(
        &mut self,
        register: Register,
        value: u32,
        now: Picoseconds,
        out: &mut Vec<Effect>,
    ) {
        match register {
            Register::Id if self.model.id_is_writable => {
                self.write_raw(register, value & 0xFF00_0000);
            }
            Register::Id => {}
            Register::TaskPriority => self.set_task_priority(value as u8),
            Register::EndOfInterrupt => self.end_of_interrupt(out),
            Register::SpecificEndOfInterrupt => self.specific_end_of_interrupt(value as u8, out),
            Register::LogicalDestination => self.write_raw(register, value & Ldr::WRITABLE),
            Register::DestinationFormat => self.write_raw(register, value | Dfr::FIXED_ONES),
            Register::SpuriousVector => self.write_spurious(value, now),
            Register::ErrorStatus => {
                self.write_raw(register, self.gathered_errors);
                self.gathered_errors = 0;
            }
            Register::Command => {
                let high = self.read_raw(Register::CommandHigh);
                self.write_command(u64::from(high) << 32 | u64::from(value), out);
            }
            Register::CommandHigh => self.write_raw(register, value & Icr::X_HIGH_WRITABLE),
            Register::LocalVector(entry) => self.write_local_vector(entry, value, now),
            Register::ExtendedLocalVector(_) => self.store_local_vector(register, value),
            Register::InitialCount => self.start_timer(value, now),
            Register::DivideConfiguration => self.write_divide(value, now),
            Register::SelfIpi => self.send_self(value as u8, out),
            Register::ExtendedControl | Register::InterruptEnable(_) => {
                self.write_raw(register, value & self.writable(register));
                self.update();
            }
            // Read-only in both modes; refused before this in x2APIC mode.
            Register::Version
            | Register::ArbitrationPriority
            | Register::ProcessorPriority
            | Register::RemoteRead
            | Register::InService(_)
            | Register::TriggerMode(_)
            | Register::Request(_)
            | Register::CurrentCount
            | Register::ExtendedFeature => {}
        }
    }

    /// Software disable masks every local vector; enabling leaves them masked.
    /// [SDM3 "Local APIC State After It Has Been Software Disabled"]
    fn write_spurious(&mut self, value: u32, now: Picoseconds) {
        self.run_timer(now);
        self.write_raw(Register::SpuriousVector, value & self.writable(Register::SpuriousVector));
        if !self.spurious().is_enabled() {
            for register in self.local_vectors() {
                let entry = self.read_raw(register);
                self.write_raw(register, entry | Lvt::MASK);
            }
            self.plan_timer();
        }
    }

    /// Every local vector register that the model has.
    fn local_vectors(&self) -> impl Iterator<Item = Register> + use<> {
        let model = self.model.clone();
        LocalVector::ALL
            .map(Register::LocalVector)
            .into_iter()
            .chain((0..4).map(Register::ExtendedLocalVector))
            .filter(move |register| model.has(*register))
    }

    fn write_local_vector(&mut self, entry: LocalVector, value: u32, now: Picoseconds) {
        let register = Register::LocalVector(entry);
        match entry {
            LocalVector::Timer => self.write_timer_entry(value, now),
            LocalVector::Lint0 => {
                self.store_local_vector(register, value);
                self.sample_lint0(Raised::No);
            }
            _ => self.store_local_vector(register, value),
        }
    }

    /// Stores what software may change of a local vector. The mask cannot be cleared while the
    /// APIC is disabled by software.
    pub(super) fn store_local_vector(&mut self, register: Register, value: u32) {
        let writable = self.writable(register);
        let mut entry = self.read_raw(register) & !writable | value & writable;
        if !self.spurious().is_enabled() {
            entry |= Lvt::MASK;
        }
        self.write_raw(register, entry);
    }

    /// Ends the highest vector in service. [SDM3 "Signaling Interrupt Servicing Completion"]
    fn end_of_interrupt(&mut self, out: &mut Vec<Effect>) {
        if let Some((vector, is_level)) = self.page.end_of_interrupt() {
            self.finish(vector, is_level, out);
        }
    }

    /// Ends the vector that software names. [APM2 "Specific End of Interrupt Register"]
    fn specific_end_of_interrupt(&mut self, vector: u8, out: &mut Vec<Effect>) {
        let control = ExtendedControl::from_bits(self.read_raw(Register::ExtendedControl));
        let vector = Vector(vector);
        if control.enables_specific_eoi() && self.page.remove(Bank::InService, vector) {
            self.finish(vector, self.page.contains(Bank::TriggerMode, vector), out);
        }
    }

    fn finish(&mut self, vector: Vector, is_level: bool, out: &mut Vec<Effect>) {
        if is_level {
            if !self.spurious().suppresses_eoi_broadcast() {
                out.push(Effect::EndOfInterrupt { vector });
            }
            self.end_lint0(vector);
        }
        self.update();
    }

    /// Stores and sends a command. The delivery status reads as idle: sending takes no time here.
    pub(super) fn write_command(&mut self, value: u64, out: &mut Vec<Effect>) {
        let is_x2apic = self.is_x2apic();
        let command = Icr::from_bits(value);
        self.write_raw(Register::Command, command.low() & Icr::X_LOW_WRITABLE);
        self.write_raw(Register::CommandHigh, command.high());
        let message = command.message(is_x2apic, self.model.has_level_triggered_ipis);
        match message.delivery_mode {
            DeliveryMode::RemoteRead | DeliveryMode::ExtInt => {}
            DeliveryMode::Fixed | DeliveryMode::LowestPriority => {
                self.send_vector(message, command.shorthand(), out);
            }
            _ => out.push(Effect::Interrupt { message, scope: command.shorthand() }),
        }
    }

    fn send_vector(&mut self, message: InterruptMessage, scope: Scope, out: &mut Vec<Effect>) {
        if message.vector.0 < FIRST_LEGAL_VECTOR {
            self.raise_error(Esr::SEND_ILLEGAL_VECTOR);
        } else if message.is_asserted {
            out.push(Effect::Interrupt { message, scope });
        }
    }

    /// [SDM3 "SELF IPI Register"]
    fn send_self(&mut self, vector: u8, out: &mut Vec<Effect>) {
        let message = InterruptMessage {
            destination: self.id().0,
            destination_mode: DestinationMode::Physical,
            delivery_mode: DeliveryMode::Fixed,
            vector: Vector(vector),
            is_level: false,
            is_asserted: true,
            is_x2apic: true,
        };
        self.send_vector(message, Scope::SelfOnly, out);
    }
}
