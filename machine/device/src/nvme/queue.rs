//! Queues of commands and of their completions. [NVME "Submission Queue & Completion Queue
//! Definition"]

use super::event::Event;
use super::limit::{MAXIMUM_ENTRIES, MAXIMUM_QUEUE_PAIRS};
use arch::nvme::command::Completion;
use arch::nvme::status::Status;
use arch::nvme::{COMPLETION_SIZE, SUBMISSION_SIZE};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Places of a ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Ring {
    base: u64,
    /// Entries.
    size: u32,
    head: u32,
    tail: u32,
}

impl Ring {
    const fn new(base: u64, size: u32) -> Self {
        Self { base, size, head: 0, tail: 0 }
    }

    const fn next(&self, place: u32) -> u32 {
        if place.saturating_add(1) >= self.size { 0 } else { place + 1 }
    }

    /// From one place on to another.
    const fn distance(&self, from: u32, to: u32) -> u32 {
        if to >= from { to - from } else { to.saturating_add(self.size).saturating_sub(from) }
    }

    const fn is_empty(&self) -> bool {
        self.head == self.tail
    }

    const fn is_full(&self) -> bool {
        self.next(self.tail) == self.head
    }

    /// Moves the head or the tail, which may pass no more than `most` entries and must pass one.
    fn advance(&self, from: u32, to: u32, most: u32) -> Result<u32, Event> {
        let is_allowed = to < self.size && (1..=most).contains(&self.distance(from, to));
        if is_allowed { Ok(to) } else { Err(Event::InvalidDoorbellValue) }
    }
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct SubmissionQueue {
    ring: Ring,
    completion: u16,
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct CompletionQueue {
    ring: Ring,
    phase: bool,
    vector: Option<u16>,
}

/// A completion with its place, and who is told.
pub(super) struct Posted {
    pub address: u64,
    pub completion: Completion,
    pub vector: Option<u16>,
}

/// All queues by their identifiers; 0 are the admin queues.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Queues {
    submission: BTreeMap<u16, SubmissionQueue>,
    completion: BTreeMap<u16, CompletionQueue>,
    /// Whose turn it was last.
    last: u16,
}

impl Queues {
    /// Bases and entries of the admin queues; their vector is 0.
    pub fn open_admin(&mut self, submission: (u64, u32), completion: (u64, u32)) {
        let ring = Ring::new(submission.0, submission.1);
        self.submission.insert(0, SubmissionQueue { ring, completion: 0 });
        let ring = Ring::new(completion.0, completion.1);
        self.completion.insert(0, CompletionQueue { ring, phase: true, vector: Some(0) });
    }

    /// Whether there is any but the admin queues.
    pub fn has_io(&self) -> bool {
        self.submission.len() > 1 || self.completion.len() > 1
    }

    /// An I/O submission queue. `limit` is the largest identifier that was granted.
    pub fn create_submission(
        &mut self,
        queue: u16,
        limit: u16,
        (base, size): (u64, u32),
        completion: u16,
    ) -> Result<(), Status> {
        check(queue, limit, self.submission.contains_key(&queue), size)?;
        if !self.completion.contains_key(&completion) || completion == 0 {
            let is_possible = (1..=MAXIMUM_QUEUE_PAIRS).contains(&completion);
            let absent = Status::COMPLETION_QUEUE_INVALID;
            return Err(if is_possible { absent } else { Status::INVALID_QUEUE });
        }
        let ring = Ring::new(base, size);
        self.submission.insert(queue, SubmissionQueue { ring, completion });
        Ok(())
    }

    /// An I/O completion queue, with a vector if it interrupts.
    pub fn create_completion(
        &mut self,
        queue: u16,
        limit: u16,
        (base, size): (u64, u32),
        vector: Option<u16>,
    ) -> Result<(), Status> {
        check(queue, limit, self.completion.contains_key(&queue), size)?;
        let ring = Ring::new(base, size);
        self.completion.insert(queue, CompletionQueue { ring, phase: true, vector });
        Ok(())
    }

    pub fn delete_submission(&mut self, queue: u16) -> Result<(), Status> {
        let found = (queue != 0).then(|| self.submission.remove(&queue)).flatten();
        found.map(|_| ()).ok_or(Status::INVALID_QUEUE)
    }

    pub fn delete_completion(&mut self, queue: u16) -> Result<(), Status> {
        if queue == 0 || !self.completion.contains_key(&queue) {
            return Err(Status::INVALID_QUEUE);
        }
        if self.submission.values().any(|one| one.completion == queue) {
            return Err(Status::INVALID_QUEUE_DELETION);
        }
        self.completion.remove(&queue);
        Ok(())
    }

    /// The driver has put commands up to `tail` into a queue.
    pub fn submit(&mut self, queue: u16, tail: u32) -> Result<(), Event> {
        let found = self.submission.get_mut(&queue).ok_or(Event::InvalidDoorbellRegister)?;
        let ring = &mut found.ring;
        let room = ring.size.saturating_sub(1).saturating_sub(ring.distance(ring.head, ring.tail));
        ring.tail = ring.advance(ring.tail, tail, room)?;
        Ok(())
    }

    /// The driver has seen completions up to `head` of a queue.
    pub fn release(&mut self, queue: u16, head: u32) -> Result<(), Event> {
        let found = self.completion.get_mut(&queue).ok_or(Event::InvalidDoorbellRegister)?;
        let ring = &mut found.ring;
        let posted = ring.distance(ring.head, ring.tail);
        ring.head = ring.advance(ring.head, head, posted)?;
        Ok(())
    }

    /// Takes the next command's place from the queue whose turn it is.
    pub fn take(&mut self) -> Option<(u16, u64)> {
        let after = self.submission.range(self.last.saturating_add(1)..);
        let mut all = after.chain(self.submission.range(..=self.last));
        let queue = *all.find(|(_, one)| !one.ring.is_empty())?.0;
        self.last = queue;
        let ring = &mut self.submission.get_mut(&queue)?.ring;
        let address = ring.base.wrapping_add(u64::from(ring.head) * SUBMISSION_SIZE);
        ring.head = ring.next(ring.head);
        Some((queue, address))
    }

    fn completion_of(&self, submission: u16) -> Option<u16> {
        Some(self.submission.get(&submission)?.completion)
    }

    /// Whether a command of a submission queue can be completed.
    pub fn has_room(&self, submission: u16) -> bool {
        let queue = self.completion_of(submission).and_then(|queue| self.completion.get(&queue));
        queue.is_some_and(|queue| !queue.ring.is_full())
    }

    /// Takes the place of the next completion for a command of a submission queue.
    pub fn post(
        &mut self,
        submission: u16,
        identifier: u16,
        result: u32,
        status: Status,
    ) -> Option<Posted> {
        let from = self.submission.get(&submission)?;
        let head = from.ring.head as u16;
        let queue = self.completion.get_mut(&from.completion)?;
        let phase = queue.phase;
        let completion = Completion { result, head, queue: submission, identifier, phase, status };
        let ring = &mut queue.ring;
        let address = ring.base.wrapping_add(u64::from(ring.tail) * COMPLETION_SIZE);
        ring.tail = ring.next(ring.tail);
        if ring.tail == 0 {
            queue.phase = !phase;
        }
        Some(Posted { address, completion, vector: queue.vector })
    }
}

fn check(queue: u16, limit: u16, is_there: bool, size: u32) -> Result<(), Status> {
    if queue == 0 || queue > limit || is_there {
        return Err(Status::INVALID_QUEUE);
    }
    let is_size = (2..=MAXIMUM_ENTRIES).contains(&size);
    if is_size { Ok(()) } else { Err(Status::INVALID_QUEUE_SIZE) }
}
