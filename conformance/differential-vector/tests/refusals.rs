//! When floating-point and vector instructions are refused: control registers that no test can
//! change on its host. [APM2 "CR0 Register"] [APM2 "CR4 Register"] [APM3 "Exceptions"]
#![cfg(all(target_arch = "x86_64", target_os = "linux"))]

use arch::control::{Cr0, Cr4};
use arch::exception::{
    DEVICE_NOT_AVAILABLE as NM, GENERAL_PROTECTION as GP, INVALID_OPCODE as UD, SIMD as XM,
    X87 as MF,
};
use differential_vector::{Block, Emulated};

const FADD: &[u8] = &[0xD8, 0xC1];
const FWAIT: &[u8] = &[0x9B];
const FNSTSW: &[u8] = &[0xDF, 0xE0];
const PADDB_MMX: &[u8] = &[0x0F, 0xFC, 0xC1];
const EMMS: &[u8] = &[0x0F, 0x77];
const ADDPS: &[u8] = &[0x0F, 0x58, 0xC1];
const DIVPS: &[u8] = &[0x0F, 0x5E, 0xC1];
const PADDB: &[u8] = &[0x66, 0x0F, 0xFC, 0xC1];
const FXSAVE: &[u8] = &[0x0F, 0xAE, 0x06];
const XSAVE: &[u8] = &[0x0F, 0xAE, 0x26];
const XGETBV: &[u8] = &[0x0F, 0x01, 0xD0];
const XSETBV: &[u8] = &[0x0F, 0x01, 0xD1];
const STMXCSR: &[u8] = &[0x0F, 0xAE, 0x1E];
const AESENC: &[u8] = &[0x66, 0x0F, 0x38, 0xDC, 0xC1];

const NONE: Cr0 = Cr0::empty();
const EM: Cr0 = Cr0::EMULATION;
const TS: Cr0 = Cr0::TASK_SWITCHED;

fn vector_of(
    instruction: &[u8],
    model: &str,
    block: &mut Block,
    change: impl Fn(&mut cpu::Cpu),
) -> Option<u8> {
    let mut emulated = Emulated::new(model);
    change(emulated.processor());
    emulated.load(instruction);
    emulated.run(block)
}

#[test]
fn cr0_and_cr4_decide_who_is_refused_how() {
    let all = Cr4::OSFXSR | Cr4::OSXSAVE | Cr4::OSXMMEXCPT;
    let no_sse = Cr4::OSXSAVE | Cr4::OSXMMEXCPT;
    let no_xsave = Cr4::OSFXSR | Cr4::OSXMMEXCPT;
    let rows: &[(&[u8], Cr0, Cr4, Option<u8>)] = &[
        (FADD, NONE, all, None),
        (FADD, EM, all, Some(NM)),
        (FADD, TS, all, Some(NM)),
        (FNSTSW, TS, all, Some(NM)),
        (FWAIT, EM, all, None),
        (FWAIT, TS, all, Some(NM)),
        (PADDB_MMX, NONE, all, None),
        (PADDB_MMX, EM, all, Some(UD)),
        (PADDB_MMX, TS, all, Some(NM)),
        (PADDB_MMX, NONE, no_sse, None),
        (EMMS, EM, all, Some(UD)),
        (ADDPS, NONE, all, None),
        (ADDPS, EM, all, Some(UD)),
        (ADDPS, TS, all, Some(NM)),
        (ADDPS, NONE, no_sse, Some(UD)),
        (ADDPS, TS, no_sse, Some(UD)),
        (PADDB, NONE, no_sse, Some(UD)),
        (STMXCSR, TS, all, Some(NM)),
        (STMXCSR, NONE, no_sse, Some(UD)),
        (AESENC, EM, all, Some(UD)),
        (FXSAVE, NONE, no_sse, None),
        (FXSAVE, EM, all, Some(NM)),
        (FXSAVE, TS, all, Some(NM)),
        (XSAVE, NONE, all, None),
        (XSAVE, EM, all, None),
        (XSAVE, TS, all, Some(NM)),
        (XSAVE, NONE, no_xsave, Some(UD)),
        (XSAVE, TS, no_xsave, Some(UD)),
        (XGETBV, TS, all, None),
        (XGETBV, NONE, no_xsave, Some(UD)),
        (XSETBV, NONE, no_xsave, Some(UD)),
    ];
    for &(instruction, cr0, cr4, expected) in rows {
        let mut block = Block::default();
        block.image.set_tags(0xFF);
        if instruction == XSETBV || instruction == XGETBV {
            block.rcx = 0;
        }
        let vector = vector_of(instruction, "zen4", &mut block, |cpu| {
            cpu.control.switch_cr0(cr0, true);
            cpu.control.set_cr4(Cr4::PAE | cr4);
        });
        assert_eq!(vector, expected, "{instruction:02x?} {cr0:?} {cr4:?}");
    }
}

#[test]
fn wait_is_refused_only_with_both_task_switched_and_monitor() {
    for (monitors, expected) in [(true, Some(NM)), (false, None)] {
        let vector = vector_of(FWAIT, "zen4", &mut Block::default(), |cpu| {
            cpu.control.switch_cr0(TS, true);
            cpu.control.switch_cr0(Cr0::MONITOR_COPROCESSOR, monitors);
        });
        assert_eq!(vector, expected, "CR0.MP {monitors}");
    }
}

/// An unmasked exception waits for the next instruction that waits.
#[test]
fn pending_exceptions_reach_waiting_instructions_where_cr0_ne_is_set() {
    let rows: &[(&[u8], bool, Option<u8>)] = &[
        (FADD, true, Some(MF)),
        (FWAIT, true, Some(MF)),
        (PADDB_MMX, true, Some(MF)),
        (EMMS, true, Some(MF)),
        (FNSTSW, true, None),
        (ADDPS, true, None),
        (FXSAVE, true, None),
        (FADD, false, None),
        (FWAIT, false, None),
    ];
    for &(instruction, numeric_error, expected) in rows {
        let mut block = Block::default();
        block.image.set_tags(0xFF);
        block.image.set_control_word(0x37B);
        block.image.set_status_word(0x8084);
        let vector = vector_of(instruction, "zen4", &mut block, |cpu| {
            cpu.control.switch_cr0(Cr0::NUMERIC_ERROR, numeric_error);
        });
        assert_eq!(vector, expected, "{instruction:02x?} CR0.NE {numeric_error}");
    }
}

#[test]
fn unmasked_simd_exceptions_are_xm_or_ud() {
    for (handles, expected) in [(true, XM), (false, UD)] {
        let mut block = Block::default();
        block.image.set_mxcsr(0x1D80);
        block.image.set_xmm(0, 0x3F80_0000);
        let vector = vector_of(DIVPS, "zen4", &mut block, |cpu| {
            cpu.control.switch_cr4(Cr4::OSXMMEXCPT, handles);
        });
        assert_eq!(vector, Some(expected), "CR4.OSXMMEXCPT {handles}");
        assert_eq!(block.image.xmm(0), 0x3F80_0000, "the destination is kept");
        assert_eq!(block.image.mxcsr() & 0x3F, 0x05, "ZE, and IE for the zero lanes");
    }
}

#[test]
fn xsetbv_accepts_only_what_the_model_enumerates() {
    const X87: u64 = 1;
    const SSE: u64 = 2;
    let rows = [
        (0, X87, None),
        (0, X87 | SSE, None),
        (0, SSE, Some(GP)),
        (0, X87 | 1 << 20, Some(GP)),
        (0, 1 << 63 | X87, Some(GP)),
        (1, X87, Some(GP)),
    ];
    for (register, value, expected) in rows {
        let mut block = Block::default();
        block.rcx = register;
        block.rax = value & 0xFFFF_FFFF;
        block.rdx = value >> 32;
        let vector = vector_of(XSETBV, "zen4", &mut block, |_| {});
        assert_eq!(vector, expected, "XCR{register} {value:#x}");
    }
    let mut block = Block::default();
    block.rax = X87;
    let vector = vector_of(XSETBV, "zen4", &mut block, |cpu| cpu.registers.set_cpl(3));
    assert_ne!(vector, None, "not at CPL 3");
}

/// What a model does not list is an undefined opcode.
#[test]
fn optional_instructions_need_their_feature() {
    const PCLMULQDQ: &[u8] = &[0x66, 0x0F, 0x3A, 0x44, 0xC1, 0];
    const SHA1NEXTE: &[u8] = &[0x0F, 0x38, 0xC8, 0xC1];
    const EXTRQ: &[u8] = &[0x66, 0x0F, 0x79, 0xC1];
    for instruction in [AESENC, PCLMULQDQ, SHA1NEXTE, EXTRQ, XGETBV] {
        let generic = vector_of(instruction, "generic", &mut Block::default(), |_| {});
        assert_eq!(generic, Some(UD), "{instruction:02x?} on generic");
        let zen4 = vector_of(instruction, "zen4", &mut Block::default(), |_| {});
        assert_eq!(zen4, None, "{instruction:02x?} on zen4");
    }
}
