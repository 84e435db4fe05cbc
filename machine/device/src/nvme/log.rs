//! Log pages. [NVME "Get Log Page command"]

use super::Controller;
use super::limit::{ERROR_ENTRIES, FIRMWARE, NAMESPACE, TEMPERATURE};
use crate::storage::SECTOR_SIZE;
use arch::nvme::ALL_NAMESPACES;
use arch::nvme::command::Submission;
use arch::nvme::identify::{error, health, log};
use arch::nvme::status::Status;
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;

const NONE: u16 = 0xFFFF;

#[derive(Clone, Debug, Serialize, Deserialize)]
struct ErrorEntry {
    count: u64,
    queue: u16,
    identifier: u16,
    status: Status,
    block: u64,
    namespace: u32,
}

/// What is counted since power-on, and the latest errors.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Log {
    /// The youngest first.
    errors: VecDeque<ErrorEntry>,
    error_count: u64,
    reads: u64,
    bytes_read: u64,
    writes: u64,
    bytes_written: u64,
}

impl Log {
    /// Notes how a command failed, or that a doorbell was wrong.
    pub fn note(&mut self, queue: u16, command: Option<&Submission>, status: Status) {
        self.error_count = self.error_count.saturating_add(1);
        self.errors.truncate(ERROR_ENTRIES - 1);
        self.errors.push_front(ErrorEntry {
            count: self.error_count,
            queue,
            identifier: command.map_or(NONE, |command| command.identifier),
            status,
            block: command.map_or(0, |command| if queue == 0 { 0 } else { command.first_block() }),
            namespace: command.map_or(0, |command| command.namespace),
        });
    }

    pub fn count_read(&mut self, bytes: u64) {
        self.reads = self.reads.saturating_add(1);
        self.bytes_read = self.bytes_read.saturating_add(bytes);
    }

    pub fn count_write(&mut self, bytes: u64) {
        self.writes = self.writes.saturating_add(1);
        self.bytes_written = self.bytes_written.saturating_add(bytes);
    }

    fn error_page(&self) -> Vec<u8> {
        let mut page = vec![0; ERROR_ENTRIES * error::SIZE];
        for (place, entry) in page.chunks_exact_mut(error::SIZE).zip(&self.errors) {
            let mut put =
                |at: usize, bytes: &[u8]| place[at..at + bytes.len()].copy_from_slice(bytes);
            put(error::COUNT, &entry.count.to_le_bytes());
            put(error::QUEUE, &entry.queue.to_le_bytes());
            put(error::IDENTIFIER, &entry.identifier.to_le_bytes());
            put(error::STATUS, &(entry.status.into_bits() << 1).to_le_bytes());
            put(error::LOCATION, &NONE.to_le_bytes());
            put(error::BLOCK, &entry.block.to_le_bytes());
            put(error::NAMESPACE, &entry.namespace.to_le_bytes());
        }
        page
    }

    fn health_page(&self, is_too_warm: bool) -> Vec<u8> {
        let mut page = vec![0; log::SIZE];
        let mut put = |at: usize, bytes: &[u8]| page[at..at + bytes.len()].copy_from_slice(bytes);
        let units = |bytes: u64| bytes.div_ceil(1000 * SECTOR_SIZE as u64);
        put(health::WARNING, &[if is_too_warm { health::TEMPERATURE } else { 0 }]);
        put(health::COMPOSITE, &TEMPERATURE.to_le_bytes());
        put(health::SPARE, &[100]);
        put(health::SPARE_THRESHOLD, &[10]);
        put(health::UNITS_READ, &units(self.bytes_read).to_le_bytes());
        put(health::UNITS_WRITTEN, &units(self.bytes_written).to_le_bytes());
        put(health::READS, &self.reads.to_le_bytes());
        put(health::WRITES, &self.writes.to_le_bytes());
        put(health::ERRORS, &self.error_count.to_le_bytes());
        page
    }
}

fn firmware_page() -> Vec<u8> {
    let mut page = vec![0; log::SIZE];
    page[0] = 1;
    page[8..16].copy_from_slice(FIRMWARE);
    page
}

impl Controller {
    /// A whole log page.
    pub(super) fn log_page(&self, command: &Submission) -> Result<Vec<u8>, Status> {
        match command.dword(10) as u8 {
            log::ERROR => Ok(self.log.error_page()),
            // There is no page for each namespace.
            log::HEALTH if !matches!(command.namespace, 0 | ALL_NAMESPACES) => {
                let is_there = command.namespace == NAMESPACE;
                Err(if is_there { Status::INVALID_FIELD } else { Status::INVALID_NAMESPACE })
            }
            log::HEALTH => Ok(self.log.health_page(self.features.is_too_warm())),
            log::FIRMWARE_SLOT => Ok(firmware_page()),
            _ => Err(Status::INVALID_LOG_PAGE),
        }
    }
}
