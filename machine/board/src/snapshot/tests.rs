use super::*;
use arch::address::SystemPhysical;
use bus::GuestMemory;
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct State {
    registers: Vec<u64>,
    name: String,
    flag: Option<bool>,
}

const CONFIGURATION: ConfigurationDigest = ConfigurationDigest(0x1234_5678_9ABC_DEF0);

fn state() -> State {
    State { registers: (0..100).map(|n| (n * n) << 32).collect(), name: "cpu".into(), flag: None }
}

/// RAM with a repeated pattern, noise that cannot be packed, and a last chunk cut short.
fn memory() -> GuestMemory {
    let mut memory = GuestMemory::new((1 << 20) + 0x3000);
    let mut noise = 1u64;
    for at in (0x4_0000..0x6_0000).step_by(8) {
        noise = noise.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        let word = (noise ^ noise >> 29).to_le_bytes();
        memory.write(SystemPhysical(at), &word).unwrap();
    }
    memory.write(SystemPhysical(0x8_FFFE), &[0x11; 4]).unwrap();
    memory.write(SystemPhysical((1 << 20) + 0x2FFF), &[0x22]).unwrap();
    memory.watch(0x9_0000, 64);
    memory
}

fn saved() -> Vec<u8> {
    let mut file = Vec::new();
    save("file", &mut file, CONFIGURATION, &state(), &memory()).unwrap();
    file
}

fn restore(bytes: &[u8]) -> Result<(State, GuestMemory), String> {
    SnapshotReader::new("file", bytes)
        .and_then(|reader| reader.restore(CONFIGURATION))
        .map_err(|error| error.to_string())
}

/// The message of a refusal.
fn refusal(bytes: &[u8]) -> String {
    restore(bytes).err().expect("a refusal")
}

#[test]
fn what_is_saved_is_restored_without_marks_of_decoded_code() {
    let file = saved();
    let (state_back, memory_back) = restore(&file).unwrap();
    assert_eq!(state_back, state());
    assert!(memory_back.ram == memory().ram);
    assert_eq!(memory_back.layout(), memory().layout());
    assert!(memory_back.watched_lines.iter().all(|bits| *bits == 0));
    // Two chunks of noise and four that pack to almost nothing.
    assert!(file.len() < 2 * CHUNK + 4096, "{}", file.len());
}

#[test]
fn every_cut_and_every_flipped_byte_is_refused_with_its_place() {
    let file = saved();
    let places =
        (0..1200).chain((1200..file.len()).step_by(509)).chain(file.len() - 20..file.len());
    for at in places {
        let error = restore(&file[..at]).err().unwrap_or_else(|| panic!("cut at {at:#x}"));
        assert!(error.starts_with("file: truncated inside"), "{error}");
        let mut flipped = file.clone();
        flipped[at] ^= 0x10;
        // The bytes after the version are spare, but hashed.
        let error = restore(&flipped).err().unwrap_or_else(|| panic!("flip at {at:#x}"));
        let known = ["damaged", "truncated", "not a snapshot", "snapshot version"];
        assert!(known.iter().any(|word| error.contains(word)), "{error}");
    }
}

/// The file with words of its head changed and the head's hash made right again.
fn forged(changes: &[(usize, u64)]) -> Vec<u8> {
    let mut file = saved();
    for (at, word) in changes {
        file[*at..at + 8].copy_from_slice(&word.to_le_bytes());
    }
    let hash = checksum(&file[..48]);
    file[48..56].copy_from_slice(&hash.to_le_bytes());
    file
}

#[test]
fn bytes_behind_the_end_are_refused_with_their_place() {
    let mut file = saved();
    let end = file.len();
    file.push(0);
    let error = refusal(&file);
    let place = format!("the end at offset {end:#x} is damaged: bytes follow it");
    assert!(error.contains(&place), "{error}");
}

#[test]
fn forged_sizes_are_refused_before_memory_is_touched() {
    let rows: [(&[(usize, u64)], &str); 6] = [
        (&[(24, u64::MAX)], "the size of RAM at offset 0x18"),
        (&[(24, 1 << 43)], "must be at most 0x40000000000"),
        (&[(24, 0x1801)], "must be whole pages"),
        (&[(24, 0x1000)], "chunk 0x4 of 0x10000 bytes, must be from 0x0 to 0x1"),
        (&[(32, u64::MAX)], "the size of the state at offset 0x20"),
        (&[(16, 7)], "configuration 0000000000000007, this machine has 123456789abcdef0"),
    ];
    for (changes, wanted) in rows {
        let error = refusal(&forged(changes));
        assert!(error.contains(wanted), "{error}");
    }
}

#[test]
fn state_of_another_shape_is_refused() {
    let mut file = Vec::new();
    save("file", &mut file, CONFIGURATION, &(state(), 7u8), &memory()).unwrap();
    assert!(refusal(&file).contains("1 bytes are left over"));
    let mut file = Vec::new();
    save("file", &mut file, CONFIGURATION, &"short", &memory()).unwrap();
    assert!(refusal(&file).contains("the state at offset 0x38 is damaged"));
}

#[test]
fn a_failing_output_is_reported() {
    let mut short = [0u8; 100];
    let error = save("file", &mut &mut short[..], CONFIGURATION, &state(), &memory()).unwrap_err();
    assert!(error.to_string().starts_with("file: cannot write the snapshot"));
}
