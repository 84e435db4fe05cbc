//! A guest cannot tell its virtual APIC from a local APIC: random walks of both, side by side.
//! [SDM3 "Virtual APIC State"]

use crate::machine::{Memory, X2APIC, XAPIC, apicv, memory_with_table, register};
use arch::apic::{DeliveryMode, DestinationMode, InterruptMessage};
use arch::identity::{ApicId, Vector};
use arch::time::Picoseconds;
use interrupt::{LocalApic, LocalApicModel};
use virtual_apic::apicv::{Apicv, Completion, IpiSend, MsrWrite, PostedInterruptProcessing};

/// Knuth's generator, its upper bits.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u32) -> u32 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (self.0 >> 40) as u32 % bound
    }

    /// Mostly of few classes, so that priorities collide.
    fn vector(&mut self) -> u8 {
        match self.below(4) {
            0 => 16 + self.below(240) as u8,
            _ => 0x40 + self.below(0x30) as u8,
        }
    }
}

/// The same guest twice.
struct Pair {
    memory: Memory,
    apicv: Apicv,
    apic: LocalApic,
}

const NOW: Picoseconds = Picoseconds::ZERO;

impl Pair {
    fn new(apicv: Apicv) -> Self {
        let mut apic = LocalApic::new(LocalApicModel::intel(ApicId(0), true));
        apic.write_mmio(0x0F0, 4, 0x1FF, NOW, &mut Vec::new());
        let mut pair = Self { memory: memory_with_table(), apicv, apic };
        pair.apicv.enter(&mut pair.memory);
        pair
    }

    /// A guest's write of TPR, EOI or SELF IPI, by memory or by MSR.
    fn write_virtual(&mut self, offset: u16, value: u32) {
        let completion = if self.apicv.controls.virtualizes_x2apic {
            let msr = 0x800 + u32::from(offset >> 4);
            match self.apicv.write_msr(&mut self.memory, msr, value.into()) {
                MsrWrite::Virtualized(completion) => completion,
                other => panic!("{msr:#x}: {other:?}"),
            }
        } else {
            // There is no SELF IPI register on the page, but a shorthand.
            let (at, value) =
                if offset == 0x3F0 { (0x300, 1 << 18 | value) } else { (offset, value) };
            assert_eq!(self.apicv.write_page(&mut self.memory, at, 4, value), Ok(()));
            self.apicv.complete_operation(&mut self.memory)
        };
        assert_eq!(completion, Completion::Done);
    }

    fn step(&mut self, random: &mut Random) {
        match random.below(8) {
            0 => {
                let priority = [0, 0x30, 0x4F, 0x50, 0x61, 0xF0][random.below(6) as usize];
                self.write_virtual(0x080, priority);
                self.apic.set_task_priority(priority as u8);
            }
            1 => {
                let class = random.below(8) as u8;
                assert_eq!(self.apicv.write_cr8(&mut self.memory, class), None);
                self.apic.set_task_priority(class << 4);
            }
            2 => {
                self.write_virtual(0x0B0, 0);
                self.apic.write_mmio(0x0B0, 4, 0, NOW, &mut Vec::new());
            }
            3 => {
                let vector = random.vector();
                self.write_virtual(0x3F0, vector.into());
                self.apic.accept(&fixed(vector));
            }
            4 => {
                self.apicv.enter(&mut self.memory);
            }
            5 | 6 => {
                let vector = random.vector();
                let mut is_notified = false;
                let ipi = IpiSend::new(Vector(vector), 0);
                ipi.run(&self.apicv, &mut self.memory, |_| is_notified = true);
                assert!(is_notified);
                PostedInterruptProcessing::new().run(&mut self.apicv, &mut self.memory);
                self.apic.accept(&fixed(vector));
            }
            _ => {
                if self.apicv.has_deliverable() {
                    let vector = self.apicv.deliver(&mut self.memory);
                    assert_eq!(vector, self.apic.acknowledge());
                }
            }
        }
    }

    fn check(&mut self) {
        assert_eq!(self.apicv.has_deliverable(), self.apic.pending().is_some());
        let banks = (0x100..0x180).chain(0x200..0x280).step_by(16);
        for offset in [0x080, 0x0A0].into_iter().chain(banks) {
            let expected = self.apic.read_mmio(offset, 4, NOW);
            assert_eq!(u64::from(register(&self.memory, offset)), expected, "{offset:#x}");
        }
    }
}

fn fixed(vector: u8) -> InterruptMessage {
    InterruptMessage {
        destination: 0,
        destination_mode: DestinationMode::Physical,
        delivery_mode: DeliveryMode::Fixed,
        vector: Vector(vector),
        is_level: false,
        is_asserted: true,
        is_x2apic: false,
    }
}

#[test]
fn a_virtual_apic_does_what_a_local_apic_does() {
    for controls in [XAPIC, X2APIC] {
        for seed in 1..=40 {
            let (mut random, mut pair) = (Random(seed), Pair::new(apicv(controls)));
            for _ in 0..1000 {
                pair.step(&mut random);
                pair.check();
            }
        }
    }
}
