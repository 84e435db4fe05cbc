//! The register file. [IOMMU "MMIO Registers"]
//!
//! Registers have 64 bits and take accesses of any size within them. Bits of what is not among the
//! features read zero.

use super::{AmdVi, Ring};
use crate::SystemMemory;
use arch::amd_vi::register::{self as at, DeviceTableBase, InterruptDestination, RingBase};
use arch::amd_vi::{Control, ExtendedFeatures, Status};

/// Bits 51:3.
const TAIL_ADDRESS: u64 = 0x000F_FFFF_FFFF_FFF8;
/// What software may set of the registers of the exclusion range.
const EXCLUSION: [u64; 2] = [arch::amd_vi::ADDRESS | 3, arch::amd_vi::ADDRESS];

impl AmdVi {
    /// Reads `size` bytes (1, 2, 4 or 8) at `offset` from the registers' base. What lies beyond the
    /// register's eight bytes reads zero.
    pub fn read(&self, offset: u64, size: u8) -> u64 {
        let value = self.register(offset & !7) >> (offset % 8 * 8);
        value & ones(size)
    }

    /// Writes `size` bytes (1, 2, 4 or 8) at `offset` from the registers' base.
    pub fn write(&mut self, memory: &mut impl SystemMemory, offset: u64, size: u8, value: u64) {
        let shift = offset % 8 * 8;
        let lanes = ones(size) << shift;
        self.write_register(memory, offset & !7, value << shift & lanes, lanes);
    }

    fn register(&self, offset: u64) -> u64 {
        match offset {
            at::DEVICE_TABLE_BASE => self.device_table.into_bits(),
            at::COMMAND_BASE => self.commands.base.into_bits(),
            at::EVENT_BASE => self.events.base.into_bits(),
            at::CONTROL => self.control.into_bits(),
            at::EXCLUSION_BASE => self.exclusion[0],
            at::EXCLUSION_LIMIT => self.exclusion[1],
            at::EXTENDED_FEATURE => self.model.features.into_bits(),
            at::GUEST_LOG_BASE => self.guest_log.base.into_bits(),
            at::GUEST_LOG_TAIL_ADDRESS => self.guest_log_tail_address,
            at::EVENT_INTERRUPT => self.event_interrupt.into_bits(),
            at::PAGE_REQUEST_INTERRUPT => self.page_request_interrupt.into_bits(),
            at::GUEST_LOG_INTERRUPT => self.guest_log_interrupt.into_bits(),
            at::EXTENDED_FEATURE_2 => self.model.features2.into_bits(),
            at::COMMAND_HEAD => self.commands.head,
            at::COMMAND_TAIL => self.commands.tail,
            at::EVENT_HEAD => self.events.head,
            at::EVENT_TAIL => self.events.tail,
            at::STATUS => self.status.bits().into(),
            at::GUEST_LOG_HEAD => self.guest_log.head,
            at::GUEST_LOG_TAIL => self.guest_log.tail,
            _ => 0,
        }
    }

    fn write_register(
        &mut self,
        memory: &mut impl SystemMemory,
        offset: u64,
        value: u64,
        lanes: u64,
    ) {
        let merged = self.register(offset) & !lanes | value;
        match offset {
            at::DEVICE_TABLE_BASE => {
                self.device_table = DeviceTableBase::from_bits(merged & DeviceTableBase::WRITABLE);
            }
            at::COMMAND_BASE => set_base(&mut self.commands, merged),
            at::EVENT_BASE => set_base(&mut self.events, merged),
            at::GUEST_LOG_BASE => set_base(&mut self.guest_log, merged),
            at::CONTROL => self.write_control(merged),
            at::EXCLUSION_BASE => self.exclusion[0] = merged & EXCLUSION[0],
            at::EXCLUSION_LIMIT => self.exclusion[1] = merged & EXCLUSION[1],
            at::GUEST_LOG_TAIL_ADDRESS => self.guest_log_tail_address = merged & TAIL_ADDRESS,
            at::EVENT_INTERRUPT => self.event_interrupt = destination(merged),
            at::PAGE_REQUEST_INTERRUPT => self.page_request_interrupt = destination(merged),
            at::GUEST_LOG_INTERRUPT => self.guest_log_interrupt = destination(merged),
            at::COMMAND_HEAD => self.commands.head = merged & at::RING_OFFSET,
            at::COMMAND_TAIL => self.commands.tail = merged & at::RING_OFFSET,
            at::EVENT_HEAD => self.events.head = merged & at::RING_OFFSET,
            at::EVENT_TAIL => self.events.tail = merged & at::RING_OFFSET,
            at::STATUS => {
                let cleared = Status::from_bits_truncate(value as u32) & Status::WRITE_1_CLEAR;
                self.status.remove(cleared);
            }
            at::GUEST_LOG_HEAD => self.guest_log.head = merged & at::GUEST_LOG_OFFSET,
            at::GUEST_LOG_TAIL => self.guest_log.tail = merged & at::GUEST_LOG_OFFSET,
            _ => {}
        }
        self.process_commands(memory);
    }

    /// The logs begin to run when they are enabled, and so does the GA log before there is a
    /// guest mode: kernels wait for it in this order. Commands are processed only while the whole
    /// is enabled.
    fn write_control(&mut self, value: u64) {
        let before = self.control;
        let after = Control::from_bits(value & self.writable_control());
        self.control = after;
        let commands = |control: Control| control.is_enabled() && control.processes_commands();
        let events = |control: Control| control.is_enabled() && control.logs_events();
        self.follow(Status::COMMAND_RUN, commands(before), commands(after));
        self.follow(Status::EVENT_LOG_RUN, events(before), events(after));
        let is_logging = (before.logs_guest_interrupts(), after.logs_guest_interrupts());
        self.follow(Status::GUEST_LOG_RUN, is_logging.0, is_logging.1);
    }

    fn follow(&mut self, run: Status, before: bool, after: bool) {
        if before != after {
            self.status.set(run, after);
        }
    }

    /// What has no effect here can be set and read back; what is not among the features cannot.
    fn writable_control(&self) -> u64 {
        let features = self.model.features;
        let has_guest_apic = features.has_guest_apic();
        let has_guest_mode = features.guest_apic_modes() == ExtendedFeatures::VIRTUAL_APIC;
        Control::new()
            .with_is_enabled(true)
            .with_has_tunnel_translation(true)
            .with_logs_events(true)
            .with_interrupts_for_events(true)
            .with_interrupts_for_completion(true)
            .with_invalidation_timeout(7)
            .with_passes_posted_writes(true)
            .with_responses_pass_posted_writes(true)
            .with_is_coherent(true)
            .with_is_isochronous(true)
            .with_processes_commands(true)
            .with_has_wide_remapping_entries(has_guest_apic)
            .with_guest_mode(if has_guest_mode { Control::VIRTUAL_APIC } else { 0 })
            .with_logs_guest_interrupts(has_guest_apic)
            .with_interrupts_for_guest_log(has_guest_apic)
            .with_has_x2apic_destinations(features.has_x2apic())
            .with_has_x2apic_messages(features.has_x2apic())
            .into_bits()
    }
}

/// A new base begins an empty ring.
fn set_base(ring: &mut Ring, value: u64) {
    *ring = Ring { base: RingBase::from_bits(value & RingBase::WRITABLE), head: 0, tail: 0 };
}

fn destination(value: u64) -> InterruptDestination {
    InterruptDestination::from_bits(value & InterruptDestination::WRITABLE)
}

const fn ones(size: u8) -> u64 {
    match size {
        1 => 0xFF,
        2 => 0xFFFF,
        4 => 0xFFFF_FFFF,
        _ => u64::MAX,
    }
}
