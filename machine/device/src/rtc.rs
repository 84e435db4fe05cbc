//! The real-time clock and its NVRAM. [MC146818 "MC146818A datasheet"]
//!
//! Registers follow virtual time from the start date that the board gives. They are brought up to
//! date when it is read or an enabled interrupt is due, so an idle clock costs nothing.

use crate::map;
use arch::time::Picoseconds;
use bitflags::bitflags;
use bus::{Context, Effect, Initiator};
use serde::{Deserialize, Serialize};

mod calendar;
pub use calendar::Date;
use calendar::Format;

const SIZE: usize = 128;
const SECOND: Picoseconds = Picoseconds::from_milliseconds(1000);
/// Update-in-progress is seen this long before the registers change.
const UPDATE_TIME: Picoseconds = Picoseconds::from_microseconds(2228);
const PERIODIC_HERTZ: u64 = 32_768;

mod register {
    pub const SECONDS_ALARM: u8 = 0x01;
    pub const MINUTES_ALARM: u8 = 0x03;
    pub const HOURS_ALARM: u8 = 0x05;
    pub const A: u8 = 0x0A;
    pub const B: u8 = 0x0B;
    pub const C: u8 = 0x0C;
    pub const D: u8 = 0x0D;
    pub const BASE_MEMORY: u8 = 0x15;
    pub const EXTENDED_MEMORY: u8 = 0x17;
    pub const EXTENDED_MEMORY_COPY: u8 = 0x30;
    pub const MEMORY_ABOVE_16_MIB: u8 = 0x34;
}

bitflags! {
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
    struct Control: u8 {
        const IS_24_HOUR = 1 << 1;
        const IS_BINARY = 1 << 2;
        const SQUARE_WAVE = 1 << 3;
        const UPDATE_INTERRUPT = 1 << 4;
        const ALARM_INTERRUPT = 1 << 5;
        const PERIODIC_INTERRUPT = 1 << 6;
        const SET = 1 << 7;
    }
}

bitflags! {
    /// Register C. Interrupt causes have the positions of their enables in register B.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
    struct Cause: u8 {
        const UPDATE = 1 << 4;
        const ALARM = 1 << 5;
        const PERIODIC = 1 << 6;
        const REQUEST = 1 << 7;
    }
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RealTimeClock {
    index: u8,
    /// Registers and NVRAM; A to D are kept apart.
    bytes: Vec<u8>,
    /// Register A without update-in-progress.
    divider_and_rate: u8,
    control: Control,
    cause: Cause,
    /// When the seconds last changed (or would have).
    updated_at: Picoseconds,
    /// Periods of the periodic interrupt, counted since power-on, that were turned into a cause.
    told_periods: u64,
    is_line_connected: bool,
    is_asserted: bool,
}

impl RealTimeClock {
    pub fn new(start: Date, memory_size: u64) -> Self {
        let mut clock = Self {
            index: 0,
            bytes: vec![0; SIZE],
            divider_and_rate: 0x26,
            control: Control::IS_24_HOUR,
            cause: Cause::empty(),
            updated_at: Picoseconds::ZERO,
            told_periods: 0,
            is_line_connected: true,
            is_asserted: false,
        };
        let format = clock.format();
        start.store(&mut clock.bytes, format);
        clock.describe_memory(memory_size);
        clock
    }

    /// The index port is write-only on a PC.
    pub fn write_index(&mut self, value: u8) {
        // Bit 7 masks NMI; there is no source of NMI behind it here.
        self.index = value & 0x7F;
    }

    pub fn read_data(&mut self, cx: &mut Context) -> u8 {
        self.catch_up(cx.now);
        match self.index {
            register::A => self.divider_and_rate | u8::from(self.is_updating(cx.now)) << 7,
            register::B => self.control.bits(),
            register::C => {
                let cause = core::mem::replace(&mut self.cause, Cause::empty());
                self.update(cx);
                cause.bits()
            }
            register::D => 0x80, // The battery is good.
            index => self.bytes[usize::from(index)],
        }
    }

    pub fn write_data(&mut self, cx: &mut Context, value: u8) {
        self.catch_up(cx.now);
        match self.index {
            register::A => self.write_divider(cx.now, value & 0x7F),
            register::B => {
                let value = Control::from_bits_truncate(value);
                if self.control.contains(Control::SET) && !value.contains(Control::SET) {
                    self.updated_at = cx.now;
                }
                self.control = value;
                if self.control.contains(Control::SET) {
                    self.control.remove(Control::UPDATE_INTERRUPT);
                }
                self.refresh_request();
            }
            register::C | register::D => {}
            index => self.bytes[usize::from(index)] = value,
        }
        self.update(cx);
    }

    /// A byte of NVRAM (or a time register) as the board's firmware would leave it.
    pub fn set_nvram(&mut self, index: u8, value: u8) {
        self.bytes[usize::from(index & 0x7F)] = value;
    }

    /// [HPET "LegacyReplacement Route"]: timer 1 takes line 8 while routed so.
    pub fn set_line_connected(&mut self, cx: &mut Context, is_connected: bool) {
        self.is_line_connected = is_connected;
        self.update(cx);
    }

    pub fn next_deadline(&self) -> Option<Picoseconds> {
        if self.cause.contains(Cause::REQUEST) || !self.is_line_connected {
            return None;
        }
        let wants_seconds =
            self.control.intersects(Control::UPDATE_INTERRUPT | Control::ALARM_INTERRUPT)
                && self.is_running();
        let second = wants_seconds.then(|| self.updated_at.saturating_add(SECOND));
        let period = (self.control.contains(Control::PERIODIC_INTERRUPT))
            .then(|| self.period_ticks())
            .flatten()
            .map(|ticks| Picoseconds::at_tick((self.told_periods + 1) * ticks, PERIODIC_HERTZ));
        match (second, period) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        }
    }

    pub fn advance(&mut self, cx: &mut Context) {
        self.catch_up(cx.now);
        self.update(cx);
    }

    fn format(&self) -> Format {
        Format {
            is_binary: self.control.contains(Control::IS_BINARY),
            is_24_hour: self.control.contains(Control::IS_24_HOUR),
        }
    }

    /// The time base counts: divider 010, which selects the 32,768 Hz crystal.
    fn has_time_base(&self) -> bool {
        self.divider_and_rate >> 4 == 2
    }

    fn is_running(&self) -> bool {
        self.has_time_base() && !self.control.contains(Control::SET)
    }

    fn is_updating(&self, now: Picoseconds) -> bool {
        let next = self.updated_at.saturating_add(SECOND);
        self.is_running() && now.saturating_add(UPDATE_TIME) >= next
    }

    /// Ticks of the crystal between periodic interrupts. [MC146818 "Periodic Interrupt Rate"]
    fn period_ticks(&self) -> Option<u64> {
        if !self.has_time_base() {
            return None;
        }
        match self.divider_and_rate & 15 {
            0 => None,
            rate @ 1..=2 => Some(1 << (rate + 6)),
            rate => Some(1 << (rate - 1)),
        }
    }

    fn write_divider(&mut self, now: Picoseconds, value: u8) {
        let was_running = self.has_time_base();
        self.divider_and_rate = value;
        if !was_running && self.has_time_base() {
            // The first update comes half a second after the divider is released.
            self.updated_at = now.saturating_sub(Picoseconds(SECOND.0 / 2));
        }
        self.told_periods = self.periods(now);
    }

    fn periods(&self, now: Picoseconds) -> u64 {
        self.period_ticks().map_or(0, |ticks| now.ticks(PERIODIC_HERTZ) / ticks)
    }

    fn catch_up(&mut self, now: Picoseconds) {
        let periods = self.periods(now);
        if periods > self.told_periods {
            self.told_periods = periods;
            self.cause.insert(Cause::PERIODIC);
        }
        // At most one turn per second of virtual time, which ends after 213 days.
        while self.updated_at.saturating_add(SECOND) <= now {
            self.updated_at += SECOND;
            if !self.is_running() {
                continue;
            }
            let format = self.format();
            calendar::tick(&mut self.bytes, format);
            self.cause.insert(Cause::UPDATE);
            if self.is_alarm() {
                self.cause.insert(Cause::ALARM);
            }
        }
        self.refresh_request();
    }

    fn is_alarm(&self) -> bool {
        [register::SECONDS_ALARM, register::MINUTES_ALARM, register::HOURS_ALARM]
            .into_iter()
            .map(usize::from)
            // A value of C0h or above matches every time.
            .all(|at| self.bytes[at] >= 0xC0 || self.bytes[at] == self.bytes[at - 1])
    }

    fn refresh_request(&mut self) {
        let is_wanted = self.cause.bits() & self.control.bits() & 0x70 != 0;
        self.cause.set(Cause::REQUEST, is_wanted);
    }

    fn update(&mut self, cx: &mut Context) {
        let asserted = self.cause.contains(Cause::REQUEST) && self.is_line_connected;
        if asserted != self.is_asserted {
            self.is_asserted = asserted;
            let initiator = Initiator::Device(map::ISA_BRIDGE.requester());
            cx.effect(initiator, Effect::Line { gsi: map::RTC_LINE, asserted });
        }
    }

    /// The sizes that firmware leaves for old loaders: 640 KiB, KiB above 1 MiB, 64 KiB units
    /// above 16 MiB.
    fn describe_memory(&mut self, memory_size: u64) {
        let extended = (memory_size / 1024).saturating_sub(1024).min(0xFFFF) as u16;
        for (index, value) in [
            (register::BASE_MEMORY, 640),
            (register::EXTENDED_MEMORY, extended),
            (register::EXTENDED_MEMORY_COPY, extended),
        ] {
            self.set_nvram(index, value as u8);
            self.set_nvram(index + 1, (value >> 8) as u8);
        }
        self.describe_low_memory(memory_size.min(map::PCI_MEMORY_START.0));
    }

    /// Says how much RAM there is below 4 GiB.
    pub fn describe_low_memory(&mut self, low: u64) {
        let above_16 = (low.saturating_sub(16 << 20) / 0x1_0000).min(0xFFFF) as u16;
        self.set_nvram(register::MEMORY_ABOVE_16_MIB, above_16 as u8);
        self.set_nvram(register::MEMORY_ABOVE_16_MIB + 1, (above_16 >> 8) as u8);
    }
}

#[cfg(test)]
mod tests;
