//! One counter of the 8254. Its state is a moment and a count; output and count at any later tick
//! follow from them. [8254 "Mode Definitions"]

use serde::{Deserialize, Serialize};

/// Where a two-byte access stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
enum Access {
    Low,
    High,
    LowThenHigh,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Counter {
    mode: u8,
    is_bcd: bool,
    access: Access,
    /// The control word's bits 5:0, as read-back shows them.
    control: u8,
    /// The count in force, 1 to 65,536 (10,000 in BCD).
    count: u32,
    /// The count register was written and its transfer to the counter is still to come.
    next_count: Option<u32>,
    /// The tick at which `count` was loaded; nothing counts before the first load.
    loaded_at: Option<u64>,
    /// Gate low: the ticks that had passed when counting stopped.
    held_elapsed: Option<u64>,
    gate: bool,
    low_written: Option<u8>,
    is_high_next: bool,
    latched_count: Option<u16>,
    latched_status: Option<u8>,
    /// Edges up to this tick were told.
    told: u64,
}

impl Default for Counter {
    fn default() -> Self {
        Self {
            mode: 0,
            is_bcd: false,
            access: Access::LowThenHigh,
            control: 0x30,
            count: 0x1_0000,
            next_count: None,
            loaded_at: None,
            held_elapsed: None,
            gate: true,
            low_written: None,
            is_high_next: false,
            latched_count: None,
            latched_status: None,
            told: 0,
        }
    }
}

impl Counter {
    pub fn set_mode(&mut self, control: u8) {
        let mode = control >> 1 & 7;
        self.mode = if mode > 5 { mode & 3 } else { mode };
        self.is_bcd = control & 1 != 0;
        self.access = match control >> 4 & 3 {
            1 => Access::Low,
            2 => Access::High,
            _ => Access::LowThenHigh,
        };
        self.control = control & 0x3F;
        self.next_count = None;
        self.loaded_at = None;
        self.held_elapsed = None;
        self.low_written = None;
        self.is_high_next = false;
        self.latched_count = None;
        self.latched_status = None;
    }

    pub fn write(&mut self, tick: u64, value: u8) {
        let raw = match (self.access, self.low_written) {
            (Access::Low, _) => u16::from(value),
            (Access::High, _) => u16::from(value) << 8,
            (Access::LowThenHigh, None) => {
                self.low_written = Some(value);
                if self.mode == 0 {
                    // The first byte stops counting and the output stays low.
                    self.loaded_at = None;
                }
                return;
            }
            (Access::LowThenHigh, Some(low)) => u16::from(value) << 8 | u16::from(low),
        };
        self.low_written = None;
        let count = self.decode(raw);
        match (self.mode, self.loaded_at) {
            // Modes 1 and 5 wait for a trigger, modes 2 and 3 for the end of the period.
            (1 | 5, _) | (2 | 3, Some(_)) => {
                self.settle(tick);
                self.told = self.told.max(tick);
                self.next_count = Some(count);
            }
            _ => self.load(tick, count),
        }
    }

    pub fn read(&mut self, tick: u64) -> u8 {
        if let Some(status) = self.latched_status.take() {
            return status;
        }
        let value = self.latched_count.unwrap_or_else(|| self.encode(self.value(tick)));
        let (byte, is_last) = match self.access {
            Access::Low => (value as u8, true),
            Access::High => ((value >> 8) as u8, true),
            Access::LowThenHigh if self.is_high_next => ((value >> 8) as u8, true),
            Access::LowThenHigh => (value as u8, false),
        };
        self.is_high_next = !is_last;
        if is_last {
            self.latched_count = None;
        }
        byte
    }

    /// A second latch before the first was read is ignored.
    pub fn latch_count(&mut self, tick: u64) {
        if self.latched_count.is_none() {
            self.latched_count = Some(self.encode(self.value(tick)));
        }
    }

    pub fn latch_status(&mut self, tick: u64) {
        if self.latched_status.is_none() {
            let is_null = self.loaded_at.is_none() || self.next_count.is_some();
            let output = u8::from(self.output(tick)) << 7;
            self.latched_status = Some(output | u8::from(is_null) << 6 | self.control);
        }
    }

    /// [8254 "Gate Pin Operations"]
    pub fn set_gate(&mut self, tick: u64, gate: bool) {
        let is_rising = gate && !self.gate;
        let is_falling = !gate && self.gate;
        self.settle(tick);
        self.gate = gate;
        match self.mode {
            1 | 5 if is_rising => {
                if let Some(count) = self.next_count.or(self.loaded_at.map(|_| self.count)) {
                    self.load(tick, count);
                }
            }
            0 | 4 if is_falling => self.held_elapsed = self.elapsed(tick),
            0 | 4 if is_rising => {
                if let Some(elapsed) = self.held_elapsed.take() {
                    self.loaded_at = Some(tick.saturating_sub(elapsed));
                }
            }
            // The output goes high and a rising edge restarts the period.
            2 | 3 if is_falling => self.held_elapsed = self.loaded_at.map(|_| 0),
            2 | 3 if is_rising && self.held_elapsed.take().is_some() => {
                let count = self.next_count.unwrap_or(self.count);
                self.load(tick, count);
            }
            _ => {}
        }
    }

    /// The output as it is at `tick`.
    pub fn output(&self, tick: u64) -> bool {
        let Some(elapsed) = self.elapsed(tick) else { return self.mode != 0 };
        let (elapsed, count) = self.in_force(elapsed);
        match self.mode {
            0 | 1 => elapsed >= count,
            _ if self.held_elapsed.is_some() && self.mode < 4 => true,
            2 => elapsed % count != count - 1,
            3 => elapsed % count < count.div_ceil(2),
            _ => elapsed != count,
        }
    }

    /// The output without the one-tick pulses of modes 2, 4 and 5.
    pub fn steady_output(&self, tick: u64) -> bool {
        matches!(self.mode, 2 | 4 | 5) || self.output(tick)
    }

    /// Whether a one-tick pulse ended since the last call.
    pub fn take_pulse(&mut self, tick: u64) -> bool {
        let is_due = self.next_edge().is_some_and(|edge| edge <= tick);
        self.settle(tick);
        self.told = tick;
        is_due && matches!(self.mode, 2 | 4 | 5)
    }

    /// The first tick after those told at which the output changes (or a pulse ends).
    pub fn next_edge(&self) -> Option<u64> {
        let loaded_at = self.loaded_at?;
        if self.held_elapsed.is_some() {
            return None;
        }
        let count = u64::from(self.count);
        let told = self.told.max(loaded_at) - loaded_at;
        let elapsed = match self.mode {
            0 | 1 if told < count => count,
            4 | 5 if told <= count => count + 1,
            2 => (told / count + 1) * count,
            3 => {
                let (period, phase) = (told / count * count, told % count);
                let high = count.div_ceil(2);
                period + if phase < high && high < count { high } else { count }
            }
            _ => return None,
        };
        Some(loaded_at.saturating_add(elapsed))
    }

    fn load(&mut self, tick: u64, count: u32) {
        self.count = count;
        self.next_count = None;
        // The first clock after the write loads the counter.
        self.loaded_at = Some(tick + 1);
        self.told = tick + 1;
        let is_stopped = !self.gate && !matches!(self.mode, 1 | 5);
        self.held_elapsed = is_stopped.then_some(0);
    }

    /// Transfers a count that was waiting for the end of a period that has passed.
    fn settle(&mut self, tick: u64) {
        let (2 | 3, Some(next), Some(loaded_at)) = (self.mode, self.next_count, self.loaded_at)
        else {
            return;
        };
        let count = u64::from(self.count);
        let told = self.told.max(loaded_at) - loaded_at;
        let end = loaded_at.saturating_add((told / count + 1) * count);
        if end <= tick && self.held_elapsed.is_none() {
            (self.count, self.next_count, self.loaded_at) = (next, None, Some(end));
        }
    }

    fn elapsed(&self, tick: u64) -> Option<u64> {
        let loaded_at = self.loaded_at?;
        Some(self.held_elapsed.unwrap_or(tick.saturating_sub(loaded_at)))
    }

    /// Elapsed ticks and count, as if a waiting count whose time has come were transferred.
    fn in_force(&self, elapsed: u64) -> (u64, u64) {
        let count = u64::from(self.count);
        match (self.mode, self.next_count, self.loaded_at) {
            (2 | 3, Some(next), Some(loaded_at)) if self.held_elapsed.is_none() => {
                let told = self.told.max(loaded_at) - loaded_at;
                let end = (told / count + 1) * count;
                if elapsed >= end { (elapsed - end, u64::from(next)) } else { (elapsed, count) }
            }
            _ => (elapsed, count),
        }
    }

    fn value(&self, tick: u64) -> u32 {
        let Some(elapsed) = self.elapsed(tick) else { return self.count };
        let (elapsed, count) = self.in_force(elapsed);
        let modulus = if self.is_bcd { 10_000 } else { 0x1_0000 };
        let value = match self.mode {
            2 => count - elapsed % count,
            3 => {
                let (phase, high) = (elapsed % count, count.div_ceil(2));
                let into = if phase < high { phase } else { phase - high };
                (count & !1).saturating_sub(2 * into)
            }
            _ => (count + modulus - elapsed % modulus) % modulus,
        };
        (value % modulus) as u32
    }

    /// A count of zero stands for the largest one. In BCD, digits above 9 count as they stand.
    fn decode(&self, raw: u16) -> u32 {
        let value = if self.is_bcd {
            (0..4).rev().fold(0, |value, digit| value * 10 + u32::from(raw >> (digit * 4) & 15))
        } else {
            u32::from(raw)
        };
        match (value, self.is_bcd) {
            (0, true) => 10_000,
            (0, false) => 0x1_0000,
            (1, _) if matches!(self.mode, 2 | 3) => 2, // A count of one is not allowed there.
            (value, true) => value.min(10_000),
            (value, false) => value,
        }
    }

    fn encode(&self, value: u32) -> u16 {
        if !self.is_bcd {
            return value as u16;
        }
        let digit = |n: u32| (value / 10u32.pow(n) % 10) as u16;
        digit(3) << 12 | digit(2) << 8 | digit(1) << 4 | digit(0)
    }
}
