//! What a host is seen to change.

use serde::Serialize;

/// What a host changes while its guest runs, as far as it was seen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Changes {
    /// How often AVIC or APICv was off for a vCPU at a look and on at the one before, or the other
    /// way round.
    pub switches: u64,
    /// How often a vCPU entered its guest on another processor than before.
    pub moves: u64,
    /// How often all vCPUs were saved and restored, as the host said soon after.
    pub saves: u64,
    /// How many interrupts of functions the IOMMU posted.
    pub posts: u64,
    /// How often lines of the guest's I/O APIC were raised, as the host said soon after.
    pub raises: u64,
    /// How often a vCPU entered its guest at the beginning of a segment, as one does that a startup
    /// IPI starts.
    pub starts: u64,
}

impl Changes {
    /// Takes in those of another window.
    pub fn add(&mut self, other: Self) {
        self.switches += other.switches;
        self.moves += other.moves;
        self.saves += other.saves;
        self.posts += other.posts;
        self.raises += other.raises;
        self.starts += other.starts;
    }
}
