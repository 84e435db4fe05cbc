//! Debug registers, breakpoints, watchpoints and single step. [APM2 "Software-Debug Resources"]

use crate::execute::stack;
use crate::guest::Sensitive;
use crate::memory::Access;
use crate::operation::Op;
use crate::state::{Control, Debug, EXECUTE, Event, Origin, READ_WRITE, WRITE};
use crate::system::event;
use crate::width::RSP;
use crate::{Attention, Bus, Cpu, Interest, Observation, Range, Stop, Touch};
use arch::address::Linear;
use arch::control::{Cr4, debug, rflags};
use arch::exception;
use bus::GuestMemory;

pub(crate) fn read_debug(
    cpu: &mut Cpu,
    bus: &mut Bus<'_>,
    op: &Op,
    number: u8,
) -> Result<u64, Stop> {
    let encoded = number;
    let number = cpu.control.debug_number(number)?;
    cpu.registers.needs_cpl0()?;
    let check = |cpu: &mut Cpu| check_general_detect(&mut cpu.debug);
    cpu.before_checked(bus, op, Sensitive::ReadDebug { number: encoded }, check)?;
    check(cpu)?;
    Ok(cpu.debug.read(number))
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
    let check = |cpu: &mut Cpu| {
        check_general_detect(&mut cpu.debug)?;
        if number >= 6 && value >> 32 != 0 { Err(Stop::GENERAL_PROTECTION) } else { Ok(()) }
    };
    cpu.before_checked(bus, op, Sensitive::WriteDebug { number: encoded }, check)?;
    check(cpu)?;
    cpu.debug.write(number, value);
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
        self.pending.set(Attention::BREAKPOINTS, armed);
        self.update_access_mode();
    }
}

/// A data access of so many bytes, for a debugger outside the machine.
pub(crate) fn note_observed(
    cpu: &mut Cpu,
    memory: &GuestMemory,
    (linear, size): (u64, usize),
    access: Access,
) {
    if !cpu.observation.has_no_ranges() {
        cpu.observation.note(cpu.clock.now(), linear, size, access);
    }
    if cpu.observation.keeps_journal_of(cpu.registers.ip) && !cpu.is_guest() {
        note_touch(cpu, memory, (linear, size), access);
    }
}

/// Of an access to RAM, whose page the TLB has by now.
#[cold]
fn note_touch(cpu: &mut Cpu, memory: &GuestMemory, (linear, size): (u64, usize), access: Access) {
    let page = cpu.translation.tlb.withheld(cpu.translation.set(), linear, access);
    let Some(page) = page else { return };
    let place = page + (linear & 0xFFF);
    let mut found = [0; 8];
    let bytes = memory.ram[place as usize..].iter().take(size);
    found.iter_mut().zip(bytes).for_each(|(to, from)| *to = *from);
    cpu.observation.note_touch(Touch {
        at: cpu.clock.now(),
        rip: Linear(cpu.registers.ip),
        stack: Linear(cpu.registers.gpr[RSP]),
        linear: Linear(linear),
        place,
        found: u64::from_le_bytes(found),
        is_write: access == Access::Write,
    });
}

/// A data access of so many bytes: matching breakpoints trap after the instruction.
pub(crate) fn note_data_breakpoints(
    cpu: &mut Cpu,
    memory: &GuestMemory,
    (linear, size): (u64, usize),
    access: Access,
) {
    if access == Access::Execute {
        return;
    }
    note_observed(cpu, memory, (linear, size), access);
    if !cpu.debug.has_breakpoints() {
        return;
    }
    for i in 0..4 {
        let (enabled, kind, length) = cpu.debug.breakpoint(i);
        let wanted = kind == READ_WRITE || kind == WRITE && access == Access::Write;
        let start = cpu.debug.address(i) & !(length - 1);
        let overlaps =
            linear < start.wrapping_add(length) && start < linear.wrapping_add(size as u64);
        if wanted && overlaps {
            cpu.debug.pend(1 << i);
            if enabled {
                cpu.pending.raise(Attention::DEBUG_TRAP);
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
        if enabled && kind == EXECUTE && cpu.debug.address(i) == linear {
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
    cpu.debug.pend(debug::DR6_SINGLE_STEP);
    cpu.pending.raise(Attention::DEBUG_TRAP);
}

/// SYSCALL and SYSRET are stepped by the TF that they leave, not by the one that they find.
pub(crate) fn settle_step_by_new_flag(cpu: &mut Cpu, was_stepping: bool) {
    cpu.pending.settle_step(was_stepping);
    if cpu.registers.flags.has(rflags::TF) {
        pend_single_step(cpu);
    }
}

/// INT1 raises a debug exception of its own; traps that wait go with it.
pub(crate) fn merge_debug_traps(cpu: &mut Cpu) {
    cpu.pending.clear(Attention::DEBUG_TRAP);
    let causes = cpu.debug.take_pending();
    if causes != 0 {
        cpu.debug.note_causes(causes);
    }
}

/// Delivers the debug traps that the last instruction left behind.
pub(crate) fn take_debug_trap(cpu: &mut Cpu, bus: &mut Bus<'_>) -> Result<(), Stop> {
    cpu.pending.clear(Attention::DEBUG_TRAP | Attention::SHADOW);
    let causes = cpu.debug.take_pending();
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
            4 | 5 if !self.cr4().contains(Cr4::DE) => Ok(number + 2),
            _ => Err(Stop::INVALID_OPCODE),
        }
    }
}

/// #DB if DR7.GD guards the debug registers.
fn check_general_detect(debug: &mut Debug) -> Result<(), Stop> {
    if debug.detects_access() { Err(Stop::exception(exception::DEBUG)) } else { Ok(()) }
}

/// What a debugger outside the machine does.
impl Cpu {
    /// Observes these bytes and instructions from now on, and no others.
    pub fn observe(&mut self, ranges: Vec<Range>, points: &[Linear]) {
        self.observation = Observation::of(ranges, points);
        self.translation.tlb.withhold(self.observation.pages());
    }

    /// Keeps a journal of what some code outside of guests does to memory, and observes nothing
    /// else.
    pub fn keep_journal(&mut self, interest: Interest) {
        self.observation = Observation::journal_of(interest);
        self.translation.tlb.withhold(self.observation.pages());
    }

    /// Sets RFLAGS as a debugger may: everything but VM and the reserved bits.
    pub fn debug_set_flags(&mut self, value: u64) {
        stack::write_flags(self, value, rflags::ALL & !(rflags::VM | rflags::FIXED));
    }
}
