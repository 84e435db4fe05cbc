//! The high precision event timer: a 100 MHz counter and three comparators.
//! [HPET "IA-PC HPET Specification"]

use crate::lanes;
use crate::map;
use arch::address::Device;
use arch::msi::MessageSignalled;
use arch::time::Picoseconds;
use bitfield_struct::bitfield;
use bus::{Context, Effect, Initiator};
use serde::{Deserialize, Serialize};

/// How fast the main counter runs.
pub const HERTZ: u64 = 100_000_000;
/// The counter's period, as the capabilities register and ACPI tables state it.
pub const PERIOD_FEMTOSECONDS: u32 = 10_000_000;
/// Comparators; the capabilities register states the last one's number.
pub const TIMERS: usize = 3;
/// Vendor Intel, as most boards say whatever their processor, revision 1.
const VENDOR: u64 = 0x8086;
const REVISION: u64 = 0x01;
/// Lines 10 and 11, which nothing else on the board uses.
const ROUTES: u32 = 0x0C00;

mod offset {
    pub const CAPABILITIES: u64 = 0x000;
    pub const CONFIGURATION: u64 = 0x010;
    pub const STATUS: u64 = 0x020;
    pub const COUNTER: u64 = 0x0F0;
    pub const FIRST_TIMER: u64 = 0x100;
    pub const TIMER_SIZE: u64 = 0x20;
}

/// General configuration.
#[bitfield(u64)]
#[derive(PartialEq, Eq, Serialize, Deserialize)]
struct Configuration {
    /// [0] The counter counts and interrupts are allowed.
    is_enabled: bool,
    /// [1] Timers 0 and 1 take the lines of PIT and clock. [HPET "LegacyReplacement Route"]
    replaces_legacy: bool,
    #[bits(62)]
    _reserved: u64,
}

/// Timer configuration and capability.
#[bitfield(u64)]
#[derive(PartialEq, Eq, Serialize, Deserialize)]
struct TimerConfiguration {
    _reserved: bool,
    /// [1]
    is_level: bool,
    /// [2]
    is_interrupt_enabled: bool,
    /// [3]
    is_periodic: bool,
    /// [4] Read-only.
    can_be_periodic: bool,
    /// [5] Read-only.
    has_64_bits: bool,
    /// [6] The next comparator write sets the comparator, not only the period.
    sets_value: bool,
    _reserved: bool,
    /// [8]
    is_32_bit: bool,
    /// [13:9]
    #[bits(5)]
    route: u8,
    /// [14] Interrupts are messages.
    #[doc(alias = "FSB")]
    is_message_enabled: bool,
    /// [15] Read-only.
    can_send_messages: bool,
    _reserved: u16,
    /// [63:32] Read-only: the lines that `route` may name.
    routes: u32,
}

/// The bits of a timer's configuration that can be written: 1–3, 6, 8–14.
const TIMER_WRITABLE: u64 = 0x7F4E;

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Timer {
    configuration: TimerConfiguration,
    comparator: u64,
    period: u64,
    /// [31:0] data, [63:32] address.
    message: u64,
    /// The tick (of the board, not the counter) of the next match.
    due: Option<u64>,
    /// The line that is held high.
    held: Option<u8>,
}

/// The timer block: a main counter and comparators that drive lines or send messages.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Hpet {
    configuration: Configuration,
    /// Bits of level-triggered timers that fired.
    status: u64,
    /// The counter at tick `started_at`, or as it stands if halted.
    counter: u64,
    started_at: Option<u64>,
    timers: Vec<Timer>,
}

impl Default for Hpet {
    fn default() -> Self {
        let configuration = TimerConfiguration::new()
            .with_can_be_periodic(true)
            .with_has_64_bits(true)
            .with_can_send_messages(true)
            .with_routes(ROUTES);
        let timer = Timer {
            configuration,
            comparator: u64::MAX,
            period: 0,
            message: 0,
            due: None,
            held: None,
        };
        Self {
            configuration: Configuration::new(),
            status: 0,
            counter: 0,
            started_at: None,
            timers: vec![timer; TIMERS],
        }
    }
}

impl Hpet {
    /// The first double word of the capabilities, as the ACPI table repeats it.
    pub const fn event_timer_block_id() -> u32 {
        const HAS_64_BITS: u64 = 1 << 13;
        const CAN_REPLACE_LEGACY: u64 = 1 << 15;
        let timers = (TIMERS as u64 - 1) << 8;
        (VENDOR << 16 | CAN_REPLACE_LEGACY | HAS_64_BITS | timers | REVISION) as u32
    }

    /// Whether timers 0 and 1 have taken the lines of PIT and clock.
    pub fn replaces_legacy(&self) -> bool {
        self.configuration.replaces_legacy()
    }

    /// Reads a register at its offset in the block; halves of 64-bit registers may be read alone.
    pub fn read(&mut self, cx: &mut Context, address: u64, size: u8) -> u64 {
        let register = self.register(cx.now.ticks(HERTZ), address & !7);
        lanes::extract(register, address & 7, size)
    }

    /// Writes a register, or part of one, at its offset in the block.
    pub fn write(&mut self, cx: &mut Context, address: u64, size: u8, value: u64) {
        self.advance(cx);
        let tick = cx.now.ticks(HERTZ);
        let aligned = address & !7;
        let old = if aligned == offset::STATUS { 0 } else { self.register(tick, aligned) };
        let new = lanes::insert(old, address & 7, size, value);
        match aligned {
            offset::CONFIGURATION => self.write_configuration(cx, tick, new),
            offset::STATUS => self.clear_status(cx, new),
            offset::COUNTER => {
                self.counter = new;
                self.started_at = self.started_at.map(|_| tick);
                self.arm_all(tick);
            }
            offset::FIRST_TIMER.. => self.write_timer(cx, tick, aligned, new),
            _ => {}
        }
    }

    /// When the next comparator matches.
    pub fn next_deadline(&self) -> Option<Picoseconds> {
        let due = self.timers.iter().filter_map(|timer| timer.due).min()?;
        Some(Picoseconds::at_tick(due, HERTZ))
    }

    /// Fires the comparators that matched up to now.
    pub fn advance(&mut self, cx: &mut Context) {
        let tick = cx.now.ticks(HERTZ);
        for index in 0..self.timers.len() {
            if self.timers[index].due.is_some_and(|due| due <= tick) {
                self.timers[index].pass_match(tick);
                self.fire(cx, index);
            }
        }
    }

    fn counter(&self, tick: u64) -> u64 {
        let passed = self.started_at.map_or(0, |start| tick.saturating_sub(start));
        self.counter.wrapping_add(passed)
    }

    fn register(&self, tick: u64, aligned: u64) -> u64 {
        match aligned {
            offset::CAPABILITIES => {
                u64::from(PERIOD_FEMTOSECONDS) << 32 | u64::from(Self::event_timer_block_id())
            }
            offset::CONFIGURATION => self.configuration.into_bits(),
            offset::STATUS => self.status,
            offset::COUNTER => self.counter(tick),
            offset::FIRST_TIMER.. => {
                let Some((index, register)) = timer_at(aligned) else { return 0 };
                let timer = &self.timers[index];
                match register {
                    0x00 => timer.configuration.into_bits(),
                    0x08 => timer.comparator,
                    0x10 => timer.message,
                    _ => 0,
                }
            }
            _ => 0,
        }
    }

    fn write_configuration(&mut self, cx: &mut Context, tick: u64, value: u64) {
        let new = Configuration::from_bits(value & 3);
        if new.is_enabled() != self.configuration.is_enabled() {
            self.counter = self.counter(tick);
            self.started_at = new.is_enabled().then_some(tick);
        }
        if new.replaces_legacy() != self.configuration.replaces_legacy() {
            (0..TIMERS).for_each(|index| self.release(cx, index));
        }
        self.configuration = new;
        self.arm_all(tick);
    }

    fn clear_status(&mut self, cx: &mut Context, ones: u64) {
        let cleared = self.status & ones;
        self.status &= !ones;
        for index in (0..TIMERS).filter(|index| cleared & 1 << index != 0) {
            self.release(cx, index);
        }
    }

    fn write_timer(&mut self, cx: &mut Context, tick: u64, aligned: u64, value: u64) {
        let Some((index, register)) = timer_at(aligned) else { return };
        let counter = self.counter(tick);
        let timer = &mut self.timers[index];
        match register {
            0x00 => {
                let kept = timer.configuration.into_bits() & !TIMER_WRITABLE;
                let mut new = TimerConfiguration::from_bits(kept | value & TIMER_WRITABLE);
                // Only routes that the capability names can be chosen.
                if ROUTES & 1 << new.route() == 0 {
                    new.set_route(timer.configuration.route());
                }
                if new.is_32_bit() {
                    timer.comparator &= u64::from(u32::MAX);
                    timer.period &= u64::from(u32::MAX);
                }
                timer.configuration = new;
                self.release(cx, index);
            }
            0x08 => timer.write_comparator(value),
            0x10 => timer.message = value,
            _ => {}
        }
        let is_running = self.started_at.is_some();
        self.timers[index].arm(tick, counter, is_running);
        // A comparator equal to the counter matches at once.
        self.advance(cx);
    }

    fn arm_all(&mut self, tick: u64) {
        let (counter, is_running) = (self.counter(tick), self.started_at.is_some());
        for timer in &mut self.timers {
            timer.arm(tick, counter, is_running);
        }
    }

    fn line(&self, index: usize) -> u8 {
        match index {
            0 if self.replaces_legacy() => map::PIT_LINE,
            1 if self.replaces_legacy() => map::RTC_LINE,
            _ => self.timers[index].configuration.route(),
        }
    }

    fn fire(&mut self, cx: &mut Context, index: usize) {
        let configuration = self.timers[index].configuration;
        if configuration.is_level() {
            self.status |= 1 << index;
        }
        if !configuration.is_interrupt_enabled() {
            return;
        }
        if configuration.is_message_enabled() {
            let message = self.timers[index].message;
            let message = MessageSignalled { address: Device(message >> 32), data: message as u32 };
            cx.effect(initiator(), Effect::MessageSignalled(message));
            return;
        }
        let gsi = self.line(index);
        let is_held = self.timers[index].held == Some(gsi);
        if is_held && configuration.is_level() {
            return;
        }
        // An edge leaves the line high until the next one, as an 8259 wants to see it.
        self.release(cx, index);
        cx.effect(initiator(), Effect::Line { gsi, asserted: true });
        self.timers[index].held = Some(gsi);
    }

    fn release(&mut self, cx: &mut Context, index: usize) {
        if let Some(gsi) = self.timers[index].held.take() {
            cx.effect(initiator(), Effect::Line { gsi, asserted: false });
        }
    }
}

impl Timer {
    fn mask(&self) -> u64 {
        if self.configuration.is_32_bit() { u32::MAX.into() } else { u64::MAX }
    }

    /// [HPET "Timer n Comparator Value Register"]
    fn write_comparator(&mut self, value: u64) {
        let value = value & self.mask();
        if self.configuration.is_periodic() {
            self.period = value;
        }
        if !self.configuration.is_periodic() || self.configuration.sets_value() {
            self.comparator = value;
        }
        self.configuration.set_sets_value(false);
    }

    fn arm(&mut self, tick: u64, counter: u64, is_running: bool) {
        let wait = self.comparator.wrapping_sub(counter) & self.mask();
        self.due = is_running.then(|| tick.checked_add(wait)).flatten().filter(is_in_time);
    }

    /// Moves on to the match after those up to `tick`.
    fn pass_match(&mut self, tick: u64) {
        let Some(due) = self.due else { return };
        let step = if self.configuration.is_periodic() && self.period != 0 {
            self.period
        } else if self.configuration.is_32_bit() {
            // The comparator matches again after the counter's low half has wrapped.
            1 << 32
        } else {
            self.due = None;
            return;
        };
        let steps = (tick - due) / step + 1;
        let next = steps.checked_mul(step).and_then(|passed| due.checked_add(passed));
        self.due = next.filter(is_in_time);
        if self.configuration.is_periodic() {
            let passed = steps.wrapping_mul(step);
            self.comparator = self.comparator.wrapping_add(passed) & self.mask();
        }
    }
}

/// Beyond the end of virtual time there is nothing to wait for.
fn is_in_time(tick: &u64) -> bool {
    *tick <= Picoseconds::MAX.ticks(HERTZ)
}

fn timer_at(aligned: u64) -> Option<(usize, u64)> {
    let offset = aligned.checked_sub(offset::FIRST_TIMER)?;
    let index = (offset / offset::TIMER_SIZE) as usize;
    (index < TIMERS).then_some((index, offset % offset::TIMER_SIZE))
}

fn initiator() -> Initiator {
    Initiator::Device(map::ISA_BRIDGE.requester())
}

#[cfg(test)]
mod tests;
