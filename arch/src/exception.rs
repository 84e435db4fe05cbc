//! Exception vectors, their error codes and classes. [APM2 "Exceptions and Interrupts"]

/// \#DE: also a quotient that does not fit.
pub const DIVIDE_ERROR: u8 = 0;
/// \#DB: fault or trap, DR6 says of what.
pub const DEBUG: u8 = 1;
/// Not an exception, but delivered through the same table.
pub const NMI: u8 = 2;
/// \#BP: INT3.
pub const BREAKPOINT: u8 = 3;
/// \#OF: INTO.
pub const OVERFLOW: u8 = 4;
/// \#BR: BOUND.
pub const BOUND_RANGE: u8 = 5;
/// \#UD
pub const INVALID_OPCODE: u8 = 6;
/// \#NM: an x87 or SSE instruction under CR0.TS or EM.
pub const DEVICE_NOT_AVAILABLE: u8 = 7;
/// \#DF: the error code is always 0.
pub const DOUBLE_FAULT: u8 = 8;
/// \#TS
pub const INVALID_TSS: u8 = 10;
/// \#NP
pub const SEGMENT_NOT_PRESENT: u8 = 11;
/// \#SS: the stack segment's limit or presence, or a non-canonical address through it.
pub const STACK: u8 = 12;
/// \#GP
pub const GENERAL_PROTECTION: u8 = 13;
/// \#PF: CR2 holds the linear address.
pub const PAGE_FAULT: u8 = 14;
/// \#MF: an x87 error that was left pending.
pub const X87: u8 = 16;
/// \#AC
pub const ALIGNMENT_CHECK: u8 = 17;
/// \#MC
pub const MACHINE_CHECK: u8 = 18;
/// \#XF (Intel: #XM): an unmasked SSE error.
pub const SIMD: u8 = 19;
/// \#VE: Intel, an EPT violation that the hypervisor leaves to the guest.
#[doc(alias = "VE")]
pub const VIRTUALIZATION: u8 = 20;
/// \#SX: AMD, an INIT that VM_CR redirects; its error code is 1.
#[doc(alias = "SX")]
pub const SECURITY: u8 = 30;

/// Whether the processor pushes an error code.
pub const fn has_error_code(vector: u8) -> bool {
    matches!(vector, 8 | 10..=14 | 17 | 21)
}

/// How an exception combines with one being delivered. [APM2 "#DF—Double-Fault Exception"]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Class {
    /// Delivered after whatever came before.
    Benign,
    /// After another of its class, or after a page fault: a double fault.
    Contributory,
    /// After a contributory exception it is delivered; after another page fault: a double fault.
    PageFault,
    /// After it, any exception that is not benign shuts the processor down.
    DoubleFault,
}

/// The class of a vector; interrupts, and exceptions that the manual does not list, are benign.
pub const fn class(vector: u8) -> Class {
    match vector {
        0 | 10..=13 => Class::Contributory,
        14 | VIRTUALIZATION => Class::PageFault,
        8 => Class::DoubleFault,
        _ => Class::Benign,
    }
}
