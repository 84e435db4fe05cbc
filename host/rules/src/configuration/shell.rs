//! Shell text as commands and words, each character traceable to its place in the input.
//!
//! Enough of POSIX `sh` for command lines that people and tools write: quotes, backslashes, continuation lines,
//! comments, command separators, parentheses of bash arrays. Expansions (`$NAME`, `$(…)`, backquotes) are
//! not performed: a word that contains one is marked, since its value cannot be known here.

use super::InputError;
use crate::position::Lines;
use std::borrow::Cow;
use std::ops::Range;

/// Words of one input; more than any real command file has.
pub const MAX_WORDS: usize = 400_000;

/// One word, unquoted.
#[derive(Clone, Debug)]
pub struct Word<'t> {
    pub text: Cow<'t, str>,
    /// Source offset of each byte of `text`; empty when `text` stands in the source as it is, from `start`.
    offsets: Vec<usize>,
    start: usize,
    /// Source range including quotes.
    pub raw: Range<usize>,
    /// Contains an expansion the shell would replace.
    pub has_expansion: bool,
}

impl<'t> Word<'t> {
    /// A word that stands in the source as it is.
    pub fn plain(text: &'t str, start: usize) -> Self {
        let raw = start..start + text.len();
        Self { text: Cow::Borrowed(text), offsets: Vec::new(), start, raw, has_expansion: false }
    }

    /// Source range of a range of the unquoted text.
    pub fn source(&self, range: Range<usize>) -> Range<usize> {
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
        Word {
            text,
            offsets: self.offsets.get(from..).map(<[_]>::to_vec).unwrap_or_default(),
            start: self.source(from..from).start,
            raw: self.raw.clone(),
            has_expansion: self.has_expansion,
        }
    }
}

/// Words up to a line end or separator.
#[derive(Clone, Debug, Default)]
pub struct Command<'t> {
    pub words: Vec<Word<'t>>,
}

/// Splits shell text into commands.
pub fn commands(text: &str) -> Result<Vec<Command<'_>>, InputError> {
    let mut lexer =
        Lexer { text, at: 0, depth: 0, commands: Vec::new(), current: Command::default() };
    let mut words = 0;
    while let Some(word) = lexer.next_word() {
        words += 1;
        if words > MAX_WORDS {
            let lines = Lines::new(text);
            let position = lines.position(word.raw.start, word.raw.end);
            return Err(InputError::at(position, format!("more than {MAX_WORDS} words")));
        }
        lexer.current.words.push(word);
    }
    lexer.finish_command();
    Ok(lexer.commands)
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

struct Lexer<'t> {
    text: &'t str,
    at: usize,
    /// Open parentheses: line ends inside do not end the command.
    depth: usize,
    commands: Vec<Command<'t>>,
    current: Command<'t>,
}

impl<'t> Lexer<'t> {
    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn finish_command(&mut self) {
        if !self.current.words.is_empty() {
            self.commands.push(std::mem::take(&mut self.current));
        }
    }

    /// Skips blanks, comments and separators, then reads one word.
    fn next_word(&mut self) -> Option<Word<'t>> {
        loop {
            match self.peek()? {
                b' ' | b'\t' | b'\r' => self.at += 1,
                b'\n' => {
                    self.at += 1;
                    if self.depth == 0 {
                        self.finish_command();
                    }
                }
                b'\\' if self.line_continues() > 0 => self.at += self.line_continues(),
                b'#' => {
                    let rest = &self.text[self.at..];
                    self.at += rest.find('\n').unwrap_or(rest.len());
                }
                b';' | b'|' | b'&' => {
                    self.at += 1;
                    self.finish_command();
                }
                b'(' => {
                    self.at += 1;
                    self.depth += 1;
                }
                b')' => {
                    self.at += 1;
                    self.depth = self.depth.saturating_sub(1);
                    self.finish_command();
                }
                b'<' | b'>' => self.at += 1,
                _ => return Some(self.word()),
            }
        }
    }

    /// Length of a backslash and line end at the current place, 0 if there is none.
    fn line_continues(&self) -> usize {
        let rest = &self.text.as_bytes()[self.at..];
        match rest {
            [b'\\', b'\n', ..] => 2,
            [b'\\', b'\r', b'\n', ..] => 3,
            _ => 0,
        }
    }

    fn word(&mut self) -> Word<'t> {
        let start = self.at;
        let mut value: Vec<u8> = Vec::new();
        let mut offsets: Vec<usize> = Vec::new();
        let mut has_expansion = false;
        while let Some(byte) = self.peek() {
            match byte {
                b' ' | b'\t' | b'\r' | b'\n' | b';' | b'|' | b'&' | b'<' | b'>' | b')' => break,
                // `name=(` opens an array: the name is dropped, its elements are words.
                b'(' => {
                    self.at += 1;
                    self.depth += 1;
                    break;
                }
                b'\'' => {
                    self.at += 1;
                    while let Some(byte) = self.peek() {
                        self.at += 1;
                        if byte == b'\'' {
                            break;
                        }
                        value.push(byte);
                        offsets.push(self.at - 1);
                    }
                }
                b'"' => has_expansion |= self.double_quoted(&mut value, &mut offsets),
                b'\\' if self.line_continues() > 0 => self.at += self.line_continues(),
                b'\\' => {
                    self.at += 1;
                    if let Some(byte) = self.peek() {
                        value.push(byte);
                        offsets.push(self.at);
                        self.at += 1;
                    }
                }
                _ => has_expansion |= self.literal_or_expansion(&mut value, &mut offsets),
            }
        }
        self.finish_word(start, value, offsets, has_expansion)
    }

    /// Takes one byte as it is, or an expansion whole; true for the latter.
    fn literal_or_expansion(&mut self, value: &mut Vec<u8>, offsets: &mut Vec<usize>) -> bool {
        let bytes = self.text.as_bytes();
        let is_expansion = matches!(self.peek(), Some(b'$' | b'`'));
        let end = match is_expansion {
            true => expansion_end(bytes, self.at),
            false => (self.at + 1).min(bytes.len()),
        };
        value.extend_from_slice(&bytes[self.at..end]);
        offsets.extend(self.at..end);
        self.at = end;
        is_expansion
    }

    fn double_quoted(&mut self, value: &mut Vec<u8>, offsets: &mut Vec<usize>) -> bool {
        let bytes = self.text.as_bytes();
        let mut has_expansion = false;
        self.at += 1;
        while let Some(byte) = self.peek() {
            match byte {
                b'"' => {
                    self.at += 1;
                    break;
                }
                b'\\' if self.line_continues() > 0 => self.at += self.line_continues(),
                b'\\' if matches!(bytes.get(self.at + 1), Some(b'"' | b'\\' | b'$' | b'`')) => {
                    value.push(bytes[self.at + 1]);
                    offsets.push(self.at + 1);
                    self.at += 2;
                }
                _ => has_expansion |= self.literal_or_expansion(value, offsets),
            }
        }
        has_expansion
    }

    fn finish_word(
        &self,
        start: usize,
        value: Vec<u8>,
        offsets: Vec<usize>,
        has_expansion: bool,
    ) -> Word<'t> {
        let raw = start..self.at;
        let first = offsets.first().copied().unwrap_or(start);
        let is_contiguous = offsets.iter().enumerate().all(|(index, at)| *at == first + index);
        if is_contiguous && let Some(text) = self.text.get(first..first + value.len()) {
            let text = Cow::Borrowed(text);
            return Word { text, offsets: Vec::new(), start: first, raw, has_expansion };
        }
        // Only whole bytes of valid text were taken out, but a cut inside a character would not be text.
        match String::from_utf8(value) {
            Ok(text) => Word { text: Cow::Owned(text), offsets, start: first, raw, has_expansion },
            Err(_) => {
                let text = Cow::Borrowed(self.text.get(raw.clone()).unwrap_or_default());
                Word { text, offsets: Vec::new(), start, raw, has_expansion: true }
            }
        }
    }
}

/// End of an expansion that starts at `at`; unclosed ones end with the text.
fn expansion_end(bytes: &[u8], at: usize) -> usize {
    let until = |from: usize, close: u8| {
        bytes[from..].iter().position(|byte| *byte == close).map_or(bytes.len(), |n| from + n + 1)
    };
    match (bytes[at], bytes.get(at + 1)) {
        (b'`', _) => until(at + 1, b'`'),
        (_, Some(b'{')) => until(at + 2, b'}'),
        (_, Some(b'(')) => {
            let mut depth = 0usize;
            for (index, byte) in bytes.iter().enumerate().skip(at + 1) {
                match byte {
                    b'(' => depth += 1,
                    b')' if depth == 1 => return index + 1,
                    b')' => depth -= 1,
                    _ => {}
                }
            }
            bytes.len()
        }
        _ => {
            let name = bytes[at + 1..]
                .iter()
                .take_while(|byte| byte.is_ascii_alphanumeric() || **byte == b'_')
                .count();
            // `$@`, `$*`, `$1` and a lone dollar sign.
            let special = matches!(bytes.get(at + 1), Some(b'@' | b'*' | b'#' | b'?' | b'!'));
            at + 1 + if name == 0 && special { 1 } else { name }
        }
    }
}

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
