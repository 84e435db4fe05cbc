//! Suites: programs that judge themselves, each run on an emulated host that has booted. A program
//! begins on the same host restored in memory, or all run on one, one after the other.

pub mod expect;
mod judge;
pub mod kut;
pub mod program;
mod run;
pub mod selftests;
mod tap;
pub mod text;

pub use judge::Verdict;
pub use program::Program;
pub use run::{Plan, Sharing, run};

/// One setting in which a suite is run.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Column {
    /// As it was named.
    pub kernel: String,
    /// As it was named.
    pub cpu: String,
    /// off or on.
    pub feature: String,
    /// Module parameters, `MODULE.NAME=VALUE` each.
    pub parameters: Vec<String>,
}

impl std::fmt::Display for Column {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {} {}", self.kernel, self.cpu, self.feature)?;
        self.parameters.iter().try_for_each(|one| write!(f, " {one}"))
    }
}

/// What became of one program in one setting.
#[derive(Clone, Debug, serde::Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Tested {
    /// The program with its arguments.
    pub name: String,
    /// Where it ran.
    pub column: Column,
    /// What that was.
    #[serde(flatten)]
    pub verdict: Verdict,
    /// Its exit status, if it came to one.
    pub status: Option<i32>,
    /// Seconds of the emulated host.
    pub virtual_seconds: f64,
    /// Seconds of this machine.
    pub seconds: f64,
    /// What the machine did, as a hash: the same again if nothing has changed. None where hosts
    /// are shared.
    pub trace_hash: Option<String>,
    /// What it printed, the end of it if that was much.
    pub output: String,
    /// What the kernel logged meanwhile.
    pub log: Vec<String>,
}

impl Tested {
    /// In a line.
    pub fn line(&self) -> String {
        let Self { name, column, verdict, virtual_seconds, seconds, .. } = self;
        let reason = match verdict.reason() {
            "" => String::new(),
            reason => format!(": {reason}"),
        };
        format!(
            "{:<8}{name} ({column}; {virtual_seconds:.1} s virtual, {seconds:.1} s){reason}\n",
            verdict.word()
        )
    }
}

/// A suite's results, for programs.
#[derive(Debug, serde::Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Outcome {
    /// Version of this form.
    pub schema: u32,
    /// In the order of settings and programs.
    pub tests: Vec<Tested>,
    /// What is not as the list of what is known has it.
    pub unexpected: Vec<String>,
}

impl Outcome {
    /// Version of this form: docs/schema/lab-suite-1.json.
    pub const SCHEMA: u32 = 1;
}
