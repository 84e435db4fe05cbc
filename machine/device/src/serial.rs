//! A 16550A UART. [16550 "PC16550D"]
//!
//! DEVIATION(16550 "Transmitter"): characters leave at once, so that a console costs a guest no
//! virtual time; THRE and TEMT are therefore always set. The interrupt for an empty transmitter
//! follows the last write by a short while, so that filling the FIFO raises one, as on a wire.
//! Break, parity and framing errors do not occur.

use crate::map;
use arch::time::Picoseconds;
use bitflags::bitflags;
use bus::{Context, Effect, Initiator};
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;

const FIFO_SIZE: usize = 16;
const CLOCK_HZ: u64 = 1_843_200;
/// From the last written character to the interrupt for an empty transmitter.
const DRAIN_TIME: Picoseconds = Picoseconds::from_microseconds(5);

bitflags! {
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
    struct InterruptEnable: u8 {
        const RECEIVED_DATA = 1 << 0;
        const TRANSMITTER_EMPTY = 1 << 1;
        const LINE_STATUS = 1 << 2;
        const MODEM_STATUS = 1 << 3;
    }
}

bitflags! {
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
    struct ModemControl: u8 {
        const DATA_TERMINAL_READY = 1 << 0;
        const REQUEST_TO_SEND = 1 << 1;
        const OUT1 = 1 << 2;
        /// Gates the interrupt output on a PC.
        const OUT2 = 1 << 3;
        const LOOPBACK = 1 << 4;
    }
}

bitflags! {
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
    struct LineStatus: u8 {
        const DATA_READY = 1 << 0;
        const OVERRUN = 1 << 1;
        const HOLDING_REGISTER_EMPTY = 1 << 5;
        const TRANSMITTER_EMPTY = 1 << 6;
    }
}

bitflags! {
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
    struct ModemStatus: u8 {
        const DELTA_CLEAR_TO_SEND = 1 << 0;
        const DELTA_DATA_SET_READY = 1 << 1;
        const TRAILING_RING = 1 << 2;
        const DELTA_CARRIER = 1 << 3;
        const CLEAR_TO_SEND = 1 << 4;
        const DATA_SET_READY = 1 << 5;
        const RING = 1 << 6;
        const CARRIER = 1 << 7;
    }
}

const DIVISOR_LATCH: u8 = 0x80;
const FIFO_ENABLE: u8 = 1;
const CLEAR_RECEIVER: u8 = 2;

/// One port, with its FIFO in use as soon as the guest enables it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Serial {
    /// 0 for COM1.
    port: u8,
    enable: InterruptEnable,
    fifo_control: u8,
    line_control: u8,
    modem_control: ModemControl,
    modem_status: ModemStatus,
    scratch: u8,
    divisor: u16,
    received: VecDeque<u8>,
    has_overrun: bool,
    /// The THRE interrupt: raised some time after a write or by its enabling, cleared by a write
    /// or by reading IIR.
    is_empty_pending: bool,
    /// When the written characters have left.
    empty_at: Option<Picoseconds>,
    /// When the character-timeout interrupt is raised for data below the trigger level.
    timeout_at: Option<Picoseconds>,
    has_timed_out: bool,
    is_asserted: bool,
}

impl Serial {
    /// `port` is 0 for COM1; what it prints carries the number.
    pub fn new(port: u8) -> Self {
        Self {
            port,
            enable: InterruptEnable::empty(),
            fifo_control: 0,
            line_control: 0,
            modem_control: ModemControl::empty(),
            modem_status: attached(),
            scratch: 0,
            divisor: 12,
            received: VecDeque::new(),
            has_overrun: false,
            is_empty_pending: false,
            empty_at: None,
            timeout_at: None,
            has_timed_out: false,
            is_asserted: false,
        }
    }

    /// Reads one of eight registers; some clear what they tell.
    pub fn read(&mut self, cx: &mut Context, register: u8) -> u8 {
        let value = match register & 7 {
            0 if self.is_divisor_selected() => self.divisor as u8,
            0 => self.read_received(cx.now),
            1 if self.is_divisor_selected() => (self.divisor >> 8) as u8,
            1 => self.enable.bits(),
            2 => self.read_identification(),
            3 => self.line_control,
            4 => self.modem_control.bits(),
            5 => self.read_line_status(),
            6 => self.read_modem_status(),
            _ => self.scratch,
        };
        self.update(cx);
        value
    }

    /// Writes one of eight registers; what is transmitted reaches the console at once.
    pub fn write(&mut self, cx: &mut Context, register: u8, value: u8) {
        match register & 7 {
            0 if self.is_divisor_selected() => {
                self.divisor = self.divisor & 0xFF00 | u16::from(value);
            }
            0 => self.transmit(cx, value),
            1 if self.is_divisor_selected() => {
                self.divisor = self.divisor & 0x00FF | u16::from(value) << 8;
            }
            1 => self.write_enable(value),
            2 => self.write_fifo_control(value),
            3 => self.line_control = value,
            4 => self.write_modem_control(value),
            7 => self.scratch = value,
            _ => {}
        }
        self.update(cx);
    }

    /// Characters from the wire; gives how many there was room for.
    pub fn receive(&mut self, cx: &mut Context, bytes: &[u8]) -> usize {
        if self.modem_control.contains(ModemControl::LOOPBACK) {
            return 0;
        }
        let accepted = bytes.len().min(self.capacity().saturating_sub(self.received.len()));
        for &byte in &bytes[..accepted] {
            self.accept(cx.now, byte);
        }
        self.update(cx);
        accepted
    }

    /// Whether [`Serial::receive`] would accept a character.
    pub fn has_room(&self) -> bool {
        !self.modem_control.contains(ModemControl::LOOPBACK)
            && self.received.len() < self.capacity()
    }

    /// When the next interrupt is due that no access causes.
    pub fn next_deadline(&self) -> Option<Picoseconds> {
        match (self.timeout_at, self.empty_at) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        }
    }

    /// Raises interrupts whose time has come.
    pub fn advance(&mut self, cx: &mut Context) {
        if self.timeout_at.is_some_and(|at| at <= cx.now) {
            self.timeout_at = None;
            self.has_timed_out = true;
        }
        if self.empty_at.is_some_and(|at| at <= cx.now) {
            self.empty_at = None;
            self.is_empty_pending = true;
        }
        self.update(cx);
    }

    fn is_divisor_selected(&self) -> bool {
        self.line_control & DIVISOR_LATCH != 0
    }

    fn has_fifo(&self) -> bool {
        self.fifo_control & FIFO_ENABLE != 0
    }

    fn capacity(&self) -> usize {
        if self.has_fifo() { FIFO_SIZE } else { 1 }
    }

    fn trigger_level(&self) -> usize {
        if !self.has_fifo() {
            return 1;
        }
        [1, 4, 8, 14][usize::from(self.fifo_control >> 6)]
    }

    /// Four characters of ten bits each at the programmed rate.
    fn timeout(&self) -> Picoseconds {
        let bits = 40 * 16 * u64::from(self.divisor.max(1));
        Picoseconds::at_tick(bits, CLOCK_HZ)
    }

    fn accept(&mut self, now: Picoseconds, byte: u8) {
        if self.received.len() >= self.capacity() {
            self.has_overrun = true;
            return;
        }
        self.received.push_back(byte);
        self.restart_timeout(now);
    }

    fn restart_timeout(&mut self, now: Picoseconds) {
        self.has_timed_out = false;
        let is_waiting = self.has_fifo() && !self.received.is_empty();
        self.timeout_at = is_waiting.then(|| now.saturating_add(self.timeout()));
    }

    fn read_received(&mut self, now: Picoseconds) -> u8 {
        let byte = self.received.pop_front().unwrap_or(0);
        self.restart_timeout(now);
        byte
    }

    fn transmit(&mut self, cx: &mut Context, byte: u8) {
        if self.modem_control.contains(ModemControl::LOOPBACK) {
            self.accept(cx.now, byte);
        } else {
            cx.effect(initiator(), Effect::Console { port: self.port, byte });
        }
        self.is_empty_pending = false;
        // Without the interrupt nobody waits for it; enabling it later raises it at once.
        let is_awaited = self.enable.contains(InterruptEnable::TRANSMITTER_EMPTY);
        self.empty_at = is_awaited.then(|| cx.now.saturating_add(DRAIN_TIME));
    }

    fn write_enable(&mut self, value: u8) {
        let enable = InterruptEnable::from_bits_truncate(value);
        if (enable - self.enable).contains(InterruptEnable::TRANSMITTER_EMPTY) {
            self.is_empty_pending = true;
        }
        if !enable.contains(InterruptEnable::TRANSMITTER_EMPTY) {
            self.empty_at = None;
        }
        self.enable = enable;
    }

    fn write_fifo_control(&mut self, value: u8) {
        let has_changed = (value ^ self.fifo_control) & FIFO_ENABLE != 0;
        if has_changed || value & CLEAR_RECEIVER != 0 {
            self.received.clear();
            self.timeout_at = None;
            self.has_timed_out = false;
        }
        // The other bits can be written only together with the enable bit.
        self.fifo_control = if value & FIFO_ENABLE != 0 { value & 0xC9 } else { 0 };
    }

    fn write_modem_control(&mut self, value: u8) {
        self.modem_control = ModemControl::from_bits_truncate(value);
        let wires = if self.modem_control.contains(ModemControl::LOOPBACK) {
            looped_back(self.modem_control)
        } else {
            attached()
        };
        let changed = wires.symmetric_difference(self.modem_status);
        let mut delta = self.modem_status.bits() & 0x0F | changed.bits() >> 4 & 0x0B;
        if changed.contains(ModemStatus::RING) && !wires.contains(ModemStatus::RING) {
            delta |= ModemStatus::TRAILING_RING.bits();
        }
        self.modem_status = ModemStatus::from_bits_truncate(wires.bits() & 0xF0 | delta);
    }

    fn read_identification(&mut self) -> u8 {
        let source = self.pending_source();
        if source == Some(Source::TransmitterEmpty) {
            self.is_empty_pending = false;
        }
        let fifo = if self.has_fifo() { 0xC0 } else { 0 };
        fifo | source.map_or(1, |source| source as u8)
    }

    fn read_line_status(&mut self) -> u8 {
        let mut status = LineStatus::HOLDING_REGISTER_EMPTY | LineStatus::TRANSMITTER_EMPTY;
        status.set(LineStatus::DATA_READY, !self.received.is_empty());
        status.set(LineStatus::OVERRUN, core::mem::take(&mut self.has_overrun));
        status.bits()
    }

    fn read_modem_status(&mut self) -> u8 {
        let value = self.modem_status.bits();
        self.modem_status = ModemStatus::from_bits_truncate(value & 0xF0);
        value
    }

    fn pending_source(&self) -> Option<Source> {
        let has_data = !self.received.is_empty() && self.received.len() >= self.trigger_level();
        let wants = |flag| self.enable.contains(flag);
        if wants(InterruptEnable::LINE_STATUS) && self.has_overrun {
            Some(Source::LineStatus)
        } else if wants(InterruptEnable::RECEIVED_DATA) && has_data {
            Some(Source::ReceivedData)
        } else if wants(InterruptEnable::RECEIVED_DATA) && self.has_timed_out {
            Some(Source::CharacterTimeout)
        } else if wants(InterruptEnable::TRANSMITTER_EMPTY) && self.is_empty_pending {
            Some(Source::TransmitterEmpty)
        } else if wants(InterruptEnable::MODEM_STATUS) && self.modem_status.bits() & 0x0F != 0 {
            Some(Source::ModemStatus)
        } else {
            None
        }
    }

    fn update(&mut self, cx: &mut Context) {
        let is_gate_open = self.modem_control.contains(ModemControl::OUT2)
            && !self.modem_control.contains(ModemControl::LOOPBACK);
        let asserted = is_gate_open && self.pending_source().is_some();
        if asserted != self.is_asserted {
            self.is_asserted = asserted;
            let gsi = map::SERIAL_LINES[usize::from(self.port & 3)];
            cx.effect(initiator(), Effect::Line { gsi, asserted });
        }
    }
}

/// Interrupt identification codes, highest priority first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
enum Source {
    LineStatus = 0x06,
    ReceivedData = 0x04,
    CharacterTimeout = 0x0C,
    TransmitterEmpty = 0x02,
    ModemStatus = 0x00,
}

fn initiator() -> Initiator {
    Initiator::Device(map::ISA_BRIDGE.requester())
}

/// A peer that is always there.
fn attached() -> ModemStatus {
    ModemStatus::CLEAR_TO_SEND | ModemStatus::DATA_SET_READY | ModemStatus::CARRIER
}

fn looped_back(control: ModemControl) -> ModemStatus {
    let mut status = ModemStatus::empty();
    status.set(ModemStatus::CLEAR_TO_SEND, control.contains(ModemControl::REQUEST_TO_SEND));
    status.set(ModemStatus::DATA_SET_READY, control.contains(ModemControl::DATA_TERMINAL_READY));
    status.set(ModemStatus::RING, control.contains(ModemControl::OUT1));
    status.set(ModemStatus::CARRIER, control.contains(ModemControl::OUT2));
    status
}

#[cfg(test)]
mod tests;
