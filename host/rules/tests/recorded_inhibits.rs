//! Predictions against what real KVM did, in recorded inhibit time lines.

use reading::Kernel;
use rules::Version;
use rules::configuration::{self, Hints};
use rules::inhibit::{Certainty, Duration, Reason, Vendor, predict};
use rules::vm::VmConfiguration;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use trace::inhibit::Numbering;

/// What a recording shows of one reason.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Seen {
    /// Set and cleared once, within a small part of the life.
    Instant,
    /// Set near the start and not cleared before the end.
    WholeLife,
    /// Set and cleared again and again.
    Episodes,
}

/// Kernel and QEMU of the recordings.
const KERNEL: &str = "6.1.0";
const QEMU: &str = "7.2.0";

/// Each recording with the command line of its configuration.
const RECORDINGS: [(&str, &str); 5] = [
    ("pc-default", "qemu-system-x86_64 -machine pc -enable-kvm -cpu host -kernel vmlinuz"),
    (
        "pc-default-xapic",
        "qemu-system-x86_64 -machine pc -enable-kvm -cpu host,-x2apic -kernel vmlinuz",
    ),
    (
        "pc-hyperv",
        "qemu-system-x86_64 -machine pc -enable-kvm -kernel vmlinuz \
         -cpu host,hv-relaxed,hv-vapic,hv-time,hv-vpindex,hv-synic,hv-stimer",
    ),
    (
        "pc-nopit-hpet",
        "qemu-system-x86_64 -machine pc,hpet=off -enable-kvm -cpu host -kernel vmlinuz",
    ),
    (
        "pc-pit-discard",
        "qemu-system-x86_64 -machine pc -enable-kvm -cpu host -kernel vmlinuz \
         -global kvm-pit.lost_tick_policy=discard",
    ),
];

fn time_of(line: &str) -> Option<f64> {
    line.split_whitespace().find_map(|word| word.strip_suffix(':')?.parse().ok())
}

fn seen(recording: &str) -> BTreeMap<Reason, Seen> {
    let numbering = Numbering::of_kernel(KERNEL).unwrap();
    let times: Vec<f64> =
        recording.lines().filter(|l| !l.starts_with('#')).filter_map(time_of).collect();
    let (first, last) = (times[0], times[times.len() - 1]);
    let life = last - first;
    let mut set_at: BTreeMap<Reason, f64> = BTreeMap::new();
    let mut episodes: BTreeMap<Reason, Vec<(f64, f64)>> = BTreeMap::new();
    for line in recording.lines().filter(|line| line.contains("kvm_apicv_inhibit_changed")) {
        let time = time_of(line).unwrap();
        let number = line.split("reason=").nth(1).unwrap();
        let bit: u32 = number.split(',').next().unwrap().parse().unwrap();
        let reason = numbering.reason(bit).unwrap();
        if line.contains(": set ") {
            set_at.entry(reason).or_insert(time);
        } else if let Some(from) = set_at.remove(&reason) {
            episodes.entry(reason).or_default().push((from, time));
        }
    }
    for (reason, from) in set_at {
        episodes.entry(reason).or_default().push((from, last));
    }
    episodes
        .into_iter()
        .map(|(reason, list)| {
            let (from, until) = list[0];
            let share = |seconds: f64| seconds / life;
            let seen = if list.len() == 1 && share(from - first) < 0.1 && share(last - until) < 0.01
            {
                Seen::WholeLife
            } else if list.len() == 1 && share(until - from) < 0.05 {
                Seen::Instant
            } else {
                Seen::Episodes
            };
            (reason, seen)
        })
        .collect()
}

fn machine(command: &str) -> VmConfiguration {
    let hints = Hints { qemu: Version::parse(QEMU) };
    let contents = configuration::read("recorded", command, None, &hints).unwrap();
    contents.vms.into_iter().next().unwrap()
}

fn check(name: &str, recording: &str, command: &str) {
    let seen = seen(recording);
    let predicted =
        predict(Vendor::Amd, Kernel::parse(KERNEL, None).as_ref(), None, &machine(command));
    for reason in Reason::ALL {
        let prediction = predicted.iter().find(|one| one.reason == reason);
        let agrees = match (prediction, seen.get(&reason)) {
            (None, None) => true,
            (None, Some(_)) => false,
            (Some(one), seen) => match (one.duration, one.certainty, seen) {
                (Duration::WholeLife, Certainty::Certain, seen) => seen == Some(&Seen::WholeLife),
                (Duration::Creation, Certainty::Certain, seen) => seen == Some(&Seen::Instant),
                (
                    Duration::Boot | Duration::While(_),
                    Certainty::Possible | Certainty::Likely,
                    seen,
                ) => !matches!(seen, Some(Seen::WholeLife | Seen::Instant)),
                _ => false,
            },
        };
        assert!(agrees, "{name}: {reason} predicted {prediction:?}, seen {:?}", seen.get(&reason));
    }
}

#[test]
fn prediction_equals_what_kvm_did_in_every_recording() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/inhibit");
    for (name, command) in RECORDINGS {
        let recording = std::fs::read_to_string(directory.join(format!("{name}.txt"))).unwrap();
        check(name, &recording, command);
    }
}

#[test]
fn prediction_equals_what_kvm_did_in_the_whole_recordings() {
    let Some(data) = data_directory() else {
        println!("skipped: no recordings; set AVICENNA_DATA");
        return;
    };
    for (name, command) in RECORDINGS {
        let path = data.join(format!("inhibit/inhibit-{name}.trace.txt.zst"));
        let packed = std::fs::read(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        let text = zstd::decode_all(packed.as_slice()).unwrap();
        check(name, &String::from_utf8_lossy(&text), command);
    }
}

#[test]
fn a_wrong_prediction_would_be_noticed() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/inhibit");
    let recording = std::fs::read_to_string(directory.join("pc-pit-discard.txt")).unwrap();
    let outcome = std::panic::catch_unwind(|| check("swapped", &recording, RECORDINGS[0].1));
    assert!(outcome.is_err());
}

fn data_directory() -> Option<PathBuf> {
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let candidates = [
        std::env::var_os("AVICENNA_DATA").map(PathBuf::from),
        Some(workspace.join("../shared/data")),
    ];
    candidates.into_iter().flatten().find(|path| path.join("inhibit").is_dir())
}
