//! What code of a block has on its way, and what it has not.

use crate::{Block, Mode, Step, translate, translation_place};
use iced_x86::{Decoder, DecoderOptions, Instruction, Mnemonic};

#[test]
fn pages_that_follow_each_other_have_places_of_their_own() {
    for page in 0..1u64 << 21 {
        let [one, next] = [page, page + 1].map(|page| translation_place(page << 12));
        assert_ne!(one, next, "pages {page:#x} and the next");
    }
}

/// The code of a block up to its first way out that is always taken.
fn way(bytes: &[u8]) -> Vec<Instruction> {
    let mut steps = Vec::new();
    for instruction in Decoder::new(64, bytes, DecoderOptions::NONE).iter() {
        let (call, length) = (steps.len() as u32, instruction.len() as u8);
        steps.push(Step { length, end_time: 300 * (call + 1), call, asks: false });
    }
    let code = translate(Block {
        mode: Mode::Long,
        bytes,
        steps: &steps,
        offset: 0,
        second_page: None,
        is_plain: true,
        first_counter: None,
        options: DecoderOptions::NONE,
    });
    let code = code.expect("a block of instructions");
    let decoder = Decoder::new(64, code.bytes(), DecoderOptions::NONE);
    decoder.into_iter().take_while(|i| i.mnemonic() != Mnemonic::Jmp).collect()
}

fn count(way: &[Instruction], mnemonic: Mnemonic) -> usize {
    way.iter().filter(|i| i.mnemonic() == mnemonic).count()
}

#[test]
fn flags_are_saved_where_the_block_ends_and_not_before_an_access() {
    // mov [rdx], rax between two operations that replace all flags.
    let access = [0x48, 0x89, 0x02];
    for (name, first) in [
        ("xor rax, rcx", &[0x48, 0x31, 0xC8][..]),
        ("add rax, rcx", &[0x48, 0x01, 0xC8]),
        ("sub rax, 8", &[0x48, 0x83, 0xE8, 8]),
        ("cmp rax, rcx", &[0x48, 0x39, 0xC8]),
        ("test rax, rcx", &[0x48, 0x85, 0xC8]),
    ] {
        let block = [first, &access, &[0x48, 0x29, 0xC8]].concat();
        assert_eq!(count(&way(&block), Mnemonic::Lahf), 1, "{name}");
    }
    // INC keeps the carry, which nothing makes again.
    let block = [&[0x48, 0xFF, 0xC0][..], &access, &[0x48, 0x29, 0xC8]].concat();
    assert_eq!(count(&way(&block), Mnemonic::Lahf), 2, "inc rax");
}

#[test]
fn flags_whose_registers_change_are_saved_first() {
    // cmp rax, rcx; mov rax, [rdx]: a condition after it looks at what has been saved.
    let block = [0x48, 0x39, 0xC8, 0x48, 0x8B, 0x02, 0x0F, 0x94, 0xC3];
    let saved = count(&way(&block), Mnemonic::Lahf);
    // cmp rax, rcx; mov rbx, [rdx]: it is compared again.
    let block = [0x48, 0x39, 0xC8, 0x48, 0x8B, 0x1A, 0x0F, 0x94, 0xC3];
    let again = way(&block);
    assert_eq!(saved, 1);
    // Two, and one for the page and one for the room.
    assert_eq!(count(&again, Mnemonic::Cmp), 3);
}

#[test]
fn a_register_that_the_host_happens_to_hold_is_not_loaded_again() {
    // Of R14: xor r14, rax; add r14, rcx.
    let loads = |block: &[u8]| {
        let of_frame = |i: &&Instruction| i.memory_base() == iced_x86::Register::RBP;
        let moves = way(block);
        let moves = moves.iter().filter(|i| i.mnemonic() == Mnemonic::Mov);
        moves.filter(|i| i.op0_kind() == iced_x86::OpKind::Register).filter(of_frame).count()
    };
    let first = [0x49, 0x31, 0xC6];
    assert_eq!(loads(&first), 1);
    assert_eq!(loads(&[first, [0x49, 0x01, 0xCE]].concat()), 1);
}
