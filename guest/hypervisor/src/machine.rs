//! The virtual machine: one at a time, from power-on to the write that ends it.

use crate::memory;
use crate::payload;
use crate::schedule;
use crate::selection::{Acceleration, Selection};
use crate::statistics;
use crate::svm::feature::Features;
use crate::svm::{avic, entry, msr, nested};
use crate::vcpu;
use arch::address::{GuestPhysical, SystemPhysical};
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use runtime::instruction::time_stamp;
use runtime::{apic, print, processor};

/// What the guest writes to the port that ends it, if all went well; and what we write if not.
const PASSED: u32 = 0;
pub const FAILED: u32 = 0xFF;

static VCPU_COUNT: AtomicUsize = AtomicUsize::new(0);
static IS_ACCELERATED: AtomicBool = AtomicBool::new(false);
static HIDES_RUNNING: AtomicBool = AtomicBool::new(false);
static NESTED_ROOT: AtomicU64 = AtomicU64::new(0);
static HAS_ENDED: AtomicBool = AtomicBool::new(false);
static STATUS: AtomicU32 = AtomicU32::new(PASSED);
static FEATURE_BITS: AtomicU32 = AtomicU32::new(0);
static ASIDS: AtomicU32 = AtomicU32::new(2);

pub fn vcpu_count() -> usize {
    VCPU_COUNT.load(Ordering::Relaxed)
}

pub fn acceleration() -> Acceleration {
    if IS_ACCELERATED.load(Ordering::Relaxed) { Acceleration::On } else { Acceleration::Off }
}

/// Whether senders are never to see that a virtual processor runs.
pub fn hides_running() -> bool {
    HIDES_RUNNING.load(Ordering::Relaxed)
}

pub fn nested_root() -> SystemPhysical {
    SystemPhysical(NESTED_ROOT.load(Ordering::Relaxed))
}

/// What the processor can do: kept here, since asking it may exit to a hypervisor below us.
pub fn features() -> Features {
    let bits = FEATURE_BITS.load(Ordering::Relaxed);
    let has = |bit: u32| bits >> bit & 1 != 0;
    Features {
        avic: has(0),
        x2avic: has(1),
        next_rip: has(2),
        decode_assists: has(3),
        flush_by_asid: has(4),
        asids: ASIDS.load(Ordering::Relaxed),
    }
}

fn keep(features: &Features) {
    let flags = [
        features.avic,
        features.x2avic,
        features.next_rip,
        features.decode_assists,
        features.flush_by_asid,
    ];
    let bits = flags.iter().rev().fold(0, |bits, flag| bits << 1 | u32::from(*flag));
    FEATURE_BITS.store(bits, Ordering::Relaxed);
    ASIDS.store(features.asids, Ordering::Relaxed);
}

/// Whether the guest may have x2APIC mode: with AVIC only where there is x2AVIC.
pub fn has_x2apic() -> bool {
    apic::has_x2apic() && (acceleration() == Acceleration::Off || features().x2avic)
}

pub fn has_ended() -> bool {
    HAS_ENDED.load(Ordering::Acquire)
}

/// Ends the run.
pub fn end(status: u32) {
    if !HAS_ENDED.swap(true, Ordering::SeqCst) {
        STATUS.store(status, Ordering::SeqCst);
    }
    (0..processor::count()).for_each(schedule::nudge);
}

/// Runs `image` to its end; whether that was a good one.
pub fn run(
    features: &Features,
    selection: &Selection<'_>,
    acceleration: Acceleration,
    image: &[u8],
) -> bool {
    keep(features);
    VCPU_COUNT.store(selection.vcpus, Ordering::Relaxed);
    IS_ACCELERATED.store(acceleration == Acceleration::On, Ordering::Relaxed);
    HIDES_RUNNING.store(selection.hides_running, Ordering::Relaxed);
    HAS_ENDED.store(false, Ordering::SeqCst);
    STATUS.store(PASSED, Ordering::Relaxed);
    statistics::clear();
    memory::clear(GuestPhysical(0), memory::size() as usize);
    let root = nested::build(acceleration == Acceleration::On);
    NESTED_ROOT.store(root.0, Ordering::Relaxed);
    msr::build_maps();
    avic::prepare();
    (0..selection.vcpus).for_each(|index| vcpu::get(index).power_on(index));
    let name = acceleration.name();
    match payload::load(image, selection) {
        Ok(entry) => vcpu::get(0).start_by_multiboot(&entry),
        Err(reason) => {
            print!("{{\"record\":\"unavailable\",\"what\":\"guest\",\"reason\":\"{reason}\"}}");
            return false;
        }
    }
    schedule::prepare(selection.slice);
    print!("{{\"record\":\"run\",\"feature\":\"{name}\",\"vcpus\":{}}}", selection.vcpus);
    let start = time_stamp();
    runtime::job::run_on(0..processor::count(), |_| serve(), 0);
    statistics::report(acceleration, time_stamp() - start);
    let status = STATUS.load(Ordering::Relaxed);
    print!("{{\"record\":\"result\",\"feature\":\"{name}\",\"status\":{status}}}");
    status == PASSED
}

/// A physical processor's part.
fn serve() {
    entry::enable();
    schedule::serve();
}
