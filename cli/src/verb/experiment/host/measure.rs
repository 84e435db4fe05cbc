//! What a trial on a host saw: processors' time, switches, interrupts, exits, and what `why` says.

use super::options::Options;
use super::said::Said;
use ::experiment::place::{Exits, Failure, Seen};
use facts::Facts;
use reading::{RunningVm, Vendor};
use rules::Answer;
use rules::capability;
use rules::why;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};
use trace::exit_reason::Isa;

/// How long the host's load is looked at.
const GLANCE: Duration = Duration::from_millis(500);
/// Fields of the first line of /proc/stat. [LINUX "Documentation/filesystems/proc.rst"]
const TIMES: [&str; 10] =
    ["user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal", "guest", "guest_nice"];

/// Processors whose counters of heat are read.
const MOST_PROCESSORS: usize = 4096;

/// Counters of the host at one moment.
#[derive(Clone, Debug, Default)]
struct Counters {
    times: Vec<u64>,
    switches: u64,
    interrupts: u64,
    posted: u64,
    woken: u64,
    throttled: u64,
}

/// How often processors were slowed for heat since the host started, where the kernel counts it
/// (Intel's processors). [LINUX "arch/x86/kernel/cpu/mce/therm_throt.c"]
fn throttled(options: &Options) -> u64 {
    let processors = (0..MOST_PROCESSORS)
        .map(|cpu| options.file(&format!("sys/devices/system/cpu/cpu{cpu}")))
        .take_while(|folder| folder.exists());
    let counts = processors.flat_map(|folder| {
        ["core", "package"]
            .map(|what| folder.join(format!("thermal_throttle/{what}_throttle_count")))
    });
    counts.filter_map(|path| std::fs::read_to_string(path).ok()?.trim().parse::<u64>().ok()).sum()
}

fn counters(options: &Options) -> Result<Counters, Failure> {
    let stat = options.text("proc/stat");
    let stat = stat.map_err(|error| Failure::Failed(format!("/proc/stat: {error}")))?;
    let numbers = |name: &str| -> Vec<u64> {
        let line = stat.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        let words = line.unwrap_or_default().split_ascii_whitespace();
        words.map_while(|word| word.parse().ok()).collect()
    };
    let first = |name: &str| numbers(name).first().copied().unwrap_or(0);
    let rows = options.text("proc/interrupts").unwrap_or_default();
    let row = |name: &str| -> u64 {
        let line = rows.lines().find_map(|line| line.trim_start().strip_prefix(name)).unwrap_or("");
        line.split_ascii_whitespace().map_while(|word| word.parse::<u64>().ok()).sum()
    };
    Ok(Counters {
        times: numbers("cpu"),
        switches: first("ctxt"),
        interrupts: first("intr"),
        posted: row("PIN:"),
        woken: row("PIW:"),
        throttled: throttled(options),
    })
}

/// Percent of the time between two looks, by its parts.
fn shares(before: &Counters, after: &Counters) -> BTreeMap<String, f64> {
    let pairs = before.times.iter().zip(&after.times);
    let spent: Vec<u64> = pairs.map(|(one, other)| other.saturating_sub(*one)).collect();
    shares_of(&spent)
}

/// The same of what was spent, in the order of `/proc/stat`.
pub fn shares_of(spent: &[u64]) -> BTreeMap<String, f64> {
    let spent: Vec<f64> = spent.iter().map(|ticks| *ticks as f64).collect();
    // Time of guests is in user and nice already.
    let all: f64 = spent.iter().take(8).sum();
    let share = |value: f64| if all > 0.0 { value / all * 100.0 } else { 0.0 };
    let mut shares: BTreeMap<String, f64> =
        TIMES.iter().zip(&spent).map(|(name, value)| ((*name).to_owned(), share(*value))).collect();
    let waits = |index: usize| spent.get(index).copied().unwrap_or(0.0);
    shares.insert("busy".into(), share(all - waits(3) - waits(4)));
    shares
}

/// Busy percent of the host over a short while.
pub fn load(options: &Options) -> Result<f64, Failure> {
    let before = counters(options)?;
    std::thread::sleep(GLANCE);
    let shares = shares(&before, &counters(options)?);
    Ok(shares.get("busy").copied().unwrap_or(0.0))
}

/// From here to its end.
pub struct Window {
    before: Counters,
    began: Instant,
    /// None where tracefs cannot be had: then exits are not counted.
    tracing: Option<::lab::agent::tracing::Tracing>,
}

impl Window {
    pub fn open(options: &Options) -> Result<Self, Failure> {
        let tracing = match options.root {
            Some(_) => None,
            None => ::lab::agent::tracing::Tracing::start(true).ok(),
        };
        Ok(Self { before: counters(options)?, began: Instant::now(), tracing })
    }

    /// Removes what processes that were killed count with.
    pub fn abandon(options: &Options) {
        if options.root.is_none()
            && let Ok(directory) = tracefs::Directory::find()
        {
            directory.remove_abandoned();
        }
    }

    /// What there was; its output and what proves it come in later.
    pub fn close(self, options: &Options) -> Result<Seen, Failure> {
        let after = counters(options)?;
        let seconds = self.began.elapsed().as_secs_f64();
        let mut seen = Seen { cpu: shares(&self.before, &after), ..Seen::default() };
        for (name, before, after) in [
            ("context-switches", self.before.switches, after.switches),
            ("interrupts", self.before.interrupts, after.interrupts),
            ("posted", self.before.posted, after.posted),
            ("woken", self.before.woken, after.woken),
        ] {
            seen.counters.insert(name.into(), after.saturating_sub(before) as f64);
        }
        seen.counters.insert("seconds".into(), seconds);
        let hot = after.throttled.saturating_sub(self.before.throttled);
        if hot > 0 {
            let why = format!("processors were slowed for heat {hot} times during the trial");
            seen.disturbed = Some(why);
        }
        let points = self.tracing.and_then(|tracing| tracing.finish().ok());
        let Some(points) = points else { return Ok(seen) };
        if let Some(logged) = points.woken {
            seen.counters.insert("logged".into(), logged as f64);
        }
        let isa = match vendor(options) {
            Some(Vendor::Intel) => Isa::Vmx,
            _ => Isa::Svm,
        };
        for (code, count) in points.exits {
            let reason = ::lab::drive::counters::Reason { isa, code };
            let row = Exits { count, time_ns: None, is_wait: reason.is_wait() };
            seen.exits.insert(reason.name(), row);
        }
        Ok(seen)
    }
}

fn facts(options: &Options) -> Said<Facts> {
    match &options.root {
        None => Ok(facts::facts(&facts::live())),
        Some(root) => facts::recorded(root)
            .map(|inputs| facts::facts(&inputs))
            .map_err(|error| error.to_string()),
    }
}

fn is_called(vm: &RunningVm, name: &str) -> bool {
    // A machine that is reached by its API's socket has the path among its arguments.
    vm.name.as_deref() == Some(name) || vm.pid.to_string() == name
}

/// Whether a machine of this name is among the processes.
pub fn is_running(options: &Options, name: &str) -> bool {
    let facts = facts(options);
    facts.is_ok_and(|facts| {
        facts.vms.get().is_some_and(|vms| vms.iter().any(|vm| is_called(vm, name)))
    })
}

/// What `avicenna why` says of machines: name, answer, reason.
pub fn why(options: &Options, machines: &[String]) -> Said<Vec<(String, Answer, String)>> {
    let facts = facts(options)?;
    let all = facts.vms.get().ok_or("running virtual machines cannot be seen")?;
    let mut found: Vec<(&String, &RunningVm)> = Vec::new();
    for name in machines {
        found.extend(all.iter().find(|vm| is_called(vm, name)).map(|vm| (name, vm)));
    }
    let vms: Vec<&RunningVm> = found.iter().map(|(_, vm)| *vm).collect();
    let report = capability::check(&facts);
    let unseen = "did not look at the running state".to_owned();
    let answers = why::why(&facts, &report, &vms, |_| Err(unseen.clone()));
    let rows = found.iter().zip(&answers.machines);
    Ok(rows
        .map(|((name, _), machine)| {
            ((*name).clone(), machine.active.answer, machine.active.reason.to_string())
        })
        .collect())
}

/// Whose processors these are.
pub fn vendor(options: &Options) -> Option<Vendor> {
    let text = options.text("proc/cpuinfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("vendor_id"))?;
    match line.trim_start_matches(|c: char| c.is_whitespace() || c == ':') {
        "AuthenticAMD" => Some(Vendor::Amd),
        "HygonGenuine" => Some(Vendor::Hygon),
        "GenuineIntel" => Some(Vendor::Intel),
        _ => None,
    }
}

/// What results rest on.
pub fn provenance(options: &Options) -> BTreeMap<String, String> {
    let text = |path: &str| options.text(path).ok();
    let model = text("proc/cpuinfo").and_then(|all| {
        let line = all.lines().find_map(|line| line.strip_prefix("model name"))?.to_owned();
        Some(line.trim_start_matches(|c: char| c.is_whitespace() || c == ':').to_owned())
    });
    let microcode = text("sys/devices/system/cpu/cpu0/microcode/version");
    [
        ("processor", model),
        ("microcode", microcode),
        ("kernel", text("proc/sys/kernel/osrelease")),
        ("kernel command line", text("proc/cmdline")),
        ("SMT", text("sys/devices/system/cpu/smt/control")),
        ("governor", text("sys/devices/system/cpu/cpu0/cpufreq/scaling_governor")),
        ("transparent huge pages", text("sys/kernel/mm/transparent_hugepage/enabled")),
        ("virtual machines", Some(options.vms.join(", "))),
    ]
    .into_iter()
    .filter_map(|(name, value)| Some((name.to_owned(), value?.trim().to_owned())))
    .filter(|(_, value)| !value.is_empty())
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trial_in_which_processors_were_slowed_for_heat_is_disturbed() {
        let root = tempfile::tempdir().expect("a folder");
        let options = Options { root: Some(root.path().to_owned()), ..Options::default() };
        let put = |path: &str, text: &str| {
            let path = root.path().join(path);
            std::fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
            std::fs::write(path, text).expect("a file");
        };
        let count = |cpu: u32, what: &str, text: &str| {
            put(&format!("sys/devices/system/cpu/cpu{cpu}/thermal_throttle/{what}"), text);
        };
        put("proc/stat", "cpu 1 0 0 1\n");
        put("sys/devices/system/cpu/cpu1/online", "1\n");
        count(0, "core_throttle_count", "7\n");
        let disturbed = |then: &dyn Fn()| {
            let window = Window::open(&options).expect("a window");
            then();
            window.close(&options).expect("seen").disturbed
        };
        assert_eq!(disturbed(&|| ()), None, "what was before the trial does not matter");
        let why = disturbed(&|| {
            count(0, "core_throttle_count", "9\n");
            count(1, "package_throttle_count", "1\n");
        });
        assert!(why.expect("disturbed").contains("slowed for heat 3 times"));
    }

    #[test]
    fn shares_of_time_are_those_that_sar_prints() {
        let counters = |times: &[u64]| Counters { times: times.to_vec(), ..Counters::default() };
        let before = counters(&[100, 0, 50, 800, 10, 0, 0, 0, 40, 0]);
        let after = counters(&[150, 0, 70, 810, 20, 0, 0, 10, 80, 0]);
        let shares = shares(&before, &after);
        let expected =
            [("user", 50.0), ("system", 20.0), ("iowait", 10.0), ("steal", 10.0), ("busy", 80.0)];
        for (name, value) in expected {
            assert!((shares[name] - value).abs() < 1e-9, "{name} {shares:?}");
        }
    }
}
