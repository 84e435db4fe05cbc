//! Why there is no such model.

use crate::variant::VariantError;

/// Why a model's name, its changes or its file are refused.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum ModelError {
    /// What was asked for, and the names that there are.
    #[error("no CPU model is named {0:?}; there are {1}, and files *.toml")]
    Unknown(String, String),
    /// What is wrong in a file.
    #[error("CPU model file: {0}")]
    File(String),
    /// Nothing says how software chooses its clock.
    #[error("{0}: no features are known by which software chooses its clock")]
    ClockControl(String),
    /// A raw leaf that is made from features, identity or topology.
    #[error(
        "CPU model {model}: leaves.raw has leaf {leaf:#x}, which follows from the model's features \
         and numbers; say there what differs"
    )]
    MadeLeaf {
        /// Of which model.
        model: String,
        /// What EAX holds before CPUID.
        leaf: u32,
    },
    /// A name behind a sign.
    #[error("CPU model {model}: no feature is named {feature:?}")]
    Feature {
        /// Of which model.
        model: String,
        /// What was written.
        feature: String,
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
    /// The boost of all cores at once is asked for of a part of which it is not known.
    #[error("CPU model {0}: no boost of all cores is known; choose base, boost, or a rate in Hz")]
    AllCore(String),
    /// A variant's choice is none.
    #[error(transparent)]
    Variant(#[from] VariantError),
}
