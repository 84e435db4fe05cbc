//! Why there is no such model.

use crate::variant::VariantError;

/// Why a model's name, its changes or its file are refused.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum ModelError {
    /// What was asked for, and the names that there are.
    #[error("no CPU model is named {0:?}; there are {1}, and files *.toml")]
    Unknown(String, String),
    /// What the TOML reader says.
    #[error("CPU model file: {0}")]
    Syntax(String),
    /// A name in the file or behind a sign.
    #[error("CPU model {model}: no feature is named {feature:?}")]
    Feature {
        /// Of which model.
        model: String,
        /// What was written.
        feature: String,
    },
    /// The file lists an erratum that the machine cannot show.
    #[error("CPU model {model}: erratum {number} is not modelled")]
    Erratum {
        /// Of which model.
        model: String,
        /// The vendor's number.
        number: u32,
    },
    /// A word behind the model's name has no sign.
    #[error("CPU model {model}: {change:?} must be +FEATURE or -FEATURE")]
    Change {
        /// Of which model.
        model: String,
        /// The word.
        change: String,
    },
    /// A feature was added that no model has; those that can be.
    #[error("CPU model {model}: {feature} is not implemented; what can be added: {known}")]
    Absent {
        /// Of which model.
        model: String,
        /// What was to be added.
        feature: &'static str,
        /// What the model lacks and could have.
        known: String,
    },
    /// A feature was added without another that it rests on.
    #[error("CPU model {model}: {feature} needs {needed}, which the model lacks; add +{needed}")]
    Needs {
        /// Of which model.
        model: String,
        /// What was to be added.
        feature: &'static str,
        /// What it rests on.
        needed: &'static str,
    },
    /// A variant's choice is none.
    #[error(transparent)]
    Variant(#[from] VariantError),
    /// CPUID has three registers for the vendor's name.
    #[error("CPU model {model}: the vendor string {vendor:?} must be 12 characters")]
    Vendor {
        /// Of which model.
        model: String,
        /// As the file has it.
        vendor: String,
    },
    /// The file has VMX's capabilities and not the feature, or the other way round.
    #[error(
        "CPU model {0}: the feature vmx and the table [vmx] with its capability MSRs must be there \
         together"
    )]
    Virtualization(String),
    /// A file says nothing of where its values are from.
    #[error("CPU model {0}: sources is empty, must say where the values are from")]
    Sources(String),
}
