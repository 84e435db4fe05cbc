//! The guest's local APIC: its page, which AVIC reads and writes too, and what software does where
//! there is no AVIC or AVIC leaves something to software.
//! [APM2 "Advanced Programmable Interrupt Controller"] [APM2 "vAPIC Backing Page"]

pub mod command;
pub mod page;
pub mod timer;

use crate::svm::avic;
use crate::vcpu::{Owned, Vcpu};
use arch::apic::{Icr, LocalVector, Mode, Register, X2Ldr};
use page::ApicPage;

const READ_ONLY: [Register; 5] = [
    Register::Id,
    Register::Version,
    Register::ArbitrationPriority,
    Register::ProcessorPriority,
    Register::CurrentCount,
];

/// What software reads at `offset`.
pub fn read(vcpu: &Vcpu, owned: &mut Owned, offset: u16) -> u32 {
    match Register::at(offset) {
        Some(Register::CurrentCount) => timer::current_count(vcpu, owned),
        Some(Register::ProcessorPriority) => u32::from(vcpu.page.processor_priority()),
        _ => vcpu.page.get(offset),
    }
}

/// A write that no processor has carried out: stores and acts.
pub fn write(vcpu: &Vcpu, owned: &mut Owned, offset: u16, value: u32) {
    let Some(register) = Register::at(offset) else { return };
    let is_status = matches!(
        register,
        Register::InService(_) | Register::TriggerMode(_) | Register::Request(_)
    );
    if is_status || READ_ONLY.contains(&register) {
        return;
    }
    vcpu.page.set(offset, value);
    act(vcpu, owned, register);
}

/// A write that is already in the page: acts.
pub fn written(vcpu: &Vcpu, owned: &mut Owned, offset: u16) {
    if let Some(register) = Register::at(offset) {
        act(vcpu, owned, register);
    }
}

fn act(vcpu: &Vcpu, owned: &mut Owned, register: Register) {
    match register {
        Register::EndOfInterrupt => vcpu.page.end_interrupt(),
        // There are no errors to show.
        Register::ErrorStatus => vcpu.page.set(register.offset(), 0),
        Register::LogicalDestination | Register::DestinationFormat
            if owned.apic_base.mode() == Mode::XApic =>
        {
            avic::update_logical(vcpu);
        }
        Register::Command => {
            let high = vcpu.page.get(Register::CommandHigh.offset());
            let icr = Icr::from_dwords(vcpu.page.get(register.offset()), high);
            command::send(vcpu, icr, owned.apic_base.mode() == Mode::X2Apic);
        }
        Register::SelfIpi => {
            let vector = vcpu.page.get(register.offset()) as u8;
            command::deliver(vcpu, vector);
        }
        Register::InitialCount => timer::start(vcpu, owned),
        // Masking, or another mode, ends a count that was to interrupt.
        Register::LocalVector(LocalVector::Timer) => timer::change(vcpu, owned),
        _ => {}
    }
}

/// A register by its MSR; the ICR is one of 64 bits there, and two dwords in the page.
pub fn read_msr(vcpu: &Vcpu, owned: &mut Owned, offset: u16) -> u64 {
    let low = u64::from(read(vcpu, owned, offset));
    match Register::at(offset) {
        Some(Register::Command) => {
            u64::from(vcpu.page.get(Register::CommandHigh.offset())) << 32 | low
        }
        _ => low,
    }
}

pub fn write_msr(vcpu: &Vcpu, owned: &mut Owned, offset: u16, value: u64) {
    if Register::at(offset) == Some(Register::Command) {
        vcpu.page.set(Register::CommandHigh.offset(), (value >> 32) as u32);
    }
    write(vcpu, owned, offset, value as u32);
}

/// What the page shows in another mode. [APM2 "x2APIC_ID"] [APM2 "Logical Destination Register"]
pub fn change_mode(vcpu: &Vcpu, owned: &mut Owned, mode: Mode) {
    let page: &ApicPage = &vcpu.page;
    match mode {
        Mode::X2Apic => {
            page.set(Register::Id.offset(), vcpu.id());
            page.set(Register::LogicalDestination.offset(), X2Ldr::of(vcpu.id()).into_bits());
        }
        Mode::Disabled => {
            page.reset(vcpu.id());
            owned.timer.stop();
        }
        _ => page.set(Register::Id.offset(), vcpu.id() << 24),
    }
}
