//! The register file. [VTD "Register Descriptions"]
//!
//! Registers are reached by dwords and quadwords; a quadword is its lower dword first. Writes of
//! other sizes are dropped.

use super::unit::{INVALIDATION, RECORD};
use super::{EventMessage, VtD};
use crate::SystemMemory;
use arch::vt_d::register::{
    self as at, EventControl, FaultStatus, QueueAddress, RemappingTableAddress, RootTableAddress,
};
use arch::vt_d::{FaultRecord, GlobalCommand};

const INVALIDATION_COMMAND: u64 = INVALIDATION + 8;
/// 1.0.
const VERSION: u32 = 0x10;
/// Bits 18:4.
const QUEUE_OFFSET: u64 = 0x7_FFF0;
/// Bit 63 of both commands by registers: asked for, and clear when it is done.
const BUSY: u64 = 1 << 63;

impl VtD {
    /// Reads `size` bytes at `offset` from the registers' base.
    pub fn read(&self, offset: u64, size: u8) -> u64 {
        let quadword = self.quadword(offset & !7) >> (offset % 8 * 8);
        match size {
            1 => quadword & 0xFF,
            2 => quadword & 0xFFFF,
            4 => quadword & 0xFFFF_FFFF,
            _ => quadword,
        }
    }

    /// Writes 4 or 8 bytes at `offset` from the registers' base.
    pub fn write(&mut self, memory: &mut impl SystemMemory, offset: u64, size: u8, value: u64) {
        if offset.is_multiple_of(4) && matches!(size, 4 | 8) {
            self.write_dword(offset, value as u32);
            if size == 8 {
                self.write_dword(offset.wrapping_add(4), (value >> 32) as u32);
            }
            self.process_queue(memory);
        }
    }

    fn quadword(&self, offset: u64) -> u64 {
        let pair = |low: u32, high: u32| u64::from(high) << 32 | u64::from(low);
        let (fault, completion) = (self.fault_event, self.completion_event);
        let record = self.record.into_bits();
        match offset {
            at::VERSION => VERSION.into(),
            at::CAPABILITY => self.model.capability.into_bits(),
            at::EXTENDED_CAPABILITY => self.model.extended.into_bits(),
            at::GLOBAL_COMMAND => pair(0, self.status.bits()),
            at::ROOT_TABLE_ADDRESS => self.root_register,
            at::CONTEXT_COMMAND => self.context_command,
            0x30 => pair(0, self.fault_status().bits()),
            at::FAULT_EVENT_CONTROL => pair(fault.control.bits(), fault.data),
            at::FAULT_EVENT_ADDRESS => pair(fault.address, fault.upper_address),
            at::QUEUE_HEAD => self.queue_head,
            at::QUEUE_TAIL => self.queue_tail,
            at::QUEUE_ADDRESS => self.queue.into_bits(),
            0x98 => pair(0, self.is_wait_complete.into()),
            at::INVALIDATION_EVENT_CONTROL => pair(completion.control.bits(), completion.data),
            at::INVALIDATION_EVENT_ADDRESS => pair(completion.address, completion.upper_address),
            at::REMAPPING_TABLE_ADDRESS => self.remapping_register,
            INVALIDATION => self.invalidation[0],
            INVALIDATION_COMMAND => self.invalidation[1],
            RECORD => record as u64,
            const_record::HIGH => (record >> 64) as u64,
            _ => 0,
        }
    }

    fn fault_status(&self) -> FaultStatus {
        let mut status = self.faults;
        status.set(FaultStatus::PENDING, self.record.is_valid());
        status
    }

    fn write_dword(&mut self, offset: u64, value: u32) {
        let (is_high, quadword) = (offset % 8 == 4, offset & !7);
        let merged = merge(self.quadword(quadword), is_high, value);
        match quadword {
            at::GLOBAL_COMMAND if !is_high => self.command(GlobalCommand::from_bits_retain(value)),
            at::ROOT_TABLE_ADDRESS => self.root_register = merged & !0x3FF,
            at::REMAPPING_TABLE_ADDRESS => self.remapping_register = merged & !0x7F0,
            // Done at once: granted is what was asked for.
            at::CONTEXT_COMMAND => {
                let asked = merged >> 61 & 3;
                self.context_command = merged & !BUSY & !(3 << 59) | asked << 59;
            }
            INVALIDATION => self.invalidation[0] = merged,
            INVALIDATION_COMMAND => {
                let asked = merged >> 60 & 3;
                self.invalidation[1] = merged & !BUSY & !(3 << 57) | asked << 57;
            }
            0x30 if is_high => {
                let cleared = FaultStatus::from_bits_truncate(value) & FaultStatus::WRITE_1_CLEAR;
                self.faults.remove(cleared);
            }
            at::FAULT_EVENT_CONTROL | at::FAULT_EVENT_ADDRESS => {
                let is_address = quadword == at::FAULT_EVENT_ADDRESS;
                let is_sent = self.fault_event.write(is_address, is_high, value);
                self.send(is_sent, self.fault_event);
            }
            at::INVALIDATION_EVENT_CONTROL | at::INVALIDATION_EVENT_ADDRESS => {
                let is_address = quadword == at::INVALIDATION_EVENT_ADDRESS;
                let is_sent = self.completion_event.write(is_address, is_high, value);
                self.send(is_sent, self.completion_event);
            }
            at::QUEUE_TAIL if !is_high => self.queue_tail = merged & QUEUE_OFFSET,
            at::QUEUE_ADDRESS => self.queue = QueueAddress::from_bits(merged & !0xFF8),
            0x98 if is_high => self.is_wait_complete &= value & 1 == 0,
            const_record::HIGH if is_high && value >> 31 != 0 => {
                self.record = FaultRecord::new();
            }
            _ => {}
        }
    }

    /// Levels follow; what has none acts, however often it is written.
    /// [VTD "Global Command Register"]
    fn command(&mut self, command: GlobalCommand) {
        let levels = GlobalCommand::TRANSLATION_ENABLE
            | GlobalCommand::QUEUE_ENABLE
            | GlobalCommand::REMAPPING_ENABLE
            | GlobalCommand::COMPATIBILITY_FORMAT;
        let starts_queue = command.contains(GlobalCommand::QUEUE_ENABLE)
            && !self.status.contains(GlobalCommand::QUEUE_ENABLE);
        if starts_queue {
            self.queue_head = 0;
        }
        if command.contains(GlobalCommand::SET_ROOT_TABLE) {
            self.root = RootTableAddress::from_bits(self.root_register);
            self.status.insert(GlobalCommand::SET_ROOT_TABLE);
        }
        if command.contains(GlobalCommand::SET_REMAPPING_TABLE) {
            self.remapping = RemappingTableAddress::from_bits(self.remapping_register);
            self.status.insert(GlobalCommand::SET_REMAPPING_TABLE);
        }
        self.status = self.status - levels | command & levels;
    }
}

/// The upper half of the record, as a pattern.
mod const_record {
    pub const HIGH: u64 = super::RECORD + 8;
}

impl EventMessage {
    /// Writes one of the four registers; true if a message that waited is sent now.
    fn write(&mut self, is_address: bool, is_high: bool, value: u32) -> bool {
        match (is_address, is_high) {
            (false, false) => {
                let is_masked = EventControl::from_bits_truncate(value) & EventControl::MASKED;
                let waited = self.control.contains(EventControl::PENDING);
                let is_sent = waited && is_masked.is_empty();
                let pending =
                    if waited && !is_sent { EventControl::PENDING } else { EventControl::empty() };
                self.control = is_masked | pending;
                return is_sent;
            }
            (false, true) => self.data = value & 0xFFFF,
            (true, false) => self.address = value & !3,
            (true, true) => self.upper_address = value,
        }
        false
    }
}

fn merge(before: u64, is_high: bool, value: u32) -> u64 {
    if is_high {
        before & 0xFFFF_FFFF | u64::from(value) << 32
    } else {
        before >> 32 << 32 | u64::from(value)
    }
}
