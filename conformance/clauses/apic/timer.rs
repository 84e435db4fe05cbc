//! [SDM3 "APIC Timer"] [APM2 "APIC Timer Interrupt"]

use crate::subject::*;
use arch::apic::{LocalVector, Register};
use arch::identity::Vector;
use arch::time::Picoseconds;
use interrupt::{LocalApic, LocalApicModel};

const ENTRY: Register = Register::LocalVector(LocalVector::Timer);
const VECTOR: u8 = 0xEC;
const ONE_SHOT: u32 = VECTOR as u32;
const PERIODIC: u32 = ONE_SHOT | 1 << 17;
const DEADLINE: u32 = ONE_SHOT | 1 << 18;
const MASK: u32 = 1 << 16;
/// Divide by one.
const UNDIVIDED: u32 = 0xB;

/// One tick is a nanosecond.
fn model() -> LocalApicModel {
    LocalApicModel { timer_hertz: 1_000_000_000, ..intel(0) }
}

fn ns(ns: u64) -> Picoseconds {
    Picoseconds::from_nanoseconds(ns)
}

fn timer(entry: u32) -> LocalApic {
    let mut apic = xapic(model());
    write(&mut apic, Register::DivideConfiguration, UNDIVIDED);
    write(&mut apic, ENTRY, entry);
    apic
}

fn started(entry: u32, count: u32) -> LocalApic {
    let mut apic = timer(entry);
    write(&mut apic, Register::InitialCount, count);
    apic
}

/// Advances and takes the interrupt; whether there was one.
fn fires(apic: &mut LocalApic, now: Picoseconds) -> bool {
    apic.advance(now, &mut Vec::new());
    let fired = apic.pending() == Some(Vector(VECTOR));
    drain(apic);
    fired
}

fn current(apic: &mut LocalApic, now: Picoseconds) -> u32 {
    read_at(apic, Register::CurrentCount, now)
}

#[test]
fn one_shot_fires_once_at_zero() {
    let mut apic = started(ONE_SHOT, 1000);
    assert_eq!(apic.next_deadline(), Some(ns(1000)));
    assert!(!fires(&mut apic, ns(999)));
    assert!(fires(&mut apic, ns(1000)));
    assert_eq!(apic.next_deadline(), None);
    assert!(!fires(&mut apic, ns(5000)));
}

#[test]
fn count_goes_down_to_zero_and_stays_in_one_shot() {
    let mut apic = started(ONE_SHOT, 1000);
    for (now, expected) in [(0, 1000), (1, 999), (999, 1), (1000, 0), (1001, 0), (9999, 0)] {
        assert_eq!(current(&mut apic, ns(now)), expected, "{now} ns");
    }
    assert_eq!(read(&mut apic, Register::InitialCount), 1000);
}

#[test]
fn count_reloads_in_periodic() {
    let mut apic = started(PERIODIC, 1000);
    for (now, expected) in [(0, 1000), (999, 1), (1000, 1000), (1001, 999), (5500, 500)] {
        assert_eq!(current(&mut apic, ns(now)), expected, "{now} ns");
    }
}

#[test]
fn every_divisor() {
    for (code, divisor) in [(0xB, 1), (0, 2), (1, 4), (2, 8), (3, 16), (8, 32), (9, 64), (0xA, 128)]
    {
        let mut apic = timer(ONE_SHOT);
        write(&mut apic, Register::DivideConfiguration, code);
        write(&mut apic, Register::InitialCount, 10);
        assert_eq!(apic.next_deadline(), Some(ns(10 * divisor)), "code {code:x}");
        assert_eq!(current(&mut apic, ns(3 * divisor)), 7);
    }
}

#[test]
fn periodic_does_not_drift() {
    // A clock whose period is not a whole number of picoseconds.
    let hertz = 33_333_333;
    let mut apic = xapic(LocalApicModel { timer_hertz: hertz, ..amd(0) });
    write(&mut apic, Register::DivideConfiguration, 3);
    write(&mut apic, ENTRY, PERIODIC);
    let start = Picoseconds(777);
    write_at(&mut apic, Register::InitialCount, 7, start);
    for period in 1..=10_000u64 {
        let expected = start + Picoseconds::at_tick(period * 7 * 16, hertz);
        assert_eq!(apic.next_deadline(), Some(expected), "period {period}");
        assert!(!fires(&mut apic, Picoseconds(expected.0 - 1)));
        assert!(fires(&mut apic, expected));
    }
}

#[test]
fn missed_periods_are_one_interrupt_and_keep_the_phase() {
    let mut apic = started(PERIODIC, 1000);
    assert!(fires(&mut apic, ns(1_000_000_500)));
    assert!(!fires(&mut apic, ns(1_000_000_999)));
    assert_eq!(apic.next_deadline(), Some(ns(1_000_001_000)));
    assert!(fires(&mut apic, ns(1_000_001_000)));
}

#[test]
fn writing_the_count_restarts_and_zero_stops() {
    for entry in [ONE_SHOT, PERIODIC] {
        let mut apic = started(entry, 1000);
        write_at(&mut apic, Register::InitialCount, 500, ns(800));
        assert_eq!(apic.next_deadline(), Some(ns(1300)));
        write_at(&mut apic, Register::InitialCount, 0, ns(900));
        assert_eq!(apic.next_deadline(), None);
        assert_eq!(current(&mut apic, ns(1000)), 0);
        assert!(!fires(&mut apic, ns(10_000)));
    }
}

#[test]
fn masked_timer_counts_without_interrupts_and_loses_what_it_missed() {
    let mut apic = started(PERIODIC | MASK, 1000);
    assert_eq!(apic.next_deadline(), None);
    assert_eq!(current(&mut apic, ns(2300)), 700);
    write_at(&mut apic, ENTRY, PERIODIC, ns(2300));
    assert_eq!(apic.pending(), None);
    assert_eq!(apic.next_deadline(), Some(ns(3000)));
    assert!(fires(&mut apic, ns(3000)));
    let mut apic = started(ONE_SHOT | MASK, 1000);
    write_at(&mut apic, ENTRY, ONE_SHOT, ns(1500));
    assert_eq!(apic.next_deadline(), None);
    assert_eq!(apic.pending(), None);
}

#[test]
fn expiry_before_the_mask_is_not_lost() {
    let mut apic = started(ONE_SHOT, 1000);
    write_at(&mut apic, ENTRY, ONE_SHOT | MASK, ns(1500));
    assert_eq!(apic.pending(), Some(Vector(VECTOR)));
}

#[test]
fn software_disable_stops_the_interrupts() {
    let mut apic = started(PERIODIC, 1000);
    write_at(&mut apic, Register::SpuriousVector, 0xFF, ns(500));
    assert_eq!(apic.next_deadline(), None);
    assert!(!fires(&mut apic, ns(5000)));
}

#[test]
fn count_goes_on_between_one_shot_and_periodic() {
    let mut apic = started(ONE_SHOT, 1000);
    write_at(&mut apic, ENTRY, PERIODIC, ns(600));
    assert_eq!(current(&mut apic, ns(600)), 400);
    assert_eq!(apic.next_deadline(), Some(ns(1000)));
    assert!(fires(&mut apic, ns(1000)));
    assert_eq!(current(&mut apic, ns(1000)), 1000);
    assert_eq!(apic.next_deadline(), Some(ns(2000)));
    write_at(&mut apic, ENTRY, ONE_SHOT, ns(1700));
    assert_eq!(current(&mut apic, ns(1700)), 300);
    assert!(fires(&mut apic, ns(2000)));
    assert_eq!(apic.next_deadline(), None);
    write_at(&mut apic, ENTRY, PERIODIC, ns(2500));
    assert_eq!(current(&mut apic, ns(2500)), 0, "an expired one-shot does not come back");
    assert_eq!(apic.next_deadline(), None);
}

#[test]
fn changing_the_divisor_keeps_the_count() {
    let mut apic = started(ONE_SHOT, 1000);
    write_at(&mut apic, Register::DivideConfiguration, 0, ns(600));
    assert_eq!(current(&mut apic, ns(600)), 400);
    assert_eq!(apic.next_deadline(), Some(ns(1400)));
}

#[test]
fn deadline_fires_once_and_then_reads_zero() {
    let mut apic = timer(DEADLINE);
    apic.set_tsc_deadline(12345, Some(ns(1000)));
    assert_eq!(apic.tsc_deadline(), 12345);
    assert_eq!(apic.next_deadline(), Some(ns(1000)));
    assert!(!fires(&mut apic, ns(999)));
    assert!(fires(&mut apic, ns(1000)));
    assert_eq!(apic.tsc_deadline(), 0);
    assert_eq!(apic.next_deadline(), None);
}

#[test]
fn deadline_is_replaced_and_disarmed_by_zero() {
    let mut apic = timer(DEADLINE);
    apic.set_tsc_deadline(1, Some(ns(1000)));
    apic.set_tsc_deadline(2, Some(ns(500)));
    assert_eq!(apic.next_deadline(), Some(ns(500)));
    apic.set_tsc_deadline(0, Some(ns(500)));
    assert_eq!((apic.tsc_deadline(), apic.next_deadline()), (0, None));
    assert!(!fires(&mut apic, ns(9999)));
}

#[test]
fn masked_deadline_passes_without_an_interrupt() {
    let mut apic = timer(DEADLINE | MASK);
    apic.set_tsc_deadline(1, Some(ns(1000)));
    assert!(!fires(&mut apic, ns(1000)));
    assert_eq!(apic.tsc_deadline(), 0);
}

#[test]
fn deadline_and_count_ignore_each_others_writes() {
    for entry in [ONE_SHOT, PERIODIC] {
        let mut apic = timer(entry);
        apic.set_tsc_deadline(1, Some(ns(1000)));
        assert_eq!((apic.tsc_deadline(), apic.next_deadline()), (0, None));
    }
    let mut apic = started(DEADLINE, 1000);
    assert_eq!(read(&mut apic, Register::InitialCount), 0);
    assert_eq!(current(&mut apic, ns(10)), 0);
    assert_eq!(apic.next_deadline(), None);
}

#[test]
fn changing_to_or_from_deadline_disarms() {
    let mut apic = started(PERIODIC, 1000);
    write_at(&mut apic, ENTRY, DEADLINE, ns(100));
    assert_eq!(apic.next_deadline(), None);
    apic.set_tsc_deadline(1, Some(ns(1000)));
    write_at(&mut apic, ENTRY, ONE_SHOT, ns(200));
    assert_eq!((apic.tsc_deadline(), apic.next_deadline()), (0, None));
    assert_eq!(current(&mut apic, ns(200)), 0);
}

#[test]
fn deadline_mode_is_refused_where_the_model_lacks_it() {
    let mut apic = xapic(LocalApicModel { supports_tsc_deadline: false, ..model() });
    write(&mut apic, ENTRY, DEADLINE);
    assert_eq!(read(&mut apic, ENTRY), ONE_SHOT);
    let mut apic = x2apic(LocalApicModel { supports_tsc_deadline: false, ..model() });
    assert!(apic.write_msr(0x832, u64::from(DEADLINE), NOW, &mut Vec::new()).is_err());
}

#[test]
fn reserved_timer_mode_does_nothing() {
    let mut apic = started(DEADLINE | PERIODIC, 1000);
    apic.set_tsc_deadline(1, Some(ns(1000)));
    assert_eq!(apic.next_deadline(), None);
    assert!(!fires(&mut apic, ns(5000)));
}

#[test]
fn longest_count_at_the_lowest_rate_is_exact() {
    let mut apic = xapic(LocalApicModel { timer_hertz: 1, ..amd(0) });
    write(&mut apic, Register::DivideConfiguration, 0xA);
    write(&mut apic, ENTRY, ONE_SHOT);
    write(&mut apic, Register::InitialCount, u32::MAX);
    assert_eq!(apic.next_deadline(), None, "past the end of time");
    assert_eq!(current(&mut apic, Picoseconds::MAX), u32::MAX - 144_115);
}
