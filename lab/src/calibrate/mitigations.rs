//! What the host's kernel does against weaknesses of its processor, by its own words, and how the
//! lab's kernel is told to do the same. Times are made of other parts without it.

use std::collections::BTreeMap;

/// All of them.
pub const ALL_OFF: &str = "mitigations=off";
/// How the kernel begins to speak of a weakness that it does something against, and of one that it
/// leaves as it is.
const AGAINST: &str = "Mitigation";
const LEFT: &str = "Vulnerable";

/// Weaknesses, by the names of their files in sysfs, and the parameter that leaves each as it is
/// (Documentation/admin-guide/kernel-parameters.txt).
const WORDS: [(&str, &str); 16] = [
    ("gather_data_sampling", "gather_data_sampling=off"),
    ("indirect_target_selection", "indirect_target_selection=off"),
    ("l1tf", "l1tf=off"),
    ("mds", "mds=off"),
    ("meltdown", "nopti"),
    ("mmio_stale_data", "mmio_stale_data=off"),
    ("reg_file_data_sampling", "reg_file_data_sampling=off"),
    ("retbleed", "retbleed=off"),
    ("spec_rstack_overflow", "spec_rstack_overflow=off"),
    ("spec_store_bypass", "spec_store_bypass_disable=off"),
    ("spectre_v1", "nospectre_v1"),
    ("spectre_v2", "nospectre_v2"),
    ("srbds", "srbds=off"),
    ("tsa", "tsa=off"),
    ("tsx_async_abort", "tsx_async_abort=off"),
    ("vmscape", "vmscape=off"),
];

/// Words for the lab's kernel, by which it leaves alone what the host's does; nothing if it does
/// already. Both say what they do about each weakness, and one that only one of them names tells
/// nothing.
pub fn words(host: &BTreeMap<String, String>, lab: &BTreeMap<String, String>) -> String {
    let against = |all: &BTreeMap<String, String>, weakness: &str| {
        all.get(weakness).is_some_and(|said| said.starts_with(AGAINST))
    };
    let mut left = Vec::new();
    for (weakness, said) in host {
        if said.starts_with(LEFT) && against(lab, weakness) {
            left.push(weakness.as_str());
        }
    }
    let leaves_all = !host.keys().any(|weakness| against(host, weakness));
    if leaves_all && !left.is_empty() {
        return ALL_OFF.to_owned();
    }
    let of = |weakness: &str| WORDS.iter().find(|(own, _)| *own == weakness).map(|(_, word)| *word);
    left.into_iter().filter_map(of).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(all: &[(&str, &str)]) -> BTreeMap<String, String> {
        all.iter().map(|(weakness, said)| ((*weakness).to_owned(), (*said).to_owned())).collect()
    }

    #[test]
    fn the_labs_kernel_is_told_to_leave_what_the_hosts_leaves() {
        let lab = said(&[
            ("meltdown", "Not affected"),
            ("spec_rstack_overflow", "Mitigation: Safe RET"),
            ("spectre_v1", "Mitigation: usercopy/swapgs barriers and __user pointer sanitization"),
            ("spectre_v2", "Mitigation: Enhanced / Automatic IBRS; IBPB: conditional"),
        ]);
        let with = |weakness: &str, own: &str| {
            let mut host = lab.clone();
            host.insert(weakness.into(), own.into());
            host
        };
        let all = said(&[
            ("meltdown", "Not affected"),
            ("spec_rstack_overflow", "Vulnerable"),
            ("spectre_v1", "Vulnerable: __user pointer sanitization and usercopy barriers only"),
            ("spectre_v2", "Vulnerable; IBPB: disabled; STIBP: disabled"),
        ]);
        for (host, expected) in [
            (lab.clone(), ""),
            (all, ALL_OFF),
            (with("spec_rstack_overflow", "Vulnerable"), "spec_rstack_overflow=off"),
            (with("spec_rstack_overflow", "Mitigation: IBPB on VMEXIT only"), ""),
            (with("not known here", "Vulnerable"), ""),
            (BTreeMap::new(), ""),
        ] {
            assert_eq!(words(&host, &lab), expected, "{host:?}");
        }
    }
}
