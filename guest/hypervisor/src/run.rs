//! One run of a guest: power-on, the schedule on every physical processor, the results.

use crate::host;
use crate::machine::{Machine, Storage};
use crate::memory::Memory;
use crate::schedule;
use crate::selection::{Acceleration, Selection};
use crate::vendor::{Control, Vendor};
use runtime::instruction::time_stamp;
use runtime::{job, print};

/// Runs `image` to its end; whether that was a good one.
pub fn run<V: Vendor>(
    features: V::Features,
    selection: &Selection<'_>,
    acceleration: Acceleration,
    memory: Memory,
    image: &[u8],
    storage: &'static Storage<V>,
) -> bool {
    let machine = Machine::new(features, selection, acceleration, memory, storage);
    let name = acceleration.name();
    job::run_everywhere(&machine, power_on);
    if let Err(reason) = machine.load(image, selection) {
        print!("{{\"record\":\"unavailable\",\"what\":\"guest\",\"reason\":\"{reason}\"}}");
        job::run_everywhere(&machine, power_off);
        return false;
    }
    host::prepare();
    print!("{{\"record\":\"run\",\"feature\":\"{name}\",\"vcpus\":{}}}", selection.vcpus);
    let start = time_stamp();
    job::run_everywhere(&machine, |machine| {
        schedule::serve(machine);
        power_off(machine);
    });
    machine.statistics.report(name, time_stamp() - start);
    machine.report_result(name)
}

/// A physical processor's part before the guest starts.
fn power_on<V: Vendor>(machine: &Machine<V>) {
    machine.vendor.enable();
    for vcpu in machine.living_on(host::current()) {
        vcpu.power_on(&machine.vendor);
    }
}

/// And after it has ended.
fn power_off<V: Vendor>(machine: &Machine<V>) {
    for vcpu in machine.living_on(host::current()) {
        vcpu.owned.with(|owned| owned.control.release());
    }
    machine.vendor.disable();
}
