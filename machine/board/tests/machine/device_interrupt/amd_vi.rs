//! Through AMD's.

use super::{Bench, PULSES, TARGET, count, posts};
use arch::address::SystemPhysical;
use arch::amd_vi::{
    Control, DeviceTableEntry, GuestEntry, InterruptControl, InterruptHalf, TranslationHalf,
    register as at,
};
use arch::identity::ApicId;
use arch::time::Picoseconds;
use device::map;
use device::pulse::{REGISTERS_BAR, register};
use iommu::Behaviour;
use trace::Event;

const DEVICE_TABLE: u64 = 0x20_0000;
const EVENTS: u64 = 0x21_0000;
const GUEST_LOG: u64 = 0x22_0000;
const REMAPPING_TABLE: u64 = 0x23_0000;
const BACKING_PAGE: u64 = 0x24_0000;
/// The data of a message is the index of its entry.
const MESSAGE: u64 = 0xFEE0_0000;
/// Page fault.
const PAGE_FAULT: u8 = 2;

/// A server where the function's messages mean `entry`.
fn server(translation: TranslationHalf, entry: GuestEntry) -> Bench {
    set_up_as(Bench::new("zen4"), translation, entry)
}

fn set_up_as(mut bench: Bench, translation: TranslationHalf, entry: GuestEntry) -> Bench {
    set_tables(&mut bench, translation, entry);
    set_up(&mut bench);
    bench
}

fn set_tables(bench: &mut Bench, translation: TranslationHalf, entry: GuestEntry) {
    let interrupts = InterruptHalf::new()
        .with_is_valid(true)
        .with_control(InterruptControl::Remap)
        .with_table_length(9)
        .with_table(SystemPhysical(REMAPPING_TABLE));
    let device = DeviceTableEntry { translation, interrupts };
    let base = DEVICE_TABLE + u64::from(map::PULSE.requester().0) * 32;
    for (at, quadword) in (base..).step_by(8).zip(device.into_quadwords()) {
        bench.store(at, quadword);
    }
    let entry = entry
        .with_is_enabled(true)
        .with_is_guest(true)
        .with_vector(0x45)
        .with_tag(0x1003)
        .with_backing_page(SystemPhysical(BACKING_PAGE));
    bench.store_wide(REMAPPING_TABLE, entry.into_bits());
}

fn set_up(bench: &mut Bench) {
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
        bench.write(map::IOMMU.0 + offset, 8, value);
    }
}

fn passes() -> TranslationHalf {
    TranslationHalf::new()
        .with_is_valid(true)
        .with_has_translation(true)
        .with_is_readable(true)
        .with_is_writable(true)
}

#[test]
fn interrupts_for_a_sleeper_are_in_its_page_and_in_the_log() {
    let mut bench = server(passes(), GuestEntry::new().with_logs(true));
    let events = bench.pulses(MESSAGE);
    let logged = count(&events, |event| matches!(event, Event::GuestLogged { tag: 0x1003, .. }));
    let doorbells = count(&events, |event| matches!(event, Event::Doorbell { .. }));
    assert_eq!((posts(&events, BACKING_PAGE), logged, doorbells), (PULSES, PULSES, 0));
    assert_eq!(bench.read(map::IOMMU.0 + at::GUEST_LOG_TAIL, 8), u64::from(PULSES) * 8);
    // IRR of vector 45h.
    let request = bench.0.memory.read_u32(SystemPhysical(BACKING_PAGE + 0x220));
    assert_eq!(request, Ok(1 << 5));
    assert_eq!(bench.0.memory.read_u64(SystemPhysical(TARGET)), Ok(PULSES.into()));
}

#[test]
fn interrupts_for_a_running_virtual_processor_ring_its_core() {
    let running = GuestEntry::new().with_is_running(true).with_destination(ApicId(1));
    let events = server(passes(), running).pulses(MESSAGE);
    let is_for_1 =
        |event: &Event| matches!(event, Event::Doorbell { target } if *target == ApicId(1));
    let logged = count(&events, |event| matches!(event, Event::GuestLogged { .. }));
    assert_eq!(
        (posts(&events, BACKING_PAGE), count(&events, is_for_1), logged),
        (PULSES, PULSES, 0)
    );
}

#[test]
fn a_write_without_a_page_is_refused_and_logged_under_its_function() {
    let nothing = passes().with_levels(3).with_root(SystemPhysical(TARGET));
    let mut bench = server(nothing, GuestEntry::new());
    let events = bench.pulses(MESSAGE);
    let of_pulse = map::PULSE.requester();
    let is_fault = |event: &Event| matches!(event, Event::IommuEvent { requester, kind: PAGE_FAULT, .. } if *requester == of_pulse);
    assert_eq!((count(&events, is_fault), posts(&events, BACKING_PAGE)), (PULSES, 0));
    let registers = bench.region(REGISTERS_BAR);
    assert_eq!(bench.read(registers + register::REFUSED, 4), PULSES.into());
    assert_eq!(bench.read(map::IOMMU.0 + at::EVENT_TAIL, 8), u64::from(PULSES) * 16);
}

#[test]
fn steps_of_a_posting_are_apart_if_that_is_wanted() {
    let posting_step = Picoseconds::from_nanoseconds(50);
    let apart = Bench::with("zen4", Behaviour { posting_step, ..Behaviour::default() });
    let mut bench = set_up_as(apart, passes(), GuestEntry::new().with_logs(true));
    let events = bench.pulses(MESSAGE);
    let when = |is: fn(&Event) -> bool| -> Vec<Picoseconds> {
        let times = events.iter().zip(&bench.1).filter(|(event, _)| is(event));
        times.map(|(_, at)| *at).collect()
    };
    let sent = when(|event| matches!(event, Event::MessageSignalled { .. }));
    let posted = when(|event| matches!(event, Event::Posted { .. }));
    let logged = when(|event| matches!(event, Event::GuestLogged { .. }));
    // The request is set first, IsRun is read second, and the log is written third.
    let later = |by: u64| -> Vec<Picoseconds> {
        sent.iter().map(|at| *at + Picoseconds::from_nanoseconds(50 * by)).collect()
    };
    assert_eq!((posted, logged), (later(1), later(3)));
    assert_eq!(sent.len(), PULSES as usize);
}
