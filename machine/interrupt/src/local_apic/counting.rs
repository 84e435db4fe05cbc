//! The timer: one-shot, periodic, TSC deadline. [SDM3 "APIC Timer"] [APM2 "APIC Timer Interrupt"]

use super::LocalApic;
use super::timer::Count;
use arch::apic::{DivideConfiguration, LocalVector, Lvt, Register, TimerMode};
use arch::time::Picoseconds;
use bus::Effect;

impl LocalApic {
    /// When [`Self::advance`] has something to do next.
    #[inline]
    pub fn next_deadline(&self) -> Option<Picoseconds> {
        self.timer.next
    }

    /// Lets the timer have its effect up to `now`. Any number of missed periods is one interrupt:
    /// IRR holds no more. The timer's interrupt stays in this APIC, so nothing goes to `_out`.
    pub fn advance(&mut self, now: Picoseconds, _out: &mut Vec<Effect>) {
        self.run_timer(now);
    }

    #[inline]
    pub(super) fn run_timer(&mut self, now: Picoseconds) {
        if self.timer.next.is_some_and(|next| next <= now) {
            self.expire(now);
        }
    }

    fn expire(&mut self, now: Picoseconds) {
        if self.timer_entry().timer_mode() == TimerMode::TscDeadline {
            self.timer.deadline = 0;
            self.timer.deadline_at = None;
            self.fire();
        } else if self.pass_expiries(now) {
            self.fire();
        }
        self.plan_timer();
    }

    fn fire(&mut self) {
        self.deliver_local(Register::LocalVector(LocalVector::Timer));
    }

    /// Deals with what expired up to `now`; whether that was anything.
    fn pass_expiries(&mut self, now: Picoseconds) -> bool {
        let count = self.count();
        let expiries = self.timer.expiries(count, now);
        let has_expired = expiries > self.timer.expired;
        self.timer.expired = expiries;
        if has_expired && count.mode == TimerMode::OneShot {
            self.timer.loaded = 0;
            self.timer.expired = 0;
        }
        has_expired
    }

    /// A masked count needs no attention: it shows only when read.
    pub(super) fn plan_timer(&mut self) {
        let entry = self.timer_entry();
        self.timer.next = match entry.timer_mode() {
            TimerMode::TscDeadline => self.timer.deadline_at,
            TimerMode::OneShot | TimerMode::Periodic if !entry.is_masked() => {
                self.timer.next_expiry(self.count())
            }
            _ => None,
        };
    }

    fn timer_entry(&self) -> Lvt {
        Lvt::from_bits(self.read_raw(Register::LocalVector(LocalVector::Timer)))
    }

    fn count(&self) -> Count {
        let divide = DivideConfiguration(self.read_raw(Register::DivideConfiguration));
        Count {
            hertz: self.model.timer_hertz,
            divisor: divide.divisor(),
            initial: self.read_raw(Register::InitialCount),
            mode: self.timer_entry().timer_mode(),
        }
    }

    pub(super) fn current_count(&self, now: Picoseconds) -> u32 {
        match self.timer_entry().timer_mode() {
            TimerMode::OneShot | TimerMode::Periodic => self.timer.current(self.count(), now),
            TimerMode::TscDeadline | TimerMode::Reserved => 0,
        }
    }

    /// A write of the initial count starts the timer, or stops it with 0. In TSC-deadline mode it
    /// is ignored. [SDM3 "TSC-Deadline Mode"]
    pub(super) fn start_timer(&mut self, initial: u32, now: Picoseconds) {
        if self.timer_entry().timer_mode() == TimerMode::TscDeadline {
            return;
        }
        self.write_raw(Register::InitialCount, initial);
        self.timer.load(initial, now);
        self.plan_timer();
    }

    /// The count goes on from where it is, at the new rate.
    pub(super) fn write_divide(&mut self, value: u32, now: Picoseconds) {
        self.run_timer(now);
        self.pass_expiries(now);
        let current = self.current_count(now);
        let register = Register::DivideConfiguration;
        self.write_raw(register, value & self.writable(register));
        self.timer.load(current, now);
        self.plan_timer();
    }

    /// Between one-shot and periodic the count goes on; to and from TSC deadline the timer is
    /// disarmed. Expiries while masked are lost.
    pub(super) fn write_timer_entry(&mut self, value: u32, now: Picoseconds) {
        self.run_timer(now);
        self.pass_expiries(now);
        let register = Register::LocalVector(LocalVector::Timer);
        let before = self.timer_entry().timer_mode();
        let current = self.current_count(now);
        self.store_local_vector(register, value);
        let after = self.timer_entry().timer_mode();
        if before != after {
            // In the modes that do not count, the count reads as zero: those end here too.
            self.timer.load(current, now);
            self.timer.deadline = 0;
            self.timer.deadline_at = None;
        }
        self.plan_timer();
    }

    /// Writes IA32_TSC_DEADLINE, of which `at` is the moment. Ignored in the other timer modes.
    pub fn set_tsc_deadline(&mut self, raw: u64, at: Option<Picoseconds>) {
        if self.timer_entry().timer_mode() != TimerMode::TscDeadline {
            return;
        }
        self.timer.deadline = raw;
        self.timer.deadline_at = if raw == 0 { None } else { at };
        self.plan_timer();
    }

    /// Reads IA32_TSC_DEADLINE: 0 when disarmed.
    pub fn tsc_deadline(&self) -> u64 {
        self.timer.deadline
    }
}
