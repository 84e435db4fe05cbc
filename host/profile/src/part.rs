//! A consecutive part of a recording, and how parts are joined to the whole.

use crate::pairing::{Losses, Thread, Views};
use crate::table::{HashKey, Table, mix};
use serde::{Deserialize, Serialize};
use trace::kvm::{Exit, KvmEvent, Stamp};

/// Which events count.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// Nanoseconds of the recording's clock; events at or after `to_ns` are left out.
    from_ns: u64,
    to_ns: u64,
    /// Only this process (virtual machine).
    process: Option<u32>,
    views: Views,
    /// Nothing is left out: worth knowing before looking at each event.
    is_everything: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self::new(0, u64::MAX, None, Views::default())
    }
}

impl Options {
    pub const fn new(from_ns: u64, to_ns: u64, process: Option<u32>, views: Views) -> Self {
        let is_everything = from_ns == 0 && to_ns == u64::MAX && process.is_none();
        Self { from_ns, to_ns, process, views, is_everything }
    }

    #[inline]
    fn admits(&self, stamp: &Stamp) -> bool {
        self.is_everything || self.admits_some(stamp)
    }

    fn admits_some(&self, stamp: &Stamp) -> bool {
        stamp.time_ns >= self.from_ns
            && stamp.time_ns < self.to_ns
            && self.process.is_none_or(|process| process == stamp.process)
    }
}

/// What is counted beside exits, each with a key of its own meaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[repr(u8)]
pub enum Family {
    /// Interrupts KVM injected at an entry, by vector.
    Injected,
    /// Those injected again because their delivery was cut short, by vector.
    Reinjected,
    /// Interrupts accepted by the software APIC, by vector.
    Accepted,
    /// Interrupts handed to the hardware APIC, by vector.
    Posted,
    /// IPIs that KVM sent for a guest, by the low half of the ICR.
    Ipi,
    /// Message-signalled interrupts, by vector.
    Msi,
    /// Interrupt lines raised, by global system interrupt.
    Line,
    /// Ends of interrupt that KVM handled, by vector.
    EndOfInterrupt,
    /// The same through the paravirtual flag.
    ParavirtualEndOfInterrupt,
    /// IPIs AVIC could not complete, by cause.
    IncompleteIpi,
    /// Registers AVIC left to KVM: offset, bit 16 for a write, bit 17 for a trap.
    UnacceleratedAccess,
    /// Entries of the IOMMU's guest log, by vCPU.
    GuestLog,
    /// Doorbells rung at a running vCPU, by vCPU.
    Doorbell,
    /// Incomplete IPIs whose targets KVM had to search for.
    KickSlowPath,
    /// Device interrupts given to or taken from posting, by vector, bit 8 for given.
    PostedRoute,
    /// Returns to the virtual-machine monitor, by its reason, bit 31 for an error.
    UserspaceExit,
    /// Wakeups of halted vCPUs: 1 after sleeping, 0 while polling.
    Wakeup,
    /// Exits of the guest's guest, by reason.
    NestedExit,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TallyKey {
    pub process: u32,
    pub family: Family,
    pub value: u32,
}

impl HashKey for TallyKey {
    fn hash(&self) -> u64 {
        mix(mix(u64::from(self.process) << 8 | self.family as u64) ^ u64::from(self.value))
    }
}

/// How often something happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tally {
    pub process: u32,
    pub family: Family,
    pub value: u32,
    pub count: u64,
}

/// One change of a virtual machine's inhibit mask.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct InhibitChange {
    pub time_ns: u64,
    pub process: u32,
    pub thread: u32,
    pub bit: u32,
    pub is_set: bool,
    /// The mask after the change.
    pub mask: u64,
}

/// Inhibit changes kept; a storm beyond that is cut and said to be.
const MOST_INHIBITS: usize = 1 << 20;
/// Kinds of tallies kept, against recordings that are noise.
const MOST_TALLIES: usize = 1 << 16;
/// Threads kept, for the same reason.
const MOST_THREADS: usize = 1 << 16;

/// What has been seen of a consecutive stretch of a recording.
#[derive(Clone, Debug)]
pub struct Part {
    options: Options,
    pub(crate) threads: Table<u32, Thread>,
    /// Number and position of the thread of the event before.
    latest: (u32, usize),
    pub(crate) tallies: Table<TallyKey, u64>,
    pub(crate) inhibits: Vec<InhibitChange>,
    pub(crate) losses: Losses,
    pub(crate) events: u64,
    /// The first ISA number an exit named.
    pub(crate) isa: Option<u32>,
    pub(crate) first_ns: u64,
    pub(crate) last_ns: u64,
    /// Inhibits, tallies or threads beyond the bounds above.
    pub(crate) ignored: u64,
}

impl Part {
    pub fn new(options: &Options) -> Self {
        Self {
            options: options.clone(),
            threads: Table::default(),
            latest: (0, usize::MAX),
            tallies: Table::default(),
            inhibits: Vec::new(),
            losses: Losses::default(),
            events: 0,
            isa: None,
            first_ns: u64::MAX,
            last_ns: 0,
            ignored: 0,
        }
    }

    /// Takes an event. Events of one thread come in order of time; threads in any order.
    #[inline]
    pub fn event(&mut self, stamp: &Stamp, event: &KvmEvent) {
        match *event {
            KvmEvent::Exit(exit) => self.exit(*stamp, exit),
            KvmEvent::Entry { vcpu } => self.entry(*stamp, vcpu),
            KvmEvent::Msr { is_write, index, value } => self.msr(*stamp, is_write, index, value),
            KvmEvent::PortIo { .. } | KvmEvent::Mmio { .. } | KvmEvent::Apic { .. } => {
                if let Some(position) = self.admit(stamp) {
                    let thread = &mut self.threads.at(position).1;
                    thread.event(stamp, event, &self.losses);
                }
            }
            _ if self.options.admits(stamp) => {
                self.note(stamp);
                self.counted(stamp, event);
            }
            _ => {}
        }
    }

    #[inline(always)]
    pub fn exit(&mut self, stamp: Stamp, exit: Exit) {
        if let Some(position) = self.admit(&stamp) {
            self.isa = self.isa.or(Some(exit.isa));
            self.threads.at(position).1.exit(stamp, exit);
        }
    }

    #[inline(always)]
    pub fn entry(&mut self, stamp: Stamp, vcpu: u32) {
        if let Some(position) = self.admit(&stamp) {
            self.threads.at(position).1.entry(stamp, vcpu, &self.losses);
        }
    }

    #[inline(always)]
    pub fn msr(&mut self, stamp: Stamp, is_write: bool, index: u32, value: u64) {
        if let Some(position) = self.admit(&stamp) {
            self.threads.at(position).1.msr(stamp, is_write, index, value);
        }
    }

    #[inline(always)]
    fn note(&mut self, stamp: &Stamp) {
        self.events += 1;
        if stamp.time_ns < self.first_ns {
            self.first_ns = stamp.time_ns;
        }
        if stamp.time_ns > self.last_ns {
            self.last_ns = stamp.time_ns;
        }
    }

    /// Counts an event that is wanted and gives the position of its thread.
    #[inline(always)]
    fn admit(&mut self, stamp: &Stamp) -> Option<usize> {
        if !self.options.admits(stamp) {
            return None;
        }
        self.note(stamp);
        if self.latest.0 == stamp.thread && self.latest.1 != usize::MAX {
            return Some(self.latest.1);
        }
        let position = self.position_of(stamp);
        if position >= MOST_THREADS {
            self.ignored += 1;
            return None;
        }
        self.latest = (stamp.thread, position);
        Some(position)
    }

    #[inline(never)]
    fn position_of(&mut self, stamp: &Stamp) -> usize {
        let views = self.options.views;
        let process = stamp.process;
        self.threads.position(stamp.thread, || Thread::new(process, views))
    }

    #[cold]
    fn counted(&mut self, stamp: &Stamp, event: &KvmEvent) {
        let (family, value) = match *event {
            KvmEvent::Inhibit { is_set, reason, mask } => {
                return self.inhibited(stamp, is_set, reason, mask);
            }
            KvmEvent::InjectInterrupt { vector, is_reinjected: false, .. } => {
                (Family::Injected, vector)
            }
            KvmEvent::InjectInterrupt { vector, .. } => (Family::Reinjected, vector),
            KvmEvent::AcceptInterrupt { vector, is_posted: false, .. } => {
                (Family::Accepted, u32::from(vector))
            }
            KvmEvent::AcceptInterrupt { vector, .. } => (Family::Posted, u32::from(vector)),
            KvmEvent::SendIpi { icr_low, .. } => (Family::Ipi, icr_low),
            KvmEvent::Msi { data, .. } => (Family::Msi, data as u32 & 0xff),
            KvmEvent::Line { gsi, level: 1 } => (Family::Line, gsi),
            KvmEvent::Line { .. } => return,
            KvmEvent::EndOfInterrupt { vector, is_paravirtual: false, .. } => {
                (Family::EndOfInterrupt, vector as u32)
            }
            KvmEvent::EndOfInterrupt { vector, .. } => {
                (Family::ParavirtualEndOfInterrupt, vector as u32)
            }
            KvmEvent::IncompleteIpi { cause, .. } => (Family::IncompleteIpi, cause),
            KvmEvent::UnacceleratedAccess { register, is_trap, is_write, .. } => {
                let flags = u32::from(is_write) << 16 | u32::from(is_trap) << 17;
                (Family::UnacceleratedAccess, register & 0xffff | flags)
            }
            KvmEvent::GuestLog { vcpu, .. } => (Family::GuestLog, vcpu),
            KvmEvent::Doorbell { vcpu, .. } => (Family::Doorbell, vcpu),
            KvmEvent::KickSlowPath { .. } => (Family::KickSlowPath, 0),
            KvmEvent::PostedRoute { vector, is_set, .. } => {
                (Family::PostedRoute, vector & 0xff | u32::from(is_set) << 8)
            }
            KvmEvent::UserspaceExit { reason, errno } => {
                (Family::UserspaceExit, reason & !(1 << 31) | u32::from(errno < 0) << 31)
            }
            KvmEvent::Wakeup { has_waited, .. } => (Family::Wakeup, u32::from(has_waited)),
            KvmEvent::NestedExit { reason } => (Family::NestedExit, reason),
            KvmEvent::Exit(_)
            | KvmEvent::Entry { .. }
            | KvmEvent::Msr { .. }
            | KvmEvent::PortIo { .. }
            | KvmEvent::Mmio { .. }
            | KvmEvent::Apic { .. } => return,
        };
        self.tally(TallyKey { process: stamp.process, family, value }, 1);
    }

    fn tally(&mut self, key: TallyKey, count: u64) {
        let position = self.tallies.position(key, || 0);
        if position < MOST_TALLIES {
            self.tallies.at(position).1 += count;
        } else {
            self.ignored += count;
        }
    }

    fn inhibited(&mut self, stamp: &Stamp, is_set: bool, bit: u32, mask: u64) {
        if self.inhibits.len() >= MOST_INHIBITS {
            self.ignored += 1;
            return;
        }
        let Stamp { time_ns, process, thread, .. } = *stamp;
        self.inhibits.push(InhibitChange { time_ns, process, thread, bit, is_set, mask });
    }

    /// The recording lost events of this CPU at or before this time.
    pub fn lost(&mut self, cpu: u32, at_ns: u64, events: u64) {
        self.losses.add(cpu, at_ns, events);
    }

    /// Threads seen on several host CPUs, sorted. If the recording has a buffer per CPU their
    /// events were out of order, and they must be read once more, in order.
    pub fn moved_threads(&self) -> Vec<u32> {
        let moved = self.threads.iter().filter(|(_, thread)| thread.has_moved);
        let mut threads: Vec<u32> = moved.map(|(number, _)| *number).collect();
        threads.sort_unstable();
        threads
    }

    /// Takes over these threads from a part that had them in order.
    pub fn replace_threads(&mut self, ordered: Self) {
        let views = self.options.views;
        for (number, thread) in ordered.threads.into_entries() {
            *self.threads.entry(number, || Thread::new(0, views)) = thread;
        }
    }

    /// Appends the part that follows this one.
    pub fn join(&mut self, later: Self) {
        for &(cpu, at_ns) in &later.losses.moments {
            self.losses.add(cpu, at_ns, 0);
        }
        self.losses.events += later.losses.events;
        let views = self.options.views;
        for (number, thread) in later.threads.into_entries() {
            let position = self.threads.position(number, || Thread::new(thread.process, views));
            if position < MOST_THREADS {
                self.threads.at(position).1.join(thread, &self.losses);
            }
        }
        for (key, count) in later.tallies.into_entries() {
            self.tally(key, count);
        }
        let room = MOST_INHIBITS - self.inhibits.len();
        self.ignored += later.inhibits.len().saturating_sub(room) as u64;
        self.inhibits.extend(later.inhibits.into_iter().take(room));
        self.events += later.events;
        self.isa = self.isa.or(later.isa);
        self.first_ns = self.first_ns.min(later.first_ns);
        self.last_ns = self.last_ns.max(later.last_ns);
        self.ignored += later.ignored;
    }
}
