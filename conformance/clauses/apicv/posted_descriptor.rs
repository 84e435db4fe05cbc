//! Posting, and the processing of what was posted. [SDM3 "Posted-Interrupt Processing"]
//! [VTD "Interrupt-Posting Hardware Operation"]

use crate::machine::{
    Memory, NOTIFICATION, XAPIC, apicv, contains, control, descriptor, insert, is_posted, post,
    register, set_control,
};
use arch::apic::{DeliveryMode, DestinationMode};
use arch::identity::Vector;
use arch::vmx::apicv::NotificationControl;
use interrupt::page::Bank;
use virtual_apic::apicv::{
    ApicvControls, Notification, PostedInterruptProcessing, PostedRequest, Posting, PostingStep,
    ProcessingStep, ReservedBits, post_from_device,
};

fn memory_with(is_outstanding: bool, is_suppressed: bool) -> Memory {
    let mut memory = Memory::default();
    let to = NotificationControl::new()
        .with_is_outstanding(is_outstanding)
        .with_is_suppressed(is_suppressed)
        .with_vector(NOTIFICATION.0)
        .with_destination(0x0102_0304);
    set_control(&mut memory, 0, to);
    memory
}

const STATES: [(bool, bool); 4] = [(false, false), (false, true), (true, false), (true, true)];

#[test]
fn a_processors_posting_is_a_request_then_on_then_a_notification() {
    for (is_outstanding, is_suppressed) in STATES {
        let mut memory = memory_with(is_outstanding, is_suppressed);
        let before = control(&memory, 0);
        let mut posting = Posting::new(descriptor(0), Vector(0xA7));
        assert_eq!(posting.step(&mut memory), PostingStep::Continue);
        assert!(is_posted(&memory, 0, 0xA7));
        assert_eq!(control(&memory, 0), before, "seen apart");
        assert_eq!(posting.step(&mut memory), PostingStep::Continue);
        let notifies = !is_outstanding && !is_suppressed;
        assert_eq!(control(&memory, 0), before.with_is_outstanding(is_outstanding || notifies));
        if notifies {
            let to = Notification { control: before.with_is_outstanding(true) };
            assert_eq!(posting.step(&mut memory), PostingStep::Notify(to));
        }
        assert_eq!(posting.step(&mut memory), PostingStep::Complete);
    }
}

#[test]
fn each_vector_has_its_bit() {
    for vector in 0..=255 {
        let mut memory = memory_with(false, false);
        let mut posting = Posting::new(descriptor(0), Vector(vector));
        while posting.step(&mut memory) != PostingStep::Complete {}
        let posted: Vec<u8> = (0..=255).filter(|n| is_posted(&memory, 0, *n)).collect();
        assert_eq!(posted, [vector]);
    }
}

#[test]
fn a_device_notifies_unless_outstanding_or_suppressed_and_not_urgent() {
    for (is_outstanding, is_suppressed) in STATES {
        for is_urgent in [false, true] {
            let mut memory = memory_with(is_outstanding, is_suppressed);
            let before = control(&memory, 0);
            let notifies = !is_outstanding && (is_urgent || !is_suppressed);
            let to = Notification { control: before.with_is_outstanding(true) };
            let outcome = post_from_device(&mut memory, descriptor(0), Vector(0x31), is_urgent);
            assert_eq!(outcome, Ok(notifies.then_some(to)));
            assert!(is_posted(&memory, 0, 0x31));
            assert_eq!(control(&memory, 0), before.with_is_outstanding(is_outstanding || notifies));
        }
    }
}

#[test]
fn a_device_posts_nothing_into_a_descriptor_with_reserved_bits() {
    for bit in 0..64 {
        let mut memory = memory_with(false, false);
        let bits = control(&memory, 0).into_bits() | 1u64 << bit;
        set_control(&mut memory, 0, NotificationControl::from_bits(bits));
        let before = memory.clone();
        let outcome = post_from_device(&mut memory, descriptor(0), Vector(0x31), false);
        let is_reserved = matches!(bit, 2..=15 | 24..=31);
        assert_eq!(outcome == Err(ReservedBits), is_reserved, "{bit}");
        assert!(!is_reserved || memory == before);
    }
}

#[test]
fn a_notification_is_physical_fixed_and_edge_triggered() {
    let control = NotificationControl::new().with_vector(0xF2).with_destination(0x0102_0304);
    for (is_x2apic, destination) in [(true, 0x0102_0304), (false, 0x03)] {
        let message = Notification { control }.message(is_x2apic);
        assert_eq!((message.destination, message.vector), (destination, Vector(0xF2)));
        assert_eq!(message.destination_mode, DestinationMode::Physical);
        assert_eq!(message.delivery_mode, DeliveryMode::Fixed);
        assert!(!message.is_level && message.is_asserted);
        assert_eq!(message.is_x2apic, is_x2apic);
    }
}

#[test]
fn only_the_notification_vector_is_processed_and_only_with_its_control() {
    for vector in 0..=255 {
        assert_eq!(apicv(XAPIC).is_notification(Vector(vector)), vector == NOTIFICATION.0);
        let controls = ApicvControls { processes_posted_interrupts: false, ..XAPIC };
        assert!(!apicv(controls).is_notification(Vector(vector)));
    }
}

#[test]
fn processing_clears_on_ends_the_notification_takes_the_requests_and_evaluates() {
    let mut memory = memory_with(true, true);
    let before = control(&memory, 0);
    let mut apicv = apicv(XAPIC);
    for vector in [0x31, 0x5F, 0x60, 0xFF] {
        post(&mut memory, 0, vector);
    }
    let mut processing = PostedInterruptProcessing::new();
    assert_eq!(processing.step(&mut apicv, &mut memory), ProcessingStep::Continue);
    assert_eq!(control(&memory, 0), before.with_is_outstanding(false), "the rest is kept");
    assert!(is_posted(&memory, 0, 0x31));
    assert_eq!(processing.step(&mut apicv, &mut memory), ProcessingStep::EndPhysicalInterrupt);
    for quadword in 0..4u8 {
        assert!(!apicv.is_recognized);
        assert_eq!(processing.step(&mut apicv, &mut memory), ProcessingStep::Continue);
        for vector in [0x31, 0x5F, 0x60, 0xFF] {
            let is_taken = vector / 64 <= quadword;
            assert_eq!(is_posted(&memory, 0, vector), !is_taken);
            assert_eq!(contains(&memory, Bank::Request, vector), is_taken);
        }
    }
    assert_eq!(apicv.status.requesting(), 0);
    assert_eq!(processing.step(&mut apicv, &mut memory), ProcessingStep::Complete);
    assert_eq!((apicv.status.requesting(), apicv.is_recognized), (0xFF, true));
}

#[test]
fn every_request_arrives_where_it_belongs() {
    for vector in 0..=255 {
        let (mut memory, mut apicv) = (memory_with(true, false), apicv(XAPIC));
        post(&mut memory, 0, vector);
        PostedInterruptProcessing::new().run(&mut apicv, &mut memory);
        let requested: Vec<u8> =
            (0..=255).filter(|n| contains(&memory, Bank::Request, *n)).collect();
        assert_eq!(requested, [vector]);
        assert_eq!(apicv.status.requesting(), vector);
        assert_eq!(apicv.is_recognized, vector >= 16);
    }
}

#[test]
fn the_request_becomes_the_higher_of_old_and_posted() {
    // (RVI before, posted, RVI after)
    for (before, posted, after) in
        [(0x41, None, 0x41), (0x41, Some(0x31), 0x41), (0x41, Some(0x51), 0x51), (0, None, 0)]
    {
        let (mut memory, mut apicv) = (memory_with(true, false), apicv(XAPIC));
        apicv.status.set_requesting(before);
        if let Some(vector) = posted {
            post(&mut memory, 0, vector);
        }
        PostedInterruptProcessing::new().run(&mut apicv, &mut memory);
        assert_eq!(apicv.status.requesting(), after);
        assert_eq!(apicv.is_recognized, after >= 16, "evaluated even if nothing was posted");
    }
}

#[test]
fn a_vector_that_rvi_does_not_show_is_found_only_if_the_page_is_searched() {
    for (rule, after) in [(PostedRequest::Maximum, 0x31), (PostedRequest::HighestInPage, 0x61)] {
        let (mut memory, mut apicv) = (memory_with(true, false), apicv(XAPIC));
        apicv.behaviour.posted_request = rule;
        insert(&mut memory, Bank::Request, 0x61);
        post(&mut memory, 0, 0x31);
        PostedInterruptProcessing::new().run(&mut apicv, &mut memory);
        assert_eq!(apicv.status.requesting(), after);
        assert_eq!(register(&memory, 0x230), 0x0000_0002, "VIRR keeps both");
    }
}
