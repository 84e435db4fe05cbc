//! A DMA engine as Intel's servers have it (QuickData Technology, I/OAT): channels that work
//! through chains of descriptors in memory, each with an MSI-X vector.
//! [IOAT "QuickData Technology"]
//!
//! It is version 3.2 with the identifiers of the engine in Skylake-SP. Of the operations there are
//! copies and null descriptors; the capability register offers no others. A descriptor takes
//! [`channel::LATENCY`] and its bytes; they move at its end.

use crate::lanes;
use crate::pci::{
    Attachment, Bar, Configuration, Express, Function, Identity, Msix, PciDevice, Room,
};
use crate::request::{Name, PciRequest, Places};
use arch::pci::{Command, FunctionAddress};
use arch::time::Picoseconds;
use serde::{Deserialize, Serialize};

mod channel;
mod register;

use channel::Channel;
use register::InterruptControl;

/// Vendor and device identifier.
const IDENTITY: (u16, u16) = (0x8086, 0x2021);
/// A system peripheral of no further kind.
const CLASS: u16 = 0x0880;
const REGISTERS_BAR: usize = 0;
/// The region with the MSI-X table, which takes two base address registers.
const TABLE_BAR: usize = 2;
const REGION_SIZE: u64 = 0x4000;
/// Channels of the largest engine that drivers know.
const MOST_CHANNELS: u64 = 16;

/// The request for an engine.
#[derive(Clone, Copy, Debug)]
pub struct Request {
    /// 1 to 16.
    channels: u8,
}

impl PciRequest for Request {
    type Device = Engine;

    const NAMES: &'static [Name<Self>] = &[Name {
        name: "ioat",
        takes: "channels=N",
        ask: |options| {
            Ok(Self { channels: options.number("channels", 1..=MOST_CHANNELS, 1)? as u8 })
        },
    }];

    fn places(&self) -> Places {
        Places::SERVER
    }

    fn functions(
        &self,
        _number: u8,
        at: &[FunctionAddress],
        room: &mut Room,
    ) -> Vec<Function<Engine>> {
        vec![Engine::new(self.channels).function(at[0], room)]
    }

    fn digest(&self) -> String {
        format!("ioat {}", self.channels)
    }
}

/// The engine behind its registers.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Engine {
    interrupts: InterruptControl,
    channels: Vec<Channel>,
}

impl PciDevice for Engine {
    fn read(&mut self, _: &mut Attachment, _: usize, offset: u64, size: u8) -> u32 {
        let word = match self.channel_at(offset) {
            Some((index, offset)) => self.channels[index].word(offset & !7),
            None => self.word(offset & !7),
        };
        lanes::extract(word, offset & 7, size) as u32
    }

    fn write(&mut self, port: &mut Attachment, _: usize, offset: u64, size: u8, value: u32) {
        if let Some((index, offset)) = self.channel_at(offset) {
            let interrupts = self.channels[index].write(port, offset, size, value.into());
            self.interrupt(port, index, interrupts);
        } else if let Some(at) = register::INTERRUPT_CONTROL.checked_sub(offset)
            && at < size.into()
        {
            self.interrupts.write((value >> (at * 8)) as u8);
        }
    }

    fn reset(&mut self) {
        *self = Self::new(self.channels.len() as u8);
    }

    fn next_deadline(&self) -> Option<Picoseconds> {
        self.channels.iter().filter_map(Channel::next_deadline).min()
    }

    fn advance(&mut self, port: &mut Attachment) {
        for index in 0..self.channels.len() {
            let interrupts = self.channels[index].advance(port);
            self.interrupt(port, index, interrupts);
        }
    }
}

impl Engine {
    fn new(channels: u8) -> Self {
        Self {
            interrupts: InterruptControl::new(),
            channels: vec![Channel::default(); channels.into()],
        }
    }

    /// The function at a place.
    fn function(self, address: FunctionAddress, room: &mut Room) -> Function<Self> {
        let (vendor, device) = IDENTITY;
        let mut configuration = Configuration::new(Identity {
            vendor,
            device,
            class: CLASS,
            subsystem_vendor: vendor,
            ..Identity::default()
        });
        for index in [REGISTERS_BAR, TABLE_BAR] {
            let bar = Bar::Memory64 { size: REGION_SIZE };
            configuration.set_bar(index, bar, room.allocate(bar));
        }
        configuration.set_command(Command::MEMORY_SPACE);
        let vectors = self.channels.len() as u16;
        let msix = Msix::add(&mut configuration, vectors, TABLE_BAR as u8);
        let express = Express::add(&mut configuration);
        let function = Function::new(address, configuration, self);
        function.with_msix(msix, TABLE_BAR).with_express(express)
    }

    /// The channel that has a register, and the offset within its registers.
    fn channel_at(&self, offset: u64) -> Option<(usize, u64)> {
        let index = (offset / register::CHANNEL_SIZE).checked_sub(1)? as usize;
        (index < self.channels.len()).then_some((index, offset % register::CHANNEL_SIZE))
    }

    /// Eight bytes of the registers that the channels share.
    fn word(&self, offset: u64) -> u64 {
        match offset {
            0 => {
                let attention: u64 = (0..).zip(&self.channels).fold(0, |bits, (index, channel)| {
                    bits | u64::from(channel.is_interrupt_disabled()) << index
                });
                let control = self.interrupts.with_is_pending(attention != 0).into_bits();
                self.channels.len() as u64
                    | u64::from(register::TRANSFER_LIMIT) << 8
                    | u64::from(control) << 24
                    | attention << 32
            }
            8 => register::VERSION_3_2.into(),
            // No operation but those that all engines have.
            _ => 0,
        }
    }

    fn interrupt(&self, port: &mut Attachment, channel: usize, is_due: bool) {
        if is_due {
            let vector = if self.interrupts.has_vectors() { channel as u16 } else { 0 };
            port.signal_msix(vector);
        }
    }
}

#[cfg(test)]
mod tests;
