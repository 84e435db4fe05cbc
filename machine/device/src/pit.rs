//! The programmable interval timer: three counters and port 61h. [8254 "Intel 82C54 datasheet"]
//!
//! Counter 0 drives line 0, counter 1 stands for memory refresh (only its toggle in port 61h is
//! visible), counter 2 is gated by port 61h and read back there.

use crate::map;
use arch::time::Picoseconds;
use bus::{Context, Effect, Initiator};
use serde::{Deserialize, Serialize};

mod counter;
use counter::Counter;

pub const HERTZ: u64 = 1_193_182;
/// Refresh requests come every 18 ticks, and each turns the toggle in port 61h.
const REFRESH_TICKS: u64 = 18;

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Pit {
    counters: [Counter; 3],
    /// Port 61h: bit 0 gates counter 2, bit 1 lets it reach the speaker, bits 2 and 3 are checks.
    system_control: u8,
    /// The HPET may take line 0 away. [HPET "LegacyReplacement Route"]
    is_line_connected: bool,
    /// Counter 0's output as last told to the board.
    output: bool,
}

impl Default for Pit {
    fn default() -> Self {
        let mut pit = Self {
            counters: core::array::from_fn(|_| Counter::default()),
            system_control: 0,
            is_line_connected: true,
            output: false,
        };
        pit.counters[2].set_gate(0, false);
        pit
    }
}

impl Pit {
    /// `port` is 0 to 3.
    pub fn read(&mut self, cx: &mut Context, port: u16) -> u8 {
        match port {
            0..=2 => self.counters[usize::from(port)].read(cx.now.ticks(HERTZ)),
            _ => 0xFF,
        }
    }

    pub fn write(&mut self, cx: &mut Context, port: u16, value: u8) {
        self.advance(cx);
        let tick = cx.now.ticks(HERTZ);
        match port {
            0..=2 => self.counters[usize::from(port)].write(tick, value),
            3 => self.write_control(tick, value),
            _ => {}
        }
        self.follow_output(cx, tick);
    }

    pub fn read_system_control(&mut self, cx: &mut Context) -> u8 {
        let tick = cx.now.ticks(HERTZ);
        let refresh = u8::from(tick / REFRESH_TICKS % 2 == 1);
        let output = u8::from(self.counters[2].output(tick));
        self.system_control | refresh << 4 | output << 5
    }

    pub fn write_system_control(&mut self, cx: &mut Context, value: u8) {
        self.system_control = value & 0x0F;
        self.counters[2].set_gate(cx.now.ticks(HERTZ), value & 1 != 0);
    }

    pub fn set_line_connected(&mut self, cx: &mut Context, is_connected: bool) {
        if self.is_line_connected && !is_connected && self.output {
            self.tell(cx, false);
        }
        let is_new = is_connected && !self.is_line_connected;
        self.is_line_connected = is_connected;
        if is_new && self.output {
            self.tell(cx, true);
        }
    }

    pub fn next_deadline(&self) -> Option<Picoseconds> {
        if !self.is_line_connected {
            return None;
        }
        self.counters[0].next_edge().map(|tick| Picoseconds::at_tick(tick, HERTZ))
    }

    pub fn advance(&mut self, cx: &mut Context) {
        let tick = cx.now.ticks(HERTZ);
        if self.counters[0].take_pulse(tick) {
            // The output went low for one tick and up again.
            self.tell(cx, false);
            self.tell(cx, true);
            self.output = true;
        }
        self.follow_output(cx, tick);
    }

    fn follow_output(&mut self, cx: &mut Context, tick: u64) {
        let output = self.counters[0].steady_output(tick);
        if output != self.output {
            self.output = output;
            self.tell(cx, output);
        }
    }

    fn tell(&self, cx: &mut Context, asserted: bool) {
        if self.is_line_connected {
            let initiator = Initiator::Device(map::ISA_BRIDGE.requester());
            cx.effect(initiator, Effect::Line { gsi: map::PIT_LINE, asserted });
        }
    }

    fn write_control(&mut self, tick: u64, value: u8) {
        match value >> 6 {
            3 => self.read_back(tick, value),
            select if value & 0x30 == 0 => self.counters[usize::from(select)].latch_count(tick),
            select => self.counters[usize::from(select)].set_mode(value),
        }
    }

    /// [8254 "Read-Back Command"]
    fn read_back(&mut self, tick: u64, value: u8) {
        for (index, counter) in self.counters.iter_mut().enumerate() {
            if value & 2 << index == 0 {
                continue;
            }
            if value & 0x20 == 0 {
                counter.latch_count(tick);
            }
            if value & 0x10 == 0 {
                counter.latch_status(tick);
            }
        }
    }
}

#[cfg(test)]
mod tests;
