//! A function behind the IOMMU: where its writes and its interrupts go.

use crate::program::{MAIN, assemble, configuration, image};
use arch::address::SystemPhysical;
use arch::amd_vi::{
    Control, DeviceTableEntry, GuestEntry, InterruptControl, InterruptHalf, TranslationHalf,
    register as at,
};
use arch::identity::{ApicId, CpuIndex};
use arch::time::Picoseconds;
use board::{Configuration, Images, Limits, Machine, server_iommu};
use bus::{Platform, Visit};
use device::map;
use device::pci::pulse::{REGISTERS_BAR, TABLE_BAR, register};
use trace::Event;

const DEVICE_TABLE: u64 = 0x20_0000;
const EVENTS: u64 = 0x21_0000;
const GUEST_LOG: u64 = 0x22_0000;
const REMAPPING_TABLE: u64 = 0x23_0000;
const BACKING_PAGE: u64 = 0x24_0000;
const TARGET: u64 = 0x25_0000;
const PULSES: u32 = 5;
/// Page fault.
const PAGE_FAULT: u8 = 2;

struct Bench(Machine);

impl Bench {
    /// Processors that sleep for ever, and a function whose messages mean `entry`.
    fn new(translation: TranslationHalf, entry: GuestEntry) -> Self {
        let plain = configuration();
        let iommu = server_iommu(&plain.model);
        let mut machine = Machine::new(&Configuration { iommu, has_pulse: true, ..plain })
            .expect("the machine is possible");
        let sleeper = assemble(MAIN, &|a| {
            a.cli()?;
            a.hlt()
        });
        let program = image(&[(MAIN, sleeper)]);
        let kernel = board::load::Source { name: "sleeper", bytes: &program };
        let images = Images { kernel, initrd: None, modules: &[], command_line: "" };
        machine.load(&images).expect("the program loads");
        machine.state.wiring.records = Some(Vec::new());
        let mut bench = Self(machine);
        bench.set_tables(translation, entry);
        bench.set_up_iommu();
        bench
    }

    fn store(&mut self, at: u64, value: u64) {
        let at = SystemPhysical(at);
        self.0.memory.write(at, &value.to_le_bytes()).expect("the machine has so much memory");
    }

    fn set_tables(&mut self, translation: TranslationHalf, entry: GuestEntry) {
        let interrupts = InterruptHalf::new()
            .with_is_valid(true)
            .with_control(InterruptControl::Remap)
            .with_table_length(9)
            .with_table(SystemPhysical(REMAPPING_TABLE));
        let device = DeviceTableEntry { translation, interrupts };
        let base = DEVICE_TABLE + u64::from(map::PULSE.requester().0) * 32;
        for (at, quadword) in (base..).step_by(8).zip(device.into_quadwords()) {
            self.store(at, quadword);
        }
        let entry = entry
            .with_is_enabled(true)
            .with_is_guest(true)
            .with_vector(0x45)
            .with_tag(0x1003)
            .with_backing_page(SystemPhysical(BACKING_PAGE));
        self.store(REMAPPING_TABLE, entry.into_bits() as u64);
        self.store(REMAPPING_TABLE + 8, (entry.into_bits() >> 64) as u64);
    }

    fn write(&mut self, address: u64, size: u8, value: u64) {
        let visit = Visit { cpu: CpuIndex(0), at: Picoseconds::ZERO };
        let wiring = &mut self.0.state.wiring;
        wiring.write(&mut self.0.memory, visit, SystemPhysical(address), size, value);
    }

    fn read(&mut self, address: u64, size: u8) -> u64 {
        let visit = Visit { cpu: CpuIndex(0), at: Picoseconds::ZERO };
        let wiring = &mut self.0.state.wiring;
        wiring.read(&mut self.0.memory, visit, SystemPhysical(address), size)
    }

    fn set_up_iommu(&mut self) {
        let control = Control::new()
            .with_is_enabled(true)
            .with_logs_events(true)
            .with_has_wide_remapping_entries(true)
            .with_guest_mode(Control::VIRTUAL_APIC)
            .with_logs_guest_interrupts(true);
        for (offset, value) in [
            (at::DEVICE_TABLE_BASE, DEVICE_TABLE | 15),
            (at::EVENT_BASE, EVENTS | 8 << 56),
            (at::GUEST_LOG_BASE, GUEST_LOG | 8 << 56),
            (at::CONTROL, control.into_bits()),
        ] {
            self.write(map::IOMMU.0 + offset, 8, value);
        }
    }

    fn region(&self, index: usize) -> u64 {
        let function = self.0.state.wiring.chipset.pci.function(map::PULSE);
        let mapped = function.and_then(|function| function.configuration.mapped(index));
        mapped.expect("the region is where firmware put it")
    }

    /// Lets the function send its pulses; gives what happened meanwhile.
    fn pulses(&mut self) -> Vec<Event> {
        let configuration = map::PULSE.in_window(map::ECAM).0;
        self.write(configuration + 4, 2, 6);
        self.write(configuration + 0x42, 2, 0x8000);
        let table = self.region(TABLE_BAR);
        for (offset, value) in [(0, 0xFEE0_0000), (4, 0), (8, 0), (12, 0)] {
            self.write(table + offset, 4, value);
        }
        let registers = self.region(REGISTERS_BAR);
        for (offset, value) in [
            (register::PERIOD_NS, 1_000),
            (register::COUNT, PULSES.into()),
            (register::ADDRESS, TARGET),
            (register::CONTROL, 1),
        ] {
            self.write(registers + offset, 4, value);
        }
        let until = Picoseconds::from_milliseconds(1);
        self.0.run(Limits { until, instructions: u64::MAX });
        let records = self.0.state.wiring.records.take().expect("they are collected");
        records.into_iter().map(|record| record.event).collect()
    }
}

fn passes() -> TranslationHalf {
    TranslationHalf::new()
        .with_is_valid(true)
        .with_has_translation(true)
        .with_is_readable(true)
        .with_is_writable(true)
}

fn count(events: &[Event], is: impl Fn(&Event) -> bool) -> u32 {
    events.iter().filter(|event| is(event)).count() as u32
}

fn posts(events: &[Event]) -> u32 {
    let place = SystemPhysical(BACKING_PAGE);
    count(events, |event| matches!(event, Event::Posted { place: at, .. } if *at == place))
}

#[test]
fn interrupts_for_a_sleeper_are_in_its_page_and_in_the_log() {
    let mut bench = Bench::new(passes(), GuestEntry::new().with_logs(true));
    let events = bench.pulses();
    let logged = count(&events, |event| matches!(event, Event::GuestLogged { tag: 0x1003, .. }));
    let doorbells = count(&events, |event| matches!(event, Event::Doorbell { .. }));
    assert_eq!((posts(&events), logged, doorbells), (PULSES, PULSES, 0));
    assert_eq!(bench.read(map::IOMMU.0 + at::GUEST_LOG_TAIL, 8), u64::from(PULSES) * 8);
    // IRR of vector 45h.
    let request = bench.0.memory.read_u32(SystemPhysical(BACKING_PAGE + 0x220));
    assert_eq!(request, Ok(1 << 5));
    assert_eq!(bench.0.memory.read_u64(SystemPhysical(TARGET)), Ok(PULSES.into()));
}

#[test]
fn interrupts_for_a_running_virtual_processor_ring_its_core() {
    let running = GuestEntry::new().with_is_running(true).with_destination(ApicId(1));
    let events = Bench::new(passes(), running).pulses();
    let is_for_1 =
        |event: &Event| matches!(event, Event::Doorbell { target } if *target == ApicId(1));
    let logged = count(&events, |event| matches!(event, Event::GuestLogged { .. }));
    assert_eq!((posts(&events), count(&events, is_for_1), logged), (PULSES, PULSES, 0));
}

#[test]
fn a_write_without_a_page_is_refused_and_logged_under_its_function() {
    let nothing = passes().with_levels(3).with_root(SystemPhysical(TARGET));
    let mut bench = Bench::new(nothing, GuestEntry::new());
    let events = bench.pulses();
    let of_pulse = map::PULSE.requester();
    let is_fault = |event: &Event| matches!(event, Event::IommuEvent { requester, kind: PAGE_FAULT, .. } if *requester == of_pulse);
    assert_eq!((count(&events, is_fault), posts(&events)), (PULSES, 0));
    let registers = bench.region(REGISTERS_BAR);
    assert_eq!(bench.read(registers + register::REFUSED, 4), PULSES.into());
    assert_eq!(bench.read(map::IOMMU.0 + at::EVENT_TAIL, 8), u64::from(PULSES) * 16);
}
