//! Named switches of a CPU model: errata, and the points that the manuals leave open.
//!
//! Each row says what the switch means, who asks for it, and which values there are; the first
//! value is what unmodified kernels need, and the default unless the model has the erratum. The
//! rows are the vendors'.

mod behaviour;
mod memory_order;
pub(crate) mod row;

pub use behaviour::{Behaviour, variants};
pub use memory_order::MemoryOrder;
pub use row::Variant;

/// Why a choice is none.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum VariantError {
    /// What was asked for, and the names that there are.
    #[error("no variant is named {0:?}; there are {1}")]
    Unknown(String, String),
    /// The variant has no such value.
    #[error("variant {name} is {value:?}, must be one of {values}")]
    Value {
        /// The variant.
        name: &'static str,
        /// What was asked for.
        value: String,
        /// What it can be.
        values: String,
    },
}

fn find(name: &str) -> Result<&'static Variant, VariantError> {
    variants().find(|variant| variant.name == name).ok_or_else(|| {
        let names: Vec<_> = variants().map(|variant| variant.name).collect();
        VariantError::Unknown(name.to_owned(), names.join(", "))
    })
}

impl Behaviour {
    /// Takes a choice `NAME=VALUE`, or `NAME` of a switch that is on or off.
    pub fn choose(&mut self, choice: &str) -> Result<(), VariantError> {
        let (name, value) = choice.split_once('=').unwrap_or((choice, "on"));
        let variant = find(name)?;
        let index = variant.values.iter().position(|known| *known == value);
        let index = index.ok_or_else(|| VariantError::Value {
            name: variant.name,
            value: value.to_owned(),
            values: variant.values.join(", "),
        })?;
        (variant.set)(self, index);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_value_of_each_switch_is_the_default_and_every_value_can_be_chosen() {
        let default = Behaviour::default();
        for variant in variants() {
            assert_eq!((variant.get)(&default), 0, "{}", variant.name);
            for (index, value) in variant.values.iter().enumerate() {
                let mut behaviour = default;
                behaviour.choose(&format!("{}={value}", variant.name)).expect(value);
                assert_eq!((variant.get)(&behaviour), index, "{}={value}", variant.name);
                assert_eq!(behaviour == default, index == 0, "{}={value}", variant.name);
            }
        }
    }

    #[test]
    fn a_bare_name_turns_a_switch_on() {
        let mut behaviour = Behaviour::default();
        behaviour.choose("erratum-1235").expect("a switch that is on or off");
        assert!(behaviour.svm.avic.erratum_1235);
    }

    #[test]
    fn an_unknown_name_is_refused_with_the_names_and_an_unknown_value_with_the_values() {
        let mut behaviour = Behaviour::default();
        let error = behaviour.choose("erratum-1").expect_err("unknown").to_string();
        assert!(error.contains("erratum-1235") && error.contains("doorbell-bits"), "{error}");
        for choice in ["doorbell-bits=9", "task-priority", "task-priority="] {
            let error = behaviour.choose(choice).expect_err(choice).to_string();
            assert!(error.contains("must be one of"), "{error}");
        }
        assert_eq!(behaviour, Behaviour::default());
    }
}
