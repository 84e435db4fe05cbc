//! FXSAVE, FXRSTOR, the XSAVE family, FSTENV and FSAVE: what they leave in memory and registers.
#![cfg(all(target_arch = "x86_64", target_os = "linux"))]

use cpu::float::extended::Extended;
use differential_vector::operands::Random;
use differential_vector::{Block, Emulated, MEMORY, Native, is_others, signal};
use iced_x86::IcedError;
use iced_x86::code_asm::*;

type Assemble = fn(&mut CodeAssembler) -> Result<(), IcedError>;

const UNTOUCHED: u8 = 0xA5;
const MXCSR: usize = 24;
const HEADER: usize = 512;
/// Opcode and pointers of the legacy region.
const POINTERS: std::ops::Range<usize> = 6..24;

fn encode(assemble: Assemble) -> Vec<u8> {
    let mut assembler = CodeAssembler::new(64).expect("64-bit code");
    assemble(&mut assembler).expect("encodes");
    assembler.assemble(0x1_0000).expect("assembles")
}

/// A full state: every register different, some flags sticky, perhaps components in their initial
/// state, perhaps an exception pending.
fn state(random: &mut Random, may_be_pending: bool) -> Block {
    let mut block = Block::default();
    block.memory = [UNTOUCHED; MEMORY];
    block.rax = 3;
    block.rdx = 0;
    if random.below(4) != 0 {
        block.image.set_status_word((random.below(8) as u16) << 11 | 0x21);
        block.image.set_tags(random.next_u64() as u8);
        for index in 0..8 {
            block.image.set_st(index, random.extended());
        }
        if may_be_pending && random.below(2) == 0 {
            block.image.set_control_word(0x37E);
            let status = block.image.status_word();
            block.image.set_status_word(status | 0x8080);
        }
    }
    if random.below(4) != 0 {
        (0..16).for_each(|index| block.image.set_xmm(index, random.next_u128()));
    }
    if random.below(2) != 0 {
        block.image.set_mxcsr(0x1F80 | random.next_u64() as u32 & 0xFFBF);
    }
    block
}

/// Runs one instruction on both and compares everything but `skipped` bytes of memory.
fn check(
    name: &str,
    assemble: Assemble,
    skipped: &[std::ops::Range<usize>],
    prepare: impl Fn(&mut Random) -> Block,
) {
    let bytes = encode(assemble);
    let native = Native::from_bytes(&bytes);
    let mut emulated = Emulated::of_host();
    emulated.load(&bytes);
    let mut random = Random(70);
    for case in 0..2000 {
        let before = prepare(&mut random);
        let (mut host, mut ours) = (before.clone(), before.clone());
        let caught = native.run(&mut host);
        let vector = emulated.run(&mut ours);
        assert_eq!(signal(vector), caught, "{name} case {case}: exception {vector:?}");
        for range in skipped {
            host.memory[range.clone()].fill(0);
            ours.memory[range.clone()].fill(0);
        }
        for at in (0..MEMORY).step_by(8) {
            let (theirs, mine) = (&host.memory[at..at + 8], &ours.memory[at..at + 8]);
            let original = &before.memory[at..at + 8];
            assert_eq!(
                theirs,
                mine,
                "{name} case {case}: host left, at {at}, before {original:02x?}, status {:04x}",
                before.image.status_word()
            );
        }
        assert_same_registers(name, case, &host, &ours);
    }
}

fn assert_same_registers(name: &str, case: usize, host: &Block, ours: &Block) {
    let summary = |block: &Block| {
        let image = &block.image;
        (image.control_word(), image.status_word(), image.tags(), image.mxcsr())
    };
    assert_eq!(summary(host), summary(ours), "{name} case {case}: host left");
    for index in 0..8 {
        assert_eq!(host.image.st(index), ours.image.st(index), "{name} case {case}: ST{index}");
    }
    for index in 0..16 {
        assert_eq!(host.image.xmm(index), ours.image.xmm(index), "{name} case {case}: XMM{index}");
    }
    assert_eq!((host.rax, host.rdx), (ours.rax, ours.rdx), "{name} case {case}");
}

#[test]
fn fxsave_leaves_what_a_processor_leaves() {
    check("fxsave64", |a| a.fxsave64(ptr(rsi)), &[], |random| state(random, true));
    // The trampoline's pointers are 64-bit: their upper halves are the segments of this form.
    check(
        "fxsave",
        |a| a.fxsave(ptr(rsi)),
        std::slice::from_ref(&POINTERS),
        |random| state(random, true),
    );
    check("misaligned", |a| a.fxsave64(ptr(rsi + 8)), &[], |random| state(random, false));
}

/// A legacy region in memory, with a header for XRSTOR.
fn saved(random: &mut Random) -> Block {
    let mut block = state(random, false);
    let other = state(random, false);
    block.memory[..HEADER].copy_from_slice(&other.image.0);
    block.memory[HEADER..].fill(0);
    if random.below(8) == 0 {
        block.memory[MXCSR + 2] |= 0x40;
    }
    block
}

#[test]
fn fxrstor_loads_what_a_processor_loads() {
    check("fxrstor64", |a| a.fxrstor64(ptr(rsi)), &[], saved);
    check("fxrstor", |a| a.fxrstor(ptr(rsi)), &[], saved);
}

#[test]
fn xsave_leaves_what_a_processor_leaves() {
    let prepare = |random: &mut Random| {
        let mut block = state(random, false);
        block.rax = random.below(4);
        let header = [0, 1, 2, 3, 0x204][random.below(5) as usize];
        block.memory[HEADER..HEADER + 64].fill(0);
        block.memory[HEADER..HEADER + 8].copy_from_slice(&u64::to_le_bytes(header));
        block
    };
    // Whether x87 counts as in use is the processor's business (XINUSE): bit 0 is not compared.
    let vector = HEADER..HEADER + 1;
    check("xsave64", |a| a.xsave64(ptr(rsi)), &[vector], prepare);
    check("misaligned", |a| a.xsave64(ptr(rsi + 16)), &[], prepare);
}

#[test]
fn xrstor_loads_what_a_processor_loads() {
    let prepare = |random: &mut Random| {
        let mut block = saved(random);
        block.rax = random.below(4);
        block.memory[HEADER] = random.below(4) as u8;
        match random.below(12) {
            0 => block.memory[HEADER + 7] = 0x40,
            1 => block.memory[HEADER + 9] = 1,
            2 => block.memory[HEADER + 17] = 1,
            3 => block.memory[HEADER + 30] = 1,
            _ => {}
        }
        block
    };
    check("xrstor64", |a| a.xrstor64(ptr(rsi)), &[], prepare);
    let compacted = |random: &mut Random| {
        let mut block = saved(random);
        block.rax = random.below(4);
        let held = random.below(4) as u8;
        let layout = held | random.below(4) as u8;
        block.memory[HEADER] = held;
        block.memory[HEADER + 8] = layout;
        block.memory[HEADER + 15] = 0x80;
        match random.below(12) {
            0 => block.memory[HEADER] = 3 & !layout | held,
            1 => block.memory[HEADER + 14] = 0x40,
            2 => block.memory[HEADER + 40] = 1,
            _ => {}
        }
        block
    };
    if is_others("xrstor64 compacted") {
        return;
    }
    if std::is_x86_feature_detected!("xsavec") {
        check("xrstor64 compacted", |a| a.xrstor64(ptr(rsi)), &[], compacted);
    } else {
        println!("skipped: the host has no XSAVEC");
    }
}

/// XSAVEC writes only what is in use, so the initial state is told apart by the other tests.
#[test]
fn xsavec_leaves_what_a_processor_leaves() {
    if !std::is_x86_feature_detected!("xsavec") {
        println!("skipped: the host has no XSAVEC");
        return;
    }
    let prepare = |random: &mut Random| {
        let mut block = state(random, false);
        block.image.set_st(0, Extended::ONE);
        block.image.set_tags(0xFF);
        block.image.set_xmm(3, 7);
        block.rax = random.below(4);
        block
    };
    // The two headers' words are compared; what follows them is reserved.
    let reserved = HEADER + 16..HEADER + 64;
    check("xsavec64", |a| a.xsavec64(ptr(rsi)), &[reserved], prepare);
}

#[test]
fn environments_leave_what_a_processor_leaves() {
    let stack = |random: &mut Random| state(random, true);
    check("fnstenv", |a| a.fnstenv(ptr(rsi + 4)), &[], stack);
    check("fnsave", |a| a.fnsave(ptr(rsi + 1)), &[], stack);
}

/// The environment names the last instruction that was not a control instruction: its opcode and
/// its operand. Addresses differ between host and emulation, so offsets are compared.
#[test]
fn environments_name_the_last_instruction() {
    if is_others("the opcode of the last instruction") {
        return;
    }
    const OPCODE: usize = 64 + 18;
    const DATA: usize = 64 + 20;
    let sequences: [Assemble; 4] = [
        |a| {
            a.fadd(dword_ptr(rsi + 4))?;
            a.fnstenv(ptr(rsi + 64))
        },
        |a| {
            a.fstp(tbyte_ptr(rsi + 16))?;
            a.fnstenv(ptr(rsi + 64))
        },
        |a| {
            a.fxch(st0, st1)?;
            a.fnstenv(ptr(rsi + 64))
        },
        |a| {
            a.fnclex()?;
            a.fnstenv(ptr(rsi + 64))
        },
    ];
    for (index, assemble) in sequences.into_iter().enumerate() {
        let bytes = encode(assemble);
        let native = Native::from_bytes(&bytes);
        let mut emulated = Emulated::of_host();
        emulated.load(&bytes);
        let mut host = Block::default();
        host.image.set_stack(Extended::ONE, Extended::ONE);
        let mut ours = host.clone();
        native.run(&mut host);
        emulated.run_many(&mut ours, 2);
        let word =
            |block: &Block, at: usize| u16::from_le_bytes([block.memory[at], block.memory[at + 1]]);
        assert_eq!(word(&host, OPCODE), word(&ours, OPCODE), "sequence {index}: opcode");
        let base = host.memory.as_ptr() as u16;
        let offset = match word(&host, DATA) {
            0 => 0,
            address => address.wrapping_sub(base),
        };
        assert_eq!(offset, word(&ours, DATA), "sequence {index}: operand");
    }
}
