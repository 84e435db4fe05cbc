//! A channel: its registers, and its way through a chain of descriptors.
//! [IOAT "DMA Channel Registers"]

use super::register::{
    ChannelCommand, ChannelControl, ChannelError, DESCRIPTOR_SIZE, Descriptor, State,
    TRANSFER_LIMIT, channel as register,
};
use crate::lanes;
use crate::pci::Attachment;
use arch::time::Picoseconds;
use serde::{Deserialize, Serialize};

/// From a descriptor's turn to its end, without its bytes.
pub const LATENCY: Picoseconds = Picoseconds::from_nanoseconds(500);
/// A byte at 10 GB/s, in picoseconds.
const BYTE: u64 = 100;
/// Bytes that are moved at a time.
const PIECE: u64 = 4096;

/// The descriptor that is worked on.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct Work {
    descriptor: Descriptor,
    ends: Picoseconds,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Channel {
    control: ChannelControl,
    state: State,
    /// The last descriptor that is done.
    completed: u64,
    chain: u64,
    /// No descriptor of the chain was begun: it needs no command to start.
    is_new: bool,
    /// The descriptor whose turn is next, or is now.
    current: u64,
    completion: u64,
    error: ChannelError,
    error_mask: u32,
    /// Descriptors that may be done and those that are, since the chain began; they wrap.
    count: u16,
    done: u16,
    work: Option<Work>,
}

impl Default for Channel {
    fn default() -> Self {
        Self {
            control: ChannelControl::empty(),
            state: State::Halted,
            completed: 0,
            chain: 0,
            is_new: false,
            current: 0,
            completion: 0,
            error: ChannelError::empty(),
            error_mask: 0,
            count: 0,
            done: 0,
            work: None,
        }
    }
}

impl Channel {
    /// Whether it has interrupted and was not rearmed.
    pub fn is_interrupt_disabled(&self) -> bool {
        self.control.contains(ChannelControl::INTERRUPT_DISABLE)
    }

    /// Eight bytes of its registers.
    pub fn word(&self, offset: u64) -> u64 {
        match offset {
            register::CONTROL => u64::from(self.control.bits()) | u64::from(self.count) << 48,
            register::STATUS => self.status(),
            register::CHAIN => self.chain,
            register::COMPLETION => self.completion,
            register::CURRENT => self.current,
            register::ERROR => u64::from(self.error.bits()) | u64::from(self.error_mask) << 32,
            _ => 0,
        }
    }

    /// Completed descriptors' addresses are multiples of 64: the state has room below.
    fn status(&self) -> u64 {
        self.completed | self.state as u64
    }

    /// Writes 1, 2 or 4 bytes; true if the channel interrupts.
    #[must_use]
    pub fn write(&mut self, port: &mut Attachment, offset: u64, size: u8, value: u64) -> bool {
        let touches = |at: u64| (offset..offset + u64::from(size)).contains(&at);
        let (within, dword) = (offset & 7, (value as u32, size == 4));
        match offset & !7 {
            register::CONTROL => {
                let word = lanes::insert(self.word(register::CONTROL), within, size, value);
                if touches(register::CONTROL) {
                    self.write_control(word as u16, value << (within * 8) & 1 != 0);
                }
                if touches(register::COMMAND) {
                    self.command(port, ChannelCommand::from_bits_truncate((word >> 32) as u8));
                }
                if touches(register::COUNT) {
                    self.count = (word >> 48) as u16;
                    return self.start(port);
                }
            }
            register::CHAIN => {
                self.chain = lanes::insert(self.chain, within, size, value);
                (self.is_new, self.current) = (true, self.chain);
                (self.count, self.done, self.work) = (0, 0, None);
            }
            register::COMPLETION => {
                self.completion = lanes::insert(self.completion, within, size, value) & !7;
            }
            register::ERROR if offset == register::ERROR && dword.1 => {
                self.error.remove(ChannelError::from_bits_truncate(dword.0));
            }
            register::ERROR if offset == register::ERROR_MASK && dword.1 => {
                self.error_mask = dword.0;
            }
            _ => {}
        }
        false
    }

    fn write_control(&mut self, value: u16, rearms: bool) {
        let was_disabled = self.is_interrupt_disabled();
        self.control = ChannelControl::from_bits_truncate(value);
        self.control.set(ChannelControl::INTERRUPT_DISABLE, was_disabled && !rearms);
    }

    fn command(&mut self, port: &mut Attachment, command: ChannelCommand) {
        if command.contains(ChannelCommand::RESET) {
            *self = Self::default();
        } else if command.contains(ChannelCommand::ABORT) {
            (self.state, self.is_new, self.work) = (State::Halted, false, None);
        } else if command.contains(ChannelCommand::SUSPEND) && self.state != State::Halted {
            // A descriptor that was begun is begun again.
            (self.state, self.work) = (State::Suspended, None);
        } else if command.contains(ChannelCommand::RESUME) && self.state == State::Suspended {
            self.state = State::Done;
            // What cannot be fetched is an error that interrupts later, if it does.
            let _ = self.start(port);
        }
    }

    /// Goes on if it may and there is something to do.
    fn start(&mut self, port: &mut Attachment) -> bool {
        let stands = matches!(self.state, State::Suspended | State::Halted) && !self.is_new;
        if stands || self.work.is_some() || self.count == self.done {
            return false;
        }
        let alignment =
            if self.is_new { ChannelError::CHAIN_ADDRESS } else { ChannelError::NEXT_ALIGNMENT };
        self.is_new = false;
        if !self.current.is_multiple_of(DESCRIPTOR_SIZE) {
            return self.fail(port, alignment);
        }
        let mut bytes = [0; DESCRIPTOR_SIZE as usize];
        if port.read(self.current, &mut bytes).is_err() {
            return self.fail(port, ChannelError::NEXT_ADDRESS);
        }
        let descriptor = Descriptor::from_bytes(&bytes);
        let bytes = if descriptor.control.is_null() { 0 } else { u64::from(descriptor.size) };
        let takes = LATENCY.saturating_add(Picoseconds(bytes.min(1 << TRANSFER_LIMIT) * BYTE));
        self.state = State::Active;
        self.work = Some(Work { descriptor, ends: port.now().saturating_add(takes) });
        false
    }

    pub fn next_deadline(&self) -> Option<Picoseconds> {
        self.work.map(|work| work.ends)
    }

    /// Does the descriptor whose time has passed; true if the channel interrupts.
    #[must_use]
    pub fn advance(&mut self, port: &mut Attachment) -> bool {
        let Some(work) = self.work.take_if(|work| work.ends <= port.now()) else { return false };
        let control = work.descriptor.control;
        if let Err(error) = execute(port, &work.descriptor) {
            return self.fail(port, error);
        }
        self.completed = self.current;
        self.current = work.descriptor.next;
        self.done = self.done.wrapping_add(1);
        if self.done == self.count {
            self.state = State::Done;
        }
        if control.writes_status() && self.write_status(port).is_err() {
            return self.fail(port, ChannelError::COMPLETION_ADDRESS);
        }
        let interrupts = control.interrupts() && self.take_interrupt();
        self.start(port) || interrupts
    }

    /// An error ends the chain, whether or not it is one that drivers ask to abort for.
    fn fail(&mut self, port: &mut Attachment, error: ChannelError) -> bool {
        self.error.insert(error);
        (self.state, self.work) = (State::Halted, None);
        if self.control.contains(ChannelControl::ERROR_COMPLETION)
            && self.write_status(port).is_err()
        {
            self.error.insert(ChannelError::COMPLETION_ADDRESS);
        }
        let is_told = self.control.contains(ChannelControl::ERROR_INTERRUPT)
            && error.bits() & !self.error_mask != 0;
        is_told && self.take_interrupt()
    }

    fn write_status(&self, port: &mut Attachment) -> Result<(), bus::DmaFault> {
        port.write(self.completion, &self.status().to_le_bytes())
    }

    /// One interrupt for each time that the driver arms it.
    fn take_interrupt(&mut self) -> bool {
        let is_armed = !self.is_interrupt_disabled();
        self.control.insert(ChannelControl::INTERRUPT_DISABLE);
        is_armed
    }
}

/// Does what a descriptor asks for.
fn execute(port: &mut Attachment, descriptor: &Descriptor) -> Result<(), ChannelError> {
    let size = u64::from(descriptor.size);
    if descriptor.control.operation() != 0 {
        return Err(ChannelError::DESCRIPTOR_CONTROL);
    }
    if size == 0 || size > 1 << TRANSFER_LIMIT {
        return Err(ChannelError::LENGTH);
    }
    if descriptor.control.is_null() {
        return Ok(());
    }
    let mut piece = [0; PIECE as usize];
    // Bounded by the limit of a transfer.
    for at in (0..size).step_by(PIECE as usize) {
        let piece = &mut piece[..PIECE.min(size - at) as usize];
        let read = port.read(descriptor.source.wrapping_add(at), piece);
        read.map_err(|_| ChannelError::SOURCE_ADDRESS)?;
        let written = port.write(descriptor.destination.wrapping_add(at), piece);
        written.map_err(|_| ChannelError::DESTINATION_ADDRESS)?;
    }
    Ok(())
}
