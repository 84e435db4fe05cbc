//! The APIC's timer, by the time stamp counter. [APM2 "APIC Timer"]

use crate::vcpu::{Owned, Vcpu};
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
}

fn entry(vcpu: &Vcpu) -> Lvt {
    Lvt::from_bits(vcpu.page.get(LocalVector::Timer.offset()))
}

fn cycles_per_count(vcpu: &Vcpu) -> u64 {
    let divide = vcpu.page.get(Register::DivideConfiguration.offset());
    TICK * u64::from(DivideConfiguration(divide).divisor())
}

/// The initial count was written.
pub fn start(vcpu: &Vcpu, owned: &mut Owned) {
    let count = u64::from(vcpu.page.get(Register::InitialCount.offset()));
    let cycles = count * cycles_per_count(vcpu);
    let is_periodic = entry(vcpu).timer_mode() == TimerMode::Periodic;
    owned.timer = Timer {
        deadline: (count != 0).then(|| time_stamp() + cycles),
        period: if is_periodic { cycles } else { 0 },
    };
}

/// The timer's local vector was written: the mode follows, the count goes on.
pub fn change(vcpu: &Vcpu, owned: &mut Owned) {
    let count = u64::from(vcpu.page.get(Register::InitialCount.offset()));
    let is_periodic = entry(vcpu).timer_mode() == TimerMode::Periodic;
    owned.timer.period = if is_periodic { count * cycles_per_count(vcpu) } else { 0 };
}

pub fn current_count(vcpu: &Vcpu, owned: &Owned) -> u32 {
    let left = owned.timer.deadline.map_or(0, |deadline| deadline.saturating_sub(time_stamp()));
    (left / cycles_per_count(vcpu)) as u32
}

/// Requests the timer's interrupt if it is due.
pub fn expire(vcpu: &Vcpu, owned: &mut Owned) {
    let Some(deadline) = owned.timer.deadline else { return };
    let now = time_stamp();
    if now < deadline {
        return;
    }
    // Periods that nobody saw pass become one.
    let period = owned.timer.period;
    owned.timer.deadline =
        (period != 0).then(|| deadline + ((now - deadline) / period + 1) * period);
    let entry = entry(vcpu);
    if !entry.is_masked() {
        vcpu.page.request(entry.vector());
    }
}
