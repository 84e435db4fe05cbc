//! [SDM3 "Interrupt Command Register (ICR)"] [APM2 "Interprocessor Interrupts"]

use crate::subject::*;
use arch::apic::{DeliveryMode, DestinationMode, Icr, InterruptMessage, Register, Scope};
use arch::identity::Vector;
use bus::Effect;
use interrupt::{LocalApic, LocalApicModel};

/// Sends through the register or registers of the mode.
fn send(apic: &mut LocalApic, command: Icr) -> Vec<Effect> {
    let mut out = Vec::new();
    if apic.is_x2apic() {
        apic.write_msr(0x830, command.into_bits(), NOW, &mut out).expect("a legal command");
    } else {
        apic.write_mmio(0x310, 4, u64::from(command.high()), NOW, &mut out);
        apic.write_mmio(0x300, 4, u64::from(command.low()), NOW, &mut out);
    }
    out
}

fn sent(apic: &mut LocalApic, command: Icr) -> Option<(InterruptMessage, Scope)> {
    match send(apic, command)[..] {
        [] => None,
        [Effect::Interrupt { message, scope }] => Some((message, scope)),
        ref other => panic!("{other:?}"),
    }
}

const SCOPES: [Scope; 4] = [Scope::Destination, Scope::SelfOnly, Scope::All, Scope::AllButSelf];
const MODES: [DeliveryMode; 8] = [
    DeliveryMode::Fixed,
    DeliveryMode::LowestPriority,
    DeliveryMode::Smi,
    DeliveryMode::RemoteRead,
    DeliveryMode::Nmi,
    DeliveryMode::Init,
    DeliveryMode::Startup,
    DeliveryMode::ExtInt,
];

#[test]
fn message_carries_every_field_of_the_command() {
    for (build, destination, is_x2apic) in [
        (xapic as fn(LocalApicModel) -> LocalApic, 0x0500_0000, false),
        (x2apic, 0x1234_5678, true),
    ] {
        for scope in SCOPES {
            for delivery_mode in MODES {
                for destination_mode in [DestinationMode::Physical, DestinationMode::Logical] {
                    let command = Icr::new()
                        .with_vector(0x99)
                        .with_delivery_mode(delivery_mode)
                        .with_destination_mode(destination_mode)
                        .with_is_asserted(true)
                        .with_shorthand(scope)
                        .with_destination(destination);
                    let message = InterruptMessage {
                        destination: if is_x2apic { destination } else { 5 },
                        destination_mode,
                        delivery_mode,
                        vector: Vector(0x99),
                        is_level: false,
                        is_asserted: true,
                        is_x2apic,
                    };
                    let leaves =
                        !matches!(delivery_mode, DeliveryMode::RemoteRead | DeliveryMode::ExtInt);
                    for model in models(1) {
                        let sent = sent(&mut build(model), command);
                        assert_eq!(sent, leaves.then_some((message, scope)), "{command:?}");
                    }
                }
            }
        }
    }
}

#[test]
fn writing_the_high_half_sends_nothing() {
    let mut apic = xapic(intel(1));
    assert_eq!(write(&mut apic, Register::CommandHigh, 0x0500_0000), []);
}

#[test]
fn illegal_vectors_are_errors_and_are_not_sent() {
    for build in [xapic, x2apic] {
        for delivery_mode in [DeliveryMode::Fixed, DeliveryMode::LowestPriority] {
            for vector in 0..=255u8 {
                let mut apic = build(intel(1));
                let command = Icr::new()
                    .with_vector(vector)
                    .with_delivery_mode(delivery_mode)
                    .with_is_asserted(true);
                let is_legal = vector >= 16;
                assert_eq!(sent(&mut apic, command).is_some(), is_legal, "{vector:x}");
                write(&mut apic, Register::ErrorStatus, 0);
                let expected = if is_legal { 0 } else { 1 << 5 };
                assert_eq!(read(&mut apic, Register::ErrorStatus), expected);
            }
        }
    }
}

#[test]
fn vector_of_other_modes_is_free() {
    for delivery_mode in
        [DeliveryMode::Smi, DeliveryMode::Nmi, DeliveryMode::Init, DeliveryMode::Startup]
    {
        for vector in 0..16 {
            let command = Icr::new()
                .with_vector(vector)
                .with_delivery_mode(delivery_mode)
                .with_is_asserted(true);
            let (message, _) = sent(&mut xapic(intel(1)), command).expect("it is sent");
            assert_eq!(message.vector, Vector(vector));
        }
    }
}

#[test]
fn level_and_trigger_of_ipis() {
    let command = |delivery_mode, is_level, is_asserted| {
        Icr::new()
            .with_vector(0x41)
            .with_delivery_mode(delivery_mode)
            .with_is_level(is_level)
            .with_is_asserted(is_asserted)
    };
    use DeliveryMode::{Fixed, Init, Nmi};
    // Model, delivery mode, level, asserted; what arrives: level, asserted.
    for (model, mode, is_level, is_asserted, expected) in [
        (intel(1), Fixed, false, false, Some((false, true))),
        (intel(1), Fixed, true, false, Some((false, true))),
        (intel(1), Fixed, true, true, Some((false, true))),
        (intel(1), Nmi, true, false, Some((false, true))),
        (intel(1), Init, true, true, Some((true, true))),
        (intel(1), Init, true, false, Some((true, false))),
        (amd(1), Fixed, false, false, Some((false, true))),
        (amd(1), Fixed, true, true, Some((true, true))),
        (amd(1), Fixed, true, false, None),
        (amd(1), Init, true, false, Some((true, false))),
    ] {
        let sent = sent(&mut xapic(model), command(mode, is_level, is_asserted));
        let sent = sent.map(|(message, _)| (message.is_level, message.is_asserted));
        assert_eq!(sent, expected, "{mode:?} level {is_level} asserted {is_asserted}");
    }
}

#[test]
fn init_level_deassert_does_nothing_where_it_arrives() {
    let mut apic = xapic(intel(1));
    let message = InterruptMessage {
        delivery_mode: DeliveryMode::Init,
        is_level: true,
        is_asserted: false,
        ..fixed(0)
    };
    assert_eq!(apic.accept(&message), interrupt::Acceptance::Ignored);
}

#[test]
fn delivery_status_reads_idle_and_is_not_written_in_xapic_mode() {
    let mut apic = xapic(amd(1));
    write(&mut apic, Register::Command, 0xFFFF_F0FF & !0xFFF0_0000);
    assert_eq!(read(&mut apic, Register::Command), 0x000C_C0FF);
}

#[test]
fn self_ipi_is_a_fixed_edge_interrupt_to_the_sender() {
    for vector in 0..=255u8 {
        let mut apic = x2apic(intel(0x1234));
        let mut out = Vec::new();
        apic.write_msr(0x83F, u64::from(vector), NOW, &mut out).unwrap();
        let message = InterruptMessage { destination: 0x1234, is_x2apic: true, ..fixed(vector) };
        let scope = Scope::SelfOnly;
        let expected = (vector >= 16).then_some(Effect::Interrupt { message, scope });
        assert_eq!(out, Vec::from_iter(expected));
        assert_eq!(apic.read_msr(0x830, NOW), Ok(0), "the command register is another");
    }
}

#[test]
fn disabled_by_software_still_sends() {
    let mut apic = LocalApic::new(intel(1));
    let command = Icr::new().with_vector(0x41).with_is_asserted(true);
    assert!(sent(&mut apic, command).is_some());
}
