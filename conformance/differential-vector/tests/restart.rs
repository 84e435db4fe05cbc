//! Faults of operands that reach into a page that is not there: nothing has happened, so that the
//! instruction can be restarted.
#![cfg(all(target_arch = "x86_64", target_os = "linux"))]

use arch::address::SystemPhysical;
use arch::exception::PAGE_FAULT;
use cpu::float::extended::Extended;
use differential_vector::{Block, Emulated, OPERANDS};
use iced_x86::IcedError;
use iced_x86::code_asm::*;

type Assemble = fn(&mut CodeAssembler) -> Result<(), IcedError>;

const END: u64 = 0x20_0000;
/// From RSI to the end of what is mapped.
const TO_END: u64 = END - OPERANDS;
const UNTOUCHED: u8 = 0xA5;

#[test]
fn a_store_that_faults_in_its_second_page_has_changed_nothing() {
    let rows: &[(&str, Assemble)] = &[
        ("movups", |a| a.movups(xmmword_ptr(rsi + TO_END - 8), xmm1)),
        ("movdqu by three", |a| a.movdqu(xmmword_ptr(rsi + TO_END - 3), xmm1)),
        ("movq", |a| a.movq(qword_ptr(rsi + TO_END - 4), xmm1)),
        ("fst m64", |a| a.fst(qword_ptr(rsi + TO_END - 4))),
        ("fstp m80", |a| a.fstp(tbyte_ptr(rsi + TO_END - 9))),
        ("fbstp", |a| a.fbstp(tbyte_ptr(rsi + TO_END - 1))),
        ("fistp m64", |a| a.fistp(qword_ptr(rsi + TO_END - 1))),
        ("fnstenv", |a| a.fnstenv(ptr(rsi + TO_END - 16))),
        ("fnsave", |a| a.fnsave(ptr(rsi + TO_END - 100))),
        ("fxsave", |a| a.fxsave64(ptr(rsi + TO_END - 256))),
        ("xsave", |a| a.xsave64(ptr(rsi + TO_END - 512))),
        ("maskmovdqu", |a| a.maskmovdqu(xmm1, xmm1)),
        ("movq from mmx", |a| a.movq(qword_ptr(rsi + TO_END - 4), mm1)),
    ];
    for (name, assemble) in rows {
        let mut assembler = CodeAssembler::new(64).expect("64-bit code");
        assemble(&mut assembler).expect("encodes");
        let mut emulated = Emulated::new("zen4");
        emulated.load(&assembler.assemble(0x1_0000).expect("assembles"));
        // MASKMOVDQU addresses by RDI.
        emulated.processor().registers.gpr[7] = END - 8;
        let tail = SystemPhysical(END - 1024);
        emulated.memory().write(tail, &[UNTOUCHED; 1024]).expect("in RAM");
        let mut block = Block::default();
        block.rax = 3;
        block.image.set_stack(Extended::ONE, Extended::ONE);
        block.image.set_xmm(1, u128::MAX);
        let before = block.clone();
        assert_eq!(emulated.run(&mut block), Some(PAGE_FAULT), "{name}");
        assert_eq!(block.image, before.image, "{name}: registers");
        let mut bytes = [0; 1024];
        emulated.memory().read(tail, &mut bytes).expect("in RAM");
        assert_eq!(bytes, [UNTOUCHED; 1024], "{name}: memory");
    }
}

#[test]
fn a_load_that_faults_in_its_second_page_has_changed_nothing() {
    let rows: &[(&str, Assemble)] = &[
        ("movups", |a| a.movups(xmm1, xmmword_ptr(rsi + TO_END - 8))),
        ("fld m80", |a| a.fld(tbyte_ptr(rsi + TO_END - 9))),
        ("fadd m64", |a| a.fadd(qword_ptr(rsi + TO_END - 4))),
        ("fldenv", |a| a.fldenv(ptr(rsi + TO_END - 16))),
        ("frstor", |a| a.frstor(ptr(rsi + TO_END - 100))),
        ("fxrstor", |a| a.fxrstor64(ptr(rsi + TO_END - 256))),
        ("xrstor", |a| a.xrstor64(ptr(rsi + TO_END - 512))),
        ("pmovsxbw", |a| a.pmovsxbw(xmm1, qword_ptr(rsi + TO_END - 4))),
        ("pcmpistri", |a| a.pcmpistri(xmm1, xmmword_ptr(rsi + TO_END - 4), 0)),
        ("paddb to mmx", |a| a.paddb(mm1, qword_ptr(rsi + TO_END - 4))),
    ];
    for (name, assemble) in rows {
        let mut assembler = CodeAssembler::new(64).expect("64-bit code");
        assemble(&mut assembler).expect("encodes");
        let mut emulated = Emulated::new("zen4");
        emulated.load(&assembler.assemble(0x1_0000).expect("assembles"));
        let mut block = Block::default();
        block.rax = 3;
        block.image.set_stack(Extended::ONE, Extended::ONE);
        block.image.set_xmm(1, u128::MAX);
        let before = block.clone();
        assert_eq!(emulated.run(&mut block), Some(PAGE_FAULT), "{name}");
        assert_eq!(block.image, before.image, "{name}: registers");
        assert_eq!(block.rcx, before.rcx, "{name}: rcx");
    }
}
