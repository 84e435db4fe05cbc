//! The fields of a VMCB for readers: their names, and what a value means.
//! [APM2 "Layout of VMCB"]

use super::vmcb::{Field, Value, control, save};
use core::fmt;
use core::ops::Range;

/// A field with its name.
pub struct Listed {
    /// As the manual has it.
    pub name: &'static str,
    /// Where it lies, from the VMCB's start.
    pub bytes: Range<usize>,
    /// Where the manual explains it.
    pub section: &'static str,
    meaning: fn(&[u8], &mut dyn fmt::Write) -> fmt::Result,
}

impl Listed {
    pub(super) const fn of<T: Value>(
        name: &'static str,
        field: Field<T>,
        area: &'static str,
    ) -> Self {
        let start = field.offset() as usize;
        let section = match T::SECTION {
            Some(section) => section,
            None => area,
        };
        Self { name, bytes: start..start + T::SIZE, section, meaning: meaning::<T> }
    }

    /// The parts of the value that a VMCB has, by name; nothing of a plain number.
    pub fn describe(&self, vmcb: &[u8], out: &mut dyn fmt::Write) -> fmt::Result {
        vmcb.get(self.bytes.clone()).map_or(Ok(()), |bytes| (self.meaning)(bytes, out))
    }
}

fn meaning<T: Value>(bytes: &[u8], out: &mut dyn fmt::Write) -> fmt::Result {
    T::load(bytes).describe(out)
}

/// The control area's fields, in the order of the layout.
pub const fn control_area() -> &'static [Listed] {
    control::LISTED
}

/// The state save area's fields, in the order of the layout.
pub const fn save_area() -> &'static [Listed] {
    save::LISTED
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_listed_in_order_and_do_not_overlap() {
        let mut end = 0;
        for row in control_area().iter().chain(save_area()) {
            assert!(row.bytes.start >= end, "{}", row.name);
            end = row.bytes.end;
            assert!(row.section.starts_with("APM2 \""), "{}: {}", row.name, row.section);
        }
        assert!(end <= super::super::vmcb::SIZE);
    }
}
