//! Programs for the bare machine, as Multiboot images, and a machine of two processors for them.

use board::topology::Topology;
use board::{Configuration, Images, Machine};
use cpu::CpuModel;
use device::virtio::{Model, console::Console};
use iced_x86::code_asm::*;

pub const LOAD: u32 = 0x10_0000;
/// Where the parts of an image are.
pub const MAIN: usize = 0x20;
pub const SUBROUTINE: usize = 0x300;
pub const HANDLER: usize = 0x400;
pub const TRAMPOLINE: usize = 0x440;
const SIZE: usize = 0x4C0;

pub type Code<'a> = &'a dyn Fn(&mut CodeAssembler) -> Result<(), IcedError>;

pub fn assemble(at: usize, write: Code<'_>) -> Vec<u8> {
    let mut a = CodeAssembler::new(32).expect("32 bits are a mode");
    write(&mut a).expect("the program is well-formed");
    a.assemble(u64::from(LOAD) + at as u64).expect("the program assembles")
}

/// Copies the second processor's program to 8000h and starts it there.
pub fn start_second(a: &mut CodeAssembler, length: usize) -> Result<(), IcedError> {
    copy_trampoline(a, length)?;
    for (register, value) in
        [(0xFEE0_0310u32, 0x0100_0000), (0xFEE0_0300, 0x4500), (0xFEE0_0300, 0x4608)]
    {
        a.mov(edi, register)?;
        a.mov(dword_ptr(edi), value)?;
    }
    Ok(())
}

/// The same for all processors but the first.
pub fn start_others(a: &mut CodeAssembler, length: usize) -> Result<(), IcedError> {
    copy_trampoline(a, length)?;
    for value in [0xC_4500, 0xC_4608] {
        a.mov(dword_ptr(0xFEE0_0300_u32), value)?;
    }
    Ok(())
}

fn copy_trampoline(a: &mut CodeAssembler, length: usize) -> Result<(), IcedError> {
    a.mov(esi, LOAD + TRAMPOLINE as u32)?;
    a.mov(edi, 0x8000)?;
    a.mov(ecx, length as u32)?;
    a.cld()?;
    a.rep().movsb()
}

/// An image that says itself where it wants to be, of parts with their places.
pub fn image(parts: &[(usize, Vec<u8>)]) -> Vec<u8> {
    let mut image = vec![0; SIZE];
    let flags = 0x1_0000u32;
    let magic = 0x1BAD_B002u32;
    let entry = LOAD + MAIN as u32;
    let words =
        [magic, flags, 0u32.wrapping_sub(magic).wrapping_sub(flags), LOAD, LOAD, 0, 0, entry];
    let header: Vec<u8> = words.into_iter().flat_map(u32::to_le_bytes).collect();
    image[..header.len()].copy_from_slice(&header);
    for (at, bytes) in parts {
        image[*at..at + bytes.len()].copy_from_slice(bytes);
    }
    image
}

pub fn configuration() -> Configuration {
    let model = CpuModel::named("zen4").expect("the model exists");
    let topology = Topology::of_cores(2).expect("two cores are possible");
    Configuration {
        seed: 7,
        functions: vec![Model::Console(Console::new(&["results".into()])).into()],
        ..Configuration::of(model, topology, 8 << 20)
    }
}

pub fn started(image: &[u8]) -> Machine {
    let mut machine = Machine::new(&configuration()).expect("the machine is possible");
    let kernel = board::load::Source::of("program", image);
    let images = Images { kernel, initrd: None, modules: &[], command_line: "" };
    machine.load(&images).expect("the program loads");
    machine
}
