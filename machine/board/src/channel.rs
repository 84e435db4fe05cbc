//! Channels: byte streams between programs of the guest and the host's process, over ports of
//! virtio consoles. A machine gets them with its configuration, as
//! `Model::Console(Console::new(names))`.
//!
//! Port 0 of a console is the console itself (hvc0 on Linux); the named ones follow
//! (/dev/virtio-ports/NAME). What the guest writes is taken from the device at once, so how often
//! the host asks changes nothing in the machine. What the host feeds waits in the device, and in
//! snapshots, until the guest has opened the port.

use bus::Initiator;
use device::Chipset;
use std::collections::BTreeMap;

/// Bytes of one channel that are kept for the host; what is written beyond is lost and counted.
const OUTPUT_LIMIT: usize = 64 << 20;

/// A port of a virtio console.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Channel {
    /// Consoles are numbered in the order of the configuration.
    pub console: usize,
    /// 0 is the console itself.
    pub port: usize,
}

/// What the guest wrote and the host has not taken.
#[derive(Clone, Debug, Default)]
pub(crate) struct Channels {
    pub output: BTreeMap<Channel, Vec<u8>>,
    /// How many bytes there were, of this machine in this process.
    pub written: BTreeMap<Channel, u64>,
    pub lost: u64,
}

impl Channels {
    /// A console said that the guest wrote to it.
    pub fn collect(&mut self, chipset: &mut Chipset, initiator: Initiator, port: u8) {
        let Initiator::Device(requester) = initiator else { return };
        let Some(console) = chipset.console_of(requester) else { return };
        let channel = Channel { console, port: port.into() };
        let bytes = chipset.take_console_output(channel.console, channel.port);
        let kept = self.output.entry(channel).or_default();
        let room = OUTPUT_LIMIT.saturating_sub(kept.len()).min(bytes.len());
        kept.extend(&bytes[..room]);
        *self.written.entry(channel).or_default() += room as u64;
        self.lost += (bytes.len() - room) as u64;
    }
}
