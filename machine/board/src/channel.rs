//! Channels: byte streams between programs of the guest and the host's process, over ports of
//! virtio consoles. A machine gets them with its configuration, as
//! `Model::Console(Console::new(names))`.
//!
//! Port 0 of a console is the console itself (hvc0 on Linux); the named ones follow
//! (/dev/virtio-ports/NAME). What the guest writes is taken from the device at once, so how often
//! the host asks changes nothing in the machine. What the host feeds waits in the device, and in
//! snapshots, until the guest has opened the port.

use crate::Machine;
use bus::Initiator;
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
    output: BTreeMap<Channel, Vec<u8>>,
    lost: u64,
}

impl Machine {
    /// The channel with a name, the first one if several consoles have it.
    pub fn channel(&mut self, name: &str) -> Option<Channel> {
        let consoles = self.state.wiring.chipset.consoles_mut().enumerate();
        consoles
            .filter_map(|(console, device)| Some(Channel { console, port: device.port(name)? }))
            .next()
    }

    /// What the guest wrote to a channel since the last call.
    pub fn take_channel(&mut self, channel: Channel) -> Vec<u8> {
        self.channels.output.remove(&channel).unwrap_or_default()
    }

    /// Sends bytes to the guest; gives how many there was room for.
    pub fn feed_channel(&mut self, channel: Channel, bytes: &[u8]) -> usize {
        let Channel { console, port } = channel;
        let at = self.state.now;
        let wiring = &mut self.state.wiring;
        let taken = wiring.with_devices(&mut self.memory, at, |chipset, cx| {
            chipset.feed_console(cx, console, port, bytes)
        });
        self.deliver();
        taken
    }

    /// Bytes of all channels that were lost because the host did not take what came before.
    pub fn lost_channel_bytes(&self) -> u64 {
        self.channels.lost
    }

    /// A console said that the guest wrote to it.
    pub(crate) fn collect(&mut self, initiator: Initiator, port: u8) {
        let Initiator::Device(requester) = initiator else { return };
        let chipset = &mut self.state.wiring.chipset;
        let Some(console) = chipset.console_of(requester) else { return };
        let channel = Channel { console, port: port.into() };
        let bytes = chipset.take_console_output(channel.console, channel.port);
        let kept = self.channels.output.entry(channel).or_default();
        let room = OUTPUT_LIMIT.saturating_sub(kept.len()).min(bytes.len());
        kept.extend(&bytes[..room]);
        self.channels.lost += (bytes.len() - room) as u64;
    }
}
