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
use arch::svm::intercept::{Vector3, Vector4, Vector5};

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

/// What the VMCB makes of an instruction about to do its work.
pub(crate) fn before(
    cpu: &mut Cpu,
    bus: &mut Bus<'_>,
    op: &Op,
    what: Sensitive,
) -> Result<(), Stop> {
    match what {
        Sensitive::Hlt => {
            intercept3(cpu, op, Vector3::HLT, ExitCode::Hlt, [0, 0])?;
            intercept_idle_hlt(cpu, bus, op)
        }
        Sensitive::IntN => intercept_int_n(cpu, op),
        Sensitive::Invlpg { linear } => intercept_invlpg(cpu, op, linear),
        Sensitive::Mwait => intercept_mwait(cpu, bus, op),
        Sensitive::Pause => intercept_pause(cpu, op),
        Sensitive::Port { port, size, io } => intercept_io(cpu, bus, op, port, size, io),
        Sensitive::ReadControl { number, form } => reads_control(cpu, op, number, form),
        Sensitive::WriteControl { number, value, form } => {
            writes_control(cpu, op, number, value, form)
        }
        Sensitive::ReadDebug { number } => intercept_dr(cpu, op, number, false),
        Sensitive::WriteDebug { number } => intercept_dr(cpu, op, number, true),
        Sensitive::ReadMsr { number } => intercept_msr(cpu, bus, op, number, false),
        Sensitive::WriteMsr { number } => intercept_msr(cpu, bus, op, number, true),
        Sensitive::ReadTable(table) => intercept_table(cpu, op, table, false),
        Sensitive::WriteTable(table) => intercept_table(cpu, op, table, true),
        plain => match plain_intercept(plain) {
            Plain::Vector3(bit, code) => intercept3(cpu, op, bit, code, [0, 0]),
            Plain::Vector4(bit, code) => intercept4(cpu, op, bit, code),
            Plain::Vector5(bit, code) => intercept5(cpu, op, bit, code),
        },
    }
}

/// An instruction with a bit of its own at 00Ch.
pub(super) fn intercept3(
    cpu: &mut Cpu,
    op: &Op,
    bit: Vector3,
    code: ExitCode,
    info: [u64; 2],
) -> Result<(), Stop> {
    match cpu.guest.running.svm() {
        Some(guest) if guest.intercepts.vector3.contains(bit) => {
            Err(exit_instruction(cpu, op, code, info))
        }
        _ => Ok(()),
    }
}

/// An instruction with a bit of its own at 010h.
pub(super) fn intercept4(cpu: &mut Cpu, op: &Op, bit: Vector4, code: ExitCode) -> Result<(), Stop> {
    match cpu.guest.running.svm() {
        Some(guest) if guest.intercepts.vector4.intersects(bit) => {
            Err(exit_instruction(cpu, op, code, [0, 0]))
        }
        _ => Ok(()),
    }
}

/// An instruction with a bit of its own at 014h.
fn intercept5(cpu: &mut Cpu, op: &Op, bit: Vector5, code: ExitCode) -> Result<(), Stop> {
    match cpu.guest.running.svm() {
        Some(guest) if guest.intercepts.vector5.intersects(bit) => {
            Err(exit_instruction(cpu, op, code, [0, 0]))
        }
        _ => Ok(()),
    }
}

/// HLT of a guest that has nothing to wake up for. [APM2 "Idle HLT Intercept"]
fn intercept_idle_hlt(cpu: &mut Cpu, bus: &mut Bus<'_>, op: &Op) -> Result<(), Stop> {
    if !cpu.model.has(Feature::IdleHlt) || boundary::has_pending_virtual_event(cpu, bus) {
        return Ok(());
    }
    intercept5(cpu, op, Vector5::IDLE_HLT, ExitCode::IdleHlt)
}

fn intercept_table(cpu: &mut Cpu, op: &Op, table: Table, is_write: bool) -> Result<(), Stop> {
    let (bit, code) = match (table, is_write) {
        (Table::Idtr, false) => (Vector3::IDTR_READ, ExitCode::IdtrRead),
        (Table::Gdtr, false) => (Vector3::GDTR_READ, ExitCode::GdtrRead),
        (Table::Ldtr, false) => (Vector3::LDTR_READ, ExitCode::LdtrRead),
        (Table::Tr, false) => (Vector3::TR_READ, ExitCode::TrRead),
        (Table::Idtr, true) => (Vector3::IDTR_WRITE, ExitCode::IdtrWrite),
        (Table::Gdtr, true) => (Vector3::GDTR_WRITE, ExitCode::GdtrWrite),
        (Table::Ldtr, true) => (Vector3::LDTR_WRITE, ExitCode::LdtrWrite),
        (Table::Tr, true) => (Vector3::TR_WRITE, ExitCode::TrWrite),
    };
    intercept3(cpu, op, bit, code, [0, 0])
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
        _ if cpu.registers.segments[SegmentRegister::Cs].attributes.is_big() => 32,
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

/// MOV to control registers, LMSW and CLTS. [APM2 "MOV CRx/DRx Intercepts"]
fn writes_control(cpu: &mut Cpu, op: &Op, number: u8, value: u64, form: Form) -> Result<(), Stop> {
    let Some(guest) = cpu.guest.running.svm() else { return Ok(()) };
    let is_move = form == Form::Move;
    if guest.intercepts.writes_control(number) {
        let info = move_info(cpu, op, true, is_move);
        return Err(exit_instruction(cpu, op, ExitCode::ControlWrite(number), [info, 0]));
    }
    if number == 0 && form != Form::ClearTaskSwitched {
        intercept_cr0_selective(cpu, op, value, is_move)?;
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
        cpu.pending.attention |= Attention::GUEST_BOUNDARY;
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
            trap_after_write(cpu, ExitCode::EferWriteTrap, cpu.control.efer.bits());
        }
        Written::Control { .. } | Written::Efer => {}
    }
}

/// A MOV to CR0 that changes more than TS and MP, or any LMSW.
fn intercept_cr0_selective(cpu: &mut Cpu, op: &Op, value: u64, is_move: bool) -> Result<(), Stop> {
    let Some(guest) = cpu.guest.running.svm() else { return Ok(()) };
    let quiet = Cr0::TASK_SWITCHED | Cr0::MONITOR_COPROCESSOR;
    let changed = (cpu.control.cr0.bits() ^ value) & !quiet.bits();
    let bit = Vector3::CR0_SELECTIVE_WRITE;
    let is_quiet = is_move && changed == 0;
    if is_quiet || !guest.intercepts.vector3.contains(bit) {
        return Ok(());
    }
    let info = move_info(cpu, op, true, is_move);
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
    intercept4(cpu, op, Vector4::MWAIT, ExitCode::Mwait)?;
    if cpu.pending.monitor_is_armed(bus.memory) {
        intercept4(cpu, op, Vector4::MWAIT_ARMED, ExitCode::MwaitArmed)?;
    }
    Ok(())
}

fn intercept_invlpg(cpu: &mut Cpu, op: &Op, linear: u64) -> Result<(), Stop> {
    let info = if cpu.model.has(Feature::DecodeAssists) { linear } else { 0 };
    intercept3(cpu, op, Vector3::INVLPG, ExitCode::Invlpg, [info, 0])
}

fn intercept_int_n(cpu: &mut Cpu, op: &Op) -> Result<(), Stop> {
    let assists = cpu.model.has(Feature::DecodeAssists);
    let info = if assists { op.immediate & 0xFF } else { 0 };
    intercept3(cpu, op, Vector3::INT_N, ExitCode::SoftwareInterrupt, [info, 0])
}

/// The filter lets PAUSEs pass until too many follow each other closely.
/// [APM2 "Pause Intercept Filtering"]
fn intercept_pause(cpu: &mut Cpu, op: &Op) -> Result<(), Stop> {
    if super::pause::passes(cpu) {
        return Ok(());
    }
    intercept3(cpu, op, Vector3::PAUSE, ExitCode::Pause, [0, 0])
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
    let address = if vector == exception::PAGE_FAULT { cpu.pending.fault_address } else { 0 };
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
        Arrival::Interrupt => boundary::intercept_physical(cpu, Vector3::INTR, ExitCode::Intr),
        Arrival::Nmi => boundary::intercept_physical(cpu, Vector3::NMI, ExitCode::Nmi),
        Arrival::Smi => boundary::intercept_physical(cpu, Vector3::SMI, ExitCode::Smi),
        Arrival::Init => boundary::intercept_physical(cpu, Vector3::INIT, ExitCode::Init),
        Arrival::TripleFault => {
            boundary::intercept_physical(cpu, Vector3::SHUTDOWN, ExitCode::Shutdown)
        }
        Arrival::Exception { vector, error, next_ip } => {
            intercept_exception(cpu, vector, error, next_ip)
        }
        Arrival::TaskSwitch { selector, is_iret, is_far_jump, error } => {
            intercept_task_switch(cpu, selector, is_iret, is_far_jump, error)
        }
    }
}

/// An intercept that has a bit of its own and whose exit tells nothing but its code.
enum Plain {
    Vector3(Vector3, ExitCode),
    Vector4(Vector4, ExitCode),
    Vector5(Vector5, ExitCode),
}

/// [APM2 "Instruction Intercepts"]
fn plain_intercept(what: Sensitive) -> Plain {
    use ExitCode::*;
    match what {
        Sensitive::Cpuid => Plain::Vector3(Vector3::CPUID, Cpuid),
        Sensitive::Icebp => Plain::Vector4(Vector4::ICEBP, Icebp),
        Sensitive::Invd => Plain::Vector3(Vector3::INVD, Invd),
        Sensitive::Invpcid => Plain::Vector5(Vector5::INVPCID, Invpcid),
        Sensitive::Iret => Plain::Vector3(Vector3::IRET, Iret),
        Sensitive::Monitor => Plain::Vector4(Vector4::MONITOR, Monitor),
        Sensitive::Popf => Plain::Vector3(Vector3::POPF, Popf),
        Sensitive::Pushf => Plain::Vector3(Vector3::PUSHF, Pushf),
        Sensitive::Rdpmc => Plain::Vector3(Vector3::RDPMC, Rdpmc),
        Sensitive::Rdtsc => Plain::Vector3(Vector3::RDTSC, Rdtsc),
        Sensitive::Rdtscp => Plain::Vector4(Vector4::RDTSCP, Rdtscp),
        Sensitive::Rsm => Plain::Vector3(Vector3::RSM, Rsm),
        Sensitive::Wbinvd => Plain::Vector4(Vector4::WBINVD, Wbinvd),
        Sensitive::Xsetbv => Plain::Vector4(Vector4::XSETBV, Xsetbv),
        // Those with particulars of their own have been decided, and RDPID has no intercept.
        _ => Plain::Vector3(Vector3::empty(), Invalid),
    }
}
