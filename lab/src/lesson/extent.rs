//! Where an interrupt begins and where it is over.

use super::kind::Kind;
use crate::drive::example::{exit_of, register_of};
use arch::time::Picoseconds;
use trace::{Event, Record, VirtualCpu};

/// The register of the APIC's page, and the MSR of x2APIC mode, that end an interrupt. [SDM3 "Local
/// APIC Register Address Map"]
const EOI: u64 = 0xB0;
pub(super) const EOI_MSR: u32 = 0x80B;

/// How far an interrupt is, on the side of the vCPU that takes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// It has not been ended.
    Open,
    /// The vCPU left for the write that ends it.
    Ending,
    /// It is over.
    Over,
}

/// Which interrupt begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Begun {
    /// The one that is told.
    This,
    /// The one behind it.
    Next,
}

/// An interrupt of a kind, from its cause to its end and to the cause of the next.
#[derive(Clone, Copy, Debug)]
pub(super) struct Extent {
    kind: Kind,
    /// When it began.
    began: Option<Picoseconds>,
    /// The vCPU that begins it, if one does.
    first: Option<VirtualCpu>,
    stage: Stage,
    /// The next has begun.
    has_next: bool,
}

impl Extent {
    pub fn new(kind: Kind) -> Self {
        Self { kind, began: None, first: None, stage: Stage::Open, has_next: false }
    }

    pub fn kind(&self) -> Kind {
        self.kind
    }

    pub fn has_begun(&self) -> bool {
        self.began.is_some()
    }

    /// When; zero before.
    pub fn began(&self) -> Picoseconds {
        self.began.unwrap_or(Picoseconds(0))
    }

    /// Begins at a moment, by what no record says.
    pub fn begin_at(&mut self, at: Picoseconds) {
        self.began.get_or_insert(at);
    }

    pub fn is_first(&self, vcpu: VirtualCpu) -> bool {
        self.first == Some(vcpu)
    }

    pub fn is_over(&self) -> bool {
        self.has_next && self.stage == Stage::Over
    }

    /// Whether one begins with this record, or with the exit before it that the record explains.
    pub fn begin(&mut self, record: &Record, exit: Option<&Record>) -> Option<Begun> {
        let begin = exit.unwrap_or(record);
        if !self.kind.begins(record, exit) {
            None
        } else if self.has_begun() {
            let is_first = !std::mem::replace(&mut self.has_next, true);
            is_first.then_some(Begun::Next)
        } else {
            self.first = vcpu_of(begin);
            let is_of_device = self.kind.function().is_some();
            self.began = (is_of_device || self.first.is_some()).then_some(begin.at);
            self.has_begun().then_some(Begun::This)
        }
    }

    /// Whether what a vCPU does belongs to it. While it is brought to its end, what others do
    /// belongs to the next.
    pub fn has(&self, vcpu: Option<VirtualCpu>) -> bool {
        let is_of_next = vcpu.is_some_and(|vcpu| self.is_first(vcpu)) || self.stage == Stage::Over;
        self.has_begun() && !(self.has_next && is_of_next)
    }

    /// Takes in how the vCPU that takes it comes to its end.
    pub fn progress(&mut self, record: &Record, exit: Option<&Record>) {
        let is_alone = self.kind.vcpus() == 1;
        let takes = |vcpu: VirtualCpu| is_alone || !self.is_first(vcpu);
        let stage = match record.event {
            Event::VirtualEndOfInterrupt { vcpu, .. } if takes(vcpu) => Stage::Over,
            Event::Entry { vcpu, .. } if self.stage == Stage::Ending && takes(vcpu) => Stage::Over,
            Event::MsrWrite { index: EOI_MSR, .. } if exit.and_then(vcpu_of).is_some_and(takes) => {
                Stage::Ending
            }
            _ if register_of(record) == Some(EOI) && vcpu_of(record).is_some_and(takes) => {
                Stage::Ending
            }
            _ => return,
        };
        self.stage = stage;
    }
}

/// Whose record it is.
pub(super) fn vcpu_of(record: &Record) -> Option<VirtualCpu> {
    match record.event {
        Event::Entry { vcpu, .. }
        | Event::VirtualIpiSent { vcpu, .. }
        | Event::VirtualInterruptAccepted { vcpu, .. }
        | Event::VirtualInterruptDelivered { vcpu, .. }
        | Event::VirtualEndOfInterrupt { vcpu, .. }
        | Event::PostedTaken { vcpu, .. } => Some(vcpu),
        _ => exit_of(record).map(|(vcpu, _)| vcpu),
    }
}
