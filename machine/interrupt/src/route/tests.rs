use super::*;
use crate::{LocalApic, LocalApicModel};
use arch::apic::{ApicBase, DestinationMode};
use arch::identity::{ApicId, Vector};
use arch::time::Picoseconds;

const NOW: Picoseconds = Picoseconds::ZERO;

fn enabled(id: u32) -> LocalApic {
    let mut apic = LocalApic::new(LocalApicModel::intel(ApicId(id), id == 0));
    apic.write_mmio(0xF0, 4, 0x1FF, NOW, &mut Vec::new());
    apic.write_mmio(0xD0, 4, 1 << (24 + id % 8), NOW, &mut Vec::new());
    apic
}

fn physical(destination: u32, delivery_mode: DeliveryMode) -> InterruptMessage {
    InterruptMessage {
        destination,
        destination_mode: DestinationMode::Physical,
        delivery_mode,
        vector: Vector(0x31),
        is_level: false,
        is_asserted: true,
        is_x2apic: false,
    }
}

fn check(
    apics: &[LocalApic],
    message: InterruptMessage,
    scope: Scope,
    sender: Option<u16>,
    expected: &[u16],
) {
    let mut into = vec![CpuIndex(99)];
    targets(&message, scope, sender.map(CpuIndex), apics, &mut into);
    let expected: Vec<_> = expected.iter().map(|index| CpuIndex(*index)).collect();
    assert_eq!(into, expected, "{message:?} {scope:?} from {sender:?}");
}

#[test]
fn shorthands_ignore_the_destination() {
    let apics: Vec<_> = (0..4).map(enabled).collect();
    let message = physical(3, DeliveryMode::Fixed);
    for (scope, sender, expected) in [
        (Scope::Destination, Some(1), &[3][..]),
        (Scope::Destination, None, &[3]),
        (Scope::SelfOnly, Some(1), &[1]),
        (Scope::All, Some(1), &[0, 1, 2, 3]),
        (Scope::AllButSelf, Some(1), &[0, 2, 3]),
        (Scope::SelfOnly, None, &[]),
        (Scope::All, None, &[]),
        (Scope::AllButSelf, None, &[]),
    ] {
        check(&apics, message, scope, sender, expected);
    }
}

#[test]
fn destinations_can_include_the_sender() {
    let apics: Vec<_> = (0..4).map(enabled).collect();
    check(&apics, physical(0xFF, DeliveryMode::Fixed), Scope::Destination, Some(1), &[0, 1, 2, 3]);
    let logical = InterruptMessage {
        destination_mode: DestinationMode::Logical,
        ..physical(0b1010, DeliveryMode::Fixed)
    };
    check(&apics, logical, Scope::Destination, Some(1), &[1, 3]);
}

#[test]
fn aliased_identifiers_all_receive() {
    let apics = [enabled(0), enabled(5), enabled(5)];
    check(&apics, physical(5, DeliveryMode::Fixed), Scope::Destination, None, &[1, 2]);
}

#[test]
fn lowest_priority_has_one_target_the_first_among_equals() {
    let mut apics: Vec<_> = (0..4).map(enabled).collect();
    let message = physical(0xFF, DeliveryMode::LowestPriority);
    for (priorities, expected) in [
        ([0, 0, 0, 0], 0),
        ([0x20, 0, 0x10, 0], 1),
        ([0x20, 0x30, 0x10, 0x11], 2),
        ([0x40, 0x30, 0x20, 0x10], 3),
    ] {
        for (apic, priority) in apics.iter_mut().zip(priorities) {
            apic.set_task_priority(priority);
        }
        check(&apics, message, Scope::Destination, None, &[expected]);
    }
    check(&apics, physical(9, DeliveryMode::LowestPriority), Scope::Destination, None, &[]);
}

#[test]
fn disabled_apics_are_in_no_shorthand() {
    let mut apics: Vec<_> = (0..3).map(enabled).collect();
    apics[1].write_mmio(0xF0, 4, 0xFF, NOW, &mut Vec::new());
    apics[2].write_base(ApicBase::RESET_ADDRESS, NOW, 48).unwrap();
    for (mode, expected) in [
        (DeliveryMode::Fixed, &[0][..]),
        (DeliveryMode::LowestPriority, &[0]),
        (DeliveryMode::Nmi, &[0, 1]),
        (DeliveryMode::Smi, &[0, 1]),
        (DeliveryMode::Init, &[0, 1]),
        (DeliveryMode::Startup, &[0, 1]),
    ] {
        check(&apics, physical(0xFF, mode), Scope::All, Some(0), expected);
        check(&apics, physical(0xFF, mode), Scope::Destination, Some(0), expected);
    }
}
