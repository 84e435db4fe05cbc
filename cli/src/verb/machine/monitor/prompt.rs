//! The monitor's prompt for a machine that another verb runs, from where it stands to an end.

use super::ask;
use super::control::{Control, Next};
use super::line_editor::LineEditor;
use arch::time::Picoseconds;
use board::{Limits, Machine};
use lab::drive::session::Meanwhile;
use std::sync::atomic::{AtomicBool, Ordering};

/// A prompt at the terminal.
pub struct Prompt {
    editor: LineEditor,
    control: Control,
    interrupt: &'static AtomicBool,
}

impl Prompt {
    pub fn open(interrupt: &'static AtomicBool) -> Self {
        let control = Control::new(true, |_| 1, interrupt);
        Self { editor: LineEditor::open(), control, interrupt }
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
        while !self.interrupt.load(Ordering::Relaxed) {
            let is_over = machine.state.now >= end || machine.outcome().is_some();
            let mut met = None;
            if self.control.is_stopped {
                if ask(&mut self.editor, &mut self.control, machine) == Next::Quit {
                    return;
                }
            } else if is_over {
                return;
            } else {
                let limits = Limits { until: end, instructions: u64::MAX };
                (_, met) = self.control.run(machine, limits);
            }
            self.control.note(machine);
            meanwhile(machine);
            crate::terminal::print(&news(machine));
            if !is_over && machine.state.now >= end {
                self.control.is_stopped = true;
                met = Some("the window ends here\n".to_owned() + &self.control.place(machine));
            }
            crate::terminal::print(&met.unwrap_or_default());
        }
    }
}
