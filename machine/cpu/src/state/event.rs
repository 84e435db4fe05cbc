//! Exceptions and interrupts on their way to a handler.

use crate::difference::Differences;
use crate::stop::SoftwareSource;
use serde::{Deserialize, Serialize};

/// What an event comes from: it decides privilege checks and the error code's EXT bit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Origin {
    /// An interrupt or NMI.
    External,
    Exception,
    Software(SoftwareSource),
}

impl Origin {
    /// EXT in the error code of an exception that its delivery raises.
    pub(crate) fn external_bit(self, differences: &Differences) -> u32 {
        match self {
            Self::Software(SoftwareSource::Int1) | Self::External => 1,
            Self::Exception => differences.counts_exceptions_as_external.into(),
            Self::Software(_) => 0,
        }
    }

    pub(crate) fn checks_gate_privilege(self) -> bool {
        matches!(self, Self::Software(source) if source != SoftwareSource::Int1)
    }
}

/// An event on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Event {
    pub vector: u8,
    pub error: Option<u32>,
    pub origin: Origin,
}
