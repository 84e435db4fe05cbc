//! `avicenna machine list-cpus`

use crate::terminal;
use crate::verb::format::Format;
use cpu::CpuModel;
use std::process::ExitCode;

#[derive(clap::Args)]
pub struct Arguments {
    /// How to print
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

pub fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let mut models = Vec::new();
    for name in CpuModel::names() {
        models.push(CpuModel::named(name)?);
    }
    match arguments.format {
        Format::Text => {
            terminal::print(&models.iter().map(as_text).collect::<String>());
        }
        Format::Json => {
            let models: Vec<_> = models.iter().map(as_json).collect();
            terminal::print(&format!("{}\n", serde_json::json!({ "schema": 1, "models": models })));
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn as_json(model: &CpuModel) -> serde_json::Value {
    let features: Vec<_> = model.features().iter().map(|feature| feature.name()).collect();
    serde_json::json!({
        "name": model.name(),
        "description": model.description(),
        "vendor": model.vendor(),
        "brand": model.brand(),
        "signature": format!("{:#010x}", model.signature()),
        "tsc_hertz": model.tsc_hertz(),
        "features": features,
    })
}

/// The width of the lines that features are wrapped to.
const COLUMNS: usize = 96;

fn as_text(model: &CpuModel) -> String {
    let mut text = format!(
        "{:<10} {}\n           {} {:#010x}, {}\n",
        model.name(),
        model.description(),
        model.vendor(),
        model.signature(),
        model.brand()
    );
    let mut line = String::new();
    for feature in model.features().iter() {
        if line.len() + feature.name().len() + 1 > COLUMNS - 11 {
            text += &format!("          {line}\n");
            line.clear();
        }
        line.push(' ');
        line.push_str(feature.name());
    }
    text + &format!("          {line}\n\n")
}
