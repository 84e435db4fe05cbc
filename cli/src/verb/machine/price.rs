//! `avicenna machine price`: what a run that was counted takes, at its costs and at others, without
//! running it again.

use super::composition::{self, Consisted};
use crate::sandbox::{self, Sandbox};
use crate::status::Usage;
use crate::terminal;
use crate::verb::format::Format;
use board::composition::{Composition, Kind, Prices};
use board::cost::CostProfile;
use report::grid::{Grid, Value};
use std::path::PathBuf;
use std::process::ExitCode;

/// Draws of a profile from its ranges, of which ten lie beyond each end of the interval.
const DRAWS: u64 = 200;

/// More than any profile has.
const LARGEST_FILE: u64 = 1 << 20;

#[derive(clap::Args)]
pub struct Arguments {
    /// What `machine run --composition` wrote
    file: PathBuf,
    /// Only this processor's time; without it that of all together
    #[arg(long, value_name = "N")]
    processor: Option<u16>,
    /// Price it by these costs as well: a profile that comes with the program, or the file of one,
    /// as `lab calibrate` writes it
    #[arg(long, value_name = "NAME|FILE.toml")]
    costs: Option<String>,
    /// Price it at this clock of the cores as well, such as 2.5GHz
    #[arg(long, value_name = "HZ", value_parser = parse_hertz)]
    clock: Option<u64>,
    /// How to print
    #[arg(long, value_enum, default_value_t)]
    format: Format,
    #[command(flatten)]
    sandbox: sandbox::Arguments,
}

fn parse_hertz(text: &str) -> Result<u64, String> {
    match text.parse() {
        Ok(cpu::CoreClock::Hertz(hertz)) => Ok(hertz),
        _ => Err("must be a rate, such as 2.5GHz".into()),
    }
}

/// Version of the published form: docs/schema/machine-price-1.json.
const SCHEMA: u32 = 1;

/// What a run takes.
#[derive(serde::Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct Priced {
    /// The version of this form.
    schema: u32,
    /// The processors' model.
    model: String,
    /// How many processors' time it is, together.
    processors: usize,
    /// What passed while they had nothing to do, which no cost changes.
    waited_seconds: f64,
    /// As it ran; then by the costs and at the clock that were asked for.
    by: Vec<Bill>,
}

/// At one profile and clock.
#[derive(serde::Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct Bill {
    /// The profile's name.
    costs: String,
    /// The cores' clock, in Hz.
    core_hertz: u64,
    /// What all kinds take together: work, without what was waited.
    seconds: f64,
    /// Where nine of ten draws of the profile from its ranges lie: least and most.
    seconds_interval: [f64; 2],
    /// Each kind that occurred, the dearest first.
    kinds: Vec<Item>,
}

/// One kind.
#[derive(serde::Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct Item {
    /// By the figure of the profile that prices it; string_elements, which are counted as the time
    /// that they took, are priced by the clock.
    kind: String,
    /// How often it occurred.
    count: Option<u64>,
    /// What one takes.
    nanoseconds_each: Option<f64>,
    /// What all take.
    seconds: f64,
    /// Of all work.
    share: f64,
}

pub fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let mut sandbox = Sandbox::default();
    sandbox.reads(&arguments.file);
    let others = arguments.costs.as_deref().filter(|name| name.ends_with(".toml"));
    others.into_iter().for_each(|path| {
        sandbox.reads(path);
    });
    sandbox.raise(&arguments.sandbox);
    let consisted = Consisted::read(&arguments.file)?;
    let total = consisted.total(arguments.processor)?;
    let profile = consisted.profile(&arguments.file)?;
    let mut by = vec![bill(&total, &profile, consisted.core_hertz)];
    if arguments.costs.is_some() || arguments.clock.is_some() {
        let other = match &arguments.costs {
            Some(name) => named(name).map_err(Usage::of)?,
            None => profile,
        };
        by.push(bill(&total, &other, arguments.clock.unwrap_or(consisted.core_hertz)));
    }
    let priced = Priced {
        schema: SCHEMA,
        model: consisted.model,
        processors: if arguments.processor.is_some() { 1 } else { consisted.processors.len() },
        waited_seconds: total.spent.waited.0 as i64 as f64 / 1e12,
        by,
    };
    match arguments.format {
        Format::Text => drop(terminal::print(&to_text(&priced))),
        Format::Json => terminal::print_json(&priced)?,
    }
    Ok(ExitCode::SUCCESS)
}

fn named(name: &str) -> anyhow::Result<CostProfile> {
    if !name.ends_with(".toml") {
        return Ok(CostProfile::named(name)?);
    }
    let path = std::path::Path::new(name);
    let text = crate::verb::source::text(path, LARGEST_FILE, "the most that is read")?;
    Ok(CostProfile::parse(name, &text)?)
}

fn bill(total: &Composition, profile: &CostProfile, core_hertz: u64) -> Bill {
    let prices = profile.prices_at(core_hertz);
    let work = |prices: &Prices| seconds(total.work(prices));
    let draws = (0..DRAWS).map(|seed| work(&profile.drawn(seed).prices_at(core_hertz)));
    let mut draws: Vec<f64> = draws.collect();
    draws.sort_by(f64::total_cmp);
    let end = draws.len() / 20;
    let seconds = work(&prices);
    Bill {
        costs: profile.name.clone(),
        core_hertz,
        seconds,
        seconds_interval: [draws[end], draws[draws.len() - 1 - end]],
        kinds: items(total, &prices, seconds),
    }
}

fn seconds(picoseconds: u128) -> f64 {
    picoseconds as f64 / 1e12
}

fn items(total: &Composition, prices: &Prices, work: f64) -> Vec<Item> {
    let share = |seconds: f64| if work > 0.0 { seconds / work } else { 0.0 };
    let occurred = Kind::all().filter(|kind| total.count(*kind) > 0);
    let mut items: Vec<Item> = occurred
        .map(|kind| {
            let (count, each) = (total.count(kind), prices.of(kind).0);
            let seconds = seconds(u128::from(count) * u128::from(each));
            Item {
                kind: composition::name(kind),
                count: Some(count),
                nanoseconds_each: Some(each as f64 / 1e3),
                seconds,
                share: share(seconds),
            }
        })
        .collect();
    let elements = seconds(total.elements(prices));
    if elements > 0.0 {
        items.push(Item {
            kind: STRING_ELEMENTS.into(),
            count: None,
            nanoseconds_each: None,
            seconds: elements,
            share: share(elements),
        });
    }
    items.sort_by(|a, b| b.seconds.total_cmp(&a.seconds));
    items
}

const STRING_ELEMENTS: &str = "string_elements";

fn to_text(priced: &Priced) -> String {
    let Priced { model, processors, .. } = priced;
    let plural = if *processors == 1 { "processor" } else { "processors" };
    let mut text = format!("{processors} {plural}, {model}\n");
    for bill in &priced.by {
        let [low, high] = bill.seconds_interval;
        let gigahertz = bill.core_hertz as f64 / 1e9;
        text += &format!(
            "By costs {} at {gigahertz} GHz: {} of work ({} to {} by what costs may be)\n",
            bill.costs,
            time(bill.seconds),
            time(low),
            time(high)
        );
    }
    text += &format!("Waited, which no cost changes: {}\n\n", time(priced.waited_seconds));
    text + &table(&priced.by).to_text_within(terminal::columns())
}

/// A row for each kind, those that take most first.
fn table(by: &[Bill]) -> Grid {
    let [bill, others @ ..] = by else { return Grid::new("", &[]) };
    let columns: &[&'static str] = match others {
        [] => &["kind", "count", "ns_each", "us", "percent"],
        _ => {
            &["kind", "count", "ns_each", "us", "percent", "other_ns", "other_us", "other_percent"]
        }
    };
    let mut grid = Grid::new("What the work consists of", columns);
    for item in &bill.kinds {
        let count = item.count.map_or(Value::Missing, Value::Count);
        let mut row = vec![Value::text(item.kind.clone()), count];
        row.extend(cells(item));
        let of_kind =
            |other: &Bill| other.kinds.iter().find(|one| one.kind == item.kind).map(cells);
        row.extend(others.iter().filter_map(of_kind).flatten());
        grid.rows.push(row);
    }
    grid
}

fn cells(item: &Item) -> [Value; 3] {
    [
        item.nanoseconds_each.map_or(Value::Missing, |each| Value::Number(each, 3)),
        Value::Number(item.seconds * 1e6, 1),
        Value::Number(item.share * 100.0, 1),
    ]
}

fn time(seconds: f64) -> String {
    match seconds.abs() {
        large if large >= 1.0 => format!("{seconds:.3} s"),
        middle if middle >= 1e-3 => format!("{:.3} ms", seconds * 1e3),
        _ => format!("{:.3} us", seconds * 1e6),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_published_schema_is_that_of_the_answer() {
        let schema = schema::of::<Priced>("avicenna machine price --format json", SCHEMA);
        schema::assert_published("machine-price-1.json", &schema);
    }
}
