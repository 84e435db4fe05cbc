mod multiboot2;
mod on_disk;

use super::*;
use crate::firmware::{self, FirmwareOptions};
use crate::topology::Topology;
use arch::address::SystemPhysical;
use std::io::Write;

const MIB: u64 = 1 << 20;
const CODE: &[u8] = b"\xF4 the kernel's code, followed by what was zeroed";

/// A machine of 64 MiB with its firmware in place, and what was loaded into it.
struct Machine {
    memory: GuestMemory,
    firmware: firmware::Firmware,
}

impl Machine {
    fn new(size: u64) -> Self {
        let topology = Topology::of_cores(2).unwrap();
        let mut memory = GuestMemory::new(size);
        let options = FirmwareOptions::new(&topology);
        let firmware = firmware::install(&mut memory, &options).unwrap();
        Self { memory, firmware }
    }

    fn load(&mut self, name: &str, bytes: &[u8]) -> Result<BootState, LoadError> {
        self.load_with(name, bytes, "console=ttyS0", None, &[])
    }

    fn load_with(
        &mut self,
        name: &str,
        bytes: &[u8],
        command_line: &str,
        initrd: Option<&[u8]>,
        modules: &[Module],
    ) -> Result<BootState, LoadError> {
        let request = BootRequest {
            kernel: Source::of(name, bytes),
            command_line,
            initrd: initrd.map(|bytes| Source::of("initrd.img", bytes)),
            modules,
            memory_map: &self.firmware.memory_map,
            rsdp: Some(self.firmware.rsdp),
        };
        load(&mut self.memory, &request)
    }

    fn bytes(&self, address: u64, length: usize) -> &[u8] {
        self.memory.slice(SystemPhysical(address), length).unwrap()
    }

    fn u32(&self, address: u64) -> u32 {
        self.memory.read_u32(SystemPhysical(address)).unwrap()
    }

    fn u64(&self, address: u64) -> u64 {
        self.memory.read_u64(SystemPhysical(address)).unwrap()
    }

    fn string(&self, address: u64) -> String {
        let bytes = (address..).map(|at| self.bytes(at, 1)[0]);
        String::from_utf8(bytes.take_while(|byte| *byte != 0).collect()).unwrap()
    }
}

/// An ELF executable with [`CODE`] at `physical`, linked 8000_0000h higher, and a note segment.
fn elf(is_64_bit: bool, physical: u64, entry: u64, note: &[u8]) -> Vec<u8> {
    let word = |value: u64| value.to_le_bytes()[..if is_64_bit { 8 } else { 4 }].to_vec();
    let (header_size, entry_size) = if is_64_bit { (64u16, 56u16) } else { (52, 32) };
    let notes_at = u64::from(header_size + 2 * entry_size);
    let code_at = notes_at + note.len() as u64;
    let mut file = Vec::from(b"\x7FELF");
    file.extend([if is_64_bit { 2 } else { 1 }, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    file.extend([2, 0, if is_64_bit { 62 } else { 3 }, 0, 1, 0, 0, 0]);
    file.extend([word(entry), word(header_size.into()), word(0)].concat());
    file.extend([0; 4]);
    let sizes = [header_size, entry_size, 2, 0, 0, 0];
    file.extend(sizes.into_iter().flat_map(u16::to_le_bytes));
    for (kind, offset, at, size, memory_size) in [
        (1u32, code_at, physical, CODE.len() as u64, CODE.len() as u64 + 0x3000),
        (4, notes_at, 0, note.len() as u64, note.len() as u64),
    ] {
        file.extend(kind.to_le_bytes());
        if is_64_bit {
            file.extend([5, 0, 0, 0]);
        }
        let words = [offset, at.wrapping_add(0x8000_0000), at, size, memory_size].map(word);
        file.extend(words.concat());
        if !is_64_bit {
            file.extend([5, 0, 0, 0]);
        }
        file.extend(word(1));
    }
    file.extend(note);
    file.extend(CODE);
    file
}

fn pvh_note(entry: &[u8]) -> Vec<u8> {
    let other = [&[4, 0, 0, 0, 3, 0, 0, 0, 1, 0, 0, 0][..], b"GNU\0abc\0"].concat();
    let head = [&[4, 0, 0, 0, entry.len() as u8, 0, 0, 0, 18, 0, 0, 0][..], b"Xen\0"].concat();
    [other, head, entry.to_vec()].concat()
}

fn multiboot_header(flags: u32) -> Vec<u8> {
    let words = [0x1BAD_B002, flags, 0u32.wrapping_sub(0x1BAD_B002).wrapping_sub(flags)];
    words.into_iter().flat_map(u32::to_le_bytes).collect()
}

/// A Multiboot image that is not ELF: loaded at 2 MiB, with 1000h bytes of bss behind it.
fn multiboot_addresses(entry: u32, load_end: u32) -> Vec<u8> {
    let base = 2 * MIB as u32;
    let mut file = vec![0xAA; 0x40];
    file.extend(multiboot_header(1 << 16 | 3));
    let end = base + 0x10 + 12 + 20 + CODE.len() as u32;
    let words = [base + 0x10, base, load_end, end + 0x1000, entry];
    file.extend(words.into_iter().flat_map(u32::to_le_bytes));
    file.extend(CODE);
    file
}

/// A bzImage whose payload is `payload`, for a kernel linked at 16 MiB.
fn bzimage(payload: &[u8], extended_flags: u16) -> Vec<u8> {
    let mut file = vec![0; 1024];
    let mut put = |at: usize, bytes: &[u8]| file[at..at + bytes.len()].copy_from_slice(bytes);
    put(0x000, b"MZ");
    put(0x1F1, &[1]);
    put(0x1FE, &[0x55, 0xAA, 0xEB, 0x6A]);
    put(0x202, b"HdrS\x0F\x02");
    put(0x211, &[1]);
    put(0x22C, &0x7FFF_FFFFu32.to_le_bytes());
    put(0x230, &0x20_0000u32.to_le_bytes());
    put(0x234, &[1, 21]);
    put(0x236, &extended_flags.to_le_bytes());
    put(0x238, &2047u32.to_le_bytes());
    put(0x248, &0x300u32.to_le_bytes());
    put(0x24C, &(payload.len() as u32).to_le_bytes());
    put(0x258, &(16 * MIB).to_le_bytes());
    put(0x260, &0x10_0000u32.to_le_bytes());
    file.resize(1024 + 0x300, 0x90);
    file.extend(payload);
    file
}

/// A payload as the kernel's build makes it: the unpacked size follows, except for gzip.
fn pack(format: &str, bytes: &[u8]) -> Vec<u8> {
    let mut packed = match format {
        "gzip" => {
            let mut encoder = flate2::write::GzEncoder::new(Vec::new(), Default::default());
            encoder.write_all(bytes).unwrap();
            return encoder.finish().unwrap();
        }
        "xz" | "lzma" => {
            let stream = match format {
                "xz" => liblzma::stream::Stream::new_easy_encoder(1, liblzma::stream::Check::Crc32),
                _ => liblzma::stream::Stream::new_lzma_encoder(
                    &liblzma::stream::LzmaOptions::new_preset(1).unwrap(),
                ),
            };
            let mut encoder = liblzma::write::XzEncoder::new_stream(Vec::new(), stream.unwrap());
            encoder.write_all(bytes).unwrap();
            encoder.finish().unwrap()
        }
        "zstd" => zstd::encode_all(bytes, 1).unwrap(),
        "lz4" => {
            let block = lz4_flex::block::compress(bytes);
            let size = (block.len() as u32).to_le_bytes();
            [&[0x02, 0x21, 0x4C, 0x18], &size[..], &block].concat()
        }
        "lzo" => b"\x89LZO and so on".to_vec(),
        _ => unreachable!("{format}"),
    };
    packed.extend((bytes.len() as u32).to_le_bytes());
    packed
}

#[test]
fn an_unpacked_linux_kernel_starts_in_64_bit_mode_at_its_own_entry() {
    let kernel = elf(true, 16 * MIB, 16 * MIB + 1, &[]);
    for format in ["gzip", "xz", "zstd", "lz4", "lzma"] {
        let mut machine = Machine::new(64 * MIB);
        // Stale bytes where the kernel expects zeroes.
        machine.memory.write(SystemPhysical(16 * MIB + 0x2000), &[0xEE; 64]).unwrap();
        let image = bzimage(&pack(format, &kernel), 1);
        let initrd = vec![0x1D; 5000];
        let state = machine.load_with("vmlinuz", &image, "quiet", Some(&initrd), &[]).unwrap();
        assert_eq!((state.mode, state.entry), (EntryMode::Long64, 16 * MIB + 1), "{format}");
        assert!(state.description.contains(format), "{}", state.description);
        assert_eq!(machine.bytes(16 * MIB, CODE.len()), CODE);
        assert!(machine.bytes(16 * MIB + 0x2000, 64).iter().all(|byte| *byte == 0));
        check_boot_parameters(&machine, state.registers.rsi, &initrd);
        check_tables(&machine, &state);
    }
}

#[test]
fn an_unpacked_32_bit_linux_kernel_starts_in_protected_mode_at_its_own_entry() {
    let mut machine = Machine::new(64 * MIB);
    let image = bzimage(&pack("xz", &elf(false, 16 * MIB, 16 * MIB + 1, &[])), 0);
    let state = machine.load_with("vmlinuz", &image, "quiet", Some(&[0x1D; 5000]), &[]).unwrap();
    assert_eq!((state.mode, state.entry), (EntryMode::Protected32, 16 * MIB + 1));
    assert_eq!(machine.bytes(16 * MIB, CODE.len()), CODE);
    check_boot_parameters(&machine, state.registers.rsi, &[0x1D; 5000]);
    // A 64-bit kernel that cannot be entered so unpacks itself.
    let image = bzimage(&pack("xz", &elf(true, 16 * MIB, 16 * MIB + 1, &[])), 0);
    let state = machine.load("vmlinuz", &image).unwrap();
    assert_eq!((state.mode, state.entry), (EntryMode::Protected32, 16 * MIB));
}

fn check_boot_parameters(machine: &Machine, at: u64, initrd: &[u8]) {
    assert_eq!(machine.bytes(at + 0x202, 4), b"HdrS");
    assert_eq!(machine.bytes(at + 0x1EF, 1), [0], "sentinel");
    assert_eq!(machine.bytes(at + 0x210, 1), [0xFF], "loader type");
    assert_eq!(machine.u64(at + 0x070), machine.firmware.rsdp.0);
    assert_eq!(machine.string(machine.u32(at + 0x228).into()), "quiet");
    let place = u64::from(machine.u32(at + 0x218));
    assert_eq!(machine.u32(at + 0x21C) as usize, initrd.len());
    assert_eq!(machine.bytes(place, initrd.len()), initrd);
    assert!(place > 60 * MIB && place.is_multiple_of(4096));
    let map = &machine.firmware.memory_map;
    assert_eq!(usize::from(machine.bytes(at + 0x1E8, 1)[0]), map.len());
    for (index, region) in map.iter().enumerate() {
        let entry = at + 0x2D0 + index as u64 * 20;
        assert_eq!(machine.u64(entry), region.start);
        assert_eq!(machine.u64(entry + 8), region.length);
        assert_eq!(machine.u32(entry + 16), region.kind as u32);
    }
}

/// Walks the identity tables and looks at the segments.
fn check_tables(machine: &Machine, state: &BootState) {
    let entry = |table: u64, index: u64| machine.u64((table & !0xFFF) + index * 8);
    let root = state.cr3.unwrap().0;
    for address in [0, 0x20_0000, 0x3FFF_F000, 0x4000_0000, 0xFFFF_FFFFu64] {
        let upper = entry(root, address >> 39);
        let directory = entry(upper, address >> 30);
        let page = entry(directory, address >> 21 & 0x1FF);
        assert_eq!([upper & 3, directory & 3, page & 0x83], [3, 3, 0x83]);
        assert_eq!(page & !0xFFF, address & !0x1F_FFFF);
    }
    let code = machine.u64(state.gdt.0 + u64::from(state.code_selector));
    let is_long = code >> 53 & 1 == 1;
    assert_eq!(is_long, state.mode == EntryMode::Long64);
    assert!(state.gdt_limit >= state.task_selector + 7);
}

#[test]
fn a_kernel_in_an_unknown_compression_unpacks_itself() {
    for (flags, mode, entry) in
        [(1, EntryMode::Long64, 16 * MIB + 0x200), (0, EntryMode::Protected32, 16 * MIB)]
    {
        let mut machine = Machine::new(64 * MIB);
        let image = bzimage(&pack("lzo", &[]), flags);
        let state = machine.load("vmlinuz", &image).unwrap();
        assert_eq!((state.mode, state.entry), (mode, entry));
        assert_eq!(machine.bytes(16 * MIB, 16), [0x90; 16]);
    }
    // Where its preferred place is not RAM, a relocatable kernel goes elsewhere.
    let state = Machine::new(12 * MIB).load("vmlinuz", &bzimage(&pack("lzo", &[]), 1)).unwrap();
    assert_eq!(state.entry, 2 * MIB + 0x200);
}

#[test]
fn a_pvh_kernel_finds_its_modules_and_the_memory_map() {
    for entry in [&0x0100_0001u32.to_le_bytes()[..], &0x0100_0001u64.to_le_bytes()] {
        let mut machine = Machine::new(64 * MIB);
        let image = elf(true, 16 * MIB, 0x8100_0000, &pvh_note(entry));
        let module = Module { file: Source::of("m", b"module"), command_line: "x=1" };
        let state =
            machine.load_with("vmlinux", &image, "quiet", Some(b"initrd"), &[module]).unwrap();
        assert_eq!((state.mode, state.entry), (EntryMode::Protected32, 16 * MIB + 1));
        assert_eq!(state.cr3, None);
        let info = state.registers.rbx;
        let words = [0, 4, 8, 12].map(|at| machine.u32(info + at));
        assert_eq!(words, [0x336E_C578, 1, 0, 2]);
        let list = machine.u64(info + 16);
        assert_eq!(machine.string(machine.u64(info + 24)), "quiet");
        assert_eq!(machine.u64(info + 32), machine.firmware.rsdp.0);
        assert_eq!(machine.bytes(machine.u64(list), 6), b"initrd");
        assert_eq!(machine.u64(list + 40), 6);
        assert_eq!(machine.bytes(machine.u64(list + 32), 6), b"module");
        assert_eq!(machine.string(machine.u64(list + 48)), "x=1");
        let (map, entries) = (machine.u64(info + 40), machine.u32(info + 48));
        assert_eq!(entries as usize, machine.firmware.memory_map.len());
        assert_eq!(machine.u64(map + 8), machine.firmware.memory_map[0].length);
    }
}

#[test]
fn a_multiboot_image_finds_its_information_block() {
    let header = multiboot_header(3);
    let images = [
        ("32-bit ELF", elf(false, 4 * MIB, 4 * MIB, &header), 4 * MIB),
        ("64-bit ELF", elf(true, 4 * MIB, 4 * MIB, &header), 4 * MIB),
        ("virtual entry", elf(true, 4 * MIB, 0x8040_0002, &header), 4 * MIB + 2),
        ("addresses", multiboot_addresses(2 * MIB as u32 + 4, 0), 2 * MIB + 4),
        // Linked where boot information would go otherwise.
        ("low", elf(false, 0x8000, 0x8000, &header), 0x8000),
        ("gzip", pack("gzip", &elf(false, 4 * MIB, 4 * MIB, &header)), 4 * MIB),
    ];
    for (name, image, entry) in images {
        let mut machine = Machine::new(64 * MIB);
        let module = Module { file: Source::of("mod", b"module"), command_line: "a b" };
        let state =
            machine.load_with("kernel", &image, "arguments", Some(b"first"), &[module]).unwrap();
        assert_eq!((state.mode, state.entry), (EntryMode::Protected32, entry), "{name}");
        assert_eq!(state.registers.rax, 0x2BAD_B002);
        check_stack(&machine, state.registers.rsp);
        let info = state.registers.rbx;
        let above = machine.firmware.memory_map.iter().find(|region| region.start == MIB);
        let above = above.unwrap().length as u32;
        assert_eq!(machine.u32(info), 0x24D);
        assert_eq!([machine.u32(info + 4), machine.u32(info + 8)], [639, above >> 10]);
        assert_eq!(machine.string(machine.u32(info + 16).into()), "kernel arguments");
        assert_eq!(machine.string(machine.u32(info + 64).into()), "Avicenna");
        check_modules(&machine, info);
        check_memory_map(&machine, info);
    }
}

/// An image may push before it has a stack of its own.
fn check_stack(machine: &Machine, top: u64) {
    let below = machine.bytes(top - 4096, 4096);
    assert!(below.iter().all(|byte| *byte == 0), "nothing is lost below {top:#x}");
}

fn check_modules(machine: &Machine, info: u64) {
    assert_eq!(machine.u32(info + 20), 2);
    let list = u64::from(machine.u32(info + 24));
    for (index, bytes, line) in [(0, &b"first"[..], "initrd.img"), (1, b"module", "mod a b")] {
        let entry = list + index * 16;
        let (start, end) = (machine.u32(entry), machine.u32(entry + 4));
        assert_eq!(machine.bytes(start.into(), (end - start) as usize), bytes);
        assert!(start.is_multiple_of(4096));
        assert_eq!(machine.string(machine.u32(entry + 8).into()), line);
    }
}

fn check_memory_map(machine: &Machine, info: u64) {
    let (length, start) = (machine.u32(info + 44), u64::from(machine.u32(info + 48)));
    let mut at = start;
    for region in &machine.firmware.memory_map {
        assert_eq!(machine.u32(at), 20);
        assert_eq!((machine.u64(at + 4), machine.u64(at + 12)), (region.start, region.length));
        at += u64::from(machine.u32(at)) + 4;
    }
    assert_eq!(at, start + u64::from(length));
}

#[test]
fn refusals_name_the_file_what_was_found_and_what_is_wanted() {
    let other_machine = {
        let mut image = elf(true, 4 * MIB, 4 * MIB, &[]);
        image[18] = 183;
        image
    };
    let kernel = elf(true, 16 * MIB, 16 * MIB, &[]);
    let mut broken_payload = bzimage(&pack("gzip", &kernel), 1);
    let middle = broken_payload.len() - 20;
    broken_payload.truncate(middle);
    let mut corrupt = bzimage(&pack("xz", &kernel), 1);
    let payload = corrupt.len() - 60;
    corrupt[payload] ^= 0x55;
    let mut old = bzimage(&[], 1);
    old[0x206] = 3;
    let rows: &[(&[u8], &[&str])] = &[
        (b"", &["an empty file", "Multiboot 1"]),
        (b"hello, kernel", &["unknown contents that starts with 68 65 6c 6c"]),
        (b"MZ and nothing", &["a PE image", "no firmware"]),
        (&pack("gzip", b"070701 archive"), &["gzip of a cpio archive"]),
        (&pack("gzip", &elf(true, 4096, 0, &[])), &["gzip of ELF64 for x86-64 without Multiboot"]),
        (&other_machine, &["ELF64 for AArch64"]),
        (&elf(false, 4096, 0, &[])[..60], &["ELF32 for i386", "truncated", "0x34"]),
        (&multiboot_addresses(4, 0), &["entry address at offset 0x5c is 0x4", "inside the image"]),
        (&multiboot_addresses(0, 1), &["load end address at offset 0x54", "above the load"]),
        (&multiboot_addresses(0, 0x30_0000), &["truncated", "1048576 bytes at offset 0x30"]),
        (&elf(true, 63 * MIB, 63 * MIB, &multiboot_header(0)), &["segment at 0x3f00000"]),
        (&elf(true, 0xA_0000, 0, &multiboot_header(0)), &["no room", "free RAM there"]),
        (&elf(true, u64::MAX - 9, 0, &multiboot_header(0)), &["no room", "segment at 0xff"]),
        (&elf(true, 4 * MIB, 9, &multiboot_header(0)), &["ELF entry at offset 0x18 is 0x9"]),
        (&elf(true, 4 * MIB, 0, &multiboot_header(1 << 5)), &["Multiboot flags", "bits 15:3"]),
        (&elf(true, 4 * MIB, 0, &pvh_note(&[0; 4])), &["PVH entry point", "inside a loaded"]),
        (&old, &["boot protocol version at offset 0x206 is 0x203", "20ah"]),
        (&broken_payload, &["compressed kernel", "truncated"]),
        (&corrupt, &["xz data at offset 0x700 does not unpack"]),
        (&bzimage(&pack("gzip", b"no kernel"), 1), &["file, unpacked", "ELF magic"]),
    ];
    for (bytes, wanted) in rows {
        // A segment at 63 MiB would lie over the firmware's tables.
        let error = Machine::new(63 * MIB).load("file", bytes).unwrap_err().to_string();
        for part in *wanted {
            assert!(error.starts_with("file") && error.contains(part), "{part:?} in {error:?}");
        }
    }
}

#[test]
fn requests_that_a_kernel_cannot_take_are_refused() {
    let image = bzimage(&pack("gzip", &elf(true, 16 * MIB, 16 * MIB, &[])), 1);
    let mut machine = Machine::new(64 * MIB);
    let long = "x".repeat(2048);
    let module = Module { file: Source::of("m", b"m"), command_line: "" };
    let big = vec![1; 60 * MIB as usize];
    type Row<'a> = (&'a str, Option<&'a [u8]>, &'a [Module<'a>], &'a str);
    let rows: [Row; 4] = [
        (&long, None, &[], "command line of 2048 bytes, the kernel takes at most 2047"),
        ("a\0b", None, &[], "NUL byte at offset 0x1"),
        ("", None, &[module], "takes no module (m)"),
        ("", Some(&big), &[], "initrd.img: no room for 62914560 bytes, wanted as much free RAM"),
    ];
    for (line, initrd, modules, wanted) in rows {
        let error = machine.load_with("file", &image, line, initrd, modules).unwrap_err();
        assert!(error.to_string().contains(wanted), "{error}");
    }
}

/// One image of every kind.
fn corpus() -> Vec<Vec<u8>> {
    let kernel = elf(true, 16 * MIB, 16 * MIB + 1, &[]);
    vec![
        bzimage(&pack("gzip", &kernel), 1),
        bzimage(&pack("xz", &kernel), 1),
        bzimage(&pack("zstd", &kernel), 1),
        bzimage(&pack("lz4", &kernel), 1),
        bzimage(&pack("lzma", &kernel), 1),
        bzimage(&pack("lzo", &[]), 0),
        elf(true, 16 * MIB, 0, &pvh_note(&0x100_0000u32.to_le_bytes())),
        elf(false, 4 * MIB, 4 * MIB, &multiboot_header(3)),
        elf(true, 4 * MIB, 4 * MIB, &multiboot_header(0)),
        multiboot_addresses(2 * MIB as u32, 0),
        pack("gzip", &elf(false, 4 * MIB, 4 * MIB, &multiboot_header(3))),
    ]
}

#[test]
fn truncated_and_flipped_images_give_errors_or_load_and_never_panic() {
    let mut machine = Machine::new(32 * MIB);
    let mut refused = 0;
    let mut cases = 0;
    for image in corpus() {
        for length in 0..image.len() {
            cases += 1;
            refused += usize::from(machine.load("cut", &image[..length]).is_err());
        }
        for at in 0..image.len() {
            for value in [0x00, 0x01, 0x7F, 0x80, 0xFF] {
                let mut flipped = image.clone();
                flipped[at] ^= value;
                cases += 1;
                refused += usize::from(machine.load("flipped", &flipped).is_err());
            }
        }
        // Whole words of the headers, where sizes and addresses lie.
        for at in (0..image.len().min(0x300)).step_by(4) {
            for value in [0, 1, 0x7FFF_FFFF, 0x8000_0000, 0xFFFF_FFFCu32, 0xFFFF_FFFF] {
                let mut changed = image.clone();
                let end = (at + 4).min(image.len());
                changed[at..end].copy_from_slice(&value.to_le_bytes()[..end - at]);
                cases += 1;
                refused += usize::from(machine.load("changed", &changed).is_err());
            }
        }
    }
    assert!(refused > cases / 10 && refused < cases, "{refused} of {cases} refused");
}

/// Kernels as distributions ship them, where there are any.
#[test]
fn real_kernels_load_in_a_machine_of_a_gibibyte() {
    let data = std::env::var_os("AVICENNA_DATA").map(std::path::PathBuf::from);
    let data = data.unwrap_or_else(|| "../../../shared/data".into()).join("boot");
    let Ok(files) = std::fs::read_dir(&data) else {
        println!("skipped: no directory {} with kernels", data.display());
        return;
    };
    for file in files {
        let path = file.unwrap().path();
        let bytes = std::fs::read(&path).unwrap();
        let start = std::time::Instant::now();
        let state = Machine::new(1 << 30).load(&path.display().to_string(), &bytes);
        match state {
            Ok(state) => {
                println!("{}: {} in {:?}", path.display(), state.description, start.elapsed())
            }
            Err(error) => panic!("{error}"),
        }
    }
}
