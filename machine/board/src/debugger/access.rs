//! What a debugger reads of a processor and writes to it: registers in its order, and memory as the
//! processor sees it.

use super::DebugRegisters;
use crate::Machine;
use arch::address::{Linear, PAGE_SIZE, SystemPhysical};
use arch::identity::CpuIndex;
use arch::segment::SegmentRegister::{Cs, Ds, Es, Fs, Gs, Ss};
use cpu::{Activity, Cpu};

/// The register numbers of RAX, RBX, RCX, RDX, RSI, RDI, RBP, RSP, R8 to R15.
const PROTOCOL_ORDER: [usize; 16] = [0, 3, 1, 2, 6, 7, 5, 4, 8, 9, 10, 11, 12, 13, 14, 15];

/// Debuggers know linear addresses only.
pub(super) fn instruction_pointer(cpu: &Cpu) -> Linear {
    match cpu.is_64_bit() {
        true => Linear(cpu.registers.ip),
        false => Linear(cpu.registers.bases()[1].wrapping_add(cpu.registers.ip) & 0xFFFF_FFFF),
    }
}

/// A few words on a processor.
pub(super) fn describe(cpu: &Cpu) -> String {
    let activity = match cpu.pending.activity() {
        Activity::Running => "running",
        Activity::Halted => "halted",
        Activity::Waiting => "in MWAIT",
        Activity::WaitForStartup => "waits for startup",
        Activity::Shutdown => "shut down",
    };
    let mode = match (cpu.is_64_bit(), cpu.control.is_real(), cpu.registers.is_virtual_8086()) {
        (true, ..) => "64-bit",
        (_, true, _) => "real",
        (.., true) => "virtual-8086",
        _ if cpu.control.is_long_mode() => "compatibility",
        _ => "protected",
    };
    format!("{activity}, {mode}, CPL {}", cpu.registers.cpl())
}

/// A processor's registers as they are.
pub(super) fn registers(cpu: &Cpu) -> DebugRegisters {
    let mut registers = DebugRegisters::default();
    // The instruction set's order is A, C, D, B, SP, BP, SI, DI; the protocol's A, B, C, D, SI,
    // DI, BP, SP.
    for (place, number) in PROTOCOL_ORDER.into_iter().enumerate() {
        registers.general[place] = cpu.registers.gpr[number];
    }
    registers.rip = instruction_pointer(cpu).0;
    registers.rflags = cpu.registers.flags.bits() as u32;
    for (place, register) in [Cs, Ss, Ds, Es, Fs, Gs].into_iter().enumerate() {
        registers.segments[place] = cpu.registers.segment(register).selector.into();
    }
    for index in 0..8 {
        registers.x87[usize::from(index)] = cpu.registers.x87.st(index).to_bytes();
    }
    registers.x87_control[0] = cpu.registers.x87.control.into();
    registers.x87_control[1] = cpu.registers.x87.status.into();
    registers.x87_control[2] = cpu.registers.x87.valid.into();
    registers.x87_control[3] = cpu.registers.x87.instruction_segment.into();
    registers.x87_control[4] = cpu.registers.x87.instruction_pointer as u32;
    registers.x87_control[5] = cpu.registers.x87.data_segment.into();
    registers.x87_control[6] = cpu.registers.x87.data_pointer as u32;
    registers.x87_control[7] = cpu.registers.x87.opcode.into();
    registers.xmm = cpu.registers.xmm;
    registers.ymm_high = cpu.registers.ymm_high;
    registers.mxcsr = cpu.registers.mxcsr;
    registers.fs_base = cpu.registers.segment(Fs).base;
    registers.gs_base = cpu.registers.segment(Gs).base;
    let cr8 = u64::from(cpu.apic.task_priority() >> 4);
    registers.system = [
        cpu.control.cr0().bits(),
        cpu.control.cr2,
        cpu.control.cr3,
        cpu.control.cr4().bits(),
        cr8,
        cpu.control.efer().bits(),
        cpu.registers.segment(Cs).base,
        cpu.registers.segment(Ss).base,
        cpu.control.tr.base,
    ];
    registers
}

/// Sets what can be set; false if a value is not possible.
pub(super) fn set_registers(target: &mut Cpu, registers: &DebugRegisters) -> bool {
    let mut possible = self::registers(target);
    for (place, number) in PROTOCOL_ORDER.into_iter().enumerate() {
        target.registers.gpr[number] = registers.general[place];
    }
    let base = if target.is_64_bit() { 0 } else { target.registers.code_base() };
    target.registers.ip = registers.rip.wrapping_sub(base);
    target.debug_set_flags(registers.rflags.into());
    target.registers.xmm = registers.xmm;
    target.registers.ymm_high = registers.ymm_high;
    target.registers.mxcsr = registers.mxcsr & 0xFFFF;
    target.registers.set_segment_base(Fs, registers.fs_base);
    target.registers.set_segment_base(Gs, registers.gs_base);
    // Selectors, x87 and control registers stay as they are.
    possible.general = registers.general;
    possible.rip = registers.rip;
    possible.rflags = registers.rflags;
    possible.xmm = registers.xmm;
    possible.ymm_high = registers.ymm_high;
    possible.mxcsr = registers.mxcsr;
    possible.fs_base = registers.fs_base;
    possible.gs_base = registers.gs_base;
    possible == *registers
}

impl Machine {
    /// A processor's registers as a debugger has them; `None` if there is no such processor.
    pub fn debug_registers(&self, cpu: CpuIndex) -> Option<DebugRegisters> {
        self.state.cpus.get(usize::from(cpu.0)).map(registers)
    }

    /// Sets what a debugger can set of a processor; false if a value is not possible.
    pub fn set_debug_registers(&mut self, cpu: CpuIndex, registers: &DebugRegisters) -> bool {
        let target = self.state.cpus.get_mut(usize::from(cpu.0));
        target.is_some_and(|target| set_registers(target, registers))
    }

    /// What a processor is doing, in a few words such as "halted, 64-bit, CPL 0".
    pub fn activity_of(&self, cpu: CpuIndex) -> Option<String> {
        self.state.cpus.get(usize::from(cpu.0)).map(describe)
    }

    /// Reads memory as a processor would, whatever its privilege; how many bytes were readable.
    pub fn read_linear(&self, cpu: CpuIndex, start: Linear, into: &mut [u8]) -> usize {
        for (place, piece) in self.pieces(cpu, start, into.len()) {
            let at = piece.start;
            let is_read =
                place.is_some_and(|place| self.memory.read(place, &mut into[piece]).is_ok());
            if !is_read {
                return at;
            }
        }
        into.len()
    }

    /// Writes memory as a processor would, even where it is read-only; how many bytes were written
    /// before one that is not mapped to RAM.
    pub fn write_linear(&mut self, cpu: CpuIndex, start: Linear, from: &[u8]) -> usize {
        // Where the pieces lie is known before any is written: it may be a page table.
        for (place, piece) in self.pieces(cpu, start, from.len()) {
            let at = piece.start;
            let is_written =
                place.is_some_and(|place| self.memory.write(place, &from[piece]).is_ok());
            if !is_written {
                return at;
            }
        }
        from.len()
    }

    /// Pieces of a range that lie in one page each: where they are in RAM, and which bytes.
    fn pieces(
        &self,
        cpu: CpuIndex,
        start: Linear,
        length: usize,
    ) -> Vec<(Option<SystemPhysical>, std::ops::Range<usize>)> {
        let cpu = self.state.cpus.get(usize::from(cpu.0));
        let mut done = 0;
        let mut pieces = Vec::new();
        while done < length {
            let linear = start.0.wrapping_add(done as u64);
            let room = (PAGE_SIZE - linear % PAGE_SIZE) as usize;
            let piece = done..length.min(done + room);
            done = piece.end;
            pieces.push((cpu.and_then(|cpu| cpu.peek(&self.memory, Linear(linear))), piece));
        }
        pieces
    }
}
