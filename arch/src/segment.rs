//! Segment selectors, descriptors and the hidden part of segment registers.
//! [APM2 "Segmented Virtual Memory"]

use serde::{Deserialize, Serialize};

/// The six segment registers in their encoding order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[repr(u8)]
pub enum SegmentRegister {
    /// The destination of string instructions.
    Es = 0,
    /// Its descriptor's L and D bits give the code size.
    Cs = 1,
    /// Its DPL is the CPL.
    Ss = 2,
    /// What data accesses use by default.
    Ds = 3,
    /// With a base of 64 bits in 64-bit mode.
    Fs = 4,
    /// With a base of 64 bits in 64-bit mode, which SWAPGS exchanges.
    Gs = 5,
}

impl SegmentRegister {
    /// In encoding order.
    pub const ALL: [Self; 6] = [Self::Es, Self::Cs, Self::Ss, Self::Ds, Self::Fs, Self::Gs];

    /// Encodings 6 and 7 do not exist.
    pub const fn from_encoding(encoding: u8) -> Option<Self> {
        match encoding {
            0 => Some(Self::Es),
            1 => Some(Self::Cs),
            2 => Some(Self::Ss),
            3 => Some(Self::Ds),
            4 => Some(Self::Fs),
            5 => Some(Self::Gs),
            _ => None,
        }
    }
}

/// Attributes as in bits 55:52 and 47:40 of a descriptor, packed to 12 bits
/// {G, D/B, L, AVL, P, DPL, S, type}, the form that a VMCB uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Attributes(pub u16);

impl Attributes {
    /// Bit 3 of a type with S set: code, and not data.
    pub const CODE: u16 = 1 << 3;
    /// The four type bits; for system segments one of [`system`].
    pub const fn kind(self) -> u8 {
        (self.0 & 15) as u8
    }
    /// A code or data segment, not a system descriptor.
    pub const fn is_code_or_data(self) -> bool {
        self.0 & 0x10 != 0
    }
    /// S and the type's bit 3.
    pub const fn is_code(self) -> bool {
        self.0 & 0x18 == 0x18
    }
    /// S without the type's bit 3.
    pub const fn is_data(self) -> bool {
        self.0 & 0x18 == 0x10
    }
    /// Code: may be read. Data: may be written.
    pub const fn is_readable_or_writable(self) -> bool {
        self.0 & 2 != 0
    }
    /// Data with the type's W bit.
    pub const fn is_writable_data(self) -> bool {
        self.0 & 0x1A == 0x12
    }
    /// Every data segment, and code with the type's R bit.
    pub const fn is_readable(self) -> bool {
        self.is_data() || self.0 & 0x1A == 0x1A
    }
    /// Code: conforming. Data: expand-down.
    pub const fn is_conforming_or_expand_down(self) -> bool {
        self.0 & 4 != 0
    }
    /// Data with the type's E bit: offsets above the limit are the legal ones.
    pub const fn is_expand_down(self) -> bool {
        self.0 & 0x1C == 0x14
    }
    /// Code with the type's C bit: callable from less privilege, without a change of CPL.
    pub const fn is_conforming(self) -> bool {
        self.0 & 0x1C == 0x1C
    }
    /// Descriptor privilege level, 0–3.
    pub const fn dpl(self) -> u8 {
        (self.0 >> 5 & 3) as u8
    }
    /// P.
    pub const fn is_present(self) -> bool {
        self.0 & 0x80 != 0
    }
    /// L: 64-bit code.
    pub const fn is_long(self) -> bool {
        self.0 & 0x200 != 0
    }
    /// D of a code segment, B of a stack segment.
    pub const fn is_big(self) -> bool {
        self.0 & 0x400 != 0
    }
    /// G: the descriptor's limit counts 4 KiB pages.
    pub const fn is_granular(self) -> bool {
        self.0 & 0x800 != 0
    }
}

/// A segment register with its hidden part.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Segment {
    /// RPL in bits 1:0, table indicator in bit 2.
    pub selector: u16,
    /// Of the descriptor that was loaded.
    pub attributes: Attributes,
    /// In bytes, granularity applied.
    pub limit: u32,
    /// Linear address of its first byte; 64-bit mode heeds it in FS and GS alone.
    pub base: u64,
}

impl Segment {
    /// What loading `selector` in real or virtual-8086 mode gives to a segment register.
    pub const fn real(selector: u16) -> Self {
        Self { selector, attributes: Attributes(0x93), limit: 0xFFFF, base: (selector as u64) << 4 }
    }
}

/// System descriptor types. [APM2 "System Descriptors"]
pub mod system {
    /// Illegal in long mode, as are all types of 16 bits.
    pub const TSS16_AVAILABLE: u8 = 1;
    /// The local descriptor table: 16 bytes in long mode.
    pub const LDT: u8 = 2;
    /// [`TSS16_AVAILABLE`] of a task that runs or is nested in.
    pub const TSS16_BUSY: u8 = 3;
    /// Target with 16 bits of offset.
    pub const CALL_GATE16: u8 = 4;
    /// Leads to a task switch; illegal in long mode.
    pub const TASK_GATE: u8 = 5;
    /// Clears IF on entry.
    pub const INTERRUPT_GATE16: u8 = 6;
    /// Leaves IF alone.
    pub const TRAP_GATE16: u8 = 7;
    /// The 64-bit TSS of long mode too.
    pub const TSS32_AVAILABLE: u8 = 9;
    /// [`TSS32_AVAILABLE`] of a task that runs or is nested in; the loaded one in long mode.
    pub const TSS32_BUSY: u8 = 11;
    /// The 64-bit call gate of long mode too.
    pub const CALL_GATE32: u8 = 12;
    /// Clears IF on entry; the 64-bit gate of long mode too.
    pub const INTERRUPT_GATE32: u8 = 14;
    /// Leaves IF alone; the 64-bit gate of long mode too.
    pub const TRAP_GATE32: u8 = 15;
}

/// A descriptor as read from a table; gates have other fields in the same places.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Descriptor(pub u64);

impl Descriptor {
    /// Bits 55:52 and 47:40.
    pub const fn attributes(self) -> Attributes {
        Attributes((self.0 >> 40 & 0xFF) as u16 | (self.0 >> 44 & 0xF00) as u16)
    }

    /// In bytes, granularity applied.
    pub const fn limit(self) -> u32 {
        let raw = (self.0 & 0xFFFF) as u32 | (self.0 >> 32 & 0xF_0000) as u32;
        if self.attributes().is_granular() { raw << 12 | 0xFFF } else { raw }
    }

    /// The low 32 bits; a system descriptor of long mode has the rest in its second half.
    pub const fn base(self) -> u64 {
        (self.0 >> 16 & 0xFF_FFFF) | (self.0 >> 32 & 0xFF00_0000)
    }

    /// What loading `selector`, which names this descriptor, gives to a segment register.
    pub const fn segment(self, selector: u16) -> Segment {
        Segment { selector, attributes: self.attributes(), limit: self.limit(), base: self.base() }
    }

    /// A gate's target selector.
    pub const fn gate_selector(self) -> u16 {
        (self.0 >> 16) as u16
    }

    /// A gate's target offset, low 32 bits.
    pub const fn gate_offset(self) -> u32 {
        (self.0 & 0xFFFF) as u32 | (self.0 >> 32) as u32 & 0xFFFF_0000
    }

    /// A call gate's parameter count, or a long-mode interrupt gate's IST index in bits 2:0.
    pub const fn gate_count(self) -> u8 {
        (self.0 >> 32 & 31) as u8
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flat_64_bit_code_descriptor_decodes() {
        let descriptor = Descriptor(0x00AF_9B00_0000_FFFF);
        assert_eq!(descriptor.base(), 0);
        assert_eq!(descriptor.limit(), 0xFFFF_FFFF);
        assert!(descriptor.attributes().is_code() && descriptor.attributes().is_long());
        assert!(descriptor.attributes().is_present() && descriptor.attributes().dpl() == 0);
    }
}
