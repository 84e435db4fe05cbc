//! What a reader delivers to.

use serde::{Deserialize, Serialize};
use trace::kvm::{Exit, KvmEvent, Stamp};

/// Receives events in the order of the recording.
///
/// The few events of which long recordings have millions may be taken by methods of their own, so
/// that nothing is put together only to be taken apart.
pub trait Sink {
    fn event(&mut self, stamp: &Stamp, event: &KvmEvent);

    #[inline(always)]
    fn entry(&mut self, stamp: Stamp, vcpu: u32) {
        self.event(&stamp, &KvmEvent::Entry { vcpu });
    }

    #[inline(always)]
    fn exit(&mut self, stamp: Stamp, exit: Exit) {
        self.event(&stamp, &KvmEvent::Exit(exit));
    }

    #[inline(always)]
    fn msr(&mut self, stamp: Stamp, is_write: bool, index: u32, value: u64) {
        self.event(&stamp, &KvmEvent::Msr { is_write, index, value });
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

/// What a recording says about where it was made, and what went wrong in reading it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Origin {
    /// Kind of file and its version, as in `perf.data`.
    pub format: String,
    pub kernel_release: Option<String>,
    pub host_name: Option<String>,
    /// CPU vendor, family, model and stepping.
    pub cpu: Option<String>,
    pub cpu_description: Option<String>,
    pub host_cpus: Option<u32>,
    pub recorder: Option<String>,
    pub command: Option<String>,
    /// `print fmt` of the inhibit event, which names the bits on newer kernels.
    pub inhibit_print_format: Option<String>,
    /// Tracepoints that were recorded, whether they fired or not; empty if not known.
    pub events: Vec<String>,
    pub bytes: u64,
    pub warnings: Vec<String>,
}
