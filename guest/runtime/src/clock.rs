//! The time stamp counter's rate, and waiting by it. [APM2 "Time-Stamp Counter"]

use crate::instruction::{cpuid, cpuid_if_present, in8, out8, time_stamp};
use core::sync::atomic::{AtomicU64, Ordering};

const HYPERVISOR_LEAF: u32 = 0x4000_0000;
/// EAX: the time stamp counter's kHz, where a hypervisor gives it.
const HYPERVISOR_TIMING: u32 = 0x4000_0010;
const CRYSTAL: u32 = 0x15;
const CPUID_ECX_HYPERVISOR: u32 = 1 << 31;

/// PIT channel 2 and the port that gates it and shows its output.
const PIT_HZ: u64 = 1_193_182;
const PIT_CHANNEL_2: u16 = 0x42;
const PIT_COMMAND: u16 = 0x43;
const PIT_GATE: u16 = 0x61;
const OUTPUT: u8 = 1 << 5;
const CALIBRATION_US: u64 = 5000;
/// Reads of the gate before giving up on a timer that is not there.
const PATIENCE: u32 = 1 << 22;

/// Assumed where nothing tells: only waits depend on it.
const ASSUMED_KHZ: u64 = 3_000_000;
/// Anything slower was not a timer's answer.
const SLOWEST_KHZ: u64 = 10_000;

const UNKNOWN: u64 = 0;
static KILOHERTZ: AtomicU64 = AtomicU64::new(UNKNOWN);

fn from_hypervisor() -> Option<u64> {
    if cpuid(1, 0).ecx & CPUID_ECX_HYPERVISOR == 0
        || cpuid(HYPERVISOR_LEAF, 0).eax < HYPERVISOR_TIMING
    {
        return None;
    }
    Some(u64::from(cpuid(HYPERVISOR_TIMING, 0).eax)).filter(|&khz| khz >= SLOWEST_KHZ)
}

fn from_crystal() -> Option<u64> {
    let leaf = cpuid_if_present(CRYSTAL, 0);
    let hertz = u64::from(leaf.ecx) * u64::from(leaf.ebx) / u64::from(leaf.eax.max(1));
    (leaf.eax != 0 && hertz != 0).then_some(hertz / 1000)
}

/// Counts down once on channel 2, in mode 0, and watches its output.
fn from_interval_timer() -> Option<u64> {
    let count = (PIT_HZ * CALIBRATION_US / 1_000_000) as u16;
    let gate = in8(PIT_GATE) & !0b11;
    out8(PIT_GATE, gate);
    out8(PIT_COMMAND, 0b1011_0000);
    out8(PIT_CHANNEL_2, count as u8);
    out8(PIT_CHANNEL_2, (count >> 8) as u8);
    out8(PIT_GATE, gate | 1);
    let start = time_stamp();
    let ended = (0..PATIENCE).any(|_| in8(PIT_GATE) & OUTPUT != 0);
    let khz = (time_stamp() - start) * 1000 / CALIBRATION_US;
    (ended && khz >= SLOWEST_KHZ).then_some(khz)
}

/// Takes the rate as given; zero leaves it to be found out.
pub(crate) fn set_kilohertz(khz: u64) {
    KILOHERTZ.store(khz, Ordering::Relaxed);
}

/// The counter's rate and where that comes from; None where nothing tells.
pub fn kilohertz() -> Option<u64> {
    let known = KILOHERTZ.load(Ordering::Relaxed);
    if known != UNKNOWN {
        return Some(known);
    }
    let khz = from_hypervisor().or_else(from_crystal).or_else(from_interval_timer)?;
    KILOHERTZ.store(khz, Ordering::Relaxed);
    Some(khz)
}

/// Waits while `condition` holds, but no longer than `ms`; whether it ended in time.
pub fn wait_while(ms: u64, condition: impl Fn() -> bool) -> bool {
    wait_cycles(ms.saturating_mul(known_kilohertz()), condition)
}

fn known_kilohertz() -> u64 {
    match KILOHERTZ.load(Ordering::Relaxed) {
        UNKNOWN => ASSUMED_KHZ,
        khz => khz,
    }
}

/// Waits while `condition` holds, but no longer than `cycles` of the counter.
pub fn wait_cycles(cycles: u64, condition: impl Fn() -> bool) -> bool {
    let start = time_stamp();
    while condition() {
        if time_stamp() - start > cycles {
            return false;
        }
        core::hint::spin_loop();
    }
    true
}

/// Spins for at least `us` microseconds.
pub fn wait_us(us: u64) {
    wait_cycles(us * known_kilohertz() / 1000, || true);
}
