//! Words and numbers: which are known, and what stands for the others.

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasher, RandomState};
use std::sync::LazyLock;

/// Words that rules, readers and grammars know, in lower case.
static KNOWN: LazyLock<HashSet<&str>> = LazyLock::new(|| {
    let of_rules = include_str!(concat!(env!("OUT_DIR"), "/words.txt")).split_ascii_whitespace();
    let lines = include_str!("words.txt").lines().filter(|line| !line.starts_with('#'));
    of_rules.chain(lines.flat_map(str::split_ascii_whitespace)).collect()
});

/// Digits behind a known word, as in `net0`.
const MOST_DIGITS: usize = 4;

/// Whether a word says nothing but what a rule or a grammar says.
pub(super) fn is_known(word: &str) -> bool {
    let lower = word.to_ascii_lowercase();
    let has = |word: &str| KNOWN.contains(word);
    let stem = lower.trim_end_matches(|c: char| c.is_ascii_digit());
    let has_stem =
        |stem: &str| lower.len() - stem.len() <= MOST_DIGITS && stem.len() > 1 && has(stem);
    let mut parts = lower.split('_');
    has(&lower)
        || has_stem(stem)
        || lower.contains('_') && parts.all(|part| part.is_empty() || has(part) || is_count(part))
        || lower.strip_prefix(|c: char| c.is_ascii_digit()).is_some() && is_quantity(&lower)
}

fn is_count(part: &str) -> bool {
    part.len() <= MOST_DIGITS && part.bytes().all(|byte| byte.is_ascii_digit())
}

/// A number with its unit, such as 16G or 100ms.
fn is_quantity(word: &str) -> bool {
    let unit = word.trim_start_matches(|c: char| c.is_ascii_digit());
    let units = ["k", "m", "g", "t", "kb", "mb", "gb", "kib", "mib", "gib", "s", "ms", "us", "ns"];
    word.len() - unit.len() <= 6 && units.contains(&unit)
}

/// What stands for words, in one snapshot.
#[derive(Debug, Default)]
pub(super) struct Words {
    key: RandomState,
    made: HashMap<String, String>,
    taken: HashSet<String>,
}

impl Words {
    /// Stands for this word everywhere: as many letters, and for no other word.
    pub(super) fn stand_in(&mut self, word: &str) -> &str {
        if !self.made.contains_key(word) {
            let made = self.make(word);
            self.taken.insert(made.clone());
            self.made.insert(word.to_owned(), made);
        }
        &self.made[word]
    }

    fn make(&self, word: &str) -> String {
        let is_number = word.bytes().all(|byte| byte.is_ascii_digit());
        let length = word.chars().count();
        (0u32..)
            .map(|attempt| {
                // Where there are too few short words, longer ones stand in.
                let length = length + attempt as usize / 64;
                let (first, radix) = if is_number { (b'1', 9) } else { (b'g', 17) };
                let letters = self.stream(word, attempt).take(length);
                letters.map(|value| char::from(first + (value % radix) as u8)).collect::<String>()
            })
            .find(|made| {
                !self.taken.contains(made) && !is_known(made) && (made != word || is_number)
            })
            .unwrap_or_default()
    }

    /// Digits in place of an address's, for which the form is the caller's.
    pub(super) fn stream(&self, word: &str, attempt: u32) -> impl Iterator<Item = u64> + use<'_> {
        let seed = self.key.hash_one((word, attempt));
        (0u64..).map(move |at| self.key.hash_one((seed, at)) >> 8)
    }
}
