//! The rows: what is run.

use std::collections::{BTreeMap, BTreeSet};

/// A run of the program.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    /// In the file, and on the command line.
    pub name: &'static str,
    /// Whether it belongs to `cargo xtask test`.
    pub is_quick: bool,
    pub what: What,
}

#[derive(Clone, Copy, Debug)]
pub enum What {
    /// A distribution's kernel on two processors, from power-on to a first process of our own that
    /// powers off: the hash of everything that the machine did.
    Boot { cpu: &'static str, kernel: &'static str, options: &'static [&'static str] },
    /// The same, saved when the first process speaks, and gone on with from the file.
    Restored { cpu: &'static str, kernel: &'static str },
    /// A guest for bare metal: the same hash.
    Guest { cpu: &'static str, image: &'static str, append: &'static str },
    /// `lab run` on the hypervisor that comes with the program.
    BuiltIn { cpu: &'static str, workload: &'static str },
    /// `lab run` on a distribution's KVM. The program itself is what runs in there, so that its
    /// hash changes with every build: exits are compared, by reason and arm, see [`is_same`].
    Lab { cpu: &'static str, kernel: &'static str, workload: &'static str },
    /// Random code and random fields of a clause suite: the hash of what they left behind. Cargo's
    /// tests compare it themselves.
    Clauses { suite: &'static str },
}

/// Exits that the host's clock decides on, whose ticks meet the guest where they do: in these
/// counts two builds differ by so many at most.
const OF_THE_HOST: [&str; 7] = [
    "interrupt",
    "vintr",
    "pause",
    "EXTERNAL_INTERRUPT",
    "INTERRUPT_WINDOW",
    "PAUSE_INSTRUCTION",
    "PREEMPTION_TIMER",
];
const TICKS: u64 = 128;

/// What a tick leads to if the host then schedules another task for a moment: an IPI finds its
/// target not running.
const OF_ANOTHER_TASK: [&str; 1] = ["avic_incomplete_ipi"];
const OTHER_TASKS: u64 = 4;

/// In how many exits for this reason two builds may differ.
fn tolerance(reason: &str) -> u64 {
    if OF_THE_HOST.contains(&reason) {
        TICKS
    } else if OF_ANOTHER_TASK.contains(&reason) {
        OTHER_TASKS
    } else {
        0
    }
}

/// Whether two results are equal, but for what the host's clock does to counts of exits.
pub fn is_same(one: &str, other: &str) -> bool {
    let arms = |text: &str| -> Vec<String> { text.split("; ").map(str::to_owned).collect() };
    let (one, other) = (arms(one), arms(other));
    one.len() == other.len() && one.iter().zip(&other).all(|(one, other)| is_same_arm(one, other))
}

fn is_same_arm(one: &str, other: &str) -> bool {
    let Some(((name, one), (other_name, other))) = one.split_once(": ").zip(other.split_once(": "))
    else {
        return one == other;
    };
    let (one, other) = (counts(one), counts(other));
    let reasons: BTreeSet<&str> = one.keys().chain(other.keys()).copied().collect();
    let count = |counts: &BTreeMap<&str, u64>, reason| counts.get(reason).copied().unwrap_or(0);
    name == other_name
        && reasons
            .into_iter()
            .all(|reason| count(&one, reason).abs_diff(count(&other, reason)) <= tolerance(reason))
}

/// `REASON COUNT, REASON COUNT`.
fn counts(text: &str) -> BTreeMap<&str, u64> {
    let pairs = text.split(", ").filter_map(|pair| pair.rsplit_once(' '));
    pairs.filter_map(|(reason, count)| Some((reason, count.parse().ok()?))).collect()
}

const fn row(name: &'static str, is_quick: bool, what: What) -> Row {
    Row { name, is_quick, what }
}

const fn boot(name: &'static str, is_quick: bool, cpu: &'static str, kernel: &'static str) -> Row {
    row(name, is_quick, What::Boot { cpu, kernel, options: &[] })
}

const fn guest(name: &'static str, cpu: &'static str, image: &'static str) -> Row {
    row(name, true, What::Guest { cpu, image, append: "" })
}

const fn built_in(name: &'static str, cpu: &'static str, workload: &'static str) -> Row {
    row(name, true, What::BuiltIn { cpu, workload })
}

const fn lab(name: &'static str, is_quick: bool, cpu: &'static str, workload: &'static str) -> Row {
    row(name, is_quick, What::Lab { cpu, kernel: "debian-13", workload })
}

pub const ROWS: &[Row] = &[
    boot("boot-zen4-debian-12", true, "zen4", "debian-12"),
    boot("boot-zen4-debian-13", true, "zen4", "debian-13"),
    boot("boot-zen4-debian-sid", true, "zen4", "debian-sid"),
    boot("boot-sapphire-rapids-debian-12", true, "sapphire-rapids", "debian-12"),
    boot("boot-sapphire-rapids-debian-13", true, "sapphire-rapids", "debian-13"),
    boot("boot-sapphire-rapids-debian-sid", true, "sapphire-rapids", "debian-sid"),
    boot("boot-generic-debian-13", false, "generic", "debian-13"),
    boot("boot-zen2-debian-13", false, "zen2", "debian-13"),
    boot("boot-zen3-debian-13", false, "zen3", "debian-13"),
    boot("boot-zen5-debian-13", false, "zen5", "debian-13"),
    boot("boot-ivy-bridge-ep-debian-13", false, "ivy-bridge-ep", "debian-13"),
    boot("boot-haswell-ep-debian-13", false, "haswell-ep", "debian-13"),
    boot("boot-skylake-sp-debian-13", false, "skylake-sp", "debian-13"),
    row(
        "boot-interpreted-zen4-debian-13",
        false,
        What::Boot { cpu: "zen4", kernel: "debian-13", options: &["--interpret"] },
    ),
    row("restored-zen4-debian-13", true, What::Restored { cpu: "zen4", kernel: "debian-13" }),
    row(
        "restored-sapphire-rapids-debian-13",
        true,
        What::Restored { cpu: "sapphire-rapids", kernel: "debian-13" },
    ),
    guest("guest-benchmark-zen4", "zen4", "benchmark"),
    guest("guest-benchmark-sapphire-rapids", "sapphire-rapids", "benchmark"),
    guest("guest-hypervisor-zen2", "zen2", "hypervisor"),
    guest("guest-hypervisor-zen4", "zen4", "hypervisor"),
    guest("guest-hypervisor-zen5", "zen5", "hypervisor"),
    guest("guest-hypervisor-skylake-sp", "skylake-sp", "hypervisor"),
    guest("guest-hypervisor-sapphire-rapids", "sapphire-rapids", "hypervisor"),
    guest("guest-workload-zen4", "zen4", "workload"),
    guest("guest-workload-sapphire-rapids", "sapphire-rapids", "workload"),
    built_in("lab-builtin-ipi-zen4", "zen4", "ipi"),
    built_in("lab-builtin-ipi-sapphire-rapids", "sapphire-rapids", "ipi"),
    built_in("lab-builtin-mesh-zen4", "zen4", "mesh"),
    built_in("lab-builtin-mesh-sapphire-rapids", "sapphire-rapids", "mesh"),
    built_in("lab-builtin-timer-zen4", "zen4", "timer"),
    built_in("lab-builtin-timer-sapphire-rapids", "sapphire-rapids", "timer"),
    row("clauses-svm-random", false, What::Clauses { suite: "svm" }),
    row("clauses-vmx-random", false, What::Clauses { suite: "vmx" }),
    lab("lab-ipi-zen4", true, "zen4", "ipi"),
    lab("lab-ipi-sapphire-rapids", true, "sapphire-rapids", "ipi"),
    lab("lab-mesh-zen4", false, "zen4", "mesh"),
    lab("lab-mesh-sapphire-rapids", false, "sapphire-rapids", "mesh"),
    lab("lab-timer-zen4", false, "zen4", "timer"),
    lab("lab-timer-sapphire-rapids", false, "sapphire-rapids", "timer"),
    lab("lab-device-zen4", false, "zen4", "device"),
    lab("lab-device-sapphire-rapids", false, "sapphire-rapids", "device"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_may_differ_by_ticks_of_the_host_and_by_nothing_else() {
        let known = "xAPIC off: interrupt 3309, npf 9969; xAPIC on: npf 4";
        for (other, expected) in [
            (known, true),
            ("xAPIC off: interrupt 3300, npf 9969; xAPIC on: npf 4", true),
            ("xAPIC off: interrupt 3100, npf 9969; xAPIC on: npf 4", false),
            ("xAPIC off: interrupt 3309, npf 9968; xAPIC on: npf 4", false),
            ("xAPIC off: interrupt 3309, npf 9969; xAPIC on: npf 4, hlt 1", false),
            ("xAPIC off: interrupt 3309, npf 9969; xAPIC on: npf 4, pause 2", true),
            ("xAPIC off: npf 9969; xAPIC on: npf 4", false),
            ("xAPIC off: interrupt 3309, npf 9969; xAPIC on: npf 4, avic_incomplete_ipi 4", true),
            ("xAPIC off: interrupt 3309, npf 9969; xAPIC on: npf 4, avic_incomplete_ipi 5", false),
            ("xAPIC off: interrupt 3309, npf 9969", false),
            ("x2APIC off: interrupt 3309, npf 9969; xAPIC on: npf 4", false),
        ] {
            assert_eq!(is_same(known, other), expected, "{other}");
        }
        assert!(!is_same("a57644fa071ef056, 12 instructions", "a57644fa071ef056, 13 instructions"));
    }
}
