//! The litmus tests as data. [Owens, Sarkar, Sewell: "A Better x86 Memory Model: x86-TSO"]
//! [Sewell, Sarkar, Owens, Nardelli, Myreen: "x86-TSO"] [SDM3 "Examples Illustrating the
//! Memory-Ordering Principles"]

use Step::{Exchange, Fence, Load, LockedElsewhere, Store};

/// Variables, each in a line of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Variable {
    X,
    Y,
}
use Variable::{X, Y};

pub const VARIABLES: usize = 2;
/// Registers of a thread.
pub const REGISTERS: usize = 2;

/// An instruction; registers are numbers.
#[derive(Clone, Copy, Debug)]
pub enum Step {
    /// MOV to memory.
    Store(Variable, u32),
    /// MOV from memory.
    Load(usize, Variable),
    /// MFENCE
    Fence,
    /// XCHG with memory; the register has the value before.
    Exchange(usize, Variable, u32),
    /// LOCK INC of memory that nobody else uses.
    LockedElsewhere,
}

/// Everything that is looked at in the end: the threads' registers, and the variables.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Outcome {
    pub registers: [[u32; REGISTERS]; 4],
    pub memory: [u32; VARIABLES],
}

/// What published tables say of one outcome.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Only with store buffers.
    Relaxed,
    /// With or without them.
    Plain,
    Forbidden,
}

pub struct Test {
    pub name: &'static str,
    pub threads: &'static [&'static [Step]],
    /// The outcome that the test is known for.
    pub is_known: fn(&Outcome) -> bool,
    pub verdict: Verdict,
}

macro_rules! test {
    ($name:literal, $verdict:ident, $known:expr, $($thread:expr),+) => {
        Test {
            name: $name,
            threads: &[$(&$thread),+],
            is_known: $known,
            verdict: Verdict::$verdict,
        }
    };
}

pub const TESTS: &[Test] = &[
    test!(
        "SB",
        Relaxed,
        |o| o.registers[0][0] == 0 && o.registers[1][0] == 0,
        [Store(X, 1), Load(0, Y)],
        [Store(Y, 1), Load(0, X)]
    ),
    test!(
        "SB+mfences",
        Forbidden,
        |o| o.registers[0][0] == 0 && o.registers[1][0] == 0,
        [Store(X, 1), Fence, Load(0, Y)],
        [Store(Y, 1), Fence, Load(0, X)]
    ),
    test!(
        "SB+mfence+po",
        Relaxed,
        |o| o.registers[0][0] == 0 && o.registers[1][0] == 0,
        [Store(X, 1), Fence, Load(0, Y)],
        [Store(Y, 1), Load(0, X)]
    ),
    test!(
        "SB+xchgs",
        Forbidden,
        |o| o.registers[0][0] == 0 && o.registers[1][0] == 0,
        [Exchange(1, X, 1), Load(0, Y)],
        [Exchange(1, Y, 1), Load(0, X)]
    ),
    test!(
        "SB+locks",
        Forbidden,
        |o| o.registers[0][0] == 0 && o.registers[1][0] == 0,
        [Store(X, 1), LockedElsewhere, Load(0, Y)],
        [Store(Y, 1), LockedElsewhere, Load(0, X)]
    ),
    test!(
        "SB+rfis",
        Relaxed,
        |o| o.registers[0] == [1, 0] && o.registers[1] == [1, 0],
        [Store(X, 1), Load(0, X), Load(1, Y)],
        [Store(Y, 1), Load(0, Y), Load(1, X)]
    ),
    test!(
        "MP",
        Forbidden,
        |o| o.registers[1] == [1, 0],
        [Store(X, 1), Store(Y, 1)],
        [Load(0, Y), Load(1, X)]
    ),
    test!(
        "LB",
        Forbidden,
        |o| o.registers[0][0] == 1 && o.registers[1][0] == 1,
        [Load(0, X), Store(Y, 1)],
        [Load(0, Y), Store(X, 1)]
    ),
    test!(
        "IRIW",
        Forbidden,
        |o| o.registers[2] == [1, 0] && o.registers[3] == [1, 0],
        [Store(X, 1)],
        [Store(Y, 1)],
        [Load(0, X), Load(1, Y)],
        [Load(0, Y), Load(1, X)]
    ),
    test!(
        "n4",
        Forbidden,
        |o| o.registers[0][0] == 2 && o.registers[1][0] == 1,
        [Load(0, X), Store(X, 1)],
        [Load(0, X), Store(X, 2)]
    ),
    test!(
        "n5",
        Forbidden,
        |o| o.registers[0][0] == 2 && o.registers[1][0] == 1,
        [Store(X, 1), Load(0, X)],
        [Store(X, 2), Load(0, X)]
    ),
    test!(
        "n6",
        Relaxed,
        |o| o.registers[0] == [1, 0] && o.memory[0] == 1,
        [Store(X, 1), Load(0, X), Load(1, Y)],
        [Store(Y, 2), Store(X, 2)]
    ),
    test!(
        "2+2W",
        Forbidden,
        |o| o.memory == [1, 1],
        [Store(X, 1), Store(Y, 2)],
        [Store(Y, 1), Store(X, 2)]
    ),
    test!(
        "R",
        Relaxed,
        |o| o.memory[1] == 2 && o.registers[1][0] == 0,
        [Store(X, 1), Store(Y, 1)],
        [Store(Y, 2), Load(0, X)]
    ),
    test!(
        "S",
        Forbidden,
        |o| o.memory[0] == 2 && o.registers[1][0] == 1,
        [Store(X, 2), Store(Y, 1)],
        [Load(0, Y), Store(X, 1)]
    ),
    test!(
        "WRC",
        Forbidden,
        |o| o.registers[1][0] == 1 && o.registers[2] == [1, 0],
        [Store(X, 1)],
        [Load(0, X), Store(Y, 1)],
        [Load(0, Y), Load(1, X)]
    ),
    test!(
        "RWC",
        Relaxed,
        |o| o.registers[1] == [1, 0] && o.registers[2][0] == 0,
        [Store(X, 1)],
        [Load(0, X), Load(1, Y)],
        [Store(Y, 1), Load(0, X)]
    ),
    test!("CoRR", Forbidden, |o| o.registers[1] == [1, 0], [Store(X, 1)], [Load(0, X), Load(1, X)]),
    test!(
        "MP, the other way",
        Plain,
        |o| o.registers[1] == [0, 1],
        [Store(X, 1), Store(Y, 1)],
        [Load(0, Y), Load(1, X)]
    ),
];
