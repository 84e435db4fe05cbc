//! A lesson as lines for a terminal or a page.

use super::{Doing, Lesson, Step};
use report::grid::folded;

/// Before the words: time and who.
const HEAD: usize = 20;
/// What KVM enters behind the world switch and before it does anything about the exit.
const DISPATCH: [&str; 4] =
    ["svm_handle_exit", "vmx_handle_exit", "svm_invoke_exit_handler", "__vmx_handle_exit"];

/// Of an exit, from where KVM looks at it; all of them if it does not. What an interrupt of the
/// host runs comes before that, and is what its step is about.
fn telling(doing: Doing, functions: &[String]) -> &[String] {
    let is_dispatch = |name: &String| DISPATCH.contains(&name.as_str());
    let first = functions.iter().position(is_dispatch).filter(|_| doing == Doing::Exit);
    &functions[first.unwrap_or(0)..]
}

impl Lesson {
    /// All of it; `most` functions of a step are named.
    pub fn to_text(&self, columns: usize, most: usize) -> String {
        let steps = self.steps.iter().map(|step| step.to_text(columns, most));
        self.title.clone()
            + "\n"
            + &format!("{:>9}  {:<8} what happens\n", "ns", "who")
            + &steps.collect::<String>()
            + &self.closing()
    }

    /// What it took.
    pub fn closing(&self) -> String {
        let exits = self.exits();
        let last = self.steps.last().map_or(0, |step| step.at_ps / 1000);
        let exits = match exits {
            0 => "no VM exit".to_owned(),
            1 => "1 VM exit".to_owned(),
            exits => format!("{exits} VM exits"),
        };
        let rest = if self.is_whole { "" } else { "; its end was not seen" };
        format!("{} steps in {last} ns, {exits}{rest} (times are computed)\n", self.steps.len())
    }

    /// VM exits on the way.
    pub fn exits(&self) -> usize {
        self.steps.iter().filter(|step| step.doing == Doing::Exit).count()
    }
}

impl Step {
    /// It alone; `most` functions are named.
    pub fn to_text(&self, columns: usize, most: usize) -> String {
        let width = columns.saturating_sub(HEAD).max(20);
        let mut lines = folded(&self.text, width, 2);
        for detail in &self.details {
            lines += &folded(&format!("  {detail}"), width, 4);
        }
        if !self.functions.is_empty() {
            let functions = telling(self.doing, &self.functions);
            let named = functions.iter().take(most).map(String::as_str);
            let named = named.collect::<Vec<_>>().join(" > ");
            let more = match functions.len().saturating_sub(most) {
                0 => String::new(),
                more => format!(" and {more} more"),
            };
            lines += &folded(&format!("  KVM: {named}{more}"), width, 4);
        }
        if !self.rule.is_empty() {
            lines += &format!("  [{}]\n", self.rule);
        }
        let mut head = format!("{:>9}  {:<8} ", self.at_ps / 1000, self.who);
        let mut text = String::new();
        for line in lines.lines() {
            text += &format!("{head}{line}\n");
            head = " ".repeat(HEAD);
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_an_exit_what_looks_at_it_is_told_and_of_an_interrupt_what_it_runs() {
        let functions = ["svm_vcpu_run", "vfio_msihandler", "svm_handle_exit", "svm_set_msr"];
        let functions = functions.map(str::to_owned);
        for (doing, told) in [(Doing::Exit, 2), (Doing::Host, 0), (Doing::Entry, 0)] {
            assert_eq!(telling(doing, &functions), &functions[told..], "{doing:?}");
        }
        assert_eq!(telling(Doing::Exit, &functions[..2]), &functions[..2]);
    }
}
