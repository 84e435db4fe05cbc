//! `avicenna machine list-cpus`

use crate::terminal::{self, columns, look};
use crate::verb::format::Format;
use cpu::CpuModel;
use report::layout::Look;
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
            let models = models.iter().map(Model::of).collect();
            let models = Models { models, schema: SCHEMA };
            terminal::print(&(serde_json::to_string(&models)? + "\n"));
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Version of the published form: docs/schema/machine-cpus-1.json.
const SCHEMA: u32 = 1;

/// The models as programs read them.
#[derive(serde::Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct Models {
    /// Those that `--cpu` takes by name.
    models: Vec<Model>,
    /// The version of this form.
    schema: u32,
}

/// A processor.
#[derive(serde::Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct Model {
    /// Its brand string.
    brand: String,
    /// Of its cores, in Hz.
    clock: Clock,
    /// In a few words.
    description: String,
    /// As /proc/cpuinfo spells them.
    features: Vec<String>,
    /// As `--cpu` takes it.
    name: String,
    /// Family, model and stepping: EAX of CPUID leaf 1, as hexadecimal digits.
    signature: String,
    /// Of its time-stamp counter.
    tsc_hertz: u64,
    /// The vendor string of CPUID.
    vendor: String,
}

/// What `--clock` has names for.
#[derive(serde::Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct Clock {
    /// Of all cores at once, where it is known.
    all_core: Option<u64>,
    /// What is promised with all cores busy.
    base: u64,
    /// The highest.
    boost: u64,
}

impl Clock {
    fn of(model: &CpuModel) -> Self {
        let clocks = model.clocks();
        Self {
            base: clocks.base.hertz,
            all_core: clocks.all_core.as_ref().map(|rate| rate.hertz),
            boost: clocks.boost.hertz,
        }
    }

    fn as_text(&self) -> String {
        let gigahertz = |hertz: u64| hertz as f64 / 1e9;
        let all_core = self.all_core.map(|hertz| format!("{} all-core, ", gigahertz(hertz)));
        format!(
            "clock: {} base, {}{} boost (GHz)",
            gigahertz(self.base),
            all_core.unwrap_or_default(),
            gigahertz(self.boost)
        )
    }
}

impl Model {
    fn of(model: &CpuModel) -> Self {
        Self {
            brand: model.brand().to_owned(),
            clock: Clock::of(model),
            description: model.description().to_owned(),
            features: model.features().iter().map(|one| one.name().to_owned()).collect(),
            name: model.name().to_owned(),
            signature: format!("{:#010x}", model.signature()),
            tsc_hertz: model.tsc_hertz(),
            vendor: model.vendor().to_owned(),
        }
    }
}

/// Columns in front of what is said of a model.
const NAME: usize = 11;

fn as_text(model: &CpuModel) -> String {
    let features: Vec<&str> = model.features().iter().map(|feature| feature.name()).collect();
    let parts = [
        model.description().to_owned(),
        format!("{} {:#010x}, {}", model.vendor(), model.signature(), model.brand()),
        Clock::of(model).as_text(),
        features.join(" "),
    ];
    // Lists of words are for readers, wherever they are read.
    let look = Look { columns: Some(columns()), ..look() };
    let mut text = String::new();
    for (index, part) in parts.iter().enumerate() {
        let name = if index == 0 { model.name() } else { "" };
        text += &look.hanging(name, NAME, part);
    }
    text + "\n"
}

#[test]
fn the_published_schema_is_that_of_the_types() {
    let schema = schema::of::<Models>("avicenna machine list-cpus --format json", SCHEMA);
    schema::assert_published("machine-cpus-1.json", &schema);
}
