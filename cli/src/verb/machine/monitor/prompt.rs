//! The monitor's prompt for a machine that another verb runs, from where it stands to an end.

use super::command::parse;
use super::control::{Control, Next};
use super::line_editor::LineEditor;
use arch::time::Picoseconds;
use board::{Limits, Machine};
use lab::drive::session::Meanwhile;
use std::sync::atomic::{AtomicBool, Ordering};

/// Virtual time between two looks at what else there is to tell: shorter than what is told of is
/// apart.
const SLICE: Picoseconds = Picoseconds::from_nanoseconds(1_000);

/// The command that is this prompt's alone, and its line of the help.
const NEXT: &str = "next";
const NEXT_HELP: &str = "next                            go on until a processor is held up\n";

/// A prompt at the terminal.
pub struct Prompt {
    editor: LineEditor,
    control: Control,
    /// Whether the machine goes on until there is something to tell.
    awaits_news: bool,
    interrupt: &'static AtomicBool,
}

impl Prompt {
    pub fn open(interrupt: &'static AtomicBool) -> Self {
        let control = Control::new(true, |_| 1, interrupt);
        Self { editor: LineEditor::open(), control, awaits_news: false, interrupt }
    }

    /// Obeys lines until the user leaves or lets the machine go on from `end`, where it stands
    /// still. `news` says what has happened beside the records of the trace; it is asked after all
    /// that runs.
    pub fn attend(
        &mut self,
        machine: &mut Machine,
        end: Picoseconds,
        meanwhile: Meanwhile<'_>,
        news: &mut dyn FnMut(&Machine) -> String,
    ) {
        crate::terminal::print(&self.control.place(machine));
        loop {
            let is_over = machine.state.now >= end || machine.outcome().is_some();
            if self.interrupt.load(Ordering::Relaxed) {
                return;
            }
            if self.control.is_stopped {
                if self.ask(machine) == Next::Quit {
                    return;
                }
            } else if is_over {
                return;
            } else {
                self.run(machine, end);
            }
            self.control.note(machine);
            meanwhile(machine);
            let news = news(machine);
            crate::terminal::print(&news);
            let is_met = self.awaits_news && !news.is_empty();
            let is_at_end = !is_over && machine.state.now >= end;
            if is_met || is_at_end {
                (self.control.is_stopped, self.awaits_news) = (true, false);
                let text = if is_at_end { "the window ends here\n" } else { "" };
                crate::terminal::print(&(text.to_owned() + &self.control.place(machine)));
            }
        }
    }

    fn run(&mut self, machine: &mut Machine, end: Picoseconds) {
        let slice = machine.state.now.saturating_add(SLICE);
        let until = if self.awaits_news { slice.min(end) } else { end };
        let limits = Limits { until, instructions: u64::MAX };
        let (_, met) = self.control.run(machine, limits);
        crate::terminal::print(&met.unwrap_or_default());
    }

    /// Reads a line and obeys it.
    fn ask(&mut self, machine: &mut Machine) -> Next {
        let Some(line) = self.editor.next() else { return Next::Quit };
        if [NEXT, "n"].contains(&line.trim()) {
            (self.control.is_stopped, self.awaits_news) = (false, true);
            return Next::Go;
        }
        let command = parse(&line, self.control.cpu);
        let reply = command.and_then(|command| {
            command.map(|command| self.control.obey(machine, command)).transpose()
        });
        match reply {
            Ok(None) => Next::Stay,
            Ok(Some(reply)) => {
                let more = if line.trim() == "help" { NEXT_HELP } else { "" };
                crate::terminal::print(&(reply.text + more));
                reply.next
            }
            Err(why) => {
                say!("error: {why}");
                Next::Stay
            }
        }
    }
}
