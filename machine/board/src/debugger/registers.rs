//! The registers that a debugger sees, in its order, with the description that it is sent.
//! [GDB "i386 Features"]
//!
//! Addresses are linear and the description is always that of a 64-bit processor, in every mode.

use gdbstub::arch::{Arch, Registers};
use std::sync::LazyLock;

/// One processor's registers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DebugRegisters {
    /// RAX, RBX, RCX, RDX, RSI, RDI, RBP, RSP, R8 to R15.
    pub general: [u64; 16],
    /// The offset in the code segment.
    pub rip: u64,
    /// The low half, in which all flags lie.
    pub rflags: u32,
    /// CS, SS, DS, ES, FS, GS: selectors.
    pub segments: [u32; 6],
    /// ST0 to ST7, 80 bits each.
    pub x87: [[u8; 10]; 8],
    /// Control, status and tag word, instruction segment and offset, operand segment and offset,
    /// opcode.
    pub x87_control: [u32; 8],
    /// XMM0 to XMM15.
    pub xmm: [u128; 16],
    /// SSE's control and status.
    pub mxcsr: u32,
    /// The high halves of YMM0 to YMM15.
    pub ymm_high: [u128; 16],
    /// The base of FS.
    pub fs_base: u64,
    /// The base of GS.
    pub gs_base: u64,
    /// CR0, CR2, CR3, CR4, CR8, EFER, and the bases of CS, SS and the task register.
    pub system: [u64; SYSTEM.len()],
}

const GENERAL: [&str; 16] = [
    "rax", "rbx", "rcx", "rdx", "rsi", "rdi", "rbp", "rsp", "r8", "r9", "r10", "r11", "r12", "r13",
    "r14", "r15",
];
const SEGMENTS: [&str; 6] = ["cs", "ss", "ds", "es", "fs", "gs"];
const X87_CONTROL: [&str; 8] =
    ["fctrl", "fstat", "ftag", "fiseg", "fioff", "foseg", "fooff", "fop"];
const SYSTEM: [&str; 9] =
    ["cr0", "cr2", "cr3", "cr4", "cr8", "efer", "cs_base", "ss_base", "tr_base"];

/// The description, whose order is that of [`Registers::gdb_serialize`].
static DESCRIPTION: LazyLock<String> = LazyLock::new(|| {
    let mut core = String::from(
        "<flags id=\"rflags\" size=\"4\">\
         <field name=\"CF\" start=\"0\" end=\"0\"/><field name=\"PF\" start=\"2\" end=\"2\"/>\
         <field name=\"AF\" start=\"4\" end=\"4\"/><field name=\"ZF\" start=\"6\" end=\"6\"/>\
         <field name=\"SF\" start=\"7\" end=\"7\"/><field name=\"TF\" start=\"8\" end=\"8\"/>\
         <field name=\"IF\" start=\"9\" end=\"9\"/><field name=\"DF\" start=\"10\" end=\"10\"/>\
         <field name=\"OF\" start=\"11\" end=\"11\"/><field name=\"NT\" start=\"14\" end=\"14\"/>\
         <field name=\"RF\" start=\"16\" end=\"16\"/><field name=\"VM\" start=\"17\" end=\"17\"/>\
         <field name=\"AC\" start=\"18\" end=\"18\"/><field name=\"ID\" start=\"21\" end=\"21\"/>\
         </flags>",
    );
    for name in GENERAL {
        let kind = if matches!(name, "rbp" | "rsp") { "data_ptr" } else { "int64" };
        core += &register(name, 64, kind);
    }
    core += &register("rip", 64, "code_ptr");
    core += &register("eflags", 32, "rflags");
    SEGMENTS.iter().for_each(|name| core += &register(name, 32, "int32"));
    (0..8).for_each(|n| core += &register(&format!("st{n}"), 80, "i387_ext"));
    X87_CONTROL.iter().for_each(|name| core += &register(name, 32, "int"));
    let mut sse = vector_types();
    (0..16).for_each(|n| sse += &register(&format!("xmm{n}"), 128, "vec128"));
    sse += &register("mxcsr", 32, "int");
    let avx: String = (0..16).map(|n| register(&format!("ymm{n}h"), 128, "uint128")).collect();
    let segments = register("fs_base", 64, "int64") + &register("gs_base", 64, "int64");
    let system: String = SYSTEM.iter().map(|name| register(name, 64, "uint64")).collect();
    let features = [
        ("org.gnu.gdb.i386.core", core),
        ("org.gnu.gdb.i386.sse", sse),
        ("org.gnu.gdb.i386.avx", avx),
        ("org.gnu.gdb.i386.segments", segments),
        ("org.avicenna.system", system),
    ];
    let features: String = features
        .iter()
        .map(|(name, body)| format!("<feature name=\"{name}\">{body}</feature>"))
        .collect();
    format!(
        "<?xml version=\"1.0\"?><!DOCTYPE target SYSTEM \"gdb-target.dtd\">\
         <target version=\"1.0\"><architecture>i386:x86-64</architecture>{features}</target>"
    )
});

fn register(name: &str, bits: u32, kind: &str) -> String {
    format!("<reg name=\"{name}\" bitsize=\"{bits}\" type=\"{kind}\"/>")
}

/// The views of an SSE register.
fn vector_types() -> String {
    let views = [
        ("v4_float", "ieee_single", 4),
        ("v2_double", "ieee_double", 2),
        ("v16_int8", "int8", 16),
        ("v8_int16", "int16", 8),
        ("v4_int32", "int32", 4),
        ("v2_int64", "int64", 2),
    ];
    let vectors: String = views
        .iter()
        .map(|(name, kind, n)| format!("<vector id=\"{name}\" type=\"{kind}\" count=\"{n}\"/>"))
        .collect();
    let fields: String = views
        .iter()
        .map(|(name, ..)| format!("<field name=\"{name}\" type=\"{name}\"/>"))
        .collect();
    let whole = "<field name=\"uint128\" type=\"uint128\"/>";
    format!("{vectors}<union id=\"vec128\">{fields}{whole}</union>")
}

/// The architecture as the protocol's library wants it.
pub enum X86_64 {}

impl Arch for X86_64 {
    type Usize = u64;
    type Registers = DebugRegisters;
    type BreakpointKind = usize;
    type RegId = ();

    fn target_description_xml() -> Option<&'static str> {
        Some(&DESCRIPTION)
    }
}

/// Takes fixed-size pieces off the front of the bytes that a debugger sent.
struct Pieces<'a>(&'a [u8]);

impl Pieces<'_> {
    fn array<const N: usize>(&mut self) -> Result<[u8; N], ()> {
        let (piece, rest) = self.0.split_first_chunk::<N>().ok_or(())?;
        self.0 = rest;
        Ok(*piece)
    }

    fn u32s<const N: usize>(&mut self, into: &mut [u32; N]) -> Result<(), ()> {
        into.iter_mut().try_for_each(|value| {
            *value = u32::from_le_bytes(self.array()?);
            Ok(())
        })
    }

    fn u64s(&mut self, into: &mut [u64]) -> Result<(), ()> {
        into.iter_mut().try_for_each(|value| {
            *value = u64::from_le_bytes(self.array()?);
            Ok(())
        })
    }
}

impl Registers for DebugRegisters {
    type ProgramCounter = u64;

    fn pc(&self) -> u64 {
        self.rip
    }

    fn gdb_serialize(&self, mut write_byte: impl FnMut(Option<u8>)) {
        let mut put = |bytes: &[u8]| bytes.iter().for_each(|byte| write_byte(Some(*byte)));
        self.general.iter().for_each(|value| put(&value.to_le_bytes()));
        put(&self.rip.to_le_bytes());
        put(&self.rflags.to_le_bytes());
        self.segments.iter().for_each(|value| put(&value.to_le_bytes()));
        self.x87.iter().for_each(|value| put(value));
        self.x87_control.iter().for_each(|value| put(&value.to_le_bytes()));
        self.xmm.iter().for_each(|value| put(&value.to_le_bytes()));
        put(&self.mxcsr.to_le_bytes());
        self.ymm_high.iter().for_each(|value| put(&value.to_le_bytes()));
        put(&self.fs_base.to_le_bytes());
        put(&self.gs_base.to_le_bytes());
        self.system.iter().for_each(|value| put(&value.to_le_bytes()));
    }

    fn gdb_deserialize(&mut self, bytes: &[u8]) -> Result<(), ()> {
        let mut pieces = Pieces(bytes);
        pieces.u64s(&mut self.general)?;
        self.rip = u64::from_le_bytes(pieces.array()?);
        self.rflags = u32::from_le_bytes(pieces.array()?);
        pieces.u32s(&mut self.segments)?;
        for value in &mut self.x87 {
            *value = pieces.array()?;
        }
        pieces.u32s(&mut self.x87_control)?;
        for value in &mut self.xmm {
            *value = u128::from_le_bytes(pieces.array()?);
        }
        self.mxcsr = u32::from_le_bytes(pieces.array()?);
        for value in &mut self.ymm_high {
            *value = u128::from_le_bytes(pieces.array()?);
        }
        self.fs_base = u64::from_le_bytes(pieces.array()?);
        self.gs_base = u64::from_le_bytes(pieces.array()?);
        pieces.u64s(&mut self.system)
    }
}
