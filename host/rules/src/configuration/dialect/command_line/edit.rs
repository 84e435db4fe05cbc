//! Edits of QEMU's and crosvm's command lines in shell text.

use crate::configuration::change::MachineChange;
use crate::configuration::dialect::MachineText;
use crate::configuration::edit::{Edit, insert, replace};
use crate::configuration::pairs::{Pair, pairs};
use crate::configuration::qemu_arguments::{Flag, Invocation};
use crate::configuration::shell::Word;

/// The command lines of one input.
#[derive(Debug)]
pub struct Commands<'t> {
    pub text: &'t str,
    pub places: Vec<Place<'t>>,
}

/// Where a machine's options stand.
#[derive(Debug)]
pub enum Place<'t> {
    Qemu(Invocation<'t>),
    /// Where the word `run` ends.
    Crosvm {
        run_end: usize,
    },
    /// A VMM without options for what is changed here.
    Fixed,
}

impl MachineText for Commands<'_> {
    fn edits(&self, machine: usize, change: &MachineChange) -> Option<Vec<Edit>> {
        match self.places.get(machine)? {
            Place::Qemu(invocation) => CommandLine { text: self.text, invocation }.edits(change),
            Place::Crosvm { run_end } => match change {
                MachineChange::DiscardPitTicks | MachineChange::SplitIrqchip => {
                    Some(insert(*run_end, " --split-irqchip"))
                }
                MachineChange::HyperV(..) | MachineChange::CpuFeature(..) => None,
                MachineChange::Viommu(_) | MachineChange::RemovePair(_) => None,
            },
            Place::Fixed => None,
        }
    }
}

struct CommandLine<'t, 'i> {
    text: &'t str,
    invocation: &'i Invocation<'t>,
}

impl<'t> CommandLine<'t, '_> {
    fn edits(&self, change: &MachineChange) -> Option<Vec<Edit>> {
        match change {
            MachineChange::DiscardPitTicks => self.discard_pit_ticks(),
            MachineChange::SplitIrqchip => self.machine_property("kernel-irqchip", "split"),
            MachineChange::HyperV(name, on) => self.cpu_feature(&format!("hv-{name}"), *on),
            MachineChange::CpuFeature(name, on) => self.cpu_feature(name, *on),
            MachineChange::Viommu(key) => self.viommu(key),
            MachineChange::RemovePair(at) => self.remove_pair(at.start, at.end),
        }
    }

    fn flags(&self, names: &[&str]) -> impl Iterator<Item = (&Flag<'t>, &Word<'t>)> {
        self.invocation
            .flags
            .iter()
            .filter(move |flag| names.contains(&flag.name.as_str()))
            .filter_map(|flag| Some((flag, flag.value.as_ref()?)))
    }

    fn discard_pit_ticks(&self) -> Option<Vec<Edit>> {
        let policy = |list: &[Pair]| -> Option<(usize, usize)> {
            let is = |pair: &Pair, key: &str, value: &str| {
                pair.key == key && pair.value.as_deref() == Some(value)
            };
            let short = list.iter().find(|pair| pair.key == "kvm-pit.lost_tick_policy");
            let is_long = list.iter().any(|pair| is(pair, "driver", "kvm-pit"))
                && list.iter().any(|pair| is(pair, "property", "lost_tick_policy"));
            let long = list.iter().find(|pair| is_long && pair.key == "value");
            let pair = short.or(long)?;
            Some((pair.value_at.start, pair.value_at.end))
        };
        let written = self.flags(&["global"]).filter_map(|(_, word)| policy(&pairs(word))).last();
        match written {
            Some((start, end)) => Some(replace(start, end, "discard")),
            None => self.add_option("-global", "kvm-pit.lost_tick_policy=discard"),
        }
    }

    fn machine_property(&self, key: &str, value: &str) -> Option<Vec<Edit>> {
        let same = |pair: &Pair| pair.key.replace('_', "-") == key;
        let flags: Vec<_> = self.flags(&["machine", "M", "accel"]).collect();
        for (_, word) in flags.iter().rev() {
            if let Some(pair) = pairs(word).iter().rev().find(|pair| same(pair)) {
                return Some(replace(pair.value_at.start, pair.value_at.end, value));
            }
        }
        let machine = flags.iter().rev().find(|(flag, _)| flag.name != "accel");
        match machine {
            Some((_, word)) if word.text.starts_with('{') => None,
            Some((_, word)) => Some(insert(word.end_inside(), format!(",{key}={value}"))),
            None => self.add_option("-machine", &format!("{key}={value}")),
        }
    }

    fn cpu_feature(&self, name: &str, on: bool) -> Option<Vec<Edit>> {
        let (_, word) = self.flags(&["cpu"]).last()?;
        let list = pairs(word);
        let same = |pair: &&Pair| {
            let key = pair.key.trim_start_matches(['+', '-']).replace('_', "-");
            key == name || (name == "hv-avic" && key == "hv-apicv")
        };
        let value = if on { "on" } else { "off" };
        // The last mention counts.
        if let Some(pair) = list.iter().skip(1).rev().find(same) {
            let edit = match (&pair.value, pair.key.chars().next()) {
                (Some(_), _) => replace(pair.value_at.start, pair.value_at.end, value),
                (None, Some('+' | '-')) => {
                    let sign = if on { "+" } else { "-" };
                    replace(pair.at.start, pair.at.start + 1, sign)
                }
                (None, _) => insert(pair.at.end, format!("={value}")),
            };
            return Some(edit);
        }
        // In the spelling of the neighbours: hv_x or hv-x, bare or with a value, signs for plain
        // features.
        let neighbours: Vec<&Pair> = list.iter().skip(1).collect();
        let is_hyperv = name.starts_with("hv-");
        let similar =
            |pair: &&&Pair| !is_hyperv || pair.key.trim_start_matches('+').starts_with("hv");
        let last = neighbours.iter().rev().find(similar);
        let name = match last {
            Some(pair) if is_hyperv && pair.key.contains("hv_") => name.replace('-', "_"),
            _ => name.to_owned(),
        };
        let text = match last {
            Some(pair) if pair.value.is_none() && pair.key.starts_with(['+', '-']) => {
                format!(",{}{name}", if on { '+' } else { '-' })
            }
            Some(pair) if pair.value.is_none() && on => format!(",{name}"),
            _ => format!(",{name}={value}"),
        };
        Some(insert(word.end_inside(), text))
    }

    fn viommu(&self, key: &str) -> Option<Vec<Edit>> {
        let (_, word) = self.flags(&["device"]).find(|(_, word)| {
            pairs(word).iter().any(|pair| {
                let kind = pair.value.as_deref().unwrap_or(&pair.key);
                matches!(kind, "intel-iommu" | "amd-iommu")
                    && (pair.value.is_none() || pair.key == "driver")
            })
        })?;
        let list = pairs(word);
        if let Some(pair) = list.iter().rev().find(|pair| pair.key == key) {
            let quoted =
                self.text.get(..pair.value_at.start).is_some_and(|before| before.ends_with('"'));
            let value = if word.text.starts_with('{') && !quoted { "true" } else { "on" };
            return Some(replace(pair.value_at.start, pair.value_at.end, value));
        }
        if word.text.starts_with('{') {
            let last = list.iter().max_by_key(|pair| pair.at.end)?;
            return Some(insert(last.at.end, format!(",\"{key}\":\"on\"")));
        }
        Some(insert(word.end_inside(), format!(",{key}=on")))
    }

    /// Takes a pair out together with one of its commas.
    fn remove_pair(&self, start: usize, end: usize) -> Option<Vec<Edit>> {
        let text = self.text;
        if text.get(..start)?.ends_with(',') {
            Some(replace(start - 1, end, ""))
        } else if text.get(end..)?.starts_with(',') {
            Some(replace(start, end + 1, ""))
        } else {
            None
        }
    }

    /// Adds an option behind the machine's, laid out like it.
    fn add_option(&self, name: &str, value: &str) -> Option<Vec<Edit>> {
        let flags = &self.invocation.flags;
        let anchor = flags
            .iter()
            .rev()
            .find(|flag| matches!(flag.name.as_str(), "machine" | "M" | "accel" | "enable-kvm"))
            .or(flags.first());
        let (start, end) = match (anchor, &self.invocation.program) {
            (Some(flag), _) => (flag.at.start, flag.at.end),
            (None, Some(program)) => (program.raw.end, program.raw.end),
            (None, None) => return None,
        };
        // One dash or two, as the others.
        let dashes = if self.text.get(start..)?.starts_with("--") { "-" } else { "" };
        let gap = self.gap_before(start);
        Some(insert(end, format!("{gap}{dashes}{name} {value}")))
    }

    /// What separates an option from the word before it: a blank, or a continued line and its
    /// indentation.
    fn gap_before(&self, start: usize) -> String {
        let before = self.text.get(..start).unwrap_or_default();
        let kept = before.trim_end_matches([' ', '\t', '\n', '\r', '\\']);
        let gap = &before[kept.len()..];
        let is_first = kept.is_empty() || self.invocation.span.start == start;
        if is_first || gap.is_empty() { " ".to_owned() } else { gap.to_owned() }
    }
}
