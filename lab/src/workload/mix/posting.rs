//! A function of the host's that the guest was given, which interrupts one vCPU after the other.

use crate::workload::device;
use arch::identity::Vector;
use bench::{Messenger, Pulse, Target, Tickets, VirtualMachine};
use bus::Random;
use std::time::{Duration, Instant};

/// A page that the guest has no use for: its image is far below.
const PAGE: u64 = 128 << 20;
/// What the guest finds numbered, since the function is quiet while it is sent elsewhere, and what
/// not: the guest's `mix::functions` has the same.
const NUMBERED: Vector = Vector(0xEC);
const UNNUMBERED: [Vector; 2] = [Vector(0xE1), Vector(0x76)];
/// Nanoseconds between two interrupts of a function, and how many it sends: so few that it is
/// silent now and then as well.
const PERIODS: [u32; 4] = [2_000, 10_000, 50_000, 200_000];
const COUNTS: [u32; 4] = [1, 2, 8, 64];

/// For so long it is quiet before what was numbered goes elsewhere: where KVM injects, it does so
/// later, to whom the route then names.
const QUIET: Duration = Duration::from_micros(200);

/// A function that interrupts one vCPU after the other.
pub(super) struct Posting {
    pulse: Pulse,
    /// Who knows how vCPUs are addressed.
    messenger: Messenger,
    /// Whether what it sends now is numbered.
    is_numbered: bool,
    /// Since when it is quiet, where that counts.
    quiet: Option<Instant>,
}

impl Posting {
    pub fn new(vm: &VirtualMachine) -> anyhow::Result<Self> {
        let (pulse, messenger) = (device::give(vm)?, vm.messenger()?);
        Ok(Self { pulse, messenger, is_numbered: false, quiet: None })
    }

    /// It sends nothing until it is changed, and what it has sent has arrived.
    pub fn fall_silent(&mut self) -> anyhow::Result<()> {
        self.pulse.stop()?;
        self.is_numbered = false;
        std::thread::sleep(QUIET);
        Ok(())
    }

    /// Now and then it is taken from KVM; else another vCPU, vector and pace are chosen, which
    /// routes its interrupts otherwise while they come, but for those that are numbered. The
    /// tickets' accounts from `turns` on are the guest's `mix::functions::Pulses`, two for each
    /// APIC ID below `ids`.
    pub fn change(
        &mut self,
        random: &mut Random,
        tickets: &mut Tickets,
        turns: usize,
        ids: usize,
    ) -> anyhow::Result<()> {
        if std::mem::take(&mut self.is_numbered) {
            self.quiet = Some(Instant::now());
            return Ok(self.pulse.stop()?);
        }
        if self.quiet.is_some_and(|since| since.elapsed() < QUIET) {
            return Ok(());
        }
        self.quiet = None;
        if random.one_in(8) {
            return Ok(self.pulse.part()?);
        }
        let target = random.below(self.messenger.targets() as u64) as usize;
        let Some(apic_id) = self.messenger.id(target) else { return Ok(()) };
        let (period, count) = (random.pick(&PERIODS), random.pick(&COUNTS));
        let id = usize::from(apic_id);
        if random.one_in(2) || id >= ids {
            let target = Target { apic_id, vector: random.pick(&UNNUMBERED).0 };
            return Ok(self.pulse.start(target, PAGE, period, count)?);
        }
        self.is_numbered = true;
        self.pulse.stop()?;
        // The number is zero before the turn is another.
        let (turn, number) = (turns + 2 * id, turns + 2 * id + 1);
        tickets.clear(number)?;
        tickets.take(turn)?;
        let target = Target { apic_id, vector: NUMBERED.0 };
        Ok(self.pulse.start(target, tickets.address(number), period, count)?)
    }
}
