//! An IOMMU with its tables in a small memory.

use super::*;
use crate::Access;
use arch::address::{Device, SystemPhysical};
use arch::amd_vi::register as at;
use arch::amd_vi::{
    Command, DeviceTableEntry, GuestEntry, InterruptControl, InterruptHalf, PageEntry,
    TranslationHalf,
};
use arch::msi::MessageSignalled;
use bus::GuestMemory;
use virtual_apic::SharedMemory;

mod command;
mod guest;
mod hostile;
mod remap;
mod translate;

/// A server's of Zen 4, at 00:00.2.
fn zen_4() -> Model {
    Model::of(ExtendedFeatures::from_bits(0x25BF_732F_A229_5AFE), RequesterId(2))
}

const DEVICE_TABLE: u64 = 0x1_0000;
const COMMANDS: u64 = 0x2_0000;
const EVENTS: u64 = 0x3_0000;
const GUEST_LOG: u64 = 0x4_0000;
const REMAPPING_TABLE: u64 = 0x5_0000;
const BACKING_PAGE: u64 = 0x6_0000;
const ROOT: u64 = 0x7_0000;
/// Where COMPLETION_WAIT stores.
const STORE: u64 = 0x8_0000;
const MEMORY: u64 = 1 << 20;
const FUNCTION: RequesterId = RequesterId(0x0008);

struct Bench {
    iommu: AmdVi,
    memory: GuestMemory,
}

impl Bench {
    /// As kernels leave it: logs and commands run, entries have 128 bits, guest mode is on.
    fn new() -> Self {
        Self::with(zen_4(), Behaviour::default())
    }

    fn with(model: Model, behaviour: Behaviour) -> Self {
        let mut bench =
            Self { iommu: AmdVi::new(model, behaviour), memory: GuestMemory::new(MEMORY) };
        // 64 functions are within one page, rings have 256 entries of 16 bytes.
        bench.write(at::DEVICE_TABLE_BASE, DEVICE_TABLE);
        bench.write(at::COMMAND_BASE, COMMANDS | 8 << 56);
        bench.write(at::EVENT_BASE, EVENTS | 8 << 56);
        bench.write(at::GUEST_LOG_BASE, GUEST_LOG | 8 << 56);
        bench.write(at::CONTROL, running().into_bits());
        bench
    }

    fn write(&mut self, offset: u64, value: u64) {
        self.iommu.write(&mut self.memory, offset, 8, value);
    }

    fn read(&self, offset: u64) -> u64 {
        self.iommu.read(offset, 8)
    }

    fn status(&self) -> Status {
        Status::from_bits_retain(self.read(at::STATUS) as u32)
    }

    fn set_entry(&mut self, translation: TranslationHalf, interrupts: InterruptHalf) {
        let entry = DeviceTableEntry { translation, interrupts };
        for (i, quadword) in entry.into_quadwords().into_iter().enumerate() {
            let at = DEVICE_TABLE + u64::from(FUNCTION.0) * 32 + i as u64 * 8;
            self.memory.write_u64(SystemPhysical(at), quadword);
        }
    }

    fn set_wide(&mut self, index: u64, entry: u128) {
        let at = SystemPhysical(REMAPPING_TABLE + index * 16);
        self.memory.write_u64(at, entry as u64);
        self.memory.write_u64(at.offset(8), (entry >> 64) as u64);
    }

    fn remap(&mut self, data: u32) -> Remapped {
        let message = MessageSignalled { address: Device(0xFEE0_0000), data };
        self.iommu.remap(&mut self.memory, FUNCTION, message)
    }

    /// Puts a command into the ring and rings.
    fn command(&mut self, command: Command) {
        let tail = self.read(at::COMMAND_TAIL);
        for (i, quadword) in command.into_quadwords().into_iter().enumerate() {
            self.memory.write_u64(SystemPhysical(COMMANDS + tail + i as u64 * 8), quadword);
        }
        self.write(at::COMMAND_TAIL, (tail + 16) % 0x1000);
    }

    /// Takes the oldest event: type, flags, device, address.
    fn event(&mut self) -> Option<(u8, u16, u16, u64)> {
        let head = self.read(at::EVENT_HEAD);
        if head == self.read(at::EVENT_TAIL) {
            return None;
        }
        let low = self.memory.read_u64(SystemPhysical(EVENTS + head)).unwrap();
        let high = self.memory.read_u64(SystemPhysical(EVENTS + head + 8)).unwrap();
        self.write(at::EVENT_HEAD, (head + 16) % 0x1000);
        Some(((low >> 60) as u8, (low >> 48) as u16 & 0xFFF, low as u16, high))
    }
}

fn running() -> Control {
    Control::new()
        .with_is_enabled(true)
        .with_logs_events(true)
        .with_interrupts_for_events(true)
        .with_interrupts_for_completion(true)
        .with_processes_commands(true)
        .with_has_wide_remapping_entries(true)
        .with_guest_mode(Control::VIRTUAL_APIC)
        .with_logs_guest_interrupts(true)
        .with_interrupts_for_guest_log(true)
        .with_has_x2apic_destinations(true)
}

/// 512 entries.
fn remapping() -> InterruptHalf {
    InterruptHalf::new()
        .with_is_valid(true)
        .with_control(InterruptControl::Remap)
        .with_table_length(9)
        .with_table(SystemPhysical(REMAPPING_TABLE))
}

fn translation(levels: u8) -> TranslationHalf {
    TranslationHalf::new()
        .with_is_valid(true)
        .with_has_translation(true)
        .with_levels(levels)
        .with_root(SystemPhysical(ROOT))
        .with_is_readable(true)
        .with_is_writable(true)
        .with_domain(7)
}

fn guest() -> GuestEntry {
    GuestEntry::new()
        .with_is_enabled(true)
        .with_is_guest(true)
        .with_vector(0x45)
        .with_backing_page(SystemPhysical(BACKING_PAGE))
        .with_tag(0x1003)
        .with_destination(ApicId(5))
}
