//! Evaluation, delivery, priorities and EOI. [APM2 "Virtual Interrupt Delivery"]

use crate::machine::{Memory, avic, memory, page};
use arch::identity::{ApicId, Vector};
use arch::svm::avic::{NoAcceleration, register};
use interrupt::page::Bank;
use virtual_apic::avic::AvicMode::{X2apic, Xapic};
use virtual_apic::avic::{
    Avic, DoorbellReception, EndOfInterrupt, PriorityThreshold, WriteOutcome,
};

fn request(memory: &mut Memory, vectors: &[u8]) {
    for &vector in vectors {
        page(0).insert(memory, Bank::Request, vector);
    }
}

fn ppr(memory: &Memory) -> u32 {
    page(0).register(memory, register::PROCESSOR_PRIORITY)
}

#[test]
fn the_highest_request_above_the_priority_is_deliverable() {
    // Requests, in service, V_TPR, deliverable.
    type Row = (&'static [u8], &'static [u8], u8, Option<u8>);
    let rows: &[Row] = &[
        (&[], &[], 0, None),
        (&[0x31], &[], 0, Some(0x31)),
        (&[0x31, 0x80, 0x7F], &[], 0, Some(0x80)),
        (&[0xFF, 0x10], &[], 0, Some(0xFF)),
        // The class must be greater, not equal.
        (&[0x3F], &[], 3, None),
        (&[0x40], &[], 3, Some(0x40)),
        (&[0x3F], &[0x31], 0, None),
        (&[0x40], &[0x31], 0, Some(0x40)),
        (&[0x45], &[0x31], 4, None),
        (&[0x55], &[0x31, 0x61], 4, None),
        (&[0xFF], &[], 15, None),
    ];
    for &(requests, in_service, task_priority, expected) in rows {
        let mut memory = memory(Xapic, &[]);
        for &vector in in_service {
            page(0).insert(&mut memory, Bank::InService, vector);
        }
        request(&mut memory, requests);
        let mut avic = avic(Xapic);
        avic.write_task_priority(&mut memory, task_priority << 4);
        assert_eq!(avic.deliverable(&mut memory), expected.map(Vector), "{requests:x?}");
    }
}

#[test]
fn delivery_moves_the_vector_from_irr_to_isr_and_raises_ppr() {
    let mut memory = memory(Xapic, &[]);
    let avic = avic(Xapic);
    request(&mut memory, &[0x31, 0x52]);
    avic.accept(&mut memory, Vector(0x52));
    assert!(!page(0).is_requested(&memory, 0x52));
    assert!(page(0).is_in_service(&memory, 0x52));
    assert!(page(0).is_requested(&memory, 0x31));
    assert_eq!(ppr(&memory), 0x50);
    assert_eq!(avic.deliverable(&mut memory), None);
}

#[test]
fn an_edge_triggered_eoi_ends_the_highest_vector_without_an_exit() {
    let mut memory = memory(Xapic, &[]);
    let mut avic = avic(Xapic);
    request(&mut memory, &[0x31]);
    avic.accept(&mut memory, Vector(0x31));
    request(&mut memory, &[0x52]);
    avic.accept(&mut memory, Vector(0x52));
    let outcome = avic.write_page(&mut memory, register::END_OF_INTERRUPT, 4, 0);
    assert_eq!(outcome, WriteOutcome::Ended(Vector(0x52)));
    assert!(!page(0).is_in_service(&memory, 0x52));
    assert_eq!(ppr(&memory), 0x30);
    assert_eq!(avic.end_of_interrupt(&mut memory), EndOfInterrupt::Ended(Vector(0x31)));
    assert_eq!(ppr(&memory), 0);
    assert_eq!(avic.end_of_interrupt(&mut memory), EndOfInterrupt::Nothing);
    let outcome = avic.write_msr(&mut memory, 0x80B, 0);
    assert_eq!(outcome, WriteOutcome::Done, "no vector in service: no effect");
}

fn level_in_service(mode: virtual_apic::avic::AvicMode) -> (Avic, Memory) {
    let mut memory = memory(mode, &[]);
    let avic = avic(mode);
    page(0).insert(&mut memory, Bank::TriggerMode, 0x52);
    request(&mut memory, &[0x31, 0x52]);
    avic.accept(&mut memory, Vector(0x52));
    (avic, memory)
}

#[test]
fn a_level_triggered_eoi_traps_with_the_vector_still_in_service() {
    for mode in [Xapic, X2apic] {
        let (mut avic, mut memory) = level_in_service(mode);
        let outcome = match mode {
            Xapic => avic.write_page(&mut memory, register::END_OF_INTERRUPT, 4, 0),
            X2apic => avic.write_msr(&mut memory, 0x80B, 0),
        };
        let exit = NoAcceleration { offset: 0x0B0, is_write: true, vector: 0x52 };
        assert_eq!(outcome, WriteOutcome::Trap(exit));
        assert_eq!(exit.into_exit_info(), [0x1_0000_00B0, 0x52]);
        assert!(page(0).is_in_service(&memory, 0x52));
    }
}

#[test]
fn variants_of_the_level_triggered_eoi() {
    let (mut avic, mut memory) = level_in_service(Xapic);
    avic.behaviour.level_eoi_is_fault = true;
    let outcome = avic.write_page(&mut memory, register::END_OF_INTERRUPT, 4, 0);
    assert!(matches!(outcome, WriteOutcome::Fault(exit) if exit.vector == 0x52));
    assert!(page(0).is_in_service(&memory, 0x52));
    avic.behaviour.level_eoi_clears_in_service = true;
    avic.end_of_interrupt(&mut memory);
    assert!(!page(0).is_in_service(&memory, 0x52));
}

#[test]
fn a_tpr_write_reaches_page_v_tpr_and_ppr() {
    let mut memory = memory(Xapic, &[]);
    let mut avic = avic(Xapic);
    request(&mut memory, &[0x45]);
    let outcome = avic.write_page(&mut memory, register::TASK_PRIORITY, 4, 0x5A);
    assert_eq!(outcome, WriteOutcome::Evaluate);
    assert_eq!(page(0).register(&memory, register::TASK_PRIORITY), 0x5A);
    assert_eq!((avic.task_priority, avic.read_cr8()), (5, 5));
    assert_eq!(ppr(&memory), 0x5A);
    assert_eq!(avic.deliverable(&mut memory), None);
    avic.write_page(&mut memory, register::TASK_PRIORITY, 4, 0x3F);
    assert_eq!(avic.deliverable(&mut memory), Some(Vector(0x45)));
}

#[test]
fn a_cr8_write_clears_the_low_half_of_tpr() {
    let mut memory = memory(Xapic, &[]);
    let mut avic = avic(Xapic);
    avic.write_task_priority(&mut memory, 0x5A);
    avic.write_cr8(&mut memory, 7);
    assert_eq!(page(0).register(&memory, register::TASK_PRIORITY), 0x70);
    assert_eq!(avic.read_cr8(), 7);
    assert_eq!(ppr(&memory), 0x70);
}

#[test]
fn v_tpr_and_not_the_page_gates_delivery() {
    let rows = [
        // The page restored behind the processor's back: V_TPR still masks.
        (PriorityThreshold::VirtualTaskPriority, 9, 0x00, false),
        (PriorityThreshold::VirtualTaskPriority, 0, 0x90, true),
        (PriorityThreshold::Page, 9, 0x00, true),
        (PriorityThreshold::Page, 0, 0x90, false),
        (PriorityThreshold::Higher, 9, 0x00, false),
        (PriorityThreshold::Higher, 0, 0x90, false),
        (PriorityThreshold::Higher, 0, 0x00, true),
    ];
    for (threshold, task_priority, in_page, delivers) in rows {
        let mut memory = memory(Xapic, &[]);
        let mut avic = avic(Xapic);
        avic.behaviour.priority_threshold = threshold;
        avic.task_priority = task_priority;
        page(0).set_register(&mut memory, register::TASK_PRIORITY, in_page);
        request(&mut memory, &[0x85]);
        assert_eq!(avic.deliverable(&mut memory).is_some(), delivers, "{threshold:?}");
    }
}

#[test]
fn a_doorbell_is_heard_by_a_core_in_a_guest_with_avic_and_dropped_by_others() {
    let running = avic(Xapic);
    assert_eq!(DoorbellReception::of(Some(&running)), DoorbellReception::Evaluate);
    assert_eq!(DoorbellReception::of(None), DoorbellReception::Dropped);
}

#[test]
fn doorbell_values_beyond_the_id_raise_gp() {
    let rows = [
        (0, 8, Some(0)),
        (255, 8, Some(255)),
        (256, 8, None),
        (0xFFF, 12, Some(0xFFF)),
        (0x1000, 12, None),
        (1 << 63, 12, None),
        (0xFFFF_FFFF, 32, Some(0xFFFF_FFFF)),
    ];
    for (value, bits, target) in rows {
        assert_eq!(Avic::doorbell_target(value, bits), target.map(ApicId), "{value:#x}");
    }
}
