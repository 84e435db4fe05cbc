//! A VMCS in memory. [SDM3 "Format of the VMCS Region"]
//!
//! The format of the data is each processor's own. Here every field has eight bytes in the order of
//! the table of fields, behind the revision identifier, the abort indicator and the launch state,
//! and nothing is cached: what VMWRITE writes is in memory at once.

use crate::Bus;
use arch::address::SystemPhysical;
use arch::vmx::error::ABORT_INDICATOR_OFFSET;
use arch::vmx::field::{Field, Part, TABLE};
use bus::Author;

/// Bytes of a region.
pub const SIZE: usize = 0x1000;
/// Bit 31 of the first dword.
pub const SHADOW: u32 = 1 << 31;
const LAUNCH_STATE_OFFSET: usize = 8;
const FIELDS_OFFSET: usize = 16;

const _: () = assert!(FIELDS_OFFSET + 8 * TABLE.len() <= SIZE);

/// A region's bytes.
pub struct Vmcs<B>(B);

fn place(field: Field) -> Option<usize> {
    field.number().map(|number| FIELDS_OFFSET + 8 * number)
}

impl<B: AsRef<[u8]>> Vmcs<B> {
    /// `None` unless there are as many bytes as a region has.
    pub fn new(bytes: B) -> Option<Self> {
        (bytes.as_ref().len() == SIZE).then_some(Self(bytes))
    }

    fn word<const N: usize>(&self, at: usize) -> [u8; N] {
        let mut word = [0; N];
        word.copy_from_slice(&self.0.as_ref()[at..at + N]);
        word
    }

    /// The revision identifier and the shadow bit.
    pub fn header(&self) -> u32 {
        u32::from_le_bytes(self.word(0))
    }

    /// Whether the launch state is *launched*, which VMRESUME wants and VMLAUNCH does not.
    pub fn is_launched(&self) -> bool {
        self.word::<4>(LAUNCH_STATE_OFFSET) != [0; 4]
    }

    /// A field's value; software may have written anything into memory, of which the field's width
    /// counts.
    pub fn get(&self, field: Field) -> u64 {
        place(field).map_or(0, |at| u64::from_le_bytes(self.word(at)) & field.mask())
    }

    /// What VMREAD of an encoding gives.
    pub fn read(&self, field: Field, part: Part) -> u64 {
        match part {
            Part::Full => self.get(field),
            Part::High => self.get(field) >> 32,
        }
    }
}

impl<B: AsRef<[u8]> + AsMut<[u8]>> Vmcs<B> {
    /// Stores a field's value, cut to the field's width; fields without a place are left out.
    pub fn set(&mut self, field: Field, value: u64) {
        if let Some(at) = place(field) {
            let value = (value & field.mask()).to_le_bytes();
            self.0.as_mut()[at..at + 8].copy_from_slice(&value);
        }
    }

    /// What VMWRITE of an encoding changes.
    pub fn write(&mut self, field: Field, part: Part, value: u64) {
        let value = match part {
            Part::Full => value,
            Part::High => self.get(field) & 0xFFFF_FFFF | value << 32,
        };
        self.set(field, value);
    }

    /// Stores the launch state.
    pub fn set_launched(&mut self, is_launched: bool) {
        let state = u32::from(is_launched).to_le_bytes();
        self.0.as_mut()[LAUNCH_STATE_OFFSET..LAUNCH_STATE_OFFSET + 4].copy_from_slice(&state);
    }

    /// Stores the VMX-abort indicator, which an exit that cannot go on leaves behind.
    pub fn set_abort_indicator(&mut self, code: u32) {
        let at = ABORT_INDICATOR_OFFSET as usize;
        self.0.as_mut()[at..at + 4].copy_from_slice(&code.to_le_bytes());
    }
}

/// Changes the VMCS at `at` in place, if it is in RAM.
pub(super) fn write_vmcs(
    bus: &mut Bus<'_>,
    at: SystemPhysical,
    change: impl FnOnce(&mut Vmcs<&mut [u8]>),
) {
    let Some(offset) = bus.memory.offset(at) else { return };
    bus.memory.change_by(Author::ControlBlock, offset, SIZE, |bytes| {
        if let Some(mut vmcs) = Vmcs::new(bytes) {
            change(&mut vmcs);
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use arch::vmx::field::{control, guest};

    #[test]
    fn a_field_keeps_its_width_and_no_neighbour_changes() {
        let mut vmcs = Vmcs::new(vec![0; SIZE]).unwrap();
        for row in TABLE {
            vmcs.set(row.field, u64::MAX);
            assert_eq!(vmcs.get(row.field), row.field.mask(), "{}", row.name);
            let others = TABLE.iter().filter(|other| other.field != row.field);
            assert!(others.clone().all(|other| vmcs.get(other.field) == 0), "{}", row.name);
            vmcs.set(row.field, 0);
        }
        assert_eq!(vmcs.header(), 0);
        assert!(!vmcs.is_launched());
    }

    #[test]
    fn the_high_part_is_the_upper_half() {
        let mut vmcs = Vmcs::new(vec![0; SIZE]).unwrap();
        vmcs.set(control::TSC_OFFSET, 0x1122_3344_5566_7788);
        assert_eq!(vmcs.read(control::TSC_OFFSET, Part::High), 0x1122_3344);
        vmcs.write(control::TSC_OFFSET, Part::High, 0xAABB_CCDD_EEFF_0011);
        assert_eq!(vmcs.get(control::TSC_OFFSET), 0xEEFF_0011_5566_7788);
    }

    #[test]
    fn stray_bits_in_memory_beyond_a_width_do_not_count() {
        let at = place(guest::CS_SELECTOR).unwrap();
        let mut bytes = vec![0; SIZE];
        bytes[at..at + 8].fill(0xFF);
        let vmcs = Vmcs::new(bytes).unwrap();
        assert_eq!(vmcs.get(guest::CS_SELECTOR), 0xFFFF);
        assert!(Vmcs::new(vec![0; SIZE - 1]).is_none());
    }
}
