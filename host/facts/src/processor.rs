//! What only the running machine can tell: CPUID, capability registers and the kernel log.
//!
//! CPUID comes from `/dev/cpu/N/cpuid`, or from the instruction on each processor in turn;
//! registers from `/dev/cpu/N/msr`. Both go into the inputs as texts, one for each kind of core, so
//! that a live host and its snapshot are read by the same code.

use crate::cpuid;
use crate::folder::reason;
use crate::inputs::Inputs;
use reading::Cpuid;
use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::{FileExt, OpenOptionsExt};

/// Registers that decide interrupt virtualization: feature control, VMX capabilities, VM_CR.
pub const REGISTERS: &[u32] = &[
    0x3A,
    0x480,
    0x481,
    0x482,
    0x483,
    0x484,
    0x485,
    0x48B,
    0x48C,
    0x48D,
    0x48E,
    0x48F,
    0x490,
    0x491,
    0x492,
    0xC001_0114,
];

/// Most processors that are asked.
const PROCESSORS_LIMIT: u32 = 8192;

/// Most bytes of the kernel log that are looked through.
const LOG_LIMIT: usize = 16 << 20;

/// Reads every kind of core into `avicenna/cpuid/LIST.txt` and `avicenna/msr/LIST.txt`.
pub fn read_into(inputs: &mut Inputs) {
    let mut kinds: BTreeMap<Vec<u32>, (Vec<u32>, Cpuid)> = BTreeMap::new();
    for number in online() {
        let Some(identity) = identity(number) else { continue };
        kinds
            .entry(identity.kind())
            .or_insert_with(|| (vec![], leaves(number).unwrap_or(identity)))
            .0
            .push(number);
    }
    for (numbers, cpuid) in kinds.values() {
        let (list, first) = (print_list(numbers), numbers[0]);
        inputs
            .insert(format!("avicenna/cpuid/{list}.txt"), cpuid::print(first, cpuid).into_bytes());
        match registers(first, cpuid) {
            Ok(text) => {
                inputs.insert(format!("avicenna/msr/{list}.txt"), text.into_bytes());
            }
            Err(error) => {
                let why = format!("/dev/cpu/{first}/msr: {}", reason(&error));
                inputs.insert_unreadable(format!("avicenna/msr/{list}.txt"), why);
            }
        }
    }
}

/// Leaves that tell kinds of core apart, and nothing more: this runs on every processor.
fn identity(number: u32) -> Option<Cpuid> {
    read_leaves(number, |read| {
        let mut cpuid = Cpuid::default();
        let highest = read(0, 0)?;
        cpuid.insert(0, 0, highest);
        let extended = read(0x8000_0000, 0)?;
        cpuid.insert(0x8000_0000, 0, extended);
        for leaf in [1, 0x1A, 0x8000_0001, 0x8000_000A, 0x8000_001F] {
            let limit = if leaf < 0x8000_0000 { highest[0] } else { extended[0] };
            if leaf <= limit {
                cpuid.insert(leaf, 0, read(leaf, 0)?);
            }
        }
        Some(cpuid)
    })
}

fn leaves(number: u32) -> Option<Cpuid> {
    read_leaves(number, |read| {
        let mut cpuid = Cpuid::default();
        let is_virtual = read(1, 0)?[2] >> 31 & 1 == 1;
        let ranges: &[u32] =
            if is_virtual { &[0, 0x4000_0000, 0x8000_0000] } else { &[0, 0x8000_0000] };
        for &start in ranges {
            let highest = read(start, 0)?[0].min(start + 0x40);
            for leaf in start..=highest.max(start) {
                // Leaves with subleaves that matter here to nobody are read at zero alone.
                cpuid.insert(leaf, 0, read(leaf, 0)?);
            }
        }
        Some(cpuid)
    })
}

type Leaf = [u32; 4];

/// Calls `use_leaves` with a function that executes CPUID on the given processor.
fn read_leaves<T>(
    number: u32,
    use_leaves: impl FnOnce(&dyn Fn(u32, u32) -> Option<Leaf>) -> Option<T>,
) -> Option<T> {
    if let Ok(device) = File::open(format!("/dev/cpu/{number}/cpuid")) {
        return use_leaves(&|leaf, subleaf| {
            let mut bytes = [0; 16];
            device.read_exact_at(&mut bytes, u64::from(leaf) | u64::from(subleaf) << 32).ok()?;
            let word =
                |at: usize| bytes[at * 4..at * 4 + 4].try_into().map(u32::from_le_bytes).ok();
            Some([word(0)?, word(1)?, word(2)?, word(3)?])
        });
    }
    on_processor(number, use_leaves)
}

/// Executes the instruction after moving this thread to the processor, and moves it back.
#[cfg(target_arch = "x86_64")]
fn on_processor<T>(
    number: u32,
    use_leaves: impl FnOnce(&dyn Fn(u32, u32) -> Option<Leaf>) -> Option<T>,
) -> Option<T> {
    use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
    if number as usize >= CpuSet::MAX_CPU {
        return None;
    }
    let before = sched_getaffinity(None).ok()?;
    let mut here = CpuSet::new();
    here.set(number as usize);
    sched_setaffinity(None, &here).ok()?;
    let result = use_leaves(&|leaf, subleaf| {
        let found = core::arch::x86_64::__cpuid_count(leaf, subleaf);
        Some([found.eax, found.ebx, found.ecx, found.edx])
    });
    sched_setaffinity(None, &before).ok()?;
    result
}

#[cfg(not(target_arch = "x86_64"))]
fn on_processor<T>(
    _number: u32,
    _use_leaves: impl FnOnce(&dyn Fn(u32, u32) -> Option<Leaf>) -> Option<T>,
) -> Option<T> {
    None
}

fn registers(number: u32, cpuid: &Cpuid) -> io::Result<String> {
    let device = File::open(format!("/dev/cpu/{number}/msr"))?;
    let has_svm = cpuid.vendor().is_some_and(|vendor| vendor.has_svm());
    let mut text = String::new();
    for &register in REGISTERS {
        if (register >= 0xC000_0000) != has_svm {
            continue;
        }
        let mut bytes = [0; 8];
        match device.read_exact_at(&mut bytes, u64::from(register)) {
            Ok(()) => text
                .push_str(&format!("MSR 0x{register:08x}: 0x{:016x}\n", u64::from_le_bytes(bytes))),
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => return Err(error),
            Err(_) => text.push_str(&format!("MSR 0x{register:08x}: < FAILED >\n")),
        }
    }
    Ok(text)
}

/// The numbers of the processors that are on.
fn online() -> Vec<u32> {
    std::fs::read_to_string("/sys/devices/system/cpu/online")
        .map(|text| parse_list(&text))
        .ok()
        .filter(|numbers| !numbers.is_empty())
        .unwrap_or_else(|| vec![0])
}

/// Reads `0-3,8`.
pub fn parse_list(text: &str) -> Vec<u32> {
    let mut numbers = vec![];
    for part in text.trim().split([',', '+']) {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (Ok(first), Ok(last)) = (first.trim().parse::<u32>(), last.trim().parse::<u32>())
        else {
            continue;
        };
        numbers.extend(first..=last.min(first.saturating_add(PROCESSORS_LIMIT)));
        numbers.truncate(PROCESSORS_LIMIT as usize);
    }
    numbers
}

/// Prints `0-3+8`: a list that is a file name.
pub fn print_list(numbers: &[u32]) -> String {
    let mut parts: Vec<(u32, u32)> = vec![];
    for &number in numbers {
        match parts.last_mut() {
            Some((_, last)) if *last + 1 == number => *last = number,
            _ => parts.push((number, number)),
        }
    }
    let print = |&(first, last): &(u32, u32)| {
        if first == last { first.to_string() } else { format!("{first}-{last}") }
    };
    parts.iter().map(print).collect::<Vec<_>>().join("+")
}

/// Reads the kernel's ring buffer into `avicenna/dmesg.txt`, the wanted lines alone.
pub fn read_log_into(inputs: &mut Inputs) {
    const NONBLOCKING: i32 = 0o4000;
    let place = "avicenna/dmesg.txt";
    let mut device = match OpenOptions::new().read(true).custom_flags(NONBLOCKING).open("/dev/kmsg")
    {
        Ok(device) => device,
        Err(error) => {
            return inputs.insert_unreadable(place, format!("/dev/kmsg: {}", reason(&error)));
        }
    };
    let mut text = String::new();
    let mut seen = 0;
    let mut record = vec![0; 8192];
    // One record for each read; a record that was overwritten meanwhile is an error that passes.
    for _ in 0..1_000_000 {
        match device.read(&mut record) {
            Ok(0) => break,
            Ok(length) => {
                seen += length;
                let line = String::from_utf8_lossy(&record[..length]);
                let message =
                    line.split_once(';').map_or("", |(_, rest)| rest.lines().next().unwrap_or(""));
                if crate::log::is_wanted(message) {
                    text.push_str(message);
                    text.push('\n');
                }
            }
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => continue,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
            Err(error) => {
                return inputs.insert_unreadable(place, format!("/dev/kmsg: {}", reason(&error)));
            }
        }
        if seen > LOG_LIMIT {
            break;
        }
    }
    inputs.insert(place, text.into_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processor_lists_read_and_print() {
        for (text, numbers) in [
            ("0-3,8", vec![0, 1, 2, 3, 8]),
            ("0", vec![0]),
            ("2+4-5", vec![2, 4, 5]),
            ("", vec![]),
            ("x-y", vec![]),
        ] {
            assert_eq!(parse_list(text), numbers, "{text}");
        }
        assert_eq!(print_list(&[0, 1, 2, 5, 7, 8]), "0-2+5+7-8");
        assert!(parse_list("0-4294967295").len() <= PROCESSORS_LIMIT as usize);
    }

    #[cfg(target_arch = "x86_64")]
    #[test]
    fn the_running_processor_has_a_vendor() {
        let cpuid = identity(online()[0]).expect("CPUID can be executed");
        assert!(cpuid.vendor().is_some());
    }
}
