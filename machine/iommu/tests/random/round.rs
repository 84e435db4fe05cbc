//! A round: an IOMMU with tables as a kernel leaves them, then registers, commands, changed tables,
//! accesses and interrupts at random. What it cannot be is a panic, a posting without an end, an
//! answer that says both yes and no, or a refusal that a log with room does not have.

use arch::address::{Device, SystemPhysical};
use arch::amd_vi::register as amd;
use arch::amd_vi::{
    Control, DeviceTableEntry, ExtendedFeatures, GuestEntry, InterruptControl, InterruptHalf,
    PageEntry, Status, TranslationHalf,
};
use arch::identity::RequesterId;
use arch::msi::MessageSignalled;
use arch::vt_d::register as intel;
use arch::vt_d::{
    ContextEntry, FaultRecord, GlobalCommand, PostedEntry, SecondLevelEntry, TranslationType,
};
use bus::{GuestMemory, Random};
use iommu::{Access, Iommu, Part, PostingStep, Refusal, Remapped, Signal, amd_vi, vt_d};
use virtual_apic::SharedMemory;

const MEMORY: u64 = 1 << 20;
/// AMD's device table, Intel's root table.
const FUNCTIONS: u64 = 0x1_0000;
/// Intel's context table.
const CONTEXTS: u64 = 0x1_1000;
/// AMD's commands, Intel's descriptors.
const COMMANDS: u64 = 0x2_0000;
const EVENTS: u64 = 0x3_0000;
const GUEST_LOG: u64 = 0x4_0000;
const REMAPPING_TABLE: u64 = 0x5_0000;
/// Backing pages and descriptors of vCPUs.
const GUESTS: u64 = 0x6_0000;
/// Page tables of three levels, a page each.
const TABLES: u64 = 0x7_0000;
/// Where tables that are worth changing begin and end.
const KNOWN: (u64, u64) = (FUNCTIONS, TABLES + 0x3000);
/// Requester identifiers that have entries.
const REQUESTERS: u64 = 16;
const STEPS: u32 = 100;
/// More steps than any posting has.
const POSTING_STEPS: u32 = 16;
/// Intel's only fault record.
const RECORD: u64 = 0x220;

/// What happened in a round, to see that rounds are worth their time.
#[derive(Clone, Copy, Debug, Default)]
pub struct Seen {
    pub translated: u32,
    pub refused: u32,
    pub remapped: u32,
    pub posted: u32,
    /// Refusals that were found in a log or a record.
    pub logged: u32,
}

impl Seen {
    pub fn add(&mut self, other: Self) {
        self.translated += other.translated;
        self.refused += other.refused;
        self.remapped += other.remapped;
        self.posted += other.posted;
        self.logged += other.logged;
    }
}

/// Numbers that are given, then random ones.
struct Numbers<'a> {
    given: &'a [u8],
    random: Random,
}

impl Numbers<'_> {
    fn next(&mut self) -> u64 {
        match self.given.split_first_chunk() {
            Some((first, rest)) => {
                self.given = rest;
                u64::from_le_bytes(*first)
            }
            None => self.random.next(),
        }
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    /// Places in memory, bits by themselves, small numbers, and anything.
    fn value(&mut self) -> u64 {
        let next = self.next();
        match self.below(5) {
            0 => next % (MEMORY >> 12) << 12 | next >> 60,
            1 => 1 << (next % 64),
            2 => next % 0x1000,
            3 => u64::MAX << (next % 64),
            _ => next,
        }
    }
}

struct Bench<'a> {
    iommu: Iommu,
    signals: Vec<Signal>,
    memory: GuestMemory,
    numbers: Numbers<'a>,
    seen: Seen,
}

/// A server's of Zen 4.
const ZEN_4: ExtendedFeatures = ExtendedFeatures::from_bits(0x25BF_732F_A229_5AFE);

/// A round on AMD's IOMMU.
pub fn of_amd_vi(seed: u64, given: &[u8]) -> Seen {
    let part = amd_vi::Model::of(ZEN_4, RequesterId(2));
    Bench::new(Part::AmdVi(part), seed, given, Bench::set_up_amd_vi).run()
}

/// A round on Intel's remapping unit.
pub fn of_vt_d(seed: u64, given: &[u8]) -> Seen {
    Bench::new(Part::VtD(vt_d::Model::server(true)), seed, given, Bench::set_up_vt_d).run()
}

impl<'a> Bench<'a> {
    fn new(part: Part, seed: u64, given: &'a [u8], set_up: fn(&mut Self)) -> Self {
        let mut bench = Self {
            iommu: Iommu::new(part.into()),
            signals: Vec::new(),
            memory: GuestMemory::new(MEMORY),
            numbers: Numbers { given, random: Random(seed) },
            seen: Seen::default(),
        };
        set_up(&mut bench);
        bench.signals.clear();
        bench
    }

    fn write(&mut self, offset: u64, size: u8, value: u64) {
        let outcome = self.iommu.write(&mut self.memory, offset, size, value);
        self.signals.extend(outcome.signals);
    }

    fn store(&mut self, at: u64, value: u64) {
        SharedMemory::write_u64(&mut self.memory, SystemPhysical(at), value);
    }

    fn load(&self, at: u64) -> u64 {
        self.memory.read_u64(SystemPhysical(at)).expect("it is in memory")
    }

    fn store_wide(&mut self, at: u64, value: u128) {
        self.store(at, value as u64);
        self.store(at + 8, (value >> 64) as u64);
    }

    fn set_up_amd_vi(&mut self) {
        let table = |level: u8, at: u64| {
            let entry = PageEntry::new().with_is_present(true).with_next_level(level);
            entry.with_is_readable(true).with_is_writable(true).with_address(at).into_bits()
        };
        self.store(TABLES, table(2, TABLES + 0x1000));
        self.store(TABLES + 0x1000, table(1, TABLES + 0x2000));
        (0..64).for_each(|page| self.store(TABLES + 0x2000 + page * 8, table(0, page << 12)));
        let translation = TranslationHalf::new()
            .with_is_valid(true)
            .with_has_translation(true)
            .with_levels(3)
            .with_root(SystemPhysical(TABLES))
            .with_is_readable(true)
            .with_is_writable(true)
            .with_domain(7);
        let interrupts = InterruptHalf::new()
            .with_is_valid(true)
            .with_control(InterruptControl::Remap)
            .with_table_length(9)
            .with_table(SystemPhysical(REMAPPING_TABLE));
        let entry = DeviceTableEntry { translation, interrupts }.into_quadwords();
        for function in 0..REQUESTERS {
            for (at, quadword) in (0..).step_by(8).zip(entry) {
                self.store(FUNCTIONS + function * 32 + at, quadword);
            }
        }
        for index in 0..256 {
            let entry = GuestEntry::new()
                .with_is_enabled(true)
                .with_is_guest(true)
                .with_is_running(index & 1 != 0)
                .with_logs(index & 2 != 0)
                .with_vector(index as u8)
                .with_backing_page(SystemPhysical(GUESTS + (index & 3) * 0x1000));
            // Every fourth is a plain interrupt.
            let plain = u128::from(index) << 64 | 1;
            let entry = if index % 4 == 0 { plain } else { entry.into_bits() };
            self.store_wide(REMAPPING_TABLE + index * 16, entry);
        }
        self.write(amd::DEVICE_TABLE_BASE, 8, FUNCTIONS);
        self.write(amd::COMMAND_BASE, 8, COMMANDS | 8 << 56);
        self.write(amd::EVENT_BASE, 8, EVENTS | 8 << 56);
        self.write(amd::GUEST_LOG_BASE, 8, GUEST_LOG | 8 << 56);
        self.write(amd::CONTROL, 8, running().into_bits());
    }

    fn set_up_vt_d(&mut self) {
        let table = |at: u64| {
            let entry = SecondLevelEntry::new().with_is_readable(true).with_is_writable(true);
            entry.with_frame(at >> 12).into_bits()
        };
        self.store(TABLES, table(TABLES + 0x1000));
        self.store(TABLES + 0x1000, table(TABLES + 0x2000));
        (0..64).for_each(|page| self.store(TABLES + 0x2000 + page * 8, table(page << 12)));
        self.store(FUNCTIONS, CONTEXTS | 1);
        let context = ContextEntry::new()
            .with_is_present(true)
            .with_kind(TranslationType::Untranslated)
            .with_frame(TABLES >> 12)
            .with_width(1)
            .with_domain(5);
        (0..REQUESTERS).for_each(|one| self.store_wide(CONTEXTS + one * 16, context.into_bits()));
        for index in 0..256 {
            let entry = PostedEntry::new()
                .with_is_present(true)
                .with_is_posted(true)
                .with_is_urgent(index & 2 != 0)
                .with_vector(index as u8)
                .with_descriptor(SystemPhysical(GUESTS + (index & 3) * 64));
            // Every fourth is a plain interrupt.
            let plain = u128::from(index) << 16 | 1;
            let entry = if index % 4 == 0 { plain } else { entry.into_bits() };
            self.store_wide(REMAPPING_TABLE + index * 16, entry);
        }
        self.write(intel::ROOT_TABLE_ADDRESS, 8, FUNCTIONS);
        self.write(intel::REMAPPING_TABLE_ADDRESS, 8, REMAPPING_TABLE | 1 << 11 | 7);
        self.write(intel::QUEUE_ADDRESS, 8, COMMANDS);
        self.write(intel::GLOBAL_COMMAND, 4, all().bits().into());
    }

    fn run(mut self) -> Seen {
        for _ in 0..STEPS {
            self.step();
            // A command of a ring each, and one for what stopped it.
            assert!(std::mem::take(&mut self.signals).len() <= 32_769);
        }
        self.seen
    }

    fn step(&mut self) {
        match self.numbers.below(16) {
            0 => {
                let (at, size) = (self.numbers.below(0x400), 1 << self.numbers.below(4));
                let value = self.numbers.value();
                self.write(at, size, value);
                self.iommu.read(at, size);
            }
            1 => self.toggle(),
            2 | 3 => self.change_table(),
            4 | 5 => self.command(),
            6 => self.make_room(),
            7..12 => self.access(),
            _ => self.interrupt(),
        }
    }

    /// A bit of what the IOMMU is to do.
    fn toggle(&mut self) {
        let bit = self.numbers.next();
        match &self.iommu {
            Iommu::AmdVi(_) => {
                self.write(amd::CONTROL, 8, running().into_bits() ^ 1 << (bit % 64));
            }
            Iommu::VtD(_) => {
                let value = u64::from(all().bits()) ^ 1 << (bit % 32);
                self.write(intel::GLOBAL_COMMAND, 4, value);
            }
        }
    }

    /// A bit or all of a quadword of a table.
    fn change_table(&mut self) {
        let at = KNOWN.0 + self.numbers.below((KNOWN.1 - KNOWN.0) / 8) * 8;
        // Entries lie where tables begin.
        let at = if self.numbers.below(4) != 0 { at & !0xF000 } else { at };
        let old = self.load(at);
        let is_flip = self.numbers.below(2) == 0;
        let value = self.numbers.value();
        self.store(at, if is_flip { old ^ 1 << (value % 64) } else { value });
    }

    /// A command or a descriptor behind the last, of a kind that exists more often than not.
    fn command(&mut self) {
        let (low, high) = (self.numbers.value(), self.numbers.value());
        let kind = self.numbers.below(16);
        let (tail, low) = match &self.iommu {
            Iommu::AmdVi(_) => (amd::COMMAND_TAIL, low & !(0xF << 60) | kind << 60),
            Iommu::VtD(_) => (intel::QUEUE_TAIL, low & !0xF | kind),
        };
        let at = self.iommu.read(tail, 8) & 0xFF0;
        self.store(COMMANDS + at, low);
        self.store(COMMANDS + at + 8, high);
        self.write(tail, 8, (at + 16) & 0xFFF);
    }

    /// As a driver does that has read the log.
    fn make_room(&mut self) {
        match &self.iommu {
            Iommu::AmdVi(_) => {
                let tail = self.iommu.read(amd::EVENT_TAIL, 8);
                self.write(amd::EVENT_HEAD, 8, tail);
                self.write(amd::STATUS, 8, u64::MAX);
                let stopped = running().with_logs_events(false);
                self.write(amd::CONTROL, 8, stopped.into_bits());
                self.write(amd::CONTROL, 8, running().into_bits());
            }
            Iommu::VtD(_) => {
                self.write(RECORD + 12, 4, 1 << 31);
                self.write(intel::FAULT_STATUS, 4, 0x73);
            }
        }
    }

    fn access(&mut self) {
        let requester = RequesterId(self.numbers.below(REQUESTERS + 1) as u16);
        let access = if self.numbers.below(2) == 0 { Access::Read } else { Access::Write };
        let is_near = self.numbers.below(4) != 0;
        let value = self.numbers.value();
        let address = Device(if is_near { value % 0x5_0000 } else { value });
        self.signals.clear();
        let before = self.log();
        let outcome = self.iommu.translate(&mut self.memory, requester, address, access);
        self.signals.extend(outcome.signals);
        let found = outcome.result;
        let refusals = self.refusals();
        match found {
            Ok(found) => {
                self.seen.translated += 1;
                assert!(found.length > 0, "{address:?} leads to no byte");
                assert!(refusals.is_empty(), "{address:?} is answered and refused: {refusals:?}");
            }
            Err(_) => self.seen.refused += 1,
        }
        self.check_log(before, &refusals);
    }

    fn interrupt(&mut self) {
        let requester = RequesterId(self.numbers.below(REQUESTERS + 1) as u16);
        let (index, other) = (self.numbers.below(320), self.numbers.next());
        let message = match &self.iommu {
            Iommu::AmdVi(_) => {
                let kind = if other.is_multiple_of(16) { other >> 8 & 0x700 } else { 0 };
                MessageSignalled { address: Device(0xFEE0_0000), data: (index | kind) as u32 }
            }
            Iommu::VtD(_) => {
                let legacy = u64::from(!other.is_multiple_of(16)) << 4;
                let address = Device(0xFEE0_0000 | index << 5 | legacy);
                MessageSignalled { address, data: 0 }
            }
        };
        self.signals.clear();
        let before = self.log();
        let outcome = self.iommu.remap(&mut self.memory, requester, message);
        self.signals.extend(outcome.signals);
        let remapped = outcome.result;
        if remapped == Remapped::Aborted {
            let refusals = self.refusals();
            self.seen.refused += 1;
            self.check_log(before, &refusals);
            return;
        }
        self.seen.remapped += 1;
        let Remapped::Posting(mut posting) = remapped else { return };
        self.seen.posted += 1;
        let mut step = || {
            let outcome = posting.step(&mut self.iommu, &mut self.memory);
            self.signals.extend(outcome.signals);
            outcome.result
        };
        let is_over = (0..POSTING_STEPS).any(|_| step() == PostingStep::Complete);
        assert!(is_over, "a posting has no end");
    }

    fn refusals(&mut self) -> Vec<Refusal> {
        let of = |signal| match signal {
            Signal::Refused(refusal) => Some(refusal),
            _ => None,
        };
        std::mem::take(&mut self.signals).into_iter().filter_map(of).collect()
    }

    /// Where the next refusal goes; nothing if it goes nowhere.
    fn log(&self) -> Option<u64> {
        match &self.iommu {
            Iommu::AmdVi(_) => {
                let status = Status::from_bits_retain(self.iommu.read(amd::STATUS, 8) as u32);
                let base = self.iommu.read(amd::EVENT_BASE, 8);
                let (head, tail) =
                    (self.iommu.read(amd::EVENT_HEAD, 8), self.iommu.read(amd::EVENT_TAIL, 8));
                let is_usual = base == EVENTS | 8 << 56 && head < 0x1000 && tail < 0x1000;
                let is_full = (tail + 16) & 0xFFF == head;
                let runs = status.contains(Status::EVENT_LOG_RUN);
                (runs && is_usual && !is_full).then_some(EVENTS + tail)
            }
            Iommu::VtD(_) => {
                let has_overflowed = self.iommu.read(intel::FAULT_STATUS, 4) & 1 != 0;
                let is_valid = self.iommu.read(RECORD + 8, 8) >> 63 != 0;
                (!has_overflowed && !is_valid).then_some(RECORD)
            }
        }
    }

    /// A refusal is where it was to go.
    fn check_log(&mut self, place: Option<u64>, refusals: &[Refusal]) {
        let (Some(place), [refusal]) = (place, refusals) else { return };
        match *refusal {
            Refusal::AmdVi(event) => {
                let found = [self.load(place), self.load(place + 8)];
                assert_eq!(found, event.into_quadwords(), "the event log has another event");
            }
            Refusal::VtD { requester, reason, .. } => {
                let half = |at| u128::from(self.iommu.read(RECORD + at, 8));
                let record = FaultRecord::from_bits(half(8) << 64 | half(0));
                // The context entry may say that it is not to be.
                if !record.is_valid() {
                    assert!(reason.is_qualified(), "{reason:?} is not recorded");
                    return;
                }
                assert_eq!((record.source(), record.reason()), (requester.0, reason as u8));
            }
        }
        self.seen.logged += 1;
    }
}

fn running() -> Control {
    Control::new()
        .with_is_enabled(true)
        .with_logs_events(true)
        .with_interrupts_for_events(true)
        .with_processes_commands(true)
        .with_has_wide_remapping_entries(true)
        .with_guest_mode(Control::VIRTUAL_APIC)
        .with_logs_guest_interrupts(true)
        .with_interrupts_for_guest_log(true)
        .with_has_x2apic_destinations(true)
}

fn all() -> GlobalCommand {
    GlobalCommand::TRANSLATION_ENABLE
        | GlobalCommand::QUEUE_ENABLE
        | GlobalCommand::REMAPPING_ENABLE
        | GlobalCommand::SET_ROOT_TABLE
        | GlobalCommand::SET_REMAPPING_TABLE
}
