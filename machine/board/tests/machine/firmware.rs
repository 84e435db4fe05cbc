//! A BIOS of others in the place of firmware: SeaBIOS, where it is installed, starts a boot sector
//! from a virtio disk and from an NVM Express one, and tells it of memory and processors.

mod uefi;

use arch::time::Picoseconds;
use board::topology::Topology;
use board::{Configuration, Limits, Machine, Outcome};
use cpu::CpuModel;
use device::Request;
use device::nvme::Drive;
use device::storage::{Disk, MemoryStorage, WriteMode};
use device::virtio::{Model, block::Block};
use iced_x86::code_asm::*;

const SEABIOS: &str = "/usr/share/seabios/bios-256k.bin";
/// Where a BIOS puts a boot sector, and where this one puts its second.
const SECTOR: u32 = 0x7C00;
const SECOND: u32 = 0x8000;
const MARK: u32 = 0x1234_5678;
/// What the debug-exit port is told: all was as it should be, or which step was not.
const PASSED: u32 = 0;

/// Reads the disk's second sector, asks for the first range of the memory map, prints a letter, and
/// says how it went.
fn boot_sector() -> Vec<u8> {
    let mut a = CodeAssembler::new(16).expect("16 bits are a mode");
    let mut write = || -> Result<(), IcedError> {
        let mut failed = a.create_label();
        a.xor(ax, ax)?;
        a.mov(ds, ax)?;
        a.mov(es, ax)?;
        // A packet for a read by block numbers: size, count, offset, segment, block.
        for (at, word) in [(0, 16), (2, 1), (4, SECOND), (6, 0), (8, 1), (10, 0), (12, 0), (14, 0)]
        {
            a.mov(word_ptr(0x600 + at), word)?;
        }
        a.mov(si, 0x600)?;
        a.mov(ah, 0x42)?;
        a.int(0x13)?;
        a.mov(bl, 1)?;
        a.jc(failed)?;
        a.mov(bl, 2)?;
        a.cmp(dword_ptr(SECOND), MARK)?;
        a.jne(failed)?;
        a.xor(ebx, ebx)?;
        a.mov(edi, 0x700)?;
        a.mov(ecx, 20)?;
        a.mov(edx, 0x534D_4150)?;
        a.mov(eax, 0xE820)?;
        a.int(0x15)?;
        a.mov(bl, 3)?;
        a.jc(failed)?;
        // Conventional memory begins at 0 and is usable.
        a.mov(bl, 4)?;
        a.cmp(dword_ptr(0x700), 0)?;
        a.jne(failed)?;
        a.cmp(dword_ptr(0x710), 1)?;
        a.jne(failed)?;
        a.mov(ax, 0x0E42)?;
        a.mov(bx, 0)?;
        a.int(0x10)?;
        a.mov(bl, PASSED)?;
        a.set_label(&mut failed)?;
        a.mov(al, bl)?;
        a.out(0xF4, al)?;
        a.hlt()
    };
    write().expect("the sector is well-formed");
    let mut sector = a.assemble(SECTOR.into()).expect("the sector assembles");
    assert!(sector.len() <= 510, "{}", sector.len());
    sector.resize(510, 0);
    sector.extend([0x55, 0xAA]);
    sector
}

fn disk() -> Disk {
    let mut bytes = boot_sector();
    bytes.extend(MARK.to_le_bytes());
    bytes.resize(1 << 20, 0);
    Disk::new(Box::new(MemoryStorage::new(bytes)), WriteMode::Overlay)
}

fn configuration(model: &str, cpus: u16, memory: u64, functions: Vec<Request>) -> Configuration {
    let model = CpuModel::named(model).expect("the model exists");
    let topology = Topology::of_cores(cpus).expect("so many are possible");
    Configuration { functions, ..Configuration::of(model, topology, memory) }
}

fn machine(configuration: &Configuration) -> Machine {
    Machine::new(configuration).expect("the machine is possible")
}

#[test]
fn seabios_starts_a_boot_sector() {
    let Ok(image) = std::fs::read(SEABIOS) else {
        println!("skipped: {SEABIOS} is not there: apt-get install seabios");
        return;
    };
    let block = || Model::Block(Block { disk: disk(), serial: "disk".into() }).into();
    let rows: [(&str, u16, Request); 3] =
        [("zen4", 1, block()), ("sapphire-rapids", 4, block()), ("zen4", 2, Drive(disk()).into())];
    for (model, cpus, function) in rows {
        let mut machine = machine(&configuration(model, cpus, 64 << 20, vec![function]));
        let source = board::load::Source::of(SEABIOS, &image);
        machine.power_on(source, None).expect("it is a BIOS");
        let limits =
            Limits { until: Picoseconds::from_milliseconds(20_000), instructions: 400_000_000 };
        let outcome = machine.run(limits);
        assert_eq!(outcome, Some(Outcome::DebugExit(PASSED)), "{model}, {cpus}");
        let text: Vec<u8> = machine.take_console().iter().map(|(_, byte)| *byte).collect();
        let text = String::from_utf8_lossy(&text);
        assert!(text.contains("SeaBIOS"), "{model}: {text}");
    }
}

#[test]
fn what_is_no_bios_is_refused() {
    let mut no_jump = vec![0; 128 << 10];
    let rows: [(&[u8], u64, &str); 4] = [
        (&[0; 512], 64 << 20, "a BIOS image has 64 to 256 KiB"),
        (&[0; 1 << 20], 64 << 20, "a UEFI image begins with a firmware volume"),
        (&no_jump.clone(), 64 << 20, "must be a far jump"),
        (
            {
                let vector = no_jump.len() - 16;
                no_jump[vector] = 0xEA;
                &no_jump
            },
            4 << 20,
            "needs at least",
        ),
    ];
    for (bytes, memory, expected) in rows {
        let mut machine = machine(&configuration("zen4", 1, memory, Vec::new()));
        let source = board::load::Source::of("image", bytes);
        let error = machine.power_on(source, None).expect_err(expected).to_string();
        assert!(error.starts_with("image: ") && error.contains(expected), "{error}");
    }
}
