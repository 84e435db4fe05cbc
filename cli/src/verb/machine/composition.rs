//! What a run's time consisted of, as `machine run --composition` writes it and `machine price`
//! reads it: docs/schema/machine-composition-1.json.

use crate::status::Usage;
use crate::verb::source;
use anyhow::{Context, anyhow, bail};
use arch::identity::CpuIndex;
use arch::time::Picoseconds;
use board::Machine;
use board::composition::{Composition, Kind, Prices};
use board::cost::CostProfile;
use cpu::CpuModel;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::Path;

/// Version of the published form.
const SCHEMA: u32 = 1;

/// More than 512 processors have.
const LARGEST_FILE: u64 = 16 << 20;

/// What a run consisted of.
#[derive(Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Consisted {
    /// The version of this form.
    schema: u32,
    /// The processors' model.
    pub model: String,
    /// What their cores were clocked at, in Hz.
    pub core_hertz: u64,
    /// The cost profile that the run was priced by, as a file that `--costs` takes.
    profile: String,
    /// Each processor's time.
    pub processors: Vec<Processor>,
}

/// What a processor's time consisted of: the sum over kinds of count times price, the elements of
/// strings, and what it waited.
#[derive(Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Processor {
    /// Which one, from 0.
    processor: u16,
    /// How far its clock went.
    picoseconds: u64,
    /// What occurred at all, by the figure of the cost profile that prices it, such as
    /// world_switch.exit.
    kinds: BTreeMap<String, Counted>,
    /// What string instructions took for their elements, at a core cycle each.
    string_elements_picoseconds: u64,
    /// What passed while it had nothing to do; less than 0 if its clock was moved back.
    waited_picoseconds: i64,
    /// Messages sent to it, by how far they came; they are on their way while it works or waits,
    /// and so no part of its time.
    messages: BTreeMap<String, u64>,
}

/// One kind.
#[derive(Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct Counted {
    /// How often it occurred.
    count: u64,
    /// What it took each time; of a step within an instruction, beyond the instruction's class.
    picoseconds_each: u64,
}

/// Where a machine's composition is counted from.
pub struct Begin(Vec<(Composition, Picoseconds)>);

impl Begin {
    /// Counts from here on.
    pub fn of(machine: &mut Machine) -> Self {
        machine.count_composition();
        Self(all(machine).unwrap_or_default())
    }
}

/// Every processor's composition so far and its clock; `None` if software changed a clock.
fn all(machine: &Machine) -> Option<Vec<(Composition, Picoseconds)>> {
    let cpus = machine.state.cpus.iter().enumerate();
    let each = cpus
        .map(|(index, cpu)| Some((machine.composition(CpuIndex(index as u16))?, cpu.clock.now())));
    each.collect()
}

impl Consisted {
    /// Of a machine since `begin`.
    pub fn of(machine: &Machine, begin: &Begin, model: &CpuModel) -> anyhow::Result<Self> {
        let prices = machine.costs.prices(model);
        let now =
            all(machine).ok_or_else(|| anyhow!("--composition: a processor's clock changed"))?;
        let spans = now.iter().zip(&begin.0).enumerate();
        let processors = spans.map(|(index, (now, then))| {
            let time = now.1.saturating_sub(then.1);
            Processor::of(index as u16, &now.0.since(&then.0), time, &prices)
        });
        Ok(Self {
            schema: SCHEMA,
            model: model.name().to_owned(),
            core_hertz: model.core_hertz(),
            profile: machine.costs.to_toml(),
            processors: processors.collect(),
        })
    }

    /// What such a file says.
    pub fn read(path: &Path) -> anyhow::Result<Self> {
        let name = path.display();
        let text = source::text(path, LARGEST_FILE, "the most that is read")?;
        let own: Self = serde_json::from_str(&text).with_context(|| {
            format!("{name} must be a file that machine run --composition wrote")
        })?;
        if own.schema != SCHEMA {
            bail!("{name} has form {}, this avicenna reads form {SCHEMA}", own.schema);
        }
        if own.core_hertz == 0 {
            bail!("{name}: core_hertz is 0, must be a clock's rate");
        }
        Ok(own)
    }

    /// The profile that the run was priced by.
    pub fn profile(&self, path: &Path) -> anyhow::Result<CostProfile> {
        Ok(CostProfile::parse(&format!("{}: profile", path.display()), &self.profile)?)
    }

    /// All processors' time together, or one's.
    pub fn total(&self, only: Option<u16>) -> anyhow::Result<Composition> {
        let mut total = Composition::empty(self.core_hertz);
        let mut chosen = self.processors.iter();
        if let Some(index) = only {
            let own = chosen.find(|one| one.processor == index).ok_or_else(|| {
                let count = self.processors.len();
                Usage::of(anyhow!("no processor {index}: the run had {count} of them"))
            })?;
            own.add_to(&mut total)?;
            return Ok(total);
        }
        chosen.try_for_each(|processor| processor.add_to(&mut total))?;
        Ok(total)
    }
}

impl Processor {
    fn of(processor: u16, spent: &Composition, time: Picoseconds, prices: &Prices) -> Self {
        let occurred = Kind::all().filter(|kind| spent.count(*kind) > 0);
        let kinds = occurred.map(|kind| {
            let picoseconds_each = prices.of(kind).0;
            (name(kind), Counted { count: spent.count(kind), picoseconds_each })
        });
        let messages = &spent.messages;
        let by_distance = DISTANCES.into_iter().zip(messages.by_distance);
        let sent = by_distance.chain([("device", messages.of_devices)]);
        Self {
            processor,
            picoseconds: time.0,
            kinds: kinds.collect(),
            string_elements_picoseconds: spent.spent.elements.0,
            // Modulo 2^64 there.
            waited_picoseconds: spent.spent.waited.0 as i64,
            messages: sent.map(|(name, count)| (name.to_owned(), count)).collect(),
        }
    }

    fn add_to(&self, total: &mut Composition) -> anyhow::Result<()> {
        let too_many = || anyhow!("the counts of the run exceed 64 bits");
        for (name, counted) in &self.kinds {
            let kind = Kind::named(name);
            let kind =
                kind.with_context(|| format!("{name} is counted by no kind that is known"))?;
            let count = total.count_mut(kind);
            *count = count.checked_add(counted.count).ok_or_else(too_many)?;
        }
        let spent = &mut total.spent;
        let elements = spent.elements.0.checked_add(self.string_elements_picoseconds);
        spent.elements = Picoseconds(elements.ok_or_else(too_many)?);
        spent.waited = Picoseconds(spent.waited.0.wrapping_add(self.waited_picoseconds as u64));
        Ok(())
    }
}

/// A kind as a profile names the figure that prices it.
pub fn name(kind: Kind) -> String {
    let (section, figure) = kind.figure();
    format!("{section}.{figure}")
}

/// As profiles name them, in the order of the messages' distances.
const DISTANCES: [&str; board::topology::Distance::COUNT] =
    ["itself", "same_core", "same_complex", "same_die", "same_socket", "other_socket"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_published_schema_is_that_of_the_file() {
        let schema = schema::of::<Consisted>("avicenna machine run --composition", SCHEMA);
        schema::assert_published("machine-composition-1.json", &schema);
    }
}
