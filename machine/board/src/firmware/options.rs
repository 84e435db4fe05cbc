//! What the tables are told.

use crate::topology::Topology;
use cpu::CpuModel;

/// Identifiers of the I/O APIC and of the event timer block, as their own tables have them.
pub(super) const IO_APIC: u8 = 0;
pub(super) const EVENT_TIMER: u8 = 0;

/// What the tables describe besides the fixed map of the board.
#[derive(Clone, Copy, Debug)]
pub struct FirmwareOptions<'a> {
    /// Processors and, by socket, RAM.
    pub topology: &'a Topology,
    /// What the processors are, where tables tell P-states of it.
    pub model: Option<&'a CpuModel>,
    /// Serial ports that answer, from the first on, at most four.
    pub serial_ports: u8,
    /// Whether a kernel is told to look for a keyboard controller.
    pub has_keyboard_controller: bool,
    /// Whether the HPET table is listed.
    pub has_hpet: bool,
    /// Whole tables to be listed as they are: IVRS or DMAR, from the IOMMU that they describe.
    pub extra_tables: &'a [Vec<u8>],
}

impl<'a> FirmwareOptions<'a> {
    /// A whole PC with two serial ports and no IOMMU.
    pub fn new(topology: &'a Topology) -> Self {
        Self {
            topology,
            model: None,
            serial_ports: 2,
            has_keyboard_controller: true,
            has_hpet: true,
            extra_tables: &[],
        }
    }
}
