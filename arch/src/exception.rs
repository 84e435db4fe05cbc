//! Exception vectors, their error codes and classes. [APM2 "Exceptions and Interrupts"]

pub const DIVIDE_ERROR: u8 = 0;
pub const DEBUG: u8 = 1;
pub const NMI: u8 = 2;
pub const BREAKPOINT: u8 = 3;
pub const OVERFLOW: u8 = 4;
pub const BOUND_RANGE: u8 = 5;
pub const INVALID_OPCODE: u8 = 6;
pub const DEVICE_NOT_AVAILABLE: u8 = 7;
pub const DOUBLE_FAULT: u8 = 8;
pub const INVALID_TSS: u8 = 10;
pub const SEGMENT_NOT_PRESENT: u8 = 11;
pub const STACK: u8 = 12;
pub const GENERAL_PROTECTION: u8 = 13;
pub const PAGE_FAULT: u8 = 14;
pub const X87: u8 = 16;
pub const ALIGNMENT_CHECK: u8 = 17;
pub const MACHINE_CHECK: u8 = 18;
pub const SIMD: u8 = 19;
#[doc(alias = "SX")]
pub const SECURITY: u8 = 30;

/// Whether the processor pushes an error code.
pub const fn has_error_code(vector: u8) -> bool {
    matches!(vector, 8 | 10..=14 | 17 | 21)
}

/// How an exception combines with one being delivered. [APM2 "#DF—Double-Fault Exception"]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Class {
    Benign,
    Contributory,
    PageFault,
    DoubleFault,
}

pub const fn class(vector: u8) -> Class {
    match vector {
        0 | 10..=13 => Class::Contributory,
        14 => Class::PageFault,
        8 => Class::DoubleFault,
        _ => Class::Benign,
    }
}
