//! Events as people name them who wait for one: `vm-exit msr vcpu=1`, `ipi to 3`, `wrmsr 0x830`.
//!
//! The kind as `machine trace` prints it or by another name for it, then conditions: `cpu=N`,
//! `FIELD=VALUE`, a value alone for the field that tells most, `to N` for whom an IPI reaches.

use crate::event::{Event, Record};
use crate::exit_reason::Isa;
use crate::virtual_cpu::VirtualCpu;
use crate::word::Shown;
use arch::apic::{DestinationMode, Scope};
use arch::identity::CpuIndex;
use arch::svm::ExitCode;
use arch::vmx::ExitReason;

/// Conditions at most.
const MOST_CONDITIONS: usize = 16;
/// vCPUs that are told apart by a number, in the order in which they first run.
const MOST_NUMBERED: u64 = 512;
/// Fields that tell most of an event, those that tell more first.
const PRINCIPAL: [&str; 8] =
    ["code", "reason", "index", "port", "rule", "vector", "address", "value"];
/// Other names of kinds, with a condition that goes with the name.
const ALIASES: [(&str, &str, Option<&str>); 3] = [
    ("vmexit", "vm-exit", None),
    ("vmentry", "vm-entry", None),
    ("inhibit", "virtual-apic", Some("is_on=false")),
];
/// The kind whose code and reason have names.
const EXIT: &str = "vm-exit";

/// An event that is waited for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventGoal {
    /// As it was said.
    text: String,
    label: &'static str,
    cpu: Option<CpuIndex>,
    /// The place of a vCPU among those that run.
    vcpu: Option<usize>,
    /// Whom an IPI reaches.
    to: Option<u32>,
    conditions: Vec<(Vec<&'static str>, Wanted)>,
    /// vCPUs that events were of, in order.
    seen: Vec<VirtualCpu>,
}

/// What a field has to be.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Wanted {
    Number(u64),
    /// As `machine trace` prints it.
    Text(String),
    /// The name of an exit, or its first words.
    Exit(String),
}

/// The names of all kinds of events.
pub fn labels() -> Vec<&'static str> {
    let mut labels: Vec<&str> = Event::KINDS.iter().map(|kind| kind.1).collect();
    labels.extend(ALIASES.map(|alias| alias.0));
    labels.sort_unstable();
    labels.dedup();
    labels
}

impl std::str::FromStr for EventGoal {
    type Err = String;

    /// What is wrong is said with what would be right.
    fn from_str(text: &str) -> Result<Self, String> {
        let mut words = text.split_whitespace();
        let kind = words.next().ok_or_else(|| format!("no event, must be {}", one_of_labels()))?;
        let alias = ALIASES.iter().find(|alias| alias.0 == kind);
        let label = alias.map_or(kind, |alias| alias.1);
        let Some((_, label, _)) = Event::KINDS.iter().find(|kind| kind.1 == label) else {
            return Err(format!("no event {kind:?}, must be {}", one_of_labels()));
        };
        let conditions: Vec<&str> =
            alias.and_then(|alias| alias.2).into_iter().chain(words).collect();
        let mut goal = Self {
            text: text.to_owned(),
            label,
            cpu: None,
            vcpu: None,
            to: None,
            conditions: Vec::new(),
            seen: Vec::new(),
        };
        if conditions.len() > MOST_CONDITIONS {
            let count = conditions.len();
            return Err(format!("{count} conditions, must be at most {MOST_CONDITIONS}"));
        }
        let mut words = conditions.into_iter();
        while let Some(word) = words.next() {
            match word.split_once('=') {
                None if word == "to" => goal.reach(words.next())?,
                None => goal.want_principal(word)?,
                Some((name, value)) => goal.want(name, value)?,
            }
        }
        Ok(goal)
    }
}

impl std::fmt::Display for EventGoal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.text)
    }
}

fn one_of_labels() -> String {
    format!("one of {}", labels().join(", "))
}

fn number(text: &str) -> Option<u64> {
    match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}

impl EventGoal {
    /// Kinds of one name: exits of both vendors have one.
    fn kinds(&self) -> impl Iterator<Item = (u8, &'static [&'static str])> {
        let label = self.label;
        Event::KINDS.iter().filter(move |kind| kind.1 == label).map(|kind| (kind.0, kind.2))
    }

    fn reach(&mut self, whom: Option<&str>) -> Result<(), String> {
        if !self.kinds().any(|(_, names)| names.contains(&"destination_mode")) {
            return Err(format!("to: {} has no destination, ipi has", self.label));
        }
        let whom = whom.unwrap_or_default();
        let id = number(whom).and_then(|id| u32::try_from(id).ok());
        self.to = Some(id.ok_or_else(|| format!("to {whom:?}: must be an APIC ID"))?);
        Ok(())
    }

    fn want_principal(&mut self, value: &str) -> Result<(), String> {
        let principal = self
            .kinds()
            .filter_map(|(_, names)| PRINCIPAL.iter().find(|one| names.contains(one)).copied());
        let names: Vec<&'static str> = principal.collect();
        if names.is_empty() {
            return Err(self.wrong(value));
        }
        self.add(names, value)
    }

    fn want(&mut self, name: &str, value: &str) -> Result<(), String> {
        if name == "cpu" {
            let cpu = value.parse().map(CpuIndex);
            let cpu = cpu.map_err(|_| format!("cpu={value}: must be a processor's number"))?;
            self.cpu = Some(cpu);
            return Ok(());
        }
        let known = self.kinds().flat_map(|(_, names)| names).find(|one| **one == name);
        let Some(known) = known else { return Err(self.wrong(&format!("{name}={value}"))) };
        match number(value).filter(|place| *known == "vcpu" && *place < MOST_NUMBERED) {
            Some(place) => self.vcpu = Some(place as usize),
            None => self.add(vec![known], value)?,
        }
        Ok(())
    }

    fn wrong(&self, word: &str) -> String {
        let names = self.kinds().flat_map(|(_, names)| names).copied().collect::<Vec<_>>();
        format!("{word:?} must be cpu=N or one of {}'s fields: {}", self.label, names.join(", "))
    }

    fn add(&mut self, names: Vec<&'static str>, value: &str) -> Result<(), String> {
        let is_exit =
            self.label == EXIT && names.iter().any(|name| matches!(*name, "code" | "reason"));
        let wanted = match number(value) {
            Some(number) => Wanted::Number(number),
            None if is_exit => {
                let exits = exits();
                if !exits.iter().any(|exit| begins(exit, value)) {
                    let exits = exits.join(", ");
                    return Err(format!("no exit {value:?}, must be a number or one of {exits}"));
                }
                Wanted::Exit(value.to_owned())
            }
            None => {
                let known: Vec<String> = names.iter().flat_map(|name| self.texts(name)).collect();
                if !known.iter().any(|one| one.eq_ignore_ascii_case(value)) {
                    let or = if known.is_empty() { "" } else { " or one of " };
                    let (name, known) = (names.join(" or "), known.join(", "));
                    return Err(format!("{name}={value}: must be a number{or}{known}"));
                }
                Wanted::Text(value.to_owned())
            }
        };
        self.conditions.push((names, wanted));
        Ok(())
    }

    /// The words that a field of small values is printed as.
    fn texts(&self, name: &str) -> Vec<String> {
        let mut texts = Vec::new();
        for (kind, names) in self.kinds().filter(|(_, names)| names.contains(&name)) {
            for word in 0..=u64::from(u8::MAX) {
                let mut fields = names.iter();
                let next = |_| {
                    let is_it = fields.next().is_some_and(|field| *field == name);
                    Ok::<u64, ()>(if is_it { word } else { 0 })
                };
                let Ok(Some(event)) = Event::from_words(kind, next) else { continue };
                event.fields(|field, word| {
                    let text = Shown(word).to_string();
                    if field == name && number(&text).is_none() && !texts.contains(&text) {
                        texts.push(text);
                    }
                });
            }
        }
        // Vectors and addresses are printed as numbers of another form.
        texts.retain(|text| text.starts_with(|first: char| first.is_ascii_alphabetic()));
        texts
    }

    /// Whether it is this record. Of all records since it was made, in order: that is how vCPUs
    /// are numbered.
    pub fn is(&mut self, record: &Record) -> bool {
        let mut vcpu = None;
        let mut is_it = self.label == record.event.label()
            && self.cpu.is_none_or(|cpu| cpu == record.cpu)
            && self.to.is_none_or(|to| reaches(record, to));
        record.event.fields(|name, word| {
            if name == "vcpu" {
                vcpu = Some(VirtualCpu(arch::address::SystemPhysical(word.word())));
            }
            let own = self.conditions.iter().filter(|(names, _)| names.contains(&name));
            is_it &= own.into_iter().all(|(_, wanted)| wanted.is(&record.event, word));
        });
        let Some(vcpu) = vcpu else { return is_it };
        if self.vcpu.is_some()
            && !self.seen.contains(&vcpu)
            && self.seen.len() < MOST_NUMBERED as usize
        {
            self.seen.push(vcpu);
        }
        is_it && self.vcpu.is_none_or(|place| self.seen.get(place) == Some(&vcpu))
    }
}

impl Wanted {
    fn is(&self, event: &Event, word: &dyn crate::word::Word) -> bool {
        match self {
            Self::Number(number) => match event {
                // The reason's upper half has flags.
                Event::VmxExit { reason, .. } if word.word() == u64::from(*reason) => {
                    *number == word.word() || *number == u64::from(reason & 0xFFFF)
                }
                _ => *number == word.word(),
            },
            Self::Text(text) => Shown(word).to_string().eq_ignore_ascii_case(text),
            Self::Exit(text) => {
                let name = match event {
                    Event::SvmExit { code, .. } => Isa::Svm.reason_name(code.into_bits() as u32),
                    Event::VmxExit { reason, .. } => Isa::Vmx.reason_name(reason & 0xFFFF),
                    _ => None,
                };
                name.is_some_and(|name| begins(name, text))
            }
        }
    }
}

/// The names of the exits of both vendors.
fn exits() -> Vec<&'static str> {
    let svm = ExitCode::NAMED.iter().map(|row| row.1);
    let vmx = ExitReason::NAMED.iter().map(|row| row.1);
    // Those of ranges of registers and vectors.
    let ranges = (0..0x60).filter_map(|code| Isa::Svm.reason_name(code));
    let mut names: Vec<&str> = svm.chain(vmx).chain(ranges).collect();
    names.sort_unstable();
    names.dedup();
    names
}

/// Whether a name is this text or has it as its first words: `msr` is MSR_READ and MSR_WRITE.
fn begins(name: &str, text: &str) -> bool {
    let start = name.get(..text.len()).is_some_and(|start| start.eq_ignore_ascii_case(text));
    start && matches!(name.as_bytes().get(text.len()), None | Some(b'_'))
}

/// Whether an IPI goes to the processor with an APIC ID.
fn reaches(record: &Record, id: u32) -> bool {
    let Event::InterruptSent { destination, destination_mode, scope, .. } = record.event else {
        return false;
    };
    match (scope, destination_mode) {
        (Scope::Destination, DestinationMode::Physical) => destination == id,
        // [SDM3 "Logical Destination Mode in x2APIC Mode"]; flat mode is its first cluster.
        (Scope::Destination, DestinationMode::Logical) => {
            destination >> 16 == id >> 4 && destination >> (id & 15) & 1 != 0
        }
        (Scope::SelfOnly, _) => u32::from(record.cpu.0) == id,
        (Scope::All, _) => true,
        (Scope::AllButSelf, _) => u32::from(record.cpu.0) != id,
    }
}

#[cfg(test)]
mod tests;
