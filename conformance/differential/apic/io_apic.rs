//! Lines at the I/O APIC: edges, levels, masks, remote IRR.

use crate::oracle::*;
use arch::apic::{RedirectionEntry, Register, Scope};
use arch::identity::RequesterId;
use arch::msi::DestinationWidth;
use bus::Effect;
use interrupt::{IoApic, IoApicModel};
use kvm_bindings::{KVM_IRQCHIP_IOAPIC, kvm_irqchip};
use zerocopy::{IntoBytes, TryFromBytes};

/// A pin that KVM's default routing connects to the line of the same number.
const PIN: u8 = 20;
/// Of the pin's entry in `kvm_irqchip`: after the header, 24 bytes of other registers and the
/// entries before it.
const ENTRY_OFFSET: usize = 8 + 24 + 8 * PIN as usize;

struct Lines {
    pair: Pair,
    ours: IoApic,
}

impl Lines {
    fn new() -> Option<Self> {
        let model = IoApicModel { version: 0x11, pins: 24, requester: RequesterId(0) };
        Some(Self { pair: Pair::new(&[0, 1], 0)?, ours: IoApic::new(model) })
    }

    fn kvm_chip(&self) -> kvm_irqchip {
        let mut chip = kvm_irqchip { chip_id: KVM_IRQCHIP_IOAPIC, ..Default::default() };
        self.pair.vm.get_irqchip(&mut chip).expect("KVM_GET_IRQCHIP");
        chip
    }

    fn kvm_entry(&self) -> RedirectionEntry {
        let chip = self.kvm_chip();
        let bytes = &chip.as_bytes()[ENTRY_OFFSET..][..8];
        RedirectionEntry::from_bits(u64::from_le_bytes(bytes.try_into().expect("eight bytes")))
    }

    fn write_entry(&mut self, entry: u64) {
        let mut out = Vec::new();
        for (index, half) in [(0x11, entry >> 32), (0x10, entry & 0xFFFF_FFFF)] {
            self.ours.write_mmio(0, 4, index + 2 * u64::from(PIN), &mut out);
            self.ours.write_mmio(0x10, 4, half, &mut out);
        }
        assert_eq!(out, [], "entries are written while the line is not asserted");
        let mut bytes = self.kvm_chip().as_bytes().to_vec();
        bytes[ENTRY_OFFSET..][..8].copy_from_slice(&entry.to_le_bytes());
        let chip = kvm_irqchip::try_read_from_bytes(&bytes).expect("the same size");
        self.pair.vm.set_irqchip(&chip).expect("KVM_SET_IRQCHIP");
    }

    fn line(&mut self, asserted: bool) {
        let mut out = Vec::new();
        self.ours.set_line(PIN, asserted, &mut out);
        for effect in out {
            let Effect::MessageSignalled(message) = effect else { panic!("{effect:?}") };
            let interrupt = message.interrupt(DestinationWidth::Eight).expect("a message");
            if self.pair.deliver(&interrupt, Scope::Destination, None) == 0 {
                self.ours.not_accepted(message);
            }
        }
        self.pair.vm.set_irq_line(PIN.into(), asserted).expect("KVM_IRQ_LINE");
    }

    fn check(&mut self, entry: u64, levels: &[bool]) {
        self.write_entry(entry);
        for asserted in levels {
            self.line(*asserted);
            let what = format!("entry {entry:x}, line {asserted}");
            self.pair.compare_vectors(&what);
            let ours = self.ours.entry(PIN).expect("a pin");
            assert_eq!(ours.remote_irr(), self.kvm_entry().remote_irr(), "{what}");
        }
        self.line(false);
        self.pair.forget_requests();
    }
}

#[test]
fn edges_levels_masks_and_destinations() {
    let Some(mut lines) = Lines::new() else { return };
    for cpu in lines.pair.cpus() {
        lines.pair.write(cpu, Register::LogicalDestination, 1 << (24 + cpu));
    }
    for destination in [0u64, 1, 2, 3, 7, 0xFF] {
        for (n, mode) in [0u64, 1 << 11].into_iter().enumerate() {
            for trigger in [0u64, 1 << 15, 1 << 16, 3 << 15] {
                let vector = u64::from(vector(destination as u32 * 8 + n as u32).0);
                let entry = destination << 56 | trigger | mode | vector;
                lines.check(entry, &[true, false, true, true, false]);
            }
        }
    }
}
