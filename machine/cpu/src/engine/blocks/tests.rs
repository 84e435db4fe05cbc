//! What blocks cost, and what they consist of.

use super::*;
use iced_x86::{Code, Mnemonic};

#[test]
fn a_return_to_an_address_that_was_just_put_there_is_mispredicted() {
    let cost_from = |start: u64, bytes: &[u8]| {
        let mut memory = GuestMemory::new(1 << 20);
        memory.ram[..bytes.len()].copy_from_slice(bytes);
        let mut costs = [1; Cost::COUNT];
        costs[Cost::MispredictedReturn as usize] = 100;
        let mut cache = Blocks::new(InstructionCosts(costs), Dialect::Amd);
        let index = cache.build(&mut memory, start, CodeSize::Bits64, None).expect("a block");
        cache.block(index).cost
    };
    let cost = |bytes: &[u8]| cost_from(0, bytes);
    // A run that was cut goes on at the return.
    assert_eq!(cost_from(5, &[0x48, 0x8D, 0x64, 0x24, 0x08, 0xC3]), 100);
    assert_eq!(cost_from(4, &[0x4C, 0x89, 0x1C, 0x24, 0xC3]), 100);
    // lea rsp, [rsp+8]; ret, and mov [rsp], rax; ret
    assert_eq!(cost(&[0x48, 0x8D, 0x64, 0x24, 0x08, 0xC3]), 101);
    assert_eq!(cost(&[0x48, 0x89, 0x04, 0x24, 0xC3]), 101);
    // add rsp, 8; ret frees a local; lea rsp, [rsp+16]; ret too; nop between is none of ours
    assert_eq!(cost(&[0x48, 0x83, 0xC4, 0x08, 0xC3]), 2);
    assert_eq!(cost(&[0x48, 0x8D, 0x64, 0x24, 0x10, 0xC3]), 2);
    assert_eq!(cost(&[0x48, 0x89, 0x04, 0x24, 0x90, 0xC3]), 3);
}

#[test]
fn a_block_tells_its_instructions_apart_though_pairs_are_fused_and_handlers_shared() {
    // add eax, 1; cmp eax, ebx; je +0; hlt, which is a block of its own
    let bytes = [0x83, 0xC0, 0x01, 0x39, 0xD8, 0x74, 0x00, 0xF4];
    let mut memory = GuestMemory::new(1 << 20);
    memory.ram[..bytes.len()].copy_from_slice(&bytes);
    let mut cache = Blocks::new(InstructionCosts([1; Cost::COUNT]), Dialect::Amd);
    let index = cache.build(&mut memory, 0, CodeSize::Bits64, None).expect("a block");
    let kinds: Vec<_> = cache.kinds(cache.block(index)).collect();
    let mnemonics: Vec<_> = kinds.iter().map(|kind| kind.mnemonic()).collect();
    assert_eq!(mnemonics, [Mnemonic::Add, Mnemonic::Cmp, Mnemonic::Je]);
    assert_eq!(kinds[0].code(), Code::Add_rm32_imm8);
}
