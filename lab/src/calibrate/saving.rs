//! What a hidden host records of its exits with the feature off, and what the same work takes there
//! with the feature off and on: the proof of what a recording is said to save.
//!
//! The work is a guest of one vCPU that does not wait: what it takes is processor time, and how
//! much sooner interrupts come to others is not in it.

use super::place::{Moment, Place};
use crate::plan::ModuleParameter;
use crate::watch::Watch;
use arch::time::Picoseconds;
use board::cost::CostProfile;

/// The benchmark guest with one vCPU: interrupts that it sends itself, their ends, and exits. So
/// many that what a command waits for besides, some milliseconds, is a few percent of what is saved.
const WORK: [&str; 6] = [
    "/proc/self/exe",
    "bench",
    "--vcpus",
    "1",
    "--append",
    "tests=self,eoi,exits samples=10000 warmup=10",
];
/// Where the hidden host writes what it records.
const FILE: &str = "/exits.json";

/// The same work three times.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Worked {
    /// What `exits record` wrote with the feature off.
    pub recording: Vec<u8>,
    /// How long it took without being recorded, with the feature off.
    pub off: Picoseconds,
    /// And on.
    pub on: Picoseconds,
}

impl Worked {
    /// Nanoseconds that the feature saved.
    pub fn saved_ns(&self) -> f64 {
        (self.off.0 as f64 - self.on.0 as f64) / 1e3
    }
}

/// Has a host of this profile do the work with KVM's module loaded for either setting, off first.
pub fn work(
    place: &mut Place<'_>,
    host: &CostProfile,
    (off, on): (&[ModuleParameter], &[ModuleParameter]),
    moment: Moment,
    watch: &mut Watch<'_>,
) -> anyhow::Result<Worked> {
    let record = ["/proc/self/exe", "exits", "record", "-o", FILE, "--"];
    let recorded: Vec<&str> = record.into_iter().chain(WORK).collect();
    place.time(&recorded, off, host, moment, watch)?;
    let recording = place.fetch(FILE, watch)?;
    let off = place.time(&WORK, off, host, moment, watch)?;
    let on = place.time(&WORK, on, host, moment, watch)?;
    Ok(Worked { recording, off, on })
}
