//! `avicenna machine list-variants`

use super::model;
use crate::verb::format::Format;
use cpu::CpuModel;
use cpu::variant::{VARIANTS, Variant};
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
        Format::Text => VARIANTS.iter().for_each(|variant| print_text(variant, &model)),
        Format::Json => {
            let variants: Vec<_> =
                VARIANTS.iter().map(|variant| as_json(variant, &model)).collect();
            println!("{}", serde_json::json!({ "schema": 1, "variants": variants }));
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn as_json(variant: &Variant, model: &CpuModel) -> serde_json::Value {
    serde_json::json!({
        "name": variant.name,
        "meaning": variant.meaning,
        "source": variant.source,
        "values": variant.values,
        "default": variant.values[0],
        "value": variant.of(model),
    })
}

fn print_text(variant: &Variant, model: &CpuModel) {
    let value = variant.of(model);
    let values: Vec<_> = variant
        .values
        .iter()
        .map(|known| if *known == value { format!("[{known}]") } else { (*known).to_owned() })
        .collect();
    println!("{:<20} {}", variant.name, values.join(" "));
    println!("{:20} {}", "", variant.meaning);
    println!("{:20} {}\n", "", variant.source);
}
