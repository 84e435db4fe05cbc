//! What the host takes from a machine's consoles, and gives to them.

use crate::Machine;
use crate::channel::Channel;

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

    /// How many bytes of a channel there were to take, up to now; fewer when the machine goes back.
    pub fn channel_written(&self, channel: Channel) -> u64 {
        self.channels.written.get(&channel).copied().unwrap_or_default()
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

    /// Tells the guest that nothing more comes by a channel; false as long as it has not opened the
    /// port and read what came before.
    pub fn end_channel(&mut self, channel: Channel) -> bool {
        let Channel { console, port } = channel;
        let at = self.state.now;
        let wiring = &mut self.state.wiring;
        let is_told = wiring.with_devices(&mut self.memory, at, |chipset, cx| {
            chipset.end_console(cx, console, port)
        });
        self.deliver();
        is_told
    }

    /// Bytes of all channels that were lost because the host did not take what came before.
    pub fn lost_channel_bytes(&self) -> u64 {
        self.channels.lost
    }

    /// What the guest wrote to its serial ports since the last call: (port, byte).
    pub fn take_console(&mut self) -> Vec<(u8, u8)> {
        std::mem::take(&mut self.console)
    }

    /// Types at a serial port; gives how many bytes the port took.
    pub fn type_at_console(&mut self, port: u8, bytes: &[u8]) -> usize {
        let at = self.state.now;
        let taken = self
            .state
            .wiring
            .with_devices(&mut self.memory, at, |chipset, cx| chipset.receive(cx, port, bytes));
        self.deliver();
        taken
    }

    /// Makes [`Machine::run`] return as soon as the guest has written to a serial port.
    pub fn await_output(&mut self, is_awaited: bool) {
        self.awaits_output = is_awaited;
    }
}
