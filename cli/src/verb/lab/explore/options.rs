//! The options of `avicenna lab explore`, and the host and the guest that they say.

use crate::sandbox::Sandbox;
use crate::status::Usage;
use crate::verb::lab::arguments::HostArguments;
use crate::verb::lab::kernel::real_kernel;
use clap::{Args, FromArgMatches};
use lab::explore::{self, Mix, Stage};
use lab::ground::Ground;
use lab::host::Host;
use lab::watch::Watch;
use lab::workload::mix::{Changes, Flip};
use std::path::PathBuf;
use std::time::Duration;

/// Which host and guest it is.
#[derive(clap::Args)]
pub(super) struct Subject {
    #[command(flatten)]
    pub(super) host: HostArguments,
    /// Mode of the guest's APICs [default: x2apic]
    #[arg(long, value_name = "MODE", value_parser = ["xapic", "x2apic"])]
    pub(super) apic: Option<String>,
    /// vCPUs of the guest; more than the host's processors share them [default: 3]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(2..=64))]
    pub(super) guest_cpus: Option<u16>,
    /// What the host changes while interrupts flow: what AVIC and APICv are inhibited for, off and
    /// on (one of them; flips is one that the seed chooses), vCPUs that move between processors,
    /// messages that come from outside, vCPUs that are saved and restored, and a function that
    /// interrupts by an IOMMU (drawn where that can post)
    #[arg(long, value_name = "WHAT", value_enum, value_delimiter = ',', num_args = 1)]
    pub(super) with: Vec<With>,
    /// Where all numbers of the search come from
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(super) seed: u64,
}

#[derive(clap::Args)]
pub(super) struct Options {
    #[command(flatten)]
    pub(super) subject: Subject,
    /// So many configurations, for an equal share of the search each [default: as many as it has
    /// time for]; what is drawn for each is the mode of the APICs, vCPUs, polling, timer, and what
    /// the host changes. With --apic, --guest-cpus or --with there is that one alone
    #[arg(long, value_name = "N", conflicts_with_all = ["apic", "guest_cpus", "with"], value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub(super) swarm: Option<u16>,
    /// How long to search, in this machine's time: 30s, 5min, 2h [default: 5min, or with --windows
    /// no limit]
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    pub(super) budget: Option<Duration>,
    /// Windows of the whole search: unlike time, so many give the same on every machine
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(super) windows: Option<u64>,
    /// Emulated hosts at once, a thread and the host's memory each; what is found is the same
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=256))]
    pub(super) jobs: u16,
    /// One of N parts of the same search: I/N, from 0
    #[arg(long, value_name = "I/N", default_value = "0/1", value_parser = parse_shard)]
    pub(super) shard: (u64, u64),
    /// Folder for findings, a file each
    #[arg(long, short, value_name = "FOLDER", default_value = "findings")]
    pub(super) output: PathBuf,
    /// Write there a row for each window, as Parquet: configuration, window, strategy, what it
    /// showed, hash and cost; those of all parts of a search are one table
    #[arg(long, value_name = "FILE")]
    pub(super) parquet: Option<PathBuf>,
    /// How to print what came of it
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub(super) format: Format,
}

/// What the host changes.
#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum With {
    /// One of the inhibits that follow, by the seed
    Flips,
    /// Hyper-V's synthetic interrupts with AutoEOI (HYPERV)
    AutoEoi,
    /// A debugger that blocks interrupts (BLOCKIRQ)
    BlockIrq,
    /// An APIC with another ID than it was made with (APIC_ID_MODIFIED)
    ApicId,
    /// KVM's timer, which injects late ticks or not (PIT_REINJ, AVIC alone)
    Pit,
    /// vCPUs from processor to processor
    Migration,
    /// Messages to vCPUs, as an emulated device sends them
    Messages,
    /// All vCPUs stopped, saved and restored, as for a migration (KVM_GET_LAPIC, KVM_SET_LAPIC)
    SaveRestore,
    /// Interrupts of a function that the guest was given, which an IOMMU posts to one vCPU after
    /// the other
    Device,
    /// Lines of the guest's I/O APIC raised, most of them level-triggered, as by emulated devices
    Lines,
    /// The guest's processors started again, by INIT and startup IPIs that they send each other
    Startup,
}

impl With {
    fn flip(self, seed: u64) -> Option<Flip> {
        Some(match self {
            Self::Flips => Flip::ALL[(seed % Flip::ALL.len() as u64) as usize],
            Self::AutoEoi => Flip::AutoEoi,
            Self::BlockIrq => Flip::BlockIrq,
            Self::ApicId => Flip::ApicId,
            Self::Pit => Flip::Pit,
            Self::Migration | Self::Messages | Self::SaveRestore => return None,
            Self::Device | Self::Lines | Self::Startup => return None,
        })
    }
}

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Format {
    Text,
    Json,
    Markdown,
    Junit,
    Sarif,
}

/// Options that say how long and in how many parts to search, and where results go, not which host
/// it is.
const OF_THE_SEARCH: [&str; 8] =
    ["--budget", "--windows", "--jobs", "--shard", "--output", "--parquet", "--format", "--swarm"];

/// The option by which a host has the function.
const PULSE: &str = "--pulse";

/// The words behind `explore` that say which host and guest it is, for findings.
pub(super) fn words() -> Vec<String> {
    let own = std::env::args_os().skip_while(|word| word != "explore").skip(1);
    words_of_host(own.map(|word| word.to_string_lossy().into_owned()))
}

/// The same of a search that draws, for each of its configurations.
pub(super) fn words_on(host: &Host) -> Vec<String> {
    with_function(words(), host)
}

fn with_function(mut words: Vec<String>, host: &Host) -> Vec<String> {
    if host.has_pulse && !words.iter().any(|word| word == PULSE) {
        words.push(PULSE.to_owned());
    }
    words
}

fn words_of_host(words: impl Iterator<Item = String>) -> Vec<String> {
    let mut kept = Vec::new();
    let mut words = words;
    while let Some(word) = words.next() {
        let (name, value) = word.split_once('=').map_or((&*word, None), |(a, b)| (a, Some(b)));
        let is_short = word.starts_with("-o");
        let is_left_out = is_short || OF_THE_SEARCH.contains(&name);
        let is_followed = if is_short { word == "-o" } else { value.is_none() };
        match is_left_out {
            true if is_followed => drop(words.next()),
            true => {}
            false => kept.push(word),
        }
    }
    kept
}

impl Options {
    /// As a finding's words say.
    pub(super) fn of_words(words: &[String]) -> anyhow::Result<Subject> {
        let command = Self::augment_args(clap::Command::new("explore"));
        let all = std::iter::once("explore".to_owned()).chain(words.iter().cloned());
        let matches = command.try_get_matches_from(all);
        let parsed = matches.and_then(|matches| Self::from_arg_matches(&matches));
        parsed.map(|options| options.subject).map_err(|error| {
            Usage::of(anyhow::Error::from(error).context("the finding's own options"))
        })
    }
}

impl Subject {
    /// What runs in the guest.
    pub(super) fn mix(&self) -> anyhow::Result<Mix> {
        let flips: Vec<Flip> = self.with.iter().filter_map(|with| with.flip(self.seed)).collect();
        if flips.len() > 1 {
            return Err(Usage::of(anyhow::anyhow!(
                "--with {} and {}: one is flipped at a time",
                flips[0].name(),
                flips[1].name()
            )));
        }
        let changes = Changes {
            flip: flips.first().copied(),
            moves: self.with.contains(&With::Migration),
            sends: self.with.contains(&With::Messages),
            saves: self.with.contains(&With::SaveRestore),
            posts: self.with.contains(&With::Device),
            raises: self.with.contains(&With::Lines),
            starts: self.with.contains(&With::Startup),
        };
        if changes.raises && changes.starts {
            return Err(Usage::of(anyhow::anyhow!(
                "--with lines,startup: a processor that is started again could have a line, must \
                 be one of them"
            )));
        }
        let usual = Mix { seed: self.seed, changes, ..Mix::default() };
        let apic = self.apic.clone().unwrap_or(usual.apic);
        let vcpus = self.guest_cpus.unwrap_or(usual.vcpus);
        Ok(Mix { apic, vcpus, ..usual })
    }

    /// Whether it is one configuration, and not what the seed draws.
    pub(super) fn is_one(&self) -> bool {
        self.apic.is_some() || self.guest_cpus.is_some() || !self.with.is_empty()
    }

    /// The host of a search that draws what its guest has: with a function to give where the IOMMU
    /// can post its interrupts.
    pub(super) fn host_of_swarm(&self) -> anyhow::Result<Host> {
        let host = self.host.host()?;
        let posts = host.iommu.is_some_and(|iommu| iommu.part.posts());
        Ok(Host { has_pulse: host.has_pulse || posts, ..host })
    }

    /// The stage on which this runs in the guest.
    pub(super) fn stage(
        &self,
        mix: &Mix,
        watch: &mut Watch<'_>,
        mut sandbox: Sandbox,
    ) -> anyhow::Result<Stage> {
        let host = self.host_for(mix)?;
        let kernel = real_kernel(&self.host, &host, watch)?;
        let store = self.host.store();
        let (additions, store) = (self.host.additions(), store.as_ref());
        let ground = Ground { host: &host, kernel: &kernel, additions, store };
        let prepared = explore::Subject { ground, mix }.prepare()?;
        self.host.shut_in(&mut sandbox);
        prepared.open(watch)
    }

    /// The host, if this can run in its guest.
    pub(super) fn host_for(&self, mix: &Mix) -> anyhow::Result<Host> {
        if mix.changes.are_of_host() && mix.vcpus >= self.host.cpus() {
            return Err(Usage::of(anyhow::anyhow!(
                "--with needs a processor that no vCPU has: --guest-cpus {} leaves none of {}",
                mix.vcpus,
                self.host.cpus()
            )));
        }
        self.host.host_for(&mix.needs())
    }
}

pub(super) fn parse_time(text: &str) -> Result<Duration, String> {
    let wanted = || format!("{text:?} is not a time: 30s, 5min, 2h");
    let digits = text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let (number, unit) = text.split_at(digits);
    let number: u64 = number.parse().map_err(|_| wanted())?;
    let seconds = match unit {
        "s" => 1,
        "min" | "m" => 60,
        "h" => 3600,
        _ => return Err(wanted()),
    };
    number.checked_mul(seconds).map(Duration::from_secs).ok_or_else(wanted)
}

fn parse_shard(text: &str) -> Result<(u64, u64), String> {
    let wanted = || format!("{text:?} is not a share: I/N with I below N, such as 0/4");
    let (index, count) = text.split_once('/').ok_or_else(wanted)?;
    match (index.parse(), count.parse()) {
        (Ok(index), Ok(count)) if index < count => Ok((index, count)),
        _ => Err(wanted()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_finding_has_the_words_that_say_which_host_it_is_and_no_others() {
        let words =
            "--cpu zen4 --swarm 9 --jobs 2 --windows=9 -o x -oy --kernel debian-12 --format json";
        let kept = words_of_host(words.split(' ').map(str::to_owned));
        assert_eq!(kept.join(" "), "--cpu zen4 --kernel debian-12");
    }

    #[test]
    fn a_search_that_draws_has_a_function_where_it_is_posted_and_so_do_its_findings() {
        let host_of = |words: &str| {
            let words: Vec<String> = words.split(' ').map(str::to_owned).collect();
            let drawn = Options::of_words(&words)?.host_of_swarm()?;
            let words = with_function(words, &drawn);
            let repeated = Options::of_words(&words)?.host_for(&Mix::default())?;
            assert_eq!(drawn.has_pulse, repeated.has_pulse, "{words:?}");
            anyhow::Ok(drawn.has_pulse)
        };
        for (words, has) in [
            ("--cpu zen4", true),
            ("--cpu sapphire-rapids", true),
            ("--cpu zen4 --pulse", true),
            ("--cpu zen4 --iommu off", false),
        ] {
            assert_eq!(host_of(words).expect("a host"), has, "{words}");
        }
    }

    #[test]
    fn times_and_parts_are_refused_with_what_would_do() {
        for (text, seconds) in [("30s", 30), ("5min", 300), ("2h", 7200)] {
            assert_eq!(parse_time(text), Ok(Duration::from_secs(seconds)));
        }
        for text in ["", "5", "min", "-1s", "1.5h", "99999999999999999999h"] {
            assert!(parse_time(text).is_err_and(|why| why.contains("5min")), "{text}");
        }
        assert_eq!(parse_shard("3/4"), Ok((3, 4)));
        for text in ["", "4/4", "1", "a/b", "0/0"] {
            assert!(parse_shard(text).is_err_and(|why| why.contains("0/4")), "{text}");
        }
    }
}
