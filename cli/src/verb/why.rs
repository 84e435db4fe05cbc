//! `avicenna why`: which setting keeps AVIC or APICv from a virtual machine, and the line that
//! changes it.

use super::format::MonitoringFormat;
use super::lake;
use super::source::{self, Source};
use crate::terminal::{Colour, Paint, clean, hanging};
use anyhow::bail;
use facts::{Facts, watch};
use rules::Answer;
use rules::capability;
use rules::host::RunningVm;
use rules::why::{self, Machine, Why};
use std::process::ExitCode;
use trace::inhibit::Numbering;

#[derive(clap::Args)]
#[command(
    after_help = "Exit status: 0 every machine uses it, 1 one does not, 2 usage, 3 could not tell."
)]
pub struct Arguments {
    /// A machine's name, process number, VMID, UUID, libvirt's number, pod or systemd scope; all of
    /// them if not given
    #[arg(value_name = "VM|PID")]
    machine: Option<String>,
    /// Every running machine
    #[arg(long, conflicts_with = "machine")]
    all: bool,
    /// Watch the machines for so long through tracefs (root; an instance of its own, removed
    /// afterwards)
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    watch: Option<f64>,
    #[command(flatten)]
    source: Source,
    /// How to print; the form of json is docs/schema/why-1.json
    #[arg(long, value_enum, default_value_t)]
    format: MonitoringFormat,
    /// Write there instead of to standard output: the whole answer, or none
    #[arg(short, long, value_name = "FILE")]
    output: Option<std::path::PathBuf>,
    /// One line for each machine
    #[arg(short, long)]
    quiet: bool,
}

pub fn seconds(text: &str) -> Result<f64, String> {
    let value: f64 = text.parse().map_err(|_| "expected a number of seconds".to_string())?;
    if (0.1..=3600.0).contains(&value) {
        Ok(value)
    } else {
        Err("expected 0.1 to 3600 seconds".into())
    }
}

pub fn run(arguments: Arguments) -> anyhow::Result<ExitCode> {
    let facts = arguments.source.facts()?;
    let machines = chosen(&facts, arguments.machine.as_deref())?;
    let trace = match (arguments.watch, &arguments.source.root) {
        (Some(_), Some(_)) => {
            bail!("a recorded host cannot be watched; leave out --watch or --root")
        }
        (Some(seconds), None) => {
            remark!("watching {} machines for {seconds} s", machines.len());
            watch::record(seconds)
        }
        (None, Some(_)) => {
            Err("cannot see the running state, because the host is a recorded one".into())
        }
        (None, None) => {
            Err("did not look at the running state; --watch SECONDS does, through tracefs".into())
        }
    };
    let numbering = numbering(&facts);
    let host = capability::check(&facts);
    let why = why::why(&facts, &host, &machines, |vm| {
        let trace = trace.as_ref().map_err(|why: &String| cannot_see(why))?;
        Ok(trace.observe(&watch::threads_of(vm.pid), &numbering))
    });
    let answer = match arguments.format {
        MonitoringFormat::Json => serde_json::to_string_pretty(&why)? + "\n",
        MonitoringFormat::Prometheus => report::why::prometheus(&why, lake::now_us() / 1_000_000),
        MonitoringFormat::Nagios => report::why::nagios(&why),
        MonitoringFormat::Text => {
            text(&why, facts.incomplete.is_some(), arguments.quiet, Paint::for_stdout())
        }
    };
    arguments.format.put(&answer, arguments.output.as_deref())?;
    Ok(source::status(&facts, why.verdict()))
}

pub fn cannot_see(why: &str) -> String {
    if why.starts_with("cannot") || why.starts_with("did not") {
        why.into()
    } else {
        format!("cannot see the running state, because {why}")
    }
}

pub fn chosen<'f>(facts: &'f Facts, wanted: Option<&str>) -> anyhow::Result<Vec<&'f RunningVm>> {
    let all = match (facts.vms.get(), &facts.incomplete) {
        (Some(all), _) => all,
        (None, Some(why)) => {
            bail!("{}: {why}: running virtual machines may be missing", facts.origin)
        }
        (None, None) => bail!("the running virtual machines were not recorded"),
    };
    let matches = |vm: &&RunningVm| wanted.is_none_or(|wanted| why::is_called(vm, wanted));
    let found: Vec<&RunningVm> = all.iter().filter(matches).collect();
    if found.is_empty()
        && let Some(wanted) = wanted
    {
        let known: Vec<String> = all.iter().map(name).collect();
        if std::path::Path::new(wanted).exists() {
            bail!("{wanted} is a file, not a virtual machine: avicenna why --root {wanted}");
        }
        bail!(
            "no running virtual machine is called {wanted}; running: {}",
            if known.is_empty() { "none".into() } else { known.join(", ") }
        );
    }
    Ok(found)
}

fn name(vm: &RunningVm) -> String {
    format!("{} ({})", vm.name.as_deref().unwrap_or("-"), vm.pid)
}

/// The kernel's own names come before the version's table.
pub fn numbering(facts: &Facts) -> Numbering {
    let named = facts
        .inhibit_names
        .get()
        .and_then(|names| Numbering::from_names(names.values().map(String::as_str)));
    let of_kernel = || Numbering::of_kernel(&facts.kernel.get()?.release);
    named.or_else(of_kernel).unwrap_or_else(Numbering::assumed)
}

fn text(why: &Why, is_incomplete: bool, quiet: bool, paint: Paint) -> String {
    let mut text = String::new();
    if why.machines.is_empty() {
        text.push_str(match is_incomplete {
            true => "No virtual machine is in what could be read.\n",
            false => "No virtual machine is running here.\n",
        });
    }
    for machine in &why.machines {
        if quiet {
            short(&mut text, why, machine, paint);
        } else {
            one(&mut text, why, machine, paint);
        }
    }
    text
}

/// One line: name, answer, reason, and the change where there is one.
fn short(text: &mut String, why: &Why, machine: &Machine, paint: Paint) {
    let active = &machine.active;
    let fix = active.fix.as_ref().map_or(String::new(), |fix| format!("; change: {}", fix.line));
    let feature = why.feature;
    let line = format!("{}: {feature} {}: {}{fix}", active.subject, active.answer, active.reason);
    text.push_str(&paint.text(colour(active.answer), hanging("", 0, &line).trim_end()));
    text.push('\n');
}

fn colour(answer: Answer) -> Colour {
    match answer {
        Answer::Yes => Colour::Green,
        Answer::No => Colour::Red,
        Answer::Unknown => Colour::Yellow,
    }
}

fn one(text: &mut String, why: &Why, machine: &Machine, paint: Paint) {
    let title = format!(
        "{} (pid {}, {})",
        clean(&machine.active.subject),
        machine.pid,
        machine.vmm.unwrap_or("VMM not understood")
    );
    text.push_str(&paint.text(Colour::Bold, &title));
    text.push('\n');
    let row = |text: &mut String, answer: Answer, statement: &str, reason: &str| {
        let colour = colour(answer);
        let lines = hanging("", 11, &format!("{statement}: {reason}"));
        text.push_str(&lines.replacen(
            &" ".repeat(11),
            &paint.text(colour, &format!("  {:8} ", answer.to_string())),
            1,
        ));
    };
    row(text, machine.active.answer, &format!("{} active", why.feature), &machine.active.reason);
    // What is said of each function need not be said of all.
    if let Some(devices) = machine.devices.as_ref().filter(|_| machine.functions.is_empty()) {
        row(text, devices.answer, "device interrupts posted", &devices.reason);
    }
    for function in &machine.functions {
        let posted = &function.posted;
        row(text, posted.answer, &format!("{} posted", function.address), &posted.reason);
        if let Some(fix) = &posted.fix {
            text.push_str(&hanging(
                "    change",
                14,
                &format!("{}  (needs: {})", fix.line, fix.needs),
            ));
        }
    }
    for cause in machine.causes.iter().filter(|cause| cause.inhibit.duration.is_lasting()) {
        let inhibit = &cause.inhibit;
        let certainty = format!("{:?}", inhibit.certainty).to_lowercase();
        text.push_str(&hanging(
            "    inhibit",
            14,
            &format!("{} {}, {certainty}: {}", inhibit.reason, inhibit.duration, inhibit.because),
        ));
        match &cause.fix {
            Some(fix) => text.push_str(&hanging(
                "    change",
                14,
                &format!("{}  (needs: {})", fix.line, fix.needs),
            )),
            None => text.push_str(&hanging("    change", 14, "none that this VMM offers")),
        }
    }
    if let Some(fix) = machine
        .active
        .fix
        .as_ref()
        .filter(|fix| !machine.causes.iter().any(|cause| cause.fix.as_ref() == Some(fix)))
    {
        text.push_str(&hanging("    host", 14, &format!("{}  (needs: {})", fix.line, fix.needs)));
    }
    for evidence in
        machine.active.evidence.iter().filter(|evidence| !evidence.what.starts_with("predicted"))
    {
        text.push_str(&hanging(
            "    seen",
            14,
            &format!("{} at {}: {}", evidence.what, evidence.place, evidence.value),
        ));
    }
    for reason in &machine.unseen {
        text.push_str(&hanging("    unseen", 14, reason));
    }
}
