//! Integer instructions: all 16 general registers, RFLAGS, RIP and a window of memory at the same
//! addresses on the host and on the emulated processor, both at CPL 3 in 64-bit mode.
//!
//! [`Form`] is one encoding, found by filling the opcode maps with random operands; [`prepare`]
//! gives it operands; [`Pair`] runs it on both sides and tells what differs.

mod coverage;
mod emulated;
mod form;
mod host;
mod prepare;
mod undefined;

pub use coverage::{is_amd, is_covered};
pub use form::{Form, Opcode};
pub use prepare::prepare;
pub use undefined::{is_first_fault_undefined, undefined_flags};

use crate::operands::Random;
use emulated::Emulated;
use host::Host;

/// Two pages that hold the instruction.
pub const CODE: u64 = 0x1000_0000;
pub const CODE_BYTES: usize = 0x2000;
/// Readable and writable, between unmapped pages.
pub const WINDOW: u64 = 0x1002_0000;
pub const WINDOW_BYTES: usize = 0x4000;
pub const FS_BASE: u64 = 0x0800_0000;
pub const GS_BASE: u64 = 0xFFFF_FFFF_F000_0000;

pub const RAX: usize = 0;
pub const RCX: usize = 1;
pub const RDX: usize = 2;
pub const RBX: usize = 3;
pub const RSP: usize = 4;
pub const RBP: usize = 5;
pub const RSI: usize = 6;
pub const RDI: usize = 7;

/// What an instruction starts from and leaves behind.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct State {
    pub gpr: [u64; 16],
    pub flags: u64,
    pub ip: u64,
}

/// An exception as the instruction's fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    pub vector: u8,
    pub error: u32,
    /// CR2 of a page fault, else zero.
    pub address: u64,
}

/// Flags that both sides must agree on: TF and RF belong to the debugger.
pub const COMPARED_FLAGS: u64 = 0x3F_FFFF & !(1 << 8) & !(1 << 16);

/// The host's processor and the emulated one.
pub struct Pair {
    host: Host,
    emulated: Emulated,
}

impl Pair {
    /// `None`, with a notice, where the host cannot do it.
    pub fn new(model: &str) -> Option<Pair> {
        match Host::new() {
            Some(host) => Some(Pair { host, emulated: Emulated::new(model) }),
            None => {
                println!("skipped: user code may not set FS and GS bases on this host");
                None
            }
        }
    }

    /// Puts code at `at` on both sides; execution that runs past it ends the run.
    pub fn load(&mut self, at: u64, code: &[u8]) {
        self.host.load(at, code);
        self.emulated.load(at, code);
    }

    pub fn poke(&mut self, at: u64, bytes: &[u8]) {
        let Some(offset) = at.checked_sub(WINDOW) else { return };
        let offset = offset as usize;
        if offset + bytes.len() <= WINDOW_BYTES {
            self.host.window()[offset..offset + bytes.len()].copy_from_slice(bytes);
            self.emulated.window()[offset..offset + bytes.len()].copy_from_slice(bytes);
        }
    }

    pub fn peek(&mut self, at: u64) -> Option<u64> {
        let offset = at.checked_sub(WINDOW)? as usize;
        let bytes = self.host.window().get(offset..offset + 8)?;
        Some(u64::from_le_bytes(bytes.try_into().ok()?))
    }

    /// Fills the window with random bytes, boundary values among them.
    pub fn fill(&mut self, random: &mut Random) {
        for at in (0..WINDOW_BYTES).step_by(8) {
            let value = prepare::value(random);
            self.poke(WINDOW + at as u64, &value.to_le_bytes());
        }
    }

    /// Runs `instructions` from `start` on both sides; what differs, outside of what is undefined.
    pub fn run(
        &mut self,
        start: &State,
        instructions: u64,
        undefined: Undefined,
    ) -> Result<Run, String> {
        let (mut ours, mut theirs) = (start.clone(), start.clone());
        let their_fault = self.host.run(&mut theirs);
        let our_fault = self.emulated.run(&mut ours, instructions);
        let mut differences = String::new();
        let mut differ = |what: &str, host: &dyn std::fmt::Debug, ours: &dyn std::fmt::Debug| {
            differences += &format!("\n    {what}: host {host:x?}, ours {ours:x?}");
        };
        // Either operand's fault will do, where both may have one.
        let are_either = undefined.first_fault && our_fault.is_some() && their_fault.is_some();
        if our_fault != their_fault && !are_either {
            differ("fault", &their_fault, &our_fault);
        }
        for ((name, theirs), ours) in NAMES.iter().zip(&theirs.gpr).zip(&ours.gpr) {
            if ours != theirs {
                differ(name, theirs, ours);
            }
        }
        if ours.ip != theirs.ip {
            differ("rip", &theirs.ip, &ours.ip);
        }
        if (ours.flags ^ theirs.flags) & COMPARED_FLAGS & !undefined.flags != 0 {
            differ("flags", &theirs.flags, &ours.flags);
        }
        let (host, emulated) = (self.host.window(), self.emulated.window());
        if host != emulated {
            for at in (0..WINDOW_BYTES).step_by(8) {
                if host[at..at + 8] != emulated[at..at + 8] {
                    let at_address = format!("[{:#x}]", WINDOW + at as u64);
                    differ(&at_address, &&host[at..at + 8], &&emulated[at..at + 8]);
                }
            }
            emulated.copy_from_slice(host);
        }
        if differences.is_empty() {
            return Ok(Run { state: theirs, fault: their_fault });
        }
        Err(differences)
    }
}

/// What the manuals leave open of a run.
#[derive(Clone, Copy, Debug, Default)]
pub struct Undefined {
    /// These flags.
    pub flags: u64,
    /// Which of two operands faults first, where both do.
    pub first_fault: bool,
}

/// What both sides agreed on.
#[derive(Clone, Debug)]
pub struct Run {
    pub state: State,
    pub fault: Option<Fault>,
}

const NAMES: [&str; 16] = [
    "rax", "rcx", "rdx", "rbx", "rsp", "rbp", "rsi", "rdi", "r8", "r9", "r10", "r11", "r12", "r13",
    "r14", "r15",
];
