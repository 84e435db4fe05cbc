//! What a kernel boots into: a first process that says that it runs, sleeps, and powers off. Its
//! bytes are here, so that no package's version changes a hash.

/// What the first process writes to the console.
pub const MARKER: &str = "golden: the first process runs";

/// Where the program is loaded, and where its code begins behind the two headers.
const BASE: u64 = 0x40_0000;
const CODE: u64 = 0x78;
/// Fifty milliseconds, as seconds and nanoseconds: the machine idles and its timers run.
const SLEEP: [u64; 2] = [0, 50_000_000];

/// write(1, marker); nanosleep(sleep, NULL); reboot(power off).
fn code() -> Vec<u8> {
    let text = format!("{MARKER}\n");
    let mut code = Vec::new();
    let load = |code: &mut Vec<u8>, register: u8, value: u32| {
        code.push(0xB8 + register);
        code.extend(value.to_le_bytes());
    };
    // LEA register, [RIP + what is filled in below].
    let address = |code: &mut Vec<u8>, register: u8| {
        code.extend([0x48, 0x8D, 5 | register << 3, 0, 0, 0, 0]);
        code.len()
    };
    let system_call = |code: &mut Vec<u8>| code.extend([0x0F, 0x05]);
    let (ax, dx, si, di) = (0, 2, 6, 7);
    load(&mut code, di, 1);
    let to_text = address(&mut code, si);
    load(&mut code, dx, text.len() as u32);
    load(&mut code, ax, 1);
    system_call(&mut code);
    let to_sleep = address(&mut code, di);
    load(&mut code, si, 0);
    load(&mut code, ax, 35);
    system_call(&mut code);
    load(&mut code, di, 0xFEE1_DEAD);
    load(&mut code, si, 0x2812_1969);
    load(&mut code, dx, 0x4321_FEDC);
    load(&mut code, ax, 169);
    system_call(&mut code);
    code.extend([0xEB, 0xFE]);
    for (end, data) in
        [(to_text, text.into_bytes()), (to_sleep, SLEEP.map(u64::to_le_bytes).concat())]
    {
        let distance = (code.len() - end) as u32;
        code[end - 4..end].copy_from_slice(&distance.to_le_bytes());
        code.extend(data);
    }
    code
}

/// An ELF file with one segment, all of the file. [gABI "ELF Header", "Program Header"]
fn program() -> Vec<u8> {
    let code = code();
    let size = CODE + code.len() as u64;
    let mut file = b"\x7FELF\x02\x01\x01".to_vec();
    file.resize(16, 0);
    for half in [2u16, 62] {
        file.extend(half.to_le_bytes());
    }
    file.extend(1u32.to_le_bytes());
    for word in [BASE + CODE, 0x40, 0] {
        file.extend(word.to_le_bytes());
    }
    file.extend(0u32.to_le_bytes());
    for half in [64u16, 56, 1, 0, 0, 0] {
        file.extend(half.to_le_bytes());
    }
    for word in [1u32, 5] {
        file.extend(word.to_le_bytes());
    }
    for word in [0, BASE, BASE, size, size, 0x1000] {
        file.extend(word.to_le_bytes());
    }
    file.extend(code);
    file
}

/// An initial RAM disk of the program and a console. [LINUX "initramfs buffer format"]
pub fn initial_ram_disk() -> Vec<u8> {
    let (folder, device, executable) = (0o040_755, 0o020_600, 0o100_755);
    let mut archive = Vec::new();
    let entries: [(&str, u32, u32, Vec<u8>); 4] = [
        ("dev", folder, 0, vec![]),
        ("dev/console", device, 5, vec![]),
        ("init", executable, 0, program()),
        ("TRAILER!!!", 0, 0, vec![]),
    ];
    for (number, (name, mode, major, data)) in entries.into_iter().enumerate() {
        let minor = u32::from(major != 0);
        let (size, length) = (data.len() as u32, name.len() as u32 + 1);
        archive.extend(b"070701");
        for field in [number as u32 + 1, mode, 0, 0, 1, 0, size, 0, 0, major, minor, length, 0] {
            archive.extend(format!("{field:08x}").bytes());
        }
        archive.extend(name.bytes());
        archive.push(0);
        archive.resize(archive.len().next_multiple_of(4), 0);
        archive.extend(data);
        archive.resize(archive.len().next_multiple_of(4), 0);
    }
    archive
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The machine boots it; here only that the addresses in the code are those of the data.
    #[test]
    fn the_code_s_two_addresses_are_those_of_the_text_and_of_the_time() {
        let code = code();
        let places: Vec<usize> = code
            .windows(2)
            .enumerate()
            .filter(|(_, bytes)| *bytes == [0x48, 0x8D])
            .map(|(at, _)| at)
            .collect();
        let target = |at: usize| {
            let distance = u32::from_le_bytes(code[at + 3..at + 7].try_into().unwrap());
            at + 7 + distance as usize
        };
        assert!(code[target(places[0])..].starts_with(MARKER.as_bytes()));
        assert_eq!(code[target(places[1])..], SLEEP.map(u64::to_le_bytes).concat());
        assert_eq!(program().len() as u64, CODE + code.len() as u64);
    }
}
