//! The entropy device: a seeded generator, so that runs repeat. [VIRTIO "Entropy Device"]

use super::queue::{Broken, Queue};
use super::{Budget, Progress};
use crate::pci::Attachment;
use serde::{Deserialize, Serialize};

/// Bytes given per request; drivers take what they get.
const MAXIMUM_ANSWER: u64 = 4096;

/// A source of random bytes, the same for the same seed.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Entropy {
    state: u64,
}

impl Entropy {
    /// `seed` may be any value.
    pub fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    pub(super) fn process(
        &mut self,
        queue: &mut Queue,
        port: &mut Attachment,
        budget: &mut Budget,
    ) -> Result<Progress, Broken> {
        while budget.allows_more() {
            let Some(chain) = queue.pop(port)? else { return Ok(Progress::Idle) };
            let length = chain.writable_length().min(MAXIMUM_ANSWER) as usize;
            let mut bytes = Vec::with_capacity(length + 8);
            while bytes.len() < length {
                bytes.extend(self.next().to_le_bytes());
            }
            bytes.truncate(length);
            chain.write(port, 0, &bytes)?;
            budget.spend(length as u64);
            queue.push(port, &chain, length as u32)?;
        }
        Ok(Progress::HasMore)
    }

    /// SplitMix64. [Steele, Lea, Flood: "Fast Splittable Pseudorandom Number Generators"]
    fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }
}
