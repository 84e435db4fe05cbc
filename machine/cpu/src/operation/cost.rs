//! Classes of instructions by what they cost.

/// What an instruction costs, by class; the numbers are the board's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Cost {
    /// Registers alone, in the integer pipeline.
    Simple,
    /// A memory operand that is read.
    Load,
    /// A memory operand that is written.
    Store,
    /// Branches, calls and returns, taken or not.
    Branch,
    /// MUL and IMUL.
    Multiply,
    /// DIV and IDIV.
    Divide,
    /// LOCK, and XCHG with memory.
    Locked,
    /// SSE, MMX and the quick ones of x87.
    Vector,
    /// Divisions, square roots and transcendental functions.
    FloatSlow,
    /// String instructions; elements cost beside it.
    StringSetup,
    /// MFENCE and SFENCE.
    Fence,
    /// LFENCE.
    LoadFence,
    /// PAUSE.
    Pause,
    /// Saving and loading of extended state, undefined instructions, and what stands alone without
    /// a class of its own.
    System,
    /// What stands alone and waits for all before it: CPUID, MSRs, control registers.
    Serializing,
    /// RDTSC and RDTSCP.
    TimeStamp,
    /// A near return whose address the instruction before it has put there, by a store to the
    /// stack's top or by dropping another: the return predictor has what the last CALL left, and is
    /// wrong. Retpolines and SRSO's safe return are made of these.
    MispredictedReturn,
    /// IN and OUT: a round trip to a device on a slow bus.
    Port,
}

impl Cost {
    /// All of them, in their order.
    pub const ALL: [Self; Self::COUNT] = {
        use Cost::*;
        [
            Simple,
            Load,
            Store,
            Branch,
            Multiply,
            Divide,
            Locked,
            Vector,
            FloatSlow,
            StringSetup,
            Fence,
            LoadFence,
            Pause,
            System,
            Serializing,
            TimeStamp,
            MispredictedReturn,
            Port,
        ]
    };
    /// Classes, for tables by class.
    pub const COUNT: usize = 18;
}

/// Picoseconds per class of instruction, chosen by the board's cost profile.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InstructionCosts(pub [u32; Cost::COUNT]);
