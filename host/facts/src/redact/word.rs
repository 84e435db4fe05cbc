//! Words and numbers: which are known, and what stands for the others.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{self, Read};
use std::sync::LazyLock;

/// Words that rules, readers and grammars know, in lower case.
static KNOWN: LazyLock<BTreeSet<&str>> = LazyLock::new(|| {
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
#[derive(Debug)]
pub(super) struct Words {
    /// Nobody else has it, so nobody can try which words ours stand for.
    key: [u8; 32],
    made: BTreeMap<String, String>,
    taken: BTreeSet<String>,
}

impl Words {
    pub(super) fn new() -> io::Result<Words> {
        Ok(Words { key: key()?, made: BTreeMap::new(), taken: BTreeSet::new() })
    }

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
            .find(|made| !self.taken.contains(made) && !is_known(made) && made != word)
            .unwrap_or_default()
    }

    /// Digits in place of an address's, for which the form is the caller's.
    pub(super) fn stream(&self, word: &str, attempt: u32) -> impl Iterator<Item = u64> + use<'_> {
        let seed = self.hash((word, attempt));
        (0u64..).map(move |at| self.hash((seed, at)) >> 8)
    }

    fn hash(&self, value: impl Hash) -> u64 {
        let mut hasher = DefaultHasher::new();
        (self.key, value).hash(&mut hasher);
        hasher.finish()
    }
}

/// From the system, by its call or by its file.
fn key() -> io::Result<[u8; 32]> {
    let mut key = [0; 32];
    let flags = rustix::rand::GetRandomFlags::empty();
    match rustix::rand::getrandom(&mut key, flags) {
        Ok(length) if length == key.len() => {}
        _ => File::open("/dev/urandom")?.read_exact(&mut key)?,
    }
    Ok(key)
}
