//! Why an instruction did not simply hand over to the next one, and why a run ended.

use std::num::NonZeroU64;

/// The outcome of an instruction other than "continue with the next", packed so that
/// `Result<(), Stop>` is one register.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Stop(NonZeroU64);

/// [`Stop`] taken apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Completed; the next instruction must be looked up again (modes or code changed).
    EndBlock,
    /// Completed; `Cpu::ip` already holds the next instruction.
    Branch,
    /// A fused compare and branch has completed; `Cpu::ip` already holds the next instruction.
    FusedBranch,
    /// A fused compare and branch has completed, and the branch was not taken.
    FusedThrough,
    /// Not completed; the same instruction continues after interrupts had their chance.
    Repeat,
    /// Not started: processors that are behind run first.
    Defer,
    /// Not started: it reaches something that answers by the time, and so runs by itself.
    Alone,
    /// Completed; the processor waits for an interrupt.
    Halt,
    /// Not completed: a fault.
    Exception { vector: u8, error: Option<u32> },
    /// A software interrupt, INT3, INTO or INT1; delivered with the next IP.
    Software { vector: u8, source: SoftwareSource },
    /// The guest of a hypervisor stops; the exit's particulars are in the processor.
    VmExit,
    /// Triple fault.
    Shutdown,
}

/// Which instruction raised a software interrupt: their privilege checks differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[repr(u8)]
pub enum SoftwareSource {
    /// INT n
    Int = 0,
    /// INT3
    Int3 = 1,
    /// INTO
    Into = 2,
    /// INT1 (ICEBP): delivered as a hardware exception without privilege check.
    Int1 = 3,
}

const EXCEPTION: u64 = 5;
const SOFTWARE: u64 = 6;
const HAS_ERROR: u64 = 1 << 16;

impl Stop {
    const fn new(bits: u64) -> Self {
        match NonZeroU64::new(bits) {
            Some(bits) => Self(bits),
            None => panic!("a stop has a kind"),
        }
    }

    pub const END_BLOCK: Self = Self::new(1);
    pub const BRANCH: Self = Self::new(2);
    pub const REPEAT: Self = Self::new(3);
    pub const HALT: Self = Self::new(4);
    pub const FUSED_BRANCH: Self = Self::new(9);
    pub const FUSED_THROUGH: Self = Self::new(10);
    pub const VM_EXIT: Self = Self::new(7);
    pub const SHUTDOWN: Self = Self::new(8);
    pub const DEFER: Self = Self::new(11);
    pub const ALONE: Self = Self::new(12);

    /// #UD
    pub const INVALID_OPCODE: Self = Self::exception(arch::exception::INVALID_OPCODE);
    /// #GP(0)
    pub const GENERAL_PROTECTION: Self =
        Self::exception_with(arch::exception::GENERAL_PROTECTION, 0);
    /// #SS(0)
    pub const STACK: Self = Self::exception_with(arch::exception::STACK, 0);
    /// #NM
    pub const DEVICE_NOT_AVAILABLE: Self = Self::exception(arch::exception::DEVICE_NOT_AVAILABLE);
    /// #DE
    pub const DIVIDE_ERROR: Self = Self::exception(arch::exception::DIVIDE_ERROR);

    pub const fn exception(vector: u8) -> Self {
        Self::new(EXCEPTION | (vector as u64) << 8)
    }

    pub const fn exception_with(vector: u8, error: u32) -> Self {
        Self::new(EXCEPTION | (vector as u64) << 8 | HAS_ERROR | (error as u64) << 32)
    }

    /// #GP with a selector's index and table as error code.
    pub const fn gp(selector: u16) -> Self {
        Self::exception_with(arch::exception::GENERAL_PROTECTION, (selector & !3) as u32)
    }

    pub const fn software(vector: u8, source: SoftwareSource) -> Self {
        Self::new(SOFTWARE | (vector as u64) << 8 | (source as u64) << 24)
    }

    pub fn kind(self) -> Kind {
        let bits = self.0.get();
        let vector = (bits >> 8) as u8;
        match bits & 0xFF {
            1 => Kind::EndBlock,
            2 => Kind::Branch,
            3 => Kind::Repeat,
            4 => Kind::Halt,
            EXCEPTION => Kind::Exception {
                vector,
                error: (bits & HAS_ERROR != 0).then_some((bits >> 32) as u32),
            },
            SOFTWARE => Kind::Software {
                vector,
                source: match bits >> 24 & 3 {
                    0 => SoftwareSource::Int,
                    1 => SoftwareSource::Int3,
                    2 => SoftwareSource::Into,
                    _ => SoftwareSource::Int1,
                },
            },
            7 => Kind::VmExit,
            9 => Kind::FusedBranch,
            10 => Kind::FusedThrough,
            11 => Kind::Defer,
            12 => Kind::Alone,
            _ => Kind::Shutdown,
        }
    }
}

impl std::fmt::Debug for Stop {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.kind().fmt(f)
    }
}

const _: () = assert!(std::mem::size_of::<Result<(), Stop>>() == 8);

/// Why a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunEnd {
    /// The processor's clock reached the limit.
    Time,
    /// The given number of instructions has completed.
    Instructions,
    /// The instruction that would be executed next is one that a debugger wants to stop at.
    Point,
    /// Nothing to do until an interrupt; the clock stands still.
    Idle,
    /// Effects wait, or a device was touched.
    Yield,
    /// Triple fault.
    Shutdown,
}
