//! The four formats of the x87 environment outside 64-bit mode.
//! [SDM1 "Protected Mode x87 FPU State Image in Memory, 32-Bit Format"] and the three after it.
#![cfg(all(target_arch = "x86_64", target_os = "linux"))]

use arch::control::{Cr0, Efer};
use arch::segment::{Attributes, Segment, SegmentRegister};
use differential_vector::{Block, Emulated};

/// FADD m32 at [ESI], then FNSTENV at [ESI + 64], with an operand-size prefix for the short forms.
const FADD: &[u8] = &[0xD8, 0x06];
const FNSTENV: &[u8] = &[0xD9, 0x76, 0x40];
const OPERAND_SIZE: u8 = 0x66;

fn environment(is_real: bool, is_short: bool) -> Vec<u8> {
    let mut emulated = Emulated::new("zen4");
    let cpu = emulated.processor();
    cpu.control.set_efer(Efer::empty());
    cpu.control.switch_cr0(Cr0::PAGING, false);
    cpu.control.switch_cr0(Cr0::PROTECTION_ENABLE, !is_real);
    let code = cpu.registers.segment(SegmentRegister::Cs);
    let code = Segment { attributes: Attributes(0xC9B), ..code };
    cpu.registers.set_segment(SegmentRegister::Cs, code);
    cpu.update_access_mode();
    let mut code = FADD.to_vec();
    code.extend(is_short.then_some(OPERAND_SIZE));
    code.extend(FNSTENV);
    emulated.load(&code);
    let mut block = Block::default();
    block.image.set_status_word(0x3800);
    block.image.set_tags(0x80);
    assert_eq!(emulated.run_many(&mut block, 2), None);
    block.memory[64..64 + if is_short { 14 } else { 28 }].to_vec()
}

fn words(bytes: &[u8]) -> Vec<u16> {
    bytes.chunks(2).map(|pair| u16::from_le_bytes([pair[0], pair[1]])).collect()
}

/// Control, status, tags: ST0 is a zero in R7, the rest is empty.
const HEADS: [u16; 3] = [0x37F, 0x3800, 0x7FFF];
const FADD_OPCODE: u16 = 0x006;

#[test]
fn protected_mode_names_selectors() {
    let [control, status, tags] = HEADS;
    let short = [control, status, tags, 0, 8, 0, 16];
    assert_eq!(words(&environment(false, true)), short);
    let long =
        [control, 0xFFFF, status, 0xFFFF, tags, 0xFFFF, 0, 1, 8, FADD_OPCODE, 0, 2, 16, 0xFFFF];
    assert_eq!(words(&environment(false, false)), long);
}

/// Selectors 8 and 16 put 80h and 100h onto the offsets 1_0000h and 2_0000h.
#[test]
fn real_mode_names_linear_addresses() {
    let [control, status, tags] = HEADS;
    let short = [control, status, tags, 0x80, 1 << 12 | FADD_OPCODE, 0x100, 2 << 12];
    assert_eq!(words(&environment(true, true)), short);
    let long = [
        control,
        0xFFFF,
        status,
        0xFFFF,
        tags,
        0xFFFF,
        0x80,
        0xFFFF,
        1 << 12 | FADD_OPCODE,
        0,
        0x100,
        0xFFFF,
        2 << 12,
        0,
    ];
    assert_eq!(words(&environment(true, false)), long);
}
