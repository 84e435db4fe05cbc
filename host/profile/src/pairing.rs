//! One vCPU thread: which exit belongs to which entry.
//!
//! An exit lasts from `kvm_exit` to the next `kvm_entry` of the same thread; what happens between
//! (an MSR, a port, a memory-mapped access, a write to the software APIC) says what it was about.
//! Where `perf kvm stat` differs is written down in `docs/exits.md`. The rules:
//!
//! - Events are paired by thread: a vCPU moves between CPUs within an exit, and two machines have a
//!   vCPU 0 each. A thread's vCPU is the number in its first entry, its machine its process.
//! - In a thread, events are taken in order of time. Recorders empty one CPU's buffer after the
//!   other: what a thread did on one CPU between two moves is a segment, and segments are joined by
//!   time (`assembly`).
//! - Nothing before a thread's first entry counts: its exit began before the recording.
//! - An exit after an exit replaces it and is counted as unpaired: the entry between was not
//!   recorded. An entry without an exit ends nothing; an exit open at the end is dropped.
//! - An exit with a loss on its first or last CPU is dropped and counted, since its entry may be
//!   lost, and so is one that ends before it began, since the clock ran back.
//! - A return to user space (`kvm_userspace_exit`) does not end an exit. One of a nested guest
//!   (`kvm_nested_vmexit`) is counted by itself and ends nothing: KVM's own exit frames it.
//! - What an exit was about comes from its own fields and from the first `kvm_msr`, `kvm_pio`,
//!   `kvm_mmio` or `kvm_apic` in it; a write of the ICR is refined by its value.
//! - In the other views an MSR or port access, and a memory write, last from their event to the
//!   entry (or a read that follows), a memory read from the exit to its event.
//!
//! A thread's events before its first entry are kept as they are (the head), because only the
//! part of the recording that comes before knows which exit that entry ends.

mod detail;

use crate::cell::Cell;
use crate::key::{Key, PackedDetail, View};
use crate::losses::Losses;
use crate::table::Table;
use crate::trip::{KnownTrips, TripCells};
use detail::{detail_of_exit, detail_of_mmio, detail_of_msr, detail_of_register};
use serde::{Deserialize, Serialize};
use trace::kvm::{AccessKind, Departure, Exit, KvmEvent, MmioKind, Stamp};

/// Events a thread may bring before its first entry; a vCPU has a handful, other threads of a
/// damaged recording might go on for ever.
const LONGEST_HEAD: usize = 4096;

/// Stands for the CPU of a thread that has not been seen.
const NO_CPU: u32 = u32::MAX;

/// Page of the local APIC, where every guest known leaves it. [SDM3 "Local APIC"]
pub(crate) const APIC_PAGE: u64 = 0xfee0_0000;
pub(crate) const ICR_OFFSET: u16 = 0x300;
/// [X2APIC "x2APIC Register Address Space"]
pub(crate) const X2APIC_ICR: u32 = 0x830;

/// An exit or access that has begun and not ended.
#[derive(Clone, Copy, Debug)]
struct Begun {
    at_ns: u64,
    cpu: u32,
    key: Key,
}

#[derive(Clone, Copy, Debug)]
struct BegunExit {
    at_ns: u64,
    cpu: u32,
    reason: u32,
    detail: PackedDetail,
}

/// What a memory-mapped access would end.
#[derive(Clone, Copy, Debug, Default)]
enum OpenMmio {
    #[default]
    Nothing,
    /// A read, which began with the exit.
    Read {
        at_ns: u64,
        cpu: u32,
    },
    Write(Begun),
}

/// Everything begun and not ended on one thread.
#[derive(Clone, Copy, Debug, Default)]
struct Open {
    exit: Option<BegunExit>,
    mmio: OpenMmio,
    port: Option<Begun>,
    msr: Option<Begun>,
}

/// What is worked out beside the exits themselves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Views {
    /// The tables of MSRs, ports and memory-mapped accesses, which have times of their own.
    pub has_accesses: bool,
}

impl Default for Views {
    fn default() -> Self {
        Self { has_accesses: true }
    }
}

/// Where a thread is, by its latest event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Whereabouts {
    /// Out of the guest, or not known to be in it: what is open is in [`Open`].
    Outside,
    /// In the guest: nothing is open.
    Guest,
    /// Out of the guest, and what is open is in [`Departed`].
    Departed,
}

/// What is open after a departure.
#[derive(Clone, Copy, Debug, Default)]
struct Departed {
    exit_ns: u64,
    /// Of the access, or of the exit if there was none.
    middle_ns: u64,
    cpu: u32,
    cells: TripCells,
}

/// What one thread did in one stretch on one CPU, as far as its neighbours must know: everything
/// before its first entry, and what is open at its end.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Segment {
    pub thread: u32,
    pub process: u32,
    pub first_ns: u64,
    pub last_ns: u64,
    /// Where its head lies among those of all segments.
    head: (u32, u32),
    has_entered: bool,
    whereabouts: Whereabouts,
    open: Open,
}

/// Segments that have ended, with their heads.
#[derive(Clone, Debug, Default)]
pub(crate) struct Segments {
    pub segments: Vec<Segment>,
    /// When the latest event of them was.
    pub latest_ns: u64,
    pub heads: Vec<(Stamp, KvmEvent)>,
}

impl Segment {
    pub fn head<'a>(&self, heads: &'a [(Stamp, KvmEvent)]) -> &'a [(Stamp, KvmEvent)] {
        let (from, to) = self.head;
        heads.get(from as usize..to as usize).unwrap_or_default()
    }
}

/// How the events of a thread arrive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrival {
    /// In the order of time.
    InOrder,
    /// CPU by CPU, each in the order of time, so that a thread that moved is out of order. Where
    /// nothing happens for longer than this outside the guest, it may have been elsewhere between.
    ByCpu {
        /// The longest silence outside the guest after which a thread is known not to have moved.
        gap_ns: u64,
    },
}

/// One vCPU thread.
#[derive(Clone, Debug)]
pub(crate) struct Thread {
    views: Views,
    /// The longest silence outside the guest after which a segment goes on.
    gap_ns: u64,
    number: u32,
    pub process: u32,
    /// The number in the first entry seen.
    pub vcpu: u32,
    pub has_entered: bool,
    whereabouts: Whereabouts,
    /// Meaningful if it has departed.
    departed: Departed,
    head: Vec<(Stamp, KvmEvent)>,
    open: Open,
    /// Of the segment; [`NO_CPU`] while it has no event. Kept only if events arrive by CPU.
    cpu: u32,
    first_ns: u64,
    last_ns: u64,
    pub cells: Table<Key, Cell>,
    pub(crate) known: KnownTrips,
    /// Exits followed by another exit, and those thrown away for a loss or a clock that ran back.
    pub unpaired: u64,
    pub discarded: u64,
    /// Segments that were joined overlapped, not having been cut finely enough, or events that come
    /// in the order of time did not.
    pub is_tangled: bool,
}

impl Thread {
    pub fn new(number: u32, process: u32, views: Views, arrival: Arrival) -> Self {
        Self {
            views,
            gap_ns: match arrival {
                Arrival::InOrder => u64::MAX,
                Arrival::ByCpu { gap_ns } => gap_ns,
            },
            number,
            process,
            vcpu: 0,
            has_entered: false,
            whereabouts: Whereabouts::Outside,
            departed: Departed::default(),
            head: Vec::new(),
            open: Open::default(),
            cpu: NO_CPU,
            first_ns: u64::MAX,
            last_ns: 0,
            cells: Table::default(),
            known: KnownTrips::default(),
            unpaired: 0,
            discarded: 0,
            is_tangled: false,
        }
    }

    /// Takes one event of this thread, in order of time but for the segments it is cut into.
    pub fn event(&mut self, stamp: &Stamp, event: &KvmEvent, losses: &Losses, done: &mut Segments) {
        self.one_by_one();
        self.arrived(stamp, done);
        if !self.has_entered {
            return self.before_first_entry(*stamp, *event);
        }
        // An access opens something even if the exit before it was lost.
        self.whereabouts = Whereabouts::Outside;
        match *event {
            KvmEvent::Exit(exit) => self.exit(*stamp, exit),
            KvmEvent::Entry { .. } => self.entry(*stamp, losses),
            KvmEvent::Msr { is_write, index, value } => {
                self.refine(|| detail_of_msr(index, is_write, value));
                if self.views.has_accesses {
                    let key = Key::access(View::Msr, u64::from(index), is_write);
                    self.open.msr = Some(Begun { at_ns: stamp.time_ns, cpu: stamp.cpu, key });
                }
            }
            KvmEvent::PortIo { is_write, port } => {
                self.refine(|| PackedDetail::port(port as u16, is_write));
                if self.views.has_accesses {
                    let key = Key::access(View::Ioport, u64::from(port), is_write);
                    self.open.port = Some(Begun { at_ns: stamp.time_ns, cpu: stamp.cpu, key });
                }
            }
            KvmEvent::Mmio { kind, address, value } => {
                self.mmio(stamp, kind, address, value, losses)
            }
            KvmEvent::Hypercall { number, is_hyperv } => {
                self.refine(|| PackedDetail::hypercall(number, is_hyperv));
            }
            KvmEvent::Apic { is_write, register, value } => {
                self.refine(|| detail_of_register(register as u16, is_write, value, false));
            }
            _ => {}
        }
    }

    fn exit(&mut self, stamp: Stamp, exit: Exit) {
        self.unpaired += u64::from(self.open.exit.is_some());
        let detail = detail_of_exit(exit);
        self.open.exit =
            Some(BegunExit { at_ns: stamp.time_ns, cpu: stamp.cpu, reason: exit.reason, detail });
        // Until a memory-mapped read completes, the exit itself is its beginning.
        self.open.mmio = OpenMmio::Read { at_ns: stamp.time_ns, cpu: stamp.cpu };
    }

    fn entry(&mut self, stamp: Stamp, losses: &Losses) {
        self.whereabouts = Whereabouts::Guest;
        if let Some(exit) = self.open.exit.take() {
            let key = Key::exit(exit.reason, exit.detail);
            self.end(Begun { at_ns: exit.at_ns, cpu: exit.cpu, key }, &stamp, losses);
        }
        if self.views.has_accesses {
            self.end_accesses(&stamp, losses);
        }
    }

    /// Takes an exit and its access, if nothing about them is special; otherwise nothing is changed
    /// and its events are to be taken one by one.
    #[inline(always)]
    pub fn departure(&mut self, departure: &Departure) -> bool {
        let Departure { stamp, access, .. } = departure;
        let (exit_ns, middle_ns) = (stamp.time_ns, access.time_ns);
        let is_in_segment = self.gap_ns == u64::MAX
            || middle_ns.wrapping_sub(exit_ns) <= self.gap_ns && stamp.cpu == self.cpu;
        let is_in_order = (self.last_ns <= exit_ns) & (exit_ns <= middle_ns);
        if self.whereabouts != Whereabouts::Guest || !is_in_order || !is_in_segment {
            return false;
        }
        let Some(cells) = self.cells_of(departure) else { return false };
        self.whereabouts = Whereabouts::Departed;
        self.departed = Departed { exit_ns, middle_ns, cpu: stamp.cpu, cells };
        self.last_ns = middle_ns;
        true
    }

    /// Takes an exit, its access and the entry that ends it, under the same condition.
    #[inline(always)]
    pub fn trip(&mut self, departure: &Departure, entry_ns: u64) -> bool {
        let Departure { stamp, access, .. } = departure;
        let (exit_ns, middle_ns) = (stamp.time_ns, access.time_ns);
        let is_in_segment = self.gap_ns == u64::MAX
            || middle_ns.wrapping_sub(exit_ns) <= self.gap_ns
                && entry_ns.wrapping_sub(middle_ns) <= self.gap_ns
                && stamp.cpu == self.cpu;
        let is_in_order =
            (self.last_ns <= exit_ns) & (exit_ns <= middle_ns) & (middle_ns <= entry_ns);
        if self.whereabouts != Whereabouts::Guest || !is_in_order || !is_in_segment {
            return false;
        }
        let Some(cells) = self.cells_of(departure) else { return false };
        self.last_ns = entry_ns;
        self.ended(cells, exit_ns, middle_ns, entry_ns);
        true
    }

    /// Takes the entry that ends a departure, under the same condition.
    #[inline(always)]
    pub fn entered(&mut self, stamp: &Stamp) -> bool {
        let Departed { exit_ns, middle_ns, cells, .. } = self.departed;
        let entry_ns = stamp.time_ns;
        let is_in_segment = self.gap_ns == u64::MAX
            || entry_ns.wrapping_sub(middle_ns) <= self.gap_ns && stamp.cpu == self.cpu;
        if self.whereabouts != Whereabouts::Departed || entry_ns < middle_ns || !is_in_segment {
            return false;
        }
        self.whereabouts = Whereabouts::Guest;
        self.last_ns = entry_ns;
        self.ended(cells, exit_ns, middle_ns, entry_ns);
        true
    }

    #[inline(always)]
    fn ended(&mut self, cells: TripCells, exit_ns: u64, middle_ns: u64, entry_ns: u64) {
        self.cells.at(cells.exit()).1.add(exit_ns, entry_ns);
        if let Some(access) = cells.access() {
            let (from, to) =
                if cells.is_read() { (exit_ns, middle_ns) } else { (middle_ns, entry_ns) };
            self.cells.at(access).1.add(from, to);
        }
    }

    /// Goes back from the short way: what departed is open, as if taken one by one.
    #[inline(always)]
    fn one_by_one(&mut self) {
        if self.whereabouts == Whereabouts::Departed {
            self.open_departed();
        }
    }

    #[inline(never)]
    fn open_departed(&mut self) {
        let Departed { exit_ns, middle_ns, cpu, cells } = self.departed;
        self.whereabouts = Whereabouts::Outside;
        let exit = self.cells.at(cells.exit()).0;
        let detail = exit.packed_detail();
        self.open.exit = Some(BegunExit { at_ns: exit_ns, cpu, reason: exit.reason(), detail });
        self.open.mmio = OpenMmio::Read { at_ns: exit_ns, cpu };
        let Some(access) = cells.access() else { return };
        let (key, cell) = self.cells.at(access);
        let begun = Begun { at_ns: middle_ns, cpu, key: *key };
        match key.view() {
            View::Mmio if cells.is_read() => {
                cell.add(exit_ns, middle_ns);
                self.open.mmio = OpenMmio::Nothing;
            }
            View::Mmio => self.open.mmio = OpenMmio::Write(begun),
            View::Ioport => self.open.port = Some(begun),
            View::Msr | View::Vmexit => self.open.msr = Some(begun),
        }
    }

    /// Which cells an exit counts in, unless something about it is special.
    #[inline(always)]
    fn cells_of(&mut self, departure: &Departure) -> Option<TripCells> {
        match self.known.find(departure) {
            Some(cells) => Some(cells),
            // A copy, so that the departure itself can stay in registers.
            None => self.learn(&{ *departure }),
        }
    }

    /// Finds out which cells a new kind of exit counts in.
    #[cold]
    fn learn(&mut self, departure: &Departure) -> Option<TripCells> {
        let mut detail = detail_of_exit(departure.exit);
        let refines = |detail: PackedDetail| {
            detail.is_unknown() || detail == PackedDetail::register(ICR_OFFSET, true)
        };
        let event = departure.access.event();
        let (key, inside) = match event {
            _ if departure.access.kind == AccessKind::None => (None, detail),
            Some(KvmEvent::Msr { is_write, index, value }) => {
                let key = Key::access(View::Msr, u64::from(index), is_write);
                (Some(key), detail_of_msr(index, is_write, value))
            }
            Some(KvmEvent::PortIo { is_write, port }) => {
                let key = Key::access(View::Ioport, u64::from(port), is_write);
                (Some(key), PackedDetail::port(port as u16, is_write))
            }
            Some(KvmEvent::Mmio { kind, address, value }) if kind != MmioKind::UnsatisfiedRead => {
                let is_write = kind == MmioKind::Write;
                let key = Key::access(View::Mmio, address, is_write);
                (Some(key), detail_of_mmio(address, is_write, value))
            }
            _ => return None,
        };
        if key.is_some() && refines(detail) {
            detail = inside;
        }
        let exit = Key::exit(departure.exit.reason, detail);
        let exit = self.cells.position(exit, Cell::default) as u32;
        let key = key.filter(|_| self.views.has_accesses);
        let access = key.map(|key| self.cells.position(key, Cell::default) as u32);
        let is_read = matches!(event, Some(KvmEvent::Mmio { kind: MmioKind::Read, .. }));
        let cells = TripCells::new(exit, access, is_read);
        self.known.insert(departure, cells);
        Some(cells)
    }

    /// Ends the segment where the thread may have been elsewhere since its latest event.
    #[inline]
    fn arrived(&mut self, stamp: &Stamp, done: &mut Segments) {
        if self.gap_ns == u64::MAX {
            // What comes in the order of time does so, or the recording is not what it seems.
            self.is_tangled |= stamp.time_ns < self.last_ns;
            self.first_ns = self.first_ns.min(stamp.time_ns);
            self.last_ns = self.last_ns.max(stamp.time_ns);
            return;
        }
        let is_silent = self.whereabouts != Whereabouts::Guest
            && stamp.time_ns.saturating_sub(self.last_ns) > self.gap_ns
            && self.cpu != NO_CPU;
        if stamp.cpu != self.cpu || stamp.time_ns < self.last_ns || is_silent {
            self.end_segment(done);
            self.cpu = stamp.cpu;
            self.first_ns = stamp.time_ns;
        }
        self.last_ns = stamp.time_ns;
    }

    pub const fn last_ns(&self) -> u64 {
        self.last_ns
    }

    /// Hands over what the neighbours of this stretch must know, and begins a new one.
    pub fn end_segment(&mut self, done: &mut Segments) {
        self.one_by_one();
        if self.head.is_empty() && !self.has_entered {
            return;
        }
        done.latest_ns = done.latest_ns.max(self.last_ns);
        let from = done.heads.len() as u32;
        done.heads.append(&mut self.head);
        done.segments.push(Segment {
            thread: self.number,
            process: self.process,
            first_ns: self.first_ns,
            last_ns: self.last_ns,
            head: (from, done.heads.len() as u32),
            has_entered: self.has_entered,
            whereabouts: self.whereabouts,
            open: std::mem::take(&mut self.open),
        });
        (self.has_entered, self.whereabouts, self.vcpu) = (false, Whereabouts::Outside, 0);
        (self.cpu, self.first_ns, self.last_ns) = (NO_CPU, u64::MAX, 0);
    }

    /// Appends the segment that follows. A thread that segments are joined to takes events in
    /// order.
    pub fn join(&mut self, segment: &Segment, heads: &[(Stamp, KvmEvent)], losses: &Losses) {
        if self.process == 0 {
            self.process = segment.process;
        }
        self.is_tangled |= segment.first_ns < self.last_ns;
        let mut none = Segments::default();
        for (stamp, event) in segment.head(heads) {
            self.event(stamp, event, losses, &mut none);
        }
        self.last_ns = self.last_ns.max(segment.last_ns);
        if segment.has_entered {
            (self.open, self.whereabouts) = (segment.open, segment.whereabouts);
        }
    }

    /// Adds what was counted elsewhere, whenever that was.
    pub fn absorb(&mut self, other: Self) {
        if self.process == 0 {
            self.process = other.process;
        }
        for (key, cell) in other.cells.into_entries() {
            self.cells.entry(key, Cell::default).join(&cell);
        }
        self.unpaired += other.unpaired;
        self.discarded += other.discarded;
        self.is_tangled |= other.is_tangled;
    }

    #[cold]
    fn before_first_entry(&mut self, stamp: Stamp, event: KvmEvent) {
        if let KvmEvent::Entry { vcpu } = event {
            self.has_entered = true;
            self.whereabouts = Whereabouts::Guest;
            self.vcpu = vcpu;
        }
        let is_paired = matches!(
            event,
            KvmEvent::Exit(_)
                | KvmEvent::Entry { .. }
                | KvmEvent::Msr { .. }
                | KvmEvent::PortIo { .. }
                | KvmEvent::Mmio { .. }
                | KvmEvent::Apic { .. }
                | KvmEvent::Hypercall { .. }
        );
        // The entry itself must not be dropped: it decides what came before.
        if is_paired && (self.head.len() < LONGEST_HEAD || self.has_entered) {
            self.head.push((stamp, event));
        }
    }

    fn end_accesses(&mut self, stamp: &Stamp, losses: &Losses) {
        if let OpenMmio::Write(begun) = self.open.mmio {
            self.end(begun, stamp, losses);
        }
        for begun in [self.open.port, self.open.msr].into_iter().flatten() {
            self.end(begun, stamp, losses);
        }
        self.open = Open::default();
    }

    #[inline]
    fn end(&mut self, begun: Begun, stamp: &Stamp, losses: &Losses) {
        let is_within = |cpu| losses.has_within(cpu, begun.at_ns, stamp.time_ns);
        let is_lossy = losses.has_moments() && (is_within(begun.cpu) || is_within(stamp.cpu));
        if stamp.time_ns < begun.at_ns || is_lossy {
            self.discarded += u64::from(begun.key.view() == View::Vmexit);
            return;
        }
        self.cells.entry(begun.key, Cell::default).add(begun.at_ns, stamp.time_ns);
    }

    /// A write lasts from its event to the entry or to a read that follows it; a read from the
    /// exit to its event, at which its value has arrived. A second read of one exit has no
    /// beginning of its own and is not timed.
    fn mmio(&mut self, stamp: &Stamp, kind: MmioKind, address: u64, value: u64, losses: &Losses) {
        let is_write = kind == MmioKind::Write;
        if kind == MmioKind::UnsatisfiedRead {
            return;
        }
        self.refine(|| detail_of_mmio(address, is_write, value));
        if !self.views.has_accesses {
            return;
        }
        let key = Key::access(View::Mmio, address, is_write);
        if is_write {
            let begun = Begun { at_ns: stamp.time_ns, cpu: stamp.cpu, key };
            self.open.mmio = OpenMmio::Write(begun);
            return;
        }
        match std::mem::take(&mut self.open.mmio) {
            OpenMmio::Nothing => {}
            OpenMmio::Read { at_ns, cpu } => self.end(Begun { at_ns, cpu, key }, stamp, losses),
            OpenMmio::Write(begun) => self.end(begun, stamp, losses),
        }
    }

    /// The first thing known about an exit stays, but for a write to the interrupt command
    /// register, of which the value tells more.
    #[inline]
    fn refine(&mut self, detail: impl FnOnce() -> PackedDetail) {
        if let Some(exit) = &mut self.open.exit
            && (exit.detail.is_unknown() || exit.detail == PackedDetail::register(ICR_OFFSET, true))
        {
            exit.detail = detail();
        }
    }
}

#[cfg(test)]
mod tests;
