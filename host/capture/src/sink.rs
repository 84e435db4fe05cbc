//! What a reader delivers to.

use serde::{Deserialize, Serialize};
use trace::kvm::{Departure, KvmEvent, Stamp};

/// Receives events in the order of the recording.
pub trait Sink {
    /// Takes one event.
    fn event(&mut self, stamp: &Stamp, event: &KvmEvent);

    /// Takes an exit and what was accessed in it at once. Long recordings have millions of these
    /// and of entries, so that nothing should be put together only to be taken apart.
    #[inline(always)]
    fn departure(&mut self, departure: &Departure) {
        for (stamp, event) in departure.events() {
            self.event(&stamp, &event);
        }
    }

    /// Takes an entry; see [`Self::departure`].
    #[inline(always)]
    fn entry(&mut self, stamp: &Stamp, vcpu: u32) {
        self.event(stamp, &KvmEvent::Entry { vcpu });
    }

    /// Takes an exit, what was accessed in it, and the entry of the same thread on the same CPU
    /// that comes next, whose vCPU is looked up only if it matters.
    #[inline(always)]
    fn trip(&mut self, departure: &Departure, entry_ns: u64, vcpu: impl FnOnce() -> u32) {
        self.departure(departure);
        self.entry(&Stamp { time_ns: entry_ns, ..departure.stamp }, vcpu());
    }

    /// Events of a host CPU were lost at or before a time.
    fn lost(&mut self, cpu: u32, at_ns: u64, events: u64);

    /// A thread's name.
    fn thread_name(&mut self, process: u32, thread: u32, name: &str) {
        let _ = (process, thread, name);
    }

    /// What follows may be earlier than what came, but not earlier than the round before.
    fn finished_round(&mut self) {}
}

/// A sink that is given several stretches of a recording which need not follow each other.
pub trait Stretched: Sink {
    /// What the neighbours of a stretch must know of it.
    type Edges: Send;

    /// Ends a stretch. What the sink summed up beside the edges belongs to no stretch in
    /// particular.
    fn cut(&mut self) -> Self::Edges;
}

/// What a recording says about where it was made, and what went wrong in reading it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Origin {
    /// Kind of file and its version, as in `perf.data`.
    pub format: String,
    /// As `uname -r` printed it.
    pub kernel_release: Option<String>,
    /// The machine's name.
    pub host_name: Option<String>,
    /// CPU vendor, family, model and stepping.
    pub cpu: Option<String>,
    /// The processor's name as it gives it itself.
    pub cpu_description: Option<String>,
    /// Processors of the host that were online.
    pub host_cpus: Option<u32>,
    /// The program that recorded, with its version.
    pub recorder: Option<String>,
    /// The recorder's command line.
    pub command: Option<String>,
    /// `print fmt` of the inhibit event, which names the bits on newer kernels.
    pub inhibit_print_format: Option<String>,
    /// Tracepoints that were recorded, whether they fired or not; empty if not known.
    pub events: Vec<String>,
    /// Length of the file.
    pub bytes: u64,
    /// What went wrong in reading, a sentence each.
    pub warnings: Vec<String>,
}
