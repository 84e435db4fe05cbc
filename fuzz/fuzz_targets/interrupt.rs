//! What software and wires can do to a local APIC, an I/O APIC and the 8259 pair: registers, modes,
//! messages, time. The first eight bytes are the seed, then come the numbers that decide.
#![no_main]

use arch::address::Device;
use arch::apic::{DeliveryMode, DestinationMode, InterruptMessage};
use arch::identity::{ApicId, RequesterId, Vector};
use arch::msi::{MessageSignalled, WINDOW_START};
use arch::time::Picoseconds;
use bus::Random;
use interrupt::io_apic::{IoApic, IoApicModel};
use interrupt::legacy::PicPair;
use interrupt::local_apic::{LocalApic, LocalApicModel, LocalSource};
use libfuzzer_sys::fuzz_target;

const OPERATIONS: usize = 128;
/// Effects of one access that are more than any has.
const MOST_EFFECTS: usize = 1024;

/// Numbers that are given, then random ones.
struct Numbers<'a>(&'a [u8], Random);

impl Numbers<'_> {
    fn next(&mut self) -> u64 {
        let Some((first, rest)) = self.0.split_first_chunk() else { return self.1.next() };
        self.0 = rest;
        u64::from_le_bytes(*first)
    }
}

fn message(numbers: &mut Numbers<'_>) -> InterruptMessage {
    let (bits, destination) = (numbers.next(), numbers.next());
    InterruptMessage {
        destination: if bits & 1 == 0 { destination as u32 } else { destination as u32 & 0xFF },
        destination_mode: DestinationMode::from_bits((bits >> 1) as u8 & 1),
        delivery_mode: DeliveryMode::from_bits((bits >> 2) as u8 & 7),
        vector: Vector((bits >> 8) as u8),
        is_level: bits >> 5 & 1 != 0,
        is_asserted: bits >> 6 & 1 != 0,
        is_x2apic: bits >> 7 & 1 != 0,
    }
}

fuzz_target!(|bytes: &[u8]| {
    let Some((seed, given)) = bytes.split_first_chunk() else { return };
    let seed = u64::from_le_bytes(*seed);
    let mut numbers = Numbers(given, Random(seed));
    let id = ApicId((seed >> 32) as u32);
    let model = if seed & 1 == 0 { LocalApicModel::amd } else { LocalApicModel::intel };
    let mut apic = LocalApic::new(model(id, seed & 2 != 0));
    let requester = RequesterId(0xA0);
    let (version, pins) = ((seed >> 8) as u8, (seed >> 16) as u8);
    let mut pins = IoApic::new(IoApicModel { version, pins, requester });
    let mut pair = PicPair::new();
    let mut now = Picoseconds::ZERO;
    for _ in 0..OPERATIONS {
        let (which, value) = (numbers.next(), numbers.next());
        let (offset, size) = ((which >> 8) as u16 & 0xFFF, 1u8 << (which >> 4 & 3));
        let msr = 0x800 + (which >> 8) as u32 % 0x100;
        let mut effects = Vec::new();
        match which % 16 {
            0 => drop(apic.read_mmio(offset, size, now)),
            1 | 2 => apic.write_mmio(offset & !15, 4, value, now, &mut effects),
            3 => drop(apic.read_msr(msr, now)),
            4 | 5 => drop(apic.write_msr(msr, value, now, &mut effects)),
            6 => drop(apic.write_base(value & 0xC00 | 0xFEE0_0000, now, 48)),
            7 => drop(apic.accept(&message(&mut numbers))),
            8 if apic.pending().is_some() => drop(apic.acknowledge()),
            9 => drop(apic.signal(LocalSource::Extended(value as u8))),
            10 => {
                now = now.saturating_add(Picoseconds(value >> (which >> 8 & 63)));
                apic.advance(now, &mut effects);
            }
            11 => {
                apic.set_tsc_deadline(value, Some(Picoseconds(value)));
                // One that has passed expires before anything else.
                apic.advance(now, &mut effects);
            }
            12 => pins.write_mmio(offset & 0xF0, size, value, &mut effects),
            13 => {
                pins.set_line(value as u8, value & 0x100 != 0, &mut effects);
                pins.read_mmio(offset, size);
            }
            14 => {
                pins.end_of_interrupt(Vector(value as u8), &mut effects);
                let address = Device(WINDOW_START + (value >> 32) % 0x10_0000);
                pins.not_accepted(MessageSignalled { address, data: value as u32 });
            }
            _ => {
                pair.port_write(
                    [0x20, 0x21, 0xA0, 0xA1, 0x4D0, 0x4D1][offset as usize % 6],
                    value as u8,
                );
                pair.set_line((value >> 8) as u8, value & 0x1_0000 != 0);
                if pair.output() {
                    pair.acknowledge();
                }
                pair.port_read(0x20);
            }
        }
        assert!(effects.len() < MOST_EFFECTS, "{} effects of one access", effects.len());
        assert!(apic.next_deadline().is_none_or(|at| at >= now), "time goes back");
    }
});
