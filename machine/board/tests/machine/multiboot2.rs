//! An image with a Multiboot 2 header is started as the specification says. [MULTIBOOT2 "Machine
//! state"]

use crate::program::{LOAD, configuration};
use arch::time::Picoseconds;
use board::load::Source;
use board::{Images, Limits, Machine, Outcome};
use iced_x86::code_asm::*;

const MAIN: usize = 0x40;

/// Passes the first letter of its command line to the debug-exit port, or zero where it is not
/// started as it should be.
fn image() -> Result<Vec<u8>, IcedError> {
    let mut a = CodeAssembler::new(32)?;
    let mut fail = a.create_label();
    let mut tell = a.create_label();
    a.cmp(eax, 0x36D7_6289)?;
    a.jne(fail)?;
    // The first tag behind size and a reserved word is the command line, of type 1.
    a.cmp(dword_ptr(ebx + 8), 1)?;
    a.jne(fail)?;
    a.movzx(eax, byte_ptr(ebx + 16))?;
    a.jmp(tell)?;
    a.set_label(&mut fail)?;
    a.xor(eax, eax)?;
    a.set_label(&mut tell)?;
    a.out(0xF4, al)?;
    a.hlt()?;
    let code = a.assemble(u64::from(LOAD) + MAIN as u64)?;

    let (magic, length) = (0xE852_50D6u32, MAIN as u32);
    let head = [magic, 0, length, magic.wrapping_add(length).wrapping_neg()];
    let addresses = [2, 24, LOAD, LOAD, 0, 0];
    let entry = [3, 12, LOAD + MAIN as u32, 0];
    let words = head.into_iter().chain(addresses).chain(entry).chain([0, 8]);
    Ok(words.flat_map(u32::to_le_bytes).chain(code).collect())
}

#[test]
fn a_multiboot_2_image_finds_its_command_line_where_it_is_told() {
    let bytes = image().expect("the program assembles");
    let mut machine = Machine::new(&configuration()).expect("a machine");
    machine
        .load(&Images {
            kernel: Source::of("image", &bytes),
            initrd: None,
            modules: &[],
            command_line: "Q",
        })
        .expect("loaded");
    let outcome =
        machine.run(Limits { until: Picoseconds::from_milliseconds(10), instructions: 1_000_000 });
    assert_eq!(outcome, Some(Outcome::DebugExit(u32::from(b'Q'))));
}
