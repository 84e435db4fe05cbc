//! What agent and session tell each other: JSON, a line each, over a port of a virtio console. The
//! bytes of a file or of a command's input follow the line that says how many there are.

use crate::plan::{Arm, ModuleParameter};
use bench::{Configuration, Outcome};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use trace::inhibit::Numbering;

/// Name of the port.
pub const PORT: &str = "avicenna.lab";
/// The word of the kernel's command line that makes this program an agent.
pub const COMMAND_LINE: &str = "avicenna.lab=1";

/// A guest that writes to these ports says where the part begins and ends that is of interest.
pub const WINDOW_BEGINS: u16 = 0xEC;
/// The second of the two ports.
pub const WINDOW_ENDS: u16 = 0xED;

/// What runs in a virtual machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Guest {
    /// The built-in benchmark, with its options.
    Benchmark(String),
    /// The kernel of the host with the guest's initial RAM disk; the text is added to its command
    /// line.
    Linux(String),
    /// A kernel for bare metal that came along, with its command line.
    Kernel(String),
}

/// When a function interrupts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sending {
    /// Nanoseconds between two interrupts.
    pub period_ns: u32,
    /// How many there are.
    pub count: u32,
    /// What follows, once all of these have been taken.
    pub bursts: Option<Bursts>,
}

/// Bursts of interrupts with silence between, each closer together or further apart than the one
/// before: whatever a processor does after an interrupt, some interrupt comes at that moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bursts {
    /// How many.
    pub bursts: u32,
    /// Interrupts in each.
    pub count: u32,
    /// Nanoseconds between two interrupts of the first burst.
    pub first_ns: u32,
    /// How many more there are in each further burst.
    pub step_ns: u32,
}

impl Bursts {
    /// Nanoseconds between the interrupts of a burst, from 0 on; None behind the last.
    pub fn period_ns(&self, burst: u32) -> Option<u32> {
        let more = self.step_ns.saturating_mul(burst);
        (burst < self.bursts).then(|| self.first_ns.saturating_add(more))
    }
}

/// One virtual machine from start to end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Step {
    /// What the step is called in results.
    pub name: String,
    /// The workload that it is of.
    pub workload: String,
    /// What it stands for in the experiment, with what the host's modules are loaded with.
    pub arm: Arm,
    /// What the virtual machine has.
    pub configuration: Configuration,
    /// What runs in it.
    pub guest: Guest,
    /// Whether the host's IOMMU can post interrupts to what the guest is given.
    pub posts: bool,
    /// Whether KVM's tracepoints count; they cost time.
    pub is_traced: bool,
    /// How many such virtual machines run at once.
    pub guests: u16,
    /// Seconds of the emulated host after which the virtual machine is stopped.
    pub limit: u64,
}

/// What KVM's tracepoints counted.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Tracepoints {
    /// By exit code.
    pub exits: BTreeMap<u64, u64>,
    /// `kvm_avic_incomplete_ipi` by reason of failure.
    pub incomplete: BTreeMap<u64, u64>,
    /// `kvm_avic_unaccelerated_access` by register.
    pub unaccelerated: BTreeMap<u64, u64>,
    /// Events of `kvm_avic_ga_log`, where they were asked for and the kernel has them; on Intel
    /// interrupts with the wake-up vector.
    pub woken: Option<u64>,
    /// The same of `kvm_pi_irte_update`.
    pub routes: Option<u64>,
    /// `kvm_apicv_inhibit_changed`, as printed: seconds, text.
    pub inhibits: Vec<(f64, String)>,
    /// When, on the same clock, vCPUs could begin to run and when they no longer
    /// could.
    pub ran: Option<(f64, f64)>,
    /// What the kernel calls the reasons, where its `format` file says so.
    pub numbering: Option<Numbering>,
}

/// What became of a step.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StepResult {
    /// How the virtual machine ended.
    pub outcome: Outcome,
    /// Seconds of the emulated host that its vCPUs could run.
    pub seconds: f64,
    /// Lines on the guest's console.
    pub console: Vec<String>,
    /// Ticks that the emulated host's processors spent meanwhile, as the first line of `/proc/stat`
    /// has them.
    pub times: Vec<u64>,
    /// Returns to the monitor, by reason.
    pub process_exits: BTreeMap<String, u64>,
    /// None of a step that was not traced.
    pub tracepoints: Option<Tracepoints>,
    /// The arm's module parameters as the kernel shows them.
    pub parameters: Vec<ModuleParameter>,
    /// The kernel's messages of the module and its warnings.
    pub messages: Vec<String>,
}

/// A command of the host.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Command {
    /// The program and its arguments.
    pub arguments: Vec<String>,
    /// Variables that it has besides the usual ones.
    pub environment: Vec<(String, String)>,
    /// Where it starts.
    pub folder: Option<String>,
    /// Whether its standard input follows; otherwise it is empty.
    pub takes_input: bool,
    /// Rows and columns of the terminal that it has, which takes input, too.
    pub terminal: Option<(u16, u16)>,
}

impl Command {
    /// Without anything unusual.
    pub fn new(arguments: Vec<String>) -> Self {
        Self { arguments, ..Self::default() }
    }
}

/// Where a command writes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Stream {
    /// Standard output.
    Output,
    /// Standard error.
    Errors,
}

/// From the agent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FromAgent {
    /// The host has booted; its kernel's release.
    Ready(String),
    /// The next step can start; nothing runs in virtual machines.
    Standby,
    /// The guest printed a line.
    Progress(String),
    /// The step is over.
    Finished(Box<StepResult>),
    /// A step, or the host as a whole, cannot do what was asked.
    Failed(String),
    /// The shell or the command ended with this status.
    Left(i32),
    /// Lines of `/proc/kallsyms` that are about code.
    Symbols(String),
    /// The function that each of some addresses lies in, and its module.
    Named(Vec<(String, Option<String>)>),
    /// A piece of what a command of the host writes.
    Wrote(Stream, String),
    /// A file of so many bytes, which follow.
    File(u64),
    /// Lines of the kernel's log since they were asked for last.
    Log(Vec<String>),
}

/// From the session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ToAgent {
    /// Get ready for a step: load the module as it wants it.
    Prepare(Box<Step>),
    /// Start it.
    Go,
    /// The same, and tell at once of each line that the guest prints.
    GoByLine,
    /// Load modules with these parameters; no virtual machine follows.
    Load(Vec<ModuleParameter>),
    /// Run a command on the host.
    Run(Command),
    /// So many bytes follow for its standard input; none is the end of it.
    Input(u64),
    /// End the command that runs.
    Stop,
    /// Put a file there, an executable one, of so many bytes, which follow.
    Put(String, u64),
    /// Put a symbolic link there, which leads to the second.
    Link(String, String),
    /// Tell what the file there contains.
    Get(String),
    /// Tell what the kernel's log has had since this was asked last.
    Log,
    /// Have vfio-pci drive the function at this address.
    Give(String),
    /// Mount the shared folder with this tag there.
    Mount(String, String),
    /// Say what code the kernel and its modules have, and where.
    Symbols,
    /// Say what the code at these addresses is called, in order.
    Name(Vec<u64>),
    /// Give the console, a terminal of so many rows and columns, to a shell, with modules loaded
    /// with these parameters. When it ends, its exit status is said and the host powers off.
    Shell {
        /// Of the terminal.
        rows: u16,
        /// Of the terminal.
        columns: u16,
        /// What the modules are loaded with.
        parameters: Vec<ModuleParameter>,
    },
    /// The session is over.
    PowerOff,
}
