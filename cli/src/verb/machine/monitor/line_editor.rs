//! Where the monitor's lines come from: an editor at a terminal, with history and completion, or
//! standard input as it is.

use super::command::{LONGEST_LINE, PROMPT};
use std::io::{BufRead, IsTerminal, Read};

pub enum LineEditor {
    #[cfg(feature = "terminal")]
    Terminal(Box<Editor>),
    Plain,
}

#[cfg(feature = "terminal")]
type Editor = rustyline::Editor<completion::Words, rustyline::history::MemHistory>;

impl LineEditor {
    /// At a terminal if standard input and output are one.
    pub fn open() -> Self {
        #[cfg(feature = "terminal")]
        if std::io::stdin().is_terminal() && std::io::stdout().is_terminal() {
            let history = rustyline::history::MemHistory::new();
            let editor = Editor::with_history(rustyline::Config::default(), history);
            if let Ok(mut editor) = editor {
                editor.set_helper(Some(completion::Words));
                return Self::Terminal(Box::new(editor));
            }
        }
        Self::Plain
    }

    /// The next line; nothing at the end.
    pub fn next(&mut self) -> Option<String> {
        match self {
            #[cfg(feature = "terminal")]
            Self::Terminal(editor) => loop {
                match editor.readline(PROMPT) {
                    Ok(line) => {
                        let _ = editor.add_history_entry(&line);
                        return Some(line);
                    }
                    Err(rustyline::error::ReadlineError::Interrupted) => {}
                    Err(_) => return None,
                }
            },
            Self::Plain => plain_line(),
        }
    }
}

/// The rest of a line that is too long is dropped; what is there of it is refused by its length.
fn plain_line() -> Option<String> {
    let input = std::io::stdin().lock();
    if input.is_terminal() {
        crate::terminal::print(PROMPT);
    }
    line_of(input)
}

fn line_of(mut input: impl BufRead) -> Option<String> {
    let mut bytes = Vec::new();
    let most = LONGEST_LINE as u64 + 2;
    match input.by_ref().take(most).read_until(b'\n', &mut bytes) {
        Ok(1..) => {}
        _ => return None,
    }
    let mut last = bytes.last().copied();
    while last != Some(b'\n') {
        let mut rest = Vec::new();
        match input.by_ref().take(most).read_until(b'\n', &mut rest) {
            Ok(1..) => last = rest.last().copied(),
            _ => break,
        }
    }
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

#[cfg(feature = "terminal")]
mod completion {
    use super::super::command::COMMANDS;
    use board::inspection::Subject;
    use rustyline::completion::{Completer, Pair};
    use rustyline::highlight::Highlighter;
    use rustyline::hint::Hinter;
    use rustyline::validate::Validator;
    use rustyline::{Context, Helper};
    use trace::goal::labels;

    /// Completes commands, what they show, and events.
    pub struct Words;

    impl Helper for Words {}
    impl Highlighter for Words {}
    impl Validator for Words {}

    impl Hinter for Words {
        type Hint = String;
    }

    impl Completer for Words {
        type Candidate = Pair;

        fn complete(
            &self,
            line: &str,
            at: usize,
            _: &Context<'_>,
        ) -> rustyline::Result<(usize, Vec<Pair>)> {
            let (start, words) = candidates(line.get(..at).unwrap_or(line));
            let pair = |word: &str| Pair { display: word.to_owned(), replacement: word.to_owned() };
            Ok((start, words.into_iter().map(pair).collect()))
        }
    }

    /// Where the word begins that is being written, and what it can become.
    fn candidates(line: &str) -> (usize, Vec<&'static str>) {
        let start = line.rfind(char::is_whitespace).map_or(0, |at| at + 1);
        let words: Vec<&str> = line[..start].split_whitespace().collect();
        let mut fitting = words_after(&words);
        fitting.retain(|word| word.starts_with(&line[start..]));
        (start, fitting)
    }

    /// What can stand behind the words so far.
    fn words_after(words: &[&str]) -> Vec<&'static str> {
        match words {
            [] => {
                let mut names: Vec<_> = COMMANDS.iter().map(|row| row.0).collect();
                names.dedup();
                names
            }
            ["info"] | ["info", "-j" | "--json"] => Subject::ALL.map(|row| row.0).to_vec(),
            ["until"] => [labels(), vec!["time:", "instructions:"]].concat(),
            _ => Vec::new(),
        }
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        #[test]
        fn a_word_is_completed_to_what_can_stand_there() {
            for (line, expected) in [
                ("st", (0, vec!["stop", "step"])),
                ("info la", (5, vec!["lapic"])),
                ("info -j pi", (8, vec!["pic", "pid", "pir"])),
                ("until vm-en", (6, vec!["vm-entry"])),
                ("until ti", (6, vec!["time:"])),
                ("cont x", (5, vec![])),
            ] {
                assert_eq!(candidates(line), expected, "{line}");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_that_is_too_long_is_one_line_still() {
        let long = format!("{}\nstop", "x".repeat(3 * LONGEST_LINE));
        let mut input = long.as_bytes();
        assert!(line_of(&mut input).is_some_and(|line| line.len() > LONGEST_LINE));
        assert_eq!(line_of(&mut input), Some("stop".into()));
        assert_eq!(line_of(&mut input), None);
        assert_eq!(line_of(&b"\xFF\n"[..]), Some("\u{FFFD}\n".into()));
    }
}
