//! Registers in x2APIC mode: what can be written, what sticks, priorities and ends.

use crate::oracle::*;
use arch::apic::{DeliveryMode, DestinationMode, InterruptMessage, Lvt, Register};
use arch::identity::Vector;

fn pair() -> Option<Pair> {
    let mut pair = Pair::new(&[0], WIDE_IDS)?;
    pair.enter_x2apic_mode(0);
    Some(pair)
}

fn fixed(vector: u8, is_level: bool) -> InterruptMessage {
    InterruptMessage {
        destination: 0,
        destination_mode: DestinationMode::Physical,
        delivery_mode: DeliveryMode::Fixed,
        vector: Vector(vector),
        is_level,
        is_asserted: true,
        is_x2apic: true,
    }
}

#[test]
fn values_after_reset() {
    let Some(mut pair) = pair() else { return };
    for msr in [0x802, 0x808, 0x80A, 0x80D, 0x80F, 0x828, 0x830, 0x832, 0x834, 0x836, 0x837] {
        let ours = pair.ours[0].read_msr(msr, NOW).ok();
        assert_eq!(ours, pair.msr(0, msr), "MSR {msr:x}");
    }
}

#[test]
fn what_sticks_of_each_legal_bit() {
    let Some(mut pair) = pair() else { return };
    // Left out: the initial count, which starts KVM's timer on KVM's clock, and the read-only
    // status bits of local vectors, which KVM stores as written.
    for msr in [0x808, 0x80F, 0x832, 0x833, 0x834, 0x835, 0x836, 0x837, 0x83E] {
        for bit in 0..32 {
            let value = 1u64 << bit | if msr == 0x80F { 0x100 } else { 0 };
            let is_status =
                (0x832..=0x837).contains(&msr) && value & u64::from(Lvt::READ_ONLY) != 0;
            if is_status {
                continue;
            }
            if pair.ours[0].write_msr(msr, value, NOW, &mut Vec::new()).is_err() {
                continue;
            }
            assert!(pair.set_msr(0, msr, value), "KVM refuses {value:x} to {msr:x}");
            let ours = pair.ours[0].read_msr(msr, NOW).ok();
            assert_eq!(ours, pair.msr(0, msr), "{value:x} to {msr:x}");
        }
    }
}

#[test]
fn processor_priority_over_task_priorities_and_classes_in_service() {
    let Some(mut pair) = pair() else { return };
    for in_service in [None, Some(0x1F), Some(0x31), Some(0x80), Some(0xFF)] {
        if let Some(vector) = in_service {
            pair.write(0, Register::TaskPriority, 0);
            pair.ours[0].accept(&fixed(vector, false));
            assert_eq!(pair.ours[0].acknowledge(), Vector(vector));
            pair.copy_to_kvm(0);
        }
        for task in 0..=255 {
            pair.write(0, Register::TaskPriority, task);
            let ours = pair.ours[0].read_msr(0x80A, NOW).ok();
            assert_eq!(ours, pair.msr(0, 0x80A), "TPR {task:x} serving {in_service:x?}");
        }
    }
}

#[test]
fn ends_of_nested_interrupts() {
    let Some(mut pair) = pair() else { return };
    for (vector, is_level) in [(0x21, true), (0x43, false), (0x65, true), (0x87, false)] {
        pair.ours[0].accept(&fixed(vector, is_level));
        pair.ours[0].acknowledge();
    }
    pair.copy_to_kvm(0);
    for end in 0..6 {
        pair.write(0, Register::EndOfInterrupt, 0);
        pair.compare_vectors(&format!("after {end} and one more ends"));
        let ours = pair.ours[0].read_msr(0x80A, NOW).ok();
        assert_eq!(ours, pair.msr(0, 0x80A));
    }
}
