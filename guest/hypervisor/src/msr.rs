//! What the MSRs do that the guest does not reach by itself.

use crate::machine::Machine;
use crate::vapic::register;
use crate::vcpu::{Owned, Vcpu};
use crate::vendor::{Control, Vendor};
use arch::apic::{ApicBase, MSR_FIRST, MSR_LAST};
use arch::control::Efer;
use arch::msr;
use runtime::instruction;

/// The guest's access must raise #GP.
pub struct Refused;

/// What a RDMSR that exited reads.
pub fn read<V: Vendor>(vcpu: &Vcpu<V>, owned: &Owned<V>, msr: u32) -> Result<u64, Refused> {
    match msr {
        msr::TSC => Ok(instruction::time_stamp()),
        ApicBase::MSR => Ok(owned.apic_base.into_bits()),
        msr::EFER => Ok(owned.control.efer().bits()),
        MSR_FIRST..=MSR_LAST => {
            let is_readable = V::apic_msr(msr).is_some_and(|access| access.is_readable);
            if !owned.apic_base.is_x2apic() || !is_readable {
                return Err(Refused);
            }
            Ok(register::read_msr(vcpu, owned, apic_offset(msr)))
        }
        _ => Err(Refused),
    }
}

/// What a WRMSR that exited does.
pub fn write<V: Vendor>(
    machine: &Machine<V>,
    vcpu: &Vcpu<V>,
    owned: &mut Owned<V>,
    msr: u32,
    value: u64,
) -> Result<(), Refused> {
    match msr {
        ApicBase::MSR => write_apic_base(machine, vcpu, owned, ApicBase::from_bits(value)),
        msr::EFER => write_efer(owned, Efer::from_bits_retain(value)),
        MSR_FIRST..=MSR_LAST => {
            let writable = V::apic_msr(msr).and_then(|access| access.writable);
            let is_legal = writable.is_some_and(|bits| value & !bits == 0);
            if !owned.apic_base.is_x2apic() || !is_legal {
                return Err(Refused);
            }
            register::write_msr(machine, vcpu, owned, apic_offset(msr), value);
            Ok(())
        }
        _ => Err(Refused),
    }
}

/// Where the register of an MSR is in the APIC page.
fn apic_offset(msr: u32) -> u16 {
    ((msr - MSR_FIRST) << 4) as u16
}

/// LMA is the processor's.
fn write_efer<V: Vendor>(owned: &mut Owned<V>, value: Efer) -> Result<(), Refused> {
    let known = Efer::SYSCALL | Efer::LONG_MODE_ENABLE | Efer::LONG_MODE_ACTIVE | Efer::NO_EXECUTE;
    if !known.contains(value) {
        return Err(Refused);
    }
    let active = owned.control.efer() & Efer::LONG_MODE_ACTIVE;
    owned.control.set_efer((value - Efer::LONG_MODE_ACTIVE) | active);
    Ok(())
}

/// The page stays where it is; the mode may change as the manual's diagram says.
fn write_apic_base<V: Vendor>(
    machine: &Machine<V>,
    vcpu: &Vcpu<V>,
    owned: &mut Owned<V>,
    value: ApicBase,
) -> Result<(), Refused> {
    let is_allowed = machine.has_x2apic() || !value.is_x2apic();
    if !owned.apic_base.mode().may_become(value.mode())
        || !is_allowed
        || value.address() != ApicBase::RESET_ADDRESS
    {
        return Err(Refused);
    }
    let base = value.with_is_bootstrap(owned.apic_base.is_bootstrap());
    vcpu.set_apic_base(&machine.vendor, owned, base);
    Ok(())
}
