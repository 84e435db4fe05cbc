//! From a file's tables to a plan.

use super::check;
use super::fault::Fault;
use super::keys::{self, Kind, PLAN, Table};
use super::setup::{HostSetup, LabSetup};
use super::table::{Read, Reader};
use super::{Design, Factor, Metric, OfExits, OfSeveral, Plan, Proof, Published, Redo, Source};

/// The version of the form.
const SCHEMA: u64 = 1;
/// Factors, metrics and such of one plan at most.
const MOST_TABLES: usize = 64;

pub(super) fn plan(text: &str) -> Result<Plan, Vec<Fault>> {
    let mut reader = Reader::new(text);
    let Some(root) = reader.root(&PLAN) else { return Err(reader.faults) };
    let mut lines = check::Lines { root: root.line, ..check::Lines::default() };
    if root.has("schema") && root.integer("schema") != Some(SCHEMA) {
        let found = root.integer("schema").unwrap_or_default();
        let cause = format!("schema {found} is not known");
        reader.fault(root.line_of("schema"), cause, format!("this program reads schema {SCHEMA}"));
    }
    name(&mut reader, &root);
    let factors = each(&mut reader, &root, "factor", &mut lines.factors, factor);
    let metrics = each(&mut reader, &root, "metric", &mut lines.metrics, metric);
    let proofs = each(&mut reader, &root, "proof", &mut lines.proofs, proof);
    let published = each(&mut reader, &root, "published", &mut lines.published, published);
    let design = below(&mut reader, &root, "design").map(|read| {
        lines.design = read.clone_lines();
        design(&read)
    });
    let lab = below(&mut reader, &root, "lab").map(|read| lab(&mut reader, &read));
    let host = below(&mut reader, &root, "host").map(|read| host(&mut reader, &read));
    if lab.is_none() && host.is_none() {
        reader.fault(
            1,
            "the plan says neither how it runs in the lab nor on a host",
            "add [lab] with a workload, or [host] with a command",
        );
    }
    let Some(design) = design.filter(|_| reader.faults.is_empty()) else {
        return Err(reader.faults);
    };
    let plan = Plan {
        text: text.to_owned(),
        name: root.text("name").unwrap_or_default(),
        question: root.text("question").unwrap_or_default(),
        from: root.text("from"),
        shows: root.text("shows"),
        seed: root.integer("seed").unwrap_or(1),
        design,
        factors,
        lab,
        host,
        metrics,
        proofs,
        published,
    };
    check::check(&plan, &lines, &mut reader);
    if reader.faults.is_empty() { Ok(plan) } else { Err(reader.faults) }
}

fn table_of(name: &str) -> &'static Table {
    match PLAN.key(name).map(|key| key.kind) {
        Some(Kind::Table(table) | Kind::Tables(table)) => table,
        _ => &PLAN,
    }
}

fn below<'t>(reader: &mut Reader<'t>, root: &Read<'t>, name: &str) -> Option<Read<'t>> {
    reader.below(root, name, table_of(name))
}

fn each<'t, T>(
    reader: &mut Reader<'t>,
    root: &Read<'t>,
    name: &str,
    lines: &mut Vec<check::LinesOf>,
    make: impl Fn(&mut Reader<'t>, &Read<'t>) -> Option<T>,
) -> Vec<T> {
    let reads = reader.each(root, name, table_of(name));
    if reads.len() > MOST_TABLES {
        let cause = format!("{} tables [[{name}]]", reads.len());
        reader.fault(root.line_of(name), cause, format!("at most {MOST_TABLES} are read"));
        return Vec::new();
    }
    let mut made = Vec::new();
    for read in &reads {
        if let Some(one) = make(reader, read) {
            made.push(one);
            lines.push(read.clone_lines());
        }
    }
    made
}

fn name(reader: &mut Reader<'_>, root: &Read<'_>) {
    let Some(name) = root.text("name") else { return };
    let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '-';
    if name.is_empty() || name.len() > 64 || !name.chars().all(is_plain) {
        reader.fault(
            root.line_of("name"),
            format!("the name {name:?} would be a folder's"),
            "use 1 to 64 letters, digits and hyphens",
        );
    }
}

fn design(read: &Read<'_>) -> Design {
    let count = |name: &str, usual: usize| {
        read.integer(name).map_or(usual, |one| usize::try_from(one).unwrap_or(usize::MAX))
    };
    let blocks = count("blocks", 0);
    let looks =
        read.list("looks").map(|all| all.iter().filter_map(|one| one.parse().ok()).collect());
    Design {
        compare: read.text("compare").unwrap_or_default(),
        blocks,
        repeats: count("repeats", 1),
        looks: looks.unwrap_or_else(|| vec![blocks]),
        level: read.number("level").unwrap_or(0.02),
        difference: read.number("difference").unwrap_or(1.0),
        voids: count("voids", 3),
    }
}

fn factor(reader: &mut Reader<'_>, read: &Read<'_>) -> Option<Factor> {
    let name = read.text("name")?;
    let kind = read.text("kind").unwrap_or_else(|| name.clone());
    if !keys::FACTORS.contains(&kind.as_str()) {
        reader.fault(
            read.line_of("name"),
            format!("no kind of factor is called {kind:?}"),
            format!("add kind = one of {}", keys::FACTORS.join(", ")),
        );
        return None;
    }
    Some(Factor {
        name,
        kind,
        of: read.text("of"),
        levels: read.list("levels")?,
        lab_levels: read.list("lab"),
        redo: Redo::named(&read.text("redo")?)?,
    })
}

/// The keys of a metric that say where its values come from.
const SOURCES: [&str; 7] = ["regex", "json", "record", "exits", "cpu", "counter", "evidence"];

fn metric(reader: &mut Reader<'_>, read: &Read<'_>) -> Option<Metric> {
    let given: Vec<&str> = SOURCES.into_iter().filter(|one| read.has(one)).collect();
    let [source] = given.as_slice() else {
        let cause = match given.as_slice() {
            [] => "the metric has no source".to_owned(),
            several => format!("the metric has several sources: {}", several.join(", ")),
        };
        reader.fault(read.line, cause, format!("give one of {}", SOURCES.join(", ")));
        return None;
    };
    if *source == "record" && !read.has("value") {
        let remedy = "add value = \"p50\", or what the member is called";
        reader.fault(read.line_of("record"), "the record has no value to take", remedy);
        return None;
    }
    let of_exits = read.text("value").filter(|_| *source == "exits");
    let of_exits = of_exits.as_deref().map_or(Some(OfExits::Count), OfExits::named);
    if of_exits.is_none() {
        let remedy = "one of count, share (percent of those other than HLT), mean (ns of one)";
        reader.fault(read.line_of("value"), "exits have no such value", remedy);
    }
    let belongs = |one: &str| match *source {
        "record" => true,
        "exits" => one == "value",
        _ => false,
    };
    if let Some(stray) = ["value", "per"].iter().find(|one| read.has(one) && !belongs(one)) {
        let remedy = "leave it out, or take the figure by record = { … }";
        reader.fault(read.line_of(stray), format!("{stray} belongs to a record"), remedy);
    }
    let of_several = read.text("of_several");
    let of_several = of_several.as_deref().map_or(Some(OfSeveral::default()), OfSeveral::named);
    if of_several.is_none() {
        let remedy = "one of median, mean, sum";
        reader.fault(read.line_of("of_several"), "several values have no such value", remedy);
    }
    let text = || read.text(source).unwrap_or_default();
    Some(Metric {
        name: read.text("name")?,
        unit: read.text("unit")?,
        less_is_better: match read.text("better")?.as_str() {
            "less" => Some(true),
            "more" => Some(false),
            _ => None,
        },
        source: match *source {
            "regex" => Source::Regex(text()),
            "json" => Source::Json(text()),
            "record" => Source::Record {
                members: read.free("record"),
                value: read.text("value")?,
                per: read.text("per"),
            },
            "exits" => Source::Exits(text(), of_exits.unwrap_or(OfExits::Count)),
            "cpu" => Source::Cpu(text()),
            "counter" => Source::Counter(text()),
            _ => Source::Evidence(text()),
        },
        only: read.free("where"),
        divide: read.number("divide").unwrap_or(1.0),
        difference: read.number("difference"),
        absolute: read.number("absolute"),
        is_optional: read.truth("optional").unwrap_or(false),
        of_several: of_several.unwrap_or_default(),
    })
}

fn proof(_: &mut Reader<'_>, read: &Read<'_>) -> Option<Proof> {
    Some(Proof {
        levels: read.list("level")?,
        evidence: read.text("evidence")?,
        is: read.scalar("is"),
        at_most: read.number("at_most"),
        at_least: read.number("at_least"),
        only: read.free("where"),
        why: read.text("why")?,
        fix: read.text("fix")?,
    })
}

fn published(_: &mut Reader<'_>, read: &Read<'_>) -> Option<Published> {
    Some(Published {
        metric: read.text("metric")?,
        only: read.free("where"),
        before: read.number("before"),
        after: read.number("after"),
        change: read.number("change"),
        most_change: read.number("most_change"),
        source: read.text("source")?,
        reason: read.text("reason"),
    })
}

fn lab(reader: &mut Reader<'_>, read: &Read<'_>) -> LabSetup {
    let text = |name: &str, usual: &str| read.text(name).unwrap_or_else(|| usual.to_owned());
    let cannot = read.text("cannot");
    let mut count = |name: &str| {
        let value = read.integer(name).unwrap_or(2);
        if !(1..=512).contains(&value) {
            let cause = format!("{name} = {value}");
            reader.fault(read.line_of(name), cause, "an emulated machine has 1 to 512 processors");
        }
        u16::try_from(value).unwrap_or(2)
    };
    let (cpus, vcpus) = (count("cpus"), count("vcpus"));
    let command = read.text("command");
    let of_lab = command.iter().flat_map(|_| keys::OF_LAB).filter(|key| read.has(key));
    for key in of_lab {
        let cause = format!("[lab] has a command, and {key} for a machine of the lab's");
        reader.fault(read.line_of(key), cause, "leave one of them out");
    }
    if cannot.is_none() && command.is_none() && !read.has("workload") {
        let remedy = "add workload = \"ipi\" or a command, or cannot = \"the reason why not\"";
        reader.fault(read.line, "[lab] has no workload", remedy);
    }
    let clock = read.text("clock");
    if let Some(clock) = clock.as_ref().filter(|clock| !keys::is_clock(clock)) {
        let remedy = format!("write {}, or a rate in Hz", keys::CLOCKS.join(", "));
        reader.fault(read.line_of("clock"), format!("clock = {clock:?}"), remedy);
    }
    let topology = read.text("topology");
    if let Some(topology) = &topology {
        let line = read.line_of("topology");
        if read.has("cpus") {
            let cause = "[lab] has both cpus and topology";
            reader.fault(line, cause, "leave cpus out: a topology says how many there are");
        }
        if !keys::is_topology(topology) {
            let cause = format!("topology = {topology:?}");
            reader.fault(line, cause, keys::topology_remedy());
        }
    }
    LabSetup {
        cpu: text("cpu", "zen4"),
        clock,
        cpus,
        topology,
        memory: text("memory", "1G"),
        kernel: read.text("kernel"),
        vcpus,
        workload: text("workload", ""),
        command,
        options: text("options", ""),
        append: text("append", ""),
        parameters: read.list("parameters").unwrap_or_default(),
        needs: read.list("needs").unwrap_or_default(),
        add: read.list("add").unwrap_or_default(),
        limit: read.integer("limit").unwrap_or(60),
        blocks: read.integer("blocks").and_then(|one| usize::try_from(one).ok()),
        is_timed: read.truth("timed").unwrap_or(false),
        scale: text("scale", ""),
        cannot,
    }
}

fn host(reader: &mut Reader<'_>, read: &Read<'_>) -> HostSetup {
    let cannot = read.text("cannot");
    if cannot.is_none() && !read.has("command") {
        let remedy = "add command = \"…\", or cannot = \"the reason why not\"";
        reader.fault(read.line, "[host] has no command", remedy);
    }
    HostSetup {
        vendor: read.text("vendor"),
        guests: read.integer("guests").and_then(|one| usize::try_from(one).ok()).unwrap_or(1),
        is_in_guest: read.text("where").as_deref() != Some("host"),
        command: read.text("command").unwrap_or_default(),
        needs: read.list("needs").unwrap_or_default(),
        settle: read.integer("settle").unwrap_or(5),
        limit: read.integer("limit").unwrap_or(600),
        prepare: read.list("prepare").unwrap_or_default(),
        most_steal: read.number("most_steal").unwrap_or(1.0),
        most_load: read.number("most_load").unwrap_or(20.0),
        cannot,
    }
}
