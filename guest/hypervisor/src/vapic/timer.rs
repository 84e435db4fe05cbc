//! The APIC's timer, by the time stamp counter. [APM2 "APIC Timer"]

use crate::vapic::page::ApicPage;
use arch::apic::{DivideConfiguration, LocalVector, Lvt, Register, TimerMode};
use runtime::instruction::time_stamp;

/// Cycles of the time stamp counter in a tick of the undivided timer.
const TICK: u64 = 16;

/// When the timer interrupts next, and how often after that.
#[derive(Clone, Copy, Default)]
pub struct Timer {
    /// None while no count runs.
    deadline: Option<u64>,
    /// Zero for a single count.
    period: u64,
}

impl Timer {
    pub const fn stopped() -> Self {
        Self { deadline: None, period: 0 }
    }

    pub fn stop(&mut self) {
        *self = Self::stopped();
    }

    pub fn deadline(&self) -> Option<u64> {
        self.deadline
    }

    /// The initial count was written.
    pub fn start(&mut self, page: &ApicPage) {
        let count = u64::from(page.get(Register::InitialCount.offset()));
        let cycles = count * cycles_per_count(page);
        *self = Self {
            deadline: (count != 0).then(|| time_stamp() + cycles),
            period: if is_periodic(page) { cycles } else { 0 },
        };
    }

    /// The timer's local vector was written: the mode follows, the count goes on.
    pub fn change(&mut self, page: &ApicPage) {
        let count = u64::from(page.get(Register::InitialCount.offset()));
        self.period = if is_periodic(page) { count * cycles_per_count(page) } else { 0 };
    }

    pub fn current_count(&self, page: &ApicPage) -> u32 {
        let left = self.deadline.map_or(0, |deadline| deadline.saturating_sub(time_stamp()));
        (left / cycles_per_count(page)) as u32
    }

    /// The vector of the interrupt that is due, if one is.
    pub fn expire(&mut self, page: &ApicPage) -> Option<u8> {
        let deadline = self.deadline?;
        let now = time_stamp();
        if now < deadline {
            return None;
        }
        // Periods that nobody saw pass become one.
        let period = self.period;
        self.deadline = (period != 0).then(|| deadline + ((now - deadline) / period + 1) * period);
        let entry = entry(page);
        (!entry.is_masked()).then(|| entry.vector())
    }
}

fn entry(page: &ApicPage) -> Lvt {
    Lvt::from_bits(page.get(LocalVector::Timer.offset()))
}

fn is_periodic(page: &ApicPage) -> bool {
    entry(page).timer_mode() == TimerMode::Periodic
}

fn cycles_per_count(page: &ApicPage) -> u64 {
    let divide = page.get(Register::DivideConfiguration.offset());
    TICK * u64::from(DivideConfiguration(divide).divisor())
}
