//! Exits of the running host: the best method that works here, polled in intervals.

use analysis::sampled::{collect, context};
use anyhow::Context as _;
use capture::Origin;
use capture::live::Rung;
#[cfg(feature = "bpf")]
use capture::live::bpf::{Bpf, KVM, Offsets};
use capture::live::histogram::Histogram;
use capture::sums::{Interval, RowKey, Sums};
use profile::sampled::Sampled;
use profile::{Profile, Selection, Summary};
use std::collections::BTreeMap;
use std::path::Path;
use std::time::Instant;

/// What is watched.
#[derive(clap::Args)]
#[group(multiple = false)]
pub struct Whom {
    /// Only the virtual machine with this process
    #[arg(long)]
    pub pid: Option<u32>,
    /// Only the virtual machine of this name (as in `-name guest=NAME`) or process
    #[arg(long)]
    pub vm: Option<String>,
    /// Every virtual machine of the host [default]
    #[arg(long)]
    pub all: bool,
}

impl Whom {
    pub fn process(&self) -> anyhow::Result<Option<u32>> {
        let process = match (&self.vm, self.pid) {
            (None, pid) => pid,
            (Some(vm), _) => match vm.parse::<u32>() {
                Ok(process) => Some(process),
                Err(_) => Some(process_of(vm)?),
            },
        };
        if let Some(process) = process {
            let is_there = Path::new("/proc").join(process.to_string()).exists();
            anyhow::ensure!(is_there, "there is no process {process}");
        }
        Ok(process)
    }
}

/// The process whose command line names a guest so.
fn process_of(vm: &str) -> anyhow::Result<u32> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir("/proc")?.flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse::<u32>().ok()) else {
            continue;
        };
        let line = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
        let line = String::from_utf8_lossy(&line);
        let words: Vec<&str> = line.split('\0').collect();
        let is_named = words.windows(2).any(|pair| {
            let name = pair[1].split(',').next().unwrap_or_default();
            pair[0] == "-name" && name.strip_prefix("guest=").unwrap_or(name) == vm
        });
        if is_named {
            found.push(pid);
        }
    }
    match found.as_slice() {
        [pid] => Ok(*pid),
        [] => anyhow::bail!("no process has -name {vm}; give its --pid"),
        many => anyhow::bail!("{} processes have -name {vm}: {many:?}; give a --pid", many.len()),
    }
}

/// A refusal with the command that grants what it lacks, which stands last to be copied.
pub fn with_remedy(rung: Rung, error: &anyhow::Error) -> anyhow::Error {
    let program = std::env::current_exe().map(|path| path.display().to_string());
    let remedy = rung.remedy(&program.unwrap_or_else(|_| "$(command -v avicenna)".into()));
    anyhow::anyhow!("{error:#}; {remedy}")
}

/// What is known of this host.
pub fn origin(rung: Rung) -> Origin {
    let text = |path: &str| std::fs::read_to_string(path).ok().map(|text| text.trim().to_owned());
    let cpuinfo = text("/proc/cpuinfo").unwrap_or_default();
    let field = |name: &str| {
        let line = cpuinfo.lines().find(|line| line.starts_with(name))?;
        Some(line.split_once(':')?.1.trim().to_owned())
    };
    Origin {
        format: rung.name().into(),
        kernel_release: text("/proc/sys/kernel/osrelease"),
        host_name: text("/proc/sys/kernel/hostname"),
        cpu: field("vendor_id"),
        cpu_description: field("model name"),
        recorder: Some(concat!("avicenna ", env!("CARGO_PKG_VERSION")).into()),
        events: match rung {
            Rung::Histogram => vec!["kvm_entry".into(), "kvm_exit".into()],
            _ => ["kvm_entry", "kvm_exit", "kvm_msr"].map(str::to_owned).to_vec(),
        },
        warnings: rung.caveat().map(str::to_owned).into_iter().collect(),
        ..Origin::default()
    }
}

/// Who sums up in the kernel.
enum Source {
    #[cfg(feature = "bpf")]
    Bpf(Box<Bpf>),
    Histogram(Histogram),
}

impl Source {
    fn start(rung: Rung, process: Option<u32>) -> anyhow::Result<Self> {
        let directory = tracefs::Directory::find()?;
        match rung {
            #[cfg(feature = "bpf")]
            Rung::Bpf => {
                let offsets = Offsets::of_kernel(&directory)?;
                Ok(Self::Bpf(Box::new(Bpf::load(&offsets, process, &KVM)?)))
            }
            #[cfg(not(feature = "bpf"))]
            Rung::Bpf => anyhow::bail!("this program was built without its feature bpf"),
            _ => Ok(Self::Histogram(Histogram::start(&directory, process)?)),
        }
    }

    fn rows(&mut self) -> Result<BTreeMap<RowKey, Sums>, capture::Error> {
        match self {
            #[cfg(feature = "bpf")]
            Self::Bpf(bpf) => bpf.rows(),
            Self::Histogram(histogram) => histogram.rows(),
        }
    }
}

/// Sums of the kernel, and what they were at the last poll.
pub struct Watch {
    source: Source,
    pub rung: Rung,
    started: Instant,
    earlier: BTreeMap<RowKey, Sums>,
}

impl Watch {
    /// Starts on one of the rungs that sum up, or says what it needs.
    pub fn start(rung: Rung, process: Option<u32>) -> anyhow::Result<Self> {
        let source = Source::start(rung, process)
            .with_context(|| format!("exits cannot be {}", rung.name()))?;
        Ok(Self { source, rung, started: Instant::now(), earlier: BTreeMap::new() })
    }

    /// What was added since the last poll.
    pub fn poll(&mut self) -> anyhow::Result<Interval> {
        let rows = self.source.rows()?;
        let end_ns = self.started.elapsed().as_nanos() as u64;
        let nothing = Sums::default();
        let added = rows
            .iter()
            .map(|(key, sums)| (*key, sums.since(self.earlier.get(key).unwrap_or(&nothing))))
            .filter(|row| row.1.count > 0)
            .collect();
        self.earlier = rows;
        Ok(Interval { end_ns, rows: added })
    }
}

/// What there was in an interval, of all machines or of one process's.
pub fn summary_of(rung: Rung, interval: &Interval, start_ns: u64, process: Option<u32>) -> Summary {
    let profile = profile_from(interval, start_ns);
    let mut processes: Vec<u32> = interval.rows.iter().map(|row| row.0.process).collect();
    processes.sort_unstable();
    processes.dedup();
    let about = context(&origin(rung), &names_of(processes));
    let selection = Selection { by_reason: true, process, ..Selection::default() };
    Summary::new(&profile, &about, &selection)
}

/// The exits of an interval.
pub fn profile_of(interval: &Interval) -> Profile {
    profile_from(interval, 0)
}

fn profile_from(interval: &Interval, start_ns: u64) -> Profile {
    let mut sampled = Sampled::new(start_ns);
    collect(&mut sampled, interval);
    sampled.profile()
}

/// Names of the processes that appear, as the host has them now.
pub fn names_of(processes: impl IntoIterator<Item = u32>) -> Vec<(u32, String)> {
    let name = |pid: u32| std::fs::read_to_string(format!("/proc/{pid}/comm")).ok();
    processes.into_iter().filter_map(|pid| Some((pid, name(pid)?.trim().to_owned()))).collect()
}
