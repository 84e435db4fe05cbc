//! A switch as data: its name, what it decides, and the field of the behaviour that it is.

use super::behaviour::Behaviour;

/// A switch.
pub struct Variant {
    /// As in `NAME=VALUE`.
    pub name: &'static str,
    /// What it decides.
    pub meaning: &'static str,
    /// Who raises the question.
    pub source: &'static str,
    /// The default first.
    pub values: &'static [&'static str],
    pub(crate) get: fn(&Behaviour) -> usize,
    pub(crate) set: fn(&mut Behaviour, usize),
}

/// A switch with two or more positions, each a value of one field.
macro_rules! choice {
    ($name:literal, $meaning:literal, $source:literal,
     $($field:ident).+ : $($text:literal = $value:expr),+ $(,)?) => {
        Variant {
            name: $name,
            meaning: $meaning,
            source: $source,
            values: &[$($text),+],
            get: |behaviour| {
                [$($value),+].iter().position(|value| *value == behaviour.$($field).+).unwrap_or(0)
            },
            set: |behaviour, index| {
                if let Some(value) = [$($value),+].get(index) {
                    behaviour.$($field).+ = *value;
                }
            },
        }
    };
}
pub(crate) use choice;

impl Variant {
    /// The value that a model's behaviour has.
    pub fn of(&self, behaviour: &Behaviour) -> &'static str {
        self.values[(self.get)(behaviour)]
    }
}
