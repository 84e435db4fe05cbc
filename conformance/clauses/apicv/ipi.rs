//! IPI virtualization: the table, its checks, and what is posted. [SDM3 "IPI Virtualization"]

use crate::machine::{
    LAST_INDEX, Memory, NOTIFICATION, TABLE, X2APIC, XAPIC, apicv, control, descriptor, is_posted,
    memory_with_table, register, set_control, set_pointer,
};
use arch::address::SystemPhysical;
use arch::identity::Vector;
use arch::vmx::apicv::{NotificationControl, PidPointer};
use virtual_apic::SharedMemory;
use virtual_apic::apicv::{ApicvExit, IpiOutcome, IpiSend, IpiStep, Notification};

const EXIT: IpiOutcome = IpiOutcome::Exit(ApicvExit::ApicWrite(0x300));

fn send(memory: &mut Memory, vector: u8, target: u32) -> (IpiOutcome, Vec<Notification>) {
    let mut sent = Vec::new();
    let outcome = IpiSend::new(Vector(vector), target).run(&apicv(XAPIC), memory, |n| sent.push(n));
    (outcome, sent)
}

#[test]
fn each_legal_vector_is_posted_to_each_target_with_one_notification() {
    for target in 0..=u32::from(LAST_INDEX) {
        for vector in 0..=255 {
            let mut memory = memory_with_table();
            let before = memory.clone();
            let (outcome, sent) = send(&mut memory, vector, target);
            if vector < 16 {
                assert_eq!((outcome, sent.len()), (EXIT, 0), "{vector:#x}");
                assert_eq!(memory, before);
                continue;
            }
            assert_eq!(outcome, IpiOutcome::Posted);
            assert!(is_posted(&memory, target as u16, vector));
            assert!(control(&memory, target as u16).is_outstanding());
            let [notification] = sent[..] else { panic!("{sent:?}") };
            let message = notification.message(false);
            assert_eq!((message.vector, message.destination), (NOTIFICATION, target));
        }
    }
}

#[test]
fn a_target_beyond_the_last_index_exits_and_broadcast_ids_are_targets_like_others() {
    for target in [u32::from(LAST_INDEX) + 1, 0xFF, 0x100, 0xFFFF, 0x1_0000, 0xFFFF_FFFF] {
        let mut memory = memory_with_table();
        // Entry 0, to which 1_0000h cut to sixteen bits would point, is legal.
        let before = memory.clone();
        assert_eq!(send(&mut memory, 0x31, target), (EXIT, vec![]), "{target:#x}");
        assert_eq!(memory, before);
    }
}

#[test]
fn an_entry_that_is_invalid_reserved_or_too_far_exits() {
    for bit in 0..64 {
        let mut memory = memory_with_table();
        let legal = PidPointer::new().with_is_valid(true).with_descriptor(descriptor(3));
        set_pointer(&mut memory, 3, PidPointer::from_bits(legal.into_bits() ^ 1 << bit));
        let before = memory.clone();
        let (outcome, sent) = send(&mut memory, 0x31, 3);
        // Bits 45:6 are the address of another descriptor.
        if (6..46).contains(&bit) {
            assert_eq!((outcome, sent.len()), (IpiOutcome::Posted, 1), "{bit}");
            assert!(!is_posted(&memory, 3, 0x31), "{bit}");
        } else {
            assert_eq!((outcome, sent), (EXIT, vec![]), "{bit}");
            assert_eq!(memory, before);
        }
    }
}

#[test]
fn the_request_precedes_on_which_precedes_the_notification() {
    let mut memory = memory_with_table();
    let apicv = apicv(XAPIC);
    let mut ipi = IpiSend::new(Vector(0x31), 2);
    assert_eq!(ipi.step(&apicv, &mut memory), IpiStep::Continue);
    assert!(!is_posted(&memory, 2, 0x31), "the entry is read");
    assert_eq!(ipi.step(&apicv, &mut memory), IpiStep::Continue);
    assert!(is_posted(&memory, 2, 0x31) && !control(&memory, 2).is_outstanding());
    assert_eq!(ipi.step(&apicv, &mut memory), IpiStep::Continue);
    assert!(control(&memory, 2).is_outstanding());
    assert!(matches!(ipi.step(&apicv, &mut memory), IpiStep::Notify(_)));
    assert_eq!(ipi.step(&apicv, &mut memory), IpiStep::Complete(IpiOutcome::Posted));
}

#[test]
fn nobody_is_notified_while_outstanding_or_suppressed() {
    for (is_outstanding, is_suppressed) in [(true, false), (false, true), (true, true)] {
        let mut memory = memory_with_table();
        let to = control(&memory, 1)
            .with_is_outstanding(is_outstanding)
            .with_is_suppressed(is_suppressed);
        set_control(&mut memory, 1, to);
        assert_eq!(send(&mut memory, 0x31, 1), (IpiOutcome::Posted, vec![]));
        assert!(is_posted(&memory, 1, 0x31));
        assert_eq!(control(&memory, 1), to);
    }
}

#[test]
fn an_ipi_to_the_senders_own_id_is_posted_like_any_other() {
    let mut memory = memory_with_table();
    let (outcome, sent) = send(&mut memory, 0x31, 0);
    assert_eq!((outcome, sent.len()), (IpiOutcome::Posted, 1));
    assert!(is_posted(&memory, 0, 0x31));
}

#[test]
fn a_table_may_begin_anywhere_that_is_aligned() {
    let mut memory = memory_with_table();
    let mut apicv = apicv(XAPIC);
    apicv.pid_pointers.base = SystemPhysical(TABLE + 8);
    let outcome = IpiSend::new(Vector(0x31), 4).run(&apicv, &mut memory, |_| {});
    assert_eq!(outcome, IpiOutcome::Posted);
    assert!(is_posted(&memory, 5, 0x31));
}

#[test]
fn senduipi_posts_to_the_apic_that_the_receivers_descriptor_names() {
    for (is_x2apic, destination) in [(true, 3), (false, 3 << 8)] {
        let mut memory = memory_with_table();
        let controls = if is_x2apic { X2APIC } else { XAPIC };
        let receiver = NotificationControl::new().with_vector(0x66).with_destination(destination);
        let ipi = IpiSend::of_user_interrupt(receiver, is_x2apic);
        let outcome = ipi.run(&apicv(controls), &mut memory, |_| {});
        assert_eq!(outcome, IpiOutcome::Posted);
        assert!(is_posted(&memory, 3, 0x66));
        assert_eq!(register(&memory, 0x300), 0, "the ICR is left alone");
    }
}

#[test]
fn senduipi_that_is_not_virtualized_exits_with_its_command_in_the_page() {
    let target = u32::from(LAST_INDEX) + 1;
    let x2apic = (X2APIC, true, target, [0x66, target, 0]);
    let xapic = (XAPIC, false, target << 8, [0x66, 0, target << 24]);
    for (controls, is_x2apic, destination, stored) in [x2apic, xapic] {
        let mut memory = memory_with_table();
        let receiver = NotificationControl::new().with_vector(0x66).with_destination(destination);
        let ipi = IpiSend::of_user_interrupt(receiver, is_x2apic);
        assert_eq!(ipi.run(&apicv(controls), &mut memory, |_| {}), EXIT);
        assert_eq!([0x300, 0x304, 0x310].map(|offset| register(&memory, offset)), stored);
    }
}

#[test]
fn an_entry_in_a_hole_of_memory_exits() {
    struct Hole;
    impl SharedMemory for Hole {
        fn read_u32(&self, _: SystemPhysical) -> u32 {
            !0
        }
        fn read_u64(&self, _: SystemPhysical) -> u64 {
            !0
        }
        fn write_u32(&mut self, _: SystemPhysical, _: u32) {}
        fn write_u64(&mut self, _: SystemPhysical, _: u64) {}
    }
    let ipi = IpiSend::new(Vector(0x31), 0);
    assert_eq!(ipi.run(&apicv(XAPIC), &mut Hole, |_| {}), EXIT);
}
