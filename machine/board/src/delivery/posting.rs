//! Interrupts on their way through the IOMMU to vCPUs, in steps.

use arch::time::Picoseconds;
use iommu::{Model, Posting};
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;

/// Postings whose steps are apart.
#[derive(Clone, Default, Serialize, Deserialize)]
pub struct Postings {
    /// Between two steps of one; zero if none ever waits.
    pub step: Picoseconds,
    /// With the moment of the next step, earliest first.
    waiting: VecDeque<(Picoseconds, Posting)>,
}

impl Postings {
    /// None yet, in steps as the IOMMU has them.
    pub fn every(iommu: Option<Model>) -> Self {
        let step = iommu.map_or(Picoseconds::ZERO, |model| model.behaviour.posting_step);
        Self { step, waiting: VecDeque::new() }
    }

    /// Has a posting wait for its next step from `at` on.
    pub fn push(&mut self, at: Picoseconds, posting: Posting) {
        self.waiting.push_back((at + self.step, posting));
    }

    /// When the first step is due.
    pub fn next(&self) -> Option<Picoseconds> {
        self.waiting.front().map(|(at, _)| *at)
    }

    /// The first whose step is due, and when it was.
    pub fn take(&mut self, now: Picoseconds) -> Option<(Picoseconds, Posting)> {
        self.waiting.pop_front_if(|(at, _)| *at <= now)
    }
}
