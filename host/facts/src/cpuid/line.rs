//! One line of a listing to one leaf. The forms, and what prints them:
//!
//! ```text
//! CPUID 8000000A: 00000001-00008000-00000000-119BFCFF [SL 00]                        AIDA64, libcpuid
//! 0x8000000a 0x00: eax=0x00000001 ebx=0x00008000 ecx=0x00000000 edx=0x119bfcff       cpuid -r
//! 0x8000000a: EAX=0x00000001, EBX=0x00008000, ECX=0x00000000, EDX=0x119bfcff         kcpuid -r
//! eax in: 0x8000000a, eax = 00000001 ebx = 00008000 ecx = 00000000 edx = 119bfcff    x86info -r
//! 8000000Ah_x0: eax=00000001h ebx=00008000h ecx=00000000h edx=119BFCFFh              cpuid_dump
//! 0x8000000A 0x0:  0x00000001 0x00008000 0x00000000 0x119BFCFF  [SVM]                cpuid_dump
//! CPUID 8000000a:00 = 00000001 00008000 00000000 119bfcff | ....                     cpuid --dump
//! 8000000a:ffffffff -> 00000001:00008000:00000000:119bfcff                           xen-cpuid -p
//! cpuid level 0x8000000a: 0x00000001 0x00008000 0x00000000 0x119bfcff                cpucontrol
//! ext_cpuid[10]=00000001 00008000 00000000 119bfcff                                  libcpuid, raw
//! ```

/// A leaf, its subleaf and its registers.
pub type Leaf = (u32, u32, [u32; 4]);

/// The leaf of a line. `table` is the leaf that an earlier line announced for lines that give
/// subleaves alone.
pub fn leaf(line: &str, table: Option<u32>) -> Option<Leaf> {
    dashed(line)
        .or_else(|| named(line, table))
        .or_else(|| indexed(line))
        .or_else(|| bare(line))
        .or_else(|| policy(line))
}

/// `0x0000000d: subleafs:`, before lines ` 1: EAX=…`.
pub fn table(line: &str) -> Option<u32> {
    hexadecimal(line.strip_suffix(": subleafs:")?)
}

/// `CPUID 0000000D: 00000007-00000340-00000340-00000000 [SL 01]`; older ones without colon or
/// dashes.
fn dashed(line: &str) -> Option<Leaf> {
    let line = line.strip_prefix("CPUID ")?;
    let (selector, rest) = line.split_once([' ', '\t', ':'])?;
    let leaf = hexadecimal(selector)?;
    let rest = rest.trim_start().trim_start_matches(':');
    let values = rest.split('[').next().unwrap_or(rest).split(['-', ' ', '\t']);
    let registers = registers(values.filter(|word| !word.is_empty()))?;
    let subleaf = match rest.split_once("[SL ") {
        Some((_, number)) => hexadecimal(number.split(']').next()?.trim())?,
        None => 0,
    };
    Some((leaf, subleaf, registers))
}

/// Registers by name, in this order, with and without space, comma, `0x` and `h`.
fn named(line: &str, table: Option<u32>) -> Option<Leaf> {
    // The name is the last of its kind: `eax in: 0x…` comes before it.
    let lower = line.to_ascii_lowercase();
    let start = lower
        .match_indices("eax")
        .map(|(at, _)| at)
        .find(|&at| lower[at + 3..].trim_start().starts_with('='))?;
    let mut registers = [0; 4];
    let mut rest = &lower[start..];
    for (register, name) in registers.iter_mut().zip(["eax", "ebx", "ecx", "edx"]) {
        rest = rest.trim_start_matches([' ', '\t', ',']).strip_prefix(name)?.trim_start();
        rest = rest.strip_prefix('=')?.trim_start();
        let end = rest.find([' ', '\t', ',']).unwrap_or(rest.len());
        *register = hexadecimal(&rest[..end])?;
        rest = &rest[end..];
    }
    let selector = lower[..start].trim().trim_end_matches([',', ':', ' ']);
    let selector = selector.strip_prefix("eax in:").unwrap_or(selector).trim();
    if let (Some(leaf), Ok(subleaf)) = (table, selector.parse()) {
        return Some((leaf, subleaf, registers));
    }
    let (leaf, subleaf) = selector_of(selector)?;
    Some((leaf, subleaf, registers))
}

/// `basic_cpuid[1]=…`, `ext_cpuid[10]=…` and tables of one leaf's subleaves.
fn indexed(line: &str) -> Option<Leaf> {
    const TABLES: &[(&str, u32)] = &[
        ("intel_fn4", 4),
        ("intel_fn11", 0xB),
        ("intel_fn12h", 0x12),
        ("intel_fn14h", 0x14),
        ("amd_fn8000001dh", 0x8000_001D),
        ("amd_fn80000026h", 0x8000_0026),
    ];
    let (name, rest) = line.split_once('[')?;
    let (index, values) = rest.split_once("]=")?;
    let index: u32 = index.parse().ok()?;
    let registers = registers(values.split_whitespace())?;
    match name {
        "basic_cpuid" => Some((index, 0, registers)),
        "ext_cpuid" => Some((0x8000_0000u32.checked_add(index)?, 0, registers)),
        _ => {
            let (_, leaf) = TABLES.iter().find(|(table, _)| *table == name)?;
            Some((*leaf, index, registers))
        }
    }
}

/// A selector and four words of eight digits.
fn bare(line: &str) -> Option<Leaf> {
    let is_word = |word: &str| word.strip_prefix("0x").unwrap_or(word).len() == 8;
    let (selector, values) = match line.strip_prefix("CPUID ") {
        Some(rest) => rest.split_once('=')?,
        None => {
            let rest = line.strip_prefix("cpuid level ").unwrap_or(line);
            rest.strip_prefix("0x")?.split_once(':')?
        }
    };
    let words: Vec<&str> = values.split_whitespace().take(5).collect();
    if words.len() < 4 || !words[..4].iter().all(|word| is_word(word)) {
        return None;
    }
    let (leaf, subleaf) = selector_of(&selector.trim().replace(':', " "))?;
    Some((leaf, subleaf, registers(words[..4].iter().copied())?))
}

/// `0000000d:00000001 -> 0000001f:…`; ffffffff stands for a leaf without subleaves.
fn policy(line: &str) -> Option<Leaf> {
    let (selector, values) = line.split_once(" -> ")?;
    let (leaf, subleaf) = selector.trim().split_once(':')?;
    let subleaf = hexadecimal(subleaf)?;
    let registers = registers(values.trim().split(':'))?;
    Some((hexadecimal(leaf)?, if subleaf == u32::MAX { 0 } else { subleaf }, registers))
}

/// `0x00000004 0x01`, `00000004h_x1`, `0x00000004`.
fn selector_of(text: &str) -> Option<(u32, u32)> {
    let mut words = text.split([' ', '\t', '_', ',']).filter(|word| !word.is_empty());
    let leaf = words.next()?;
    // A leaf is written in full: a short number is a line of something else.
    if leaf.trim_start_matches("0x").trim_end_matches('h').is_empty() {
        return None;
    }
    let leaf = hexadecimal(leaf)?;
    let subleaf = match words.next() {
        Some(word) => hexadecimal(word.strip_prefix('x').unwrap_or(word))?,
        None => 0,
    };
    words.next().is_none().then_some((leaf, subleaf))
}

/// Exactly four registers.
fn registers<'a>(mut words: impl Iterator<Item = &'a str>) -> Option<[u32; 4]> {
    let mut registers = [0; 4];
    for register in &mut registers {
        *register = hexadecimal(words.next()?)?;
    }
    words.next().is_none().then_some(registers)
}

/// With or without `0x` before or `h` behind.
pub fn hexadecimal(word: &str) -> Option<u32> {
    let word = word.strip_prefix("0x").unwrap_or(word);
    let word = word.strip_suffix(['h', 'H']).unwrap_or(word);
    let is_number = !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_number.then(|| u32::from_str_radix(word, 16).ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_form_gives_the_same_leaf() {
        let registers = [1, 0x8000, 0, 0x119B_FCFF];
        let rows = [
            "CPUID 8000000A: 00000001-00008000-00000000-119BFCFF",
            "CPUID 8000000a: 00000001-00008000-00000000-119bfcff [SL 00]",
            "CPUID 8000000A  \t00000001-00008000-00000000-119BFCFF [AuthenticAMD]",
            "CPUID 8000000A: 00000001 00008000 00000000 119BFCFF",
            "CPUID 8000000A :00000001-00008000-00000000-119BFCFF",
            "CPUID 8000000A : 00000001 00008000 00000000 119BFCFF",
            "0x8000000a 0x00: eax=0x00000001 ebx=0x00008000 ecx=0x00000000 edx=0x119bfcff",
            "0x8000000a: eax=0x00000001 ebx=0x00008000 ecx=0x00000000 edx=0x119bfcff",
            "0x8000000a: EAX=0x00000001, EBX=0x00008000, ECX=0x00000000, EDX=0x119bfcff",
            "eax in: 0x8000000a, eax = 00000001 ebx = 00008000 ecx = 00000000 edx = 119bfcff",
            "8000000Ah_x0: eax=00000001h ebx=00008000h ecx=00000000h edx=119BFCFFh [SVM]",
            "0x8000000A 0x0:  0x00000001 0x00008000 0x00000000 0x119BFCFF  [Rev: 1] [SVM]",
            "CPUID 8000000a:00 = 00000001 00008000 00000000 119bfcff | ................",
            "8000000a:ffffffff -> 00000001:00008000:00000000:119bfcff",
            "cpuid level 0x8000000a: 0x00000001 0x00008000 0x00000000 0x119bfcff",
            "ext_cpuid[10]=00000001 00008000 00000000 119bfcff",
        ];
        for row in rows {
            assert_eq!(leaf(row, None), Some((0x8000_000A, 0, registers)), "{row}");
        }
    }

    #[test]
    fn every_form_with_subleaves_gives_the_subleaf() {
        let registers = [0xF, 0x340, 0x100, 0];
        let rows = [
            ("CPUID 0000000D: 0000000F-00000340-00000100-00000000 [SL 01]", None),
            ("0x0000000d 0x01: eax=0x0000000f ebx=0x00000340 ecx=0x00000100 edx=0x00000000", None),
            ("1: EAX=0x0000000f, EBX=0x00000340, ECX=0x00000100, EDX=0x00000000", Some(0xD)),
            ("0000000Dh_x1: eax=0000000Fh ebx=00000340h ecx=00000100h edx=00000000h", None),
            ("0x0000000D 0x1:  0x0000000F 0x00000340 0x00000100 0x00000000", None),
            ("CPUID 0000000d:01 = 0000000f 00000340 00000100 00000000 | ....", None),
            ("0000000d:00000001 -> 0000000f:00000340:00000100:00000000", None),
        ];
        for (row, table) in rows {
            assert_eq!(leaf(row, table), Some((0xD, 1, registers)), "{row}");
        }
        let row = "intel_fn11[1]=0000000f 00000340 00000100 00000000";
        assert_eq!(leaf(row, None), Some((0xB, 1, registers)));
        assert_eq!(table("0x0000000d: subleafs:"), Some(0xD));
    }

    #[test]
    fn what_is_no_leaf_gives_none() {
        let rows = [
            "",
            "eax",
            "eax=",
            "0x: eax=0x1 ebx=0x1 ecx=0x1 edx=0x1",
            "0x1 0x0: eax=0x1 ebx=0x1 edx=0x1 ecx=0x1",
            "0x1 0x0 0x0: eax=0x1 ebx=0x1 ecx=0x1 edx=0x1",
            "CPUID 00000001: 00000001-00000002-00000003",
            "CPUID 00000001: 00000001-00000002-00000003-00000004-00000005",
            "CPUID 00000001: 000000001-00000002-00000003-0000000G",
            "basic_cpuid[x]=1 2 3 4",
            "basic_cpuid[1]=1 2 3",
            "ext_cpuid[4294967295]=1 2 3 4",
            "other_fn4[1]=1 2 3 4",
            "0x10: 1 2 3 4",
            "0x00000001 0x0:  00000000_00000000_00000000_00010000  0 0 0",
            " -> ",
            "a -> b:c:d:e",
            "1: EAX=0x0, EBX=0x0, ECX=0x0",
        ];
        for row in rows {
            assert_eq!(leaf(row, None), None, "{row}");
        }
    }
}
