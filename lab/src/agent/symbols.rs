//! The names of the kernel's code, which without KASLR is where its image has it, and of the
//! modules' where they were loaded.

use crate::protocol::FromAgent;
use anyhow::Context;

const ALL: &str = "/proc/kallsyms";

fn read() -> anyhow::Result<String> {
    std::fs::read_to_string(ALL).context("the kernel has no kallsyms")
}

fn is_code(line: &&str) -> bool {
    matches!(line.split(' ').nth(1), Some("t" | "T"))
}

/// All of it.
pub(super) fn all() -> anyhow::Result<FromAgent> {
    let all = read()?;
    let code = all.lines().filter(is_code);
    Ok(FromAgent::Symbols(code.fold(String::new(), |text, line| text + line + "\n")))
}

/// What the code at some addresses is called.
pub(super) fn name(addresses: &[u64]) -> anyhow::Result<FromAgent> {
    Ok(FromAgent::Named(named(&read()?, addresses)))
}

/// By lines of kallsyms, which are not in order: the function that starts last before each.
fn named(all: &str, addresses: &[u64]) -> Vec<(String, Option<String>)> {
    let mut starts: Vec<(u64, &str)> = all
        .lines()
        .filter(is_code)
        .filter_map(|line| {
            let (start, rest) = line.split_once(' ')?;
            Some((u64::from_str_radix(start, 16).ok()?, rest.get(2..)?))
        })
        .collect();
    starts.sort_by_key(|(start, _)| *start);
    let name = |address: &u64| {
        let behind = starts.partition_point(|(start, _)| start <= address);
        let (start, _) = *starts.get(behind.checked_sub(1)?)?;
        // Of several names of one place, the first.
        let first = starts.partition_point(|(other, _)| *other < start);
        let (name, module) = match starts[first].1.split_once('\t') {
            Some((name, module)) => (name, Some(module.trim_matches(['[', ']']).to_owned())),
            None => (starts[first].1, None),
        };
        Some((name.to_owned(), module))
    };
    addresses.iter().map(|address| name(address).unwrap_or_default()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_named_by_the_function_that_starts_last_before_it() {
        let all = "ffffffff81000000 T first\nffffffff81000100 t second\nffffffff81000100 t alias\n\
                   ffffffff81000180 D data\nffffffffc0000000 t svm_vcpu_run\t[kvm_amd]\n";
        let named = named(
            all,
            &[0xFFFF_FFFF_8100_00FF, 0xFFFF_FFFF_8100_0190, 0xFFFF_FFFF_C000_0010, 0x10],
        );
        let kvm = Some("kvm_amd".to_owned());
        let expected = [("first", None), ("second", None), ("svm_vcpu_run", kvm), ("", None)];
        assert_eq!(named, expected.map(|(name, module)| (name.to_owned(), module)));
    }
}
