//! Debug registers, breakpoints, watchpoints and single step. [APM2 "Software-Debug Resources"]

use crate::execute::stack;
use crate::guest::Sensitive;
use crate::memory::Access;
use crate::operation::Op;
use crate::state::{Control, Debug, Event, Origin};
use crate::system::event;
use crate::{Attention, Bus, Cpu, Observation, Range, Stop};
use arch::control::{Cr4, debug, rflags};
use arch::exception;

/// What a breakpoint register waits for: R/W field of DR7.
const EXECUTE: u64 = 0;
const WRITE: u64 = 1;
const READ_WRITE: u64 = 3;

/// DR7 bits that are not reserved, besides bit 10, which reads one.
const DR7_KNOWN: u64 = 0xFFFF_23FF;
/// DR6 bits that software may change.
const DR6_WRITABLE: u64 = 0xE00F;

pub(crate) fn read_debug(
    cpu: &mut Cpu,
    bus: &mut Bus<'_>,
    op: &Op,
    number: u8,
) -> Result<u64, Stop> {
    let encoded = number;
    let number = cpu.control.debug_number(number)?;
    cpu.registers.needs_cpl0()?;
    cpu.before(bus, op, Sensitive::ReadDebug { number: encoded })?;
    cpu.debug.check_general_detect()?;
    Ok(match number {
        0..=3 => cpu.debug.dr[number as usize],
        6 => cpu.debug.dr6,
        _ => cpu.debug.dr7,
    })
}

pub(crate) fn write_debug(
    cpu: &mut Cpu,
    bus: &mut Bus<'_>,
    op: &Op,
    number: u8,
    value: u64,
) -> Result<(), Stop> {
    let encoded = number;
    let number = cpu.control.debug_number(number)?;
    cpu.registers.needs_cpl0()?;
    cpu.before(bus, op, Sensitive::WriteDebug { number: encoded })?;
    cpu.debug.check_general_detect()?;
    if number >= 6 && value >> 32 != 0 {
        return Err(Stop::GENERAL_PROTECTION);
    }
    match number {
        0..=3 => cpu.debug.dr[number as usize] = value,
        6 => cpu.debug.dr6 = debug::DR6_RESET | value & DR6_WRITABLE,
        _ => cpu.debug.dr7 = value & DR7_KNOWN | debug::DR7_RESET,
    }
    cpu.update_breakpoints();
    Err(Stop::END_BLOCK)
}

impl Cpu {
    /// After DR0–DR3 or DR7 changed.
    pub fn update_breakpoints(&mut self) {
        // A data breakpoint traps after its instruction, which no block may hide.
        let armed = self.debug.has_code_breakpoints()
            || self.debug.has_data_breakpoints()
            || self.registers.flags.has(rflags::RF);
        self.pending.attention.set(Attention::BREAKPOINTS, armed);
        self.update_access_mode();
    }
}

/// A data access: matching breakpoints trap after the instruction.
pub(crate) fn note_data_breakpoints(cpu: &mut Cpu, linear: u64, size: usize, access: Access) {
    if access == Access::Execute {
        return;
    }
    if !cpu.observation.is_empty() {
        cpu.observation.note(linear, size, access);
    }
    if cpu.debug.dr7 & 0xFF == 0 {
        return;
    }
    for i in 0..4 {
        let (enabled, kind, length) = cpu.debug.breakpoint(i);
        let wanted = kind == READ_WRITE || kind == WRITE && access == Access::Write;
        let start = cpu.debug.dr[i] & !(length - 1);
        let overlaps =
            linear < start.wrapping_add(length) && start < linear.wrapping_add(size as u64);
        if wanted && overlaps {
            cpu.debug.pending |= 1 << i;
            if enabled {
                cpu.pending.attention |= Attention::DEBUG_TRAP;
            }
        }
    }
}

/// Breakpoints on the instruction about to run: a fault before it, unless RFLAGS.RF is set.
/// True if an exception was delivered.
pub(crate) fn check_code_breakpoints(
    cpu: &mut Cpu,
    bus: &mut Bus<'_>,
    linear: u64,
) -> Result<bool, Stop> {
    if cpu.registers.flags.has(rflags::RF) {
        return Ok(false);
    }
    let mut hit = 0;
    for i in 0..4 {
        let (enabled, kind, _) = cpu.debug.breakpoint(i);
        if enabled && kind == EXECUTE && cpu.debug.dr[i] == linear {
            hit |= 1 << i;
        }
    }
    if hit == 0 {
        return Ok(false);
    }
    cpu.debug.note_causes(hit);
    event::raise(
        cpu,
        bus,
        Event { vector: exception::DEBUG, error: None, origin: Origin::Exception },
    )?;
    Ok(true)
}

/// The instruction that has just completed was stepped.
pub(crate) fn pend_single_step(cpu: &mut Cpu) {
    cpu.debug.pending |= debug::DR6_SINGLE_STEP;
    cpu.pending.attention |= Attention::DEBUG_TRAP;
}

/// SYSCALL and SYSRET are stepped by the TF that they leave, not by the one that they find.
pub(crate) fn settle_step_by_new_flag(cpu: &mut Cpu, was_stepping: bool) {
    cpu.pending.step_is_settled = was_stepping;
    if cpu.registers.flags.has(rflags::TF) {
        pend_single_step(cpu);
    }
}

/// INT1 raises a debug exception of its own; traps that wait go with it.
pub(crate) fn merge_debug_traps(cpu: &mut Cpu) {
    cpu.pending.attention.remove(Attention::DEBUG_TRAP);
    let causes = std::mem::take(&mut cpu.debug.pending);
    if causes != 0 {
        cpu.debug.note_causes(causes);
    }
}

/// Delivers the debug traps that the last instruction left behind.
pub(crate) fn take_debug_trap(cpu: &mut Cpu, bus: &mut Bus<'_>) -> Result<(), Stop> {
    cpu.pending.attention.remove(Attention::DEBUG_TRAP | Attention::SHADOW);
    let causes = std::mem::take(&mut cpu.debug.pending);
    cpu.debug.note_causes(causes);
    event::raise(
        cpu,
        bus,
        Event { vector: exception::DEBUG, error: None, origin: Origin::Exception },
    )
}

impl Control {
    fn debug_number(&self, number: u8) -> Result<u8, Stop> {
        match number {
            0..=3 | 6 | 7 => Ok(number),
            4 | 5 if !self.cr4.contains(Cr4::DE) => Ok(number + 2),
            _ => Err(Stop::INVALID_OPCODE),
        }
    }
}

impl Debug {
    /// #DB if DR7.GD guards the debug registers.
    fn check_general_detect(&mut self) -> Result<(), Stop> {
        if self.dr7 & debug::DR7_GENERAL_DETECT == 0 {
            return Ok(());
        }
        self.note_causes(debug::DR6_GENERAL_DETECT);
        self.dr7 &= !debug::DR7_GENERAL_DETECT;
        Err(Stop::exception(exception::DEBUG))
    }

    /// (enabled, kind, length in bytes) of breakpoint `i`.
    fn breakpoint(&self, i: usize) -> (bool, u64, u64) {
        let enabled = self.dr7 >> (2 * i) & 3 != 0;
        let control = self.dr7 >> (16 + 4 * i) & 15;
        let length = match control >> 2 {
            0 => 1,
            1 => 2,
            2 => 8,
            _ => 4,
        };
        (enabled, control & 3, length)
    }
}

/// What a debugger outside the machine does.
impl Cpu {
    /// Observes these bytes from now on, and no others. Instructions of strings, which access
    /// memory in one go, are seen by their first bytes.
    pub fn observe(&mut self, ranges: Vec<Range>) {
        self.observation = Observation::of(ranges);
        self.update_access_mode();
    }

    /// Sets RFLAGS as a debugger may: everything but VM and the reserved bits.
    pub fn debug_set_flags(&mut self, value: u64) {
        stack::write_flags(self, value, rflags::ALL & !(rflags::VM | rflags::FIXED));
    }
}

impl Debug {
    pub(crate) fn has_data_breakpoints(&self) -> bool {
        self.dr7 & 0xFF != 0
            && (0..4).any(|i| {
                let (enabled, kind, _) = self.breakpoint(i);
                enabled && (kind == WRITE || kind == READ_WRITE)
            })
    }

    fn has_code_breakpoints(&self) -> bool {
        self.dr7 & 0xFF != 0
            && (0..4).any(|i| {
                let (enabled, kind, _) = self.breakpoint(i);
                enabled && kind == EXECUTE
            })
    }
}
