//! Plans that are read, and plans that are refused.

use super::*;

/// Two levels of a feature in both modes of the APIC.
pub(crate) const SMALL: &str = r#"
schema = 1
name = "small"
question = "does it help?"

[design]
compare = "feature"
blocks = 8
difference = 1

[[factor]]
name = "feature"
of = "avic"
levels = ["off", "on"]
redo = "module"

[[factor]]
name = "apic"
levels = ["xapic", "x2apic"]
redo = "vm"

[lab]
workload = "ipi"

[[metric]]
name = "latency"
unit = "cycles"
better = "less"
record = { record = "latency" }
value = "p50"

[[proof]]
level = ["on"]
evidence = "inhibited"
at_most = 0.01
why = "AVIC was inhibited"
fix = "let the PIT discard late ticks"
"#;

pub(crate) fn small() -> Plan {
    Plan::read(SMALL, "small").unwrap_or_else(|faults| panic!("{faults}"))
}

#[test]
fn a_plan_is_read_as_it_is_written() {
    let plan = small();
    assert_eq!((plan.name.as_str(), plan.seed, plan.design.level), ("small", 1, 0.02));
    assert_eq!(plan.compared().levels, ["off", "on"]);
    assert_eq!(plan.cells(true).len(), 2);
    assert_eq!(plan.questions(true), 2);
    assert_eq!(plan.hash(), small().hash());
}

/// What is put in place of what, in which line the fault is, and parts of its cause and its remedy.
const BROKEN: [(&str, &str, usize, &str, &str); 48] = [
    ("name = \"small\"", "name = small", 3, "", "this is not TOML"),
    ("[design]", "[design", 6, "", "this is not TOML"),
    ("question =", "questoin =", 4, "has no key \"questoin\"", "did you mean question?"),
    ("blocks = 8", "blocks = 8\ncolour = 1", 9, "has no key \"colour\"", "known are compare"),
    (
        "workload = \"ipi\"",
        "workload = \"ipi\"\nclock = \"fast\"",
        24,
        "clock = \"fast\"",
        "or a rate in Hz",
    ),
    ("schema = 1", "schema = 9", 2, "schema 9 is not known", "reads schema 1"),
    ("schema = 1\n", "", 1, "lacks schema", "add it"),
    (
        "name = \"small\"",
        "name = \"../small\"",
        3,
        "would be a folder's",
        "letters, digits and hyphens",
    ),
    ("name = \"small\"", "name = 5", 3, "name is integer", "a text in quotation marks"),
    (
        "compare = \"feature\"",
        "compare = \"featur\"",
        7,
        "no factor is called \"featur\"",
        "did you mean feature?",
    ),
    (
        "compare = \"feature\"",
        "compare = \"speed\"",
        7,
        "no factor is called \"speed\"",
        "factors are feature, apic",
    ),
    ("blocks = 8", "blocks = -8", 8, "blocks is integer", "not negative"),
    ("blocks = 8", "blocks = 0", 8, "blocks = 0", "at least 6"),
    ("difference = 1", "difference = -1", 9, "difference = -1", "a percentage"),
    ("difference = 1", "level = 1.5", 9, "level = 1.5", "a chance such as 0.05"),
    ("difference = 1", "repeats = 0", 9, "repeats = 0", "at least 1"),
    ("difference = 1", "looks = [8, 4]", 9, "looks = [8, 4]", "rising numbers"),
    ("difference = 1", "looks = [4]", 9, "looks = [4]", "the last being blocks = 8"),
    ("levels = [\"off\", \"on\"]", "levels = [\"off\"]", 14, "has 1 levels", "two"),
    (
        "levels = [\"off\", \"on\"]",
        "levels = [\"on\", \"on\"]",
        14,
        "one of them twice",
        "each level once",
    ),
    (
        "levels = [\"off\", \"on\"]",
        "levels = [\"off\", \"fast\"]",
        14,
        "no level \"fast\"",
        "known are off, on",
    ),
    (
        "redo = \"module\"",
        "redo = \"live\"",
        15,
        "by a reload of KVM's modules",
        "write redo = \"module\"",
    ),
    (
        "redo = \"module\"",
        "redo = \"modul\"",
        15,
        "redo is string",
        "one of live, vm, module, reboot",
    ),
    ("of = \"avic\"", "of = \"sse\"", 13, "does not say which one", "of = one of avic, x2avic"),
    (
        "name = \"apic\"",
        "name = \"mode\"",
        18,
        "no kind of factor is called \"mode\"",
        "add kind = one of feature",
    ),
    (
        "name = \"apic\"",
        "name = \"feature\"\nkind = \"apic\"",
        18,
        "two factors called \"feature\"",
        "something else",
    ),
    (
        "[lab]\nworkload = \"ipi\"",
        "",
        1,
        "neither how it runs in the lab nor on a host",
        "add [lab]",
    ),
    ("workload = \"ipi\"", "cpu = \"zen4\"", 22, "[lab] has no workload", "add workload"),
    (
        "workload = \"ipi\"",
        "workload = \"ipi\"\ncommand = \"true\"",
        23,
        "[lab] has a command, and workload for",
        "leave one",
    ),
    (
        "evidence = \"inhibited\"",
        "evidence = \"output:(\"",
        34,
        "is not a regular expression",
        "unclosed group",
    ),
    ("workload = \"ipi\"", "workload = \"ipi\"\nvcpus = 4096", 24, "vcpus = 4096", "1 to 512"),
    (
        "workload = \"ipi\"",
        "workload = \"ipi\"\ntopology = \"complexes=2\"",
        24,
        "topology = \"complexes=2\"",
        "such as ccx=2,cores=2",
    ),
    (
        "workload = \"ipi\"",
        "workload = \"ipi\"\ncpus = 4\ntopology = \"ccx=2,cores=2\"",
        25,
        "[lab] has both cpus and topology",
        "leave cpus out",
    ),
    (
        "workload = \"ipi\"",
        "workload = \"ipi\"\n[host]\nguests = 1",
        24,
        "[host] has no command",
        "add command",
    ),
    (
        "better = \"less\"",
        "better = \"fewer\"",
        28,
        "better is string",
        "one of less, more, neither",
    ),
    (
        "record = { record = \"latency\" }\nvalue = \"p50\"",
        "",
        25,
        "no source",
        "give one of regex",
    ),
    (
        "value = \"p50\"",
        "value = \"p50\"\nexits = \"all\"",
        25,
        "several sources: record, exits",
        "give one of",
    ),
    ("value = \"p50\"", "", 29, "no value to take", "add value"),
    (
        "record = { record = \"latency\" }\nvalue = \"p50\"",
        "exits = \"msr\"\nvalue = \"median\"",
        30,
        "exits have no such value",
        "count, share",
    ),
    (
        "value = \"p50\"",
        "value = \"p50\"\nof_several = \"most\"",
        31,
        "several values have no such value",
        "median, mean, sum",
    ),
    (
        "record = { record = \"latency\" }\nvalue = \"p50\"",
        "regex = \"([0-9]\"",
        29,
        "not a regular expression",
        "unclosed group",
    ),
    (
        "record = { record = \"latency\" }\nvalue = \"p50\"",
        "regex = \"[0-9]+\"",
        29,
        "has no group",
        "parentheses",
    ),
    (
        "record = { record = \"latency\" }\nvalue = \"p50\"",
        "json = \"mean\"",
        29,
        "not a path in JSON",
        "begins with /",
    ),
    (
        "value = \"p50\"",
        "value = \"p50\"\nwhere = { apic = \"x3apic\" }",
        31,
        "apic has no level \"x3apic\"",
        "xapic, x2apic",
    ),
    ("level = [\"on\"]", "level = [\"of\"]", 33, "feature has no level \"of\"", "it has off, on"),
    ("at_most = 0.01", "", 32, "holds whatever the evidence is", "add is, at_most or at_least"),
    ("at_most = 0.01", "at_most = 0.01\nat_least = 0.5", 35, "nothing is at least 0.5", "exchange"),
    ("why = \"AVIC was inhibited\"\n", "", 32, "[proof] lacks why", "add it"),
];

#[test]
fn a_broken_plan_is_refused_with_the_line_the_cause_and_what_would_be_right() {
    let mut broken = 0;
    for (from, to, line, cause, remedy) in BROKEN {
        assert!(SMALL.contains(from), "{from}");
        let text = SMALL.replacen(from, to, 1);
        let Err(faults) = Plan::read(&text, "small") else { panic!("{to}: no fault") };
        let is_meant = |fault: &Fault| {
            fault.line == line && fault.cause.contains(cause) && fault.remedy.contains(remedy)
        };
        assert!(faults.faults.iter().any(is_meant), "{to}, {line}: {faults}");
        broken += 1;
    }
    assert!(broken >= 30, "{broken}");
}

#[test]
fn on_a_host_a_plan_must_be_able_to_decide() {
    let host = "[host]\ncommand = \"true\"\n\n[[metric]]";
    let with = |blocks: &str| {
        let text = SMALL.replacen("[[metric]]", host, 1).replace("blocks = 8", blocks);
        Plan::read(&text, "small").map(|_| ()).map_err(|faults| faults.to_string())
    };
    // Two cells: the least p-value of n blocks, 2 / 2^n, has to be 0.01 at most.
    let error = with("blocks = 6").expect_err("too few");
    assert!(error.contains("6 blocks cannot decide 2 metrics"), "{error}");
    assert!(error.contains("at least 8 blocks could"), "{error}");
    assert_eq!(with("blocks = 8"), Ok(()));
    let cpu =
        SMALL.replacen("[[metric]]", host, 1).replace("name = \"apic\"", "name = \"cpu\"").replace(
            "levels = [\"xapic\", \"x2apic\"]\nredo = \"vm\"",
            "levels = [\"zen3\", \"zen4\"]\nredo = \"reboot\"",
        );
    let error = Plan::read(&cpu, "small").expect_err("no host has two CPUs").to_string();
    assert!(error.contains("cpu cannot be changed on a host"), "{error}");
}

#[test]
fn all_faults_are_told_at_once_in_the_order_of_lines() {
    let text =
        SMALL.replace("question", "questoin").replace("better = \"less\"", "better = \"no\"");
    let faults = Plan::read(&text, "small").expect_err("faults").faults;
    let lines: Vec<usize> = faults.iter().map(|fault| fault.line).collect();
    assert!(lines.contains(&4) && lines.contains(&28), "{faults:?}");
    assert!(lines.is_sorted(), "{lines:?}");
}

#[test]
fn no_text_makes_the_reader_panic() {
    let text = SMALL.as_bytes();
    for at in 0..text.len() {
        for byte in [b'"', b'[', b'\n', b'9', 0xC3] {
            let mut other = text.to_vec();
            other[at] = byte;
            let _ = Plan::read(&String::from_utf8_lossy(&other), "small");
        }
    }
}

#[test]
fn the_published_schema_is_the_readers_and_all_shipped_plans_follow_it() {
    let published = schema::published("experiment-plan-1.json");
    assert_eq!(published, keys::schema(), "avicenna experiment show --schema prints it");
    for (name, text) in crate::shipped::PLANS {
        let plan: serde_json::Value = toml::from_str(text).expect(name);
        schema::assert_follows(&plan, &published, name);
    }
}
