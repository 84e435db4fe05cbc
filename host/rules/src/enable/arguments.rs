//! Steps for the kernel command line: what the rows ask for, put together.

use super::boot::{self, Arguments};
use super::step::{Action, Step};
use super::{Asked, Drafting};
use crate::boot_word::{self, Takes};
use crate::capability::Row;
use crate::finding::Needs;
use crate::inhibit::Vendor;

impl Drafting<'_> {
    /// What takes the words out of the kernel command line that take these away; other values of
    /// the same list stay.
    pub(super) fn without(&self, vendor: Vendor, takes: &[Takes]) -> Arguments {
        let given = boot_word::given(self.facts, vendor);
        let ours = || given.iter().filter(|(word, _)| takes.contains(&word.takes));
        let mut result = Arguments::default();
        for (_, text) in ours() {
            let rest = text.split_once('=').and_then(|(key, list)| {
                let is_unwanted = |value: &str| {
                    ours().any(|(word, other)| other == text && word.value == Some(value))
                };
                let kept: Vec<&str> = list.split(',').filter(|value| !is_unwanted(value)).collect();
                (!kept.is_empty()).then(|| format!("{key}={}", kept.join(",")))
            });
            result.extend(&Arguments::new(rest.as_deref(), [text.as_str()]));
        }
        result
    }

    pub(super) fn ask(
        &mut self,
        arguments: Arguments,
        because: Row,
        risk: &'static str,
        is_optional: bool,
    ) {
        if !arguments.is_empty() {
            self.arguments.push(Asked { arguments, because, risk, is_optional });
        }
    }

    /// The kernel command line: all that is asked for in one go, then each matter of choice;
    /// programs run once, last.
    pub(super) fn boot(&mut self) {
        let asked = std::mem::take(&mut self.arguments);
        let (optional, mandatory): (Vec<_>, Vec<_>) =
            asked.into_iter().partition(|one| one.is_optional);
        let mut groups = vec![];
        if let Some(first) = mandatory.first() {
            let mut all = Asked { arguments: Arguments::default(), ..*first };
            mandatory.iter().for_each(|one| all.arguments.extend(&one.arguments));
            groups.push(all);
        }
        groups.extend(optional);
        let arguments: Vec<Arguments> = groups.iter().map(|one| one.arguments.clone()).collect();
        let mut runs: Vec<Step> = vec![];
        for (one, actions) in groups.iter().zip(boot::actions(self.facts, &arguments)) {
            for action in actions.writes {
                let step = self.boot_step(one, action);
                self.steps.push(step);
            }
            for action in actions.runs {
                match runs.iter_mut().find(|step| step.action == action) {
                    Some(step) => step.is_optional &= one.is_optional,
                    None => runs.push(self.boot_step(one, action)),
                }
            }
        }
        self.steps.extend(runs);
    }

    fn boot_step(&self, asked: &Asked, action: Action) -> Step {
        let means = match &action {
            Action::Write { path, .. } => format!(", in {path}"),
            Action::Run { command, .. } => {
                format!(", with {}", command.first().map_or("", String::as_str))
            }
            Action::Tell { .. } => String::new(),
        };
        let (add, remove) = (asked.arguments.add(), asked.arguments.remove());
        let title = [("add", add), ("remove", remove)]
            .iter()
            .filter(|(_, words)| !words.is_empty())
            .map(|(verb, words)| format!("{verb} {}", words.join(" ")))
            .collect::<Vec<_>>()
            .join(", ");
        let kind = if asked.is_optional { "optional-arguments" } else { "kernel-arguments" };
        Step {
            id: format!("{kind}-{}", asked.because),
            title: format!("kernel command line: {title}{means}"),
            because: asked.because.into(),
            action,
            needs: Needs::Reboot,
            risk: asked.risk.into(),
            is_optional: asked.is_optional,
        }
    }
}
