//! SENDUIPI, UIRET, CLUI, STUI, TESTUI. [SDM3 "User-Interrupt Instructions"]

use crate::costs::Step;
use crate::execute::binding::{Binding, Boundary};
use crate::execute::stack;
use crate::memory::Access;
use crate::operation::Op;
use crate::operation::decode::CodeSize;
use crate::system::uintr;
use crate::width::RSP;
use crate::{Bus, Cpu, Stop};
use arch::address::Linear;
use arch::control::{Cr4, rflags};
use arch::cpuid::Feature;
use arch::uintr::{NotificationControl, UITTE_SIZE, UPID_REQUESTS_OFFSET, Uitte};
use bus::Happening;
use iced_x86::{Instruction, Mnemonic};

/// What UIRET takes of the flags. [SDM2 "UIRET"]
const RETURNED_FLAGS: u64 =
    rflags::STATUS | rflags::TF | rflags::DF | rflags::NT | rflags::RF | rflags::AC | rflags::ID;

fn check(cpu: &Cpu) -> Result<(), Stop> {
    cpu.model.check_feature(Feature::Uintr)?;
    let is_known = cpu.control.cr4().contains(Cr4::UINTR) && cpu.is_64_bit();
    if is_known { Ok(()) } else { Err(Stop::INVALID_OPCODE) }
}

fn clui(cpu: &mut Cpu, _: &mut Bus<'_>, _: &Op) -> Result<(), Stop> {
    check(cpu)?;
    cpu.control.uintr.flag = false;
    Ok(())
}

/// Without a shadow: a user interrupt may come before the next instruction.
fn stui(cpu: &mut Cpu, _: &mut Bus<'_>, _: &Op) -> Result<(), Stop> {
    check(cpu)?;
    cpu.control.uintr.flag = true;
    cpu.look_for_user_interrupt();
    Err(Stop::END_BLOCK)
}

fn testui(cpu: &mut Cpu, _: &mut Bus<'_>, _: &Op) -> Result<(), Stop> {
    check(cpu)?;
    cpu.registers.flags.set_status(if cpu.control.uintr.flag { rflags::CF } else { 0 });
    Ok(())
}

/// The handler has taken the vector off the stack.
fn uiret(cpu: &mut Cpu, bus: &mut Bus<'_>, _: &Op) -> Result<(), Stop> {
    check(cpu)?;
    let at = cpu.registers.gpr[RSP];
    let mut frame = [0; 3];
    for (place, value) in (0..).zip(&mut frame) {
        *value = cpu.read_stack::<u64>(bus, at.wrapping_add(8 * place))?;
    }
    let [ip, flags, sp] = frame;
    if (ip as i64) << 16 >> 16 != ip as i64 {
        return Err(Stop::GENERAL_PROTECTION);
    }
    cpu.registers.ip = ip;
    cpu.registers.gpr[RSP] = sp;
    stack::write_flags(cpu, flags, RETURNED_FLAGS);
    cpu.control.uintr.flag = true;
    cpu.look_for_user_interrupt();
    cpu.pending.disarm();
    cpu.pending.note_branch();
    cpu.clock.take(Step::UserReturn);
    Err(Stop::BRANCH)
}

/// Posts in the receiver's descriptor, and notifies unless that is under way or suppressed. All
/// accesses are the supervisor's.
fn senduipi(cpu: &mut Cpu, bus: &mut Bus<'_>, op: &Op) -> Result<(), Stop> {
    check(cpu)?;
    let (state, index) = (cpu.control.uintr, cpu.registers.gpr[op.a as usize]);
    if !state.targets().is_enabled() {
        return Err(Stop::INVALID_OPCODE);
    }
    if index > state.last_target().into() {
        return Err(Stop::GENERAL_PROTECTION);
    }
    let at = state.targets().table().offset(index * UITTE_SIZE);
    let entry = target(cpu, bus, at)?;
    let control_at = cpu.locate_system(bus, entry.descriptor(), 8, Access::Write)?;
    let requests_at = entry.descriptor_address().offset(UPID_REQUESTS_OFFSET).0;
    let requests_at = cpu.locate_system(bus, requests_at, 8, Access::Write)?;
    let receiver = NotificationControl::from_bits(cpu.read_place(bus, control_at));
    if receiver.has_reserved_bits() {
        return Err(Stop::GENERAL_PROTECTION);
    }
    let notifies = !receiver.is_outstanding() && !receiver.is_suppressed();
    let requests = cpu.read_place(bus, requests_at) | 1 << entry.vector();
    cpu.write_place(bus, requests_at, requests);
    if notifies {
        let receiver = receiver.with_is_outstanding(true).into_bits();
        cpu.write_place(bus, control_at, receiver);
    }
    cpu.clock.take(Step::UserSend);
    let (descriptor, vector) = (entry.descriptor_address(), entry.vector());
    let happening = Happening::UserPosted { descriptor, vector, notifies };
    bus.platform.record(cpu.visit(), happening);
    if notifies && !cpu.notify_virtually(bus, receiver) {
        uintr::notify(cpu, bus, receiver);
    }
    cpu.pending.forget_code_change();
    Err(Stop::END_BLOCK)
}

/// The entry of the target table, if it is legal.
fn target(cpu: &mut Cpu, bus: &mut Bus<'_>, at: Linear) -> Result<Uitte, Stop> {
    let low = cpu.read_system(bus, at.0, 8)?;
    let high = cpu.read_system(bus, at.offset(8).0, 8)?;
    let entry = Uitte::from_bits(u128::from(low) | u128::from(high) << 64);
    if entry.is_legal() { Ok(entry) } else { Err(Stop::GENERAL_PROTECTION) }
}

pub(super) fn bind(i: &Instruction, _: CodeSize) -> Option<Binding> {
    match i.mnemonic() {
        Mnemonic::Clui => Binding::within(clui),
        Mnemonic::Stui => Binding::ends(stui),
        Mnemonic::Testui => Binding::within(testui),
        Mnemonic::Uiret => Binding::branches(uiret, Boundary::Ends),
        Mnemonic::Senduipi => {
            Some(Binding { boundary: Boundary::Alone, ..Binding::within(senduipi)? })
        }
        _ => None,
    }
}
