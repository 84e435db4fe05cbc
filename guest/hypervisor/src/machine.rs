//! The virtual machine: one at a time, from power-on to the write that ends it.

use crate::host;
use crate::memory::Memory;
use crate::payload;
use crate::port::Ports;
use crate::selection::{Acceleration, Selection};
use crate::statistics::Statistics;
use crate::vapic::target::MOST_VCPUS;
use crate::vcpu::Vcpu;
use crate::vendor::Vendor;
use arch::apic::Mode;
use core::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use runtime::lock::Lock;
use runtime::{apic, print, processor};

/// What the guest writes to the port that ends it, if all went well; and what we write if not.
const PASSED: u32 = 0;
pub const FAILED: u32 = 0xFF;

/// What a machine has no room for on a stack, used by one after the other.
pub struct Storage<V: Vendor> {
    vcpus: [Vcpu<V>; MOST_VCPUS],
    tables: V::Tables,
}

impl<V: Vendor> Storage<V> {
    pub const fn new(vcpus: [Vcpu<V>; MOST_VCPUS], tables: V::Tables) -> Self {
        Self { vcpus, tables }
    }
}

/// A machine that runs: everything that its parts need of each other.
pub struct Machine<V: Vendor> {
    pub vendor: V,
    pub vcpus: &'static [Vcpu<V>],
    pub memory: Memory,
    pub ports: Lock<Ports>,
    pub statistics: Statistics<V>,
    /// Cycles that a vCPU runs before others that are ready.
    pub slice: u64,
    has_ended: AtomicBool,
    status: AtomicU32,
}

impl<V: Vendor> Machine<V> {
    /// A machine before power-on, with RAM that is zero.
    pub fn new(
        features: V::Features,
        selection: &Selection<'_>,
        acceleration: Acceleration,
        memory: Memory,
        storage: &'static Storage<V>,
    ) -> Self {
        let is_accelerated = acceleration == Acceleration::On;
        let vcpus = &storage.vcpus[..selection.vcpus];
        memory.clear_all();
        let vendor = V::prepare(features, selection, is_accelerated, memory, &storage.tables);
        for (index, vcpu) in vcpus.iter().enumerate() {
            vcpu.target.set_index(index);
            vendor.admit(&vcpu.target);
        }
        Self {
            vendor,
            vcpus,
            memory,
            ports: Lock::new(Ports::new(acceleration.name(), vcpus.len())),
            statistics: Statistics::new(),
            slice: selection.slice,
            has_ended: AtomicBool::new(false),
            status: AtomicU32::new(PASSED),
        }
    }

    /// Puts the guest into RAM, and has the first vCPU start it. All virtual
    /// processors have been powered on.
    pub fn load(&self, image: &[u8], selection: &Selection<'_>) -> Result<(), &'static str> {
        let entry = payload::load(self.memory, image, selection)?;
        self.vcpus[0].start_by_multiboot(&entry);
        Ok(())
    }

    /// Those that live on a physical processor.
    pub fn living_on(
        &self,
        host: usize,
    ) -> impl Iterator<Item = &'static Vcpu<V>> + Clone + use<V> {
        self.vcpus.iter().skip(host).step_by(processor::count())
    }

    /// Whether the guest may have x2APIC mode: only where the processor stands in for such an APIC,
    /// if it does for any.
    pub fn has_x2apic(&self) -> bool {
        let is_accelerated = self.vendor.accelerates(Mode::XApic);
        apic::has_x2apic() && (!is_accelerated || self.vendor.accelerates(Mode::X2Apic))
    }

    pub fn has_ended(&self) -> bool {
        self.has_ended.load(Ordering::Acquire)
    }

    /// Ends the run.
    pub fn end(&self, status: u32) {
        if !self.has_ended.swap(true, Ordering::SeqCst) {
            self.status.store(status, Ordering::SeqCst);
        }
        (0..processor::count()).for_each(host::nudge);
    }

    /// Says what the guest ended with; whether that was a good end.
    pub fn report_result(&self, name: &str) -> bool {
        let status = self.status.load(Ordering::Relaxed);
        print!("{{\"record\":\"result\",\"feature\":\"{name}\",\"status\":{status}}}");
        status == PASSED
    }
}
