//! An interrupt and the data that it announces. [SDM3 "MSR Access in x2APIC Mode"]

use crate::bare::Bare;
use iced_x86::IcedError;
use iced_x86::code_asm::*;

const VECTOR: u32 = 0x40;
const IDT: u32 = 0x6000;
const IDT_REGISTER: u32 = 0x7000;
const GDT: u32 = 0x7100;
const GDT_REGISTER: u32 = 0x7200;
/// The round that the data is of, the round that was acknowledged, rounds whose data came late,
/// and whether the receiver is there.
const DATA: u32 = 0x8000;
const ANSWER: u32 = 0x8040;
const STALE: u32 = 0x8080;
const READY: u32 = 0x80C0;
const HANDLER: u32 = 0x1_1800;
const ROUNDS: u32 = 2_000;
const SELECTORS: [u64; 3] = [0, 0x00CF_9B00_0000_FFFF, 0x00CF_9300_0000_FFFF];

/// What stands between the store and the interrupt.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Fence {
    Nothing,
    Load,
    Memory,
    Both,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Mode {
    X2Apic,
    XApic,
}

fn write_msr(a: &mut CodeAssembler, number: u32, low: u32, high: u32) -> Result<(), IcedError> {
    a.mov(ecx, number)?;
    a.mov(eax, low)?;
    a.mov(edx, high)?;
    a.wrmsr()
}

fn enable(a: &mut CodeAssembler, mode: Mode) -> Result<(), IcedError> {
    if mode == Mode::XApic {
        return a.mov(dword_ptr(0xFEE0_00F0u32), 0x1FF);
    }
    a.mov(ecx, 0x1B)?;
    a.rdmsr()?;
    a.or(eax, 0xC00)?;
    a.wrmsr()?;
    write_msr(a, 0x80F, 0x1FF, 0)
}

fn sender(a: &mut CodeAssembler, fence: Fence, mode: Mode) -> Result<(), IcedError> {
    enable(a, mode)?;
    let (mut ready, mut again, mut wait) = (a.create_label(), a.create_label(), a.create_label());
    a.set_label(&mut ready)?;
    a.cmp(dword_ptr(READY), 1)?;
    a.jne(ready)?;
    a.xor(ebx, ebx)?;
    a.set_label(&mut again)?;
    a.inc(ebx)?;
    a.mov(dword_ptr(DATA), ebx)?;
    match fence {
        Fence::Nothing => {}
        Fence::Load => a.lfence()?,
        Fence::Memory => a.mfence()?,
        Fence::Both => {
            a.mfence()?;
            a.lfence()?;
        }
    }
    match mode {
        Mode::X2Apic => write_msr(a, 0x830, 0x4000 | VECTOR, 1)?,
        Mode::XApic => {
            a.mov(dword_ptr(0xFEE0_0310u32), 1 << 24)?;
            a.mov(dword_ptr(0xFEE0_0300u32), 0x4000 | VECTOR)?;
        }
    }
    a.set_label(&mut wait)?;
    a.cmp(dword_ptr(ANSWER), ebx)?;
    a.jne(wait)?;
    a.cmp(ebx, ROUNDS)?;
    a.jne(again)?;
    a.cli()?;
    a.hlt()
}

/// Waits for interrupts; the handler compares the data with the rounds that it has counted in EBX.
fn receiver(a: &mut CodeAssembler, mode: Mode) -> Result<(), IcedError> {
    enable(a, mode)?;
    a.lgdt(ptr(GDT_REGISTER))?;
    a.lidt(ptr(IDT_REGISTER))?;
    a.xor(ebx, ebx)?;
    a.mov(dword_ptr(READY), 1)?;
    a.mfence()?;
    a.sti()?;
    let mut wait = a.create_label();
    a.set_label(&mut wait)?;
    a.cmp(ebx, ROUNDS)?;
    a.jne(wait)?;
    a.cli()?;
    a.hlt()
}

fn handler(a: &mut CodeAssembler, mode: Mode) -> Result<(), IcedError> {
    let mut fresh = a.create_label();
    a.inc(ebx)?;
    a.cmp(dword_ptr(DATA), ebx)?;
    a.je(fresh)?;
    a.inc(dword_ptr(STALE))?;
    a.set_label(&mut fresh)?;
    match mode {
        Mode::X2Apic => write_msr(a, 0x80B, 0, 0)?,
        Mode::XApic => a.mov(dword_ptr(0xFEE0_00B0u32), 0)?,
    }
    a.mov(dword_ptr(ANSWER), ebx)?;
    a.iretd()
}

/// How many interrupts came before their data.
fn stale(model: &str, order: &str, fence: Fence, mode: Mode) -> u32 {
    let mut bare = Bare::new(model, order, 1, 2, 1 << 20);
    bare.load(0, |a| sender(a, fence, mode));
    bare.load(1, |a| receiver(a, mode));
    let mut a = CodeAssembler::new(32).expect("32 bits are a mode");
    handler(&mut a, mode).expect("the handler is well-formed");
    bare.put(HANDLER.into(), &a.assemble(HANDLER.into()).expect("the handler assembles"));
    let gate = u64::from(HANDLER & 0xFFFF) | 8 << 16 | 0x8E00 << 32;
    let gate = gate | u64::from(HANDLER >> 16) << 48;
    bare.put((IDT + 8 * VECTOR).into(), &gate.to_le_bytes());
    bare.put(GDT.into(), SELECTORS.map(u64::to_le_bytes).as_flattened());
    for (at, limit, base) in [(IDT_REGISTER, 0x7FFu16, IDT), (GDT_REGISTER, 23, GDT)] {
        bare.put(at.into(), &limit.to_le_bytes());
        bare.put((at + 2).into(), &base.to_le_bytes());
    }
    bare.run();
    assert_eq!((bare.get(DATA.into()), bare.get(ANSWER.into())), (ROUNDS, ROUNDS));
    bare.get(STALE.into())
}

#[test]
fn an_unfenced_interrupt_overtakes_its_data_where_the_write_does_not_serialize() {
    for (model, mode, fence, overtakes) in [
        ("sapphire-rapids", Mode::X2Apic, Fence::Nothing, true),
        ("skylake-sp", Mode::X2Apic, Fence::Nothing, true),
        ("sapphire-rapids", Mode::X2Apic, Fence::Load, true),
        ("sapphire-rapids", Mode::X2Apic, Fence::Memory, false),
        ("sapphire-rapids", Mode::X2Apic, Fence::Both, false),
        ("sapphire-rapids", Mode::XApic, Fence::Nothing, false),
        ("zen4", Mode::X2Apic, Fence::Nothing, false),
        ("zen5", Mode::X2Apic, Fence::Nothing, false),
        ("zen4", Mode::XApic, Fence::Nothing, false),
    ] {
        let count = stale(model, "tso", fence, mode);
        println!("{model}, {mode:?}, {fence:?}: {count} of {ROUNDS} came before their data");
        assert_eq!(count != 0, overtakes, "{model}, {mode:?}, {fence:?}: {count} of {ROUNDS}");
    }
}

#[test]
fn without_store_buffers_no_interrupt_overtakes() {
    assert_eq!(stale("sapphire-rapids", "sequential", Fence::Nothing, Mode::X2Apic), 0);
}
