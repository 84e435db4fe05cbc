//! What can be looked at in a machine, running or saved: registers, interrupt controllers, control
//! blocks and tables, by the manuals' names and with their sections. Looking changes nothing.

mod control_block;
mod interrupt_controller;
mod posted;
mod processor;
mod remapping;
mod sheet;

pub use sheet::{Row, Sheet};

use crate::machine::State;
use arch::address::SystemPhysical;
use arch::identity::CpuIndex;
use bus::GuestMemory;
use cpu::Cpu;
use cpu::decode::Dialect;

/// A machine that is looked at.
#[derive(Clone, Copy)]
pub struct View<'a> {
    /// All except RAM.
    pub state: &'a State,
    /// RAM.
    pub memory: &'a GuestMemory,
}

/// What is looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subject {
    /// A processor's registers.
    Registers,
    /// A processor's local APIC.
    LocalApic,
    /// The I/O APIC.
    IoApic,
    /// The 8259 pair.
    Legacy,
    /// What the IOMMU makes of functions' interrupts.
    Remapping,
    /// The control block of an AMD guest.
    Vmcb,
    /// The control structure of an Intel guest.
    Vmcs,
    /// A guest's own local APIC, as hardware virtualizes it.
    VirtualApic,
    /// A posted-interrupt descriptor.
    PostedDescriptor,
    /// The requests in a posted-interrupt descriptor.
    PostedRequests,
    /// A processor's cached translations.
    Translations,
}

impl Subject {
    /// All of them, with the word for each and what it shows.
    pub const ALL: [(&str, Self, &str); 11] = [
        ("registers", Self::Registers, "a processor's registers"),
        ("lapic", Self::LocalApic, "a processor's local APIC"),
        ("ioapic", Self::IoApic, "the I/O APIC's redirection entries"),
        ("pic", Self::Legacy, "the 8259 pair"),
        ("irte", Self::Remapping, "the IOMMU's interrupt remapping entries in use"),
        ("vmcb", Self::Vmcb, "an AMD guest's control block"),
        ("vmcs", Self::Vmcs, "an Intel guest's control structure"),
        ("vapic", Self::VirtualApic, "a guest's APIC page: backing page or virtual-APIC page"),
        ("pid", Self::PostedDescriptor, "a posted-interrupt descriptor"),
        ("pir", Self::PostedRequests, "the vectors that a posted-interrupt descriptor requests"),
        ("tlb", Self::Translations, "a processor's cached translations"),
    ];

    /// The one with this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.iter().find(|row| row.0 == name).map(|row| row.1)
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|row| row.1 == self).map_or("", |row| row.0)
    }

    /// Whether it lies in memory, so that an address can name it.
    pub const fn has_address(self) -> bool {
        matches!(
            self,
            Self::Vmcb
                | Self::Vmcs
                | Self::VirtualApic
                | Self::PostedDescriptor
                | Self::PostedRequests
        )
    }
}

/// Which one is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Query {
    /// What.
    pub subject: Subject,
    /// Whose, where each processor has one.
    pub cpu: CpuIndex,
    /// Where it lies, instead of the processor's own.
    pub at: Option<SystemPhysical>,
}

/// Why there is nothing to see.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Absent {
    /// The processors are fewer.
    #[error("there is no processor {cpu}: they are numbered from 0 to {last}")]
    Processor {
        /// What was asked for.
        cpu: CpuIndex,
        /// The last that exists.
        last: usize,
    },
    /// It is another vendor's.
    #[error("the processors have no {name}: {instead}")]
    Vendor {
        /// What was asked for.
        name: &'static str,
        /// What to ask for.
        instead: &'static str,
    },
    /// The processor is not in a guest.
    #[error(
        "processor {cpu} runs no guest with a {name}: give its address, or look after the next \
         vm-entry"
    )]
    Guest {
        /// Whose.
        cpu: CpuIndex,
        /// What was asked for.
        name: &'static str,
    },
    /// No RAM is there.
    #[error("no {name} can be at {at}: it takes {size} bytes of RAM from a multiple of {size}")]
    Place {
        /// What was asked for.
        name: &'static str,
        /// Where.
        at: SystemPhysical,
        /// Bytes that it takes.
        size: usize,
    },
    /// It does not lie in memory.
    #[error("{name} has no address: name a processor instead")]
    Address {
        /// What was asked for.
        name: &'static str,
    },
    /// The board has none.
    #[error("the machine has no IOMMU")]
    Iommu,
}

impl View<'_> {
    /// What there is to see.
    pub fn look(&self, query: Query) -> Result<Vec<Sheet>, Absent> {
        let Query { subject, at, .. } = query;
        if at.is_some() && !subject.has_address() {
            return Err(Absent::Address { name: subject.name() });
        }
        let cpu = self.cpu(query.cpu)?;
        Ok(match subject {
            Subject::Registers => processor::registers(cpu),
            Subject::LocalApic => vec![interrupt_controller::local_apic(cpu)],
            Subject::IoApic => vec![interrupt_controller::io_apic(&self.state.wiring.io_apic)],
            Subject::Legacy => interrupt_controller::legacy(&self.state.wiring.pic),
            Subject::Remapping => vec![self.remapping()?],
            Subject::Vmcb => self.vmcb(cpu, at)?,
            Subject::Vmcs => vec![self.vmcs(cpu, at)?],
            Subject::VirtualApic => vec![self.virtual_apic(cpu, at)?],
            Subject::PostedDescriptor => vec![self.posted_descriptor(cpu, at)?],
            Subject::PostedRequests => vec![self.posted_requests(cpu, at)?],
            Subject::Translations => vec![processor::translations(cpu, self.memory)],
        })
    }

    fn cpu(&self, index: CpuIndex) -> Result<&Cpu, Absent> {
        let last = self.state.cpus.len().saturating_sub(1);
        let cpu = self.state.cpus.get(usize::from(index.0));
        cpu.ok_or(Absent::Processor { cpu: index, last })
    }

    /// The bytes of something that is aligned to its size.
    fn bytes(&self, name: &'static str, at: SystemPhysical, size: usize) -> Result<&[u8], Absent> {
        let bytes = self.memory.slice(at, size).ok();
        let bytes = bytes.filter(|_| at.0.is_multiple_of(size as u64));
        bytes.ok_or(Absent::Place { name, at, size })
    }
}

fn is_amd(cpu: &Cpu) -> bool {
    cpu.model.dialect() == Dialect::Amd
}

#[cfg(test)]
mod tests;
