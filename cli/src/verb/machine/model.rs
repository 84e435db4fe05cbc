//! Which processor to emulate: the options that `machine` and `lab` share.

use crate::verb::source;
use anyhow::{Context, anyhow};
use board::cost::CostProfile;
use cpu::{CoreClock, CpuModel};
use std::path::{Path, PathBuf};

/// More than any model's file has.
const LARGEST_FILE: u64 = 1 << 20;

#[derive(Clone, clap::Args)]
#[group(skip)]
pub struct Arguments {
    /// CPU model (see machine list-cpus) or the file of one, as those under machine/models are,
    /// with features taken away or added: zen4,-x2avic
    #[arg(long, value_name = "MODEL|FILE.toml[,±FEATURE]...", default_value = "zen4")]
    pub cpu: String,
    /// What the cores are clocked at: base, all-core, boost, or a rate such as 2.5GHz
    #[arg(long, value_name = "CLOCK", default_value_t = CoreClock::default())]
    clock: CoreClock,
    /// Let software change the cores' clock, up to that of --clock: P-states on AMD's models, HWP
    /// or ratios on Intel's
    #[arg(long)]
    clock_control: bool,
    /// What things take, as the files under machine/board/costs say it, in place of the model's
    /// profile
    #[arg(long, value_name = "FILE.toml")]
    costs: Option<PathBuf>,
    /// Draw every figure of the cost profile from its range by this seed
    #[arg(long, value_name = "N")]
    cost_seed: Option<u64>,
    /// An erratum, or a choice where the manuals leave one (see machine list-variants)
    #[arg(long, value_name = "NAME=VALUE")]
    variant: Vec<String>,
}

impl Arguments {
    pub fn model(&self) -> anyhow::Result<CpuModel> {
        let (name, changes) = self.cpu.split_once(',').unwrap_or((&self.cpu, ""));
        let mut model = if name.ends_with(".toml") {
            let text = source::text(Path::new(name), LARGEST_FILE, "the most that is read")?;
            let model = CpuModel::parse(&text).with_context(|| name.to_owned())?;
            model.with_changes(changes)?
        } else {
            CpuModel::named(&self.cpu)?
        };
        model.set_clock(self.clock).map_err(|error| anyhow!("--clock {}: {error}", self.clock))?;
        if self.clock_control {
            model.let_software_clock().context("--clock-control")?;
        }
        self.variant.iter().try_for_each(|choice| model.choose(choice))?;
        Ok(model)
    }

    /// What things take, where it is not what the model's own profile says.
    pub fn costs(&self, model: &CpuModel) -> anyhow::Result<Option<CostProfile>> {
        if self.costs.is_none() && self.cost_seed.is_none() {
            return Ok(None);
        }
        let likely = match &self.costs {
            Some(path) => {
                let text = source::text(path, LARGEST_FILE, "the most that is read")?;
                CostProfile::parse(&path.display().to_string(), &text)?
            }
            None => CostProfile::named(model.costs())?,
        };
        Ok(Some(match self.cost_seed {
            Some(seed) => likely.drawn(seed),
            None => likely,
        }))
    }

    /// The files of model and costs, where they are files.
    pub fn files(&self) -> impl Iterator<Item = &Path> {
        let (name, _) = self.cpu.split_once(',').unwrap_or((&self.cpu, ""));
        let model = name.ends_with(".toml").then_some(Path::new(name));
        model.into_iter().chain(self.costs.as_deref())
    }

    /// As the options say it, for readers.
    pub fn description(&self) -> String {
        [&self.cpu]
            .into_iter()
            .chain(&self.variant)
            .map(String::as_str)
            .collect::<Vec<_>>()
            .join(" ")
    }
}
