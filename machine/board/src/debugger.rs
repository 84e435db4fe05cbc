//! The GDB remote protocol: every processor is a thread. [GDB "Remote Protocol"]
//!
//! What is debugged is behind [`Debuggee`]; this module speaks the protocol over any connection.
//! Breakpoints of either kind are kept beside memory, never written into it, so the guest does not
//! see them. A machine goes backwards as well, as far as its past is kept: a run is the same
//! however it is cut, so the past is repeated up to where it is wanted. Left out: non-stop mode,
//! files of the target.

mod access;
mod back;
mod command;
mod forward;
mod history;
mod looks;
mod machine;
mod registers;
mod session;
mod target;

pub use machine::DebuggedMachine;
pub use registers::DebugRegisters;
pub use session::{DebugError, Ending, serve};

use arch::address::Linear;
use arch::identity::CpuIndex;

/// Where execution is to stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum StopPoint {
    /// Before any processor executes the instruction at this address.
    Execute(Linear),
    /// After any processor's access to these bytes, or a write to them by hardware.
    Watch {
        /// The first byte.
        start: Linear,
        /// In bytes.
        length: u64,
        /// Which accesses count.
        access: WatchedAccess,
    },
}

/// The kinds of the protocol's watchpoints.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum WatchedAccess {
    /// Reads only.
    Read,
    /// Writes only.
    Write,
    /// Reads and writes.
    Either,
}

/// Why execution stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// A processor is about to execute the instruction at a point.
    Execute {
        /// The processor; it has not executed it.
        cpu: CpuIndex,
    },
    /// A processor or, in its turn, hardware accessed watched bytes.
    Watch {
        /// The processor; it has completed the instruction.
        cpu: CpuIndex,
        /// The first byte that is watched.
        address: Linear,
        /// The kind of the watchpoint.
        access: WatchedAccess,
    },
    /// An event came that was waited for.
    Event {
        /// Where; it has completed the instruction that the event comes from.
        cpu: CpuIndex,
    },
    /// A processor did the step that it was told to do.
    Stepped {
        /// The processor.
        cpu: CpuIndex,
    },
    /// A processor shut down after a fault that it could not deliver.
    Shutdown {
        /// The processor.
        cpu: CpuIndex,
    },
    /// Going backwards came to where the past that is kept begins.
    Beginning,
    /// The machine is off, with the exit status of the run.
    Off {
        /// As the program would exit with it.
        status: u8,
    },
}

/// What the other processors do while one steps; a debugger's "scheduler locking".
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Others {
    /// They go on as virtual time has it.
    Run,
    /// They stand still, which no real machine can do.
    Stand,
}

/// How to go backwards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Backwards {
    /// To the last point that was passed.
    Continue,
    /// To before the last instruction of a processor.
    Step(CpuIndex),
}

/// What a debugger can do to a machine.
pub trait Debuggee {
    /// Processors, the protocol's threads.
    fn cpu_count(&self) -> u16;

    /// A few words on a processor for the list of threads, such as "halted, 64-bit, CPL 0".
    fn describe(&self, cpu: CpuIndex) -> String;

    /// A processor's registers as they are.
    fn registers(&self, cpu: CpuIndex) -> DebugRegisters;

    /// Sets what can be set; false if a value is not possible.
    fn set_registers(&mut self, cpu: CpuIndex, registers: &DebugRegisters) -> bool;

    /// Reads memory as the processor would, whatever its privilege; how many bytes were readable.
    fn read_memory(&mut self, cpu: CpuIndex, start: Linear, into: &mut [u8]) -> usize;

    /// Writes memory as the processor would, even where it is read-only; false if some is not
    /// mapped to RAM.
    fn write_memory(&mut self, cpu: CpuIndex, start: Linear, from: &[u8]) -> bool;

    /// Adds a point; false if there cannot be one more. The same point may be there twice, and is
    /// then to be removed twice.
    fn insert(&mut self, point: StopPoint) -> bool;

    /// Removes a point; false if there is none like it.
    fn remove(&mut self, point: StopPoint) -> bool;

    /// Lets the machine go on until the processor has executed one instruction or taken one
    /// event, or something else stops it. Points at the processor's present address do not stop
    /// it.
    fn step(&mut self, cpu: CpuIndex, others: Others) -> Stop;

    /// Lets the machine, or one processor of it, go on for a while: a few milliseconds of the
    /// host's time. `None` if nothing stopped it. Points at the present address of a processor do
    /// stop it.
    fn run(&mut self, only: Option<CpuIndex>) -> Option<Stop>;

    /// Whether [`Debuggee::run_back`] does something.
    fn goes_back(&self) -> bool {
        false
    }

    /// Goes backwards for a while; `None` if there is more to do. At a point to execute the
    /// processor stands as it did; at one to watch, before the access.
    fn run_back(&mut self, _how: Backwards) -> Option<Stop> {
        Some(Stop::Beginning)
    }

    /// What there is to tell of the last stop besides, in lines of text.
    fn take_words(&mut self) -> String {
        String::new()
    }

    /// Obeys a `monitor` command and answers in lines of text.
    fn command(&mut self, command: &str) -> String {
        format!("no such command: {command}\n")
    }
}

#[cfg(test)]
mod tests;
