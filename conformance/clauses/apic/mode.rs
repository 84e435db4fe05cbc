//! [SDM3 "x2APIC State Transitions"] [SDM3 "Enabling or Disabling the Local APIC"]
//! [APM2 "x2APIC Mode"]

use crate::subject::*;
use arch::apic::{Mode, Register};
use arch::identity::{ApicId, Vector};
use interrupt::{LocalApic, Refused};

const INVALID: u64 = DISABLED | 1 << 10;

/// A local APIC in the mode that `mode` sets.
fn in_mode(model: interrupt::LocalApicModel, mode: u64) -> LocalApic {
    let mut apic = xapic(model);
    apic.write_base(mode, NOW, PHYSICAL_BITS).expect("every mode is one step from xAPIC mode");
    apic
}

#[test]
fn all_mode_transitions() {
    for model in models(3) {
        for (from, legal) in [
            (DISABLED, [true, true, false, false]),
            (XAPIC, [true, true, true, false]),
            (X2APIC, [true, false, true, false]),
        ] {
            for (to, legal) in [DISABLED, XAPIC, X2APIC, INVALID].into_iter().zip(legal) {
                let mut apic = in_mode(model.clone(), from);
                let before = apic.clone();
                let result = apic.write_base(to, NOW, PHYSICAL_BITS);
                assert_eq!(result, if legal { Ok(()) } else { Err(Refused) }, "{from:x} {to:x}");
                if legal {
                    assert_eq!(apic.base(), to);
                } else {
                    assert_eq!(apic, before, "a refused write changes nothing");
                }
            }
        }
    }
}

#[test]
fn x2apic_mode_is_refused_where_the_model_lacks_it() {
    for mut model in models(3) {
        model.supports_x2apic = false;
        assert_eq!(xapic(model).write_base(X2APIC, NOW, PHYSICAL_BITS), Err(Refused));
    }
}

#[test]
fn each_reserved_bit_of_the_base_is_refused() {
    for physical_bits in [36, 40, 46, 48, 52] {
        for bit in 0..64 {
            let is_address = (12..u32::from(physical_bits)).contains(&bit);
            // Bit 8 is read-only, 10 leads to x2APIC mode, 11 is set already.
            let legal = is_address || [8, 10, 11].contains(&bit);
            let value = XAPIC | 1 << bit;
            let result = xapic(amd(3)).write_base(value, NOW, physical_bits);
            assert_eq!(result.is_ok(), legal, "bit {bit} of {physical_bits}");
        }
    }
}

#[test]
fn bootstrap_flag_is_read_only() {
    for (id, flag) in [(0, 0x100), (1, 0)] {
        for model in models(id) {
            let mut apic = xapic(model);
            for written in [XAPIC, XAPIC | 0x100] {
                apic.write_base(written, NOW, PHYSICAL_BITS).unwrap();
                assert_eq!(apic.base(), XAPIC | flag);
            }
        }
    }
}

#[test]
fn base_can_be_moved_and_keeps_the_registers() {
    let mut apic = xapic(amd(0));
    apic.set_task_priority(0x35);
    apic.write_base(0xD000_0900, NOW, PHYSICAL_BITS).unwrap();
    assert_eq!(apic.base(), 0xD000_0900);
    assert_eq!(apic.task_priority(), 0x35);
}

#[test]
fn disabling_loses_all_state() {
    for from in [XAPIC, X2APIC] {
        for model in models(3) {
            let mut apic = in_mode(model.clone(), from);
            apic.set_task_priority(0x20);
            queue(&mut apic, fixed(0x41));
            apic.write_base(DISABLED, NOW, PHYSICAL_BITS).unwrap();
            assert!(!apic.is_enabled());
            assert_eq!(apic.pending(), None);
            apic.write_base(XAPIC, NOW, PHYSICAL_BITS).unwrap();
            assert_eq!(apic, LocalApic::new(model));
        }
    }
}

#[test]
fn identifier_returns_to_its_initial_value_when_re_enabled() {
    let mut apic = xapic(amd(3));
    write(&mut apic, Register::Id, 0x0900_0000);
    assert_eq!(apic.id(), ApicId(9));
    for base in [DISABLED, XAPIC] {
        apic.write_base(base, NOW, PHYSICAL_BITS).unwrap();
    }
    assert_eq!(apic.id(), ApicId(3));
}

#[test]
fn entering_x2apic_mode_keeps_registers_and_derives_identity() {
    for model in models(0x123) {
        let mut apic = xapic(model);
        assert_eq!(apic.id(), ApicId(0x23), "xAPIC mode has eight bits");
        write(&mut apic, Register::LogicalDestination, 0x0200_0000);
        write(&mut apic, Register::CommandHigh, 0x0700_0000);
        apic.set_task_priority(0x30);
        queue(&mut apic, fixed(0x41));
        apic.write_base(X2APIC, NOW, PHYSICAL_BITS).unwrap();
        assert_eq!(apic.mode(), Mode::X2Apic);
        assert_eq!(read(&mut apic, Register::Id), 0x123);
        assert_eq!(read(&mut apic, Register::LogicalDestination), 0x0012_0008);
        assert_eq!(read(&mut apic, Register::TaskPriority), 0x30);
        assert_eq!(read(&mut apic, Register::SpuriousVector), 0x1FF);
        assert_eq!(apic.read_msr(0x830, NOW), Ok(0));
        assert_eq!(apic.pending(), Some(Vector(0x41)));
    }
}

#[test]
fn init_keeps_identifier_and_mode_and_resets_the_rest() {
    for base in [XAPIC, X2APIC] {
        for model in models(0x21) {
            let fresh = {
                let mut apic = LocalApic::new(model.clone());
                apic.write_base(base, NOW, PHYSICAL_BITS).unwrap();
                apic
            };
            let mut apic = in_mode(model, base);
            apic.set_task_priority(0xF0);
            queue(&mut apic, fixed(0x41));
            write(&mut apic, Register::InitialCount, 1000);
            apic.init();
            assert_eq!(apic, fresh, "base {base:x}");
        }
    }
    let mut apic = xapic(amd(3));
    write(&mut apic, Register::Id, 0x0900_0000);
    apic.init();
    assert_eq!(apic.id(), ApicId(9));
}

#[test]
fn reset_leaves_x2apic_mode() {
    for model in models(3) {
        let mut apic = x2apic(model.clone());
        apic.reset();
        assert_eq!(apic, LocalApic::new(model));
        assert_eq!(apic.base(), XAPIC);
    }
}

#[test]
fn page_is_there_in_xapic_mode_alone() {
    for (base, value) in [(DISABLED, 0xFFFF_FFFF), (XAPIC, 0x0300_0000), (X2APIC, 0xFFFF_FFFF)] {
        let mut apic = in_mode(intel(3), base);
        assert_eq!(apic.read_mmio(0x20, 4, NOW), value);
        apic.write_mmio(0x80, 4, 0x40, NOW, &mut Vec::new());
        assert_eq!(apic.task_priority(), if base == XAPIC { 0x40 } else { 0 });
    }
}

#[test]
fn msrs_are_there_in_x2apic_mode_alone() {
    for base in [DISABLED, XAPIC] {
        for model in models(3) {
            let mut apic = in_mode(model, base);
            for msr in 0x800..=0x8FF {
                assert_eq!(apic.read_msr(msr, NOW), Err(Refused), "{msr:x}");
                let result = apic.write_msr(msr, 0, NOW, &mut Vec::new());
                assert_eq!(result, Err(Refused), "{msr:x}");
            }
        }
    }
}
