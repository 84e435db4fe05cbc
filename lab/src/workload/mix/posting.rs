//! A function of the host's that the guest was given, which interrupts one vCPU after the other.

use super::VECTORS;
use crate::workload::device;
use bench::{Messenger, Pulse, Target, VirtualMachine};
use bus::Random;

/// A page that the guest has no use for: its image is far below.
const PAGE: u64 = 128 << 20;
/// Nanoseconds between two interrupts of a function, and how many it sends: so few that it is
/// silent now and then as well.
const PERIODS: [u32; 4] = [2_000, 10_000, 50_000, 200_000];
const COUNTS: [u32; 4] = [1, 2, 8, 64];

/// A function that interrupts one vCPU after the other.
pub(super) struct Posting {
    pulse: Pulse,
    /// Who knows how vCPUs are addressed.
    messenger: Messenger,
}

impl Posting {
    pub fn new(vm: &VirtualMachine) -> anyhow::Result<Self> {
        Ok(Self { pulse: device::give(vm)?, messenger: vm.messenger()? })
    }

    /// Now and then it is taken from KVM; else another vCPU, vector and pace are chosen, which
    /// routes its interrupts otherwise while they come.
    pub fn change(&mut self, random: &mut Random) -> anyhow::Result<()> {
        if random.one_in(8) {
            return Ok(self.pulse.part()?);
        }
        let target = random.below(self.messenger.targets() as u64) as usize;
        let Some(apic_id) = self.messenger.id(target) else { return Ok(()) };
        let target = Target { apic_id, vector: random.pick(&VECTORS).0 };
        let (period, count) = (random.pick(&PERIODS), random.pick(&COUNTS));
        Ok(self.pulse.start(target, PAGE, period, count)?)
    }
}
