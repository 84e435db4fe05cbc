use super::*;

/// A header with these tags: type, flags, contents.
fn header(architecture: u32, tags: &[(u16, u16, Vec<u32>)]) -> Vec<u8> {
    let mut body = Vec::new();
    for (kind, flags, words) in tags.iter().chain(&[(0, 0, Vec::new())]) {
        body.extend([kind.to_le_bytes(), flags.to_le_bytes()].concat());
        body.extend((8 + 4 * words.len() as u32).to_le_bytes());
        body.extend(words.iter().flat_map(|word| word.to_le_bytes()));
        body.resize(body.len().next_multiple_of(8), 0);
    }
    let length = 16 + body.len() as u32;
    let magic = 0xE852_50D6u32;
    let sum = magic.wrapping_add(architecture).wrapping_add(length).wrapping_neg();
    let words = [magic, architecture, length, sum];
    words.into_iter().flat_map(u32::to_le_bytes).chain(body).collect()
}

/// An ELF image at 4 MiB with this header.
fn image(header: &[u8]) -> Vec<u8> {
    // The file's header and two of segments are a multiple of eight bytes, so that it is aligned.
    elf(true, 4 * MIB, 4 * MIB, header)
}

/// The tags of the information block: type and contents.
fn tags(machine: &Machine, information: u64) -> Vec<(u32, Vec<u8>)> {
    let (mut tags, mut at) = (Vec::new(), information + 8);
    let end = information + u64::from(machine.u32(information));
    while at < end {
        let size = machine.u32(at + 4);
        tags.push((machine.u32(at), machine.bytes(at + 8, size as usize - 8).to_vec()));
        at = (at + u64::from(size)).next_multiple_of(8);
    }
    tags
}

#[test]
fn an_image_finds_what_it_asked_for() {
    let asked = vec![1, 3, 4, 6, 15];
    let base = 2 * MIB as u32;
    let addresses = vec![base, base, 0, 0];
    let by_addresses = [
        header(0, &[(2, 0, addresses), (3, 0, vec![base + 0x60]), (1, 0, asked.clone())]),
        vec![0x90; 0x40],
    ]
    .concat();
    let images = [
        ("ELF", image(&header(0, &[(1, 0, asked), (6, 0, vec![])])), 4 * MIB),
        ("entry of its own", image(&header(0, &[(3, 0, vec![base * 2 + 2])])), 4 * MIB + 2),
        ("what it can do without", image(&header(0, &[(5, 1, vec![0; 3])])), 4 * MIB),
        ("addresses", by_addresses, 2 * MIB + 0x60),
    ];
    for (name, image, entry) in images {
        let mut machine = Machine::new(64 * MIB);
        let module = Module { file: Source::of("mod", b"module"), command_line: "a b" };
        let state =
            machine.load_with("kernel", &image, "arguments", Some(b"first"), &[module]).unwrap();
        assert_eq!((state.mode, state.entry), (EntryMode::Protected32, entry), "{name}");
        assert_eq!(state.registers.rax, 0x36D7_6289);
        check_stack(&machine, state.registers.rsp);
        let tags = tags(&machine, state.registers.rbx);
        let kinds: Vec<u32> = tags.iter().map(|(kind, _)| *kind).collect();
        assert_eq!(kinds, [1, 2, 3, 3, 4, 6, 15, 0], "{name}");
        assert_eq!(tags[0].1, b"arguments\0");
        let word = |tag: usize, at: usize| {
            u32::from_le_bytes(tags[tag].1[at * 4..at * 4 + 4].try_into().unwrap())
        };
        let second = (u64::from(word(3, 0)), (word(3, 1) - word(3, 0)) as usize);
        assert_eq!(machine.bytes(second.0, second.1), b"module");
        assert_eq!(&tags[3].1[8..], b"a b\0");
        assert_eq!((word(4, 0), word(5, 0)), (639, 24));
        assert_eq!(tags[5].1.len(), 8 + 24 * machine.firmware.memory_map.len());
        assert_eq!(&tags[6].1[..8], b"RSD PTR ");
    }
}

#[test]
fn what_cannot_be_obeyed_is_refused() {
    let rows: [(Vec<u8>, &[&str]); 5] = [
        (header(4, &[]), &["Multiboot 2 architecture", "is 0x4"]),
        (header(0, &[(5, 0, vec![0; 3])]), &["Multiboot 2 tag at", "is 0x5", "or optional"]),
        (header(0, &[(1, 0, vec![1, 9])]), &["information request at", "is 0x9"]),
        (header(0, &[(2, 0, vec![0; 4])]), &["address tag", "entry address (3)"]),
        (header(0, &[(99, 0, vec![])]), &["is 0x63"]),
    ];
    for (header, wanted) in rows {
        let error = Machine::new(63 * MIB).load("file", &image(&header)).unwrap_err().to_string();
        for part in wanted {
            assert!(error.contains(part), "{part:?} in {error:?}");
        }
    }
}

#[test]
fn damaged_images_give_errors_or_load_and_never_panic() {
    let whole = image(&header(0, &[(1, 0, vec![1]), (2, 0, vec![MIB as u32; 4]), (3, 0, vec![1])]));
    let mut machine = Machine::new(32 * MIB);
    let mut refused = 0;
    for at in 0..whole.len() {
        refused += usize::from(machine.load("cut", &whole[..at]).is_err());
        for bit in 0..8 {
            let mut flipped = whole.clone();
            flipped[at] ^= 1 << bit;
            refused += usize::from(machine.load("flipped", &flipped).is_err());
        }
    }
    assert!(refused > whole.len());
}
