//! The tables and pages that a hypervisor gives to AVIC and APICv, of any content, and what a guest
//! and devices do with them: no panic, and no IPI with more steps than it can have. The first eight
//! bytes are the seed, then come the numbers that decide.
#![no_main]

use arch::address::{GuestPhysical, SystemPhysical};
use arch::apic::Icr;
use arch::identity::Vector;
use arch::vmx::apicv::GuestInterruptStatus;
use bus::{GuestMemory, Random};
use interrupt::page::VectorSet;
use libfuzzer_sys::fuzz_target;
use virtual_apic::SharedMemory;
use virtual_apic::apicv::{self, Apicv, ApicvControls, PidPointerTable, VirtualApicPage};
use virtual_apic::avic::{self, Avic, AvicMode, BackingPage};

const MEMORY: u64 = 64 << 10;
const OPERATIONS: usize = 64;
/// Eight for each entry of the largest table, and a start.
const MOST_STEPS: usize = 8 * 4096 + 8;

/// Numbers that are given, then random ones.
struct Numbers<'a>(&'a [u8], Random);

impl Numbers<'_> {
    fn next(&mut self) -> u64 {
        let Some((first, rest)) = self.0.split_first_chunk() else { return self.1.next() };
        self.0 = rest;
        u64::from_le_bytes(*first)
    }

    /// A page, mostly of memory.
    fn page(&mut self) -> SystemPhysical {
        let number = self.next();
        let page = if number.is_multiple_of(8) { number >> 12 } else { number % (MEMORY >> 12) };
        SystemPhysical(page << 12 & 0x000F_FFFF_FFFF_F000)
    }

    /// Tables with entries that are nearly right.
    fn memory(&mut self) -> GuestMemory {
        let mut memory = GuestMemory::new(MEMORY);
        for _ in 0..64 {
            let at = SystemPhysical(self.next() % (MEMORY / 8) * 8);
            let page = self.page().0;
            let entry = match self.next() % 6 {
                0 => page | 1 << 63 | 1 << 62 | self.next() % 0x100,
                1 => page | 1 << 63 | self.next() % 0x1000,
                2 => page | 1,
                3 => 1 << 31 | self.next() % 0x200,
                4 => u64::MAX,
                _ => self.next(),
            };
            memory.write_u64(at, entry);
        }
        memory
    }
}

fn use_avic(numbers: &mut Numbers<'_>) {
    let mut memory = numbers.memory();
    let shape = numbers.next();
    let mut avic = Avic {
        mode: if shape & 1 == 0 { AvicMode::Xapic } else { AvicMode::X2apic },
        apic_bar: GuestPhysical(0xFEE0_0000),
        backing_page: BackingPage(numbers.page()),
        logical_table: numbers.page(),
        physical_table: numbers.page(),
        max_index: (shape >> 16) as u16 & 0xFFF,
        task_priority: (shape >> 8) as u8 & 15,
        physical_address_bits: 52,
        extended_lvt_change: shape & 2 != 0,
        behaviour: avic::AvicBehaviour::DEFAULT,
    };
    for _ in 0..OPERATIONS {
        let (which, value) = (numbers.next(), numbers.next());
        let (offset, size) = ((which >> 8) as u16 & 0xFFF, 1 << (which >> 4 & 3));
        let size = size.min(0x1000 - offset) as u8;
        let msr = 0x800 + (which >> 8) as u32 % 0x100;
        let vector = Vector((which >> 32) as u8);
        let written = match which % 8 {
            0 => {
                avic.read_page(&mut memory, offset, size.next_power_of_two());
                continue;
            }
            1 => avic.write_page(&mut memory, offset, size.next_power_of_two(), value),
            2 => {
                avic.read_msr(&mut memory, msr);
                continue;
            }
            3 => avic.write_msr(&mut memory, msr, value),
            4 => avic::WriteOutcome::Send(Icr::from_bits(value)),
            5 => {
                if let Some(vector) = avic.deliverable(&mut memory) {
                    avic.accept(&mut memory, vector);
                }
                continue;
            }
            6 => {
                avic.take_back(&mut memory, vector);
                avic.end_of_interrupt(&mut memory);
                continue;
            }
            _ => {
                avic.write_cr8(&mut memory, value as u8);
                avic.processor_priority(&mut memory);
                continue;
            }
        };
        if let avic::WriteOutcome::Send(command) = written {
            let mut send = avic::IpiSend::new(command);
            let ends =
                |_: usize| matches!(send.step(&avic, &mut memory), avic::IpiStep::Complete(_));
            assert!((0..MOST_STEPS).any(ends), "an IPI without an end: {command:?}");
        }
    }
}

fn use_apicv(numbers: &mut Numbers<'_>) {
    let mut memory = numbers.memory();
    let shape = numbers.next();
    let mut apicv = Apicv {
        controls: ApicvControls {
            uses_tpr_shadow: shape & 1 != 0,
            virtualizes_accesses: shape & 2 != 0,
            virtualizes_x2apic: shape & 4 != 0,
            virtualizes_registers: shape & 8 != 0,
            delivers_interrupts: shape & 16 != 0,
            processes_posted_interrupts: shape & 32 != 0,
            virtualizes_ipis: shape & 64 != 0,
            exits_at_interrupt_window: shape & 128 != 0,
        },
        page: VirtualApicPage(numbers.page()),
        access_page: numbers.page(),
        tpr_threshold: (shape >> 8) as u8 & 15,
        eoi_exits: VectorSet([0; 8].map(|_: u32| numbers.next() as u32)),
        posted_descriptor: SystemPhysical(numbers.page().0 | (shape >> 16) % 64 * 64),
        notification_vector: Vector((shape >> 32) as u8),
        pid_pointers: PidPointerTable { base: numbers.page(), last_index: (shape >> 40) as u16 },
        physical_address_bits: 52,
        status: GuestInterruptStatus::from_bits(numbers.next() as u16),
        is_recognized: false,
        unfinished_write: None,
        behaviour: apicv::ApicvBehaviour::DEFAULT,
    };
    let _ = apicv.enter(&mut memory);
    for _ in 0..OPERATIONS {
        let (which, value) = (numbers.next(), numbers.next());
        let (offset, size) = ((which >> 8) as u16 & 0xFFF, 1 << (which >> 4 & 1));
        let msr = 0x800 + (which >> 8) as u32 % 0x100;
        let vector = Vector((which >> 32) as u8);
        match which % 10 {
            0 => drop(apicv.read_page(&mut memory, offset & !3, size)),
            1 => {
                let _ = apicv.write_page(&mut memory, offset & !3, size, value as u32);
                let _ = apicv.complete_operation(&mut memory);
            }
            2 => drop(apicv.read_msr(&mut memory, msr)),
            3 => drop(apicv.write_msr(&mut memory, msr, value)),
            4 => {
                let mut send = apicv::IpiSend::new(vector, value as u32);
                let ends = |_: usize| {
                    matches!(send.step(&apicv, &mut memory), apicv::IpiStep::Complete(_))
                };
                assert!((0..8).any(ends), "an IPI without an end");
            }
            5 => {
                let descriptor = apicv.posted_descriptor;
                let _ = apicv::post_from_device(&mut memory, descriptor, vector, value & 1 != 0);
            }
            6 => apicv::PostedInterruptProcessing::new().run(&mut apicv, &mut memory),
            7 if apicv.is_recognized => drop(apicv.deliver(&mut memory)),
            8 => drop(apicv.virtualize_eoi(&mut memory)),
            _ => drop(apicv.write_cr8(&mut memory, value as u8)),
        }
    }
}

fuzz_target!(|bytes: &[u8]| {
    let Some((seed, given)) = bytes.split_first_chunk() else { return };
    let seed = u64::from_le_bytes(*seed);
    let mut numbers = Numbers(given, Random(seed));
    if seed & 1 == 0 { use_avic(&mut numbers) } else { use_apicv(&mut numbers) }
});
