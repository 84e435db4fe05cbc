//! UEFI firmware, where it is installed: OVMF starts an application from a disk, which sets a
//! variable, resets the machine, and finds the variable again.

use super::machine;
use arch::time::Picoseconds;
use board::load::Source;
use board::{Limits, Machine, Outcome};
use device::Request;
use device::storage::{Disk, MemoryStorage, WriteMode};
use device::virtio::{Model, block::Block};
use iced_x86::code_asm::*;

/// The smaller build, where there is one: it takes a tenth of the time.
const OVMF: [[&str; 2]; 2] = [
    ["/usr/share/OVMF/OVMF_CODE.fd", "/usr/share/OVMF/OVMF_VARS.fd"],
    ["/usr/share/OVMF/OVMF_CODE_4M.fd", "/usr/share/OVMF/OVMF_VARS_4M.fd"],
];
const SECTOR: usize = 512;
/// Where the application's code begins, in memory and in the file.
const ENTRY: u32 = 0x1000;
const HEADERS: usize = 0x200;
const VALUE: u8 = 0x5A;

/// [UEFI "EFI System Table"] [UEFI "EFI Runtime Services Table"]
mod table {
    pub const SIGNATURE: u64 = 0x5453_5953_2049_4249;
    pub const CONSOLE: u32 = 64;
    pub const RUNTIME: u32 = 88;
    pub const OUTPUT_STRING: u32 = 8;
    pub const GET_VARIABLE: u32 = 72;
    pub const SET_VARIABLE: u32 = 88;
    pub const RESET_SYSTEM: u32 = 104;
}

/// Prints, looks for its variable, sets it and resets the machine, or powers it off where it has
/// found it. The debug-exit port is told which step failed.
fn code() -> Vec<u8> {
    let mut a = CodeAssembler::new(64).expect("64 bits are a mode");
    let mut write = || -> Result<(), IcedError> {
        let (mut found, mut failed) = (a.create_label(), a.create_label());
        let [mut text, mut name, mut vendor, mut size, mut data] =
            std::array::from_fn(|_| a.create_label());
        a.push(rbx)?;
        a.sub(rsp, 0x30)?;
        a.mov(rbx, rdx)?;
        a.mov(r12d, 1)?;
        a.mov(rax, table::SIGNATURE)?;
        a.cmp(qword_ptr(rbx), rax)?;
        a.jne(failed)?;
        a.mov(rcx, qword_ptr(rbx + table::CONSOLE))?;
        a.lea(rdx, ptr(text))?;
        a.call(qword_ptr(rcx + table::OUTPUT_STRING))?;
        a.lea(rcx, ptr(name))?;
        a.lea(rdx, ptr(vendor))?;
        a.xor(r8d, r8d)?;
        a.lea(r9, ptr(size))?;
        a.lea(r10, ptr(data))?;
        a.mov(qword_ptr(rsp + 0x20), r10)?;
        a.mov(rax, qword_ptr(rbx + table::RUNTIME))?;
        a.call(qword_ptr(rax + table::GET_VARIABLE))?;
        a.test(rax, rax)?;
        a.jz(found)?;
        a.mov(r12d, 2)?;
        a.lea(rcx, ptr(name))?;
        a.lea(rdx, ptr(vendor))?;
        // Kept, for boot and run time.
        a.mov(r8d, 7)?;
        a.mov(r9d, 1)?;
        a.lea(r10, ptr(data))?;
        a.mov(qword_ptr(rsp + 0x20), r10)?;
        a.mov(rax, qword_ptr(rbx + table::RUNTIME))?;
        a.call(qword_ptr(rax + table::SET_VARIABLE))?;
        a.test(rax, rax)?;
        a.jnz(failed)?;
        a.mov(r12d, 3)?;
        a.xor(ecx, ecx)?;
        a.xor(edx, edx)?;
        a.xor(r8d, r8d)?;
        a.xor(r9d, r9d)?;
        a.mov(rax, qword_ptr(rbx + table::RUNTIME))?;
        a.call(qword_ptr(rax + table::RESET_SYSTEM))?;
        a.jmp(failed)?;
        a.set_label(&mut found)?;
        a.mov(r12d, 4)?;
        a.cmp(byte_ptr(data), u32::from(VALUE))?;
        a.jne(failed)?;
        // Off.
        a.mov(r12d, 5)?;
        a.mov(ecx, 2)?;
        a.xor(edx, edx)?;
        a.xor(r8d, r8d)?;
        a.xor(r9d, r9d)?;
        a.mov(rax, qword_ptr(rbx + table::RUNTIME))?;
        a.call(qword_ptr(rax + table::RESET_SYSTEM))?;
        a.set_label(&mut failed)?;
        a.mov(eax, r12d)?;
        a.out(0xF4, al)?;
        a.hlt()?;
        a.set_label(&mut text)?;
        a.dw(&wide("Started.\r\n"))?;
        a.set_label(&mut name)?;
        a.dw(&wide("Kept"))?;
        a.set_label(&mut vendor)?;
        a.db(&[0x11; 16])?;
        a.set_label(&mut size)?;
        a.dq(&[1])?;
        a.set_label(&mut data)?;
        a.db(&[VALUE])
    };
    write().expect("the code is well-formed");
    a.assemble(ENTRY.into()).expect("the code assembles")
}

fn wide(text: &str) -> Vec<u16> {
    text.encode_utf16().chain([0]).collect()
}

/// A PE32+ file of one section. [UEFI "UEFI Images"]
fn application() -> Vec<u8> {
    let code = code();
    let raw = code.len().next_multiple_of(SECTOR);
    let mut bytes = vec![0; HEADERS + raw];
    let mut put = |at: usize, value: &[u8]| bytes[at..at + value.len()].copy_from_slice(value);
    put(0, b"MZ");
    put(0x3C, &[0x40]);
    put(0x40, b"PE\0\0");
    // x86-64, one section, an optional header of F0h bytes, an executable.
    for (at, word) in [(0x44, 0x8664u16), (0x46, 1), (0x54, 0xF0), (0x56, 0x22), (0x58, 0x20B)] {
        put(at, &word.to_le_bytes());
    }
    let (raw, headers) = (raw as u32, HEADERS as u32);
    for (at, word) in [
        (0x5C, raw),
        (0x68, ENTRY),
        (0x6C, ENTRY),
        (0x78, 0x1000),
        (0x7C, SECTOR as u32),
        (0x90, ENTRY + 0x1000),
        (0x94, headers),
        // An EFI application.
        (0x9C, 10),
        (0xC4, 16),
        (0x150, raw),
        (0x154, ENTRY),
        (0x158, raw),
        (0x15C, headers),
        // Code that is read, written and executed.
        (0x16C, 0xE000_0020),
    ] {
        put(at, &word.to_le_bytes());
    }
    put(0x148, b".text");
    put(HEADERS, &code);
    bytes
}

/// A file system of FAT12 without partitions, as firmware reads it, with \EFI\BOOT\BOOTX64.EFI.
fn disk() -> Disk {
    const SECTORS: usize = 2880;
    const FAT_SECTORS: usize = 9;
    const ROOT: usize = 1 + 2 * FAT_SECTORS;
    /// The first cluster, number 2: a sector each.
    const DATA: usize = ROOT + 14;
    let application = application();
    let clusters = application.len().div_ceil(SECTOR);
    let mut bytes = vec![0; SECTORS * SECTOR];
    let parameters: [u8; 25] = [
        0,
        2,
        1,
        1,
        0,
        2,
        224,
        0,
        0x40,
        0x0B,
        0xF0,
        FAT_SECTORS as u8,
        0,
        18,
        0,
        2,
        0,
        0,
        0,
        0,
        0,
        0,
        0,
        0,
        0,
    ];
    bytes[..3].copy_from_slice(&[0xEB, 0x3C, 0x90]);
    bytes[3..11].copy_from_slice(b"MSWIN4.1");
    bytes[11..36].copy_from_slice(&parameters);
    bytes[510..512].copy_from_slice(&[0x55, 0xAA]);
    // Clusters 2 and 3 are folders, the file's follow.
    let last = 4 + clusters - 1;
    let next = |cluster: usize| match cluster {
        0 => 0xFF0,
        1..=3 => 0xFFF,
        cluster if cluster == last => 0xFFF,
        cluster => cluster + 1,
    };
    for cluster in 0..=last {
        for copy in 0..2 {
            let at = (1 + copy * FAT_SECTORS) * SECTOR + cluster * 3 / 2;
            let shift = 4 * (cluster % 2);
            bytes[at] |= (next(cluster) << shift) as u8;
            bytes[at + 1] |= (next(cluster) << shift >> 8) as u8;
        }
    }
    let mut entry = |sector: usize, name: &[u8; 11], is_folder: bool, cluster: u16, size: usize| {
        let at = sector * SECTOR;
        bytes[at..at + 11].copy_from_slice(name);
        bytes[at + 11] = if is_folder { 0x10 } else { 0x20 };
        bytes[at + 26..at + 28].copy_from_slice(&cluster.to_le_bytes());
        bytes[at + 28..at + 32].copy_from_slice(&(size as u32).to_le_bytes());
    };
    entry(ROOT, b"EFI        ", true, 2, 0);
    entry(DATA, b"BOOT       ", true, 3, 0);
    entry(DATA + 1, b"BOOTX64 EFI", false, 4, application.len());
    bytes[(DATA + 2) * SECTOR..][..application.len()].copy_from_slice(&application);
    Disk::new(Box::new(MemoryStorage::new(bytes)), WriteMode::Overlay)
}

/// Code and variables, if they are installed.
fn installed() -> Option<[Vec<u8>; 2]> {
    let read = |path: &str| std::fs::read(path).ok();
    let found = OVMF.iter().find_map(|[code, own]| Some([read(code)?, read(own)?]));
    if found.is_none() {
        println!("skipped: {} is not there: apt-get install ovmf", OVMF[1][0]);
    }
    found
}

fn functions() -> Vec<Request> {
    vec![Model::Block(Block { disk: disk(), serial: "disk".into() }).into()]
}

fn run(machine: &mut Machine, until_ms: u64) -> Option<Outcome> {
    let until = Picoseconds::from_milliseconds(until_ms);
    machine.run(Limits { until, instructions: 6_000_000_000 })
}

fn text(machine: &mut Machine) -> String {
    let bytes: Vec<u8> = machine.take_console().iter().map(|(_, byte)| *byte).collect();
    String::from_utf8_lossy(&bytes).into_owned()
}

#[test]
fn ovmf_starts_an_application_whose_variable_outlives_a_reset() {
    let Some([code, variables]) = installed() else { return };
    let code = Source::of("code", &code);
    for (model, cpus) in [("zen4", 1), ("sapphire-rapids", 4)] {
        let configuration = super::configuration(model, cpus, 128 << 20, functions());
        let mut machine = machine(&configuration);
        let given = Source::of("variables", &variables);
        machine.power_on(code, Some(given)).expect("it is UEFI firmware");
        assert_eq!(
            run(&mut machine, 60_000),
            Some(Outcome::Reset),
            "{model}: {}",
            text(&mut machine)
        );
        assert!(text(&mut machine).contains("Started."), "{model}");
        let kept = machine.flash().expect("there is a flash").to_vec();
        assert!(kept != variables, "{model}: the variable is in it");
        let (at, instructions) = (machine.state.now, machine.instructions());
        machine.reset(&configuration).expect("it was possible");
        machine.power_on(code, Some(Source::of("flash", &kept))).expect("once more");
        assert!(machine.state.now >= at && machine.instructions() == instructions);
        let outcome = run(&mut machine, 120_000);
        assert_eq!(outcome, Some(Outcome::PowerOff), "{model}: {}", text(&mut machine));
    }
}

#[test]
fn a_snapshot_holds_firmware_s_code_and_its_flash() {
    let Some([code, variables]) = installed() else { return };
    let configuration = super::configuration("zen4", 1, 128 << 20, functions());
    let mut saved = machine(&configuration);
    let given = Source::of("variables", &variables);
    saved.power_on(Source::of("code", &code), Some(given)).expect("UEFI firmware");
    // In code that is executed from the flash.
    assert_eq!(run(&mut saved, 20), None);
    let mut file = Vec::new();
    saved.save("file", &mut file, configuration.digest()).expect("it can be saved");
    let mut restored = Machine::restore(&configuration, "file", &file[..]).expect("and restored");
    assert_eq!(restored.flash(), saved.flash());
    for machine in [&mut saved, &mut restored] {
        assert_eq!(run(machine, 200), None);
    }
    let hash = |machine: &Machine| machine.state.wiring.recorder.hash.to_string();
    assert_eq!(hash(&restored), hash(&saved));
}
