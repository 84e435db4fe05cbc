//! Interprocessor interrupts in x2APIC mode.

use crate::oracle::*;
use arch::apic::{DestinationMode, Icr, Scope};

const IDS: [u32; 5] = [0, 1, 15, 16, 33];

fn pair() -> Option<Pair> {
    let mut pair = Pair::new(&IDS, WIDE_IDS | WIDE_BROADCAST)?;
    for cpu in pair.cpus() {
        pair.enter_x2apic_mode(cpu);
    }
    Some(pair)
}

/// Sends the same MSR write from `sender` on both sides and compares.
fn check(pair: &mut Pair, sender: usize, msr: u32, value: u64) {
    let what = format!("{value:x} to {msr:x} from processor {sender}");
    let mut out = Vec::new();
    let ours = pair.ours[sender].write_msr(msr, value, NOW, &mut out);
    assert_eq!(ours.is_ok(), pair.set_msr(sender, msr, value), "{what}");
    pair.deliver_all(&out, sender);
    pair.compare_vectors(&what);
}

#[test]
fn physical_and_logical_destinations() {
    let Some(mut pair) = pair() else { return };
    let physical = (0..0x120).chain([0xFFFF, 0x1_0000, u32::MAX]);
    let members = (0..16).map(|bit| 1 << bit).chain([0, 0xFFFF, 0x8001]);
    let logical: Vec<u32> =
        members.flat_map(|members| [0, 1, 2, 3, 0xFFFF].map(|c| c << 16 | members)).collect();
    let all = physical
        .map(|destination| (DestinationMode::Physical, destination))
        .chain(logical.into_iter().map(|destination| (DestinationMode::Logical, destination)));
    for (n, (mode, destination)) in all.enumerate() {
        let command = Icr::new()
            .with_vector(vector(n as u32).0)
            .with_destination_mode(mode)
            .with_is_asserted(true)
            .with_destination(destination);
        check(&mut pair, n % IDS.len(), 0x830, command.into_bits());
    }
}

#[test]
fn shorthands_and_triggers() {
    let Some(mut pair) = pair() else { return };
    let mut n = 0;
    for sender in 0..IDS.len() {
        for scope in [Scope::SelfOnly, Scope::All, Scope::AllButSelf] {
            for (is_level, is_asserted) in
                [(false, false), (false, true), (true, true), (true, false)]
            {
                n += 1;
                let command = Icr::new()
                    .with_vector(vector(n).0)
                    .with_is_level(is_level)
                    .with_is_asserted(is_asserted)
                    .with_shorthand(scope)
                    .with_destination(0x1234);
                check(&mut pair, sender, 0x830, command.into_bits());
            }
        }
    }
}

#[test]
fn self_ipi_over_all_legal_vectors() {
    let Some(mut pair) = pair() else { return };
    for vector in 16..=255 {
        check(&mut pair, 3, 0x83F, vector);
    }
}
