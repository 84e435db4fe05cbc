//! `avicenna machine list-variants`

use super::model;
use crate::terminal::{self, columns, look};
use crate::verb::format::Format;
use cpu::CpuModel;
use cpu::variant::{Variant, variants};
use report::layout::Look;
use std::process::ExitCode;

#[derive(clap::Args)]
pub struct Arguments {
    #[command(flatten)]
    model: model::Arguments,
    /// How to print
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

pub fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let model = arguments.model.model()?;
    match arguments.format {
        Format::Text => {
            let text: String = variants().map(|variant| as_text(variant, &model)).collect();
            terminal::print(&text);
        }
        Format::Json => {
            let variants = variants().map(|variant| Choice::of(variant, &model)).collect();
            let variants = Variants { schema: SCHEMA, variants };
            terminal::print(&(serde_json::to_string(&variants)? + "\n"));
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Version of the published form: docs/schema/machine-variants-1.json.
const SCHEMA: u32 = 1;

/// What manuals leave open, as programs read it.
#[derive(serde::Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct Variants {
    /// The version of this form.
    schema: u32,
    /// Those that `--variant` takes.
    variants: Vec<Choice>,
}

/// One behaviour that can be chosen.
#[derive(serde::Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct Choice {
    /// The value that it has unless the model or the user says otherwise.
    default: &'static str,
    /// What differs.
    meaning: &'static str,
    /// As `--variant` takes it.
    name: &'static str,
    /// Why either is possible.
    source: &'static str,
    /// That of the model that was asked for.
    value: String,
    /// All that it can have.
    values: Vec<&'static str>,
}

impl Choice {
    fn of(variant: &Variant, model: &CpuModel) -> Self {
        Self {
            default: variant.values[0],
            meaning: variant.meaning,
            name: variant.name,
            source: variant.source,
            value: variant.of(model.behaviour()).to_owned(),
            values: variant.values.to_vec(),
        }
    }
}

fn as_text(variant: &Variant, model: &CpuModel) -> String {
    let value = variant.of(model.behaviour());
    let values: Vec<_> = variant
        .values
        .iter()
        .map(|known| if *known == value { format!("[{known}]") } else { (*known).to_owned() })
        .collect();
    // Sentences are for readers, wherever they are read.
    let look = Look { columns: Some(columns()), ..look() };
    let mut text = String::new();
    for (index, part) in [&values.join(" "), variant.meaning, variant.source].iter().enumerate() {
        let name = if index == 0 { variant.name } else { "" };
        text += &look.hanging(name, NAME, part);
    }
    text + "\n"
}

/// Columns in front of what is said of a variant.
const NAME: usize = 21;

#[test]
fn the_published_schema_is_that_of_the_types() {
    let schema = schema::of::<Variants>("avicenna machine list-variants --format json", SCHEMA);
    schema::assert_published("machine-variants-1.json", &schema);
}
