//! The VM-exit instruction-information field, 440Eh.
//! [SDM3 "Information for VM Exits Due to Instruction Execution"]

use bitfield_struct::bitfield;
use serde::{Deserialize, Serialize};

/// All formats in one: each instruction defines some of the fields, and the rest are undefined.
///
/// | Instructions | Fields |
/// |---|---|
/// | INS, OUTS | address size, segment |
/// | INVEPT, INVPCID, INVVPID | memory operand, second register |
/// | LGDT, LIDT, SGDT, SIDT | memory operand, operand size, identity |
/// | LLDT, LTR, SLDT, STR | memory or register operand, identity |
/// | RDRAND, RDSEED, TPAUSE, UMWAIT | first register, operand size |
/// | VMCLEAR, VMPTRLD, VMPTRST, VMXON, XRSTORS, XSAVES | memory operand |
/// | VMREAD, VMWRITE | memory or register operand, second register |
#[bitfield(u32)]
#[derive(PartialEq, Eq, Serialize, Deserialize)]
pub struct InstructionInformation {
    /// \[1:0\] the index is shifted left by this.
    #[bits(2)]
    pub scale: u8,
    __: bool,
    /// \[6:3\] of a register operand.
    #[bits(4)]
    pub first_register: u8,
    /// \[9:7\] 0 is 16 bits, 1 is 32, 2 is 64.
    #[bits(3)]
    pub address_size: u8,
    /// \[10\]
    pub is_register_operand: bool,
    /// \[12:11\] 0 is 16 bits, 1 is 32, 2 is 64.
    #[bits(2)]
    pub operand_size: u8,
    #[bits(2)]
    __: u8,
    /// \[17:15\] ES, CS, SS, DS, FS, GS.
    #[bits(3)]
    pub segment: u8,
    /// \[21:18\]
    #[bits(4)]
    pub index_register: u8,
    /// \[22\]
    pub has_no_index: bool,
    /// \[26:23\]
    #[bits(4)]
    pub base_register: u8,
    /// \[27\]
    pub has_no_base: bool,
    /// \[31:28\]; \[29:28\] is the identity of a descriptor-table instruction.
    #[bits(4)]
    pub second_register: u8,
}

/// [`InstructionInformation::second_register`] of a GDTR or IDTR access.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum TableInstruction {
    /// Stores GDTR.
    Sgdt = 0,
    /// Stores IDTR.
    Sidt = 1,
    /// Loads GDTR.
    Lgdt = 2,
    /// Loads IDTR.
    Lidt = 3,
}

/// [`InstructionInformation::second_register`] of an LDTR or TR access.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum SelectorInstruction {
    /// Stores the selector of LDTR.
    Sldt = 0,
    /// Stores the selector of TR.
    Str = 1,
    /// Loads LDTR.
    Lldt = 2,
    /// Loads TR.
    Ltr = 3,
}
