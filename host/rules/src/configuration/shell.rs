//! Shell text as commands and words, each character traceable to its place in the input.
//!
//! Enough of POSIX `sh` for command lines that people and tools write: quotes, backslashes,
//! continuation lines, comments, command separators, bash arrays. [`commands`] takes commands as
//! they stand; [`script::run`] follows assignments and branches in order and replaces what is
//! known. What is not (`$(…)`, backquotes, variables of the environment) stays in its word, which
//! is marked.

mod exact;
mod expand;
mod flow;
mod lexer;
mod script;
pub mod settings;

pub use flow::run;

use super::input::InputError;
use crate::position::Lines;
use lexer::{Lexer, Token};
use std::borrow::Cow;
use std::ops::Range;

/// Words of one input; more than any real command file has.
pub const MAX_WORDS: usize = 250_000;

/// One word, unquoted.
#[derive(Clone, Debug)]
pub struct Word<'t> {
    pub text: Cow<'t, str>,
    /// Source offset of each byte of `text`; empty when `text` stands in the source as it is, from
    /// `start`.
    offsets: Vec<usize>,
    start: usize,
    /// Source range including quotes.
    pub raw: Range<usize>,
    /// Contains an expansion the shell would replace.
    pub has_expansion: bool,
    /// Where in `text` those expansions are.
    expansions: Vec<Expansion>,
    /// Where pieces of different origin meet in `text`: a range across one has no place of its own
    /// but the word's.
    seams: Vec<usize>,
}

/// `$NAME`, `${…}`, `$(…)` or backquotes inside a word.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Expansion {
    range: Range<usize>,
    /// Between double quotes: its value is not split into words.
    is_quoted: bool,
}

impl<'t> Word<'t> {
    /// A word that stands in the source as it is.
    pub fn plain(text: &'t str, start: usize) -> Self {
        let raw = start..start + text.len();
        Self {
            text: Cow::Borrowed(text),
            offsets: Vec::new(),
            start,
            raw,
            has_expansion: false,
            expansions: Vec::new(),
            seams: Vec::new(),
        }
    }

    /// Source range of a range of the unquoted text. What is pieced together from several places
    /// has none of its own: the end of the word as it is written stands for it, where text can be
    /// appended.
    pub fn source(&self, range: Range<usize>) -> Range<usize> {
        let has_seam = |seam: &usize| range.start < *seam && *seam < range.end;
        if range.len() > 1 && self.seams.iter().any(has_seam) {
            return self.raw.end..self.raw.end;
        }
        if self.offsets.is_empty() {
            return self.start + range.start..self.start + range.end;
        }
        let at = |index: usize| match self.offsets.get(index) {
            Some(&offset) => offset,
            None => self.offsets.last().map_or(self.start, |last| last + 1),
        };
        let start = at(range.start);
        // The end is one past the last byte, so that a closing quote is not part of it.
        let end = if range.end > range.start { at(range.end - 1) + 1 } else { start };
        start..end
    }

    /// Where text can be appended to the value, inside closing quotes.
    pub fn end_inside(&self) -> usize {
        self.source(0..self.text.len()).end
    }

    /// Moves a word whose text was cut out of a larger source at `by`.
    pub fn shift(&mut self, by: usize) {
        self.start += by;
        self.raw = self.raw.start + by..self.raw.end + by;
        for offset in &mut self.offsets {
            *offset += by;
        }
    }

    /// The part of a word from a byte of its text on.
    pub fn tail(&self, from: usize) -> Word<'t> {
        let text: Cow<'t, str> = match &self.text {
            Cow::Borrowed(text) => Cow::Borrowed(text.get(from..).unwrap_or_default()),
            Cow::Owned(text) => Cow::Owned(text.get(from..).unwrap_or_default().to_owned()),
        };
        let expansions: Vec<Expansion> = self
            .expansions
            .iter()
            .filter(|expansion| expansion.range.start >= from)
            .map(|expansion| Expansion {
                range: expansion.range.start - from..expansion.range.end - from,
                is_quoted: expansion.is_quoted,
            })
            .collect();
        Word {
            text,
            offsets: self.offsets.get(from..).map(<[_]>::to_vec).unwrap_or_default(),
            start: self.source(from..from).start,
            raw: self.raw.clone(),
            has_expansion: !expansions.is_empty(),
            expansions,
            seams: self.seams.iter().filter_map(|seam| seam.checked_sub(from)).collect(),
        }
    }
}

/// Words up to a line end or separator.
#[derive(Clone, Debug, Default)]
pub struct Command<'t> {
    pub words: Vec<Word<'t>>,
}

impl Command<'_> {
    /// A command whose text was made from a piece of a source that begins at `by`.
    pub fn moved<'t>(self, by: usize) -> Command<'t> {
        let moved = |word: Word<'_>| {
            let mut word = Word { text: Cow::Owned(word.text.into_owned()), ..word };
            word.shift(by);
            word
        };
        Command { words: self.words.into_iter().map(moved).collect() }
    }
}

/// Splits shell text into commands, in the order in which they stand; nothing is expanded.
pub fn commands(text: &str) -> Result<Vec<Command<'_>>, InputError> {
    let mut found = Vec::new();
    let mut current = Command::default();
    for token in Lexer::tokens(text)? {
        match token {
            Token::Word(word) => current.words.push(word),
            Token::Array(name, elements) => {
                current.words.push(name);
                current.words.extend(elements);
            }
            Token::Operator(_) => {
                if !current.words.is_empty() {
                    found.push(std::mem::take(&mut current));
                }
            }
        }
    }
    found.extend(Some(current).filter(|command| !command.words.is_empty()));
    Ok(found)
}

/// Splits NUL-separated words, as in `/proc/PID/cmdline`: one command.
pub fn nul_separated(text: &str) -> Result<Vec<Command<'_>>, InputError> {
    let mut words = Vec::new();
    let mut start = 0;
    for part in text.split('\0') {
        if words.len() >= MAX_WORDS {
            let position = Lines::new(text).position(start, start);
            return Err(InputError::at(position, format!("more than {MAX_WORDS} words")));
        }
        words.push(Word::plain(part, start));
        start += part.len() + 1;
    }
    while words.last().is_some_and(|word| word.text.trim().is_empty()) {
        words.pop();
    }
    Ok(vec![Command { words }])
}

#[cfg(test)]
mod script_tests;

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<Vec<String>> {
        let read = |command: Command<'_>| {
            command.words.into_iter().map(|word| word.text.into_owned()).collect()
        };
        commands(text).unwrap().into_iter().map(read).collect()
    }

    #[test]
    fn words_are_unquoted_and_commands_end_at_lines_and_separators() {
        for (text, expected) in [
            ("a b\nc", vec![vec!["a", "b"], vec!["c"]]),
            ("a \\\n  b \\\r\n c", vec![vec!["a", "b", "c"]]),
            ("a 'b c' \"d\\\"e\" f\\ g", vec![vec!["a", "b c", "d\"e", "f g"]]),
            ("x=1 a; b && c | d", vec![vec!["x=1", "a"], vec!["b"], vec!["c"], vec!["d"]]),
            ("a # no\n#b\nc", vec![vec!["a"], vec!["c"]]),
            ("args=( -a\n -b )\nc", vec![vec!["args=", "-a", "-b"], vec!["c"]]),
            ("a -x >f 2>&1 <g -y", vec![vec!["a", "-x", "-y"]]),
            ("(a\nb)", vec![vec!["a"], vec!["b"]]),
            ("a$X b$(c d) 'e$f'", vec![vec!["a$X", "b$(c d)", "e$f"]]),
            ("'open", vec![vec!["open"]]),
            ("", vec![]),
        ] {
            assert_eq!(words(text), expected, "{text:?}");
        }
    }

    #[test]
    fn every_byte_of_a_word_is_found_in_the_source() {
        for (text, index, part, in_source) in [
            ("a 'x,y=1'", 1, "y=1", "y=1"),
            ("a x\",y\"=1", 1, "y", "y"),
            ("a x,\\\ny=1", 1, "y=1", "y=1"),
            ("a \"q\\\"y\"", 1, "y", "y"),
        ] {
            let read = commands(text).unwrap();
            let word = &read[0].words[index];
            let at = word.text.find(part).unwrap();
            let range = word.source(at..at + part.len());
            assert_eq!(&text[range], in_source, "{text:?}");
        }
        let text = "a 'x,y' b";
        let read = commands(text).unwrap();
        assert_eq!(&text[read[0].words[1].end_inside()..], "' b");
    }

    #[test]
    fn expansions_are_marked_and_literals_are_not() {
        for (text, expected) in [
            ("$A", true),
            ("\"${A}\"", true),
            ("'$A'", false),
            ("\\$A", false),
            ("`a`", true),
            ("a=$(b (c) d)", true),
        ] {
            assert_eq!(commands(text).unwrap()[0].words[0].has_expansion, expected, "{text}");
        }
    }

    #[test]
    fn nul_separated_words_keep_blanks_and_commas() {
        let read = nul_separated("qemu\0-name\0a b\0").unwrap();
        let texts: Vec<_> = read[0].words.iter().map(|word| word.text.as_ref()).collect();
        assert_eq!(texts, ["qemu", "-name", "a b"]);
    }
}
