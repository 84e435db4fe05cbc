//! The console device with several named ports. [VIRTIO "Console Device"]
//!
//! Port 0 is a console; further ports are byte channels that a guest finds by name. Output is kept
//! until the board takes it, which it is told to do; input until the guest has opened the port and
//! offers buffers, because drivers discard what comes to a closed port.

use super::queue::{Broken, Queue};
use super::round::{Budget, Progress, Served, serve_each};
use crate::lanes;
use crate::pci::Attachment;
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;

/// Ports that a console has at most, port 0 included; later names are dropped.
pub const MAXIMUM_PORTS: usize = 8;
/// Output that is kept for the board; a guest that writes on has to wait.
const OUTPUT_LIMIT: usize = 1 << 20;
/// Input that is kept for the guest.
pub const INPUT_LIMIT: usize = 64 << 20;
/// Control messages that wait for buffers.
const CONTROL_LIMIT: usize = 64;
const PIECE: usize = 4096;

const FEATURE_MULTIPORT: u64 = 1 << 1;

/// Queues: input and output of port 0, control in both directions, then the other ports.
pub(super) const CONTROL_INPUT: usize = 2;
const CONTROL_OUTPUT: usize = 3;

mod event {
    pub const DEVICE_READY: u16 = 0;
    pub const PORT_ADD: u16 = 1;
    pub const PORT_READY: u16 = 3;
    pub const CONSOLE_PORT: u16 = 4;
    pub const PORT_OPEN: u16 = 6;
    pub const PORT_NAME: u16 = 7;
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct Port {
    name: String,
    output: VecDeque<u8>,
    input: VecDeque<u8>,
    /// The guest has opened the port (or port 0 without named ports).
    is_open: bool,
}

/// A console device: port 0 and named channels, each with its buffers.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Console {
    ports: Vec<Port>,
    /// Control messages to the guest.
    control: VecDeque<Vec<u8>>,
    /// The guest has begun to use the control queues, so it opens ports before it reads them.
    opens_ports: bool,
}

impl Console {
    /// A console with port 0 and a port for each of `names`.
    pub fn new(names: &[String]) -> Self {
        let named = names.iter().map(|name| Port { name: name.clone(), ..Port::default() });
        let ports = core::iter::once(Port::default()).chain(named).take(MAXIMUM_PORTS).collect();
        Self { ports, control: VecDeque::new(), opens_ports: false }
    }

    pub(super) fn queue_count(&self) -> usize {
        if self.ports.len() == 1 { 2 } else { 2 * (self.ports.len() + 1) }
    }

    pub(super) fn features(&self) -> u64 {
        if self.ports.len() > 1 { FEATURE_MULTIPORT } else { 0 }
    }

    /// Columns, rows, then the number of ports.
    pub(super) fn read_configuration(&self, offset: u64, size: u8) -> u32 {
        let mut bytes = [0; 12];
        bytes[4..8].copy_from_slice(&(self.ports.len() as u32).to_le_bytes());
        lanes::load(&bytes, offset, size) as u32
    }

    pub(super) fn reset(&mut self) {
        self.control.clear();
        self.opens_ports = false;
        self.ports.iter_mut().for_each(|port| port.is_open = false);
    }

    /// What the guest wrote to a port since the last call.
    pub fn take_output(&mut self, port: usize) -> Vec<u8> {
        self.ports.get_mut(port).map_or_else(Vec::new, |port| port.output.drain(..).collect())
    }

    /// The names of the ports after port 0.
    pub fn names(&self) -> Vec<&str> {
        self.ports.iter().skip(1).map(|port| port.name.as_str()).collect()
    }

    /// The index of a named port.
    pub fn port(&self, name: &str) -> Option<usize> {
        self.ports.iter().position(|port| port.name == name && !name.is_empty())
    }

    /// Whether the guest has opened a port.
    pub fn is_open(&self, port: usize) -> bool {
        self.ports.get(port).is_some_and(|port| port.is_open)
    }

    /// Takes input for a port; gives how many bytes there was room for.
    pub(super) fn receive(&mut self, port: usize, bytes: &[u8]) -> usize {
        let Some(port) = self.ports.get_mut(port) else { return 0 };
        let accepted = bytes.len().min(INPUT_LIMIT.saturating_sub(port.input.len()));
        port.input.extend(&bytes[..accepted]);
        accepted
    }

    /// Tells the guest that nothing more comes to a named port, once it has read all that came.
    /// False as long as it has not.
    pub(super) fn end_input(&mut self, index: usize) -> bool {
        let has_read =
            self.ports.get(index).is_some_and(|port| port.is_open && port.input.is_empty());
        if has_read {
            self.say(index as u32, event::PORT_OPEN, 0, &[]);
        }
        has_read
    }

    pub(super) fn process(
        &mut self,
        queues: &mut [Queue],
        index: usize,
        attachment: &mut Attachment,
        budget: &mut Budget,
    ) -> Result<Progress, Broken> {
        let Some(queue) = queues.get_mut(index) else { return Ok(Progress::Idle) };
        match index {
            CONTROL_INPUT => self.give_control(queue, attachment, budget),
            CONTROL_OUTPUT => {
                let progress = self.take_control(queue, attachment, budget)?;
                // What was said is often answered, in the other queue.
                self.give_control(&mut queues[CONTROL_INPUT], attachment, budget)?;
                // A port that was opened gets what has been waiting for it.
                (0..self.ports.len()).try_fold(progress, |progress, port| {
                    let Some(queue) = queues.get_mut(input_queue(port)) else {
                        return Ok(progress);
                    };
                    Ok(progress.max(self.give_input(port, queue, attachment, budget)?))
                })
            }
            _ => {
                let port = if index < CONTROL_INPUT { 0 } else { index / 2 - 1 };
                if index.is_multiple_of(2) {
                    return self.give_input(port, queue, attachment, budget);
                }
                let Some(state) = self.ports.get_mut(port) else { return Ok(Progress::Idle) };
                let progress = state.take_output(queue, attachment, budget);
                if !state.output.is_empty() {
                    attachment.tell_output(port as u8);
                }
                progress
            }
        }
    }

    fn give_input(
        &mut self,
        index: usize,
        queue: &mut Queue,
        attachment: &mut Attachment,
        budget: &mut Budget,
    ) -> Result<Progress, Broken> {
        let Some(port) = self.ports.get_mut(index) else { return Ok(Progress::Idle) };
        if !port.is_open && (self.opens_ports || index != 0) {
            return Ok(Progress::Idle);
        }
        port.give_input(queue, attachment, budget)
    }

    fn take_control(
        &mut self,
        queue: &mut Queue,
        attachment: &mut Attachment,
        budget: &mut Budget,
    ) -> Result<Progress, Broken> {
        serve_each(queue, attachment, budget, |chain, attachment| {
            let mut message = [0; 8];
            let length = chain.read(attachment, 0, &mut message)?;
            if length == message.len() {
                let port = lanes::load(&message, 0, 4) as u32;
                let event = lanes::load(&message, 4, 2) as u16;
                self.hear(port, event, lanes::load(&message, 6, 2) != 0);
            }
            Ok(Served { written: 0, moved: length as u64 })
        })
    }

    /// [VIRTIO "Multiport Device Operation"]
    fn hear(&mut self, port: u32, event: u16, value: bool) {
        let index = port as usize;
        match event {
            event::DEVICE_READY if value => {
                self.opens_ports = true;
                for port in 0..self.ports.len() as u32 {
                    self.say(port, event::PORT_ADD, 1, &[]);
                }
            }
            event::PORT_READY if value && index < self.ports.len() => {
                if index == 0 {
                    self.say(port, event::CONSOLE_PORT, 1, &[]);
                } else {
                    let name = self.ports[index].name.clone();
                    self.say(port, event::PORT_NAME, 1, name.as_bytes());
                }
                self.say(port, event::PORT_OPEN, 1, &[]);
            }
            event::PORT_OPEN => {
                if let Some(port) = self.ports.get_mut(index) {
                    port.is_open = value;
                }
            }
            _ => {}
        }
    }

    fn say(&mut self, port: u32, event: u16, value: u16, text: &[u8]) {
        if self.control.len() >= CONTROL_LIMIT {
            return;
        }
        let mut message = port.to_le_bytes().to_vec();
        message.extend(event.to_le_bytes());
        message.extend(value.to_le_bytes());
        message.extend(text);
        self.control.push_back(message);
    }

    fn give_control(
        &mut self,
        queue: &mut Queue,
        attachment: &mut Attachment,
        budget: &mut Budget,
    ) -> Result<Progress, Broken> {
        while budget.allows_more() {
            let Some(message) = self.control.front() else { return Ok(Progress::Idle) };
            let Some(chain) = queue.pop(attachment)? else { return Ok(Progress::Idle) };
            let written = chain.write(attachment, 0, message)?;
            self.control.pop_front();
            budget.spend(written as u64);
            queue.push(attachment, &chain, written as u32)?;
        }
        Ok(Progress::HasMore)
    }
}

/// The queue that carries input of a port. [VIRTIO "Console Device", Virtqueues]
pub(super) const fn input_queue(port: usize) -> usize {
    if port == 0 { 0 } else { 2 * port + 2 }
}

impl Port {
    fn take_output(
        &mut self,
        queue: &mut Queue,
        attachment: &mut Attachment,
        budget: &mut Budget,
    ) -> Result<Progress, Broken> {
        while budget.allows_more() {
            if self.output.len() >= OUTPUT_LIMIT {
                return Ok(Progress::HasMore);
            }
            let Some(chain) = queue.pop(attachment)? else { return Ok(Progress::Idle) };
            let mut buffer = [0; PIECE];
            let mut done = 0;
            // A longer buffer is cut: the board would have to keep it whole.
            while done < OUTPUT_LIMIT as u64 {
                let length = chain.read(attachment, done, &mut buffer)?;
                if length == 0 {
                    break;
                }
                self.output.extend(&buffer[..length]);
                done += length as u64;
            }
            budget.spend(done);
            queue.push(attachment, &chain, 0)?;
        }
        Ok(Progress::HasMore)
    }

    fn give_input(
        &mut self,
        queue: &mut Queue,
        attachment: &mut Attachment,
        budget: &mut Budget,
    ) -> Result<Progress, Broken> {
        while budget.allows_more() {
            if self.input.is_empty() {
                return Ok(Progress::Idle);
            }
            let Some(chain) = queue.pop(attachment)? else { return Ok(Progress::Idle) };
            let length = (self.input.len() as u64).min(chain.writable_length()) as usize;
            let bytes: Vec<u8> = self.input.drain(..length).collect();
            chain.write(attachment, 0, &bytes)?;
            budget.spend(length as u64);
            queue.push(attachment, &chain, length as u32)?;
        }
        Ok(Progress::HasMore)
    }
}
