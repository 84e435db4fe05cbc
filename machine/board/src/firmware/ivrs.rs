//! The table that announces AMD's IOMMU. [IOMMU "I/O Virtualization ACPI Table"]

use super::options::{EVENT_TIMER, IO_APIC};
use super::table::Table;
use arch::amd_vi::firmware::{
    Block, BlockType, Information, REVISION, SIGNATURE, Special, device_flag, range, special,
};
use arch::identity::RequesterId;
use device::map;
use device::onboard::IOMMU_CAPABILITY;
use iommu::amd_vi::Model;

/// One IOMMU in the three forms that kernels of all ages look for, each with the same devices: all
/// of bus 0 but the host bridge and the IOMMU itself.
pub(super) fn ivrs(model: &Model) -> Vec<u8> {
    let information = Information::new()
        .with_has_features(true)
        .with_guest_virtual_size(2)
        .with_physical_size(52)
        .with_virtual_size(64);
    let mut table = Table::new(SIGNATURE, REVISION);
    table.u32(information.into_bits()).u64(0);
    let devices = devices(model.requester);
    for kind in [BlockType::Basic, BlockType::Extended, BlockType::Mixed] {
        let block = Block {
            kind,
            flags: Block::COHERENT,
            device: model.requester,
            capability: IOMMU_CAPABILITY.into(),
            base: map::IOMMU.0,
            features: model.features,
            features2: model.features2,
        };
        table.put(&block.header(devices.len())[..block.header_size()]).put(&devices);
    }
    table.finish()
}

/// What the I/O APIC sends beside fixed interrupts passes, as firmware of real machines has it.
fn devices(own: RequesterId) -> Vec<u8> {
    let passes = device_flag::INIT
        | device_flag::EXT_INT
        | device_flag::NMI
        | device_flag::LINT0
        | device_flag::LINT1;
    let mut devices = Vec::new();
    devices.extend(range(RequesterId(own.0 + 1), RequesterId(0x00FF), 0));
    devices.extend(special(Special::IoApic, IO_APIC, map::SMBUS.requester(), passes));
    devices.extend(special(Special::Hpet, EVENT_TIMER, map::ISA_BRIDGE.requester(), 0));
    devices
}

#[cfg(test)]
mod tests {
    use super::*;
    use arch::amd_vi::ExtendedFeatures;

    #[test]
    fn the_table_is_whole_and_its_blocks_end_where_it_ends() {
        let features = ExtendedFeatures::from_bits(0x25BF_732F_A229_5AFE);
        let table = ivrs(&Model::of(features, RequesterId(2)));
        assert_eq!(table[..4], *b"IVRS");
        assert_eq!(table.iter().fold(0u8, |sum, byte| sum.wrapping_add(*byte)), 0);
        let (mut at, mut kinds) = (48, Vec::new());
        while at < table.len() {
            kinds.push(table[at]);
            assert_eq!(table[at + 4..at + 8], [2, 0, 0x40, 0]);
            let length = usize::from(table[at + 2]) | usize::from(table[at + 3]) << 8;
            let io_apic = &table[at + length - 16..at + length - 8];
            assert_eq!(io_apic, [0x48, 0, 0, 0xC7, 0, 0xA0, 0, 1]);
            at += length;
        }
        assert_eq!((at, kinds), (table.len(), vec![0x10, 0x11, 0x40]));
    }
}
