//! A unit with its tables in a small memory.

use super::*;
use crate::{Access, Translation};
use arch::address::{Device, SystemPhysical};
use arch::identity::RequesterId;
use arch::msi::MessageSignalled;
use arch::vmx::apicv::NotificationControl;
use arch::vt_d::register as at;
use arch::vt_d::{
    ContextEntry, GlobalCommand, PostedEntry, RemappedEntry, SourceCheck, TranslationType,
};
use bus::GuestMemory;
use virtual_apic::SharedMemory;

mod hostile;
mod post;
mod queue;
mod remap;
mod translate;

const ROOT: u64 = 0x1_0000;
const CONTEXTS: u64 = 0x2_0000;
const TABLE: u64 = 0x3_0000;
const REMAPPING_TABLE: u64 = 0x4_0000;
const QUEUE: u64 = 0x5_0000;
const DESCRIPTOR: u64 = 0x6_0000;
const STORE: u64 = 0x7_0000;
const MEMORY: u64 = 1 << 20;
const FUNCTION: RequesterId = RequesterId(0x0008);

struct Bench {
    unit: VtD,
    memory: GuestMemory,
}

impl Bench {
    /// As kernels leave it, in x2APIC mode.
    fn new() -> Self {
        Self::with(Model::server(true), true)
    }

    fn with(model: Model, is_x2apic: bool) -> Self {
        let mut bench = Self { unit: VtD::new(model), memory: GuestMemory::new(MEMORY) };
        bench.write(at::ROOT_TABLE_ADDRESS, 8, ROOT);
        bench.write(
            at::REMAPPING_TABLE_ADDRESS,
            8,
            REMAPPING_TABLE | u64::from(is_x2apic) << 11 | 7,
        );
        bench.write(at::QUEUE_ADDRESS, 8, QUEUE);
        let all = GlobalCommand::TRANSLATION_ENABLE
            | GlobalCommand::QUEUE_ENABLE
            | GlobalCommand::REMAPPING_ENABLE
            | GlobalCommand::SET_ROOT_TABLE
            | GlobalCommand::SET_REMAPPING_TABLE;
        bench.write(at::GLOBAL_COMMAND, 4, all.bits().into());
        bench.write(at::FAULT_EVENT_ADDRESS, 4, 0xFEE0_1000);
        bench.write(at::FAULT_EVENT_DATA, 4, 0x21);
        bench.write(at::FAULT_EVENT_CONTROL, 4, 0);
        bench.store(ROOT, CONTEXTS | 1);
        bench.set_context(context());
        bench
    }

    fn write(&mut self, offset: u64, size: u8, value: u64) {
        self.unit.write(&mut self.memory, offset, size, value);
    }

    fn read(&self, offset: u64, size: u8) -> u64 {
        self.unit.read(offset, size)
    }

    fn store(&mut self, at: u64, value: u64) {
        self.memory.write_u64(SystemPhysical(at), value);
    }

    fn store_wide(&mut self, at: u64, value: u128) {
        self.store(at, value as u64);
        self.store(at + 8, (value >> 64) as u64);
    }

    fn set_context(&mut self, context: ContextEntry) {
        self.store_wide(CONTEXTS + u64::from(FUNCTION.0) * 16, context.into_bits());
    }

    fn set_entry(&mut self, index: u64, entry: u128) {
        self.store_wide(REMAPPING_TABLE + index * 16, entry);
    }

    /// A message in remappable format for an entry.
    fn remap(&mut self, index: u32) -> Remapped {
        let address = 0xFEE0_0010 | u64::from(index & 0x7FFF) << 5;
        let message = MessageSignalled { address: Device(address), data: 0 };
        self.unit.remap(&mut self.memory, FUNCTION, message)
    }

    fn translate(&mut self, address: u64, access: Access) -> Option<(u64, u64)> {
        let found = self.unit.translate(&mut self.memory, FUNCTION, Device(address), access);
        found.ok().map(|Translation { address, length }| (address.0, length))
    }

    /// Takes the recorded fault: its reason, and bits 63:0.
    fn fault(&mut self) -> Option<(u8, u64)> {
        let high = self.read(unit::RECORD + 8, 8);
        let low = self.read(unit::RECORD, 8);
        self.write(unit::RECORD + 12, 4, 1 << 31);
        (high >> 63 != 0).then_some(((high >> 32) as u8, low))
    }
}

/// Three levels.
fn context() -> ContextEntry {
    ContextEntry::new()
        .with_is_present(true)
        .with_kind(TranslationType::Untranslated)
        .with_frame(TABLE >> 12)
        .with_width(1)
        .with_domain(5)
}

fn source() -> u32 {
    SourceCheck::new().with_source(FUNCTION.0).with_kind(1).into_bits()
}

fn posted() -> PostedEntry {
    PostedEntry::new()
        .with_is_present(true)
        .with_is_posted(true)
        .with_vector(0x45)
        .with_source(source())
        .with_descriptor(SystemPhysical(DESCRIPTOR))
}

fn remapped() -> RemappedEntry {
    RemappedEntry::new()
        .with_is_present(true)
        .with_vector(0x31)
        .with_destination(0x0100_0005)
        .with_source(source())
}
