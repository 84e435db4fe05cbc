//! How much a device does at a time.

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
