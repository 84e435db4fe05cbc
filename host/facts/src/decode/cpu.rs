//! Kinds of cores, from CPUID listings and /proc/cpuinfo, whichever are there.

use crate::cpuid::{self, Processor};
use crate::inputs::{Content, Inputs};
use crate::processor::{parse_list, print_list};
use reading::cpu::Signature;
use reading::{CpuKind, Cpuid, Fact, Reading, Vendor};
use std::collections::{BTreeMap, BTreeSet};

/// Most processors that are told apart.
const PROCESSORS_LIMIT: usize = 8192;

/// A processor of /proc/cpuinfo or lscpu.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Described {
    numbers: Vec<u32>,
    vendor: Option<Vendor>,
    signature: Option<Signature>,
    brand: Option<String>,
    flags: Flags,
    vmx_flags: Flags,
}

/// Flags that were listed; `None` when the line is not there.
type Flags = Option<BTreeSet<String>>;

pub fn kinds(inputs: &Inputs) -> Vec<CpuKind> {
    let cpuinfo = inputs.first_text(&[
        "proc/cpuinfo",
        "sos_commands/processor/lscpu",
        "sos_commands/processor/lscpu_-J",
        "sos_commands/processor/lscpu_-a_-e",
    ]);
    let described =
        cpuinfo.get().map(|text| described(&crate::lscpu::plain(text))).unwrap_or_default();
    let listed = listed(inputs);
    if listed.is_empty() && described.is_empty() {
        return told_kind(inputs).into_iter().collect();
    }
    if listed.is_empty() {
        return described.iter().map(|one| kind(None, Some(one), &cpuinfo)).collect();
    }
    let of_number = |number: u32| described.iter().find(|one| one.numbers.contains(&number));
    listed
        .iter()
        .map(|one| {
            let description = one.numbers.iter().find_map(|&n| of_number(n)).or(described.first());
            kind(Some(one), description, &cpuinfo)
        })
        .collect()
}

/// Where a few lines stand that someone has picked out of cpuid's or lscpu's output.
pub const TOLD: &str = "avicenna/told.txt";

/// The features in lines such as `AVIC: AMD virtual interrupt controller = true` of cpuid, or the
/// bare words `avic` and `x2avic` out of lscpu's flags; empty for any other text.
pub fn told(text: &str) -> BTreeMap<&'static str, bool> {
    let lines: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let mut found = BTreeMap::new();
    if lines.is_empty() || lines.len() > 64 {
        return found;
    }
    let flags = match lines.as_slice() {
        [line] => line.split_once(':').filter(|(key, _)| key.trim().eq_ignore_ascii_case("flags")),
        _ => None,
    };
    if let Some((_, flags)) = flags {
        // A whole list: /proc/cpuinfo's, or lscpu's.
        let has = |name: &str| flags.split_whitespace().any(|flag| flag == name);
        if !has("svm") {
            return found;
        }
        found.extend(["avic", "x2avic", "npt"].map(|name| (name, has(name))));
    } else if lines
        .iter()
        .all(|line| line.split_whitespace().all(|word| matches!(word, "avic" | "x2avic")))
    {
        // What was looked for and is not there was not in the list.
        let has = |name| lines.iter().any(|line| line.split_whitespace().any(|word| word == name));
        found.extend([("avic", has("avic")), ("x2avic", has("x2avic"))]);
    } else {
        for line in lines {
            let Some((name, value)) = line.split_once('=') else { return BTreeMap::new() };
            let name = match name.split(':').next().unwrap_or_default().trim() {
                "AVIC" => "avic",
                "X2AVIC" => "x2avic",
                _ => return BTreeMap::new(),
            };
            match value.trim() {
                "true" => found.insert(name, true),
                "false" => found.insert(name, false),
                _ => return BTreeMap::new(),
            };
        }
    }
    // The leaf that tells is SVM's, and AVIC works through nested page tables.
    found.insert("svm", true);
    if found.get("avic") == Some(&true) {
        found.insert("npt", true);
    }
    found
}

fn told_kind(inputs: &Inputs) -> Option<CpuKind> {
    let text = inputs.text(TOLD);
    let told = told(text.get()?);
    let unread = || "only single lines of it were given";
    Some(CpuKind {
        cpus: "0".into(),
        vendor: Some(Vendor::Amd),
        signature: None,
        brand: None,
        cpuid: Fact::unreadable(text.place.clone(), unread()),
        msrs: BTreeMap::new(),
        flags: Fact::unreadable(text.place.clone(), unread()),
        told,
        vmx_flags: Fact::unreadable(text.place, unread()),
    })
}

/// A group of processors with equal listings.
struct Listed {
    numbers: Vec<u32>,
    cpuid: Fact<Cpuid>,
    msrs: BTreeMap<u32, Fact<u64>>,
}

/// What distinguishes kinds of cores.
type KindAndRegisters = (Vec<u32>, BTreeMap<u32, Option<u64>>);

/// Groups the processors of every listing there is.
fn listed(inputs: &Inputs) -> Vec<Listed> {
    let folders = ["avicenna/cpuid/", "sos_commands/processor/cpuid", "cpuid"];
    for folder in folders {
        let mut groups: BTreeMap<KindAndRegisters, Listed> = BTreeMap::new();
        for (path, content) in inputs.below(folder) {
            let Content::Bytes(bytes) = content else { continue };
            let processors = cpuid::parse(&String::from_utf8_lossy(bytes));
            let is_alone = processors.len() == 1;
            for (index, processor) in processors.into_iter().enumerate().take(PROCESSORS_LIMIT) {
                let numbers = numbers(path, folder, is_alone, &processor, index);
                let registers = registers(inputs, path, &processor);
                groups
                    .entry((processor.cpuid.kind(), capabilities(&processor)))
                    .or_insert_with(|| Listed {
                        numbers: vec![],
                        cpuid: Fact::value(place(path), processor.cpuid),
                        msrs: registers,
                    })
                    .numbers
                    .extend(numbers);
            }
        }
        if !groups.is_empty() {
            let mut groups: Vec<Listed> = groups.into_values().collect();
            for group in &mut groups {
                group.numbers.sort_unstable();
                group.numbers.dedup();
            }
            groups.sort_by_key(|group| group.numbers.first().copied());
            return groups;
        }
    }
    vec![]
}

/// The registers that distinguish kinds: listings hold others, temperatures and counters among
/// them.
fn capabilities(processor: &Processor) -> BTreeMap<u32, Option<u64>> {
    let is_capability = |number: &u32| crate::processor::REGISTERS.contains(number);
    processor
        .msrs
        .iter()
        .filter(|(number, _)| is_capability(number))
        .map(|(&number, &value)| (number, value))
        .collect()
}

fn place(path: &str) -> String {
    if path.starts_with("avicenna/") { "CPUID".into() } else { format!("CPUID in {path}") }
}

/// The processors a listing stands for: a snapshot names the file of each kind after them.
fn numbers(
    path: &str,
    folder: &str,
    is_alone: bool,
    processor: &Processor,
    index: usize,
) -> Vec<u32> {
    if folder == "avicenna/cpuid/" && is_alone {
        return parse_list(path[folder.len()..].trim_end_matches(".txt"));
    }
    vec![processor.number.unwrap_or(index as u32)]
}

/// Registers of the listing itself, or of the snapshot's file beside it.
fn registers(inputs: &Inputs, path: &str, processor: &Processor) -> BTreeMap<u32, Fact<u64>> {
    let fact = |number: u32, value: &Option<u64>| match value {
        Some(value) => Fact::value(format!("MSR {number:X}h"), *value),
        None => Fact::absent(format!("MSR {number:X}h")),
    };
    let mut found: BTreeMap<u32, Fact<u64>> =
        processor.msrs.iter().map(|(&number, value)| (number, fact(number, value))).collect();
    let Some(list) = path.strip_prefix("avicenna/cpuid/") else { return found };
    let beside = inputs.text(&format!("avicenna/msr/{list}"));
    match &beside.reading {
        Reading::Value(text) => {
            // The register reader wants a processor to give them to.
            let listing = format!("CPUID 00000000: 00000000-00000000-00000000-00000000\n{text}");
            for processor in cpuid::parse(&listing) {
                found.extend(
                    processor.msrs.iter().map(|(&number, value)| (number, fact(number, value))),
                );
            }
        }
        Reading::Unreadable(why) => {
            for &number in crate::processor::REGISTERS {
                found.insert(number, Fact::unreadable(format!("MSR {number:X}h"), why));
            }
        }
        Reading::Absent | Reading::NotUnderstood(_) => {}
    }
    found
}

fn kind(listed: Option<&Listed>, described: Option<&Described>, cpuinfo: &Fact<String>) -> CpuKind {
    let cpuid = listed.map(|one| one.cpuid.clone());
    let known = cpuid.as_ref().and_then(|fact| fact.get());
    let flags = |get: fn(&Described) -> &Flags| Fact {
        place: cpuinfo.place.clone(),
        reading: match (described.map(get), &cpuinfo.reading) {
            (Some(Some(flags)), _) => Reading::Value(flags.clone()),
            (Some(None), _) => Reading::Absent,
            (None, Reading::Unreadable(why)) => Reading::Unreadable(why.clone()),
            (None, _) => Reading::Unreadable("no such processor is described".into()),
        },
    };
    let numbers = listed.map(|one| &one.numbers).or(described.map(|one| &one.numbers));
    CpuKind {
        cpus: numbers.map(|numbers| print_list(numbers).replace('+', ",")).unwrap_or_default(),
        vendor: known.and_then(Cpuid::vendor).or(described.and_then(|one| one.vendor.clone())),
        signature: known.and_then(Cpuid::signature).or(described.and_then(|one| one.signature)),
        brand: known.and_then(Cpuid::brand).or(described.and_then(|one| one.brand.clone())),
        cpuid: cpuid.unwrap_or_else(|| Fact::unreadable("CPUID", "not recorded in this input")),
        msrs: listed.map(|one| one.msrs.clone()).unwrap_or_default(),
        flags: flags(|one| &one.flags),
        told: BTreeMap::new(),
        vmx_flags: flags(|one| &one.vmx_flags),
    }
}

/// The processors of /proc/cpuinfo, or the one kind lscpu prints; equal ones are put together.
fn described(text: &str) -> Vec<Described> {
    let mut found: Vec<Described> = vec![];
    let mut fields: BTreeMap<&str, &str> = BTreeMap::new();
    let mut count = 0;
    for line in text.lines().chain([""]) {
        if let Some((key, value)) = line.split_once(':') {
            fields.insert(key.trim(), value.trim());
        } else if line.trim().is_empty() && !fields.is_empty() {
            let one = describe(&fields, count);
            count += 1;
            fields.clear();
            if one.vendor.is_none() || count as usize > PROCESSORS_LIMIT {
                continue;
            }
            let same = found.iter_mut().find(|other| {
                (&other.vendor, other.signature, &other.flags, &other.vmx_flags)
                    == (&one.vendor, one.signature, &one.flags, &one.vmx_flags)
            });
            match same {
                Some(other) => other.numbers.extend(one.numbers),
                None => found.push(one),
            }
        }
    }
    found
}

fn describe(fields: &BTreeMap<&str, &str>, index: u32) -> Described {
    let field = |names: &[&str]| names.iter().find_map(|name| fields.get(name).copied());
    let number = |names: &[&str]| field(names)?.parse::<u32>().ok();
    let flags = |names: &[&str]| {
        field(names).map(|text| text.split_whitespace().map(String::from).collect())
    };
    let numbers = match field(&["processor"]) {
        Some(text) => text.parse().into_iter().collect(),
        None => field(&["On-line CPU(s) list"]).map_or(vec![index], parse_list),
    };
    Described {
        numbers,
        vendor: field(&["vendor_id", "Vendor ID"]).map(Vendor::parse),
        signature: (|| {
            Some(Signature {
                family: number(&["cpu family", "CPU family"])?,
                model: number(&["model", "Model"])?,
                stepping: number(&["stepping", "Stepping"]).unwrap_or(0),
            })
        })(),
        brand: field(&["model name", "Model name"]).map(String::from),
        flags: flags(&["flags", "Flags"]),
        vmx_flags: flags(&["vmx flags"]),
    }
}
