//! What is seen: rows of names and values, for any form of print.

use arch::address::SystemPhysical;
use arch::identity::CpuIndex;
use std::fmt::Debug;

/// Something that was looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sheet {
    /// What it is.
    pub title: String,
    /// Whose, if a processor's.
    pub cpu: Option<CpuIndex>,
    /// Where it lies, if in memory.
    pub address: Option<SystemPhysical>,
    /// Where the manual explains it: document and title.
    pub section: &'static str,
    /// Its fields, in the manual's order.
    pub rows: Vec<Row>,
}

/// A field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// Its offset, encoding or number, in the manual's form; nothing where it has none.
    pub place: String,
    /// The manual's.
    pub name: String,
    /// Its bits as a number; nothing where it is not one.
    pub value: Option<u128>,
    /// The least digits to print it with.
    pub digits: usize,
    /// Its parts, as far as they are not zero.
    pub meaning: String,
    /// Where the manual explains it.
    pub section: &'static str,
}

impl Sheet {
    pub(super) fn new(title: &str, section: &'static str) -> Self {
        Self { title: title.into(), cpu: None, address: None, section, rows: Vec::new() }
    }

    pub(super) fn of(self, cpu: CpuIndex) -> Self {
        Self { cpu: Some(cpu), ..self }
    }

    pub(super) fn at(self, address: SystemPhysical) -> Self {
        Self { address: Some(address), ..self }
    }

    /// Adds a field of so many bits.
    pub(super) fn add(
        &mut self,
        place: impl Into<String>,
        name: impl Into<String>,
        value: impl Into<u128>,
        bits: usize,
        meaning: String,
    ) {
        self.rows.push(Row {
            place: place.into(),
            name: name.into(),
            value: Some(value.into()),
            digits: bits / 4,
            meaning,
            section: self.section,
        });
    }
}

/// The parts of a register by its `Debug`: those that are not zero, numbers in hexadecimal.
pub(super) fn parts(value: &impl Debug) -> String {
    parts_of(&format!("{value:?}"))
}

/// Of `Name { field: value, … }` and `Name(FLAG | …)`, what stands inside.
pub(super) fn parts_of(text: &str) -> String {
    let flags = text.strip_suffix(')').and_then(|text| text.split_once('('));
    if let Some((_, flags)) = flags.filter(|(name, _)| !name.contains(' ')) {
        return if flags == "0x0" { String::new() } else { flags.to_owned() };
    }
    let Some((_, fields)) = text.strip_suffix(" }").and_then(|text| text.split_once(" { ")) else {
        return text.to_owned();
    };
    let shown: Vec<String> = fields.split(", ").filter_map(part).collect();
    shown.join(", ")
}

fn part(field: &str) -> Option<String> {
    let Some((name, value)) = field.split_once(": ") else { return Some(field.to_owned()) };
    match (value, value.parse::<u128>()) {
        ("false", _) | (_, Ok(0)) => None,
        ("true", _) => Some(name.to_owned()),
        (_, Ok(number @ 10..)) => Some(format!("{name} {number:#x}")),
        (_, Ok(number)) => Some(format!("{name} {number}")),
        _ if value.ends_with("(0x0)") => None,
        _ => Some(format!("{name} {value}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_what_is_not_zero_with_numbers_in_hexadecimal() {
        for (text, expected) in [
            ("Cr0(PAGING | PROTECTION_ENABLE)", "PAGING | PROTECTION_ENABLE"),
            ("CleanBits(0x0)", ""),
            (
                "Lvt { vector: 236, delivery_mode: Fixed, is_masked: false }",
                "vector 0xec, delivery_mode Fixed",
            ),
            ("X { is_on: true, count: 3, other: 0 }", "is_on, count 3"),
            (
                "X { vector3: Vector3(INTR | NMI), vector4: Vector4(0x0) }",
                "vector3 Vector3(INTR | NMI)",
            ),
            ("X { }", "X { }"),
            ("Running", "Running"),
        ] {
            assert_eq!(parts_of(text), expected, "{text}");
        }
    }
}
