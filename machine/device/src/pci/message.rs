//! Message-signalled interrupts of a function: the MSI capability, and MSI-X with its table and
//! pending bits. [PCI "MSI and MSI-X Capability"]

use super::Configuration;
use crate::lanes;
use arch::address::Device;
use arch::msi::MessageSignalled;
use arch::pci::{MsiControl, MsixControl, MsixPlace, capability};
use serde::{Deserialize, Serialize};

/// Bytes per MSI-X table entry.
const ENTRY_SIZE: u64 = 16;
/// Entries of the largest MSI-X table. [PCI "Message Control for MSI-X"]
pub const MAXIMUM_VECTORS: u16 = 2048;

/// Where the MSI capability of a function is. Its registers live in the configuration space.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Msi {
    offset: u16,
}

impl Msi {
    /// Adds a capability for 2^`capable` vectors with 64-bit address, mask and pending bits.
    pub fn add(configuration: &mut Configuration, capable: u8) -> Option<Self> {
        let control = MsiControl::new()
            .with_capable(capable.min(5))
            .with_is_64_bit(true)
            .with_is_maskable(true);
        let mut content = [0; 22];
        content[..2].copy_from_slice(&control.into_bits().to_le_bytes());
        let offset = u16::from(configuration.add_capability(capability::MSI, &content)?);
        configuration.allow(offset + 2, 2, 0x0071);
        configuration.allow(offset + 4, 4, 0xFFFF_FFFC);
        configuration.allow(offset + 8, 4, 0xFFFF_FFFF);
        configuration.allow(offset + 12, 2, 0xFFFF);
        configuration.allow(offset + 16, 4, 0xFFFF_FFFF);
        Some(Self { offset })
    }

    fn control(self, configuration: &Configuration) -> MsiControl {
        MsiControl::from_bits(configuration.get(self.offset + 2, 2) as u16)
    }

    /// Whether the driver has set MSI Enable.
    pub fn is_enabled(self, configuration: &Configuration) -> bool {
        self.control(configuration).is_enabled()
    }

    /// The message of `vector`, or nothing: MSI is off, or the vector is masked and now pending.
    pub fn signal(self, configuration: &mut Configuration, vector: u8) -> Option<MessageSignalled> {
        let control = self.control(configuration);
        if !control.is_enabled() {
            return None;
        }
        // Fewer vectors granted than asked for: the function uses the ones it got.
        let granted = 1u32 << control.granted().min(control.capable());
        let vector = u32::from(vector) % granted;
        if configuration.get(self.offset + 16, 4) & 1 << vector != 0 {
            let pending = configuration.get(self.offset + 20, 4) | 1 << vector;
            configuration.set(self.offset + 20, 4, pending);
            return None;
        }
        Some(self.message(configuration, granted, vector))
    }

    /// A pending vector that is no longer masked: its bit is cleared and its message given.
    pub fn take_pending(self, configuration: &mut Configuration) -> Option<MessageSignalled> {
        let control = self.control(configuration);
        let pending = configuration.get(self.offset + 20, 4);
        let ready = pending & !configuration.get(self.offset + 16, 4);
        if !control.is_enabled() || ready == 0 {
            return None;
        }
        let vector = ready.trailing_zeros();
        configuration.set(self.offset + 20, 4, pending & !(1 << vector));
        let granted = 1u32 << control.granted().min(control.capable());
        Some(self.message(configuration, granted, vector % granted))
    }

    fn message(self, configuration: &Configuration, granted: u32, vector: u32) -> MessageSignalled {
        let low = u64::from(configuration.get(self.offset + 4, 4));
        let high = u64::from(configuration.get(self.offset + 8, 4));
        let data = configuration.get(self.offset + 12, 2);
        MessageSignalled { address: Device(high << 32 | low), data: data & !(granted - 1) | vector }
    }
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct Entry {
    address: u64,
    data: u32,
    is_masked: bool,
}

/// The MSI-X table and pending bits of a function, and where its capability is.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Msix {
    offset: u16,
    entries: Vec<Entry>,
    pending: Vec<u64>,
    pending_offset: u64,
}

impl Msix {
    /// Adds a capability for `vectors` vectors whose table is at offset 0 of `bar` and whose
    /// pending bits follow at the next multiple of 2 KiB.
    pub fn add(configuration: &mut Configuration, vectors: u16, bar: u8) -> Option<Self> {
        let vectors = vectors.clamp(1, MAXIMUM_VECTORS);
        let pending = (u32::from(vectors) * ENTRY_SIZE as u32).next_multiple_of(2048);
        let table = MsixPlace::new().with_region(bar & 7);
        Self::add_at(configuration, vectors, table, table.with_eights(pending >> 3))
    }

    /// Adds a capability for `vectors` vectors whose table and pending bits are where they are said
    /// to be. Offsets of accesses count from the table's beginning; pending bits that do not lie
    /// behind it are not answered for here.
    pub fn add_at(
        configuration: &mut Configuration,
        vectors: u16,
        table: MsixPlace,
        pending: MsixPlace,
    ) -> Option<Self> {
        let vectors = vectors.clamp(1, MAXIMUM_VECTORS);
        let behind = pending.offset().checked_sub(table.offset());
        let behind = behind.filter(|_| pending.region() == table.region());
        let pending_offset = behind.map_or(u64::MAX, u64::from);
        let control = MsixControl::new().with_last_entry(vectors - 1);
        let mut content = [0; 10];
        content[..2].copy_from_slice(&control.into_bits().to_le_bytes());
        content[2..6].copy_from_slice(&table.into_bits().to_le_bytes());
        content[6..].copy_from_slice(&pending.into_bits().to_le_bytes());
        let offset = u16::from(configuration.add_capability(capability::MSI_X, &content)?);
        configuration.allow(offset + 2, 2, 0xC000);
        let entry = Entry { address: 0, data: 0, is_masked: true };
        Some(Self {
            offset,
            entries: vec![entry; usize::from(vectors)],
            pending: vec![0; usize::from(vectors).div_ceil(64)],
            pending_offset,
        })
    }

    /// The size of the region that holds table and pending bits, a power of two.
    pub fn region_size(vectors: u16) -> u32 {
        let table = (u32::from(vectors.clamp(1, MAXIMUM_VECTORS)) * 16).next_multiple_of(2048);
        (table + 2048).next_power_of_two().max(4096)
    }

    /// Every vector is masked and has no address; nothing is pending.
    pub fn reset(&mut self) {
        self.entries.fill(Entry { address: 0, data: 0, is_masked: true });
        self.pending.fill(0);
    }

    /// Entries of the table.
    pub fn vectors(&self) -> u16 {
        self.entries.len() as u16
    }

    fn control(&self, configuration: &Configuration) -> MsixControl {
        MsixControl::from_bits(configuration.get(self.offset + 2, 2) as u16)
    }

    /// Whether the driver has set MSI-X Enable.
    pub fn is_enabled(&self, configuration: &Configuration) -> bool {
        self.control(configuration).is_enabled()
    }

    /// Reads the table or the pending bits at an offset of their region.
    pub fn read(&self, offset: u64, size: u8) -> u64 {
        if let Some(offset) = offset.checked_sub(self.pending_offset) {
            let word = self.pending.get((offset / 8) as usize).copied().unwrap_or(0);
            return lanes::extract(word, offset % 8, size);
        }
        let Some(entry) = self.entries.get((offset / ENTRY_SIZE) as usize) else { return 0 };
        let register = if offset % ENTRY_SIZE < 8 {
            entry.address
        } else {
            u64::from(entry.data) | u64::from(entry.is_masked) << 32
        };
        lanes::extract(register, offset % 8, size)
    }

    /// Writes table entries; pending bits are read-only. What a mask held back is not sent here.
    pub fn write(&mut self, offset: u64, size: u8, value: u64) {
        if offset >= self.pending_offset {
            return;
        }
        let Some(entry) = self.entries.get_mut((offset / ENTRY_SIZE) as usize) else { return };
        if offset % ENTRY_SIZE < 8 {
            entry.address = lanes::insert(entry.address, offset % 8, size, value) & !3;
        } else {
            let old = u64::from(entry.data) | u64::from(entry.is_masked) << 32;
            let new = lanes::insert(old, offset % 8, size, value);
            entry.data = new as u32;
            entry.is_masked = new >> 32 & 1 != 0;
        }
    }

    /// The message of `vector`, or nothing: MSI-X is off, there is no such vector, or it is masked
    /// and now pending.
    pub fn signal(
        &mut self,
        configuration: &Configuration,
        vector: u16,
    ) -> Option<MessageSignalled> {
        self.entries.get(usize::from(vector))?;
        let message = self.message(configuration, vector);
        if message.is_none() && self.is_enabled(configuration) {
            self.pending[usize::from(vector) / 64] |= 1 << (vector % 64);
        }
        message
    }

    /// The message of `vector` as it would be sent now, or nothing: MSI-X is off, there is no such
    /// vector, or it is masked.
    pub fn message(&self, configuration: &Configuration, vector: u16) -> Option<MessageSignalled> {
        let control = self.control(configuration);
        let entry = self.entries.get(usize::from(vector))?;
        let is_held = !control.is_enabled() || control.is_function_masked() || entry.is_masked;
        (!is_held).then_some(MessageSignalled { address: Device(entry.address), data: entry.data })
    }

    /// A pending vector that is no longer masked: its bit is cleared and its message given.
    pub fn take_pending(&mut self, configuration: &Configuration) -> Option<MessageSignalled> {
        let control = self.control(configuration);
        if !control.is_enabled() || control.is_function_masked() {
            return None;
        }
        let (vector, entry) = self.entries.iter().enumerate().find(|(vector, entry)| {
            !entry.is_masked && self.pending[vector / 64] & 1 << (vector % 64) != 0
        })?;
        self.pending[vector / 64] &= !(1 << (vector % 64));
        Some(MessageSignalled { address: Device(entry.address), data: entry.data })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pci::Identity;

    fn space() -> Configuration {
        Configuration::new(Identity { vendor: 1, device: 2, ..Identity::default() })
    }

    fn message(address: u64, data: u32) -> Option<MessageSignalled> {
        Some(MessageSignalled { address: Device(address), data })
    }

    #[test]
    fn an_msi_vector_is_or_ed_into_the_low_bits_of_the_data_it_was_granted() {
        for (granted, vector, data) in [(0, 3, 0x45), (1, 1, 0x45), (2, 2, 0x46), (2, 5, 0x45)] {
            let mut space = space();
            let msi = Msi::add(&mut space, 2).unwrap();
            assert_eq!(msi.signal(&mut space, 0), None, "not enabled");
            space.write(0x44, 4, 0xFEE0_1000);
            space.write(0x4C, 2, 0x45);
            space.write(0x42, 2, 1 | granted << 4);
            assert_eq!(
                msi.signal(&mut space, vector),
                message(0xFEE0_1000, data),
                "vector {vector} of 2^{granted}"
            );
        }
    }

    #[test]
    fn a_masked_msi_vector_stays_pending_until_unmasked() {
        let mut space = space();
        let msi = Msi::add(&mut space, 0).unwrap();
        space.write(0x42, 2, 1);
        space.write(0x50, 4, 1);
        assert_eq!(msi.signal(&mut space, 0), None);
        assert_eq!(space.read(0x54, 4), 1);
        assert_eq!(msi.take_pending(&mut space), None);
        space.write(0x50, 4, 0);
        assert!(msi.take_pending(&mut space).is_some());
        assert_eq!(msi.take_pending(&mut space), None);
    }

    #[test]
    fn msix_needs_enable_no_function_mask_and_no_vector_mask() {
        for (control, vector_mask, is_sent, is_pending) in [
            (0x0000, 0, false, false),
            (0x8000, 0, true, false),
            (0x8000, 1, false, true),
            (0xC000, 0, false, true),
        ] {
            let mut space = space();
            let mut msix = Msix::add(&mut space, 4, 1).unwrap();
            msix.write(0x20, 8, 0xFEE0_0000);
            msix.write(0x28, 8, vector_mask << 32 | 0x31);
            space.write(0x42, 2, control);
            let sent = msix.signal(&space, 2);
            assert_eq!(sent, if is_sent { message(0xFEE0_0000, 0x31) } else { None });
            assert_eq!(msix.read(2048, 8) == 4, is_pending, "control {control:#x}");
            msix.write(0x2C, 4, 0);
            space.write(0x42, 2, 0x8000);
            assert_eq!(msix.take_pending(&space).is_some(), is_pending);
            assert_eq!(msix.read(2048, 8), 0);
        }
    }

    #[test]
    fn a_table_can_be_amid_a_region_with_its_pending_bits_elsewhere() {
        let mut space = space();
        let place = |region, eights| MsixPlace::new().with_region(region).with_eights(eights);
        let mut msix = Msix::add_at(&mut space, 3, place(3, 0x200), place(4, 0)).unwrap();
        assert_eq!((space.read(0x44, 4), space.read(0x48, 4)), (0x1003, 4));
        msix.write(0x10, 8, 0xFEE0_2000);
        msix.write(0x18, 8, 0x32);
        assert_eq!(msix.message(&space, 1), None, "not enabled");
        space.write(0x42, 2, 0x8000);
        assert_eq!(msix.message(&space, 1), message(0xFEE0_2000, 0x32));
        assert_eq!(msix.message(&space, 0), None, "masked");
        assert_eq!(msix.take_pending(&space), None, "a look leaves nothing pending");
        assert_eq!(msix.message(&space, 3), None, "there is none");
    }

    #[test]
    fn the_msix_table_takes_any_access_and_starts_masked() {
        let mut space = space();
        let mut msix = Msix::add(&mut space, 3, 1).unwrap();
        assert_eq!(space.read(0x42, 2), 2);
        assert_eq!(msix.read(0x0C, 4), 1);
        msix.write(0x08, 4, 0xAABB_CCDD);
        assert_eq!(msix.read(0x09, 2), 0xBBCC);
        for offset in [3 * 16, 2048, 4095, u64::MAX] {
            msix.write(offset, 8, u64::MAX);
            assert_eq!(msix.read(offset, 8), 0, "offset {offset:#x}");
        }
        assert_eq!(msix.signal(&space, 3), None);
        assert_eq!(msix.signal(&space, u16::MAX), None);
    }
}
