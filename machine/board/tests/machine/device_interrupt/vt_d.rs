//! Through Intel's.

use super::{Bench, PULSES, TARGET, count, posts};
use arch::address::SystemPhysical;
use arch::identity::Vector;
use arch::vmx::apicv::NotificationControl;
use arch::vt_d::{
    ContextEntry, FaultReason, GlobalCommand, PostedEntry, RootEntry, SourceCheck, TranslationType,
    register as at,
};
use device::map;
use device::pulse::{REGISTERS_BAR, register};
use trace::Event;

const ROOT: u64 = 0x20_0000;
const CONTEXTS: u64 = 0x21_0000;
const REMAPPING_TABLE: u64 = 0x23_0000;
const DESCRIPTOR: u64 = 0x24_0000;
const NOTIFICATION: Vector = Vector(0xF2);
/// In remappable format, with handle 0.
const MESSAGE: u64 = 0xFEE0_0010;

/// A server where the function's messages are posted into a descriptor with this control.
fn server(context: ContextEntry, control: NotificationControl) -> Bench {
    let mut bench = Bench::new("skylake-sp");
    let own = u64::from(map::PULSE.requester().0);
    let root = RootEntry::from_bits(u128::from(CONTEXTS | 1));
    bench.store_wide(ROOT, root.into_bits());
    bench.store_wide(CONTEXTS + own * 16, context.into_bits());
    let source = SourceCheck::new().with_source(map::PULSE.requester().0).with_kind(1);
    let entry = PostedEntry::new()
        .with_is_present(true)
        .with_is_posted(true)
        .with_vector(0x45)
        .with_source(source.into_bits())
        .with_descriptor(SystemPhysical(DESCRIPTOR));
    bench.store_wide(REMAPPING_TABLE, entry.into_bits());
    bench.store(DESCRIPTOR + 32, control.into_bits());
    let levels = GlobalCommand::TRANSLATION_ENABLE | GlobalCommand::REMAPPING_ENABLE;
    let command = levels | GlobalCommand::SET_ROOT_TABLE | GlobalCommand::SET_REMAPPING_TABLE;
    for (offset, size, value) in [
        (at::ROOT_TABLE_ADDRESS, 8, ROOT),
        (at::REMAPPING_TABLE_ADDRESS, 8, REMAPPING_TABLE | 7),
        (at::GLOBAL_COMMAND, 4, command.bits().into()),
    ] {
        bench.write(map::IOMMU.0 + offset, size, value);
    }
    bench
}

fn passes() -> ContextEntry {
    ContextEntry::new()
        .with_is_present(true)
        .with_kind(TranslationType::PassThrough)
        .with_width(2)
        .with_domain(1)
}

/// To the only processor that is not asleep without interrupts, APIC 0.
fn control() -> NotificationControl {
    NotificationControl::new().with_vector(NOTIFICATION.0)
}

fn notifications(events: &[Event]) -> u32 {
    let is = |event: &Event| matches!(event, Event::InterruptAccepted { vector, .. } if *vector == NOTIFICATION);
    count(events, is)
}

#[test]
fn interrupts_are_in_the_descriptor_and_notified_once_until_it_is_read() {
    let mut bench = server(passes(), control());
    let events = bench.pulses(MESSAGE);
    assert_eq!((posts(&events, DESCRIPTOR), notifications(&events)), (PULSES, 1));
    // PIR of vector 45h.
    assert_eq!(bench.load(DESCRIPTOR + 8), 1 << 5);
    let control = NotificationControl::from_bits(bench.load(DESCRIPTOR + 32));
    assert!(control.is_outstanding());
    assert_eq!(bench.load(TARGET), PULSES.into());
}

#[test]
fn interrupts_for_a_suppressed_descriptor_wait_in_it() {
    let mut bench = server(passes(), control().with_is_suppressed(true));
    let events = bench.pulses(MESSAGE);
    assert_eq!((posts(&events, DESCRIPTOR), notifications(&events)), (PULSES, 0));
    assert_eq!(bench.load(DESCRIPTOR + 8), 1 << 5);
}

#[test]
fn a_write_without_a_page_is_refused_and_recorded_under_its_function() {
    let context = passes().with_kind(TranslationType::Untranslated).with_frame(TARGET >> 12);
    let mut bench = server(context, control());
    let events = bench.pulses(MESSAGE);
    let of_pulse = map::PULSE.requester();
    let refused = FaultReason::WriteRefused as u8;
    let is_fault = |event: &Event| {
        matches!(event, Event::RemappingFault { requester, reason, .. }
            if *requester == of_pulse && *reason == refused)
    };
    assert_eq!((count(&events, is_fault), posts(&events, DESCRIPTOR)), (PULSES, 0));
    let registers = bench.region(REGISTERS_BAR);
    assert_eq!(bench.read(registers + register::REFUSED, 4), PULSES.into());
    let status = bench.read(map::IOMMU.0 + at::FAULT_STATUS, 4);
    // Pending, and more than the only record holds.
    assert_eq!(status & 3, 3);
}
