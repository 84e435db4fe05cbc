//! One vCPU thread: which exit belongs to which entry.
//!
//! An exit lasts from `kvm_exit` to the next `kvm_entry` of the same thread; what happens between
//! (an MSR, a port, a memory-mapped access, a write to the software APIC) says what it was about.
//! The rules, and where `perf kvm stat` differs, are written down in `docs/exits/pairing.md`.
//!
//! A thread's events before its first entry are kept as they are (the head), because only the
//! part of the recording that comes before knows which exit that entry ends.

use crate::cell::Cell;
use crate::key::{Key, PackedDetail, View};
use crate::table::Table;
use serde::{Deserialize, Serialize};
use trace::exit_reason::{Isa, svm, vmx};
use trace::kvm::{Exit, KvmEvent, MmioKind, Stamp};

/// Events a thread may bring before its first entry; a vCPU has a handful, other threads of a
/// damaged recording might go on for ever.
const LONGEST_HEAD: usize = 4096;

/// Stands for the CPU of a thread that has not been seen.
const NO_CPU: u32 = u32::MAX;

/// Page of the local APIC, where every guest known leaves it. [SDM3 "Local APIC"]
const APIC_PAGE: u64 = 0xfee0_0000;
const ICR_OFFSET: u16 = 0x300;
/// Registers of the x2APIC. [X2APIC "x2APIC Register Address Space"]
const X2APIC_FIRST: u32 = 0x800;
const X2APIC_LAST: u32 = 0x8ff;
const X2APIC_ICR: u32 = 0x830;

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

/// Where a recording lost events: nothing that spans such a moment on its CPU can be trusted.
#[derive(Clone, Debug, Default)]
pub struct Losses {
    /// Host CPU and the time at which the loss was noticed.
    pub moments: Vec<(u32, u64)>,
    pub events: u64,
}

/// Losses remembered one by one; with more, the oldest are forgotten, far behind what is open.
const MOST_MOMENTS: usize = 4096;

impl Losses {
    pub fn add(&mut self, cpu: u32, at_ns: u64, events: u64) {
        self.events += events;
        self.moments.push((cpu, at_ns));
        if self.moments.len() > MOST_MOMENTS {
            self.moments.drain(..MOST_MOMENTS / 2);
        }
    }

    fn between(&self, begun_cpu: u32, begun_ns: u64, stamp: &Stamp) -> bool {
        self.moments.iter().any(|&(cpu, at_ns)| {
            (cpu == begun_cpu || cpu == stamp.cpu) && begun_ns < at_ns && at_ns <= stamp.time_ns
        })
    }
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

/// One vCPU thread of one part of a recording.
#[derive(Clone, Debug)]
pub struct Thread {
    views: Views,
    pub process: u32,
    /// The number in the first entry seen.
    pub vcpu: u32,
    pub has_entered: bool,
    head: Vec<(Stamp, KvmEvent)>,
    open: Open,
    pub cells: Table<Key, Cell>,
    /// Exits followed by another exit, and those thrown away for a loss or a clock that ran back.
    pub unpaired: u64,
    pub discarded: u64,
    /// Host CPUs of the first and the latest event, and whether there were others or times ran
    /// back: a recording of several buffers has such a thread's events out of order.
    first_cpu: Option<u32>,
    latest_cpu: u32,
    pub has_moved: bool,
}

impl Thread {
    pub fn new(process: u32, views: Views) -> Self {
        Self {
            views,
            process,
            vcpu: 0,
            has_entered: false,
            head: Vec::new(),
            open: Open::default(),
            cells: Table::default(),
            unpaired: 0,
            discarded: 0,
            first_cpu: None,
            latest_cpu: NO_CPU,
            has_moved: false,
        }
    }

    /// Takes one event of this thread, in order of time.
    pub fn event(&mut self, stamp: &Stamp, event: &KvmEvent, losses: &Losses) {
        match *event {
            KvmEvent::Exit(exit) => return self.exit(*stamp, exit),
            KvmEvent::Entry { vcpu } => return self.entry(*stamp, vcpu, losses),
            KvmEvent::Msr { is_write, index, value } => {
                return self.msr(*stamp, is_write, index, value);
            }
            _ => self.was_on(stamp.cpu),
        }
        if !self.has_entered {
            return self.before_first_entry(*stamp, *event);
        }
        match *event {
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
            KvmEvent::Apic { is_write, register, value } => {
                self.refine(|| detail_of_register(register as u16, is_write, value, false));
            }
            _ => {}
        }
    }

    #[inline(always)]
    pub fn exit(&mut self, stamp: Stamp, exit: Exit) {
        self.was_on(stamp.cpu);
        if !self.has_entered {
            return self.before_first_entry(stamp, KvmEvent::Exit(exit));
        }
        self.unpaired += u64::from(self.open.exit.is_some());
        let detail = detail_of_exit(exit);
        self.open.exit =
            Some(BegunExit { at_ns: stamp.time_ns, cpu: stamp.cpu, reason: exit.reason, detail });
        // Until a memory-mapped read completes, the exit itself is its beginning.
        self.open.mmio = OpenMmio::Read { at_ns: stamp.time_ns, cpu: stamp.cpu };
    }

    #[inline(always)]
    pub fn entry(&mut self, stamp: Stamp, vcpu: u32, losses: &Losses) {
        self.was_on(stamp.cpu);
        if !self.has_entered {
            return self.before_first_entry(stamp, KvmEvent::Entry { vcpu });
        }
        if let Some(exit) = self.open.exit.take() {
            let key = Key::exit(exit.reason, exit.detail);
            self.end(Begun { at_ns: exit.at_ns, cpu: exit.cpu, key }, &stamp, losses);
        }
        if self.views.has_accesses {
            self.end_accesses(&stamp, losses);
        }
    }

    #[inline(always)]
    pub fn msr(&mut self, stamp: Stamp, is_write: bool, index: u32, value: u64) {
        self.was_on(stamp.cpu);
        if !self.has_entered {
            let event = KvmEvent::Msr { is_write, index, value };
            return self.before_first_entry(stamp, event);
        }
        self.refine(|| detail_of_msr(index, is_write, value));
        if self.views.has_accesses {
            let key = Key::access(View::Msr, u64::from(index), is_write);
            self.open.msr = Some(Begun { at_ns: stamp.time_ns, cpu: stamp.cpu, key });
        }
    }

    #[inline(always)]
    fn was_on(&mut self, cpu: u32) {
        if cpu != self.latest_cpu {
            self.moved_to(cpu);
        }
    }

    #[cold]
    fn moved_to(&mut self, cpu: u32) {
        self.has_moved |= self.first_cpu.is_some();
        self.first_cpu.get_or_insert(cpu);
        self.latest_cpu = cpu;
    }

    #[cold]
    fn before_first_entry(&mut self, stamp: Stamp, event: KvmEvent) {
        if let KvmEvent::Entry { vcpu } = event {
            self.has_entered = true;
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
        let is_lossy = !losses.moments.is_empty() && losses.between(begun.cpu, begun.at_ns, stamp);
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

    /// Appends what the same thread did in the next part.
    pub fn join(&mut self, later: Self, losses: &Losses) {
        if self.process == 0 {
            self.process = later.process;
        }
        self.has_moved |= later.has_moved
            || later
                .first_cpu
                .is_some_and(|cpu| self.first_cpu.is_some() && cpu != self.latest_cpu);
        for (stamp, event) in &later.head {
            self.event(stamp, event, losses);
        }
        if later.first_cpu.is_some() {
            self.first_cpu = self.first_cpu.or(later.first_cpu);
            self.latest_cpu = later.latest_cpu;
        }
        if later.has_entered {
            self.open = later.open;
        }
        for (key, cell) in later.cells.iter() {
            self.cells.entry(*key, Cell::default).join(cell);
        }
        self.unpaired += later.unpaired;
        self.discarded += later.discarded;
    }
}

#[inline]
fn detail_of_exit(exit: Exit) -> PackedDetail {
    let Exit { isa, reason, info1, info2, interruption } = exit;
    match Isa::from_number(isa) {
        Some(Isa::Svm) => detail_of_svm_exit(reason, info1, info2),
        Some(Isa::Vmx) => detail_of_vmx_exit(reason, info1, interruption),
        None => PackedDetail::UNKNOWN,
    }
}

/// [APM2 "SVM Intercept Exit Codes"] [APM2 "AVIC Exits"]
#[inline]
fn detail_of_svm_exit(reason: u32, info1: u64, info2: u64) -> PackedDetail {
    match reason {
        svm::NESTED_PAGE_FAULT if info2 & !0xfff == APIC_PAGE => {
            PackedDetail::register((info2 & 0xff0) as u16, info1 & 2 != 0)
        }
        svm::IO => PackedDetail::port((info1 >> 16) as u16, info1 & 1 == 0),
        svm::AVIC_INCOMPLETE_IPI => PackedDetail::incomplete_ipi((info2 >> 32) as u32),
        svm::AVIC_UNACCELERATED_ACCESS => {
            PackedDetail::register((info1 & 0xff0) as u16, info1 >> 32 & 1 != 0)
        }
        _ => PackedDetail::UNKNOWN,
    }
}

/// [SDM3 "Basic VM-Exit Information"]
#[inline]
fn detail_of_vmx_exit(reason: u32, info1: u64, interruption: u32) -> PackedDetail {
    match reason & 0xffff {
        vmx::EXTERNAL_INTERRUPT if interruption >> 31 != 0 => {
            PackedDetail::vector(interruption as u8)
        }
        vmx::IO_INSTRUCTION => PackedDetail::port((info1 >> 16) as u16, info1 & 8 == 0),
        vmx::APIC_WRITE => PackedDetail::register((info1 & 0xff0) as u16, true),
        vmx::APIC_ACCESS => PackedDetail::register((info1 & 0xff0) as u16, info1 >> 12 & 0xf == 1),
        vmx::EOI_INDUCED => PackedDetail::vector(info1 as u8),
        _ => PackedDetail::UNKNOWN,
    }
}

fn detail_of_msr(index: u32, is_write: bool, value: u64) -> PackedDetail {
    match index {
        X2APIC_ICR if is_write => PackedDetail::icr(value as u32, true),
        X2APIC_FIRST..=X2APIC_LAST => {
            PackedDetail::register(((index - X2APIC_FIRST) << 4) as u16, is_write)
        }
        _ => PackedDetail::msr(index, is_write),
    }
}

fn detail_of_mmio(address: u64, is_write: bool, value: u64) -> PackedDetail {
    if address & !0xfff != APIC_PAGE {
        return PackedDetail::OTHER_MMIO;
    }
    detail_of_register((address & 0xff0) as u16, is_write, value, false)
}

fn detail_of_register(offset: u16, is_write: bool, value: u64, is_x2apic: bool) -> PackedDetail {
    if offset == ICR_OFFSET && is_write {
        PackedDetail::icr(value as u32, is_x2apic)
    } else {
        PackedDetail::register(offset, is_write)
    }
}

#[cfg(test)]
mod tests;
