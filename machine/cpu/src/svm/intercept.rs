//! What the running guest's VMCB makes of each instruction and exception that can be intercepted.
//! [APM2 "Instruction Intercepts"] [APM2 "Exception Intercepts"]
//!
//! The instruction has checked its privilege; outside a guest none of this runs.

use super::permission::{intercepts_msr, intercepts_port};
use super::state::Exit;
use crate::guest::{Arrival, Form, Io, Sensitive, Table, Written};
use crate::operation::Op;
use crate::svm::boundary;
use crate::{Attention, Bus, Cpu, Stop};
use arch::control::Cr0;
use arch::cpuid::Feature;
use arch::exception;
use arch::segment::SegmentRegister;
use arch::svm::ExitCode;
use arch::svm::exit::{IoPortInfo, MSR_READ, MSR_WRITE, MoveControlInfo, TaskSwitchInfo};
use arch::svm::intercept::{Vector3, Vector4};

/// Leaves the guest at the present instruction without a next rIP.
pub(super) fn exit_fault(cpu: &mut Cpu, code: ExitCode, info: [u64; 2]) -> Stop {
    exit_with(cpu, code, info, 0)
}

/// Leaves the guest at `op`, an instruction that is intercepted.
fn exit_instruction(cpu: &mut Cpu, op: &Op, code: ExitCode, info: [u64; 2]) -> Stop {
    let next = cpu.registers.next_ip(op);
    exit_with(cpu, code, info, next)
}

fn exit_with(cpu: &mut Cpu, code: ExitCode, info: [u64; 2], next_rip: u64) -> Stop {
    let next_rip = if cpu.model.has(Feature::NripSave) { next_rip } else { 0 };
    if let Some(guest) = cpu.guest.running.svm_mut() {
        guest.exit = Some(Exit { code, info, next_rip });
    }
    Stop::VM_EXIT
}

/// What the VMCB makes of an instruction about to do its work: a row each.
pub(crate) fn before(
    cpu: &mut Cpu,
    bus: &mut Bus<'_>,
    op: &Op,
    what: Sensitive,
) -> Result<(), Stop> {
    match what {
        Sensitive::Cpuid => intercept(cpu, op, ExitCode::Cpuid),
        Sensitive::Hlt => {
            intercept(cpu, op, ExitCode::Hlt)?;
            intercept_idle_hlt(cpu, bus, op)
        }
        Sensitive::Icebp => intercept(cpu, op, ExitCode::Icebp),
        Sensitive::IntN => intercept_int_n(cpu, op),
        Sensitive::Invd => intercept(cpu, op, ExitCode::Invd),
        Sensitive::Invlpg { linear } => intercept_invlpg(cpu, op, linear),
        Sensitive::Invpcid => intercept(cpu, op, ExitCode::Invpcid),
        Sensitive::Iret => intercept(cpu, op, ExitCode::Iret),
        Sensitive::LoadMachineStatus => loads_machine_status(cpu, op),
        Sensitive::Monitor => intercept(cpu, op, ExitCode::Monitor),
        Sensitive::Mwait => intercept_mwait(cpu, bus, op),
        Sensitive::Pause => intercept_pause(cpu, op),
        Sensitive::Popf => intercept(cpu, op, ExitCode::Popf),
        Sensitive::Port { port, size, io } => intercept_io(cpu, bus, op, port, size, io),
        Sensitive::Pushf => intercept(cpu, op, ExitCode::Pushf),
        // They have no intercept.
        Sensitive::Rdpid
        | Sensitive::Rdrand { .. }
        | Sensitive::Rdseed { .. }
        | Sensitive::SupervisorState { .. } => Ok(()),
        Sensitive::Rdpmc => intercept(cpu, op, ExitCode::Rdpmc),
        Sensitive::Rdtsc => intercept(cpu, op, ExitCode::Rdtsc),
        Sensitive::Rdtscp => intercept(cpu, op, ExitCode::Rdtscp),
        Sensitive::ReadControl { number, form } => reads_control(cpu, op, number, form),
        Sensitive::ReadDebug { number } => intercept_dr(cpu, op, number, false),
        Sensitive::ReadMsr { number } => intercept_msr(cpu, bus, op, number, false),
        Sensitive::ReadTable(table) => intercept(cpu, op, table_exit(table, false)),
        Sensitive::Rsm => intercept(cpu, op, ExitCode::Rsm),
        Sensitive::Wbinvd => intercept(cpu, op, ExitCode::Wbinvd),
        Sensitive::WriteControl { number, value, form } => {
            writes_control(cpu, op, number, value, form)
        }
        Sensitive::WriteDebug { number } => intercept_dr(cpu, op, number, true),
        Sensitive::WriteMsr { number } => intercept_msr(cpu, bus, op, number, true),
        Sensitive::WriteTable(table) => intercept(cpu, op, table_exit(table, true)),
        Sensitive::Xsetbv => intercept(cpu, op, ExitCode::Xsetbv),
    }
}

/// An instruction with an intercept of its own, whose exit tells nothing but its code.
pub(super) fn intercept(cpu: &mut Cpu, op: &Op, code: ExitCode) -> Result<(), Stop> {
    intercept_with(cpu, op, code, 0)
}

/// An instruction with an intercept of its own, and EXITINFO1.
pub(super) fn intercept_with(
    cpu: &mut Cpu,
    op: &Op,
    code: ExitCode,
    info: u64,
) -> Result<(), Stop> {
    match cpu.guest.running.svm() {
        Some(guest) if guest.intercepts.of(code) => Err(exit_instruction(cpu, op, code, [info, 0])),
        _ => Ok(()),
    }
}

/// HLT of a guest that has nothing to wake up for. [APM2 "Idle HLT Intercept"]
fn intercept_idle_hlt(cpu: &mut Cpu, bus: &mut Bus<'_>, op: &Op) -> Result<(), Stop> {
    if !cpu.model.has(Feature::IdleHlt) || boundary::has_pending_virtual_event(cpu, bus) {
        return Ok(());
    }
    intercept(cpu, op, ExitCode::IdleHlt)
}

fn table_exit(table: Table, is_write: bool) -> ExitCode {
    match (table, is_write) {
        (Table::Idtr, false) => ExitCode::IdtrRead,
        (Table::Gdtr, false) => ExitCode::GdtrRead,
        (Table::Ldtr, false) => ExitCode::LdtrRead,
        (Table::Tr, false) => ExitCode::TrRead,
        (Table::Idtr, true) => ExitCode::IdtrWrite,
        (Table::Gdtr, true) => ExitCode::GdtrWrite,
        (Table::Ldtr, true) => ExitCode::LdtrWrite,
        (Table::Tr, true) => ExitCode::TrWrite,
    }
}

/// [APM2 "IOIO Intercepts"]
fn intercept_io(
    cpu: &mut Cpu,
    bus: &mut Bus<'_>,
    op: &Op,
    port: u16,
    size: u8,
    io: Io,
) -> Result<(), Stop> {
    let Some(guest) = cpu.guest.running.svm() else { return Ok(()) };
    let consults = guest.intercepts.vector3.contains(Vector3::IOIO);
    if !consults || !intercepts_port(bus.memory, guest.io_map, port, size) {
        return Ok(());
    }
    let is_string = matches!(io, Io::InString | Io::OutString);
    let address_bits = match op {
        _ if is_string => 64 - op.address_shift,
        _ if op.has(Op::LONG) => 64,
        _ if cpu.registers.segment(SegmentRegister::Cs).attributes.is_big() => 32,
        _ => 16,
    };
    let info = IoPortInfo::new()
        .with_is_input(matches!(io, Io::In | Io::InString))
        .with_is_string(is_string)
        .with_is_repeated(is_string && (op.has(Op::REP) || op.has(Op::REPNE)))
        .with_is_8_bit(size == 1)
        .with_is_16_bit(size == 2)
        .with_is_32_bit(size == 4)
        .with_is_16_bit_address(address_bits == 16)
        .with_is_32_bit_address(address_bits == 32)
        .with_is_64_bit_address(address_bits == 64)
        .with_segment(string_segment(cpu, op, io))
        .with_port(port);
    let next = cpu.registers.next_ip(op);
    Err(exit_instruction(cpu, op, ExitCode::IoPort, [info.into_bits(), next]))
}

/// The effective segment of a string instruction, with decode assists: INS stores to ES.
fn string_segment(cpu: &Cpu, op: &Op, io: Io) -> u8 {
    match io {
        Io::OutString if cpu.model.has(Feature::DecodeAssists) => match op.segment {
            register @ 0..6 => register,
            _ => arch::segment::SegmentRegister::Ds as u8,
        },
        _ => 0,
    }
}

/// MOV from control registers, and SMSW. [APM2 "MOV CRx/DRx Intercepts"]
fn reads_control(cpu: &mut Cpu, op: &Op, number: u8, form: Form) -> Result<(), Stop> {
    match cpu.guest.running.svm() {
        Some(guest) if guest.intercepts.reads_control(number) => {
            let info = move_info(cpu, op, false, form == Form::Move);
            Err(exit_instruction(cpu, op, ExitCode::ControlRead(number), [info, 0]))
        }
        _ => Ok(()),
    }
}

/// LMSW, which is intercepted whatever it would write, so before it reads memory. [APM2
/// "Instruction Intercepts", table of priorities; "MOV CRx/DRx Intercepts"]
fn loads_machine_status(cpu: &mut Cpu, op: &Op) -> Result<(), Stop> {
    match cpu.guest.running.svm() {
        Some(guest) if guest.intercepts.writes_control(0) => {
            Err(exit_instruction(cpu, op, ExitCode::ControlWrite(0), [0, 0]))
        }
        _ => intercept(cpu, op, ExitCode::Cr0SelectiveWrite),
    }
}

/// MOV to control registers, and CLTS. [APM2 "MOV CRx/DRx Intercepts"]
fn writes_control(cpu: &mut Cpu, op: &Op, number: u8, value: u64, form: Form) -> Result<(), Stop> {
    let Some(guest) = cpu.guest.running.svm() else { return Ok(()) };
    if form == Form::MachineStatus {
        return Ok(());
    }
    if guest.intercepts.writes_control(number) {
        let info = move_info(cpu, op, true, form == Form::Move);
        return Err(exit_instruction(cpu, op, ExitCode::ControlWrite(number), [info, 0]));
    }
    if number == 0 && form == Form::Move {
        intercept_cr0_selective(cpu, op, value)?;
    }
    Ok(())
}

fn move_info(cpu: &Cpu, op: &Op, is_write: bool, is_move: bool) -> u64 {
    if !is_move || !cpu.model.has(Feature::DecodeAssists) {
        return 0;
    }
    let register = if is_write { op.b } else { op.a };
    MoveControlInfo::new().with_is_move(true).with_general_register(register & 15).into_bits()
}

/// Leaves the guest after the instruction that has written `value`.
fn trap_after_write(cpu: &mut Cpu, code: ExitCode, value: u64) {
    if let Some(guest) = cpu.guest.running.svm_mut() {
        guest.exit = Some(Exit { code, info: [value, 0], next_rip: 0 });
        cpu.pending.raise(Attention::GUEST_BOUNDARY);
    }
}

/// The exit that follows an instruction that has written a register, if asked for.
pub(crate) fn after_write(cpu: &mut Cpu, what: Written) {
    let Some(guest) = cpu.guest.running.svm() else { return };
    let traps_efer = guest.intercepts.vector4.contains(Vector4::EFER_WRITE_TRAP);
    match what {
        Written::Control { number, value } if guest.intercepts.traps_control(number) => {
            trap_after_write(cpu, ExitCode::ControlWriteTrap(number), value);
        }
        Written::Efer if traps_efer => {
            trap_after_write(cpu, ExitCode::EferWriteTrap, cpu.control.efer().bits());
        }
        Written::Control { .. } | Written::Efer => {}
    }
}

/// A MOV to CR0 that changes more than TS and MP.
fn intercept_cr0_selective(cpu: &mut Cpu, op: &Op, value: u64) -> Result<(), Stop> {
    let Some(guest) = cpu.guest.running.svm() else { return Ok(()) };
    let quiet = Cr0::TASK_SWITCHED | Cr0::MONITOR_COPROCESSOR;
    let changed = (cpu.control.cr0().bits() ^ value) & !quiet.bits();
    let bit = Vector3::CR0_SELECTIVE_WRITE;
    if changed == 0 || !guest.intercepts.vector3.contains(bit) {
        return Ok(());
    }
    let info = move_info(cpu, op, true, true);
    Err(exit_instruction(cpu, op, ExitCode::Cr0SelectiveWrite, [info, 0]))
}

fn intercept_dr(cpu: &mut Cpu, op: &Op, number: u8, is_write: bool) -> Result<(), Stop> {
    let Some(guest) = cpu.guest.running.svm() else { return Ok(()) };
    let (is_intercepted, code, register) = if is_write {
        (guest.intercepts.writes_debug(number), ExitCode::DebugWrite(number), op.b)
    } else {
        (guest.intercepts.reads_debug(number), ExitCode::DebugRead(number), op.a)
    };
    if !is_intercepted {
        return Ok(());
    }
    let assists = cpu.model.has(Feature::DecodeAssists);
    let info = if assists { u64::from(register & 15) } else { 0 };
    Err(exit_instruction(cpu, op, code, [info, 0]))
}

/// [APM2 "MSR Intercepts"]
fn intercept_msr(
    cpu: &mut Cpu,
    bus: &mut Bus<'_>,
    op: &Op,
    number: u32,
    is_write: bool,
) -> Result<(), Stop> {
    let Some(guest) = cpu.guest.running.svm() else { return Ok(()) };
    let consults = guest.intercepts.vector3.contains(Vector3::MSR);
    if !consults || !intercepts_msr(bus.memory, guest.msr_map, number, is_write) {
        return Ok(());
    }
    let info = if is_write { MSR_WRITE } else { MSR_READ };
    Err(exit_instruction(cpu, op, ExitCode::Msr, [info, 0]))
}

fn intercept_mwait(cpu: &mut Cpu, bus: &mut Bus<'_>, op: &Op) -> Result<(), Stop> {
    // The one for an armed monitor comes first.
    if cpu.pending.monitor_is_armed(bus.memory) {
        intercept(cpu, op, ExitCode::MwaitArmed)?;
    }
    intercept(cpu, op, ExitCode::Mwait)
}

fn intercept_invlpg(cpu: &mut Cpu, op: &Op, linear: u64) -> Result<(), Stop> {
    let info = if cpu.model.has(Feature::DecodeAssists) { linear } else { 0 };
    intercept_with(cpu, op, ExitCode::Invlpg, info)
}

fn intercept_int_n(cpu: &mut Cpu, op: &Op) -> Result<(), Stop> {
    let assists = cpu.model.has(Feature::DecodeAssists);
    let info = if assists { op.immediate & 0xFF } else { 0 };
    intercept_with(cpu, op, ExitCode::SoftwareInterrupt, info)
}

/// The filter lets PAUSEs pass until too many follow each other closely.
/// [APM2 "Pause Intercept Filtering"]
fn intercept_pause(cpu: &mut Cpu, op: &Op) -> Result<(), Stop> {
    if super::pause::passes(cpu) {
        return Ok(());
    }
    intercept(cpu, op, ExitCode::Pause)
}

/// An exception about to be delivered. A page fault has not reached CR2 yet, and will not.
pub(super) fn intercept_exception(
    cpu: &mut Cpu,
    vector: u8,
    error: Option<u32>,
    next_rip: u64,
) -> Result<(), Stop> {
    let Some(guest) = cpu.guest.running.svm() else { return Ok(()) };
    if !guest.intercepts.exception(vector) {
        return Ok(());
    }
    let address = if vector == exception::PAGE_FAULT { cpu.pending.fault_address() } else { 0 };
    let info = [u64::from(error.unwrap_or(0)), address];
    Err(exit_with(cpu, ExitCode::Exception(vector), info, next_rip))
}

/// [APM2 "Task Switch Intercept"]
fn intercept_task_switch(
    cpu: &mut Cpu,
    selector: u16,
    is_iret: bool,
    is_far_jump: bool,
    error: Option<u32>,
) -> Result<(), Stop> {
    let Some(guest) = cpu.guest.running.svm() else { return Ok(()) };
    if !guest.intercepts.vector3.contains(Vector3::TASK_SWITCH) {
        return Ok(());
    }
    let info = TaskSwitchInfo::new()
        .with_error_code(error.unwrap_or(0))
        .with_has_error_code(error.is_some())
        .with_is_iret(is_iret)
        .with_is_far_jump(is_far_jump)
        .with_resume_flag(cpu.registers.flags.has(arch::control::rflags::RF));
    Err(exit_fault(cpu, ExitCode::TaskSwitch, [selector.into(), info.into_bits()]))
}

/// What the VMCB makes of an event about to be taken.
pub(crate) fn arrives(cpu: &mut Cpu, event: Arrival) -> Result<(), Stop> {
    match event {
        Arrival::Interrupt => boundary::intercept_physical(cpu, ExitCode::Intr),
        Arrival::Nmi => boundary::intercept_physical(cpu, ExitCode::Nmi),
        Arrival::Smi => boundary::intercept_physical(cpu, ExitCode::Smi),
        Arrival::Init => boundary::intercept_physical(cpu, ExitCode::Init),
        Arrival::TripleFault => boundary::intercept_physical(cpu, ExitCode::Shutdown),
        Arrival::Exception { vector, error, next_ip } => {
            intercept_exception(cpu, vector, error, next_ip)
        }
        Arrival::TaskSwitch { selector, is_iret, is_far_jump, error } => {
            intercept_task_switch(cpu, selector, is_iret, is_far_jump, error)
        }
    }
}
