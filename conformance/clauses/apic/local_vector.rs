//! [SDM3 "Local Vector Table"] [APM2 "Local Interrupts"]

use crate::subject::*;
use arch::apic::{LocalVector, Register};
use arch::identity::Vector;
use interrupt::{Acceptance, LocalApic, LocalSource};

const LINT0: Register = Register::LocalVector(LocalVector::Lint0);
const LINT1: Register = Register::LocalVector(LocalVector::Lint1);
const EXTINT: u32 = 0x700;
const LEVEL: u32 = 0x8000;
const REMOTE_IRR: u32 = 0x4000;
const MASK: u32 = 0x1_0000;

fn sources() -> [(LocalSource, Register); 4] {
    [
        (LocalSource::PerformanceCounter, Register::LocalVector(LocalVector::Performance)),
        (LocalSource::Thermal, Register::LocalVector(LocalVector::Thermal)),
        (
            LocalSource::CorrectedMachineCheck,
            Register::LocalVector(LocalVector::CorrectedMachineCheck),
        ),
        (LocalSource::Extended(2), Register::ExtendedLocalVector(2)),
    ]
}

#[test]
fn sources_deliver_as_their_entry_says() {
    use Acceptance::*;
    let mut model = intel(3);
    model.has_extended_space = true;
    for (source, register) in sources() {
        for (entry, expected) in [
            (0x41, Queued),
            (0x241, Smi),
            (0x400, Nmi),
            (0x500, Init),
            (0x700, ExtInt),
            (0x600, Ignored),
            (0x300, Ignored),
            (MASK | 0x41, Ignored),
            (MASK | 0x400, Ignored),
        ] {
            let mut apic = xapic(model.clone());
            write(&mut apic, register, entry);
            assert_eq!(apic.signal(source), expected, "{source:?} {entry:x}");
            assert_eq!(apic.pending(), (expected == Queued).then_some(Vector(0x41)));
        }
    }
}

#[test]
fn sources_that_a_model_lacks_do_nothing() {
    for (model, source) in [
        (amd(3), LocalSource::CorrectedMachineCheck),
        (amd(3), LocalSource::Extended(4)),
        (intel(3), LocalSource::Extended(0)),
    ] {
        assert_eq!(xapic(model).signal(source), Acceptance::Ignored);
    }
}

#[test]
fn performance_entry_is_masked_on_delivery_on_intel() {
    let register = Register::LocalVector(LocalVector::Performance);
    for (model, after) in [(intel(3), MASK | 0x400), (amd(3), 0x400)] {
        let mut apic = xapic(model);
        write(&mut apic, register, 0x400);
        assert_eq!(apic.signal(LocalSource::PerformanceCounter), Acceptance::Nmi);
        assert_eq!(read(&mut apic, register), after);
    }
}

#[test]
fn software_disable_masks_every_entry_and_holds_the_masks() {
    for (model, cmci) in [(intel(3), true), (amd(3), false)] {
        let mut apic = xapic(model);
        let entries: Vec<_> = LocalVector::ALL
            .into_iter()
            .filter(|entry| cmci || *entry != LocalVector::CorrectedMachineCheck)
            .map(Register::LocalVector)
            .collect();
        for register in &entries {
            write(&mut apic, *register, 0x41);
        }
        write(&mut apic, Register::SpuriousVector, 0xFF);
        for register in &entries {
            assert_eq!(read(&mut apic, *register), MASK | 0x41, "{register:?}");
            write(&mut apic, *register, 0x42);
            assert_eq!(read(&mut apic, *register), MASK | 0x42, "{register:?}");
        }
        write(&mut apic, Register::SpuriousVector, 0x1FF);
        for register in &entries {
            assert_eq!(read(&mut apic, *register), MASK | 0x42, "{register:?}");
            write(&mut apic, *register, 0x42);
            assert_eq!(read(&mut apic, *register), 0x42, "{register:?}");
        }
    }
}

#[test]
fn extint_follows_the_line_through_an_unmasked_entry() {
    for (entry, expected) in [(EXTINT, true), (EXTINT | MASK, false), (0x41, false), (0x400, false)]
    {
        let mut apic = xapic(amd(0));
        write(&mut apic, LINT0, entry);
        assert!(!apic.extint_pending());
        apic.lint0(true);
        assert_eq!(apic.extint_pending(), expected, "entry {entry:x}");
        apic.lint0(false);
        assert!(!apic.extint_pending());
    }
}

#[test]
fn extint_passes_a_disabled_apic_on_the_bootstrap_processor() {
    for (id, expected) in [(0, true), (1, false)] {
        for model in models(id) {
            let mut apic = xapic(model);
            apic.write_base(DISABLED, NOW, PHYSICAL_BITS).unwrap();
            apic.lint0(true);
            assert_eq!(apic.extint_pending(), expected);
            apic.write_base(XAPIC, NOW, PHYSICAL_BITS).unwrap();
            assert!(!apic.extint_pending(), "the entry is masked after reset");
        }
    }
}

#[test]
fn edge_triggered_lint0_takes_each_rising_edge() {
    for (entry, expected) in [(0x41, Acceptance::Queued), (0x400, Acceptance::Nmi)] {
        let mut apic = xapic(intel(0));
        write(&mut apic, LINT0, entry);
        for (asserted, acceptance) in [
            (true, expected),
            (true, Acceptance::Ignored),
            (false, Acceptance::Ignored),
            (true, expected),
        ] {
            assert_eq!(apic.lint0(asserted), acceptance, "entry {entry:x}");
        }
    }
}

#[test]
fn level_triggered_lint0_repeats_after_end_of_interrupt_while_asserted() {
    let mut apic = xapic(intel(0));
    write(&mut apic, LINT0, LEVEL | 0x41);
    assert_eq!(apic.lint0(true), Acceptance::Queued);
    assert_eq!(read(&mut apic, LINT0), LEVEL | REMOTE_IRR | 0x41);
    apic.acknowledge();
    assert_eq!(apic.lint0(true), Acceptance::Ignored);
    write(&mut apic, Register::EndOfInterrupt, 0);
    assert_eq!(apic.pending(), Some(Vector(0x41)));
    apic.acknowledge();
    apic.lint0(false);
    write(&mut apic, Register::EndOfInterrupt, 0);
    assert_eq!(apic.pending(), None);
    assert_eq!(read(&mut apic, LINT0), LEVEL | 0x41);
}

#[test]
fn unmasking_a_level_triggered_lint0_that_is_asserted_delivers() {
    let mut apic = xapic(intel(0));
    apic.lint0(true);
    write(&mut apic, LINT0, MASK | LEVEL | 0x41);
    assert_eq!(apic.pending(), None);
    write(&mut apic, LINT0, LEVEL | 0x41);
    assert_eq!(apic.pending(), Some(Vector(0x41)));
}

#[test]
fn lint1_delivers_as_its_entry_says_and_is_nmi_when_disabled() {
    let lint1 = |apic: &mut LocalApic, entry| {
        write(apic, LINT1, entry);
        apic.lint1_edge()
    };
    let mut apic = xapic(amd(3));
    assert_eq!(apic.lint1_edge(), Acceptance::Ignored, "masked after reset");
    assert_eq!(lint1(&mut apic, 0x400), Acceptance::Nmi);
    assert_eq!(lint1(&mut apic, 0x41), Acceptance::Queued);
    assert_eq!(lint1(&mut apic, MASK | 0x400), Acceptance::Ignored);
    apic.write_base(DISABLED, NOW, PHYSICAL_BITS).unwrap();
    assert_eq!(apic.lint1_edge(), Acceptance::Nmi);
}
