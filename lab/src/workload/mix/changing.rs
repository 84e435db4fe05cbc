//! The thread of the host that changes things while interrupts flow.

use super::places::Places;
use super::posting::Posting;
use super::{Changes, Done, VECTORS};
use bench::{Inhibitor, LINES, Messenger, Raiser, Saver, Tickets, VirtualMachine};
use bus::Random;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Pauses are at least and at most so many microseconds, short ones as likely as long ones.
const PAUSES: (u32, u32) = (4, 10);

/// APIC IDs for which the guest's ledger has accounts, behind those of the lines: one for each
/// vector, and then two for what functions send. The guest's `mix::ledger::FromHost` is laid out
/// so.
const APIC_IDS: usize = 64;
const FUNCTIONS: usize = LINES + APIC_IDS * VECTORS.len();
const ACCOUNTS: usize = FUNCTIONS + 2 * APIC_IDS;
/// The vector that the guest only counts has no tickets of the host.
const COUNTED: usize = 0;

/// What it has to change things with.
pub(super) struct Means {
    inhibitor: Option<Inhibitor>,
    messenger: Option<Messenger>,
    saver: Option<Saver>,
    pulse: Option<Posting>,
    raiser: Option<Raiser>,
    ledger: Box<dyn FnOnce(u64) -> Tickets + Send>,
}

impl Means {
    /// What these changes need of a virtual machine that does not run yet.
    pub fn of(changes: Changes, vm: &VirtualMachine) -> anyhow::Result<Self> {
        Ok(Self {
            inhibitor: changes.flip.map(|flip| vm.inhibitor(flip.inhibit())).transpose()?,
            messenger: changes.sends.then(|| vm.messenger()).transpose()?,
            saver: changes.saves.then(|| vm.saver()),
            pulse: changes.posts.then(|| Posting::new(vm)).transpose()?,
            raiser: changes.raises.then(|| vm.raiser()),
            ledger: Box::new(vm.tickets(ACCOUNTS)),
        })
    }
}

/// Who changes things.
pub(super) struct Changing {
    inhibitor: Option<Inhibitor>,
    is_inhibited: bool,
    messenger: Option<Messenger>,
    saver: Option<Saver>,
    pulse: Option<Posting>,
    raiser: Option<Raiser>,
    tickets: Tickets,
    places: Places,
    moves: bool,
    random: Random,
    done: Arc<Done>,
    stop: Arc<AtomicBool>,
}

/// What it does at a time.
#[derive(Clone, Copy)]
enum Act {
    Flip,
    Move,
    Send,
    Save,
    Post,
    Raise,
}

impl Changing {
    /// Who begins as soon as it is run, with the guest's ledger at an address.
    pub fn new(
        means: Means,
        moves: bool,
        ledger: u64,
        places: Places,
        random: Random,
        done: Arc<Done>,
    ) -> Self {
        let Means { inhibitor, messenger, saver, pulse, raiser, ledger: make } = means;
        Self {
            inhibitor,
            is_inhibited: false,
            messenger,
            saver,
            pulse,
            raiser,
            tickets: make(ledger),
            places,
            moves,
            random,
            done,
            stop: Arc::default(),
        }
    }

    /// What ends it.
    pub fn stop(&self) -> Arc<AtomicBool> {
        self.stop.clone()
    }

    /// Changes things until it is stopped or the guest has ended.
    pub fn run(mut self) -> anyhow::Result<()> {
        let acts: Vec<Act> = [
            (Act::Flip, self.inhibitor.is_some()),
            (Act::Move, self.moves),
            (Act::Send, self.messenger.is_some()),
            (Act::Save, self.saver.is_some()),
            (Act::Post, self.pulse.is_some()),
            (Act::Raise, self.raiser.is_some()),
        ]
        .into_iter()
        .filter_map(|(act, is_wanted)| is_wanted.then_some(act))
        .collect();
        while !self.stop.load(Ordering::Relaxed) {
            self.pause();
            match self.random.pick(&acts) {
                Act::Flip => self.flip()?,
                Act::Move if !self.places.shift(&mut self.random)? => break,
                Act::Move => {}
                Act::Send => self.send()?,
                Act::Save if !self.save()? => break,
                Act::Save => {}
                Act::Post => {
                    let Self { pulse, random, tickets, .. } = &mut self;
                    if let Some(pulse) = pulse {
                        pulse.change(random, tickets, FUNCTIONS, APIC_IDS)?;
                    }
                }
                Act::Raise => self.raise()?,
            }
        }
        Ok(())
    }

    fn flip(&mut self) -> anyhow::Result<()> {
        let Some(inhibitor) = &self.inhibitor else { return Ok(()) };
        if self.is_inhibited { inhibitor.lift() } else { inhibitor.set() }?;
        self.is_inhibited = !self.is_inhibited;
        Ok(())
    }

    /// A few messages, one right behind the other.
    fn send(&mut self) -> anyhow::Result<()> {
        let Some(messenger) = &self.messenger else { return Ok(()) };
        for _ in 0..self.random.pick(&[1, 2, 8, 32]) {
            let target = self.random.below(messenger.targets() as u64) as usize;
            let kind = self.random.below(VECTORS.len() as u64) as usize;
            if kind == COUNTED {
                messenger.send(target, VECTORS[kind])?;
                continue;
            }
            let id = messenger.id(target).map(usize::from);
            // The guest has no account of others, and what comes without a ticket is a fault.
            let Some(id) = id.filter(|id| *id < APIC_IDS) else { continue };
            let account = LINES + id * VECTORS.len() + kind;
            let ticket = self.tickets.take(account)?;
            messenger.send(target, VECTORS[kind])?;
            self.tickets.hand_in(account, ticket)?;
        }
        Ok(())
    }

    /// A few lines, one right behind the other: often one that is high already.
    fn raise(&mut self) -> anyhow::Result<()> {
        let Some(raiser) = &self.raiser else { return Ok(()) };
        let count = self.random.pick(&[1, 1, 2, 8]);
        for _ in 0..count {
            raiser.raise(self.random.below(LINES as u64) as usize, &mut self.tickets)?;
        }
        self.done.raised.fetch_add(count, Ordering::Relaxed);
        Ok(())
    }

    /// As for a migration; false if the guest has ended. Functions are stopped before: what one
    /// posts between the two halves is in no state that is set.
    fn save(&mut self) -> anyhow::Result<bool> {
        let Some(saver) = &self.saver else { return Ok(true) };
        if let Some(pulse) = &mut self.pulse {
            pulse.fall_silent()?;
        }
        let is_done = saver.save_and_restore()?;
        self.done.saved.fetch_add(u64::from(is_done), Ordering::Relaxed);
        Ok(is_done)
    }

    /// All orders of magnitude are alike.
    fn pause(&mut self) {
        let (least, most) = PAUSES;
        let exponent = u64::from(least) + self.random.below(u64::from(most - least));
        let micros = (1 << exponent) + self.random.below(1 << exponent);
        std::thread::sleep(Duration::from_micros(micros));
    }
}
