//! Exits as they happen, by what the host allows. The ways, best first, are the rungs of a
//! ladder; a recording says which rung it stands on.

#[cfg(feature = "bpf")]
pub mod bpf;
pub mod counting;
pub mod histogram;
pub mod interrupts;
pub mod qmp;
pub mod statistics;
pub mod text;

/// A way to see exits. The best come first: those that tell more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rung {
    /// A program in the kernel sums up; nothing is copied per exit.
    Bpf,
    /// The kernel's own histograms sum up.
    Histogram,
    /// The text of ftrace, every event of it.
    Text,
    /// Counters of tracepoints, without times and reasons.
    Counting,
    /// What a machine's monitor tells of KVM's counters.
    Monitor,
    /// KVM's own counters, without times.
    Statistics,
    /// Posted interrupts as the host's interrupt counters show them; exits are not seen.
    Interrupts,
}

impl Rung {
    /// The ladder, best first.
    pub const ALL: [Self; 7] = [
        Self::Bpf,
        Self::Histogram,
        Self::Text,
        Self::Counting,
        Self::Monitor,
        Self::Statistics,
        Self::Interrupts,
    ];

    /// What it does, for readers.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Bpf => "summed up in the kernel (BPF)",
            Self::Histogram => "summed up in the kernel (event histograms)",
            Self::Text => "every event as text (ftrace)",
            Self::Counting => "events counted without times (perf_event_open)",
            Self::Monitor => "counters of KVM without times (QMP)",
            Self::Statistics => "counters of KVM without times (debugfs)",
            Self::Interrupts => "interrupt counters only (/proc/interrupts)",
        }
    }

    /// What it costs the host while it runs.
    pub const fn cost(self) -> &'static str {
        match self {
            Self::Bpf => "about 0.7 us per exit",
            Self::Histogram => "three histogram updates per exit",
            Self::Text => "every event is formatted as text",
            Self::Counting => "a counter per event",
            Self::Monitor | Self::Statistics | Self::Interrupts => "nothing per exit",
        }
    }

    /// Whether `record` has anything to write that a report could be made of.
    pub const fn writes_a_file(self) -> bool {
        matches!(self, Self::Bpf | Self::Histogram | Self::Text)
    }

    /// What a report of its recording must say.
    pub const fn caveat(self) -> Option<&'static str> {
        match self {
            Self::Histogram => Some(
                "recorded by event histograms: which MSR, port or register an exit was about is \
                 not in it; the shortest, the longest and the percentiles are known to a power of \
                 two",
            ),
            _ => None,
        }
    }

    /// The command that grants this rung to `program`, where it was refused.
    pub fn remedy(self, program: &str) -> String {
        match self {
            Self::Bpf => format!(
                "run with sudo, or once: sudo setcap cap_bpf,cap_perfmon,cap_dac_read_search+ep {program}"
            ),
            Self::Histogram | Self::Text => "run with sudo".into(),
            Self::Counting => format!(
                "run with sudo, or once: sudo setcap cap_perfmon,cap_dac_read_search+ep {program}"
            ),
            Self::Monitor => {
                "start QEMU with: -qmp unix:SOCKET,server=on,wait=off; give: --qmp SOCKET".into()
            }
            Self::Statistics => {
                "run with sudo; if debugfs is missing: sudo mount -t debugfs nodev /sys/kernel/debug"
                    .into()
            }
            Self::Interrupts => "mount /proc".into(),
        }
    }
}
