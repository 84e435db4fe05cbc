//! [SDM3 "Task and Processor Priorities"] [APM2 "Priority"]
//! [SDM3 "Interrupt Acceptance for Fixed Interrupts"]

use crate::subject::*;
use arch::apic::Register;
use arch::identity::Vector;
use interrupt::LocalApic;

fn processor_priority(apic: &mut LocalApic) -> u32 {
    read(apic, Register::ProcessorPriority)
}

#[test]
fn interrupt_is_deliverable_when_its_class_is_above_the_task_priority() {
    for build in [xapic, x2apic] {
        for task in 0..=255u8 {
            let mut apic = build(amd(0));
            apic.set_task_priority(task);
            for vector in 16..=255u8 {
                let mut apic = apic.clone();
                queue(&mut apic, fixed(vector));
                let deliverable = vector >> 4 > task >> 4;
                assert_eq!(apic.pending(), deliverable.then_some(Vector(vector)));
            }
        }
    }
}

#[test]
fn interrupt_nests_when_its_class_is_above_the_one_in_service() {
    for first in 16..=255u8 {
        let mut serving = xapic(intel(0));
        queue(&mut serving, fixed(first));
        assert_eq!(serving.acknowledge(), Vector(first));
        assert_eq!(processor_priority(&mut serving), u32::from(first & 0xF0));
        for second in 16..=255u8 {
            let mut apic = serving.clone();
            queue(&mut apic, fixed(second));
            let nests = second >> 4 > first >> 4;
            assert_eq!(apic.pending().is_some(), nests, "{second:x} during {first:x}");
        }
    }
}

#[test]
fn processor_priority_is_the_task_priority_or_the_class_in_service() {
    for (task, in_service, expected) in [
        (0x00, None, 0x00),
        (0x35, None, 0x35),
        (0x35, Some(0x2F), 0x35),
        (0x35, Some(0x31), 0x35),
        (0x35, Some(0x41), 0x40),
        (0x3F, Some(0x4F), 0x40),
    ] {
        let mut apic = xapic(amd(0));
        if let Some(vector) = in_service {
            queue(&mut apic, fixed(vector));
            apic.acknowledge();
        }
        write(&mut apic, Register::TaskPriority, task);
        assert_eq!(processor_priority(&mut apic), expected, "{task:x} {in_service:x?}");
    }
}

#[test]
fn lowering_the_task_priority_releases_what_waits() {
    let mut apic = xapic(amd(0));
    write(&mut apic, Register::TaskPriority, 0x50);
    queue(&mut apic, fixed(0x51));
    assert_eq!(apic.pending(), None);
    write(&mut apic, Register::TaskPriority, 0x4F);
    assert_eq!(apic.pending(), Some(Vector(0x51)));
    write(&mut apic, Register::TaskPriority, 0x50);
    assert_eq!(apic.pending(), None);
}

#[test]
fn highest_vector_goes_first() {
    let mut apic = xapic(intel(0));
    for vector in [0x41, 0xEF, 0x31, 0x42, 0x10] {
        queue(&mut apic, fixed(vector));
    }
    assert_eq!(drain(&mut apic), [0xEF, 0x42, 0x41, 0x31, 0x10]);
}

#[test]
fn vector_is_held_once_in_request_and_once_in_service() {
    let mut apic = xapic(intel(0));
    for _ in 0..3 {
        queue(&mut apic, fixed(0x41));
    }
    apic.acknowledge();
    for _ in 0..3 {
        queue(&mut apic, fixed(0x41));
    }
    write(&mut apic, Register::EndOfInterrupt, 0);
    assert_eq!(drain(&mut apic), [0x41]);
}

#[test]
fn acknowledge_moves_the_bit_from_request_to_in_service() {
    for vector in 16..=255u8 {
        let mut apic = x2apic(amd(0));
        let (index, bit) = (vector / 32, 1 << (vector % 32));
        queue(&mut apic, fixed(vector));
        for (register, before, after) in
            [(Register::Request(index), bit, 0), (Register::InService(index), 0, bit)]
        {
            let mut apic = apic.clone();
            assert_eq!(read(&mut apic, register), before);
            apic.acknowledge();
            assert_eq!(read(&mut apic, register), after);
        }
    }
}

#[test]
fn acknowledge_without_a_request_gives_the_spurious_vector_and_no_service() {
    let mut apic = xapic(amd(0));
    write(&mut apic, Register::SpuriousVector, 0x1EF);
    let before = apic.clone();
    assert_eq!(apic.acknowledge(), Vector(0xEF));
    assert_eq!(apic, before);
    queue(&mut apic, fixed(0x41));
    apic.set_task_priority(0x40);
    assert_eq!(apic.acknowledge(), Vector(0xEF), "a request below the priority stays");
    apic.set_task_priority(0);
    assert_eq!(apic.pending(), Some(Vector(0x41)));
}

#[test]
fn arbitration_priority_over_task_request_and_service() {
    for (task, request, service, expected) in [
        (0x00, None, None, 0x00),
        (0x35, None, None, 0x35),
        (0x35, Some(0x31), None, 0x35),
        (0x35, Some(0x41), None, 0x40),
        (0x35, None, Some(0x31), 0x30),
        (0x35, Some(0x51), Some(0x41), 0x50),
    ] {
        let mut apic = xapic(amd(0));
        if let Some(vector) = service {
            queue(&mut apic, fixed(vector));
            apic.acknowledge();
        }
        if let Some(vector) = request {
            queue(&mut apic, fixed(vector));
        }
        apic.set_task_priority(task);
        assert_eq!(apic.priority(), expected, "{task:x} {request:x?} {service:x?}");
        assert_eq!(read(&mut apic, Register::ArbitrationPriority), u32::from(expected));
    }
}

#[test]
fn trigger_mode_register_has_the_level_triggered_vectors() {
    let mut apic = xapic(intel(0));
    for (message, bit) in [(fixed(0x41), 0), (level(0x41), 2), (fixed(0x41), 0)] {
        queue(&mut apic, message);
        assert_eq!(read(&mut apic, Register::TriggerMode(2)), bit);
    }
}

#[test]
fn interrupt_enable_registers_hold_vectors_back_when_switched_on() {
    let mut apic = xapic(amd(0));
    write(&mut apic, Register::InterruptEnable(2), !(1 << 1));
    queue(&mut apic, fixed(0x41));
    queue(&mut apic, fixed(0x31));
    assert_eq!(apic.pending(), Some(Vector(0x41)), "not switched on");
    write(&mut apic, Register::ExtendedControl, 1);
    assert_eq!(apic.pending(), Some(Vector(0x31)));
    write(&mut apic, Register::InterruptEnable(2), !0);
    assert_eq!(apic.pending(), Some(Vector(0x41)));
}

#[test]
fn software_disable_holds_what_is_pending_and_takes_nothing_new() {
    let mut apic = xapic(amd(0));
    queue(&mut apic, fixed(0x41));
    write(&mut apic, Register::SpuriousVector, 0xFF);
    assert_eq!(apic.accept(&fixed(0x51)), interrupt::Acceptance::Ignored);
    assert_eq!(apic.pending(), Some(Vector(0x41)));
}
