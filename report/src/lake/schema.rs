//! The tables and their columns: the one place that says what they are.

/// Version of the schema; raised when a column changes its meaning or goes.
pub const VERSION: u32 = 1;

/// What a column holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// UTF-8.
    Text,
    /// INT64.
    Whole,
    /// DOUBLE.
    Number,
    /// TIMESTAMP in microseconds, UTC.
    Time,
}

impl Kind {
    /// As Parquet and SQL have it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Text => "string",
            Self::Whole => "int64",
            Self::Number => "double",
            Self::Time => "timestamp",
        }
    }
}

/// A column.
#[derive(Clone, Copy, Debug)]
pub struct Column {
    /// In snake case, with the unit last.
    pub name: &'static str,
    /// What it holds; every column may lack a value.
    pub kind: Kind,
    /// What it means.
    pub about: &'static str,
}

/// A table.
#[derive(Debug)]
pub struct Schema {
    /// Its folder.
    pub name: &'static str,
    /// What a row stands for.
    pub about: &'static str,
    /// What it has beside [`COMMON`].
    pub own: &'static [Column],
}

impl Schema {
    /// All columns, in their order.
    pub fn columns(&self) -> impl Iterator<Item = &'static Column> + use<> {
        COMMON.iter().chain(self.own)
    }
}

const fn text(name: &'static str, about: &'static str) -> Column {
    Column { name, kind: Kind::Text, about }
}

const fn whole(name: &'static str, about: &'static str) -> Column {
    Column { name, kind: Kind::Whole, about }
}

const fn number(name: &'static str, about: &'static str) -> Column {
    Column { name, kind: Kind::Number, about }
}

/// What every table begins with.
pub const COMMON: &[Column] = &[
    text("host", "the host, as the operator calls it"),
    text("vm", "the virtual machine; none in a row about the host"),
    text("kernel", "the host's kernel, as `uname -r` prints it"),
    Column { name: "time", kind: Kind::Time, about: "when it was so, UTC" },
    whole("seed", "what a run of the lab or of an experiment was started from"),
    text("version", "name and version of the program that wrote the row"),
];

const FIX: Column = text("fix", "the line that changes it");
const NEEDS: Column =
    text("needs", "live, VM restart, module reload, reboot, firmware or other hardware");
const PID: Column = whole("pid", "the process that runs the virtual machine");

/// Rows about hosts.
pub static HOSTS: Schema = Schema {
    name: "hosts",
    about: "a host at a time",
    own: &[
        text("cpu_vendor", "who makes the processor"),
        whole("cpu_family", "of the first kind of core"),
        whole("cpu_model", "of the first kind of core"),
        whole("cpu_stepping", "of the first kind of core"),
        text("cpu_brand", "what the processor calls itself"),
        text("distribution", "ID and VERSION_ID of os-release"),
        text("feature", "AVIC or APICv"),
        text("hardware", "whether the hardware can: yes, no, unknown"),
        text("active", "whether the host lets virtual machines use the feature"),
        text("ipi", "whether IPIs between vCPUs need no exit"),
        text("devices", "whether interrupts of passed-through devices are posted"),
        text("state", "the sentence that says whether it is on, and why not"),
        FIX,
        NEEDS,
        whole("problems", "rows of `check` that say no, and matter"),
        whole("vms", "virtual machines that were running"),
    ],
};

/// Rows of `check`.
pub static FINDINGS: Schema = Schema {
    name: "findings",
    about: "a row of `check` about a host at a time",
    own: &[
        text("item", "the row's stable name"),
        text("subject", "which processor, unit or module"),
        text("answer", "yes is good, no is bad, unknown is neither"),
        text("severity", "note, warning or error"),
        text("reason", "why the answer is as it is"),
        text("follows", "the row that it only follows from"),
        FIX,
        NEEDS,
    ],
};

/// Rows about virtual machines.
pub static VMS: Schema = Schema {
    name: "vms",
    about: "a virtual machine at a time",
    own: &[
        PID,
        text("vmm", "the program that runs it"),
        text("active", "whether it uses the feature: yes, no, unknown"),
        text("reason", "why"),
        text("devices", "whether its devices' interrupts are posted"),
        FIX,
        NEEDS,
        number("watched_seconds", "for how long it was watched"),
        number("active_share", "part of that time with the feature active, 0 to 1"),
        whole("changes", "inhibits set and cleared meanwhile"),
    ],
};

/// Rows about inhibits.
pub static INHIBITS: Schema = Schema {
    name: "inhibits",
    about: "a reason that takes the feature from a virtual machine",
    own: &[
        PID,
        text("reason", "as KVM names it"),
        text("basis", "seen, or predicted from the configuration"),
        text("because", "the setting that causes it"),
        text("certainty", "of a prediction"),
        FIX,
        NEEDS,
        number("inhibited_seconds", "how long it was set while it was watched"),
        number("watched_seconds", "for how long it was watched"),
        whole("changes", "how often it was set and cleared"),
    ],
};

/// Rows about exits.
pub static EXITS: Schema = Schema {
    name: "exits",
    about: "exits of a virtual machine with one reason and subject in one recording",
    own: &[
        PID,
        whole("vcpus", "vCPUs of the machine that entered the guest"),
        number("recorded_seconds", "length of the recording"),
        text("isa", "SVM or VMX"),
        text("reason", "as the kernel names it"),
        text("about", "what the exits were about, such as a register"),
        whole("count", "how many"),
        whole("time_ns", "from exit to entry, together"),
        whole("min_ns", "the shortest"),
        whole("max_ns", "the longest"),
        number("p50_ns", "half of them were shorter"),
        number("p99_ns", "99 of 100 were shorter"),
        text("verdict", "idle, avoidable, not avoidable, unknown"),
        text("feature", "what would take them away"),
        text("recording", "the file's name"),
    ],
};

/// Rows about how long exits last.
pub static EXIT_TIMES: Schema = Schema {
    name: "exit_times",
    about: "exits that lasted at least so long and less than twice it; rows add up",
    own: &[
        PID,
        text("reason", "as the kernel names it"),
        text("about", "what the exits were about"),
        whole("at_least_ns", "a power of two"),
        whole("count", "how many"),
    ],
};

/// Rows about single trials.
pub static TRIALS: Schema = Schema {
    name: "trials",
    about: "a figure of one trial of an experiment, or of one run of the lab",
    own: &[
        text("experiment", "the plan's name, or `lab`"),
        text("plan", "a digest of the plan, so that only equal ones are compared"),
        text("workload", "what ran"),
        text("arm", "what was set, such as off or on"),
        whole("block", "trials that belong together"),
        text("metric", "what was measured"),
        text("unit", "in what"),
        number("value", "how much"),
        text("void", "why the trial does not count; none if it does"),
    ],
};

/// Rows about whole experiments.
pub static OUTCOMES: Schema = Schema {
    name: "outcomes",
    about: "what an experiment found for one metric",
    own: &[
        text("experiment", "the plan's name, or `lab`"),
        text("plan", "a digest of the plan"),
        text("workload", "what ran"),
        text("metric", "what was measured"),
        text("verdict", "better, worse, no difference, undecided or void"),
        number("effect_percent", "change against the first arm"),
        number("low_percent", "the interval's lower end"),
        number("high_percent", "the interval's upper end"),
        whole("blocks", "blocks that count"),
        whole("voids", "trials that do not"),
    ],
};

/// Every table.
pub static SCHEMAS: [&Schema; 8] =
    [&HOSTS, &FINDINGS, &VMS, &INHIBITS, &EXITS, &EXIT_TIMES, &TRIALS, &OUTCOMES];

/// The tables as a page of the documentation has them.
pub fn documentation() -> String {
    let rows = |columns: &[Column]| -> String {
        let row = |column: &Column| {
            format!("| `{}` | {} | {} |\n", column.name, column.kind.name(), column.about)
        };
        columns.iter().map(row).collect()
    };
    const HEAD: &str = "| Column | Type | |\n|---|---|---|\n";
    let mut text = format!("Every table begins with these columns:\n\n{HEAD}{}", rows(COMMON));
    for schema in SCHEMAS {
        text.push_str(&format!(
            "\n**`{}`**: {}.\n\n{HEAD}{}",
            schema.name,
            schema.about,
            rows(schema.own)
        ));
    }
    text
}

/// The tables for programs: a JSON Schema of each table's rows.
pub fn json_schema() -> serde_json::Value {
    use serde_json::{Map, Value, json};
    let property = |column: &Column| {
        let mut schema = match column.kind {
            Kind::Text => json!({"type": ["string", "null"]}),
            Kind::Whole => json!({"type": ["integer", "null"]}),
            Kind::Number => json!({"type": ["number", "null"]}),
            Kind::Time => json!({"type": "string", "format": "date-time"}),
        };
        schema["description"] = Value::from(column.about);
        (column.name.to_owned(), schema)
    };
    let table = |schema: &&'static Schema| {
        let properties: Map<String, Value> = schema.columns().map(property).collect();
        let value = json!({
            "description": schema.about,
            "type": "object",
            "properties": properties,
            "additionalProperties": false,
        });
        (schema.name.to_owned(), value)
    };
    let tables: Map<String, Value> = SCHEMAS.iter().map(table).collect();
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Rows of the Parquet tables of avicenna",
        "version": VERSION,
        "$defs": tables,
    })
}
