//! One interrupt, step by step: what processors and hypervisor did, and what it changed.
//!
//! Nothing of it is a drawing of how it should be. A machine on which the workload runs is taken
//! forward an instruction at a time ([`follow`]); each record of the silicon is a [`Step`], with
//! what changed meanwhile in the structures that silicon and hypervisor share ([`shared`]), and
//! with the hypervisor's functions that the processors came through until the next.

mod cause;
mod extent;
mod follow;
mod kind;
mod open;
mod route;
mod shared;
mod text;
mod words;

pub use cause::Cause;
pub use follow::Follower;
pub use kind::Kind;
pub use open::{Subject, open};

/// An interrupt, from its cause to the next of its kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lesson {
    /// What it is and where it was seen, in a line.
    pub title: String,
    /// In order of time.
    pub steps: Vec<Step>,
    /// Whether the next of its kind was seen: what it takes is complete.
    pub is_whole: bool,
}

/// What one of them does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// Since the first.
    pub at_ps: u64,
    /// `sender`, `target`, `vCPU`, `device`, `IOMMU`, or a processor of the host.
    pub who: String,
    /// What kind of step it is.
    pub doing: Doing,
    /// In words.
    pub text: String,
    /// Bits and fields that it changed, or that it was decided by.
    pub details: Vec<String>,
    /// The section of the manual that says so, as `SPECIFICATIONS.md` names manuals.
    pub rule: &'static str,
    /// The hypervisor's functions that this processor entered until its next step.
    pub functions: Vec<String>,
    /// What it changes in the structures in memory.
    makes: Option<Makes>,
}

/// What a step of the silicon changes in the structures in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Makes {
    /// A request of the vCPU that is sent to.
    Request,
    /// Requests go from the descriptor into the virtual APIC.
    Taken,
    /// A vector goes from IRR to ISR.
    Accepted,
    /// A vector goes out of ISR.
    Ended,
}

impl Makes {
    /// Whether a change, as [`shared`] words it, is of this kind.
    fn fits(self, text: &str) -> bool {
        let (starts, ends): (&[&str], _) = match self {
            Self::Request => (&["IRR", "PIR", "ON"], "0 -> 1"),
            Self::Taken => (&["IRR", "PIR", "ON", "RVI"], ""),
            Self::Accepted => (&["IRR", "ISR", "RVI", "SVI"], ""),
            Self::Ended => (&["ISR", "SVI"], ""),
        };
        starts.iter().any(|start| text.starts_with(start)) && text.ends_with(ends)
    }
}

/// Who acts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Doing {
    /// A guest leaves.
    Exit,
    /// A guest is entered.
    Entry,
    /// The processor virtualizes without either.
    Hardware,
    /// The host and its interrupts.
    Host,
}

#[cfg(test)]
mod tests;
