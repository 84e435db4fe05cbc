//! How a trial of a plan is run: in the lab, on a host.

/// In the lab.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LabSetup {
    /// Model of the emulated processors.
    pub cpu: String,
    /// Of its cores, unless a factor says it; the model's boost if None.
    pub clock: Option<String>,
    /// Processors of the emulated host.
    pub cpus: u16,
    /// By what they share, in place of their number; unless a factor says it.
    pub topology: Option<String>,
    /// Of the emulated host, such as `1G`.
    pub memory: String,
    /// Of the emulated host; the lab's usual one if None.
    pub kernel: Option<String>,
    /// vCPUs of a guest.
    pub vcpus: u16,
    /// A word of the lab's, or a command.
    pub workload: String,
    /// In its place: what runs on this machine, by a shell, and has an emulated machine itself.
    pub command: Option<String>,
    /// More options of the benchmark guest.
    pub options: String,
    /// More words for a Linux guest's kernel.
    pub append: String,
    /// `MODULE.NAME=VALUE`.
    pub parameters: Vec<String>,
    /// Programs of this machine.
    pub needs: Vec<String>,
    /// Files of this machine that are taken along.
    pub add: Vec<String>,
    /// Seconds of virtual time, or those that a command may take.
    pub limit: u64,
    /// Fewer blocks than on a host.
    pub blocks: Option<usize>,
    /// Whether times are measured in a run of their own, without tracepoints.
    pub is_timed: bool,
    /// What is smaller than in the published procedure.
    pub scale: String,
    /// Why the lab cannot run it.
    pub cannot: Option<String>,
}

/// On a host.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HostSetup {
    /// Whose processors it takes: `amd` or `intel`; None for either.
    pub vendor: Option<String>,
    /// How many virtual machines.
    pub guests: usize,
    /// Whether the command runs in the guest.
    pub is_in_guest: bool,
    /// What runs, by a shell.
    pub command: String,
    /// Programs that have to be there.
    pub needs: Vec<String>,
    /// Seconds of rest after a setting.
    pub settle: u64,
    /// Seconds that a run may take.
    pub limit: u64,
    /// Settings of the host that are changed for the experiment.
    pub prepare: Vec<String>,
    /// Percent of stolen time above which a trial is void.
    pub most_steal: f64,
    /// Busy percent of the host before a trial above which it is void.
    pub most_load: f64,
    /// Why no host can run it.
    pub cannot: Option<String>,
}
