//! What the controller and its namespace are. [NVME "Identify command"]

use super::Controller;
use super::event::MAXIMUM_REQUESTS;
use super::limit::{ERROR_ENTRIES, FIRMWARE, IDENTITY, LONGEST_TRANSFER, NAMESPACE, WARM};
use arch::nvme::command::Submission;
use arch::nvme::identify::{SIZE, controller, descriptor, namespace, structure};
use arch::nvme::register::VERSION_1_4;
use arch::nvme::status::Status;

/// Kelvins that are too hot.
const HOT: u16 = 353;
/// Blocks of 512 bytes, as LBAF has it.
const BLOCK_FORMAT: u32 = 9 << 16;
/// Powers of two of the entries of queues, required below and greatest above.
const SUBMISSION_SIZES: u8 = 0x66;
const COMPLETION_SIZES: u8 = 0x44;
/// 25 watts, in hundredths.
const POWER: u16 = 2500;

impl Controller {
    pub(super) fn identify(&self, command: &Submission) -> Result<Vec<u8>, Status> {
        let is_there = command.namespace == NAMESPACE;
        match command.dword(10) as u8 {
            structure::CONTROLLER => Ok(self.identify_controller()),
            structure::NAMESPACE if is_there => Ok(self.identify_namespace()),
            structure::DESCRIPTORS if is_there => Ok(self.descriptors()),
            // The two largest identifiers belong to no namespace.
            structure::ACTIVE_NAMESPACES if command.namespace < 0xFFFF_FFFE => {
                let mut answer = vec![0; SIZE];
                if command.namespace < NAMESPACE {
                    answer[..4].copy_from_slice(&NAMESPACE.to_le_bytes());
                }
                Ok(answer)
            }
            structure::NAMESPACE | structure::DESCRIPTORS | structure::ACTIVE_NAMESPACES => {
                Err(Status::INVALID_NAMESPACE)
            }
            _ => Err(Status::INVALID_FIELD),
        }
    }

    fn identify_controller(&self) -> Vec<u8> {
        let mut answer = vec![0; SIZE];
        let mut put = |at: usize, bytes: &[u8]| answer[at..at + bytes.len()].copy_from_slice(bytes);
        let number = self.number;
        put(controller::VENDOR, &IDENTITY.0.to_le_bytes());
        put(controller::SUBSYSTEM_VENDOR, &IDENTITY.0.to_le_bytes());
        put(controller::SERIAL_NUMBER, format!("{:<20}", format!("nvme{number}")).as_bytes());
        put(controller::MODEL_NUMBER, format!("{:<40}", "Avicenna NVMe").as_bytes());
        put(controller::FIRMWARE, FIRMWARE);
        put(controller::LONGEST_TRANSFER, &[LONGEST_TRANSFER]);
        put(controller::VERSION, &VERSION_1_4.to_le_bytes());
        put(controller::KIND, &[controller::IO_CONTROLLER]);
        put(controller::EVENT_REQUEST_LIMIT, &[MAXIMUM_REQUESTS as u8 - 1]);
        // One slot, read-only.
        put(controller::FIRMWARE_UPDATES, &[1 << 1 | 1]);
        put(controller::LOG_PAGES, &[controller::EXTENDED_LOG_DATA]);
        put(controller::ERROR_LOG_ENTRIES, &[ERROR_ENTRIES as u8 - 1]);
        put(controller::WARNING_TEMPERATURE, &WARM.to_le_bytes());
        put(controller::CRITICAL_TEMPERATURE, &HOT.to_le_bytes());
        put(controller::SUBMISSION_SIZE, &[SUBMISSION_SIZES]);
        put(controller::COMPLETION_SIZE, &[COMPLETION_SIZES]);
        put(controller::NAMESPACES, &NAMESPACE.to_le_bytes());
        let commands = controller::DATASET_MANAGEMENT | controller::WRITE_ZEROES;
        put(controller::OPTIONAL_COMMANDS, &commands.to_le_bytes());
        let cache = controller::VOLATILE_WRITE_CACHE | controller::FLUSHES_ALL;
        put(controller::WRITE_CACHE, &[cache]);
        let name = format!(
            "nqn.2014-08.org.nvmexpress:uuid:61766963-656e-4e61-8000-0000000000{number:02x}"
        );
        put(controller::SUBSYSTEM_NAME, name.as_bytes());
        put(controller::POWER_STATES, &POWER.to_le_bytes());
        answer
    }

    fn identify_namespace(&self) -> Vec<u8> {
        let mut answer = vec![0; SIZE];
        let mut put = |at: usize, bytes: &[u8]| answer[at..at + bytes.len()].copy_from_slice(bytes);
        for at in [namespace::SIZE, namespace::CAPACITY, namespace::USED] {
            put(at, &self.disk.sectors().to_le_bytes());
        }
        if self.disk.is_read_only() {
            put(namespace::ATTRIBUTES, &[namespace::IS_WRITE_PROTECTED]);
        }
        put(namespace::GLOBAL_IDENTIFIER, &self.global_identifier());
        put(namespace::EXTENDED_IDENTIFIER, &self.extended_identifier());
        put(namespace::FORMATS, &BLOCK_FORMAT.to_le_bytes());
        answer
    }

    fn descriptors(&self) -> Vec<u8> {
        let mut answer = Vec::with_capacity(SIZE);
        answer.extend([descriptor::EXTENDED, 8, 0, 0]);
        answer.extend(self.extended_identifier());
        answer.extend([descriptor::GLOBAL, 16, 0, 0]);
        answer.extend(self.global_identifier());
        answer.resize(SIZE, 0);
        answer
    }

    /// Locally administered, as the hardware addresses of network functions are.
    const fn extended_identifier(&self) -> [u8; 8] {
        [0x52, 0x54, 0, 0, 0, 0, 4, self.number]
    }

    /// A vendor's part of 8 bytes, then as [`Self::extended_identifier`].
    const fn global_identifier(&self) -> [u8; 16] {
        [0x61, 0x76, 0x69, 0x63, 0, 0, 0, self.number, 0x52, 0x54, 0, 0, 0, 0, 4, self.number]
    }
}
