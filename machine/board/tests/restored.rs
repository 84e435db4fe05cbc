//! A snapshot taken at any point, restored, goes on to the same end as the machine that was never
//! saved: the same trace hash, instructions and time.

use arch::time::Picoseconds;
use board::topology::Topology;
use board::{Configuration, Images, Limits, Machine, Outcome};
use cpu::CpuModel;
use device::virtio::{Model, console::Console};
use iced_x86::code_asm::*;

const LOAD: u32 = 0x10_0000;
const HEADER: usize = 0x20;
const SUBROUTINE: usize = 0x200;
const HANDLER: usize = 0x240;
const TRAMPOLINE: usize = 0x280;
const SIZE: usize = 0x300;

/// The second processor's program at 8000h: it counts without end.
const SECOND: [u8; 15] = [
    0x31, 0xC0, 0x8E, 0xD8, // xor ax, ax; mov ds, ax
    0xFF, 0x06, 0x00, 0x90, // again: inc word [9000h]
    0xF0, 0xFF, 0x06, 0x04, 0x90, // lock inc word [9004h]
    0xEB, 0xF5, // jmp again
];

fn assemble(at: usize, write: impl FnOnce(&mut CodeAssembler) -> Result<(), IcedError>) -> Vec<u8> {
    let mut a = CodeAssembler::new(32).expect("32 bits are a mode");
    write(&mut a).expect("the program is well-formed");
    a.assemble(u64::from(LOAD) + at as u64).expect("the program assembles")
}

/// Two processors race for memory; the first takes timer interrupts, changes its own code, halts
/// now and then, and says what it saw.
fn main_program() -> Vec<u8> {
    assemble(HEADER, |a| {
        a.mov(esp, 0x8_0000)?;
        a.mov(esi, LOAD + TRAMPOLINE as u32)?;
        a.mov(edi, 0x8000)?;
        a.mov(ecx, SECOND.len() as u32)?;
        a.cld()?;
        a.rep().movsb()?;
        a.mov(eax, LOAD + HANDLER as u32)?;
        a.mov(word_ptr(0x7200), ax)?;
        a.mov(word_ptr(0x7202), cs)?;
        a.mov(word_ptr(0x7204), 0x8E00)?;
        a.shr(eax, 16)?;
        a.mov(word_ptr(0x7206), ax)?;
        a.mov(word_ptr(0x6FF0), 0x7FF)?;
        a.mov(dword_ptr(0x6FF2), 0x7000)?;
        a.lidt(ptr(0x6FF0))?;
        for (register, value) in [
            (0xFEE0_03E0u32, 0xB),
            (0xFEE0_0320, 0x2_0040),
            (0xFEE0_0380, 20_000),
            (0xFEE0_0310, 0x0100_0000),
            (0xFEE0_0300, 0x4500),
            (0xFEE0_0300, 0x4608),
        ] {
            a.mov(edi, register)?;
            a.mov(dword_ptr(edi), value)?;
        }
        a.sti()?;
        a.mov(ecx, 20_000)?;
        let mut again = a.create_label();
        let mut quiet = a.create_label();
        a.set_label(&mut again)?;
        a.mov(eax, dword_ptr(0x9000))?;
        a.rol(ebx, 5)?;
        a.xor(ebx, eax)?;
        a.add(ebx, dword_ptr(0x9010))?;
        a.lock().inc(dword_ptr(0x9004))?;
        a.mov(byte_ptr(LOAD + SUBROUTINE as u32 + 1), bl)?;
        a.call(u64::from(LOAD) + SUBROUTINE as u64)?;
        a.add(ebx, eax)?;
        a.test(cx, 0x3FF)?;
        a.jne(quiet)?;
        a.mov(eax, ebx)?;
        a.out(0xE0, eax)?;
        a.hlt()?;
        a.set_label(&mut quiet)?;
        a.dec(ecx)?;
        a.jne(again)?;
        a.out(0xF4, eax)?;
        a.hlt()
    })
}

/// The program as a Multiboot image that says itself where it wants to be.
fn image() -> Vec<u8> {
    let mut image = vec![0; SIZE];
    let flags = 0x1_0000u32;
    let magic = 0x1BAD_B002u32;
    let entry = LOAD + HEADER as u32;
    let words =
        [magic, flags, 0u32.wrapping_sub(magic).wrapping_sub(flags), LOAD, LOAD, 0, 0, entry];
    let handler = assemble(HANDLER, |a| {
        a.push(eax)?;
        a.inc(dword_ptr(0x9010))?;
        a.mov(eax, 0xFEE0_00B0u32)?;
        a.mov(dword_ptr(eax), 0)?;
        a.pop(eax)?;
        a.iretd()
    });
    let subroutine = assemble(SUBROUTINE, |a| {
        a.mov(al, 0)?;
        a.ret()
    });
    let header: Vec<u8> = words.into_iter().flat_map(u32::to_le_bytes).collect();
    for (at, bytes) in [
        (0, header),
        (HEADER, main_program()),
        (SUBROUTINE, subroutine),
        (HANDLER, handler),
        (TRAMPOLINE, SECOND.to_vec()),
    ] {
        image[at..at + bytes.len()].copy_from_slice(&bytes);
    }
    image
}

fn configuration() -> Configuration {
    Configuration {
        model: CpuModel::named("zen4").expect("the model exists"),
        topology: Topology::of_cores(2).expect("two cores are possible"),
        memory: 8 << 20,
        seed: 7,
        start: device::Date::default(),
        virtio: vec![Model::Console(Console::new(&["results".into()]))],
    }
}

fn started() -> Machine {
    let mut machine = Machine::new(&configuration()).expect("the machine is possible");
    let bytes = image();
    let kernel = board::load::Source { name: "program", bytes: &bytes };
    let images = Images { kernel, initrd: None, modules: &[], command_line: "" };
    machine.load(&images).expect("the program loads");
    machine
}

const LAST: Limits = Limits { until: Picoseconds::from_milliseconds(1000), instructions: u64::MAX };

/// What must be the same: hash, instructions, time of the processors.
fn finish(mut machine: Machine) -> (String, u64, Vec<Picoseconds>) {
    let outcome = machine.run(LAST);
    assert!(matches!(outcome, Some(Outcome::DebugExit(_))), "{outcome:?}");
    let clocks = machine.state.cpus.iter().map(|cpu| cpu.clock).collect();
    (machine.state.wiring.hash.to_string(), machine.instructions(), clocks)
}

fn saved(machine: &Machine) -> Vec<u8> {
    let mut file = Vec::new();
    machine.save("snapshot", &mut file, configuration().digest()).expect("it is written");
    file
}

#[test]
fn a_restored_machine_goes_on_to_the_same_end_wherever_it_was_saved() {
    let expected = finish(started());
    let total = expected.2[0];
    assert!(expected.1 > 400_000, "both processors work: {expected:?}");
    for part in 0..40u64 {
        // Odd moments, in the middle of turns and blocks.
        let until = Picoseconds(total.0 / 40 * part + part * part * 1_237);
        let mut machine = started();
        assert_eq!(machine.run(Limits { until, instructions: u64::MAX }), None, "{until:?}");
        let file = saved(&machine);
        assert_eq!(finish(machine), expected, "a pause at {until:?} changes nothing");
        let restored = Machine::restore(&configuration(), "snapshot", &file[..])
            .unwrap_or_else(|error| panic!("saved at {until:?}: {error}"));
        assert_eq!(finish(restored), expected, "saved at {until:?}");
    }
}

#[test]
fn a_snapshot_of_another_configuration_is_refused() {
    let file = saved(&started());
    let change = |act: fn(&mut Configuration)| {
        let mut configuration = configuration();
        act(&mut configuration);
        configuration
    };
    for (what, configuration) in [
        ("processors", change(|c| c.topology = Topology::of_cores(3).expect("possible"))),
        ("memory", change(|c| c.memory = 16 << 20)),
        ("model", change(|c| c.model = CpuModel::named("generic").expect("exists"))),
        ("ports", change(|c| c.virtio = vec![Model::Console(Console::new(&[]))])),
    ] {
        let error = Machine::restore(&configuration, "snapshot", &file[..]).err();
        let message = error.map(|error| error.to_string()).unwrap_or_default();
        assert!(message.contains("restore with the options"), "{what}: {message}");
    }
}

#[test]
fn a_truncated_snapshot_is_an_error_that_names_file_and_offset() {
    let file = saved(&started());
    for length in [0, 7, 40, 60, file.len() / 2, file.len() - 1] {
        let error = Machine::restore(&configuration(), "snapshot", &file[..length]).err();
        let message = error.map(|error| error.to_string()).unwrap_or_default();
        assert!(message.starts_with("snapshot: truncated inside"), "{length}: {message}");
    }
}
