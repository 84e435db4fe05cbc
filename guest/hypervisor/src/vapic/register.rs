//! The registers by software: for accesses that no processor carries out, and for what writing one
//! has to cause besides. [APM2 "APIC Registers"]

use crate::machine::Machine;
use crate::vapic::command;
use crate::vcpu::{Owned, Vcpu};
use crate::vendor::Vendor;
use arch::apic::{Icr, LocalVector, Mode, Register};

const READ_ONLY: [Register; 5] = [
    Register::Id,
    Register::Version,
    Register::ArbitrationPriority,
    Register::ProcessorPriority,
    Register::CurrentCount,
];

/// What software reads at `offset`.
pub fn read<V: Vendor>(vcpu: &Vcpu<V>, owned: &Owned<V>, offset: u16) -> u32 {
    let page = &vcpu.target.page;
    match Register::at(offset) {
        Some(Register::CurrentCount) => owned.timer.current_count(page),
        Some(Register::ProcessorPriority) => u32::from(page.processor_priority()),
        _ => page.get(offset),
    }
}

/// A write that no processor has carried out: stores and acts.
pub fn write<V: Vendor>(
    machine: &Machine<V>,
    vcpu: &Vcpu<V>,
    owned: &mut Owned<V>,
    offset: u16,
    value: u32,
) {
    let Some(register) = Register::at(offset) else { return };
    let is_status = matches!(
        register,
        Register::InService(_) | Register::TriggerMode(_) | Register::Request(_)
    );
    if is_status || READ_ONLY.contains(&register) {
        return;
    }
    vcpu.target.page.set(offset, value);
    act(machine, vcpu, owned, register);
}

/// A write that is already in the page: acts.
pub fn written<V: Vendor>(machine: &Machine<V>, vcpu: &Vcpu<V>, owned: &mut Owned<V>, offset: u16) {
    if let Some(register) = Register::at(offset) {
        act(machine, vcpu, owned, register);
    }
}

fn act<V: Vendor>(machine: &Machine<V>, vcpu: &Vcpu<V>, owned: &mut Owned<V>, register: Register) {
    let page = &vcpu.target.page;
    match register {
        Register::EndOfInterrupt => page.end_interrupt(),
        // There are no errors to show.
        Register::ErrorStatus => page.set(register.offset(), 0),
        Register::LogicalDestination | Register::DestinationFormat
            if owned.apic_base.mode() == Mode::XApic =>
        {
            machine.vendor.update_logical(&vcpu.target);
        }
        Register::Command => {
            let high = page.get(Register::CommandHigh.offset());
            let icr = Icr::from_dwords(page.get(register.offset()), high);
            command::send(machine, vcpu, icr, owned.apic_base.is_x2apic());
        }
        Register::SelfIpi => {
            let vector = page.get(register.offset()) as u8;
            command::deliver(machine, vcpu, vector);
        }
        Register::InitialCount => owned.timer.start(page),
        // Masking, or another mode, ends a count that was to interrupt.
        Register::LocalVector(LocalVector::Timer) => owned.timer.change(page),
        _ => {}
    }
}

/// A register by its MSR; the ICR is one of 64 bits there, and two dwords in the page.
pub fn read_msr<V: Vendor>(vcpu: &Vcpu<V>, owned: &Owned<V>, offset: u16) -> u64 {
    let low = u64::from(read(vcpu, owned, offset));
    match Register::at(offset) {
        Some(Register::Command) => {
            u64::from(vcpu.target.page.get(Register::CommandHigh.offset())) << 32 | low
        }
        _ => low,
    }
}

pub fn write_msr<V: Vendor>(
    machine: &Machine<V>,
    vcpu: &Vcpu<V>,
    owned: &mut Owned<V>,
    offset: u16,
    value: u64,
) {
    if Register::at(offset) == Some(Register::Command) {
        vcpu.target.page.set(Register::CommandHigh.offset(), (value >> 32) as u32);
    }
    write(machine, vcpu, owned, offset, value as u32);
}
