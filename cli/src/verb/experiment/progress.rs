//! How an experiment goes, on standard error for readers, or as JSON Lines on standard output.

use crate::terminal;
use ::experiment::journal::{Entry, Outcome};
use ::experiment::plan::words;
use ::experiment::run::{Progress, Told};
use std::collections::BTreeMap;
use std::io::IsTerminal;
use std::time::{Duration, Instant};

/// Between two looks of a terminal's line.
const PAUSE: Duration = Duration::from_millis(200);

pub struct Show {
    is_json: bool,
    is_terminal: bool,
    is_line_shown: bool,
    began: Instant,
    shown: Instant,
    settings: BTreeMap<usize, String>,
    progress: Progress,
}

impl Show {
    pub fn new(is_json: bool) -> Self {
        Self {
            is_json,
            is_terminal: std::io::stderr().is_terminal(),
            is_line_shown: false,
            began: Instant::now(),
            shown: Instant::now(),
            settings: BTreeMap::new(),
            progress: Progress::default(),
        }
    }

    pub fn tell(&mut self, told: Told<'_>) {
        match told {
            Told::Entry(entry, progress) => {
                self.progress = *progress;
                if self.is_json
                    && let Ok(line) = serde_json::to_string(entry)
                {
                    terminal::program((line + "\n").as_bytes());
                }
                self.entry(entry);
            }
            Told::Line(text) if self.is_terminal && self.shown.elapsed() > PAUSE => {
                self.shown = Instant::now();
                let text = format!("{} {text}", self.head());
                let most = terminal::columns_of_stderr().saturating_sub(1);
                let text: String = terminal::clean(&text).chars().take(most).collect();
                terminal::same_line(&text);
                self.is_line_shown = true;
            }
            Told::Line(_) => {}
        }
    }

    fn entry(&mut self, entry: &Entry) {
        match entry {
            Entry::Started { trial, setting, .. } => {
                self.settings.insert(*trial, words(setting));
            }
            Entry::Ended { trial, outcome, kept, .. } => {
                let setting = self.settings.remove(trial).unwrap_or_default();
                let said = match outcome {
                    Outcome::Done => {
                        let figures = kept.figures.iter().take(3);
                        let figures = figures.map(|(name, value)| format!("{name} {value:.6}"));
                        figures.collect::<Vec<_>>().join(", ")
                    }
                    Outcome::Void(void) => format!("void: {}", void.why),
                    Outcome::Failed { why } => format!("failed: {why}"),
                };
                self.line(&format!("{} {setting}: {said}", self.head()));
            }
            Entry::Changed { change } => self.line(&format!("changing {}", change.what)),
            Entry::Restored => self.line("the host is as it was"),
            Entry::Stopped { why } => self.line(&format!("stopped: {why}")),
            Entry::Begun(_) | Entry::Finished => {}
        }
    }

    /// `[12/48, 3 void, about 4 min left]`
    fn head(&self) -> String {
        let Progress { over, void, all, over_now } = self.progress;
        let void = if void > 0 { format!(", {void} void") } else { String::new() };
        let left = (over_now > 0).then(|| {
            let each = self.began.elapsed().as_secs_f64() / over_now as f64;
            let seconds = each * all.saturating_sub(over) as f64;
            if seconds < 90.0 {
                format!(", about {seconds:.0} s left")
            } else {
                format!(", about {:.0} min left", seconds / 60.0)
            }
        });
        format!("[{over}/{all}{void}{}]", left.unwrap_or_default())
    }

    fn line(&mut self, text: &str) {
        self.clear();
        terminal::remark(text);
    }

    fn clear(&mut self) {
        if std::mem::take(&mut self.is_line_shown) {
            terminal::same_line("");
        }
    }
}

impl Drop for Show {
    fn drop(&mut self) {
        self.clear();
    }
}
