//! What can be said to the monitor: a line, a command.

use super::form;
use crate::verb::machine::size::parse_duration;
use arch::address::SystemPhysical;
use arch::identity::CpuIndex;
use arch::time::Picoseconds;
use board::inspection::{Query, Sheet, Subject};
use trace::EventGoal;
use trace::goal::labels;

/// What a line stands behind.
pub const PROMPT: &str = "(avicenna) ";
/// Longer lines are refused.
pub const LONGEST_LINE: usize = 4096;
/// Instructions of one `step`, and lines of one `events`.
const MOST_STEPS: u64 = 1_000_000;
const MOST_EVENTS: u64 = 1_000;

/// A command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// Show something.
    Info { query: Query, form: Form },
    /// What `info` and `step` mean from now on.
    Choose(CpuIndex),
    /// Stand still.
    Stop,
    /// Go on.
    Go,
    /// Execute so many instructions of the chosen processor.
    Step(u64),
    /// Go on until something happens.
    Until(Goal),
    /// Go on until a processor is held up.
    Next,
    /// The last things that happened.
    Events(u64),
    /// Text for the guest's console.
    Type(String),
    /// End the run.
    Quit,
    /// What can be said.
    Help,
}

/// How something is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    Text,
    Json,
}

impl Form {
    /// What was looked at, in this form.
    pub fn of(self, sheets: &[Sheet]) -> String {
        match self {
            Self::Text => form::text(sheets),
            Self::Json => form::json(sheets),
        }
    }
}

/// What `until` waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Goal {
    Time(Picoseconds),
    Instructions(u64),
    Event(EventGoal),
    /// More processors have been held up than so many.
    Hold(usize),
}

/// The words that begin a line: the word, what follows it, what it does.
pub const COMMANDS: &[(&str, &str, &str)] = &[
    ("info", "[-j] WHAT [CPU] [ADDRESS]", "show a part of the machine, with -j as JSON"),
    ("cpu", "N", "the processor that info and step mean"),
    ("stop", "", "stand still"),
    ("cont", "", "go on"),
    ("step", "[N]", "execute one instruction of the processor, or N"),
    ("until", "EVENT [cpu=N] [VALUE] [FIELD=VALUE]...", "go on until a record of the trace"),
    ("until", "time:DURATION | instructions:N", "go on until then, counted from power-on"),
    ("next", "", "go on until a processor is held up (lab explore replay --step)"),
    ("events", "[N]", "the last 20 records of the trace, or N"),
    ("type", "TEXT", "a line for the guest's console"),
    ("quit", "", "end the run"),
    ("help", "", "this text"),
];

/// Reads a line; nothing of an empty one.
pub fn parse(line: &str, cpu: CpuIndex) -> Result<Option<Command>, String> {
    if line.len() > LONGEST_LINE {
        return Err(format!("a line of {} bytes, must be at most {LONGEST_LINE}", line.len()));
    }
    let line = line.trim();
    let (word, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
    let rest = rest.trim();
    let words: Vec<&str> = rest.split_whitespace().collect();
    Ok(Some(match (word, words.as_slice()) {
        ("", _) => return Ok(None),
        ("info", words) => info(words, cpu)?,
        ("cpu", [number]) => Command::Choose(CpuIndex(parse_cpu(number)?)),
        ("stop", []) => Command::Stop,
        ("cont" | "c", []) => Command::Go,
        ("step" | "s", []) => Command::Step(1),
        ("step" | "s", [count]) => Command::Step(parse_count(count, MOST_STEPS)?),
        ("until", [first, conditions @ ..]) => Command::Until(parse_goal(first, conditions)?),
        ("next" | "n", []) => Command::Next,
        ("events", []) => Command::Events(20),
        ("events", [count]) => Command::Events(parse_count(count, MOST_EVENTS)?),
        ("type", _) => Command::Type(rest.to_owned()),
        ("quit" | "q", []) => Command::Quit,
        ("help" | "?", _) => Command::Help,
        (word, _) => return Err(wrong(word)),
    }))
}

/// What is wrong with a line that begins so.
fn wrong(word: &str) -> String {
    let forms: Vec<String> = COMMANDS
        .iter()
        .filter(|row| row.0 == word)
        .map(|(name, rest, _)| format!("{name} {rest}").trim_end().to_owned())
        .collect();
    if forms.is_empty() {
        let mut names: Vec<&str> = COMMANDS.iter().map(|row| row.0).collect();
        names.dedup();
        return format!("no command {word:?}, must be one of {}", names.join(", "));
    }
    format!("must be: {}", forms.join(", or "))
}

fn info(words: &[&str], cpu: CpuIndex) -> Result<Command, String> {
    let (form, words) = match words {
        ["-j" | "--json", rest @ ..] => (Form::Json, rest),
        [rest @ .., "-j" | "--json"] => (Form::Json, rest),
        words => (Form::Text, words),
    };
    let [name, places @ ..] = words else {
        return Err(format!("info of what: one of {}", subjects()));
    };
    let subject = Subject::named(name)
        .ok_or_else(|| format!("nothing is called {name:?}, must be one of {}", subjects()))?;
    let mut query = Query { subject, cpu, at: None };
    for place in places {
        match place.strip_prefix("0x") {
            Some(digits) => {
                let address = u64::from_str_radix(digits, 16);
                let address = address.map_err(|_| {
                    format!(
                        "{place:?} must be an address of 64 bits in hexadecimal, such as 0x5000"
                    )
                })?;
                query.at = Some(SystemPhysical(address));
            }
            None => query.cpu = CpuIndex(parse_cpu(place)?),
        }
    }
    Ok(Command::Info { query, form })
}

/// The names of all subjects.
fn subjects() -> String {
    Subject::ALL.map(|row| row.0).join(", ")
}

fn parse_cpu(text: &str) -> Result<u16, String> {
    text.parse().map_err(|_| {
        format!("{text:?} must be a processor's number, or an address that begins with 0x")
    })
}

fn parse_count(text: &str, most: u64) -> Result<u64, String> {
    let count = text.parse().ok().filter(|count| (1..=most).contains(count));
    count.ok_or_else(|| format!("{text:?} must be a number from 1 to {most}"))
}

fn parse_goal(first: &str, conditions: &[&str]) -> Result<Goal, String> {
    if let Some((kind, value)) = first.split_once(':') {
        if !conditions.is_empty() {
            return Err(format!("nothing can follow {first}"));
        }
        return match kind {
            "time" => parse_duration(value).map(Goal::Time),
            "instructions" => {
                let count = value.parse().map(Goal::Instructions);
                count.map_err(|_| format!("{value:?} must be a number of instructions"))
            }
            _ => Err(format!("{first:?} must be time:DURATION, instructions:N or an event's name")),
        };
    }
    Ok(Goal::Event([&[first], conditions].concat().join(" ").parse()?))
}

/// What can be said, for readers.
pub fn help() -> String {
    let mut text = String::new();
    for (name, rest, meaning) in COMMANDS {
        let form = format!("{name} {rest}");
        text += &format!("{:<40} {meaning}\n", form.trim_end());
    }
    text += "\nWHAT is one of\n";
    for (name, _, meaning) in Subject::ALL {
        text += &format!("  {name:<10} {meaning}\n");
    }
    text + &format!("\nEVENT is one of {}\n", labels().join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> Result<Option<Command>, String> {
        parse(line, CpuIndex(3))
    }

    fn query(name: &str, cpu: u16, at: Option<u64>) -> Query {
        let subject = Subject::named(name).expect(name);
        Query { subject, cpu: CpuIndex(cpu), at: at.map(SystemPhysical) }
    }

    #[test]
    fn a_line_is_a_command_with_what_follows_it() {
        for (line, expected) in [
            ("", None),
            ("   ", None),
            (
                "info lapic",
                Some(Command::Info { query: query("lapic", 3, None), form: Form::Text }),
            ),
            (
                "info -j pic 1",
                Some(Command::Info { query: query("pic", 1, None), form: Form::Json }),
            ),
            (
                "info vmcb 0x5000 --json",
                Some(Command::Info { query: query("vmcb", 3, Some(0x5000)), form: Form::Json }),
            ),
            ("cpu 0", Some(Command::Choose(CpuIndex(0)))),
            (" stop ", Some(Command::Stop)),
            ("c", Some(Command::Go)),
            ("step", Some(Command::Step(1))),
            ("s 20", Some(Command::Step(20))),
            ("until time:1s", Some(Command::Until(Goal::Time(Picoseconds(1_000_000_000_000))))),
            ("until instructions:7", Some(Command::Until(Goal::Instructions(7)))),
            ("events 5", Some(Command::Events(5))),
            ("type ls  -l", Some(Command::Type("ls  -l".into()))),
            ("q", Some(Command::Quit)),
            ("help me", Some(Command::Help)),
        ] {
            assert_eq!(parsed(line), Ok(expected), "{line}");
        }
    }

    #[test]
    fn an_error_names_what_was_wrong_and_what_would_be_right() {
        for (line, why) in [
            ("lapic", "no command \"lapic\", must be one of info, cpu, stop"),
            ("info", "info of what: one of registers, lapic"),
            ("info what", "nothing is called \"what\", must be one of registers"),
            ("info lapic one", "\"one\" must be a processor's number"),
            ("info lapic 65536", "must be a processor's number"),
            ("info vmcb 0x", "must be an address of 64 bits"),
            ("info vmcb 0x10000000000000000", "must be an address of 64 bits"),
            ("cpu", "must be: cpu N"),
            ("stop now", "must be: stop"),
            ("step 0", "from 1 to 1000000"),
            ("step -1", "from 1 to 1000000"),
            ("until", "must be: until EVENT"),
            ("until nothing", "no event \"nothing\", must be one of"),
            ("until vm-exit what=1", "one of vm-exit's fields: vcpu, code"),
            ("until vm-exit what", "no exit \"what\", must be a number or one of"),
            ("until time:soon", "soon"),
            ("until port:1", "must be time:DURATION, instructions:N or"),
            ("until instructions:x", "must be a number of instructions"),
        ] {
            let said = parsed(line).expect_err(line);
            assert!(said.contains(why), "{line}: {said}");
        }
        assert!(parsed(&"x".repeat(LONGEST_LINE + 1)).is_err());
    }
}
