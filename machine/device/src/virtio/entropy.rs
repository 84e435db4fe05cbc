//! The entropy device: a seeded generator, so that runs repeat. [VIRTIO "Entropy Device"]

use super::queue::{Broken, Queue};
use super::round::{Budget, Progress, Served, serve_each};
use crate::pci::Attachment;
use bus::Random;
use serde::{Deserialize, Serialize};

/// Bytes given per request; drivers take what they get.
const MAXIMUM_ANSWER: u64 = 4096;

/// A source of random bytes, the same for the same seed.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Entropy {
    random: Random,
}

impl Entropy {
    /// `seed` may be any value.
    pub fn new(seed: u64) -> Self {
        Self { random: Random(seed) }
    }

    pub(super) fn process(
        &mut self,
        queue: &mut Queue,
        port: &mut Attachment,
        budget: &mut Budget,
    ) -> Result<Progress, Broken> {
        serve_each(queue, port, budget, |chain, port| {
            let length = chain.writable_length().min(MAXIMUM_ANSWER) as usize;
            let mut bytes = Vec::with_capacity(length + 8);
            while bytes.len() < length {
                bytes.extend(self.random.next().to_le_bytes());
            }
            bytes.truncate(length);
            chain.write(port, 0, &bytes)?;
            Ok(Served { written: length as u32, moved: length as u64 })
        })
    }
}
