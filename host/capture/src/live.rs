//! Exits as they happen, by what the host allows. The ways, best first, are the rungs of a
//! ladder; whoever records says which rung it stands on.

pub mod bpf;
pub mod interrupts;
pub mod statistics;
pub mod tracefs;

/// A way to see exits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rung {
    /// A program in the kernel sums up; nothing is copied per exit.
    Bpf,
    /// The text of ftrace, every event of it.
    Ftrace,
    /// KVM's own counters, without times.
    Statistics,
    /// Posted interrupts as the host's interrupt counters show them; exits are not seen.
    InterruptCounters,
}

impl Rung {
    pub const ALL: [Self; 4] = [Self::Bpf, Self::Ftrace, Self::Statistics, Self::InterruptCounters];

    pub const fn name(self) -> &'static str {
        match self {
            Self::Bpf => "summed up in the kernel (BPF)",
            Self::Ftrace => "every event as text (ftrace)",
            Self::Statistics => "counters of KVM without times (debugfs)",
            Self::InterruptCounters => "interrupt counters only (/proc/interrupts)",
        }
    }

    /// What it costs the host while it runs.
    pub const fn cost(self) -> &'static str {
        match self {
            Self::Bpf => "a few map operations per exit",
            Self::Ftrace => "every event is formatted as text",
            Self::Statistics | Self::InterruptCounters => "nothing per exit",
        }
    }

    /// What the user must do where this rung is refused.
    pub const fn remedy(self) -> &'static str {
        match self {
            Self::Bpf => {
                "run with: sudo, or: sudo setcap cap_bpf,cap_perfmon,cap_dac_read_search+ep $(command -v avicenna)"
            }
            Self::Ftrace => {
                "run with: sudo; if tracefs is missing: sudo mount -t tracefs nodev /sys/kernel/tracing"
            }
            Self::Statistics => {
                "run with: sudo; if debugfs is missing: sudo mount -t debugfs nodev /sys/kernel/debug"
            }
            Self::InterruptCounters => "mount /proc",
        }
    }
}
