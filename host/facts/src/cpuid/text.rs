//! Lines to processors: headings begin one, leaves ([`super::line`]) and registers belong to one.
//!
//! ```text
//! CPU 0:
//!    0x8000000a 0x00: eax=0x00000001 ebx=0x00008000 ecx=0x00000000 edx=0x119bfcff
//!
//! ------[ Logical CPU #0 ]------
//! CPUID 8000000A: 00000001-00008000-00000000-119BFCFF [SL 00]
//! ------[ MSR Registers ]------
//! MSR 00000480: 00DA-0400-0000-0012
//! MSR 00000492: < FAILED >
//! ```

use super::line::{self, hexadecimal};
use super::{PROCESSORS_LIMIT, Processor};
use std::collections::BTreeMap;

/// Longest line that is looked at; the formats need less than 120 characters.
const LINE_LIMIT: usize = 400;

/// Most registers that are read.
const REGISTERS_LIMIT: usize = 100_000;

enum Section {
    /// Leaves of a processor.
    Leaves(Option<u32>),
    /// Registers of one processor, or of all.
    Registers(Option<u32>),
}

pub fn parse(listing: &str) -> Vec<Processor> {
    let mut processors = vec![Processor::default()];
    let mut registers: Vec<(Option<u32>, u32, Option<u64>)> = vec![];
    let mut owner = None;
    let mut table = None;
    for line in listing.lines().map(str::trim).filter(|line| line.len() <= LINE_LIMIT) {
        if let Some(section) = heading(line) {
            match section {
                Section::Leaves(number) => {
                    owner = number;
                    start(&mut processors, number);
                }
                Section::Registers(number) => owner = number,
            }
        } else if let Some(leaf) = line::table(line) {
            table = Some(leaf);
        } else if let Some((leaf, subleaf, values)) = line::leaf(line, table) {
            let last = processors.len() - 1;
            // A second leaf 0 without a heading between them begins another processor.
            if (leaf, subleaf) == (0, 0) && processors[last].cpuid.leaf(0).is_some() {
                start(&mut processors, None);
            }
            if let Some(current) = processors.last_mut() {
                current.insert(leaf, subleaf, values);
            }
        } else if let Some((number, value)) = msr(line)
            && registers.len() < REGISTERS_LIMIT
        {
            registers.push((owner, number, value));
        }
    }
    assign(&mut processors, &registers);
    processors
}

/// Registers go to the processor they were listed for, and to every processor that has none of its
/// own.
fn assign(processors: &mut [Processor], registers: &[(Option<u32>, u32, Option<u64>)]) {
    let mut shared: BTreeMap<u32, Option<u64>> = BTreeMap::new();
    let mut owned: BTreeMap<u32, BTreeMap<u32, Option<u64>>> = BTreeMap::new();
    for &(owner, number, value) in registers {
        shared.entry(number).or_insert(value);
        if let Some(owner) = owner {
            owned.entry(owner).or_default().entry(number).or_insert(value);
        }
    }
    for processor in processors {
        let own = processor.number.and_then(|number| owned.get(&number));
        processor.msrs = own.unwrap_or(&shared).clone();
    }
}

fn start(processors: &mut Vec<Processor>, number: Option<u32>) {
    let last = processors.len() - 1;
    if processors[last].cpuid.is_empty() {
        processors[last].number = number;
    } else if processors.len() < PROCESSORS_LIMIT {
        processors.push(Processor { number, ..Processor::default() });
    }
}

/// `CPU 3:`, `CPU:`, `------[ Logical CPU #3 ]------`,
/// `------[ MSR Registers / Logical CPU #3 ]------`, `CPUID Registers (CPU #3):`.
fn heading(line: &str) -> Option<Section> {
    if let Some(rest) = line.strip_prefix("CPUID Registers (CPU #") {
        return rest.strip_suffix("):")?.parse().ok().map(|number| Section::Leaves(Some(number)));
    }
    if let Some(rest) = line.strip_prefix("CPU").and_then(|rest| rest.strip_suffix(':')) {
        return match rest.trim() {
            "" => Some(Section::Leaves(None)),
            digits => digits.parse().ok().map(|number| Section::Leaves(Some(number))),
        };
    }
    let title = line.strip_prefix("------[")?;
    let number = title
        .split_once("Logical CPU #")
        .and_then(|(_, rest)| rest.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok());
    if title.contains("MSR Registers") {
        Some(Section::Registers(number))
    } else {
        number.map(|number| Section::Leaves(Some(number)))
    }
}

/// `MSR 0x00000480: 0x00da040000000012`, `MSR 00000480: 00DA-0400-0000-0012`,
/// `MSR 00000492: < FAILED >`
fn msr(line: &str) -> Option<(u32, Option<u64>)> {
    let (number, value) = line.strip_prefix("MSR ")?.split_once(':')?;
    let number = hexadecimal(number.trim())?;
    if value.contains("FAILED") {
        return Some((number, None));
    }
    let word = value.split_whitespace().next()?;
    let digits: String = word
        .strip_prefix("0x")
        .unwrap_or(word)
        .chars()
        .filter(|c| !matches!(c, '-' | '_'))
        .collect();
    (digits.len() <= 16)
        .then(|| u64::from_str_radix(&digits, 16).ok())
        .flatten()
        .map(|value| (number, Some(value)))
}
