//! Everything known of a host and its virtual machines, on one page that an operator hands on.

use crate::document::{Document, Section, Series, Severity};
use crate::exits::{self, Report as Exits, compare};
use crate::grid::{Grid, Value};
use crate::result::{Outcome, Trial};
use crate::why::name;
use profile::compare::Comparison;
use rules::capability::Report as Check;
use rules::finding::{Answer, Finding, Fix};
use rules::why::{Machine, Why};

/// A host, or what is known of one.
#[derive(Clone, Debug)]
pub struct Host {
    /// As the operator calls it.
    pub name: String,
    /// When it was so, as text.
    pub time: Option<String>,
    /// What it can do and does.
    pub check: Check,
    /// What becomes of its virtual machines' interrupts.
    pub why: Option<Why>,
    /// Why more may have been there than could be read.
    pub incomplete: Option<String>,
}

/// What there is to report.
#[derive(Clone, Debug, Default)]
pub struct Known {
    /// In the order in which they were given.
    pub hosts: Vec<Host>,
    /// Recordings of exits.
    pub exits: Vec<Exits>,
    /// The first recording against each of the others.
    pub comparisons: Vec<Comparison>,
    /// Figures of experiments and of the lab.
    pub trials: Vec<Trial>,
    /// What experiments found.
    pub outcomes: Vec<Outcome>,
    /// What could not be read, and why.
    pub unread: Vec<String>,
}

impl Known {
    /// What hosts and machines answer together: what is not known is never good.
    pub fn verdict(&self) -> Answer {
        let host = |host: &Host| {
            let why = host.why.as_ref().map_or(Answer::Yes, Why::verdict);
            let answer = host.check.verdict().and(why);
            if host.incomplete.is_some() { Answer::Unknown } else { answer }
        };
        let unread = if self.unread.is_empty() { Answer::Yes } else { Answer::Unknown };
        self.hosts.iter().map(host).fold(unread, Answer::and)
    }

    /// The page.
    pub fn document(&self) -> Document {
        let names: Vec<&str> = self
            .hosts
            .iter()
            .map(|host| host.name.as_str())
            .chain(self.exits.iter().map(|exits| exits.file.as_str()))
            .collect();
        let mut document = Document::new(match names.as_slice() {
            [] => "Interrupt virtualization".to_owned(),
            [first] => format!("Interrupt virtualization of {first}"),
            [first, others @ ..] => {
                format!("Interrupt virtualization of {first} and {} more", others.len())
            }
        });
        document.fact("made by", Some(crate::document::TOOL));
        for host in &self.hosts {
            let about =
                if self.hosts.len() > 1 { format!(" of {}", host.name) } else { String::new() };
            document.fact(&format!("read{about}"), Some(host.check.origin.as_str()));
            document.fact(&format!("time{about}"), host.time.as_deref());
            document.fact(&format!("kernel{about}"), host.check.kernel.as_deref());
            for processor in &host.check.processors {
                document.fact(&format!("processors{about}"), Some(processor.as_str()));
            }
            document.add(answers(host, &about));
            document.add(causes(host, &about));
            for machine in host.why.iter().flat_map(|why| &why.machines) {
                document.add(virtual_machine(machine, host, &about));
            }
        }
        self.exits.iter().for_each(|report| document.add(recording(report)));
        self.comparisons.iter().for_each(|comparison| document.add(before_and_after(comparison)));
        document.add(experiments(&self.outcomes, &self.trials));
        let mut unread = Section::new("What could not be read");
        self.unread.iter().for_each(|line| unread.say(Severity::Unknown, line));
        document.add(unread);
        document
    }
}

fn fix_line(fix: Option<&Fix>) -> Option<String> {
    fix.map(|fix| format!("{}  (needs: {})", fix.line, fix.needs))
}

/// The three sentences of `check`, and what is asked of a host in the end.
fn answers(host: &Host, about: &str) -> Section {
    let summary = &host.check.summary;
    let mut section = Section::new(format!("Is it on{about}?"));
    section.say(summary.hardware.answer.into(), &summary.hardware.text);
    section.say(summary.state.answer.into(), &summary.state.text);
    if let Some(change) = &summary.change {
        for fix in &change.fixes {
            section.say_with_fix(Severity::Note, "what would change that", fix_line(Some(fix)));
        }
    }
    for row in &host.check.answers {
        let text = format!("{}: {}", row.statement, row.reason);
        section.say(row.answer.into(), text);
    }
    if let Some(why) = &host.incomplete {
        section.say(Severity::Unknown, format!("{why}; what it does not show may be there"));
    }
    section
}

/// The rows that are not as they should be and follow from no other.
fn causes(host: &Host, about: &str) -> Section {
    let mut section = Section::new(format!("What keeps it from being good{about}"));
    let is_cause = |row: &&Finding| {
        row.follows.is_none() && (row.is_problem() || row.answer == Answer::Unknown)
    };
    let mut grid =
        Grid::new("Rows of check", &["answer", "row", "subject", "why", "change", "needs"]);
    for row in host.check.findings.iter().filter(is_cause) {
        let fix = row.fix.as_ref().filter(|_| row.answer == Answer::No);
        grid.rows.push(vec![
            Value::text(row.answer.to_string()),
            Value::text(&row.statement),
            Value::text(&row.subject),
            Value::text(&row.reason),
            fix.map_or(Value::Missing, |fix| Value::text(&fix.line)),
            fix.map_or(Value::Missing, |fix| Value::text(fix.needs.to_string())),
        ]);
    }
    section.show(grid);
    section
}

fn virtual_machine(machine: &Machine, host: &Host, about: &str) -> Section {
    let feature = host.why.as_ref().map_or("AVIC or APICv", |why| why.feature);
    let mut section = Section::new(format!("Virtual machine {}{about}", name(machine)));
    let vmm = machine.vmm.unwrap_or("a program that is not understood");
    section.say(Severity::Note, format!("process {}, run by {vmm}", machine.pid));
    let active = &machine.active;
    section.say_with_fix(
        active.answer.into(),
        format!("{feature} active: {}", active.reason),
        fix_line(active.fix.as_ref().filter(|_| active.answer != Answer::Yes)),
    );
    if let Some(devices) = &machine.devices {
        let text = format!("interrupts of its devices posted: {}", devices.reason);
        section.say(devices.answer.into(), text);
    }
    let mut functions = Grid::new("Functions", &["function", "posted", "why", "change"]);
    for function in &machine.functions {
        let posted = &function.posted;
        functions.rows.push(vec![
            Value::text(&function.address),
            Value::text(posted.answer.to_string()),
            Value::text(&posted.reason),
            posted.fix.as_ref().map_or(Value::Missing, |fix| Value::text(&fix.line)),
        ]);
    }
    section.show(functions);
    let columns = ["reason", "certainty", "how long", "because", "change", "needs"];
    let mut inhibits = Grid::new("Inhibits that its configuration causes", &columns);
    for cause in &machine.causes {
        let inhibit = &cause.inhibit;
        inhibits.rows.push(vec![
            Value::text(inhibit.reason.name()),
            Value::text(format!("{:?}", inhibit.certainty).to_lowercase()),
            Value::text(inhibit.duration.to_string()),
            Value::text(&inhibit.because),
            cause.fix.as_ref().map_or(Value::Missing, |fix| Value::text(&fix.line)),
            cause.fix.as_ref().map_or(Value::Missing, |fix| Value::text(fix.needs.to_string())),
        ]);
    }
    section.show(inhibits);
    if let Some(seen) = &machine.observation {
        let title = format!("Inhibits seen ({}, {} changes)", seen.source, seen.changes);
        let mut history = Grid::new(title, &["reason", "seconds", "of_time_percent"]);
        let share = |seconds: f64| Value::Number(seconds / seen.seconds.max(1e-9) * 100.0, 1);
        for (reason, seconds) in &seen.reasons {
            let row = [Value::text(reason.name()), Value::Number(*seconds, 3), share(*seconds)];
            history.rows.push(row.into());
        }
        if let Some(active) = seen.active_seconds {
            let row = [Value::text("none: active"), Value::Number(active, 3), share(active)];
            history.rows.push(row.into());
        }
        section.show(history);
        let text = format!(
            "{} interrupts taken by the hardware, {} injected by software",
            seen.accelerated, seen.injected
        );
        section.say(Severity::Note, text);
    }
    machine.unseen.iter().for_each(|why| section.say(Severity::Unknown, why));
    section
}

fn recording(report: &Exits) -> Section {
    let mut section = Section::new(format!("VM exits in {}", report.file));
    section.say(Severity::Note, exits::facts(report).trim().replace('\n', "; "));
    if let Some(answer) = exits::answer(&report.summary) {
        section.say(Severity::Note, answer);
    }
    let warnings = report.origin.warnings.iter().chain(&report.summary.warnings);
    warnings.for_each(|warning| section.say(Severity::Warning, warning));
    let timeline = &report.summary.timeline;
    section.draw(Series {
        title: "Exits of each vCPU".into(),
        unit: "exits per second".into(),
        starts: timeline.starts.clone(),
        lines: timeline.series.clone(),
    });
    report.grids().into_iter().for_each(|grid| section.show(grid));
    section
}

fn before_and_after(comparison: &Comparison) -> Section {
    let mut section = Section::new("Exits before and after");
    section.say(Severity::Note, compare::answer(comparison));
    section.show(compare::grid(comparison));
    section
}

fn experiments(outcomes: &[Outcome], trials: &[Trial]) -> Section {
    let mut section = Section::new("Experiments");
    let columns = [
        "experiment",
        "workload",
        "metric",
        "verdict",
        "effect_percent",
        "low_percent",
        "high_percent",
        "blocks",
        "voids",
    ];
    let mut grid = Grid::new("What was found", &columns);
    let percent =
        |value: Option<f64>| value.map_or(Value::Missing, |value| Value::Number(value, 2));
    for outcome in outcomes {
        grid.rows.push(vec![
            Value::text(&outcome.experiment),
            Value::text(&outcome.workload),
            Value::text(&outcome.metric),
            Value::text(&outcome.verdict),
            percent(outcome.effect_percent),
            percent(outcome.interval_percent.map(|interval| interval.0)),
            percent(outcome.interval_percent.map(|interval| interval.1)),
            Value::Count(outcome.blocks),
            Value::Count(outcome.voids),
        ]);
    }
    section.show(grid);
    let columns = ["experiment", "workload", "arm", "block", "metric", "value", "unit", "void"];
    let mut grid = Grid::new("Figures", &columns);
    for trial in trials {
        grid.rows.push(vec![
            Value::text(&trial.experiment),
            Value::text(&trial.workload),
            Value::text(&trial.arm),
            Value::Count(trial.block),
            Value::text(&trial.metric),
            trial.value.map_or(Value::Missing, |value| Value::Number(value, 3)),
            Value::text(trial.unit.as_deref().unwrap_or_default()),
            Value::text(trial.void.as_deref().unwrap_or_default()),
        ]);
    }
    section.show(grid);
    section
}
