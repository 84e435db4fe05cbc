//! What the shell makes of a word: variables that are known are replaced, and split where they are
//! not quoted.

use super::Word;
use super::flow::{State, Value};
use super::{Expansion, MAX_WORDS};
use std::borrow::Cow;

/// The fields of words.
pub fn fields<'t>(words: &[Word<'t>], state: &State<'t>) -> Vec<Word<'t>> {
    let mut found = Vec::new();
    for word in words {
        if word.expansions.is_empty() {
            found.push(word.clone());
        } else if found.len() < MAX_WORDS {
            found.extend(word_fields(word, state));
        }
    }
    found
}

/// A word's text in one piece, as an assignment takes it.
pub fn joined<'t>(word: &Word<'t>, state: &State<'t>) -> Word<'t> {
    if word.expansions.is_empty() {
        return word.clone();
    }
    let mut quoted = word.clone();
    for expansion in &mut quoted.expansions {
        expansion.is_quoted = true;
    }
    let mut parts = word_fields(&quoted, state).into_iter();
    let Some(first) = parts.next() else { return Builder::new(word).finish() };
    // Only "${LIST[@]}" makes several: an assignment joins them with blanks.
    parts.fold(first, |all, part| {
        let mut builder = Builder::of(&all);
        builder.text.push(' ');
        builder.offsets.push(part.source(0..0).start);
        builder.append(&part, 0..part.text.len());
        builder.finish()
    })
}

/// One text behind the other, as `+=` makes it.
pub fn concatenated<'t>(first: &Word<'t>, more: &Word<'t>) -> Word<'t> {
    let mut builder = Builder::of(first);
    builder.append(more, 0..more.text.len());
    builder.finish()
}

fn word_fields<'t>(word: &Word<'t>, state: &State<'t>) -> Vec<Word<'t>> {
    if let [whole] = word.expansions.as_slice()
        && whole.range == (0..word.text.len())
        && let Some(value) = state.value_of(&word.text)
    {
        return whole_word(word, value, whole.is_quoted);
    }
    let mut fields = Vec::new();
    let mut current = Builder::new(word);
    let mut at = 0;
    for expansion in &word.expansions {
        current.append(word, at..expansion.range.start);
        at = expansion.range.end;
        match state.value_of(&word.text[expansion.range.clone()]) {
            Some(Value::Text(text)) if expansion.is_quoted => {
                current.append(text, 0..text.text.len())
            }
            Some(Value::Text(text)) => {
                add_fields(&mut fields, &mut current, word, &split(text), starts_blank(text));
                if ends_blank(text) && !current.text.is_empty() {
                    fields.push(std::mem::replace(&mut current, Builder::new(word)).finish());
                }
            }
            Some(Value::List(list)) => add_fields(&mut fields, &mut current, word, list, false),
            Some(Value::Open) | None => current.leave_open(word, expansion),
        }
    }
    current.append(word, at..word.text.len());
    let is_quoted = word.raw.len() > word.text.len();
    if !current.text.is_empty() || (fields.is_empty() && is_quoted) {
        fields.push(current.finish());
    }
    fields
}

/// An expansion that is a whole word keeps the places of its value, which can then be changed
/// there.
fn whole_word<'t>(word: &Word<'t>, value: &Value<'t>, is_quoted: bool) -> Vec<Word<'t>> {
    match value {
        Value::Text(text) if is_quoted => vec![text.clone()],
        Value::Text(text) => split(text),
        Value::List(list) => list.clone(),
        Value::Open => vec![word.clone()],
    }
}

/// The first field goes to what stands before it, the last waits for what follows.
fn add_fields<'t>(
    fields: &mut Vec<Word<'t>>,
    current: &mut Builder<'t>,
    word: &Word<'t>,
    list: &[Word<'t>],
    starts_again: bool,
) {
    for (index, field) in list.iter().enumerate() {
        if (index > 0 || starts_again) && !current.text.is_empty() {
            fields.push(std::mem::replace(current, Builder::new(word)).finish());
        }
        current.append(field, 0..field.text.len());
    }
}

fn starts_blank(word: &Word<'_>) -> bool {
    word.text.starts_with(|c: char| c.is_ascii_whitespace())
}

fn ends_blank(word: &Word<'_>) -> bool {
    word.text.ends_with(|c: char| c.is_ascii_whitespace())
}

/// The words of a variable's value, as an unquoted expansion makes them.
fn split<'t>(value: &Word<'t>) -> Vec<Word<'t>> {
    let text = value.text.as_ref();
    let mut words = Vec::new();
    let mut start = None;
    for (at, c) in text.char_indices().chain([(text.len(), ' ')]) {
        match (c.is_ascii_whitespace(), start) {
            (true, Some(from)) => {
                words.push(part(value, from, at));
                start = None;
            }
            (false, None) => start = Some(at),
            _ => {}
        }
    }
    words
}

fn part<'t>(value: &Word<'t>, from: usize, to: usize) -> Word<'t> {
    if let (Cow::Borrowed(text), true, true) =
        (&value.text, value.offsets.is_empty(), value.expansions.is_empty())
    {
        return Word::plain(&text[from..to], value.source(from..to).start);
    }
    let mut builder = Builder::new(value);
    builder.append(value, from..to);
    let mut word = builder.finish();
    word.raw = value.source(from..to);
    word
}

/// A word in the making, pieced together from places.
struct Builder<'t> {
    text: String,
    offsets: Vec<usize>,
    expansions: Vec<Expansion>,
    seams: Vec<usize>,
    /// Where the word stands.
    of: Word<'t>,
}

impl<'t> Builder<'t> {
    fn new(of: &Word<'t>) -> Self {
        let of = Word { text: Cow::Borrowed(""), offsets: vec![], ..of.clone() };
        Self { text: String::new(), offsets: vec![], expansions: vec![], seams: vec![], of }
    }

    fn of(first: &Word<'t>) -> Self {
        let mut builder = Self::new(first);
        builder.append(first, 0..first.text.len());
        builder
    }

    fn append(&mut self, piece: &Word<'t>, range: std::ops::Range<usize>) {
        if range.is_empty() {
            return;
        }
        let base = self.text.len();
        if base > 0 {
            self.seams.push(base);
        }
        let inside = |at: &&usize| range.start < **at && **at < range.end;
        self.seams.extend(piece.seams.iter().filter(inside).map(|seam| base + seam - range.start));
        for expansion in &piece.expansions {
            if range.start <= expansion.range.start && expansion.range.end <= range.end {
                let at = |place: usize| base + place - range.start;
                self.expansions.push(Expansion {
                    range: at(expansion.range.start)..at(expansion.range.end),
                    is_quoted: expansion.is_quoted,
                });
            }
        }
        self.offsets.extend(range.clone().map(|index| piece.source(index..index).start));
        self.text.push_str(&piece.text[range]);
    }

    fn leave_open(&mut self, word: &Word<'t>, expansion: &Expansion) {
        let base = self.text.len();
        self.append(word, expansion.range.clone());
        // `append` has taken the expansion over, unless the word's list was cut.
        if !self.expansions.iter().any(|known| known.range.start == base) {
            let range = base..self.text.len();
            self.expansions.push(Expansion { range, is_quoted: expansion.is_quoted });
        }
    }

    fn finish(self) -> Word<'t> {
        let start = self.offsets.first().copied().unwrap_or(self.of.raw.start);
        Word {
            text: Cow::Owned(self.text),
            offsets: self.offsets,
            start,
            raw: self.of.raw,
            has_expansion: !self.expansions.is_empty(),
            expansions: self.expansions,
            seams: self.seams,
        }
    }
}
