//! A snapshot taken at any point, restored, goes on to the same end as the machine that was never
//! saved: the same trace hash, instructions and time.

use crate::program::{
    HANDLER, LOAD, MAIN, SUBROUTINE, TRAMPOLINE, assemble, configuration, image, start_second,
    started,
};
use arch::time::Picoseconds;
use board::topology::Topology;
use board::{Configuration, Limits, Machine, Outcome};
use cpu::CpuModel;
use device::nvme::Drive;
use device::storage::Disk;
use device::virtio::nine_p::{FileServer, NineP};
use device::virtio::{Model, console::Console};
use iced_x86::code_asm::*;

/// The second processor's program at 8000h: it counts without end.
const SECOND: [u8; 15] = [
    0x31, 0xC0, 0x8E, 0xD8, // xor ax, ax; mov ds, ax
    0xFF, 0x06, 0x00, 0x90, // again: inc word [9000h]
    0xF0, 0xFF, 0x06, 0x04, 0x90, // lock inc word [9004h]
    0xEB, 0xF5, // jmp again
];

/// Two processors race for memory; the first takes timer interrupts, changes its own code, halts
/// now and then, and says what it saw.
fn main_program() -> Vec<u8> {
    assemble(MAIN, &|a| {
        a.mov(esp, 0x8_0000)?;
        a.mov(eax, LOAD + HANDLER as u32)?;
        a.mov(word_ptr(0x7200), ax)?;
        a.mov(word_ptr(0x7202), cs)?;
        a.mov(word_ptr(0x7204), 0x8E00)?;
        a.shr(eax, 16)?;
        a.mov(word_ptr(0x7206), ax)?;
        a.mov(word_ptr(0x6FF0), 0x7FF)?;
        a.mov(dword_ptr(0x6FF2), 0x7000)?;
        a.lidt(ptr(0x6FF0))?;
        for (register, value) in
            [(0xFEE0_03E0u32, 0xB), (0xFEE0_0320, 0x2_0040), (0xFEE0_0380, 20_000)]
        {
            a.mov(edi, register)?;
            a.mov(dword_ptr(edi), value)?;
        }
        start_second(a, SECOND.len())?;
        a.sti()?;
        a.mov(ecx, 4_000)?;
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

/// The machine with all its programs loaded.
fn restarted() -> Machine {
    let handler = assemble(HANDLER, &|a| {
        a.push(eax)?;
        a.inc(dword_ptr(0x9010))?;
        a.mov(eax, 0xFEE0_00B0u32)?;
        a.mov(dword_ptr(eax), 0)?;
        a.pop(eax)?;
        a.iretd()
    });
    let subroutine = assemble(SUBROUTINE, &|a| {
        a.mov(al, 0)?;
        a.ret()
    });
    started(&image(&[
        (MAIN, main_program()),
        (SUBROUTINE, subroutine),
        (HANDLER, handler),
        (TRAMPOLINE, SECOND.to_vec()),
    ]))
}

/// Moments at which the machine is saved.
const PLACES: u64 = 24;
const LAST: Limits = Limits { until: Picoseconds::from_milliseconds(1000), instructions: u64::MAX };

/// What must be the same: hash, instructions, time of the processors.
fn finish(mut machine: Machine) -> (String, u64, Vec<Picoseconds>) {
    let outcome = machine.run(LAST);
    assert!(matches!(outcome, Some(Outcome::DebugExit(_))), "{outcome:?}");
    let clocks = machine.state.cpus.iter().map(|cpu| cpu.clock.now()).collect();
    (machine.state.wiring.recorder.hash.to_string(), machine.instructions(), clocks)
}

fn saved(machine: &Machine) -> Vec<u8> {
    let mut file = Vec::new();
    machine.save("snapshot", &mut file, configuration().digest()).expect("it is written");
    file
}

#[test]
fn a_restored_machine_goes_on_to_the_same_end_wherever_it_was_saved() {
    let expected = finish(restarted());
    let total = expected.2[0];
    assert!(expected.1 > 80_000, "both processors work: {expected:?}");
    for part in 0..PLACES {
        // Odd moments, in the middle of turns and blocks.
        let until = Picoseconds(total.0 / PLACES * part + part * part * 1_237);
        let mut machine = restarted();
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
    let file = saved(&restarted());
    let change = |act: fn(&mut Configuration)| {
        let mut configuration = configuration();
        act(&mut configuration);
        configuration
    };
    for (what, configuration) in [
        ("processors", change(|c| c.topology = Topology::of_cores(3).expect("possible"))),
        ("memory", change(|c| c.memory = 16 << 20)),
        ("model", change(|c| c.model = CpuModel::named("generic").expect("exists"))),
        ("drives", change(|c| c.functions.push(Drive(Disk::in_memory(vec![0; 512])).into()))),
        ("ports", change(|c| c.functions = vec![Model::Console(Console::new(&[])).into()])),
    ] {
        let error = Machine::restore(&configuration, "snapshot", &file[..]).err();
        let message = error.map(|error| error.to_string()).unwrap_or_default();
        assert!(message.contains("restore with the options"), "{what}: {message}");
    }
}

#[test]
fn a_snapshot_whose_translations_lead_out_of_its_ram_is_refused() {
    let mut machine = restarted();
    let until = Picoseconds::from_nanoseconds(20_000);
    assert_eq!(machine.run(Limits { until, instructions: u64::MAX }), None);
    machine.memory = bus::GuestMemory::new(0x1000);
    let file = saved(&machine);
    let error = Machine::restore(&configuration(), "snapshot", &file[..]).err();
    let message = error.map(|error| error.to_string()).unwrap_or_default();
    let wanted = "into RAM, must be a page below 0x1000";
    assert!(message.starts_with("snapshot: the state cannot be used: processor 0"), "{message}");
    assert!(message.ends_with(wanted), "{message}");
}

#[test]
fn a_truncated_snapshot_is_an_error_that_names_file_and_offset() {
    let file = saved(&restarted());
    for length in [0, 7, 40, 60, file.len() / 2, file.len() - 1] {
        let error = Machine::restore(&configuration(), "snapshot", &file[..length]).err();
        let message = error.map(|error| error.to_string()).unwrap_or_default();
        assert!(message.starts_with("snapshot: truncated inside"), "{length}: {message}");
    }
}

/// A folder that a guest has open, or has not.
#[derive(Clone, Debug)]
struct Folder {
    is_in_use: bool,
}

impl FileServer for Folder {
    fn answer(&mut self, _: &[u8], _: usize) -> Vec<u8> {
        Vec::new()
    }

    fn is_in_use(&self) -> bool {
        self.is_in_use
    }

    fn reset(&mut self) {}

    fn duplicate(&self) -> Box<dyn FileServer> {
        Box::new(self.clone())
    }
}

#[test]
fn a_machine_is_saved_until_its_guest_has_a_shared_folder_open() {
    let sharing = |is_in_use| {
        let mut configuration = configuration();
        let folder = NineP::new("host", Box::new(Folder { is_in_use }));
        configuration.functions.push(Model::NineP(folder).into());
        configuration
    };
    let (idle, used) = (sharing(false), sharing(true));
    let saved = |machine: &Machine| {
        let mut file = Vec::new();
        machine.save("snapshot", &mut file, idle.digest()).map(|()| file)
    };
    let file = saved(&Machine::new(&idle).expect("a machine")).expect("nothing is open");
    // A restored machine's folder is the one that its configuration brings.
    for (configuration, is_refused) in [(&idle, false), (&used, true)] {
        let machine = Machine::restore(configuration, "snapshot", &file[..]).expect("a snapshot");
        let refusal = saved(&machine).err().map(|error| error.to_string()).unwrap_or_default();
        assert_eq!(refusal.contains("shared folder"), is_refused, "{refusal}");
    }
}
