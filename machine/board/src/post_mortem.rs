//! What a processor was at when it stopped for good, for the author of what ran on it: why,
//! registers, the instruction.
//!
//! The instruction is named by its row in the opcode tables, which is what the decoder knows of it;
//! operands are left to the bytes.

use crate::Machine;
use crate::debugger::{DebuggedMachine, Debuggee};
use crate::outcome::Outcome;
use arch::address::Linear;
use arch::identity::CpuIndex;
use arch::segment::SegmentRegister;
use cpu::Cpu;
use iced_x86::{Decoder, DecoderOptions};
use std::fmt::Write;

/// Processors that are shown; the others of a large machine wait for the same.
const MOST_SHOWN: usize = 8;
/// The longest instruction.
const LONGEST: usize = 15;

const GENERAL: [&str; 16] = [
    "rax", "rcx", "rdx", "rbx", "rsp", "rbp", "rsi", "rdi", "r8", "r9", "r10", "r11", "r12", "r13",
    "r14", "r15",
];

impl Machine {
    /// A text for readers on how the run ended, where that calls for an explanation.
    pub fn post_mortem(&mut self) -> Option<String> {
        let shown = match self.outcome()? {
            Outcome::TripleFault(cpu) | Outcome::VmxAbort(cpu, _) => vec![cpu],
            Outcome::Deadlock => {
                let cpus = self.state.cpus.iter().map(|cpu| cpu.index);
                cpus.take(MOST_SHOWN).collect()
            }
            Outcome::PowerOff | Outcome::Reset | Outcome::DebugExit(_) => return None,
        };
        let mut text = String::new();
        for cpu in shown {
            self.describe(cpu, &mut text);
        }
        Some(text)
    }

    fn describe(&mut self, index: CpuIndex, text: &mut String) {
        let instruction = self.instruction(index);
        let cpu = &self.state.cpus[usize::from(index.0)];
        let activity = cpu.pending.activity();
        // Writing to a text does not fail.
        let _ = writeln!(text, "processor {index}: {activity:?}, {}", mode(cpu));
        if let Some(last) = self.state.wiring.recorder.last_exception(index) {
            let _ = writeln!(
                text,
                "  last exception: vector {:#x}, error code {:#x}, at rip {}",
                last.vector.0, last.error_code, last.rip
            );
        }
        let (registers, control) = (&cpu.registers, &cpu.control);
        let code = registers.segment(SegmentRegister::Cs).selector;
        let flags = registers.flags.bits();
        let _ = writeln!(
            text,
            "  rip={:016x} cs={code:04x} rflags={flags:08x} cpl={}",
            registers.ip,
            registers.cpl()
        );
        let _ = writeln!(text, "  {instruction}");
        for (number, name) in GENERAL.iter().enumerate() {
            let end = if number % 4 == 3 { "\n" } else { "" };
            let _ = write!(text, "  {name:>3}={:016x}{end}", registers.gpr[number]);
        }
        let _ = writeln!(
            text,
            "  cr0={:08x} cr2={:016x} cr3={:016x} cr4={:08x} efer={:04x}",
            control.cr0().bits(),
            control.cr2,
            control.cr3,
            control.cr4().bits(),
            control.efer().bits()
        );
        let _ = writeln!(
            text,
            "  idt={:016x}, limit {:#x}; gdt={:016x}, limit {:#x}",
            control.idtr.base, control.idtr.limit, control.gdtr.base, control.gdtr.limit
        );
    }

    /// The bytes at the instruction pointer and what they are.
    fn instruction(&mut self, index: CpuIndex) -> String {
        let cpu = &self.state.cpus[usize::from(index.0)];
        let bits = if cpu.is_64_bit() {
            64
        } else if cpu.registers.segment(SegmentRegister::Cs).attributes.is_big() {
            32
        } else {
            16
        };
        let base = if bits == 64 { 0 } else { cpu.registers.bases()[1] };
        let at = Linear(base.wrapping_add(cpu.registers.ip));
        let mut bytes = [0; LONGEST];
        let length = DebuggedMachine::new(self, |_| 0).read_memory(index, at, &mut bytes);
        if length == 0 {
            return format!("no memory is mapped at {at}");
        }
        let mut decoder = Decoder::with_ip(bits, &bytes[..length], at.0, DecoderOptions::NONE);
        let instruction = decoder.decode();
        let length = if instruction.is_invalid() { length } else { instruction.len() };
        let shown: Vec<_> = bytes[..length].iter().map(|byte| format!("{byte:02x}")).collect();
        format!("at rip: {}  {:?}", shown.join(" "), instruction.code())
    }
}

fn mode(cpu: &Cpu) -> &'static str {
    if cpu.is_64_bit() {
        "64-bit mode"
    } else if cpu.control.is_long_mode() {
        "compatibility mode"
    } else if cpu.is_protected() {
        "protected mode"
    } else {
        "real mode"
    }
}
