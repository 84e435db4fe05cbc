//! Answers #VMEXIT. [APM2 "#VMEXIT"] [APM2 "SVM Intercept Exit Codes"]

use crate::machine;
use crate::port;
use crate::svm::instruction::{self, Operand};
use crate::svm::{avic, cpuid, inject, msr};
use crate::vapic;
use crate::vcpu::{Owned, Vcpu};
use arch::address::GuestPhysical;
use arch::svm::ExitCode;
use arch::svm::avic::{IncompleteIpi, NoAcceleration};
use arch::svm::exit::{IoPortInfo, MSR_WRITE};
use arch::svm::vmcb::{control, save};
use runtime::{apic, print};

/// What becomes of the virtual processor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    Run,
    Halt,
}

/// Lengths of intercepted instructions, where the processor does not save the next one's address.
const CPUID_LENGTH: u64 = 2;
const MSR_LENGTH: u64 = 2;
const HLT_LENGTH: u64 = 1;
const VMMCALL_LENGTH: u64 = 3;

pub fn code(owned: &mut Owned) -> ExitCode {
    ExitCode::from_bits(owned.vmcb().get(control::EXITCODE))
}

pub fn handle(vcpu: &Vcpu, owned: &mut Owned, code: ExitCode) -> Next {
    let vmcb = owned.vmcb();
    let information = [vmcb.get(control::EXITINFO1), vmcb.get(control::EXITINFO2)];
    match code {
        // The host has taken it when the global interrupt flag was set again.
        ExitCode::Intr | ExitCode::Nmi | ExitCode::Init => {}
        // The window is open: what is to be injected is decided before VMRUN, each time.
        ExitCode::VirtualInterrupt => {}
        ExitCode::Cpuid => answer_cpuid(vcpu, owned),
        ExitCode::Msr => answer_msr(vcpu, owned, information[0] == MSR_WRITE),
        ExitCode::IoPort => {
            answer_port(owned, IoPortInfo::from_bits(information[0]), information[1])
        }
        ExitCode::Hlt => {
            skip(owned, HLT_LENGTH);
            return Next::Halt;
        }
        ExitCode::Vmmcall => {
            owned.vmcb().set(save::RAX, u64::MAX);
            skip(owned, VMMCALL_LENGTH);
        }
        ExitCode::NestedPageFault => access_device(vcpu, owned, GuestPhysical(information[1])),
        ExitCode::AvicIncompleteIpi => {
            avic::incomplete_ipi(vcpu, owned, IncompleteIpi::from_exit_info(information));
        }
        ExitCode::AvicNoAcceleration => {
            avic::no_acceleration(vcpu, owned, NoAcceleration::from_exit_info(information));
        }
        _ => fail(vcpu, owned, "an exit that nothing can be done about"),
    }
    Next::Run
}

/// Moves RIP past the intercepted instruction, and its interrupt shadow away.
fn skip(owned: &mut Owned, length: u64) {
    let mut vmcb = owned.vmcb();
    let next = match machine::features().next_rip {
        true => vmcb.get(control::N_RIP),
        false => vmcb.get(save::RIP) + length,
    };
    vmcb.set(save::RIP, next);
    let state = vmcb.get(control::INTERRUPT_STATE).with_interrupt_shadow(false);
    vmcb.set(control::INTERRUPT_STATE, state);
}

/// Moves RIP to where an emulated instruction ends.
pub fn skip_to(owned: &mut Owned, rip: u64) {
    let mut vmcb = owned.vmcb();
    vmcb.set(save::RIP, rip);
    let state = vmcb.get(control::INTERRUPT_STATE).with_interrupt_shadow(false);
    vmcb.set(control::INTERRUPT_STATE, state);
}

fn answer_cpuid(vcpu: &Vcpu, owned: &mut Owned) {
    let (leaf, subleaf) = (owned.vmcb().get(save::RAX) as u32, owned.registers.general[1] as u32);
    let result = cpuid::answer(vcpu, leaf, subleaf);
    owned.vmcb().set(save::RAX, u64::from(result.eax));
    owned.registers.general[1] = u64::from(result.ecx);
    owned.registers.general[2] = u64::from(result.edx);
    owned.registers.general[3] = u64::from(result.ebx);
    skip(owned, CPUID_LENGTH);
}

fn answer_msr(vcpu: &Vcpu, owned: &mut Owned, is_write: bool) {
    let number = owned.registers.general[1] as u32;
    let result = if is_write {
        let low = owned.vmcb().get(save::RAX) as u32;
        let value = owned.registers.general[2] << 32 | u64::from(low);
        msr::write(vcpu, owned, number, value)
    } else {
        msr::read(vcpu, owned, number).map(|value| {
            owned.vmcb().set(save::RAX, value & 0xFFFF_FFFF);
            owned.registers.general[2] = value >> 32;
        })
    };
    match result {
        Ok(()) => skip(owned, MSR_LENGTH),
        Err(msr::Refused) => {
            inject::raise(owned, arch::exception::GENERAL_PROTECTION, Some(0));
        }
    }
}

fn answer_port(owned: &mut Owned, access: IoPortInfo, next: u64) {
    let mut vmcb = owned.vmcb();
    let rax = vmcb.get(save::RAX);
    let mask = match (access.is_8_bit(), access.is_16_bit()) {
        (true, _) => 0xFF,
        (_, true) => 0xFFFF,
        _ => 0xFFFF_FFFF,
    };
    if access.is_input() {
        let value = u64::from(port::read(access.port())) & mask;
        // A 32-bit result clears the upper half, smaller ones leave what is above.
        let kept = if mask == 0xFFFF_FFFF { 0 } else { rax & !mask };
        vmcb.set(save::RAX, kept | value);
    } else {
        port::write(access.port(), (rax & mask) as u32);
    }
    skip_to(owned, next);
}

/// A register of the APIC without AVIC, or of a device that is not there.
fn access_device(vcpu: &Vcpu, owned: &mut Owned, address: GuestPhysical) {
    let is_apic = address.page().0 == apic::PAGE;
    let offset = is_apic.then_some(address.page_offset() as u16 & 0xFF0);
    emulate_move(vcpu, owned, offset);
}

/// Emulates the MOV at RIP on the register at `offset` of the APIC page, or on nothing.
pub fn emulate_move(vcpu: &Vcpu, owned: &mut Owned, offset: Option<u16>) {
    let Some(instruction) = instruction::decode(owned) else {
        return fail(vcpu, owned, "an access to a device by other than a 32-bit move");
    };
    match (instruction.operand, offset) {
        (Operand::Load(register), Some(offset)) => {
            let value = vapic::read(vcpu, owned, offset);
            owned.set_general(register, u64::from(value));
        }
        (Operand::Load(register), None) => owned.set_general(register, 0),
        (Operand::Store(value), Some(offset)) => vapic::write(vcpu, owned, offset, value),
        (Operand::Store(_), None) => {}
    }
    let rip = owned.vmcb().get(save::RIP);
    skip_to(owned, rip + u64::from(instruction.length));
}

/// Ends the run: the guest did what this hypervisor does not know.
pub fn fail(vcpu: &Vcpu, owned: &mut Owned, reason: &str) {
    let vmcb = owned.vmcb();
    print!(
        "{{\"record\":\"failure\",\"reason\":\"{reason}\",\"vcpu\":{},\"exit_code\":\"{:#x}\",\
         \"info_1\":\"{:#x}\",\"info_2\":\"{:#x}\",\"rip\":\"{:#x}\",\"cr0\":\"{:#x}\",\
         \"efer\":\"{:#x}\"}}",
        vcpu.id(),
        vmcb.get(control::EXITCODE),
        vmcb.get(control::EXITINFO1),
        vmcb.get(control::EXITINFO2),
        vmcb.get(save::RIP),
        vmcb.get(save::CR0),
        vmcb.get(save::EFER),
    );
    machine::end(machine::FAILED);
}
