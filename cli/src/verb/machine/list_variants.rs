//! `avicenna machine list-variants`

use super::model;
use crate::terminal;
use crate::verb::format::Format;
use cpu::CpuModel;
use cpu::variant::{Variant, variants};
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
            let variants: Vec<_> = variants().map(|variant| as_json(variant, &model)).collect();
            let variants = serde_json::json!({ "schema": 1, "variants": variants });
            terminal::print(&format!("{variants}\n"));
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
        "value": variant.of(model.behaviour()),
    })
}

fn as_text(variant: &Variant, model: &CpuModel) -> String {
    let value = variant.of(model.behaviour());
    let values: Vec<_> = variant
        .values
        .iter()
        .map(|known| if *known == value { format!("[{known}]") } else { (*known).to_owned() })
        .collect();
    format!(
        "{:<20} {}\n{:20} {}\n{:20} {}\n\n",
        variant.name,
        values.join(" "),
        "",
        variant.meaning,
        "",
        variant.source
    )
}
