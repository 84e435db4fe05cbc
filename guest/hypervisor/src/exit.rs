//! Answers what the guest was left for.

use crate::instruction::{self, Operand};
use crate::machine::{FAILED, Machine};
use crate::registers::{RAX, RBX, RCX, RDX};
use crate::vapic::{command, register};
use crate::vcpu::{Owned, Vcpu};
use crate::vendor::{Control, Exit, PortAccess, Vendor};
use crate::{cpuid, msr};
use arch::address::GuestPhysical;
use runtime::{apic, print};

/// What becomes of the vCPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    Run,
    Halt,
}

pub fn answer<V: Vendor>(
    machine: &Machine<V>,
    vcpu: &Vcpu<V>,
    owned: &mut Owned<V>,
    exit: Exit,
) -> Next {
    let is_x2apic = owned.apic_base.is_x2apic();
    match exit {
        Exit::Interrupted => {}
        Exit::Cpuid => answer_cpuid(machine, vcpu, owned),
        Exit::ReadMsr => answer_msr(machine, vcpu, owned, false),
        Exit::WriteMsr => answer_msr(machine, vcpu, owned, true),
        Exit::Port(access) => answer_port(machine, owned, access),
        Exit::Halt => {
            owned.control.skip(&machine.vendor);
            return Next::Halt;
        }
        Exit::Hypercall => {
            owned.registers.general[RAX] = u64::MAX;
            owned.control.skip(&machine.vendor);
        }
        Exit::Unmapped(address) => access_device(machine, vcpu, owned, address),
        Exit::ApicAccess(offset) => emulate_move(machine, vcpu, owned, Some(offset)),
        Exit::ApicWritten(offset) => register::written(machine, vcpu, owned, offset),
        Exit::CommandRefused(icr) => command::send(machine, vcpu, icr, is_x2apic),
        Exit::TargetsAsleep(icr) => command::wake_targets(machine, vcpu, icr, is_x2apic),
        Exit::Failed(reason) => fail(machine, vcpu, owned, reason),
    }
    Next::Run
}

fn answer_cpuid<V: Vendor>(machine: &Machine<V>, vcpu: &Vcpu<V>, owned: &mut Owned<V>) {
    let general = &mut owned.registers.general;
    let (leaf, subleaf) = (general[RAX] as u32, general[RCX] as u32);
    let offered = cpuid::Offered {
        x2apic: machine.has_x2apic(),
        user_interrupts: machine.vendor.has_user_interrupts(),
    };
    let result = cpuid::answer(vcpu.id(), offered, leaf, subleaf);
    general[RAX] = u64::from(result.eax);
    general[RCX] = u64::from(result.ecx);
    general[RDX] = u64::from(result.edx);
    general[RBX] = u64::from(result.ebx);
    owned.control.skip(&machine.vendor);
}

fn answer_msr<V: Vendor>(
    machine: &Machine<V>,
    vcpu: &Vcpu<V>,
    owned: &mut Owned<V>,
    is_write: bool,
) {
    let general = owned.registers.general;
    let number = general[RCX] as u32;
    let result = if is_write {
        let value = general[RDX] << 32 | general[RAX] & 0xFFFF_FFFF;
        msr::write(machine, vcpu, owned, number, value)
    } else {
        msr::read(vcpu, owned, number).map(|value| {
            owned.registers.general[RAX] = value & 0xFFFF_FFFF;
            owned.registers.general[RDX] = value >> 32;
        })
    };
    match result {
        Ok(()) => owned.control.skip(&machine.vendor),
        Err(msr::Refused) => owned.control.raise(arch::exception::GENERAL_PROTECTION, Some(0)),
    }
}

fn answer_port<V: Vendor>(machine: &Machine<V>, owned: &mut Owned<V>, access: PortAccess) {
    let rax = owned.registers.general[RAX];
    if access.is_input {
        let value = machine.ports.with(|ports| ports.read(access.port));
        // A 32-bit result clears the upper half, smaller ones leave what is above.
        let kept = if access.mask == 0xFFFF_FFFF { 0 } else { rax & !access.mask };
        owned.registers.general[RAX] = kept | u64::from(value) & access.mask;
    } else {
        let value = (rax & access.mask) as u32;
        let end = machine.ports.with(|ports| ports.write(machine.memory, access.port, value));
        if let Some(status) = end {
            machine.end(status);
        }
    }
    owned.control.skip(&machine.vendor);
}

/// A register of the APIC that is not there for the processor, or of a device that is not there.
fn access_device<V: Vendor>(
    machine: &Machine<V>,
    vcpu: &Vcpu<V>,
    owned: &mut Owned<V>,
    address: GuestPhysical,
) {
    let is_apic = address.page().0 == apic::PAGE;
    let offset = is_apic.then_some(address.page_offset() as u16 & 0xFF0);
    emulate_move(machine, vcpu, owned, offset);
}

/// Emulates the MOV at RIP on the register at `offset` of the APIC page, or on nothing.
fn emulate_move<V: Vendor>(
    machine: &Machine<V>,
    vcpu: &Vcpu<V>,
    owned: &mut Owned<V>,
    offset: Option<u16>,
) {
    let fetch = owned.control.fetch(&machine.vendor);
    let Some(instruction) = instruction::decode(&fetch, machine.memory) else {
        return fail(machine, vcpu, owned, "an access to a device by other than a 32-bit move");
    };
    match (instruction.operand, offset) {
        (Operand::Load(number), offset) => {
            let value = offset.map_or(0, |offset| register::read(vcpu, owned, offset));
            owned.registers.general[usize::from(number)] = u64::from(value);
        }
        (Operand::Store(source), Some(offset)) => {
            let value = source.value(&owned.registers);
            register::write(machine, vcpu, owned, offset, value);
        }
        (Operand::Store(_), None) => {}
    }
    owned.control.advance(instruction.length);
}

/// Ends the run: the guest did what this hypervisor does not know.
fn fail<V: Vendor>(machine: &Machine<V>, vcpu: &Vcpu<V>, owned: &Owned<V>, reason: &str) {
    let report = owned.control.report();
    print!(
        "{{\"record\":\"failure\",\"reason\":\"{reason}\",\"vcpu\":{},\"exit_code\":\"{:#x}\",\
         \"info_1\":\"{:#x}\",\"info_2\":\"{:#x}\",\"rip\":\"{:#x}\",\"cr0\":\"{:#x}\",\
         \"efer\":\"{:#x}\"}}",
        vcpu.id(),
        report.code,
        report.information[0],
        report.information[1],
        report.rip,
        report.cr0,
        report.efer,
    );
    machine.end(FAILED);
}
