//! What the running guest's VMCS makes of instructions and events.
//! [SDM3 "Instructions That Cause VM Exits"] [SDM3 "Other Causes of VM Exits"]

use super::information::{displacement, operand_information, string_information};
use super::state::{Exit, PauseLoop};
use super::vmcs::{SIZE, Vmcs};
use crate::guest::{Arrival, Form, Io, Sensitive, Table};
use crate::operation::Op;
use crate::width::{RDI, RDX, RSI};
use crate::{Attention, Bus, Cpu, Stop};
use arch::control::Cr0;
use arch::exception;
use arch::segment::SegmentRegister;
use arch::vmx::control::{PinControls, PrimaryControls as Primary, SecondaryControls as Secondary};
use arch::vmx::field::control;
use arch::vmx::instruction::{InstructionInformation, SelectorInstruction, TableInstruction};
use arch::vmx::qualification::{
    ControlAccess, ControlAccessKind, DebugAccess, IoInstruction, MWAIT_ARMED, TaskSwitch,
    TaskSwitchSource,
};
use arch::vmx::{ExitReason, InterruptionInfo, InterruptionType};

/// Leaves the guest at the present instruction or event.
pub(super) fn exit_with(cpu: &mut Cpu, exit: Exit) -> Stop {
    if let Some(guest) = cpu.guest.running.vmx_mut() {
        guest.exit = Some(exit);
    }
    Stop::VM_EXIT
}

/// Leaves the guest at an instruction that is intercepted.
pub(super) fn exit_of_instruction(cpu: &mut Cpu, op: &Op, exit: Exit) -> Stop {
    let instruction_length = op.length.into();
    exit_with(cpu, Exit { instruction_length, resume_flag: Some(false), ..exit })
}

/// As `vmx_exit_of_instruction`, for one whose operands the exit describes.
pub(super) fn exit_of_operand(cpu: &mut Cpu, op: &Op, reason: ExitReason) -> Stop {
    let (operand, second) = match reason {
        ExitReason::Vmwrite => (op.b, op.a),
        ExitReason::Vmread => (op.a, op.b),
        _ => (op.a, op.a),
    };
    let exit = Exit {
        instruction_information: operand_information(op, operand, second).into_bits(),
        ..Exit::qualified(reason, displacement(cpu, op))
    };
    exit_of_instruction(cpu, op, exit)
}

fn controls(cpu: &Cpu) -> (PinControls, Primary, Secondary) {
    let controls = cpu.guest.running.vmx().map(|guest| guest.controls);
    controls.map_or((PinControls::empty(), Primary::empty(), Secondary::empty()), |c| {
        (c.pin, c.primary, c.secondary)
    })
}

/// What the VMCS makes of an instruction about to do its work.
pub(crate) fn before(
    cpu: &mut Cpu,
    bus: &mut Bus<'_>,
    op: &Op,
    what: Sensitive,
) -> Result<(), Stop> {
    let (_, primary, secondary) = controls(cpu);
    let exits = |bit| primary.contains(bit);
    let also = |bit| secondary.contains(bit);
    let plain = |is_on: bool, reason| is_on.then_some(Exit::new(reason));
    let exit = match what {
            Sensitive::Cpuid => plain(true, ExitReason::Cpuid),
            Sensitive::Hlt => plain(exits(Primary::HLT_EXITING), ExitReason::Hlt),
            Sensitive::Invd => plain(true, ExitReason::Invd),
            Sensitive::Invlpg { linear } => exits(Primary::INVLPG_EXITING)
                .then_some(Exit::qualified(ExitReason::Invlpg, linear)),
            Sensitive::Invpcid => {
                if !also(Secondary::INVPCID) {
                    return Err(Stop::INVALID_OPCODE);
                }
                if exits(Primary::INVLPG_EXITING) {
                    return Err(exit_of_operand(cpu, op, ExitReason::Invpcid));
                }
                None
            }
            Sensitive::Monitor => plain(exits(Primary::MONITOR_EXITING), ExitReason::Monitor),
            Sensitive::Mwait => exits(Primary::MWAIT_EXITING).then(|| {
                let armed = if cpu.pending.monitor_is_armed(bus.memory) { MWAIT_ARMED } else { 0 };
                Exit::qualified(ExitReason::Mwait, armed)
            }),
            Sensitive::Pause => plain(exits_for_pause(cpu, primary), ExitReason::Pause),
            Sensitive::Port { port, size, io } => exit_of_port(cpu, bus, op, port, size, io),
            Sensitive::Rdpmc => plain(exits(Primary::RDPMC_EXITING), ExitReason::Rdpmc),
            Sensitive::Rdrand { size } => also(Secondary::RDRAND_EXITING)
                .then(|| exit_of_generator(op, ExitReason::Rdrand, size)),
            Sensitive::Rdseed { size } => also(Secondary::RDSEED_EXITING)
                .then(|| exit_of_generator(op, ExitReason::Rdseed, size)),
            Sensitive::Rdtsc => plain(exits(Primary::RDTSC_EXITING), ExitReason::Rdtsc),
            Sensitive::Rdpid if !also(Secondary::RDTSCP) => return Err(Stop::INVALID_OPCODE),
            Sensitive::Rdtscp => {
                if !also(Secondary::RDTSCP) {
                    return Err(Stop::INVALID_OPCODE);
                }
                plain(exits(Primary::RDTSC_EXITING), ExitReason::Rdtscp)
            }
            Sensitive::ReadControl { number, form } => exit_of_read(op, primary, number, form),
            Sensitive::WriteControl { number, value, form } => {
                exit_of_write(cpu, bus, op, number, value, form)?
            }
            Sensitive::ReadDebug { number } => {
                exits(Primary::MOV_DR_EXITING).then(|| exit_of_debug(number, true, op.a))
            }
            Sensitive::WriteDebug { number } => {
                exits(Primary::MOV_DR_EXITING).then(|| exit_of_debug(number, false, op.b))
            }
            Sensitive::ReadMsr { number } => {
                exits_for_msr(cpu, bus, number, false).then_some(Exit::new(ExitReason::Rdmsr))
            }
            Sensitive::WriteMsr { number } => {
                exits_for_msr(cpu, bus, number, true).then_some(Exit::new(ExitReason::Wrmsr))
            }
            Sensitive::ReadTable(table) => also(Secondary::DESCRIPTOR_TABLE_EXITING)
                .then(|| exit_of_table(cpu, op, table, false)),
            Sensitive::WriteTable(table) => also(Secondary::DESCRIPTOR_TABLE_EXITING)
                .then(|| exit_of_table(cpu, op, table, true)),
            Sensitive::SupervisorState { restores, components } => {
                if !also(Secondary::XSAVES_XRSTORS) {
                    return Err(Stop::INVALID_OPCODE);
                }
                if cpu.registers.cpl() == 0 && components & supervisor_state_exits(cpu, bus) != 0 {
                    let reasons = [ExitReason::Xsaves, ExitReason::Xrstors];
                    return Err(exit_of_operand(cpu, op, reasons[usize::from(restores)]));
                }
                None
            }
            Sensitive::Wbinvd => plain(also(Secondary::WBINVD_EXITING), ExitReason::Wbinvd),
            Sensitive::Xsetbv => plain(true, ExitReason::Xsetbv),
            Sensitive::Icebp
            | Sensitive::IntN
            | Sensitive::Iret
            // What it would write is looked at.
            | Sensitive::LoadMachineStatus
            | Sensitive::Popf
            | Sensitive::Pushf
            | Sensitive::Rdpid
            | Sensitive::Rsm => None,
        };
    match exit {
        None => Ok(()),
        Some(exit) => Err(exit_of_instruction(cpu, op, exit)),
    }
}

/// PAUSE exiting goes before PAUSE-loop exiting, which is of privilege 0 alone.
fn exits_for_pause(cpu: &mut Cpu, primary: Primary) -> bool {
    if primary.contains(Primary::PAUSE_EXITING) {
        return true;
    }
    let now = cpu.clock.tsc();
    pause_loop(cpu).is_some_and(|times| times.exits(now))
}

/// What times the guest's PAUSEs, if something does.
pub(crate) fn pause_loop(cpu: &mut Cpu) -> Option<&mut PauseLoop> {
    let guest = cpu.guest.running.vmx_mut().filter(|_| cpu.registers.cpl() == 0)?;
    let is_timed = guest.controls.secondary.contains(Secondary::PAUSE_LOOP_EXITING);
    is_timed.then_some(&mut guest.pause)
}

/// Counts a PAUSE of the guest now; false if it exits.
pub(crate) fn passes_pause(cpu: &mut Cpu) -> bool {
    let (_, primary, _) = controls(cpu);
    !exits_for_pause(cpu, primary)
}

fn exits_for_msr(cpu: &Cpu, bus: &Bus<'_>, number: u32, is_write: bool) -> bool {
    let guest = cpu.guest.running.vmx();
    guest.is_some_and(|guest| guest.exits_for_msr(bus.memory, number, is_write))
}

/// [SDM3 "Exit Qualification for I/O Instructions"]
fn exit_of_port(cpu: &Cpu, bus: &Bus<'_>, op: &Op, port: u16, size: u8, io: Io) -> Option<Exit> {
    let guest = cpu.guest.running.vmx()?;
    if !guest.exits_for_port(bus.memory, port, size) {
        return None;
    }
    let is_string = matches!(io, Io::InString | Io::OutString);
    let is_repeated = is_string && (op.has(Op::REP) || op.has(Op::REPNE));
    let qualification = IoInstruction::new()
        .with_size_less_one(size - 1)
        .with_is_input(matches!(io, Io::In | Io::InString))
        .with_is_string(is_string)
        .with_is_repeated(is_repeated)
        .with_is_immediate(!is_string && !takes_port_from_dx(op, io))
        .with_port(port);
    let mut exit = Exit::qualified(ExitReason::IoInstruction, qualification.into_bits());
    if is_string {
        let (register, segment) = match (io, op.segment) {
            (Io::InString, _) => (RDI, SegmentRegister::Es as u8),
            (_, segment @ 0..6) => (RSI, segment),
            _ => (RSI, SegmentRegister::Ds as u8),
        };
        let offset = cpu.registers.gpr[register] & op.address_mask();
        exit.linear = cpu.registers.bases()[segment as usize].wrapping_add(offset);
        exit.instruction_information = string_information(op, segment).into_bits();
    }
    Some(exit)
}

/// State components whose save and restore exits. [SDM3 "XSS-Exiting Bitmap"]
fn supervisor_state_exits(cpu: &Cpu, bus: &Bus<'_>) -> u64 {
    let Some(guest) = cpu.guest.running.vmx() else { return 0 };
    let bytes = bus.memory.slice(guest.vmcs, SIZE).ok();
    bytes.and_then(Vmcs::new).map_or(0, |vmcs| vmcs.get(control::XSS_EXITING_BITMAP))
}

/// RDRAND and RDSEED, into a register of `size` bytes.
fn exit_of_generator(op: &Op, reason: ExitReason, size: u8) -> Exit {
    let information = InstructionInformation::new()
        .with_first_register(op.a & 15)
        .with_operand_size(size.ilog2().saturating_sub(1) as u8);
    Exit { instruction_information: information.into_bits(), ..Exit::new(reason) }
}

fn exit_of_table(cpu: &Cpu, op: &Op, table: Table, is_write: bool) -> Exit {
    use SelectorInstruction::{Lldt, Ltr, Sldt, Str};
    use TableInstruction::{Lgdt, Lidt, Sgdt, Sidt};
    let (reason, identity) = match (table, is_write) {
        (Table::Gdtr, false) => (ExitReason::GdtrOrIdtr, Sgdt as u8),
        (Table::Idtr, false) => (ExitReason::GdtrOrIdtr, Sidt as u8),
        (Table::Gdtr, true) => (ExitReason::GdtrOrIdtr, Lgdt as u8),
        (Table::Idtr, true) => (ExitReason::GdtrOrIdtr, Lidt as u8),
        (Table::Ldtr, false) => (ExitReason::LdtrOrTr, Sldt as u8),
        (Table::Tr, false) => (ExitReason::LdtrOrTr, Str as u8),
        (Table::Ldtr, true) => (ExitReason::LdtrOrTr, Lldt as u8),
        (Table::Tr, true) => (ExitReason::LdtrOrTr, Ltr as u8),
    };
    let is_32_bit = !op.has(Op::SIZE_16);
    let information = operand_information(op, op.a, identity)
        .with_operand_size((reason == ExitReason::GdtrOrIdtr && is_32_bit).into());
    Exit {
        instruction_information: information.into_bits(),
        ..Exit::qualified(reason, displacement(cpu, op))
    }
}

/// MOV to control registers, LMSW and CLTS. [SDM3 "Instructions That Cause VM Exits
/// Conditionally"]
fn exit_of_write(
    cpu: &mut Cpu,
    bus: &mut Bus<'_>,
    op: &Op,
    number: u8,
    value: u64,
    form: Form,
) -> Result<Option<Exit>, Stop> {
    let Some(guest) = cpu.guest.running.vmx() else { return Ok(None) };
    let primary = guest.controls.primary;
    let cr0 = guest.cr0;
    let access = ControlAccess::new().with_register(number);
    let exit =
        |access: ControlAccess| Exit::qualified(ExitReason::ControlRegister, access.into_bits());
    Ok(match form {
        Form::Move => {
            let is_target =
                || guest.cr3_targets[..usize::from(guest.cr3_target_count.min(4))].contains(&value);
            let exits = match number {
                0 => cr0.refuses(value),
                3 => primary.contains(Primary::CR3_LOAD_EXITING) && !is_target(),
                4 => guest.cr4.refuses(value),
                8 => primary.contains(Primary::CR8_LOAD_EXITING),
                _ => false,
            };
            exits.then(|| exit(access.with_general_register(op.b & 15)))
        }
        Form::ClearTaskSwitched => {
            let switched = Cr0::TASK_SWITCHED.bits();
            let exits = cr0.mask & cr0.shadow & switched != 0;
            exits.then(|| exit(access.with_kind(ControlAccessKind::Clts)))
        }
        Form::MachineStatus => {
            let sets_protection = cr0.mask & !cr0.shadow & value & 1 != 0;
            let changes = cr0.mask & (cr0.shadow ^ value) & 0xE != 0;
            if !sets_protection && !changes {
                return Ok(None);
            }
            let is_memory = op.has(Op::MEMORY);
            let source = if is_memory {
                cpu.read::<u16>(bus, op)?
            } else {
                cpu.registers.gpr[op.a as usize] as u16
            };
            let access = access
                .with_kind(ControlAccessKind::Lmsw)
                .with_is_memory_operand(is_memory)
                .with_machine_status(source);
            let linear =
                if is_memory { cpu.operand(op, 2, crate::memory::Access::Read)? } else { 0 };
            Some(Exit { linear, ..exit(access) })
        }
    })
}

/// What the VMCS makes of an event about to be taken.
pub(crate) fn arrives(cpu: &mut Cpu, event: Arrival) -> Result<(), Stop> {
    let (pin, ..) = controls(cpu);
    let exit = match event {
        Arrival::Interrupt => {
            let exits = pin.contains(PinControls::EXTERNAL_INTERRUPT_EXITING);
            exits.then_some(Exit::new(ExitReason::ExternalInterrupt))
        }
        Arrival::Nmi if pin.contains(PinControls::NMI_EXITING) => {
            cpu.pending.take_nmi();
            let nmi = InterruptionInfo::event(InterruptionType::Nmi, exception::NMI, false);
            Some(Exit { interruption: nmi, ..Exit::new(ExitReason::ExceptionOrNmi) })
        }
        // DEVIATION(SDM3 "SMI Handling"): there is no SMM; an SMI is as if its handler had
        // returned at once.
        Arrival::Nmi | Arrival::Smi => None,
        Arrival::Init => {
            cpu.pending.clear(Attention::INIT);
            Some(Exit::new(ExitReason::Init))
        }
        Arrival::TripleFault => Some(Exit::new(ExitReason::TripleFault)),
        Arrival::Exception { vector, error, next_ip } => {
            let exit = exit_of_exception(cpu, vector, error, next_ip);
            if exit.is_some() && vector == exception::DEBUG && next_ip == 0 {
                cpu.debug.take_back_causes();
            }
            exit
        }
        Arrival::TaskSwitch { selector, is_iret, is_far_jump, .. } => {
            Some(exit_of_task_switch(cpu, selector, is_iret, is_far_jump))
        }
    };
    match exit {
        None => Ok(()),
        Some(exit) => Err(exit_with(cpu, exit)),
    }
}

/// An interrupt of the local APIC or the 8259s that has been acknowledged on exit.
pub(crate) fn exit_of_interrupt(cpu: &mut Cpu, vector: u8) -> Stop {
    let interruption = InterruptionInfo::event(InterruptionType::External, vector, false);
    exit_with(cpu, Exit { interruption, ..Exit::new(ExitReason::ExternalInterrupt) })
}

/// [SDM3 "Exceptions"]: the exception bitmap, and for page faults their error code as well.
fn exit_of_exception(cpu: &Cpu, vector: u8, error: Option<u32>, next_ip: u64) -> Option<Exit> {
    let guest = cpu.guest.running.vmx()?;
    let is_marked = guest.exceptions >> (vector & 31) & 1 != 0;
    let exits = if vector == exception::PAGE_FAULT {
        let matches = error.unwrap_or(0) & guest.page_fault_mask == guest.page_fault_match;
        matches == is_marked
    } else {
        is_marked
    };
    if !exits {
        return None;
    }
    let is_software = next_ip != 0;
    let kind = match vector {
        exception::DEBUG if is_software => InterruptionType::PrivilegedSoftwareException,
        _ if is_software => InterruptionType::SoftwareException,
        _ => InterruptionType::HardwareException,
    };
    let error = error.filter(|_| !cpu.control.is_real());
    let qualification = match vector {
        exception::PAGE_FAULT => cpu.pending.fault_address(),
        exception::DEBUG if !is_software => cpu.debug.causes(),
        _ => 0,
    };
    let is_trap = is_software || vector == exception::DEBUG || vector == exception::DOUBLE_FAULT;
    Some(Exit {
        interruption: InterruptionInfo::event(kind, vector, error.is_some()),
        error_code: error.unwrap_or(0),
        instruction_length: if is_software { cpu.pending.software_length() as u32 } else { 0 },
        resume_flag: (!is_trap).then_some(true),
        ..Exit::qualified(ExitReason::ExceptionOrNmi, qualification)
    })
}

/// Unconditional. [SDM3 "Treatment of Task Switches"]
fn exit_of_task_switch(cpu: &Cpu, selector: u16, is_iret: bool, is_far_jump: bool) -> Exit {
    let source = match (cpu.pending.delivering(), is_iret, is_far_jump) {
        (Some(_), ..) => TaskSwitchSource::Gate,
        (None, true, _) => TaskSwitchSource::Iret,
        (None, false, true) => TaskSwitchSource::Jump,
        (None, false, false) => TaskSwitchSource::Call,
    };
    let qualification = TaskSwitch::new().with_selector(selector).with_source(source);
    Exit::qualified(ExitReason::TaskSwitch, qualification.into_bits())
}

/// MOV from control registers; CR0 and CR4 are shadowed and do not exit, nor does SMSW.
fn exit_of_read(op: &Op, primary: Primary, number: u8, form: Form) -> Option<Exit> {
    let exits = match number {
        3 => primary.contains(Primary::CR3_STORE_EXITING),
        8 => primary.contains(Primary::CR8_STORE_EXITING),
        _ => false,
    };
    let access = ControlAccess::new()
        .with_register(number)
        .with_kind(ControlAccessKind::MoveFrom)
        .with_general_register(op.a & 15);
    let is_move = form == Form::Move;
    (exits && is_move).then(|| Exit::qualified(ExitReason::ControlRegister, access.into_bits()))
}

fn exit_of_debug(number: u8, is_read: bool, register: u8) -> Exit {
    let access = DebugAccess::new()
        .with_register(number)
        .with_is_read(is_read)
        .with_general_register(register & 15);
    Exit::qualified(ExitReason::DebugRegister, access.into_bits())
}

/// Whether the operand is DX; an immediate leaves the register's place zero.
fn takes_port_from_dx(op: &Op, io: Io) -> bool {
    let register = if io == Io::In { op.b } else { op.a };
    usize::from(register) == RDX
}
