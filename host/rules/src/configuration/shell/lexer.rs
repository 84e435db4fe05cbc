//! Shell text as words and operators.

use super::{Expansion, MAX_WORDS, Word, exact};
use crate::configuration::input::InputError;
use crate::position::Lines;
use std::borrow::Cow;
use std::ops::Range;

#[derive(Clone, Debug)]
pub enum Token<'t> {
    Word(Word<'t>),
    /// `NAME=(…)` and `NAME+=(…)`: the word up to the parenthesis, and the elements.
    Array(Word<'t>, Vec<Word<'t>>),
    Operator(Operator),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operator {
    /// A line end, `;`, or `&`.
    End,
    /// `;;` and its relatives: the end of an arm of `case`.
    CaseEnd,
    And,
    Or,
    Pipe,
    Open,
    Close,
}

pub struct Lexer<'t> {
    text: &'t str,
    at: usize,
    words: usize,
    /// Take nothing that a shell would refuse or that shells take differently.
    is_exact: bool,
    /// The first such thing.
    fault: Option<&'static str>,
}

impl<'t> Lexer<'t> {
    pub fn tokens(text: &'t str) -> Result<Vec<Token<'t>>, InputError> {
        let mut lexer = Lexer { text, at: 0, words: 0, is_exact: false, fault: None };
        let mut found = Vec::new();
        while let Some(token) = lexer.next()? {
            found.push(token);
        }
        Ok(found)
    }

    /// The tokens exactly as a shell reads them, or what keeps that from being known.
    pub fn exact_tokens(text: &'t str) -> Result<Vec<Token<'t>>, String> {
        let mut lexer = Lexer { text, at: 0, words: 0, is_exact: true, fault: None };
        let mut found: Vec<Token<'t>> = Vec::new();
        loop {
            let before = lexer.at;
            let token = lexer.next().map_err(|error| error.to_string())?;
            if let Some(fault) = lexer.fault {
                return Err(fault.to_owned());
            }
            let Some(token) = token else { return Ok(found) };
            if let Token::Operator(operator) = &token {
                let written = text[before..lexer.at].trim_start_matches([' ', '\t']);
                let follows_word =
                    matches!(found.last(), Some(Token::Word(_) | Token::Operator(Operator::Close)));
                let is_alone = written.ends_with(['&', ';']) && *operator == Operator::End;
                if is_alone && written.ends_with('&') {
                    return Err("it starts something in the background".into());
                }
                if is_alone && !follows_word {
                    return Err("a ';' stands behind no command".into());
                }
                if *operator == Operator::Pipe && written.ends_with('&')
                    || *operator == Operator::CaseEnd && written.ends_with('&')
                {
                    return Err("it is written for bash alone".into());
                }
            }
            found.push(token);
        }
    }

    fn wrong(&mut self, fault: &'static str) {
        if self.is_exact {
            self.fault.get_or_insert(fault);
        }
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    /// Skips blanks and comments, then reads one token.
    fn next(&mut self) -> Result<Option<Token<'t>>, InputError> {
        loop {
            let Some(byte) = self.peek() else { return Ok(None) };
            match byte {
                b' ' | b'\t' | b'\r' => self.at += 1,
                b'\\' if self.line_continues() > 0 => self.at += self.line_continues(),
                b'#' => self.comment(),
                b'<' | b'>' => self.redirection()?,
                b'\n' | b';' | b'|' | b'&' | b'(' | b')' => {
                    return Ok(Some(Token::Operator(self.operator())));
                }
                _ => {
                    let word = self.counted_word()?;
                    // The number of a file that is redirected.
                    let is_number = word.text.bytes().all(|byte| byte.is_ascii_digit());
                    if is_number && matches!(self.peek(), Some(b'<' | b'>')) {
                        continue;
                    }
                    let opens_array = self.peek() == Some(b'(') && word.text.ends_with('=');
                    if !opens_array {
                        return Ok(Some(Token::Word(word)));
                    }
                    self.wrong("it assigns a list, which not every shell can");
                    self.at += 1;
                    return Ok(Some(Token::Array(word, self.elements()?)));
                }
            }
        }
    }

    fn comment(&mut self) {
        let rest = &self.text[self.at..];
        self.at += rest.find('\n').unwrap_or(rest.len());
    }

    fn operator(&mut self) -> Operator {
        let rest = &self.text.as_bytes()[self.at..];
        let (operator, length) = match rest {
            [b';', b';', b'&', ..] => (Operator::CaseEnd, 3),
            [b';', b';' | b'&', ..] => (Operator::CaseEnd, 2),
            [b'&', b'&', ..] => (Operator::And, 2),
            [b'|', b'|', ..] => (Operator::Or, 2),
            [b'|', b'&', ..] => (Operator::Pipe, 2),
            [b'|', ..] => (Operator::Pipe, 1),
            [b'(', ..] => (Operator::Open, 1),
            [b')', ..] => (Operator::Close, 1),
            _ => (Operator::End, 1),
        };
        self.at += length;
        operator
    }

    /// `>FILE`, `2>&1`, `<<EOF`: neither the sign nor its target is a word of the command.
    fn redirection(&mut self) -> Result<(), InputError> {
        if self.text[self.at..].starts_with("<<") {
            self.wrong("it has a here-document");
        }
        while matches!(self.peek(), Some(b'<' | b'>' | b'&' | b'-' | b'|')) {
            self.at += 1;
        }
        while matches!(self.peek(), Some(b' ' | b'\t')) {
            self.at += 1;
        }
        match self.peek() {
            None | Some(b'\n' | b';' | b'|' | b'&' | b'(' | b')' | b'\r' | b'#') => {}
            Some(_) => drop(self.counted_word()?),
        }
        Ok(())
    }

    /// The words of an array up to its closing parenthesis; line ends are blanks there.
    fn elements(&mut self) -> Result<Vec<Word<'t>>, InputError> {
        let mut found = Vec::new();
        while let Some(byte) = self.peek() {
            match byte {
                b')' => {
                    self.at += 1;
                    break;
                }
                b'#' => self.comment(),
                b'\\' if self.line_continues() > 0 => self.at += self.line_continues(),
                b' ' | b'\t' | b'\r' | b'\n' | b';' | b'|' | b'&' | b'(' | b'<' | b'>' => {
                    self.at += 1
                }
                _ => found.push(self.counted_word()?),
            }
        }
        Ok(found)
    }

    fn counted_word(&mut self) -> Result<Word<'t>, InputError> {
        let word = self.word();
        self.words += 1;
        if self.words > MAX_WORDS {
            let position = Lines::new(self.text).position(word.raw.start, word.raw.end);
            return Err(InputError::at(position, format!("more than {MAX_WORDS} words")));
        }
        Ok(word)
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
        let mut expansions: Vec<Expansion> = Vec::new();
        while let Some(byte) = self.peek() {
            match byte {
                b' ' | b'\t' | b'\r' | b'\n' | b';' | b'|' | b'&' | b'<' | b'>' | b'(' | b')' => {
                    break;
                }
                b'\'' => {
                    self.at += 1;
                    let mut is_open = true;
                    while let Some(byte) = self.peek() {
                        self.at += 1;
                        if byte == b'\'' {
                            is_open = false;
                            break;
                        }
                        value.push(byte);
                        offsets.push(self.at - 1);
                    }
                    if is_open {
                        self.wrong("a quote is not closed");
                    }
                }
                b'"' => self.double_quoted(&mut value, &mut offsets, &mut expansions),
                b'\\' if self.line_continues() > 0 => self.at += self.line_continues(),
                b'\\' => {
                    self.at += 1;
                    if self.peek().is_none() {
                        self.wrong("it ends with a backslash");
                    }
                    if let Some(byte) = self.peek() {
                        value.push(byte);
                        offsets.push(self.at);
                        self.at += 1;
                    }
                }
                _ => {
                    let range = self.literal_or_expansion(&mut value, &mut offsets);
                    expansions.extend(range.map(|range| Expansion { range, is_quoted: false }));
                }
            }
        }
        // A lone parenthesis or the like: never a word without an end.
        self.at = self.at.max(start + 1).min(self.text.len());
        self.finish_word(start, value, offsets, expansions)
    }

    /// Takes one byte as it is, or an expansion whole; for the latter its range in the value.
    fn literal_or_expansion(
        &mut self,
        value: &mut Vec<u8>,
        offsets: &mut Vec<usize>,
    ) -> Option<Range<usize>> {
        let bytes = self.text.as_bytes();
        let is_expansion = matches!(self.peek(), Some(b'$' | b'`'));
        let end = match is_expansion {
            true if self.is_exact => match exact::expansion_end(self.text, self.at) {
                Ok(end) => end,
                Err(fault) => {
                    self.wrong(fault);
                    bytes.len()
                }
            },
            true => expansion_end(bytes, self.at),
            false => (self.at + 1).min(bytes.len()),
        };
        let start = value.len();
        value.extend_from_slice(&bytes[self.at..end]);
        offsets.extend(self.at..end);
        self.at = end;
        is_expansion.then_some(start..value.len())
    }

    fn double_quoted(
        &mut self,
        value: &mut Vec<u8>,
        offsets: &mut Vec<usize>,
        expansions: &mut Vec<Expansion>,
    ) {
        let bytes = self.text.as_bytes();
        self.at += 1;
        while let Some(byte) = self.peek() {
            match byte {
                b'"' => {
                    self.at += 1;
                    return;
                }
                b'\\' if self.line_continues() > 0 => self.at += self.line_continues(),
                b'\\' if matches!(bytes.get(self.at + 1), Some(b'"' | b'\\' | b'$' | b'`')) => {
                    value.push(bytes[self.at + 1]);
                    offsets.push(self.at + 1);
                    self.at += 2;
                }
                _ => {
                    let range = self.literal_or_expansion(value, offsets);
                    expansions.extend(range.map(|range| Expansion { range, is_quoted: true }));
                }
            }
        }
        self.wrong("a quote is not closed");
    }

    fn finish_word(
        &self,
        start: usize,
        value: Vec<u8>,
        offsets: Vec<usize>,
        expansions: Vec<Expansion>,
    ) -> Word<'t> {
        let raw = start..self.at;
        let has_expansion = !expansions.is_empty();
        let word = |text, offsets, start, expansions| Word {
            text,
            offsets,
            start,
            raw: raw.clone(),
            has_expansion,
            expansions,
            seams: Vec::new(),
        };
        let first = offsets.first().copied().unwrap_or(start);
        let is_contiguous = offsets.iter().enumerate().all(|(index, at)| *at == first + index);
        if is_contiguous && let Some(text) = self.text.get(first..first + value.len()) {
            return word(Cow::Borrowed(text), Vec::new(), first, expansions);
        }
        // Only whole bytes of valid text were taken out, but a cut inside a character would not be
        // text.
        match String::from_utf8(value) {
            Ok(text) => word(Cow::Owned(text), offsets, first, expansions),
            Err(_) => {
                let text = Cow::Borrowed(self.text.get(raw.clone()).unwrap_or_default());
                let range = 0..text.len();
                let whole = vec![Expansion { range, is_quoted: true }];
                let mut word = word(text, Vec::new(), start, whole);
                word.has_expansion = true;
                word
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
