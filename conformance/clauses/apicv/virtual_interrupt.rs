//! Priorities, evaluation and delivery of virtual interrupts.
//! [SDM3 "Virtual APIC State"] [SDM3 "Evaluation and Delivery of Virtual Interrupts"]

use crate::machine::{
    Memory, XAPIC, apicv, contains, control_sets, insert, register, set_register,
};
use arch::identity::Vector;
use arch::vmx::ExitReason;
use interrupt::page::Bank;
use virtual_apic::apicv::{Apicv, ApicvControls, ApicvExit};

/// Both ends of priority classes.
const EDGES: [u8; 10] = [0, 0x01, 0x0F, 0x10, 0x2F, 0x30, 0x3F, 0x80, 0xEF, 0xF0];

/// A guest with these vectors requested and in service, at this task priority.
fn guest(task: u8, requests: &[u8], in_service: &[u8]) -> (Memory, Apicv) {
    let (mut memory, mut apicv) = (Memory::default(), apicv(XAPIC));
    set_register(&mut memory, 0x080, task.into());
    for &vector in requests {
        insert(&mut memory, Bank::Request, vector);
    }
    for &vector in in_service {
        insert(&mut memory, Bank::InService, vector);
    }
    apicv.status.set_requesting(requests.iter().copied().max().unwrap_or(0));
    apicv.status.set_servicing(in_service.iter().copied().max().unwrap_or(0));
    (memory, apicv)
}

#[test]
fn entry_computes_the_processor_priority_and_recognizes_what_exceeds_its_class() {
    for task in 0..=255u8 {
        for (requested, serviced) in EDGES.into_iter().flat_map(|r| EDGES.map(|s| (r, s))) {
            for exits_at_interrupt_window in [false, true] {
                let (mut memory, mut apicv) = guest(task, &[requested], &[serviced]);
                apicv.controls.exits_at_interrupt_window = exits_at_interrupt_window;
                assert_eq!(apicv.enter(&mut memory), None);
                let priority = if task / 16 >= serviced / 16 { task } else { serviced / 16 * 16 };
                assert_eq!(register(&memory, 0x0A0), priority.into());
                let is_recognized = !exits_at_interrupt_window && requested / 16 > priority / 16;
                assert_eq!(apicv.is_recognized, is_recognized, "{task} {requested} {serviced}");
                assert_eq!(apicv.has_deliverable(), is_recognized);
            }
        }
    }
}

#[test]
fn delivery_moves_the_request_into_service_and_finds_the_next() {
    for (requests, next) in [(&[0x51][..], 0), (&[0x51, 0x33][..], 0x33), (&[0x51, 0x50][..], 0x50)]
    {
        let (mut memory, mut apicv) = guest(0, requests, &[0x22]);
        apicv.enter(&mut memory);
        assert!(apicv.has_deliverable());
        assert_eq!(apicv.deliver(&mut memory), Vector(0x51));
        assert!(contains(&memory, Bank::InService, 0x51));
        assert!(!contains(&memory, Bank::Request, 0x51));
        assert_eq!((apicv.status.servicing(), apicv.status.requesting()), (0x51, next));
        assert_eq!(register(&memory, 0x0A0), 0x50);
        assert!(!apicv.is_recognized);
    }
}

#[test]
fn recognition_stays_whatever_happens_to_priorities_until_the_next_evaluation() {
    let (mut memory, mut apicv) = guest(0, &[0x51], &[]);
    apicv.enter(&mut memory);
    // Another agent, or the guest through an alias, changes the page.
    set_register(&mut memory, 0x080, 0xF0);
    set_register(&mut memory, 0x0A0, 0xF0);
    assert!(apicv.has_deliverable());
    assert_eq!(apicv.virtualize_task_priority(&mut memory), None);
    assert!(!apicv.has_deliverable());
    set_register(&mut memory, 0x0A0, 0);
    assert!(!apicv.has_deliverable());
}

#[test]
fn entry_does_not_inherit_recognition() {
    let (mut memory, mut apicv) = guest(0, &[0x51], &[]);
    apicv.enter(&mut memory);
    set_register(&mut memory, 0x080, 0x50);
    apicv.enter(&mut memory);
    assert!(!apicv.is_recognized);
}

#[test]
fn an_eoi_ends_the_highest_interrupt_and_lets_others_through() {
    // (in service, requested, in service after, priority after, recognized)
    for (in_service, requested, left, priority, is_recognized) in [
        (&[0x31u8][..], 0x31, 0, 0x00, true),
        (&[0x31, 0x52][..], 0x42, 0x31, 0x30, true),
        (&[0x31, 0x52][..], 0x3F, 0x31, 0x30, false),
        (&[0x31, 0x52, 0x53][..], 0x62, 0x52, 0x50, true),
        (&[][..], 0x20, 0, 0x00, true),
    ] {
        let (mut memory, mut apicv) = guest(0, &[requested], in_service);
        assert_eq!(apicv.virtualize_eoi(&mut memory), None);
        let highest = in_service.iter().copied().max().unwrap_or(0);
        assert!(!contains(&memory, Bank::InService, highest));
        assert_eq!(apicv.status.servicing(), left);
        assert_eq!(register(&memory, 0x0A0), priority);
        assert_eq!(apicv.is_recognized, is_recognized, "{in_service:?} {requested:#x}");
    }
}

#[test]
fn an_eoi_exits_for_the_vector_that_ended_and_evaluates_nothing() {
    for exits in 0..=255u8 {
        let (mut memory, mut apicv) = guest(0, &[0x41], &[0x31, 0x52]);
        apicv.eoi_exits.insert(Vector(exits));
        let exit = apicv.virtualize_eoi(&mut memory);
        let is_exit = exits == 0x52;
        let expected = is_exit.then_some(ApicvExit::VirtualizedEoi(Vector(0x52)));
        assert_eq!(exit, expected);
        assert_eq!(apicv.status.servicing(), 0x31, "the state is that after the end");
        assert_eq!(register(&memory, 0x0A0), 0x30);
        assert_eq!(apicv.is_recognized, !is_exit);
        if let Some(exit) = exit {
            let reported = (exit.reason(), exit.qualification());
            assert_eq!(reported, (ExitReason::VirtualizedEoi, 0x52));
        }
    }
}

#[test]
fn an_ipi_to_itself_raises_the_request_and_never_lowers_it() {
    for (before, vector, after) in [(0, 0x31, 0x31), (0x31, 0x52, 0x52), (0x52, 0x31, 0x52)] {
        let (mut memory, mut apicv) = guest(0, &[before], &[]);
        apicv.virtualize_self_ipi(&mut memory, Vector(vector));
        assert!(contains(&memory, Bank::Request, vector));
        assert_eq!(apicv.status.requesting(), after);
        assert!(apicv.is_recognized);
    }
}

#[test]
fn an_ipi_to_itself_is_not_recognized_at_a_window_or_below_the_priority() {
    for (exits_at_interrupt_window, task, is_recognized) in
        [(false, 0x20, true), (true, 0x20, false), (false, 0x30, false)]
    {
        let (mut memory, mut apicv) = guest(task, &[], &[]);
        apicv.enter(&mut memory);
        apicv.controls.exits_at_interrupt_window = exits_at_interrupt_window;
        apicv.virtualize_self_ipi(&mut memory, Vector(0x31));
        assert_eq!(apicv.is_recognized, is_recognized);
        assert!(contains(&memory, Bank::Request, 0x31), "requested all the same");
    }
}

#[test]
fn cr8_is_bits_7_to_4_of_the_task_priority() {
    for class in 0..16u8 {
        let (mut memory, mut apicv) = guest(0, &[0x81], &[]);
        set_register(&mut memory, 0x080, 0xFFFF_FFFF);
        assert_eq!(apicv.read_cr8(&mut memory), 15);
        assert_eq!(apicv.write_cr8(&mut memory, class), None);
        assert_eq!(register(&memory, 0x080), u32::from(class) * 16);
        assert_eq!(apicv.read_cr8(&mut memory), class);
        assert_eq!(apicv.is_recognized, class < 8);
    }
}

#[test]
fn a_task_priority_below_the_threshold_exits_only_without_virtual_interrupt_delivery() {
    for delivers_interrupts in [false, true] {
        for (threshold, class) in (0..16u8).flat_map(|t| (0..16u8).map(move |c| (t, c))) {
            let (mut memory, mut apicv) = guest(0, &[], &[]);
            apicv.controls.delivers_interrupts = delivers_interrupts;
            apicv.tpr_threshold = threshold;
            let exit = apicv.write_cr8(&mut memory, class);
            let is_exit = !delivers_interrupts && class < threshold;
            assert_eq!(exit, is_exit.then_some(ApicvExit::TprBelowThreshold));
            assert_eq!(register(&memory, 0x080), u32::from(class) * 16, "trap-like");
        }
    }
}

#[test]
fn entry_looks_at_the_threshold_where_accesses_are_virtualized_without_delivery() {
    for controls in control_sets() {
        for (class, threshold) in [(3, 3), (2, 3), (0, 0), (0, 1)] {
            let (mut memory, mut apicv) = guest(class * 16 + 15, &[], &[]);
            apicv.controls = controls;
            apicv.tpr_threshold = threshold;
            let is_exit = controls.uses_tpr_shadow
                && controls.virtualizes_accesses
                && !controls.delivers_interrupts
                && class < threshold;
            let expected = is_exit.then_some(ApicvExit::TprBelowThreshold);
            assert_eq!(apicv.enter(&mut memory), expected, "{controls:?}");
        }
    }
}

#[test]
fn without_delivery_entry_leaves_the_processor_priority_alone() {
    let (mut memory, mut apicv) = guest(0x40, &[0x51], &[]);
    apicv.controls = ApicvControls { delivers_interrupts: false, ..XAPIC };
    set_register(&mut memory, 0x0A0, 0x77);
    apicv.enter(&mut memory);
    assert_eq!(register(&memory, 0x0A0), 0x77);
    assert!(!apicv.is_recognized);
}
