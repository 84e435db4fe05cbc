//! Processors that wait go on when they should.

use crate::program::{MAIN, TRAMPOLINE, assemble, image, start_second, started};
use arch::time::Picoseconds;
use board::{Limits, Outcome};
use iced_x86::code_asm::*;

/// Monitors 9100h, waits for it in MWAIT, and says so at 9104h.
const WAITER: [u8; 34] = [
    0x31, 0xC0, 0x8E, 0xD8, // xor ax, ax; mov ds, ax
    0x66, 0x31, 0xC9, 0x66, 0x31, 0xD2, // xor ecx, ecx; xor edx, edx
    0xB8, 0x00, 0x91, // mov ax, 9100h
    0x0F, 0x01, 0xC8, // monitor
    0xFE, 0x06, 0x08, 0x91, // inc byte [9108h]
    0x31, 0xC0, // xor ax, ax
    0x0F, 0x01, 0xC9, // mwait
    0xC7, 0x06, 0x04, 0x91, 0x01, 0x00, // mov word [9104h], 1
    0xF4, 0xEB, 0xFD, // hlt; jmp there
];

#[test]
fn a_processor_in_mwait_goes_on_when_another_writes_to_its_line() {
    let main = assemble(MAIN, &|a| {
        start_second(a, WAITER.len())?;
        let mut sleeping = a.create_label();
        let mut again = a.create_label();
        let mut answered = a.create_label();
        a.set_label(&mut sleeping)?;
        a.cmp(byte_ptr(0x9108), 0)?;
        a.je(sleeping)?;
        // Long enough for the other to have begun to wait.
        a.mov(ecx, 10_000)?;
        let mut pause = a.create_label();
        a.set_label(&mut pause)?;
        a.dec(ecx)?;
        a.jne(pause)?;
        a.mov(dword_ptr(0x9100), 1)?;
        a.set_label(&mut again)?;
        a.inc(ecx)?;
        a.cmp(dword_ptr(0x9104), 0)?;
        a.jne(answered)?;
        a.cmp(ecx, 1_000_000)?;
        a.jne(again)?;
        a.set_label(&mut answered)?;
        a.mov(eax, ecx)?;
        a.out(0xF4, eax)?;
        a.hlt()
    });
    let mut machine = started(&image(&[(MAIN, main), (TRAMPOLINE, WAITER.to_vec())]));
    let until = Picoseconds::from_milliseconds(100);
    let outcome = machine.run(Limits { until, instructions: u64::MAX });
    let Some(Outcome::DebugExit(turns)) = outcome else { panic!("{outcome:?}") };
    assert!(turns < 5_000, "the writer saw the answer after {turns} turns");
}
