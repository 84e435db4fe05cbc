//! The names of the kernel's code, which without KASLR is where its image has it, and of the
//! modules' where they were loaded.

use crate::ground;
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

/// By lines of kallsyms, which are not in order: the function that starts last before each; of
/// several names of one place the first.
fn named(all: &str, addresses: &[u64]) -> Vec<(String, Option<String>)> {
    let mut code: Vec<_> = all.lines().filter(is_code).flat_map(ground::symbols).collect();
    code.sort_by_key(|(start, ..)| *start);
    code.dedup_by_key(|(start, ..)| *start);
    let name = |address: &u64| {
        let behind = code.partition_point(|(start, ..)| start <= address);
        let (_, name, module) = code.get(behind.checked_sub(1)?)?;
        let module = module.map(|module| module.trim_matches(['[', ']']).to_owned());
        Some(((*name).to_owned(), module))
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
