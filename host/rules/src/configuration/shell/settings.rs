//! Files that a shell sources for their variables, such as /etc/default/grub: what the variables
//! hold afterwards, and changes of the words in them.
//!
//! A change is text inserted or taken out, after which the files are evaluated again with the same
//! reader, as POSIX has it and as bash does. It is refused when any variable then holds anything
//! else than what was meant. Left out: what [`sourced`] cannot follow, which is refused as well.

use super::Word;
pub use super::flow::Shell;
use super::flow::{State, Value, sourced};
use super::lexer::{Lexer, Token};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// Assignments of one variable that are tried as the place for new words.
const MAX_PLACES: usize = 16;

/// What a file of settings is asked for.
pub struct Wanted<'w> {
    /// Variables that hold words; new ones go to the first of them that is set.
    pub variables: &'w [&'w str],
    /// Words that have to be in one of them.
    pub add: &'w [&'w str],
    /// Words that may be in none of them.
    pub remove: &'w [&'w str],
}

/// What became of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The files say so already.
    Same,
    /// New texts of files, by their index.
    Changed(BTreeMap<usize, String>),
    /// Nothing is changed, and why.
    Refused(String),
}

/// One word of a variable, as the kernel takes values apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SettingWord {
    /// Of the variable.
    pub variable: String,
    /// What the shell does not replace stands in it as it is written, with its `$`.
    pub text: String,
    /// Where it stands in one piece; otherwise the whole of what is assigned.
    pub at: Range<usize>,
    /// It stands there letter by letter.
    pub is_literal: bool,
}

/// The words of all variables whose name starts so. A variable that depends on a condition is one
/// open word.
pub fn words(text: &str, prefix: &str) -> Result<Vec<SettingWord>, String> {
    let state = state(text, Shell::Bash).or_else(|_| state(text, Shell::Posix))?;
    let mut found = Vec::new();
    let variables = state.variables().filter(|(name, _)| name.starts_with(prefix));
    for (name, value) in variables {
        let variable = name.to_owned();
        let open = |at| SettingWord {
            text: format!("$({name}, which depends on a condition)"),
            variable: name.to_owned(),
            at,
            is_literal: false,
        };
        let Value::Text(value) = value else {
            let place = assignments(text, name).pop().unwrap_or_default();
            found.push(open(place));
            continue;
        };
        for range in kernel_words(value) {
            let word = &value.text[range.clone()];
            let at = value.source(range);
            let is_literal = text.get(at.clone()) == Some(word);
            let at = if is_literal { at } else { value.raw.clone() };
            found.push(SettingWord {
                variable: variable.clone(),
                text: word.to_owned(),
                at,
                is_literal,
            });
        }
    }
    found.sort_by_key(|word| word.at.start);
    Ok(found)
}

/// Makes the files, sourced one after the other, give what is wanted.
pub fn change(files: &[&str], wanted: &Wanted<'_>) -> Outcome {
    match Settings::read(files).and_then(|settings| settings.change(wanted)) {
        Ok(outcome) => outcome,
        Err(why) => Outcome::Refused(why),
    }
}

/// Whether two texts differ in one word of one variable at most, and are equally readable.
pub fn differ_in_one_word(before: &str, after: &str) -> bool {
    let mut is_known = false;
    for shell in [Shell::Posix, Shell::Bash] {
        let Ok(old) = state(before, shell) else { continue };
        let Ok(new) = state(after, shell) else { return false };
        is_known = true;
        let (old, new) = (values(&old), values(&new));
        if old.keys().ne(new.keys()) {
            return false;
        }
        let changed: Vec<_> = old.iter().filter(|(name, words)| new[*name] != **words).collect();
        let is_small = |(name, words): &(&String, &Option<Vec<String>>)| {
            let (Some(old), Some(new)) = (words, &new[*name]) else { return false };
            let gone = old.iter().filter(|word| !new.contains(word)).count();
            let come = new.iter().filter(|word| !old.contains(word)).count();
            gone <= 1 && come <= 1
        };
        if changed.len() > 2 || !changed.iter().all(is_small) {
            return false;
        }
    }
    is_known
}

fn state(text: &str, shell: Shell) -> Result<State<'_>, String> {
    if text.starts_with('\u{feff}') {
        return Err(
            "it starts with a byte order mark, which the shell takes for part of a command".into(),
        );
    }
    if text.contains('\r') {
        return Err(
            "its lines end with CR LF, and the shell takes CR for part of the values".into()
        );
    }
    if text.contains(['\0', char::REPLACEMENT_CHARACTER]) {
        return Err("it is not plain text".into());
    }
    sourced(text, shell)
}

/// Words by variable; `None` for what is open.
type Values = BTreeMap<String, Option<Vec<String>>>;

fn values(state: &State<'_>) -> Values {
    let of = |value: &Value<'_>| match value {
        Value::Text(value) => {
            Some(kernel_words(value).map(|range| value.text[range].to_owned()).collect())
        }
        Value::List(_) | Value::Open => None,
    };
    state.variables().map(|(name, value)| (name.to_owned(), of(value))).collect()
}

/// Blank-separated words of a value; double quotes keep blanks together, and so does whatever the
/// shell puts there.
fn kernel_words(value: &Word<'_>) -> impl Iterator<Item = Range<usize>> {
    let mut found = Vec::new();
    let mut start = None;
    let mut is_quoted = false;
    for (at, c) in value.text.char_indices() {
        let is_inside = value.expansions.iter().any(|expansion| expansion.range.contains(&at));
        if c == '"' && !is_inside {
            is_quoted = !is_quoted;
        }
        match (c.is_ascii_whitespace() && !is_quoted && !is_inside, start) {
            (true, Some(from)) => {
                found.push(from..at);
                start = None;
            }
            (false, None) => start = Some(at),
            _ => {}
        }
    }
    found.extend(start.map(|from| from..value.text.len()));
    found.into_iter()
}

/// Where a variable is assigned, with its name, in order.
fn assignments(text: &str, name: &str) -> Vec<Range<usize>> {
    let is_ours = |word: &Word<'_>| {
        let rest = text.get(word.raw.clone()).and_then(|raw| raw.strip_prefix(name));
        rest.is_some_and(|rest| rest.starts_with('=') || rest.starts_with("+="))
    };
    let tokens = Lexer::exact_tokens(text).unwrap_or_default();
    let ranges = tokens.iter().filter_map(|token| match token {
        Token::Word(word) if is_ours(word) => Some(word.raw.clone()),
        _ => None,
    });
    ranges.collect()
}

/// Nothing in such a word means anything to a shell, or to the kernel's reader of words.
fn is_plain(word: &str) -> bool {
    let is_safe = |c: char| c.is_ascii_alphanumeric() || "_.,:=/+@%-".contains(c);
    !word.is_empty() && word.chars().all(is_safe)
}

/// Text to insert, and bytes to take out, by their place.
#[derive(Clone, Default)]
struct Edits {
    inserted: BTreeMap<usize, String>,
    gone: BTreeSet<usize>,
}

impl Edits {
    /// A part of the text, edited; what is inserted at its end is part of it.
    fn apply(&self, text: &str, part: Range<usize>) -> String {
        let mut result = String::with_capacity(part.len() + 80);
        let mut at = part.start;
        for c in text[part.clone()].chars() {
            result.push_str(self.inserted.get(&at).map_or("", String::as_str));
            if !self.gone.contains(&at) {
                result.push(c);
            }
            at += c.len_utf8();
        }
        result.push_str(self.inserted.get(&part.end).map_or("", String::as_str));
        result
    }

    fn with(&self, inserted: impl IntoIterator<Item = (usize, String)>) -> Self {
        let mut all = self.clone();
        all.inserted.extend(inserted);
        all
    }

    /// The last byte before a place that stays.
    fn byte_before(&self, text: &str, at: usize) -> Option<u8> {
        let kept = (0..at).rev().find(|place| !self.gone.contains(place))?;
        text.as_bytes().get(kept).copied()
    }
}

/// All files as one text.
struct Settings {
    text: String,
    /// Where each file stands in it.
    files: Vec<Range<usize>>,
    shells: Vec<Shell>,
}

impl Settings {
    fn read(files: &[&str]) -> Result<Self, String> {
        let mut text = String::new();
        let mut ranges = Vec::new();
        for file in files {
            // Each has to be whole by itself.
            state(file, Shell::Bash).map(drop).or_else(|_| state(file, Shell::Posix).map(drop))?;
            ranges.push(text.len()..text.len() + file.len());
            text.push_str(file);
            if !file.is_empty() && !file.ends_with('\n') {
                text.push('\n');
            }
        }
        let known = |shell: &Shell| state(&text, *shell).is_ok();
        let shells: Vec<Shell> = [Shell::Posix, Shell::Bash].into_iter().filter(known).collect();
        match shells.is_empty() {
            true => Err(state(&text, Shell::Bash).err().unwrap_or_default()),
            false => Ok(Self { text, files: ranges, shells }),
        }
    }

    fn edited(&self, edits: &Edits) -> String {
        edits.apply(&self.text, 0..self.text.len())
    }

    fn change(&self, wanted: &Wanted<'_>) -> Result<Outcome, String> {
        if let Some(word) = wanted.add.iter().find(|word| !is_plain(word)) {
            return Err(format!("'{word}' would have to be quoted"));
        }
        let mut edits = self.without(wanted)?;
        let text = self.edited(&edits);
        let missing: Vec<&str> =
            wanted.add.iter().filter(|word| !self.has(&text, wanted, word)).copied().collect();
        if !missing.is_empty() {
            edits = self.with(edits, wanted, &missing)?;
        }
        let parts = self.files.iter().enumerate().map(|(index, part)| {
            (index, &self.text[part.clone()], edits.apply(&self.text, part.clone()))
        });
        let changed: BTreeMap<usize, String> = parts
            .filter(|(_, before, after)| before != after)
            .map(|(index, _, after)| (index, after))
            .collect();
        // Each file is sourced by itself.
        for after in changed.values() {
            self.shells.iter().try_for_each(|shell| state(after, *shell).map(drop))?;
        }
        Ok(if changed.is_empty() { Outcome::Same } else { Outcome::Changed(changed) })
    }

    /// Whether a word is in one of the variables, whatever shell reads them.
    fn has(&self, text: &str, wanted: &Wanted<'_>, word: &str) -> bool {
        self.shells.iter().all(|shell| {
            let values = state(text, *shell).map(|state| values(&state)).unwrap_or_default();
            let mut words =
                wanted.variables.iter().filter_map(|name| values.get(*name)).flatten().flatten();
            words.any(|given| given == word)
        })
    }

    /// What takes the words out that have to go.
    fn without(&self, wanted: &Wanted<'_>) -> Result<Edits, String> {
        let mut edits = Edits::default();
        if wanted.remove.is_empty() {
            return Ok(edits);
        }
        let is_unwanted = |word: &str| wanted.remove.contains(&word);
        let mut may_hide = false;
        for shell in &self.shells {
            let state = state(&self.text, *shell)?;
            for (name, value) in
                state.variables().filter(|(name, _)| wanted.variables.contains(name))
            {
                let Value::Text(value) = value else {
                    return Err(format!("what {name} holds depends on a condition"));
                };
                may_hide |= !value.expansions.is_empty();
                for range in kernel_words(value) {
                    if is_unwanted(&value.text[range.clone()]) {
                        edits.gone.extend(places(&self.text, value, range));
                    }
                }
            }
        }
        let kept = |words: &[String]| -> Vec<String> {
            words.iter().filter(|word| !is_unwanted(word)).cloned().collect()
        };
        self.verify(&self.text, &self.edited(&edits), wanted.variables, |_, before, after| {
            kept(before) == after
        })?;
        if edits.gone.is_empty() && may_hide {
            let words = wanted.remove.join(" ");
            return Err(format!("'{words}' may be in what a command or a variable puts there"));
        }
        Ok(edits)
    }

    /// Words added where they take the simplest form that gives what is meant.
    fn with(&self, edits: Edits, wanted: &Wanted<'_>, missing: &[&str]) -> Result<Edits, String> {
        let before = self.edited(&edits);
        let words = missing.join(" ");
        let is_assigned = |name: &&&str| !assignments(&self.text, name).is_empty();
        let Some(name) = wanted.variables.iter().find(is_assigned).or(wanted.variables.first())
        else {
            return Err("no variable holds such words".into());
        };
        let places = assignments(&self.text, name);
        let inside =
            places.iter().rev().take(MAX_PLACES).flat_map(|at| self.inside(&edits, at, &words));
        let line = match places.is_empty() {
            true => format!("{name}=\"{words}\"\n"),
            false => format!("{name}=\"${name} {words}\"\n"),
        };
        let behind = self.files.iter().map(|file| {
            let is_open = !file.is_empty() && !self.text[..file.end].ends_with('\n');
            edits.with([(file.end, format!("{}{line}", if is_open { "\n" } else { "" }))])
        });
        let is_new = |word: &&String| missing.contains(&word.as_str());
        let is_meant = |variable: &str, before: &[String], after: &[String]| {
            let kept = |words: &[String]| -> Vec<String> {
                words.iter().filter(|word| !is_new(word)).cloned().collect()
            };
            let (old, new) =
                (before.iter().filter(is_new).count(), after.iter().filter(is_new).count());
            match variable == *name {
                true => kept(before) == kept(after) && new == old + missing.len(),
                false => before == after,
            }
        };
        let mut why = String::new();
        for candidate in inside.chain(behind) {
            match self.verify(&before, &self.edited(&candidate), wanted.variables, is_meant) {
                Ok(()) => return Ok(candidate),
                Err(fault) => why = fault,
            }
        }
        Err(why)
    }

    /// Ways to add words to one assignment, the one that people would write first.
    fn inside(&self, edits: &Edits, at: &Range<usize>, words: &str) -> Vec<Edits> {
        let raw = &self.text[at.clone()];
        let Some(equals) = raw.find('=') else { return vec![] };
        let (value, start) = (&raw[equals + 1..], at.start + equals + 1);
        let gap = |place: usize| match edits.byte_before(&self.text, place) {
            Some(b'"' | b'\'' | b' ' | b'\t' | b'\n' | b'=') => "",
            _ => " ",
        };
        let mut ways = Vec::new();
        if value.len() > 1 && value.ends_with(['"', '\'']) {
            let place = at.end - 1;
            ways.push(edits.with([(place, format!("{}{words}", gap(place)))]));
            ways.push(edits.with([(place, format!(" {words}"))]));
        } else if !value.contains(['"', '\'', '\\', '$', '`', '~']) {
            let gap = gap(at.end);
            ways.push(match value.is_empty() {
                true => edits.with([(start, format!("\"{words}\""))]),
                false => {
                    edits.with([(start, "\"".to_owned()), (at.end, format!("{gap}{words}\""))])
                }
            });
        }
        ways.push(edits.with([(at.end, format!("\" {words}\""))]));
        ways
    }

    /// Every shell that took the text takes the edited one; what is asked for holds for the
    /// variables, and no other setting changes.
    fn verify(
        &self,
        before: &str,
        after: &str,
        variables: &[&str],
        is_meant: impl Fn(&str, &[String], &[String]) -> bool,
    ) -> Result<(), String> {
        for shell in &self.shells {
            let (old, new) = (state(before, *shell)?, state(after, *shell)?);
            let (old_words, new_words) = (values(&old), values(&new));
            for name in variables {
                // What depends on a condition may have grown at its end.
                let own = [format!("${name}")];
                let none = Vec::new();
                let (before, after) = match (old_words.get(*name), new_words.get(*name)) {
                    (Some(None), Some(None)) => (&none[..], &none[..]),
                    (Some(None), Some(Some(after))) => (&own[..], &after[..]),
                    (Some(Some(before)), Some(Some(after))) => (&before[..], &after[..]),
                    (None, Some(Some(after))) => (&none[..], &after[..]),
                    (None, None) => (&none[..], &none[..]),
                    _ => return Err(format!("{name} would not hold what is meant")),
                };
                if !is_meant(name, before, after) {
                    return Err(format!("{name} would not hold what is meant"));
                }
            }
            others_are_kept(before, &old, &new, variables)?;
        }
        Ok(())
    }
}

/// The bytes of a word of a value in the source, with one of the blanks beside it.
fn places(text: &str, value: &Word<'_>, word: Range<usize>) -> Vec<usize> {
    let place = |at: usize| value.source(at..at + 1).start;
    let is_blank = |at: usize| value.text.as_bytes()[at].is_ascii_whitespace();
    let (first, last) = (place(word.start), place(word.end - 1));
    let (mut start, mut end) = (word.start, word.end);
    if start > 0 && is_blank(start - 1) && place(start - 1) + 1 == first {
        start -= 1;
    } else if end < value.text.len() && is_blank(end) && place(end) == last + 1 {
        end += 1;
    }
    let mut found = Vec::new();
    for index in start..end {
        let at = place(index);
        found.push(at);
        // The backslash before it goes with it, where that is not a part of the value.
        let is_escaped = at > 0 && text.as_bytes()[at - 1] == b'\\';
        if is_escaped && (index == 0 || place(index - 1) != at - 1) {
            found.push(at - 1);
        }
    }
    found
}

/// Variables of other purposes hold what they held; those that only feed the wanted ones may
/// change, unless something uses them that is not followed.
fn others_are_kept(
    text: &str,
    old: &State<'_>,
    new: &State<'_>,
    variables: &[&str],
) -> Result<(), String> {
    let all = |state: &State<'_>| -> BTreeMap<String, Option<String>> {
        let of = |value: &Value<'_>| match value {
            Value::Text(word) => Some(word.text.to_string()),
            Value::List(_) | Value::Open => None,
        };
        state.variables().map(|(name, value)| (name.to_owned(), of(value))).collect()
    };
    let (old, new) = (all(old), all(new));
    let names: BTreeSet<&String> = old.keys().chain(new.keys()).collect();
    let has_open = new.values().any(Option::is_none);
    for name in names.into_iter().filter(|name| old.get(*name) != new.get(*name)) {
        let mentions =
            |text: &str| text.contains(&format!("${name}")) || text.contains(&format!("${{{name}"));
        if is_used_by_command(text, mentions) {
            return Err(format!("a command in it uses {name}"));
        }
        if variables.contains(&name.as_str()) {
            continue;
        }
        let is_hidden = |text: &String| text.contains('$') && text.contains(name.as_str());
        let is_setting =
            name.starts_with("GRUB_") || !old.contains_key(name) || !new.contains_key(name);
        if is_setting || has_open || new.values().flatten().any(is_hidden) {
            return Err(format!("{name} would change as well"));
        }
    }
    Ok(())
}

/// Whether a word of a command, and not of an assignment, is such.
fn is_used_by_command(text: &str, mentions: impl Fn(&str) -> bool) -> bool {
    let tokens = Lexer::exact_tokens(text).unwrap_or_default();
    tokens.iter().any(|token| match token {
        Token::Word(word) => {
            let name = word.text.split('=').next().unwrap_or_default();
            let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '+';
            let assigns = word.text.contains('=') && !name.is_empty() && name.chars().all(is_name);
            !assigns && word.has_expansion && mentions(&word.text)
        }
        _ => false,
    })
}
