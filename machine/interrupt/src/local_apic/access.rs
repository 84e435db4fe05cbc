//! The two doors to the registers: the memory page of xAPIC mode and the MSRs of x2APIC mode.

use super::{LocalApic, Refused};
use arch::apic::{Esr, ExtendedControl, Icr, Lvt, Mode, Register, Svr};
use arch::time::Picoseconds;
use bus::Effect;

impl LocalApic {
    /// Reads `size` bytes of the register page. All ones when the page is not there. Bytes past
    /// the dword at the start of each 16 are undefined in the manuals, and zero here.
    /// [SDM3 "Local APIC Register Address Map"]
    pub fn read_mmio(&mut self, offset: u16, size: u8, now: Picoseconds) -> u64 {
        let mask = if size >= 8 { u64::MAX } else { (1 << (8 * u32::from(size))) - 1 };
        if self.mode() != Mode::XApic {
            return mask;
        }
        let dword = match Register::at(offset) {
            Some(register) if register != Register::SelfIpi && self.model.has(register) => {
                self.read_register(register, now)
            }
            _ => {
                self.raise_error(Esr::ILLEGAL_REGISTER_ADDRESS);
                0
            }
        };
        let byte = u32::from(offset & 15);
        if byte < 4 { u64::from(dword) >> (8 * byte) & mask } else { 0 }
    }

    /// Writes the register page. Only aligned 32-bit writes have a defined meaning; others are
    /// dropped.
    pub fn write_mmio(
        &mut self,
        offset: u16,
        size: u8,
        value: u64,
        now: Picoseconds,
        out: &mut Vec<Effect>,
    ) {
        if self.mode() != Mode::XApic || size != 4 || offset & 15 != 0 {
            return;
        }
        match Register::at(offset) {
            Some(register) if register != Register::SelfIpi && self.model.has(register) => {
                self.write_register(register, value as u32, now, out);
            }
            _ => self.raise_error(Esr::ILLEGAL_REGISTER_ADDRESS),
        }
    }

    /// RDMSR of 800h–8FFh. [SDM3 "x2APIC Register Availability"] [APM2 "x2APIC Mode"]
    pub fn read_msr(&mut self, msr: u32, now: Picoseconds) -> Result<u64, Refused> {
        match self.msr_register(msr)? {
            Register::SelfIpi | Register::SpecificEndOfInterrupt => Err(Refused),
            Register::EndOfInterrupt if !self.model.eoi_is_readable => Err(Refused),
            Register::Command => Ok(u64::from(self.read_raw(Register::CommandHigh)) << 32
                | u64::from(self.read_raw(Register::Command))),
            register => Ok(u64::from(self.read_register(register, now))),
        }
    }

    /// WRMSR of 800h–8FFh.
    pub fn write_msr(
        &mut self,
        msr: u32,
        value: u64,
        now: Picoseconds,
        out: &mut Vec<Effect>,
    ) -> Result<(), Refused> {
        let register = self.msr_register(msr)?;
        if value & !self.msr_writable(register) != 0 || is_read_only_msr(register) {
            return Err(Refused);
        }
        match register {
            Register::Command => self.write_command(value, out),
            _ => self.write_register(register, value as u32, now, out),
        }
        Ok(())
    }

    fn msr_register(&self, msr: u32) -> Result<Register, Refused> {
        let register = Register::of_msr(msr).ok_or(Refused)?;
        if self.mode() == Mode::X2Apic && self.model.has(register) {
            Ok(register)
        } else {
            Err(Refused)
        }
    }

    /// The bits of a writable MSR that may be one.
    fn msr_writable(&self, register: Register) -> u64 {
        match register {
            Register::Command if self.model.command_status_is_reserved => {
                !Icr::X2_RESERVED_WITH_STATUS
            }
            Register::Command => !Icr::X2_RESERVED,
            Register::TaskPriority | Register::SelfIpi | Register::SpecificEndOfInterrupt => 0xFF,
            Register::EndOfInterrupt | Register::ErrorStatus => 0,
            Register::LocalVector(_) | Register::ExtendedLocalVector(_) => {
                u64::from(self.writable(register) | Lvt::READ_ONLY)
            }
            _ => u64::from(self.writable(register)),
        }
    }

    /// The bits that a write changes, the same through both doors.
    pub(super) fn writable(&self, register: Register) -> u32 {
        match register {
            Register::SpuriousVector if self.model.supports_eoi_broadcast_suppression => {
                Svr::WRITABLE | Svr::EOI_BROADCAST_SUPPRESSION
            }
            Register::SpuriousVector => Svr::WRITABLE,
            Register::LocalVector(arch::apic::LocalVector::Timer)
                if !self.model.supports_tsc_deadline =>
            {
                arch::apic::LocalVector::Timer.writable() & !Lvt::TSC_DEADLINE
            }
            Register::LocalVector(entry) => entry.writable(),
            Register::ExtendedLocalVector(_) => arch::apic::LocalVector::Performance.writable(),
            Register::DivideConfiguration => arch::apic::DivideConfiguration::WRITABLE,
            Register::ExtendedControl => ExtendedControl::WRITABLE,
            _ => u32::MAX,
        }
    }
}

/// ID and LDR can be written in xAPIC mode alone.
fn is_read_only_msr(register: Register) -> bool {
    register.is_read_only() || matches!(register, Register::Id | Register::LogicalDestination)
}
