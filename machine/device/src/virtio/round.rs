//! How much a device does at a time.

use super::chain::Chain;
use super::queue::{Broken, Queue};
use crate::pci::Attachment;

/// Whether a queue had more to do than one round allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Progress {
    Idle,
    HasMore,
}

/// How much one round may do.
pub(super) struct Budget {
    chains: u32,
    bytes: u64,
}

impl Budget {
    pub const fn of_a_round() -> Self {
        Self { chains: 512, bytes: 16 << 20 }
    }

    pub fn allows_more(&self) -> bool {
        self.chains > 0 && self.bytes > 0
    }

    pub fn spend(&mut self, bytes: u64) {
        self.chains = self.chains.saturating_sub(1);
        self.bytes = self.bytes.saturating_sub(bytes);
    }
}

/// What a device did with a chain.
pub(super) struct Served {
    /// Bytes that it wrote into it.
    pub written: u32,
    /// Bytes that it moved.
    pub moved: u64,
}

/// Serves a queue's chains one after the other, as far as a round goes.
pub(super) fn serve_each(
    queue: &mut Queue,
    port: &mut Attachment,
    budget: &mut Budget,
    mut serve: impl FnMut(&Chain, &mut Attachment) -> Result<Served, Broken>,
) -> Result<Progress, Broken> {
    while budget.allows_more() {
        let Some(chain) = queue.pop(port)? else { return Ok(Progress::Idle) };
        let Served { written, moved } = serve(&chain, port)?;
        budget.spend(moved);
        queue.push(port, &chain, written)?;
    }
    Ok(Progress::HasMore)
}
