//! [SDM3 "Signaling Interrupt Servicing Completion"] [APM2 "End of Interrupt"]

use crate::subject::*;
use arch::apic::Register;
use arch::identity::Vector;
use bus::Effect;
use interrupt::LocalApic;

fn end(apic: &mut LocalApic) -> Vec<Effect> {
    write(apic, Register::EndOfInterrupt, 0)
}

fn serve(apic: &mut LocalApic, message: arch::apic::InterruptMessage) {
    queue(apic, message);
    assert_eq!(apic.acknowledge(), message.vector);
}

#[test]
fn level_triggered_vectors_are_broadcast_and_edge_triggered_ones_are_not() {
    for build in [xapic, x2apic] {
        for vector in 16..=255u8 {
            let mut apic = build(intel(0));
            serve(&mut apic, fixed(vector));
            assert_eq!(end(&mut apic), []);
            serve(&mut apic, level(vector));
            let vector = Vector(vector);
            assert_eq!(end(&mut apic), [Effect::EndOfInterrupt { vector }]);
        }
    }
}

#[test]
fn broadcast_can_be_suppressed_where_the_model_has_it() {
    for (model, broadcasts) in [(intel(0), 0), (amd(0), 1)] {
        let mut apic = xapic(model);
        write(&mut apic, Register::SpuriousVector, 0x11FF);
        serve(&mut apic, level(0x41));
        assert_eq!(end(&mut apic).len(), broadcasts);
        assert_eq!(read(&mut apic, Register::InService(2)), 0);
    }
}

#[test]
fn highest_vector_in_service_ends_first() {
    let mut apic = xapic(amd(0));
    for message in [level(0x31), fixed(0x41), level(0x51)] {
        serve(&mut apic, message);
    }
    assert_eq!(end(&mut apic), [Effect::EndOfInterrupt { vector: Vector(0x51) }]);
    assert_eq!(end(&mut apic), []);
    assert_eq!(end(&mut apic), [Effect::EndOfInterrupt { vector: Vector(0x31) }]);
}

#[test]
fn end_without_service_does_nothing() {
    let mut apic = xapic(amd(0));
    queue(&mut apic, level(0x41));
    let before = apic.clone();
    assert_eq!(end(&mut apic), []);
    assert_eq!(apic, before);
}

#[test]
fn end_releases_what_the_service_held_back() {
    let mut apic = x2apic(intel(0));
    serve(&mut apic, fixed(0x4F));
    queue(&mut apic, fixed(0x41));
    assert_eq!(apic.pending(), None);
    end(&mut apic);
    assert_eq!(apic.pending(), Some(Vector(0x41)));
}

#[test]
fn specific_end_ends_the_named_vector_when_switched_on() {
    let mut apic = xapic(amd(0));
    for message in [level(0x31), fixed(0x41)] {
        serve(&mut apic, message);
    }
    let register = Register::SpecificEndOfInterrupt;
    assert_eq!(write(&mut apic, register, 0x31), [], "not switched on");
    assert_ne!(read(&mut apic, Register::InService(1)), 0);
    write(&mut apic, Register::ExtendedControl, 2);
    assert_eq!(write(&mut apic, register, 0x32), [], "not in service");
    let ended = [Effect::EndOfInterrupt { vector: Vector(0x31) }];
    assert_eq!(write(&mut apic, register, 0x31), ended);
    assert_eq!(read(&mut apic, Register::InService(1)), 0);
    assert_ne!(read(&mut apic, Register::InService(2)), 0);
}
