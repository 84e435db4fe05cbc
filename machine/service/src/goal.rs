//! Where a run is to stop, as records say it.

use crate::collected::fields;
use crate::error::{Code, Refusal};
use crate::request::{EventGoal, EventWish, Number};
use board::Machine;
use cpu::Activity;
use serde_json::Value;
use trace::{Event, Record};

/// Fields that one event is compared by at most.
const MOST_FIELDS: usize = 16;

/// What a record has to be.
pub enum Goal {
    /// An event of a kind, with these fields.
    Event(EventGoal),
    /// The same, in words.
    Said(trace::EventGoal),
    /// A halt of the last processor that ran.
    Halted,
}

impl Goal {
    pub fn of_event(wish: EventWish) -> Result<Self, Refusal> {
        let wrong = |why| Refusal::new(Code::Request, why);
        let mut goal = match wish {
            EventWish::Text(text) => return text.parse().map(Self::Said).map_err(wrong),
            EventWish::Fields(goal) => goal,
        };
        let kinds = || Event::KINDS.iter().filter(|kind| kind.1 == goal.kind);
        if kinds().next().is_none() {
            let mut labels: Vec<&str> = Event::KINDS.iter().map(|kind| kind.1).collect();
            labels.sort_unstable();
            labels.dedup();
            let labels = labels.join(", ");
            return Err(wrong(format!("no event {:?}, must be one of {labels}", goal.kind)));
        }
        if goal.fields.len() > MOST_FIELDS {
            let count = goal.fields.len();
            return Err(wrong(format!("{count} fields, must be at most {MOST_FIELDS}")));
        }
        // Exits of both vendors have one name.
        let names: Vec<&str> = kinds().flat_map(|kind| kind.2).copied().collect();
        for (name, value) in &mut goal.fields {
            if !names.contains(&name.as_str()) {
                let (kind, names) = (&goal.kind, names.join(", "));
                return Err(wrong(format!("{kind} has no field {name:?}, it has {names}")));
            }
            // Numbers can be said in hexadecimal, as everywhere.
            if let Ok(Number(number)) = serde_json::from_value(value.clone())
                && let Ok(number) = u64::try_from(number)
            {
                *value = number.into();
            }
        }
        Ok(Self::Event(goal))
    }

    /// Whether a record may be what is looked for. Which processors run follows `running`.
    pub fn is_met(&mut self, record: &Record, running: &mut [bool]) -> bool {
        match self {
            Self::Said(goal) => goal.is(record),
            Self::Event(goal) => {
                goal.kind == record.event.label()
                    && goal.cpu.is_none_or(|cpu| cpu == record.cpu.0)
                    && has(&goal.fields, record)
            }
            Self::Halted => {
                let is_halt = matches!(record.event, Event::Halt { .. });
                if let Some(runs) = running.get_mut(usize::from(record.cpu.0)) {
                    match record.event {
                        Event::Halt { .. } => *runs = false,
                        Event::Wake {} => *runs = true,
                        _ => {}
                    }
                }
                is_halt && running.iter().all(|runs| !runs)
            }
        }
    }
}

fn has(wanted: &std::collections::BTreeMap<String, Value>, record: &Record) -> bool {
    if wanted.is_empty() {
        return true;
    }
    let found = fields(record);
    wanted.iter().all(|(name, value)| found.get(name) == Some(value))
}

/// By processor: whether it runs.
pub fn running(machine: &Machine) -> Vec<bool> {
    machine.state.cpus.iter().map(|cpu| cpu.pending.activity() == Activity::Running).collect()
}
