//! The table that announces Intel's unit. [VTD "BIOS Considerations"]

use super::options::{EVENT_TIMER, IO_APIC};
use super::table::Table;
use arch::vt_d::firmware::{ScopeKind, flag, scope, unit};
use device::map;

/// Physical addresses of 46 bits, less one.
const ADDRESS_WIDTH: u8 = 45;
const REVISION: u8 = 1;

/// One unit for all functions of the segment, and the names under which the I/O APIC and the event
/// timer block send their messages.
pub(super) fn dmar() -> Vec<u8> {
    let io_apic = scope(ScopeKind::IoApic, IO_APIC, map::SMBUS);
    let hpet = scope(ScopeKind::Hpet, EVENT_TIMER, map::ISA_BRIDGE);
    let mut table = Table::new(arch::vt_d::firmware::SIGNATURE, REVISION);
    table.u8(ADDRESS_WIDTH).u8(flag::INTERRUPT_REMAPPING).put(&[0; 10]);
    table.put(&unit(map::IOMMU.0, io_apic.len() + hpet.len())).put(&io_apic).put(&hpet);
    table.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_has_one_unit_with_the_two_senders_that_are_no_functions() {
        let table = dmar();
        assert_eq!(table[..4], *b"DMAR");
        assert_eq!(table.iter().fold(0u8, |sum, byte| sum.wrapping_add(*byte)), 0);
        assert_eq!(table.len(), 48 + 16 + 2 * 8);
        assert_eq!(table[48..56], [0, 0, 32, 0, 1, 0, 0, 0]);
        assert_eq!(table[56..64], 0xFD20_0000u64.to_le_bytes());
        assert_eq!(table[64..72], [3, 8, 0, 0, 0, 0, 0x14, 0]);
        assert_eq!(table[72..80], [4, 8, 0, 0, 0, 0, 0x1F, 0]);
    }
}
