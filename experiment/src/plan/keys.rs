//! The keys of a plan file as data: the reader, the published schema and the documentation's table
//! come from these rows.

use serde_json::{Value as Json, json};

/// What a key's value is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A string.
    Text,
    /// A whole number, not negative.
    Integer,
    /// Any number.
    Number,
    /// `true` or `false`.
    Truth,
    /// Strings.
    Texts,
    /// Whole numbers.
    Integers,
    /// Strings, whole numbers or truths, which are all read as text.
    Levels,
    /// A text, a number or a truth.
    Scalar,
    /// A table whose keys are the plan's own: of texts, numbers or truths.
    Free,
    /// One of these words.
    OneOf(&'static [&'static str]),
    /// A table with keys of its own.
    Table(&'static Table),
    /// Any number of such tables.
    Tables(&'static Table),
}

impl Kind {
    /// For readers.
    pub(crate) fn words(self) -> String {
        match self {
            Self::Text => "a text in quotation marks".into(),
            Self::Integer => "a whole number that is not negative".into(),
            Self::Number => "a number".into(),
            Self::Truth => "true or false".into(),
            Self::Texts => "a list of texts, such as [\"one\", \"two\"]".into(),
            Self::Integers => "a list of whole numbers, such as [8, 12]".into(),
            Self::Levels => "a list of levels, such as [\"off\", \"on\"] or [1, 2, 4]".into(),
            Self::Scalar => "a text, a number, true or false".into(),
            Self::Free => "a table, such as { record = \"latency\" }".into(),
            Self::OneOf(words) => format!("one of {}", words.join(", ")),
            Self::Table(table) => format!("a table: [{}]", table.name),
            Self::Tables(table) => format!("tables: [[{}]]", table.name),
        }
    }

    fn schema(self) -> Json {
        let scalar = json!(["string", "integer", "number", "boolean"]);
        match self {
            Self::Text => json!({"type": "string"}),
            Self::Integer => json!({"type": "integer", "minimum": 0}),
            Self::Number => json!({"type": "number"}),
            Self::Truth => json!({"type": "boolean"}),
            Self::Texts => json!({"type": "array", "items": {"type": "string"}}),
            Self::Integers => json!({"type": "array", "items": {"type": "integer"}}),
            Self::Levels => {
                json!({"type": "array", "items": {"type": ["string", "integer", "boolean"]}})
            }
            Self::Scalar => json!({"type": scalar}),
            Self::Free => json!({"type": "object", "additionalProperties": {"type": scalar}}),
            Self::OneOf(words) => json!({"enum": words}),
            Self::Table(table) => table.schema(),
            Self::Tables(table) => json!({"type": "array", "items": table.schema()}),
        }
    }
}

/// A key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Key {
    /// As it is written.
    pub name: &'static str,
    /// Of its value.
    pub kind: Kind,
    /// Whether a plan without it is none.
    pub is_required: bool,
    /// What it is for.
    pub about: &'static str,
}

const fn key(name: &'static str, kind: Kind, about: &'static str) -> Key {
    Key { name, kind, is_required: false, about }
}

const fn required(name: &'static str, kind: Kind, about: &'static str) -> Key {
    Key { name, kind, is_required: true, about }
}

/// A table of a plan.
#[derive(Debug, PartialEq, Eq)]
pub struct Table {
    /// As it is written in brackets.
    pub name: &'static str,
    /// What it may have.
    pub keys: &'static [Key],
}

impl Table {
    pub(crate) fn key(&self, name: &str) -> Option<&Key> {
        self.keys.iter().find(|key| key.name == name)
    }

    pub(crate) fn names(&self) -> Vec<&'static str> {
        self.keys.iter().map(|key| key.name).collect()
    }

    fn schema(&self) -> Json {
        let members = self.keys.iter().map(|key| {
            let mut schema = key.kind.schema();
            schema["description"] = json!(key.about);
            (key.name.to_owned(), schema)
        });
        let required = self.keys.iter().filter(|key| key.is_required).map(|key| key.name);
        json!({
            "type": "object",
            "additionalProperties": false,
            "required": required.collect::<Vec<_>>(),
            "properties": members.collect::<serde_json::Map<_, _>>(),
        })
    }
}

/// The schema of plan files, for editors: they read TOML by a schema of JSON.
pub fn schema() -> Json {
    let mut schema = PLAN.schema();
    schema["$schema"] = json!("https://json-schema.org/draft/2020-12/schema");
    schema["title"] = json!("A plan of avicenna experiment");
    schema
}

/// Words for units that have to be done again, the cheapest first.
pub const REDO: &[&str] = &["live", "vm", "module", "reboot"];
/// What factors are known by.
pub const FACTORS: &[&str] = &[
    "feature",
    "pit",
    "inhibit",
    "irqchip",
    "apic",
    "fence",
    "guests",
    "vcpus",
    "message",
    "parameter",
    "append",
    "option",
    "kernel",
    "cpu",
    "clock",
    "topology",
];
/// What `clock` can be beside a rate in Hz.
pub const CLOCKS: &[&str] = &["base", "all-core", "boost"];
/// Whether it is one of them or such a rate.
pub fn is_clock(text: &str) -> bool {
    CLOCKS.contains(&text) || text.parse::<u64>().is_ok_and(|hertz| hertz > 0)
}
/// Levels at which emulated processors share something.
pub const LEVELS: &[&str] = &["sockets", "dies", "ccx", "cores", "threads"];
/// Whether it says how many there are of some of these: `sockets=2,cores=4`.
pub fn is_topology(text: &str) -> bool {
    let is_level = |word: &str| {
        word.split_once('=').is_some_and(|(name, number)| {
            LEVELS.contains(&name) && number.parse::<u16>().is_ok_and(|number| number > 0)
        })
    };
    !text.is_empty() && text.split(',').all(is_level)
}
/// What would be one.
pub fn topology_remedy() -> String {
    format!("write LEVEL=N,... with levels of {}, such as ccx=2,cores=2", LEVELS.join(", "))
}
/// What `feature` can be.
pub const FEATURES: &[&str] = &["avic", "x2avic", "apicv", "ipiv"];
/// Reasons of the machine's and of KVM's own counters.
pub const COUNTERS: &[&str] =
    &["context-switches", "interrupts", "posted", "logged", "woken", "doorbells", "seconds"];
/// Parts of a processor's time, as `/proc/stat` has them.
pub const TIMES: &[&str] =
    &["busy", "user", "system", "iowait", "guest", "irq", "softirq", "steal"];

/// A plan.
pub static PLAN: Table = Table {
    name: "plan",
    keys: &[
        required("schema", Kind::Integer, "version of this form: 1"),
        required("name", Kind::Text, "letters, digits and hyphens"),
        required("question", Kind::Text, "what the experiment answers, as one sentence"),
        key("from", Kind::Text, "where the procedure was published"),
        key("shows", Kind::Text, "what is to be seen"),
        key("seed", Kind::Integer, "orders of trials are drawn from it; 1 if it is left out"),
        required("design", Kind::Table(&DESIGN), "blocks, looks and levels"),
        required("factor", Kind::Tables(&FACTOR), "what is set; one of them is compared"),
        key("lab", Kind::Table(&LAB), "how a trial is run in the lab"),
        key("host", Kind::Table(&HOST), "how a trial is run on a host"),
        required("metric", Kind::Tables(&METRIC), "what is measured; the first is the headline"),
        key("proof", Kind::Tables(&PROOF), "what shows that a level took effect"),
        key("published", Kind::Tables(&PUBLISHED), "figures that others measured"),
    ],
};

static DESIGN: Table = Table {
    name: "design",
    keys: &[
        required("compare", Kind::Text, "the factor whose two levels are compared"),
        required("blocks", Kind::Integer, "how often each level is run in each cell, at most"),
        key("repeats", Kind::Integer, "runs of the workload within one setting; 1"),
        key("looks", Kind::Integers, "blocks after which to look and perhaps stop"),
        key("level", Kind::Number, "chance of any wrong answer that is accepted; 0.02"),
        key("difference", Kind::Number, "percent below which a difference does not matter; 1"),
        key("voids", Kind::Integer, "void trials of an arm in a row that end a cell; 3"),
    ],
};

static FACTOR: Table = Table {
    name: "factor",
    keys: &[
        required("name", Kind::Text, "how results call it"),
        key("kind", Kind::OneOf(FACTORS), "what it sets; its name if left out"),
        key("of", Kind::Text, "which feature, or which MODULE.PARAMETER"),
        required("levels", Kind::Levels, "the first is what the others are compared with"),
        required("redo", Kind::OneOf(REDO), "what has to be done again to change it"),
        key("lab", Kind::Levels, "the same at the lab's scale"),
    ],
};

/// What is for a machine of the lab's, and nothing to a command.
pub const OF_LAB: [&str; 13] = [
    "cpu",
    "clock",
    "cpus",
    "topology",
    "memory",
    "kernel",
    "vcpus",
    "workload",
    "options",
    "append",
    "parameters",
    "add",
    "timed",
];

static LAB: Table = Table {
    name: "lab",
    keys: &[
        key("cpu", Kind::Text, "model of the emulated processors, such as zen4"),
        key("clock", Kind::Text, "of its cores: base, all-core, boost (the default), or Hz"),
        key("cpus", Kind::Integer, "processors of the emulated host; 2"),
        key("topology", Kind::Text, "in place of cpus: what they share, as lab's --topology"),
        key("memory", Kind::Text, "of the emulated host; 1G"),
        key("kernel", Kind::Text, "of the emulated host, such as debian-13"),
        key("vcpus", Kind::Integer, "vCPUs of a guest; 2"),
        key(
            "workload",
            Kind::Text,
            "ipi, mesh, timer, threads, call, device, network, kernel FILE WORDS, or a command",
        ),
        key(
            "command",
            Kind::Text,
            "in its place: what runs here, by a shell, with levels in AVICENNA_FACTOR, and emulates",
        ),
        key("options", Kind::Text, "more options of the benchmark guest"),
        key("append", Kind::Text, "more words for a Linux guest's kernel"),
        key("parameters", Kind::Texts, "MODULE.NAME=VALUE of the host's modules"),
        key("needs", Kind::Texts, "programs of this machine that are taken along"),
        key("add", Kind::Texts, "files of this machine that are taken along"),
        key(
            "limit",
            Kind::Integer,
            "seconds of virtual time of one run, or that a command may take; 60",
        ),
        key("blocks", Kind::Integer, "fewer blocks than on a host"),
        key("timed", Kind::Truth, "whether times are measured in a run of their own"),
        key("scale", Kind::Text, "what is smaller than in the published procedure"),
        key("cannot", Kind::Text, "why the lab cannot run it"),
    ],
};

static HOST: Table = Table {
    name: "host",
    keys: &[
        key("vendor", Kind::OneOf(&["amd", "intel"]), "vendor of the processors it needs"),
        key("guests", Kind::Integer, "how many virtual machines it needs; 1"),
        key("where", Kind::OneOf(&["guest", "host"]), "where the command runs; guest"),
        key("command", Kind::Text, "what runs, by a shell"),
        key("needs", Kind::Texts, "programs that have to be there"),
        key("settle", Kind::Integer, "seconds of rest after a setting; 5"),
        key("limit", Kind::Integer, "seconds that a run may take; 600"),
        key("prepare", Kind::Texts, "governor, turbo, thp, irqbalance: set before, put back after"),
        key("most_steal", Kind::Number, "percent of stolen time above which a trial is void; 1"),
        key("most_load", Kind::Number, "busy percent of the host before a trial; 20"),
        key("cannot", Kind::Text, "why no host can run it"),
    ],
};

static METRIC: Table = Table {
    name: "metric",
    keys: &[
        required("name", Kind::Text, "how results call it"),
        required("unit", Kind::Text, "of its values"),
        required("better", Kind::OneOf(&["less", "more", "neither"]), "which way is good"),
        key("regex", Kind::Text, "the first group of each match in the output is a value"),
        key("json", Kind::Text, "a path such as /results/0/mean in the output, which is JSON"),
        key("record", Kind::Free, "lines of JSON that have these members"),
        key(
            "value",
            Kind::Text,
            "which member of such a record; of exits: count, share (percent), mean (ns of one)",
        ),
        key("per", Kind::Text, "the member that it is divided by"),
        key("exits", Kind::Text, "all, work (all except HLT), or a reason such as msr"),
        key("cpu", Kind::OneOf(TIMES), "percent of the host's processors' time"),
        key("counter", Kind::OneOf(COUNTERS), "what the host or the machine counts"),
        key("evidence", Kind::Text, "such as inhibited, the share of the time"),
        key("where", Kind::Free, "only in cells with these levels"),
        key("divide", Kind::Number, "what values are divided by, such as 1000"),
        key("difference", Kind::Number, "percent that matters, for this metric"),
        key("absolute", Kind::Number, "the same in its unit, for what may be zero"),
        key("optional", Kind::Truth, "whether trials count whose output lacks it"),
        key(
            "of_several",
            Kind::Text,
            "what counts of several values in a trial: median (without the warm-up), mean, sum",
        ),
    ],
};

static PROOF: Table = Table {
    name: "proof",
    keys: &[
        required("level", Kind::Levels, "of the compared factor, for which it must hold"),
        required("evidence", Kind::Text, "inhibited, parameter:MODULE.NAME, exits:REASON, …"),
        key("is", Kind::Scalar, "exactly this"),
        key("at_most", Kind::Number, "no more than this"),
        key("at_least", Kind::Number, "no less than this"),
        key("where", Kind::Free, "only in cells with these levels"),
        required("why", Kind::Text, "what it means if it does not hold"),
        required("fix", Kind::Text, "what to do then"),
    ],
};

static PUBLISHED: Table = Table {
    name: "published",
    keys: &[
        required("metric", Kind::Text, "which of the plan's"),
        key("where", Kind::Free, "the cell, by its levels"),
        key("before", Kind::Number, "of the first level"),
        key("after", Kind::Number, "of the second level"),
        key("change", Kind::Number, "in percent"),
        key("most_change", Kind::Number, "where a range was published: change is its low end"),
        required("source", Kind::Text, "where it was published"),
        key("reason", Kind::Text, "why ours may differ, as far as it is known"),
    ],
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_of_a_table_differ_and_say_what_they_are_for() {
        for table in [&PLAN, &DESIGN, &FACTOR, &LAB, &HOST, &METRIC, &PROOF, &PUBLISHED] {
            let names: std::collections::BTreeSet<_> = table.names().into_iter().collect();
            assert_eq!(names.len(), table.keys.len(), "{}", table.name);
            assert!(table.keys.iter().all(|key| !key.about.is_empty()), "{}", table.name);
        }
    }
}
