//! What a plan may not say though each of its values is well formed.

use super::fault::nearest;
use super::keys;
use super::table::Reader;
use super::{Factor, Metric, Plan, Proof, Published, Redo, Setting, Source};
use std::collections::{BTreeMap, BTreeSet};

/// What a host can be prepared in.
pub(super) const PREPARATIONS: [&str; 4] = ["governor", "turbo", "thp", "irqbalance"];
/// Beyond, nobody waits for the end.
const MOST_BLOCKS: usize = 10_000;
const MOST_REPEATS: usize = 1000;

/// Where the values of a table stand.
#[derive(Clone, Debug, Default)]
pub(super) struct LinesOf {
    pub(super) line: usize,
    pub(super) keys: BTreeMap<String, usize>,
}

impl LinesOf {
    fn of(&self, key: &str) -> usize {
        self.keys.get(key).copied().unwrap_or(self.line)
    }
}

/// Where everything stands.
#[derive(Clone, Debug, Default)]
pub(super) struct Lines {
    pub(super) root: usize,
    pub(super) design: LinesOf,
    pub(super) factors: Vec<LinesOf>,
    pub(super) metrics: Vec<LinesOf>,
    pub(super) proofs: Vec<LinesOf>,
    pub(super) published: Vec<LinesOf>,
}

pub(super) fn check(plan: &Plan, lines: &Lines, reader: &mut Reader<'_>) {
    names(plan, lines, reader);
    for (factor, line) in plan.factors.iter().zip(&lines.factors) {
        of_factor(plan, factor, line, reader);
    }
    if !compared(plan, lines, reader) {
        return;
    }
    design(plan, &lines.design, reader);
    for (metric, line) in plan.metrics.iter().zip(&lines.metrics) {
        of_metric(plan, metric, line, reader);
    }
    for (proof, line) in plan.proofs.iter().zip(&lines.proofs) {
        of_proof(plan, proof, line, reader);
    }
    for (one, line) in plan.published.iter().zip(&lines.published) {
        of_published(plan, one, line, reader);
    }
    host(plan, lines, reader);
}

/// Names that stand for two things.
fn names(plan: &Plan, lines: &Lines, reader: &mut Reader<'_>) {
    let mut twice = |what: &str, names: Vec<&String>, lines: &[LinesOf]| {
        let mut seen = BTreeSet::new();
        for (name, line) in names.into_iter().zip(lines) {
            if !seen.insert(name) {
                let cause = format!("there are two {what}s called {name:?}");
                reader.fault(line.of("name"), cause, "call one of them something else");
            }
        }
    };
    twice("factor", plan.factors.iter().map(|one| &one.name).collect(), &lines.factors);
    twice("metric", plan.metrics.iter().map(|one| &one.name).collect(), &lines.metrics);
    if plan.metrics.is_empty() {
        reader.fault(lines.root, "the plan measures nothing", "add a [[metric]]");
    }
}

/// The cheapest unit that changes a kind of factor, and the levels that it can have, if they are a
/// matter of words.
fn rules(kind: &str) -> (Redo, Option<&'static [&'static str]>) {
    match kind {
        "feature" => (Redo::Module, Some(&["off", "on"])),
        "pit" => (Redo::Vm, Some(&["off", "reinject", "discard"])),
        "inhibit" => (Redo::Vm, Some(&["none", "auto-eoi", "block-irq", "apic-id", "apic-base"])),
        "irqchip" => (Redo::Vm, Some(&["split", "full"])),
        "apic" => (Redo::Vm, Some(&["xapic", "x2apic"])),
        "fence" => (Redo::Live, Some(&["off", "on"])),
        "guests" | "vcpus" => (Redo::Vm, None),
        "kernel" | "cpu" | "topology" => (Redo::Reboot, None),
        _ => (Redo::Live, None),
    }
}

fn of_factor(plan: &Plan, factor: &Factor, lines: &LinesOf, reader: &mut Reader<'_>) {
    let (least, known) = rules(&factor.kind);
    if factor.redo < least {
        let index = Redo::ALL.iter().position(|one| *one == least).unwrap_or(0);
        let cause =
            format!("{} changes {}, not {}", factor.name, least.words(), factor.redo.words());
        reader.fault(lines.of("redo"), cause, format!("write redo = {:?}", keys::REDO[index]));
    }
    let all = factor.levels.iter().chain(factor.lab_levels.iter().flatten());
    for level in all {
        if let Some(known) = known.filter(|known| !known.contains(&level.as_str())) {
            let cause = format!("{} has no level {level:?}", factor.kind);
            reader.fault(lines.of("levels"), cause, format!("known are {}", known.join(", ")));
        }
        let is_right = match factor.kind.as_str() {
            "guests" | "vcpus" | "message" => level.parse::<u64>().is_ok_and(|number| number > 0),
            "clock" => keys::is_clock(level),
            "topology" => keys::is_topology(level),
            _ => true,
        };
        if !is_right {
            let cause = format!("{} has the level {level:?}", factor.name);
            let remedy = match factor.kind.as_str() {
                "topology" => keys::topology_remedy(),
                _ => "its levels are whole numbers above 0".to_owned(),
            };
            reader.fault(lines.of("levels"), cause, remedy);
        }
    }
    for levels in std::iter::once(&factor.levels).chain(&factor.lab_levels) {
        let distinct: BTreeSet<&String> = levels.iter().collect();
        if levels.is_empty() || distinct.len() < levels.len() {
            let cause = format!("{} has no level, or one of them twice", factor.name);
            reader.fault(lines.of("levels"), cause, "give each level once");
        }
    }
    of_what(plan, factor, lines, reader);
}

/// The key `of`.
fn of_what(plan: &Plan, factor: &Factor, lines: &LinesOf, reader: &mut Reader<'_>) {
    let of = factor.of.as_deref();
    let needs = match factor.kind.as_str() {
        "feature" if !of.is_some_and(|of| keys::FEATURES.contains(&of)) => {
            Some(format!("of = one of {}", keys::FEATURES.join(", ")))
        }
        "parameter" if !of.is_some_and(is_parameter) => {
            Some("of = \"MODULE.PARAMETER\", such as \"kvm.halt_poll_ns\"".into())
        }
        _ => None,
    };
    if let Some(needs) = needs {
        let cause = format!("the {} {} does not say which one", factor.kind, factor.name);
        reader.fault(lines.of("of"), cause, format!("write {needs}"));
    }
    let vendor = match (factor.kind.as_str(), of) {
        ("feature", Some("avic" | "x2avic")) => Some("amd"),
        ("feature", Some("apicv" | "ipiv")) => Some("intel"),
        _ => None,
    };
    let host = plan.host.as_ref().and_then(|host| host.vendor.as_deref());
    if let (Some(needed), Some(host)) = (vendor, host)
        && needed != host
    {
        let cause = format!("{} is {needed}'s, and [host] says {host}", of.unwrap_or_default());
        reader.fault(lines.of("of"), cause, "one of the two has to change");
    }
}

fn is_parameter(text: &str) -> bool {
    let is_word = |word: &str| {
        !word.is_empty() && word.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
    };
    text.split_once('.').is_some_and(|(module, name)| is_word(module) && is_word(name))
}

fn compared(plan: &Plan, lines: &Lines, reader: &mut Reader<'_>) -> bool {
    let name = &plan.design.compare;
    let Some(index) = plan.factors.iter().position(|one| one.name == *name) else {
        let known: Vec<&str> = plan.factors.iter().map(|one| one.name.as_str()).collect();
        let remedy = match nearest(name, &known) {
            Some(near) => format!("did you mean {near}?"),
            None => format!("factors are {}", known.join(", ")),
        };
        reader.fault(lines.design.of("compare"), format!("no factor is called {name:?}"), remedy);
        return false;
    };
    let factor = &plan.factors[index];
    let counts = [Some(factor.levels.len()), factor.lab_levels.as_ref().map(Vec::len)];
    if counts.into_iter().flatten().any(|count| count != 2) {
        let cause = format!("{name} has {} levels", factor.levels.len());
        let remedy = "what is compared has two; run a plan for each pair";
        reader.fault(lines.factors[index].of("levels"), cause, remedy);
        return false;
    }
    true
}

fn design(plan: &Plan, lines: &LinesOf, reader: &mut Reader<'_>) {
    let design = &plan.design;
    let mut range = |key: &str, is_right: bool, found: String, right: &str| {
        if !is_right {
            reader.fault(lines.of(key), format!("{key} = {found}"), right);
        }
        is_right
    };
    let is_level = design.level > 0.0 && design.level < 1.0;
    let mut is_right = range("level", is_level, design.level.to_string(), "a chance such as 0.05");
    is_right &= range(
        "difference",
        design.difference >= 0.0,
        design.difference.to_string(),
        "a percentage such as 1",
    );
    let is_few = (1..=MOST_REPEATS).contains(&design.repeats);
    is_right &= range("repeats", is_few, design.repeats.to_string(), "at least 1, at most 1000");
    let is_few = (1..=MOST_BLOCKS).contains(&design.blocks);
    is_right &= range("blocks", is_few, design.blocks.to_string(), "at least 6, at most 10000");
    is_right &= range("voids", design.voids > 0, design.voids.to_string(), "at least 1");
    let rises = design.looks.windows(2).all(|pair| pair[0] < pair[1]);
    is_right &= range(
        "looks",
        rises && design.looks.last() == Some(&design.blocks),
        format!("{:?}", design.looks),
        &format!("rising numbers of blocks, the last being blocks = {}", design.blocks),
    );
    if is_right {
        enough(plan, lines, reader);
    }
}

/// A plan that cannot decide is none: its smallest p-value is above the level.
fn enough(plan: &Plan, lines: &LinesOf, reader: &mut Reader<'_>) {
    let design = &plan.design;
    // In the lab counts are exact; this is about hosts.
    if plan.host.as_ref().is_none_or(|host| host.cannot.is_some()) {
        return;
    }
    let questions = plan.questions(false).max(1);
    let least = plan.least_blocks(false, design.blocks);
    if design.blocks < least {
        let cause = format!(
            "{} blocks cannot decide {questions} metrics and cells at level {}",
            design.blocks, design.level
        );
        reader.fault(lines.of("blocks"), cause, format!("at least {least} blocks could"));
    }
}

fn of_metric(plan: &Plan, metric: &Metric, lines: &LinesOf, reader: &mut Reader<'_>) {
    within(plan, &metric.only, lines, reader);
    if metric.divide == 0.0 {
        reader.fault(lines.of("divide"), "divide = 0", "a number such as 1000");
    }
    match &metric.source {
        Source::Regex(pattern) => match regex::Regex::new(pattern) {
            Err(error) => {
                let text = error.to_string();
                let last = text.lines().last().unwrap_or_default().trim();
                let cause = format!("{pattern:?} is not a regular expression");
                reader.fault(lines.of("regex"), cause, last.trim_start_matches("error: "));
            }
            Ok(regex) if regex.captures_len() < 2 => {
                let cause = format!("{pattern:?} has no group");
                let remedy = "put the value in parentheses, such as \"latency: ([0-9.]+)\"";
                reader.fault(lines.of("regex"), cause, remedy);
            }
            Ok(_) => {}
        },
        Source::Json(path) if !path.starts_with('/') => {
            let cause = format!("{path:?} is not a path in JSON");
            reader.fault(lines.of("json"), cause, "it begins with /, such as \"/results/0/mean\"");
        }
        _ => {}
    }
}

/// Whether the levels that are asked for exist.
fn within(plan: &Plan, only: &Setting, lines: &LinesOf, reader: &mut Reader<'_>) {
    for (name, level) in only {
        let factor = plan.factors.iter().find(|one| one.name == *name);
        let Some(factor) = factor.filter(|one| one.name != plan.design.compare) else {
            let others = plan.factors.iter().filter(|one| one.name != plan.design.compare);
            let known: Vec<&str> = others.map(|one| one.name.as_str()).collect();
            let cause = format!("no factor that makes cells is called {name:?}");
            let remedy = match known.as_slice() {
                [] => "only the compared factor is there: leave out where".to_owned(),
                known => format!("there are {}", known.join(", ")),
            };
            reader.fault(lines.of("where"), cause, remedy);
            continue;
        };
        let mut known = factor.levels.iter().chain(factor.lab_levels.iter().flatten());
        if !known.any(|one| one == level) {
            let cause = format!("{name} has no level {level:?}");
            let remedy = format!("it has {}", factor.levels.join(", "));
            reader.fault(lines.of("where"), cause, remedy);
        }
    }
}

fn of_proof(plan: &Plan, proof: &Proof, lines: &LinesOf, reader: &mut Reader<'_>) {
    within(plan, &proof.only, lines, reader);
    let factor = plan.compared();
    let known = || factor.levels.iter().chain(factor.lab_levels.iter().flatten());
    for level in proof.levels.iter().filter(|level| !known().any(|one| one == *level)) {
        let cause = format!("{} has no level {level:?}", factor.name);
        reader.fault(lines.of("level"), cause, format!("it has {}", factor.levels.join(", ")));
    }
    if let Some(pattern) = proof.pattern()
        && let Err(error) = regex::Regex::new(pattern)
    {
        let text = error.to_string();
        let last = text.lines().last().unwrap_or_default().trim();
        let cause = format!("{pattern:?} is not a regular expression");
        reader.fault(lines.of("evidence"), cause, last.trim_start_matches("error: "));
    }
    if proof.is.is_none() && proof.at_most.is_none() && proof.at_least.is_none() {
        let cause = "the proof holds whatever the evidence is";
        reader.fault(lines.line, cause, "add is, at_most or at_least");
    }
    if let (Some(most), Some(least)) = (proof.at_most, proof.at_least)
        && most < least
    {
        let cause = format!("nothing is at least {least} and at most {most}");
        reader.fault(lines.of("at_most"), cause, "exchange the two");
    }
}

fn of_published(plan: &Plan, one: &Published, lines: &LinesOf, reader: &mut Reader<'_>) {
    within(plan, &one.only, lines, reader);
    let known: Vec<&str> = plan.metrics.iter().map(|one| one.name.as_str()).collect();
    if !known.contains(&one.metric.as_str()) {
        let remedy = match nearest(&one.metric, &known) {
            Some(near) => format!("did you mean {near:?}?"),
            None => format!("metrics are {}", known.join(", ")),
        };
        reader.fault(lines.of("metric"), format!("no metric is called {:?}", one.metric), remedy);
    }
    if one.before.or(one.after).or(one.change).is_none() {
        reader.fault(lines.line, "nothing was published here", "add before, after or change");
    }
}

fn host(plan: &Plan, lines: &Lines, reader: &mut Reader<'_>) {
    let Some(host) = plan.host.as_ref().filter(|host| host.cannot.is_none()) else { return };
    for (factor, line) in plan.factors.iter().zip(&lines.factors) {
        let is_for_the_lab = matches!(factor.kind.as_str(), "cpu" | "inhibit");
        if is_for_the_lab {
            let cause = format!("{} cannot be changed on a host", factor.name);
            reader.fault(line.line, cause, "leave [host] out, or say [host] cannot = \"why\"");
        }
    }
    for word in host.prepare.iter().filter(|word| !PREPARATIONS.contains(&word.as_str())) {
        let cause = format!("a host cannot be prepared in {word:?}");
        reader.fault(
            lines.root,
            cause,
            format!("[host] prepare knows {}", PREPARATIONS.join(", ")),
        );
    }
    if host.guests == 0 {
        reader.fault(lines.root, "[host] guests = 0", "at least 1");
    }
}
