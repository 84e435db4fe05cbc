//! Which processor to emulate: the options that `machine` and `lab` share.

use cpu::{CpuModel, ModelError};

#[derive(clap::Args)]
#[group(skip)]
pub struct Arguments {
    /// CPU model (see machine list-cpus), with features taken away or added: zen4,-x2avic
    #[arg(long, value_name = "MODEL[,±FEATURE]...", default_value = "zen4")]
    cpu: String,
    /// An erratum, or a choice where the manuals leave one (see machine list-variants)
    #[arg(long, value_name = "NAME=VALUE")]
    variant: Vec<String>,
}

impl Arguments {
    pub fn model(&self) -> Result<CpuModel, ModelError> {
        let mut model = CpuModel::named(&self.cpu)?;
        self.variant.iter().try_for_each(|choice| model.choose(choice))?;
        Ok(model)
    }

    /// As the options say it, for people.
    pub fn description(&self) -> String {
        [&self.cpu]
            .into_iter()
            .chain(&self.variant)
            .map(String::as_str)
            .collect::<Vec<_>>()
            .join(" ")
    }
}
