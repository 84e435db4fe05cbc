//! Steps for the kernel command line: what the rows ask for, put together.

use super::boot::{self, Arguments};
use super::{Action, Asked, Drafting, Step};
use crate::capability::Row;
use crate::finding::Needs;

impl Drafting<'_> {
    /// What takes these values out of the kernel command line; other values of the same list stay.
    pub(super) fn without(&self, forbidding: &[(&str, &str)]) -> Arguments {
        let mut result = Arguments::default();
        for word in self.facts.command_line_words() {
            let Some((key, list)) = word.split_once('=') else {
                if word == "nointremap" {
                    result.extend(&Arguments::new([], [word]));
                }
                continue;
            };
            let is_forbidden = |value: &&str| forbidding.contains(&(key, *value));
            let kept: Vec<&str> = list.split(',').filter(|value| !is_forbidden(value)).collect();
            if kept.len() == list.split(',').count() {
                continue;
            }
            let rest = format!("{key}={}", kept.join(","));
            let add = (!kept.is_empty()).then_some(rest.as_str());
            result.extend(&Arguments::new(add, [word]));
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
