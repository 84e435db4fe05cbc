//! KVM's own counters under debugfs: how many exits of a few kinds, without times or reasons in
//! full.
//!
//! `kvm/` holds a file per counter with the sum over all virtual machines, and a folder
//! `PID-FD` for each of them with the same files.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// Where the kernel puts them.
pub const FOLDER: &str = "/sys/kernel/debug/kvm";

/// Counters of exits and interrupts, and what they count.
pub(super) const COUNTERS: [(&str, &str); 13] = [
    ("exits", "exits"),
    ("halt_exits", "exits: halt"),
    ("irq_exits", "exits: host interrupts"),
    ("irq_window_exits", "exits: interrupt windows"),
    ("request_irq_exits", "exits: to user space, to inject"),
    ("io_exits", "exits: ports"),
    ("mmio_exits", "exits: memory-mapped"),
    ("signal_exits", "exits: signals"),
    ("nmi_window_exits", "exits: NMI windows"),
    ("hypercalls", "hypercalls"),
    ("irq_injections", "interrupts injected"),
    ("nmi_injections", "NMIs injected"),
    ("halt_wakeup", "wakeups of halted vCPUs"),
];

/// The counters as they stand, of all machines or of one process's; empty where there are none or
/// they may not be read.
pub fn read(folder: &Path, process: Option<u32>) -> BTreeMap<&'static str, u64> {
    let mut sums = BTreeMap::new();
    let mut add = |folder: &Path| {
        for (file, meaning) in COUNTERS {
            let text = fs::read_to_string(folder.join(file)).unwrap_or_default();
            if let Ok(count) = text.trim().parse::<u64>() {
                let sum: &mut u64 = sums.entry(meaning).or_default();
                *sum = sum.saturating_add(count);
            }
        }
    };
    let Some(process) = process else {
        add(folder);
        return sums;
    };
    let prefix = format!("{process}-");
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        if entry.file_name().to_string_lossy().starts_with(&prefix) {
            add(&entry.path());
        }
    }
    sums
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_of_all_machines_or_of_one() {
        let folder = tempfile::tempdir().expect("a folder");
        for (machine, exits) in [("", "30\n"), ("7-11", "10\n"), ("77-11", "20\n")] {
            let at = folder.path().join(machine);
            fs::create_dir_all(&at).expect("a folder");
            fs::write(at.join("exits"), exits).expect("a file");
            fs::write(at.join("pages_4k"), "5\n").expect("a file");
            fs::write(at.join("halt_exits"), "no number").expect("a file");
        }
        assert_eq!(read(folder.path(), None), BTreeMap::from([("exits", 30)]));
        assert_eq!(read(folder.path(), Some(7)), BTreeMap::from([("exits", 10)]));
        assert!(read(folder.path(), Some(8)).is_empty());
        assert!(read(Path::new("/nonexistent"), None).is_empty());
    }
}
