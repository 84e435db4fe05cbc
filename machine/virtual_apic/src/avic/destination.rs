//! Whom an IPI is for: the destination of an ICR in each addressing model.
//! [APM2 "Interprocessor Interrupts"] [APM2 "Logical APIC ID Table"]

use super::{Avic, AvicMode};
use crate::SharedMemory;
use arch::apic::{DestinationFormat, DestinationMode, Dfr, Icr, Scope};
use arch::svm::avic::register;
use interrupt::page::ApicPage;
use serde::{Deserialize, Serialize};

/// Members of the largest logical destination.
pub const MEMBERS: usize = 16;

/// Whom an IPI is for, before any table is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Destination {
    /// The sender, whatever the tables say.
    Own,
    /// Every valid entry of the physical table, up to `last`.
    Everyone { but: Exception, last: u16 },
    /// Entry `index` of the physical table.
    Physical { index: u32 },
    /// Entries `first` + k of the logical table, for each bit k of `members`.
    LogicalTable { first: u16, members: u16 },
    /// Entries `first` + k of the physical table, for each bit k of `members`.
    PhysicalCluster { first: u32, members: u16 },
}

/// Who is left out of a broadcast.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Exception {
    Nobody,
    Sender,
}

/// xAPIC's broadcast ID: the index of no one.
const XAPIC_BROADCAST: u8 = 0xFF;
/// Cluster 15 of the cluster model is reserved.
const RESERVED_CLUSTER: u8 = 15;

impl Destination {
    /// Reads the command, and the destination format from the sender's page.
    pub fn of(command: Icr, avic: &Avic, memory: &mut impl SharedMemory) -> Self {
        let everyone = |but| Self::Everyone { but, last: avic.last_broadcast_index() };
        match command.shorthand() {
            Scope::SelfOnly => return Self::Own,
            Scope::All => return everyone(Exception::Nobody),
            Scope::AllButSelf => return everyone(Exception::Sender),
            Scope::Destination => {}
        }
        let is_physical = command.destination_mode() == DestinationMode::Physical;
        match avic.mode {
            AvicMode::X2apic => match command.destination() {
                u32::MAX => everyone(Exception::Nobody),
                index if is_physical => Self::Physical { index },
                logical => {
                    Self::PhysicalCluster { first: (logical >> 16) * 16, members: logical as u16 }
                }
            },
            AvicMode::Xapic => match (command.destination() >> 24) as u8 {
                XAPIC_BROADCAST if is_physical || avic.behaviour.logical_all_ones_is_broadcast => {
                    everyone(Exception::Nobody)
                }
                index if is_physical => Self::Physical { index: index.into() },
                logical => Self::xapic_logical(logical, avic, memory),
            },
        }
    }

    /// A logical destination without a member.
    pub fn is_empty(self) -> bool {
        matches!(
            self,
            Self::LogicalTable { members: 0, .. } | Self::PhysicalCluster { members: 0, .. }
        )
    }

    fn xapic_logical(logical: u8, avic: &Avic, memory: &mut impl SharedMemory) -> Self {
        let format = avic.backing_page.within(memory).read_u32(register::DESTINATION_FORMAT);
        match Dfr::from_bits(format).format() {
            DestinationFormat::Flat => Self::LogicalTable { first: 0, members: logical.into() },
            DestinationFormat::Cluster if logical >> 4 != RESERVED_CLUSTER => Self::LogicalTable {
                first: u16::from(logical >> 4) * 4,
                members: u16::from(logical & 15),
            },
            // The reserved cluster and undefined formats name nobody.
            _ => Self::LogicalTable { first: 0, members: 0 },
        }
    }
}

impl Avic {
    /// The last entry that a broadcast reaches.
    fn last_broadcast_index(&self) -> u16 {
        match self.mode {
            AvicMode::Xapic => self.max_index.min(u16::from(XAPIC_BROADCAST) - 1),
            AvicMode::X2apic => self.max_index,
        }
    }
}
