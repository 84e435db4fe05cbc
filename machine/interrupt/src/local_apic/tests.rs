//! What holds after any sequence of accesses. The rules themselves are tested in
//! `conformance/clauses/apic`.

use super::*;
use arch::apic::{DeliveryMode, DestinationMode, InterruptMessage, MSR_FIRST, MSR_LAST};
use bus::Effect;

/// A small generator, so that a failure repeats.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        self.0 >> 20
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }
}

/// Does one random thing, legal or not.
fn disturb(apic: &mut LocalApic, random: &mut Random, now: Picoseconds, out: &mut Vec<Effect>) {
    let value = random.next() << 32 ^ random.next();
    let narrow = value & 0xFFF;
    match random.below(12) {
        0 => drop(apic.write_base(0xFEE0_0000 | (random.below(4) << 10), now, 48)),
        1 => apic.write_mmio((random.below(0x60) << 4) as u16, 4, value, now, out),
        2 => apic.write_mmio((random.below(0x60) << 4) as u16, 4, narrow, now, out),
        3 => drop(apic.write_msr(MSR_FIRST + random.below(0x60) as u32, narrow, now, out)),
        4 => drop(apic.read_mmio(random.below(0x600) as u16, 4, now)),
        5 => drop(apic.acknowledge()),
        6 => drop(apic.lint0(value & 1 != 0)),
        7 => apic.set_tsc_deadline(value, Some(now + Picoseconds(value & 0xFFFFF))),
        8 => apic.set_task_priority(value as u8),
        9 => apic.write_mmio(0xF0, 4, 0x1FF, now, out),
        _ => {
            let message = InterruptMessage {
                destination: value as u32 & 3,
                destination_mode: DestinationMode::from_bits((value >> 8) as u8),
                delivery_mode: DeliveryMode::from_bits((value >> 9) as u8 & 1),
                vector: Vector((value >> 16) as u8),
                is_level: value >> 24 & 1 != 0,
                is_asserted: true,
                is_x2apic: value >> 25 & 1 != 0,
            };
            apic.accept(&message);
        }
    }
}

#[test]
fn what_is_kept_up_to_date_equals_what_is_computed_afresh() {
    for seed in 0..64 {
        let mut random = Random(seed);
        let id = ApicId(seed as u32 & 3);
        let mut apic = LocalApic::new(match seed % 2 {
            0 => LocalApicModel::amd(id, id.0 == 0),
            _ => LocalApicModel::intel(id, id.0 == 0),
        });
        let (mut now, mut out) = (Picoseconds::ZERO, Vec::new());
        let mut delivered = 0;
        for _ in 0..4_000 {
            now += Picoseconds(random.below(1 << 20));
            disturb(&mut apic, &mut random, now, &mut out);
            apic.advance(now, &mut out);
            let mut fresh = apic.clone();
            fresh.update();
            fresh.plan_timer();
            assert_eq!(apic, fresh, "seed {seed}");
            assert!(apic.next_deadline().is_none_or(|next| next > now), "seed {seed}");
            delivered += u32::from(apic.pending().is_some());
            out.clear();
        }
        assert!(delivered > 0, "seed {seed} delivers nothing: the test tests nothing");
    }
}

#[test]
fn no_access_panics_in_any_mode() {
    let mut out = Vec::new();
    for base in [0xFEE0_0000, 0xFEE0_0800, 0xFEE0_0C00u64] {
        let mut apic = LocalApic::new(LocalApicModel::amd(ApicId(u32::MAX), true));
        apic.write_base(base, Picoseconds::ZERO, 48).expect("a legal mode");
        for value in [0, 1, 0xFF, 0x1FF, 0xFFFF_FFFF, u64::MAX] {
            for now in [Picoseconds::ZERO, Picoseconds(1), Picoseconds::MAX] {
                for offset in (0..0x1000).chain([0xFFFF]) {
                    for size in [1, 2, 4, 8] {
                        apic.write_mmio(offset, size, value, now, &mut out);
                        apic.read_mmio(offset, size, now);
                    }
                }
                for msr in MSR_FIRST..=MSR_LAST {
                    let _ = apic.write_msr(msr, value, now, &mut out);
                    let _ = apic.read_msr(msr, now);
                }
                apic.set_tsc_deadline(value, Some(now));
                apic.advance(now, &mut out);
                out.clear();
            }
        }
    }
}

#[test]
fn snapshot_is_a_copy() {
    let mut random = Random(7);
    let mut apic = LocalApic::new(LocalApicModel::intel(ApicId(0), true));
    for step in 0..500 {
        disturb(&mut apic, &mut random, Picoseconds(step * 1000), &mut Vec::new());
        let text = serde_json::to_string(&apic).expect("plain data");
        assert_eq!(apic, serde_json::from_str::<LocalApic>(&text).expect("the same data"));
    }
}
