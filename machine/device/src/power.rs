//! ACPI fixed hardware (PM1 event and control, PM timer, GPE0) and the reset register at CF9h.
//! [ACPI "Fixed Hardware Features"] [ICH "Reset Control Register"]
//!
//! There is no system-management mode and so no SMI command port: SCI_EN is always one. Of the
//! sleep states only S5 is offered.

use crate::lanes;
use crate::map;
use arch::time::Picoseconds;
use bitflags::bitflags;
use bus::{Context, Effect, Initiator};
use serde::{Deserialize, Serialize};

/// How fast the PM timer counts. [ACPI "Power Management Timer"]
pub const PM_TIMER_HERTZ: u64 = 3_579_545;

bitflags! {
    /// PM1 status and enable share their layout.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
    struct Pm1: u16 {
        /// The timer's top bit changed.
        const TIMER = 1 << 0;
        const BUS_MASTER = 1 << 4;
        const GLOBAL = 1 << 5;
        const POWER_BUTTON = 1 << 8;
        const SLEEP_BUTTON = 1 << 9;
        const RTC = 1 << 10;
        const WAKE = 1 << 15;
    }
}

const SCI_ENABLE: u16 = 1;
const SLEEP_ENABLE: u16 = 1 << 13;
const RESET_CPU: u8 = 1 << 2;

/// PM1, GPE0 and the PM timer, with the level of the ACPI line.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Power {
    status: Pm1,
    enable: Pm1,
    control: u16,
    gpe_status: u16,
    gpe_enable: u16,
    reset_control: u8,
    /// The half-periods of the timer that have been turned into status.
    told_halves: u64,
    is_asserted: bool,
    /// What firmware of others writes for S5 by itself, where there is such firmware.
    firmware_s5: Option<u8>,
}

impl Default for Power {
    fn default() -> Self {
        Self {
            status: Pm1::empty(),
            enable: Pm1::empty(),
            control: SCI_ENABLE,
            gpe_status: 0,
            gpe_enable: 0,
            reset_control: 0,
            told_halves: 0,
            is_asserted: false,
            firmware_s5: None,
        }
    }
}

impl Power {
    /// The running timer, 32 bits wide.
    pub fn timer(now: Picoseconds) -> u32 {
        now.ticks(PM_TIMER_HERTZ) as u32
    }

    /// This sleep type powers off as well: firmware that shuts down asks no DSDT.
    pub(crate) fn take_for_s5(&mut self, sleep_type: u8) {
        self.firmware_s5 = Some(sleep_type);
    }

    /// `port` lies in one of the ACPI blocks.
    pub fn read(&mut self, cx: &mut Context, port: u16, size: u8) -> u32 {
        self.follow_timer(cx.now);
        let (base, register) = match port {
            map::PM1A_EVENT..map::PM1A_CONTROL => (
                map::PM1A_EVENT,
                u32::from(self.status.bits()) | u32::from(self.enable.bits()) << 16,
            ),
            map::PM1A_CONTROL..map::PM_TIMER => (map::PM1A_CONTROL, u32::from(self.control)),
            map::PM_TIMER..map::GPE0 => (map::PM_TIMER, Self::timer(cx.now)),
            _ => (map::GPE0, u32::from(self.gpe_status) | u32::from(self.gpe_enable) << 16),
        };
        lanes::extract(register.into(), u64::from(port - base), size) as u32
    }

    /// Writes a register, or part of one; the line follows, and a sleep request powers off.
    pub fn write(&mut self, cx: &mut Context, port: u16, size: u8, value: u32) {
        self.follow_timer(cx.now);
        let put = |register: u16, base: u16| {
            lanes::insert(register.into(), u64::from(port - base), size, value.into())
        };
        match port {
            map::PM1A_EVENT..map::PM1A_CONTROL => {
                // Status bits are cleared by ones, so bytes not written count as zero.
                let written = put(0, map::PM1A_EVENT);
                self.status.remove(Pm1::from_bits_truncate(written as u16));
                let all = lanes::insert(
                    u64::from(self.enable.bits()) << 16,
                    u64::from(port - map::PM1A_EVENT),
                    size,
                    value.into(),
                );
                self.enable = Pm1::from_bits_truncate((all >> 16) as u16);
            }
            map::PM1A_CONTROL..map::PM_TIMER => {
                let control = put(self.control, map::PM1A_CONTROL) as u16;
                self.write_control(cx, control);
            }
            map::PM_TIMER..map::GPE0 => {}
            _ => {
                self.gpe_status &= !(put(0, map::GPE0) as u16);
                let all = lanes::insert(
                    u64::from(self.gpe_enable) << 16,
                    u64::from(port - map::GPE0),
                    size,
                    value.into(),
                );
                self.gpe_enable = (all >> 16) as u16;
            }
        }
        self.update(cx);
    }

    /// Port CF9h; the bit that resets reads as zero.
    pub fn read_reset_control(&self) -> u8 {
        self.reset_control
    }

    /// Resets the board when the reset bit rises.
    pub fn write_reset_control(&mut self, cx: &mut Context, value: u8) {
        let is_rising = value & RESET_CPU != 0 && self.reset_control & RESET_CPU == 0;
        self.reset_control = value & 0x0E;
        if is_rising {
            // The board that is reset starts with the register clear.
            self.reset_control &= !RESET_CPU;
            cx.effect(initiator(), Effect::Reset);
        }
    }

    /// A short press: the operating system is asked to shut down.
    pub fn press_power_button(&mut self, cx: &mut Context) {
        self.status.insert(Pm1::POWER_BUTTON);
        self.update(cx);
    }

    /// Raises general-purpose event `bit`, 0 to 15.
    pub fn raise_general_event(&mut self, cx: &mut Context, bit: u8) {
        self.gpe_status |= 1 << (bit & 15);
        self.update(cx);
    }

    /// The timer's top bit matters only while its interrupt is enabled.
    pub fn next_deadline(&self) -> Option<Picoseconds> {
        let is_watched = self.enable.contains(Pm1::TIMER) && !self.status.contains(Pm1::TIMER);
        let next = (self.told_halves + 1) << 31;
        is_watched.then(|| Picoseconds::at_tick(next, PM_TIMER_HERTZ))
    }

    /// Takes note of timer overflows up to now.
    pub fn advance(&mut self, cx: &mut Context) {
        self.follow_timer(cx.now);
        self.update(cx);
    }

    fn follow_timer(&mut self, now: Picoseconds) {
        let halves = now.ticks(PM_TIMER_HERTZ) >> 31;
        if halves > self.told_halves {
            self.told_halves = halves;
            self.status.insert(Pm1::TIMER);
        }
    }

    fn write_control(&mut self, cx: &mut Context, value: u16) {
        // The enable bit reads as zero and the rest is kept.
        self.control = value & 0x1C06 | SCI_ENABLE;
        let sleep_type = (value >> 10 & 7) as u8;
        let is_s5 = sleep_type == map::SLEEP_TYPE_S5 || self.firmware_s5 == Some(sleep_type);
        if value & SLEEP_ENABLE != 0 && is_s5 {
            cx.effect(initiator(), Effect::PowerOff);
        }
    }

    fn update(&mut self, cx: &mut Context) {
        let wanted = self.status & self.enable;
        let asserted = !wanted.is_empty() || self.gpe_status & self.gpe_enable != 0;
        if asserted != self.is_asserted {
            self.is_asserted = asserted;
            cx.effect(initiator(), Effect::Line { gsi: map::ACPI_LINE, asserted });
        }
    }
}

fn initiator() -> Initiator {
    Initiator::Device(map::ISA_BRIDGE.requester())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::Bench;

    #[test]
    fn only_the_s5_sleep_type_with_its_enable_bit_powers_off() {
        for (value, expected) in
            [(0x3400, true), (0x1400, false), (0x2000, false), (0x2400, false), (0x3401, true)]
        {
            let mut bench = Bench::new();
            let mut power = Power::default();
            power.write(&mut bench.context(), map::PM1A_CONTROL, 2, value);
            assert_eq!(bench.effects() == [Effect::PowerOff], expected, "{value:#x}");
            let read = power.read(&mut bench.context(), map::PM1A_CONTROL, 2);
            assert_eq!(read & 0x2001, 1, "SCI_EN is one, SLP_EN reads zero");
        }
    }

    #[test]
    fn firmware_s_own_sleep_type_powers_off_where_there_is_such_firmware() {
        for (value, expected) in [(0x2000, true), (0x3400, true), (0x2400, false), (0, false)] {
            let mut bench = Bench::new();
            let mut power = Power::default();
            power.take_for_s5(0);
            power.write(&mut bench.context(), map::PM1A_CONTROL, 2, value);
            assert_eq!(bench.effects() == [Effect::PowerOff], expected, "{value:#x}");
        }
    }

    #[test]
    fn the_timer_counts_at_its_frequency_and_ignores_writes() {
        for (ms, expected) in [(0, 0), (1, 3579), (1000, 3_579_545)] {
            let mut bench = Bench::new();
            bench.now = Picoseconds::from_milliseconds(ms);
            let mut power = Power::default();
            power.write(&mut bench.context(), map::PM_TIMER, 4, 77);
            assert_eq!(power.read(&mut bench.context(), map::PM_TIMER, 4), expected);
        }
    }

    #[test]
    fn an_enabled_event_holds_the_line_until_its_status_is_cleared() {
        let mut bench = Bench::new();
        let mut power = Power::default();
        power.press_power_button(&mut bench.context());
        assert!(bench.effects().is_empty(), "not enabled");
        power.write(&mut bench.context(), map::PM1A_EVENT + 2, 2, 0x100);
        assert_eq!(bench.levels(9), [true]);
        power.write(&mut bench.context(), map::PM1A_EVENT, 2, 0xFEFF);
        assert!(bench.effects().is_empty(), "another bit was cleared");
        power.write(&mut bench.context(), map::PM1A_EVENT, 2, 0x100);
        assert_eq!(bench.levels(9), [false]);
        assert_eq!(power.read(&mut bench.context(), map::PM1A_EVENT, 4), 0x0100_0000);
    }

    #[test]
    fn the_timer_interrupts_when_its_top_bit_changes() {
        let mut bench = Bench::new();
        let mut power = Power::default();
        power.write(&mut bench.context(), map::PM1A_EVENT + 2, 2, 1);
        bench.now = power.next_deadline().unwrap();
        assert_eq!(Power::timer(bench.now), 0x8000_0000);
        power.advance(&mut bench.context());
        assert_eq!(bench.levels(9), [true]);
        assert_eq!(power.next_deadline(), None);
    }

    #[test]
    fn general_events_have_status_and_enable() {
        let mut bench = Bench::new();
        let mut power = Power::default();
        power.write(&mut bench.context(), map::GPE0 + 2, 1, 0x04);
        power.raise_general_event(&mut bench.context(), 2);
        assert_eq!(bench.levels(9), [true]);
        assert_eq!(power.read(&mut bench.context(), map::GPE0, 4), 0x0004_0004);
        power.write(&mut bench.context(), map::GPE0, 1, 0x04);
        assert_eq!(bench.levels(9), [false]);
    }

    #[test]
    fn reset_needs_a_rising_reset_bit() {
        for (writes, expected) in
            [(vec![0x06], 1), (vec![0x02, 0x06], 1), (vec![0x02], 0), (vec![0x00, 0x04], 1)]
        {
            let mut bench = Bench::new();
            let mut power = Power::default();
            for value in &writes {
                power.write_reset_control(&mut bench.context(), *value);
            }
            assert_eq!(bench.effects(), vec![Effect::Reset; expected], "{writes:x?}");
        }
    }
}
