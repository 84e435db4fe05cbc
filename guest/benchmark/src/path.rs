//! By which way an interrupt is sent: APIC mode, addressing, fence.

use arch::apic::{DestinationMode, Icr, Mode, Scope};
use runtime::apic::{self, Fence};
use runtime::processor::Processor;
use runtime::vector::COUNTED_VECTOR;

pub fn mode_name(mode: Mode) -> &'static str {
    if mode == Mode::X2Apic { "x2apic" } else { "xapic" }
}

#[derive(Clone, Copy, Debug)]
pub struct Path {
    mode: Mode,
    addressing: DestinationMode,
    pub fence: Fence,
}

impl Path {
    /// The ways of a mode. Fences matter before an MSR only: a store to the APIC's page is ordered.
    pub fn all(mode: Mode) -> impl Iterator<Item = Self> {
        [Fence::None, Fence::Full]
            .into_iter()
            .filter(move |&fence| mode == Mode::X2Apic || fence == Fence::None)
            .flat_map(move |fence| {
                [DestinationMode::Physical, DestinationMode::Logical].map(|addressing| Self {
                    mode,
                    addressing,
                    fence,
                })
            })
    }

    /// For a job's argument.
    pub fn encode(self) -> usize {
        usize::from(self.mode == Mode::X2Apic)
            | usize::from(self.addressing == DestinationMode::Logical) << 1
            | usize::from(self.fence == Fence::Full) << 2
    }

    pub fn decode(bits: usize) -> Self {
        Self {
            mode: if bits & 1 != 0 { Mode::X2Apic } else { Mode::XApic },
            addressing: DestinationMode::from_bits((bits >> 1 & 1) as u8),
            fence: if bits & 4 != 0 { Fence::Full } else { Fence::None },
        }
    }

    /// The command for one target; None where this addressing does not reach it.
    #[inline]
    pub fn to(self, target: &Processor) -> Option<Icr> {
        let destination = match self.addressing {
            DestinationMode::Physical => target.apic_id(),
            DestinationMode::Logical => apic::logical_identifier(target)?,
        };
        Some(apic::fixed(destination, self.addressing, COUNTED_VECTOR))
    }

    /// The command for everyone but the sender.
    pub fn to_others(self, vector: u8) -> Icr {
        apic::shorthand(Scope::AllButSelf, vector)
    }

    #[inline(always)]
    pub fn send(self, command: Icr) {
        apic::command(command, self.fence);
    }

    pub fn apic(self) -> &'static str {
        mode_name(self.mode)
    }

    pub fn destination(self) -> &'static str {
        match (self.addressing, self.mode) {
            (DestinationMode::Physical, _) => "physical",
            (DestinationMode::Logical, Mode::X2Apic) => "cluster",
            (DestinationMode::Logical, _) => "logical",
        }
    }

    pub fn is_physical(self) -> bool {
        self.addressing == DestinationMode::Physical
    }

    pub fn is_fenced(self) -> bool {
        self.fence == Fence::Full
    }
}
