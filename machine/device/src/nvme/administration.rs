//! Commands of the admin queue. [NVME "Admin Command Set"]

use super::Controller;
use super::limit::{MAXIMUM_TRANSFER, VECTORS};
use super::prp::Buffer;
use crate::pci::Attachment;
use arch::nvme::command::{Submission, admin};
use arch::nvme::status::Status;
use arch::nvme::{COMPLETION_SIZE, PAGE_SIZE, SUBMISSION_SIZE};

/// PC of a queue's creation: it is contiguous.
const IS_CONTIGUOUS: u32 = 1;
/// IEN of a completion queue's creation.
const INTERRUPTS: u32 = 2;
/// RAE of Get Log Page: events are not cleared.
const KEEPS_EVENTS: u32 = 1 << 15;
/// Dword 0 of Abort's completion: the command is not aborted.
const IS_NOT_ABORTED: u32 = 1;

impl Controller {
    /// Gives dword 0 of the completion.
    pub(super) fn administer(
        &mut self,
        port: &mut Attachment,
        command: &Submission,
    ) -> Result<u32, Status> {
        let queue = command.dword(10) as u16;
        match command.opcode {
            admin::DELETE_SUBMISSION_QUEUE => {
                self.queues.delete_submission(queue)?;
                // What it held ends with it. [NVME "Delete I/O Submission Queue command"]
                self.in_flight.retain(|one| one.queue != queue);
            }
            admin::CREATE_SUBMISSION_QUEUE => self.create_submission(command)?,
            admin::GET_LOG_PAGE => self.get_log_page(port, command)?,
            admin::DELETE_COMPLETION_QUEUE => self.queues.delete_completion(queue)?,
            admin::CREATE_COMPLETION_QUEUE => self.create_completion(command)?,
            admin::IDENTIFY => {
                let answer = self.identify(command)?;
                let buffer = Buffer::of(port, command, answer.len() as u64)?;
                buffer.fill(port, &answer)?;
            }
            admin::ABORT => return Ok(self.abort(command)),
            admin::SET_FEATURES => return self.set_feature(command),
            admin::GET_FEATURES => return self.get_feature(command),
            _ => return Err(Status::INVALID_OPCODE),
        }
        Ok(0)
    }

    fn create_submission(&mut self, command: &Submission) -> Result<(), Status> {
        let place = place(command, self.configuration.submission_size(), SUBMISSION_SIZE)?;
        let completion = (command.dword(11) >> 16) as u16;
        let limit = self.features.submission_queues;
        self.queues.create_submission(command.dword(10) as u16, limit, place, completion)
    }

    fn create_completion(&mut self, command: &Submission) -> Result<(), Status> {
        let place = place(command, self.configuration.completion_size(), COMPLETION_SIZE)?;
        let vector = (command.dword(11) >> 16) as u16;
        if vector >= VECTORS {
            return Err(Status::INVALID_VECTOR);
        }
        let vector = (command.dword(11) & INTERRUPTS != 0).then_some(vector);
        let limit = self.features.completion_queues;
        self.queues.create_completion(command.dword(10) as u16, limit, place, vector)
    }

    fn get_log_page(&mut self, port: &mut Attachment, command: &Submission) -> Result<(), Status> {
        let page = self.log_page(command)?;
        let dwords =
            u64::from(command.dword(11) & 0xFFFF) << 16 | u64::from(command.dword(10) >> 16);
        let length = (dwords + 1) * 4;
        let offset = u64::from(command.dword(13)) << 32 | u64::from(command.dword(12));
        if length > MAXIMUM_TRANSFER || offset > page.len() as u64 || !offset.is_multiple_of(4) {
            return Err(Status::INVALID_FIELD);
        }
        // What is behind the page is zero.
        let mut answer = page[offset as usize..].to_vec();
        answer.resize(length as usize, 0);
        Buffer::of(port, command, length)?.fill(port, &answer)?;
        if command.dword(10) & KEEPS_EVENTS == 0 {
            self.events.clear(command.dword(10) as u8);
        }
        Ok(())
    }

    /// A command that is not done yet ends as aborted. [NVME "Abort command"]
    fn abort(&mut self, command: &Submission) -> u32 {
        let (queue, identifier) = (command.dword(10) as u16, (command.dword(10) >> 16) as u16);
        let mut all = self.in_flight.iter_mut();
        let found = all.find(|one| one.queue == queue && one.command.identifier == identifier);
        match found {
            Some(one) => {
                one.fate = Some(Status::ABORT_REQUESTED);
                0
            }
            None => IS_NOT_ABORTED,
        }
    }
}

/// Where a queue that is to be made lies, and how many entries it has.
fn place(command: &Submission, size: u8, expected: u64) -> Result<(u64, u32), Status> {
    if 1 << size != expected {
        return Err(Status::INVALID_QUEUE_SIZE);
    }
    if command.dword(11) & IS_CONTIGUOUS == 0 {
        return Err(Status::INVALID_FIELD);
    }
    if !command.prp1.is_multiple_of(PAGE_SIZE) {
        return Err(Status::PRP_OFFSET_INVALID);
    }
    Ok((command.prp1, (command.dword(10) >> 16) + 1))
}
