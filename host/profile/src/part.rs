//! A consecutive part of a recording, and how parts are joined to the whole.

use crate::losses::Losses;
use crate::pairing::{Arrival, Segment, Segments, Thread, Views};
use crate::table::{HashKey, Table, mix};
use arch::apic::DeliveryMode;
use serde::{Deserialize, Serialize};
use trace::kvm::{AccessKind, Departure, KvmEvent, Stamp};

/// Which events count.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// Nanoseconds of the recording's clock; events at or after `to_ns` are left out.
    from_ns: u64,
    to_ns: u64,
    /// Only this process (virtual machine).
    process: Option<u32>,
    views: Views,
    /// Only these threads, sorted.
    threads: Option<Vec<u32>>,
    /// Nothing is left out: worth knowing before looking at each event.
    is_everything: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self::new(0, u64::MAX, None, Views::default())
    }
}

impl Options {
    /// Events from `from_ns` on and before `to_ns`, of one process or of all.
    pub const fn new(from_ns: u64, to_ns: u64, process: Option<u32>, views: Views) -> Self {
        let is_everything = from_ns == 0 && to_ns == u64::MAX && process.is_none();
        Self { from_ns, to_ns, process, views, threads: None, is_everything }
    }

    /// The same, but for the exits of some threads only.
    pub fn only_threads(&self, mut threads: Vec<u32>) -> Self {
        threads.sort_unstable();
        Self { threads: Some(threads), is_everything: false, ..self.clone() }
    }

    #[inline]
    fn admits(&self, stamp: &Stamp) -> bool {
        self.is_everything || self.admits_some(stamp)
    }

    fn admits_some(&self, stamp: &Stamp) -> bool {
        stamp.time_ns >= self.from_ns
            && stamp.time_ns < self.to_ns
            && self.process.is_none_or(|process| process == stamp.process)
            && self.threads.as_ref().is_none_or(|only| only.binary_search(&stamp.thread).is_ok())
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
    /// Entries of the IOMMU's GA log, by vCPU.
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
    /// Of the virtual machine's monitor.
    pub process: u32,
    /// What is counted.
    pub family: Family,
    /// The key within its family; see [`Family`].
    pub value: u32,
    /// How often.
    pub count: u64,
}

/// One change of a virtual machine's inhibit mask.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct InhibitChange {
    /// Of the recording's clock.
    pub time_ns: u64,
    /// Of the virtual machine whose mask changed.
    pub process: u32,
    /// That changed it.
    pub thread: u32,
    /// Number of the reason in KVM's mask.
    pub bit: u32,
    /// Set, or cleared.
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

/// Threads whose positions are remembered: as many as may share a CPU.
const LATEST: usize = 64;

/// Numbers that belong in other places, so that none is found.
const NOBODY: [(u32, u32); LATEST] = {
    let mut latest = [(0, 0); LATEST];
    let mut place = 0;
    while place < LATEST {
        latest[place].0 = place as u32 + 1;
        place += 1;
    }
    latest
};

/// What borders a stretch of a recording, for those who have the stretches beside it.
#[derive(Clone, Debug, Default)]
pub struct Edges {
    pub(crate) segments: Segments,
    pub(crate) inhibits: Vec<InhibitChange>,
    pub(crate) lost: Vec<(u32, u64)>,
    pub(crate) rounds: Rounds,
}

/// When a recorder had been round all its buffers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Rounds {
    pub count: u64,
    /// The latest event before the end of the last round but one, and of the last.
    pub last_but_one_ns: u64,
    pub last_ns: u64,
    /// The latest event of all.
    pub latest_ns: u64,
}

/// What has been seen of one stretch of a recording, or of several.
#[derive(Clone, Debug)]
pub struct Part {
    options: Options,
    arrival: Arrival,
    pub(crate) threads: Table<u32, Thread>,
    /// Numbers and positions of threads that were seen lately.
    latest: [(u32, u32); LATEST],
    pub(crate) tallies: Table<TallyKey, u64>,
    edges: Edges,
    /// Nothing is left out and nothing was lost lately: no event has to be looked at by itself.
    is_plain: bool,
    pub(crate) losses: Losses,
    pub(crate) events: u64,
    /// The smallest ISA number an exit named that was looked at by itself.
    isa: u32,
    pub(crate) first_ns: u64,
    /// The latest event of those that were looked at by themselves, and of segments that have
    /// ended.
    last_ns: u64,
    /// Inhibits, tallies or threads beyond the bounds above.
    pub(crate) ignored: u64,
}

impl Part {
    /// For events that come in the order of time, thread by thread.
    pub fn new(options: &Options) -> Self {
        Self::of(options, Arrival::InOrder)
    }

    /// An empty part for events that arrive in a certain order.
    pub fn of(options: &Options, arrival: Arrival) -> Self {
        Self {
            options: options.clone(),
            arrival,
            threads: Table::default(),
            latest: NOBODY,
            tallies: Table::default(),
            edges: Edges::default(),
            is_plain: options.is_everything,
            losses: Losses::default(),
            events: 0,
            isa: u32::MAX,
            first_ns: u64::MAX,
            last_ns: 0,
            ignored: 0,
        }
    }

    /// Takes an event. Events of one thread come in order of time; threads in any order.
    pub fn event(&mut self, stamp: &Stamp, event: &KvmEvent) {
        match event {
            KvmEvent::Exit(_)
            | KvmEvent::Entry { .. }
            | KvmEvent::Msr { .. }
            | KvmEvent::PortIo { .. }
            | KvmEvent::Mmio { .. }
            | KvmEvent::Apic { .. }
            | KvmEvent::Hypercall { .. } => {
                if let KvmEvent::Exit(exit) = event {
                    self.isa = self.isa.min(exit.isa);
                }
                if let Some(position) = self.admit(stamp) {
                    let thread = &mut self.threads.at(position).1;
                    thread.event(stamp, event, &self.losses, &mut self.edges.segments);
                }
            }
            _ if self.options.admits(stamp) => {
                self.note(stamp);
                self.counted(stamp, event);
            }
            _ => {}
        }
    }

    /// Takes an exit and what was accessed in it. Nothing that is taken the short way is earlier
    /// than what its thread began with, which was not.
    #[inline(always)]
    pub fn departure(&mut self, departure: &Departure) {
        if let Some(thread) = self.plain_thread(&departure.stamp)
            && thread.departure(departure)
        {
            self.events += if departure.access.kind == AccessKind::None { 1 } else { 2 };
            return;
        }
        // A copy, so that the departure itself can stay in registers.
        self.one_by_one(&{ *departure });
    }

    /// Takes an exit, what was accessed in it, and the entry that comes next on its CPU.
    #[inline(always)]
    pub fn trip(&mut self, departure: &Departure, entry_ns: u64, vcpu: impl FnOnce() -> u32) {
        if let Some(thread) = self.plain_thread(&departure.stamp)
            && thread.trip(departure, entry_ns)
        {
            self.events += if departure.access.kind == AccessKind::None { 2 } else { 3 };
            return;
        }
        // A copy, so that the departure itself can stay in registers.
        self.trip_apart(&{ *departure }, entry_ns, vcpu());
    }

    #[inline(never)]
    fn trip_apart(&mut self, departure: &Departure, entry_ns: u64, vcpu: u32) {
        self.departure(departure);
        self.entry(&Stamp { time_ns: entry_ns, ..departure.stamp }, vcpu);
    }

    #[inline(never)]
    fn one_by_one(&mut self, departure: &Departure) {
        for (stamp, event) in departure.events() {
            self.event(&stamp, &event);
        }
    }

    /// Takes an entry.
    #[inline(always)]
    pub fn entry(&mut self, stamp: &Stamp, vcpu: u32) {
        if let Some(thread) = self.plain_thread(stamp)
            && thread.entered(stamp)
        {
            self.events += 1;
            return;
        }
        self.entry_alone(*stamp, vcpu);
    }

    #[inline(never)]
    fn entry_alone(&mut self, stamp: Stamp, vcpu: u32) {
        self.event(&stamp, &KvmEvent::Entry { vcpu });
    }

    fn note(&mut self, stamp: &Stamp) {
        self.events += 1;
        self.first_ns = self.first_ns.min(stamp.time_ns);
        self.last_ns = self.last_ns.max(stamp.time_ns);
    }

    /// Counts an event that is wanted and gives the position of its thread.
    fn admit(&mut self, stamp: &Stamp) -> Option<usize> {
        if !self.options.admits(stamp) {
            return None;
        }
        self.note(stamp);
        self.position_at(stamp)
    }

    /// The thread of an event that need not be looked at by itself.
    #[inline(always)]
    fn plain_thread(&mut self, stamp: &Stamp) -> Option<&mut Thread> {
        if !self.is_plain {
            return None;
        }
        let latest = self.latest[stamp.thread as usize % LATEST];
        let position =
            if latest.0 == stamp.thread { latest.1 as usize } else { self.admit_thread(*stamp)? };
        Some(&mut self.threads.at(position).1)
    }

    fn position_at(&mut self, stamp: &Stamp) -> Option<usize> {
        let latest = self.latest[stamp.thread as usize % LATEST];
        if latest.0 == stamp.thread {
            return Some(latest.1 as usize);
        }
        self.admit_thread(*stamp)
    }

    #[inline(never)]
    fn admit_thread(&mut self, stamp: Stamp) -> Option<usize> {
        let position = self.position_of(&stamp);
        if position >= MOST_THREADS {
            self.ignored += 1;
            return None;
        }
        self.latest[stamp.thread as usize % LATEST] = (stamp.thread, position as u32);
        Some(position)
    }

    fn position_of(&mut self, stamp: &Stamp) -> usize {
        let Stamp { process, thread, .. } = *stamp;
        let (views, arrival) = (self.options.views, self.arrival);
        self.threads.position(thread, || Thread::new(thread, process, views, arrival))
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
            KvmEvent::AcceptInterrupt { vector, delivery_mode, is_posted: false, .. } => {
                // That of a start-up IPI is the page to begin at.
                let mode = DeliveryMode::from_bits(delivery_mode);
                let has_vector = matches!(mode, DeliveryMode::Fixed | DeliveryMode::LowestPriority);
                (Family::Accepted, if has_vector { u32::from(vector) } else { 0 })
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
            | KvmEvent::Apic { .. }
            | KvmEvent::Hypercall { .. } => return,
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
        if self.edges.inhibits.len() >= MOST_INHIBITS {
            self.ignored += 1;
            return;
        }
        let Stamp { time_ns, process, thread, .. } = *stamp;
        self.edges.inhibits.push(InhibitChange { time_ns, process, thread, bit, is_set, mask });
    }

    /// The recording lost events of this CPU at or before this time.
    pub fn lost(&mut self, cpu: u32, at_ns: u64, events: u64) {
        self.losses.add(cpu, at_ns, events);
        self.is_plain = false;
        self.edges.lost.push((cpu, at_ns));
    }

    /// The recorder has been round all its buffers.
    pub fn finished_round(&mut self) {
        let latest_ns = self.latest_ns();
        let rounds = &mut self.edges.rounds;
        rounds.count += 1;
        (rounds.last_but_one_ns, rounds.last_ns) = (rounds.last_ns, latest_ns);
    }

    /// When the latest event was.
    pub(crate) fn latest_ns(&self) -> u64 {
        let segments = self.threads.iter().map(|(_, thread)| thread.last_ns());
        segments.fold(self.last_ns.max(self.edges.segments.latest_ns), u64::max)
    }

    /// Ends a stretch: what follows need not be what comes next in the recording. What was summed
    /// up stays, since it does not matter in which order sums are added.
    pub fn cut(&mut self) -> Edges {
        for position in 0..self.threads.len() {
            self.threads.at(position).1.end_segment(&mut self.edges.segments);
        }
        self.losses.forget_moments();
        self.is_plain = self.options.is_everything;
        self.last_ns = self.latest_ns();
        let mut edges = std::mem::take(&mut self.edges);
        edges.rounds.latest_ns = self.last_ns;
        edges
    }

    /// Takes what borders the next stretch, whose sums come with [`Part::absorb`].
    pub fn join_segments(&mut self, edges: Edges) {
        self.take_over(&edges.lost, edges.inhibits);
        for segment in &edges.segments.segments {
            self.join_segment(segment, &edges.segments.heads);
        }
    }

    pub(crate) fn take_over(&mut self, lost: &[(u32, u64)], inhibits: Vec<InhibitChange>) {
        for &(cpu, at_ns) in lost {
            self.losses.add(cpu, at_ns, 0);
            self.is_plain = false;
        }
        let room = MOST_INHIBITS - self.edges.inhibits.len();
        self.ignored += inhibits.len().saturating_sub(room) as u64;
        self.edges.inhibits.extend(inhibits.into_iter().take(room));
    }

    pub(crate) fn join_segment(&mut self, segment: &Segment, heads: &[(Stamp, KvmEvent)]) {
        let stamp = Stamp { process: segment.process, thread: segment.thread, ..Stamp::default() };
        let position = self.position_of(&stamp);
        if position < MOST_THREADS {
            self.threads.at(position).1.join(segment, heads, &self.losses);
        }
    }

    /// The smallest ISA number an exit named.
    pub(crate) fn isa(&self) -> u32 {
        self.threads.iter().fold(self.isa, |isa, (_, thread)| isa.min(thread.known.least_isa()))
    }

    /// Adds the sums of a part that was cut, whenever its events were.
    pub fn absorb(&mut self, other: Self) {
        let (views, arrival) = (self.options.views, self.arrival);
        let other_ns = other.latest_ns();
        self.isa = self.isa.min(other.isa());
        for (number, thread) in other.threads.into_entries() {
            let make = || Thread::new(number, thread.process, views, arrival);
            let position = self.threads.position(number, make);
            if position < MOST_THREADS {
                self.threads.at(position).1.absorb(thread);
            }
        }
        for (key, count) in other.tallies.into_entries() {
            self.tally(key, count);
        }
        self.losses.events += other.losses.events;
        self.events += other.events;
        self.first_ns = self.first_ns.min(other.first_ns);
        self.last_ns = self.last_ns.max(other_ns);
        self.ignored += other.ignored;
    }

    /// Appends the part that follows this one.
    pub fn join(&mut self, mut later: Self) {
        self.join_segments(later.cut());
        self.absorb(later);
    }

    /// Threads whose segments overlapped, sorted: they were out of order within a segment.
    pub fn tangled_threads(&self) -> Vec<u32> {
        let tangled = self.threads.iter().filter(|(_, thread)| thread.is_tangled);
        let mut threads: Vec<u32> = tangled.map(|(number, _)| *number).collect();
        threads.sort_unstable();
        threads
    }

    /// Takes all threads to be out of order.
    pub(crate) fn tangle(&mut self) {
        for position in 0..self.threads.len() {
            self.threads.at(position).1.is_tangled = true;
        }
    }

    /// Takes over the threads of a part that was cut more finely.
    pub fn replace_threads(&mut self, finer: Self) {
        let (views, arrival) = (self.options.views, self.arrival);
        for (number, thread) in finer.threads.into_entries() {
            *self.threads.entry(number, || Thread::new(number, 0, views, arrival)) = thread;
        }
    }

    pub(crate) fn take_inhibits(&mut self) -> Vec<InhibitChange> {
        std::mem::take(&mut self.edges.inhibits)
    }
}
