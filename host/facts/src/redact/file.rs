//! A file of a snapshot, by its kind.

use super::address::{self, Found};
use super::place::{is_telling, merged, places};
use super::word::{Words, is_known};
use crate::{log, wanted};
use std::collections::BTreeMap;
use std::io;
use std::ops::Range;

/// Longest line that is looked at; a longer one is dropped whole.
const LINE_LIMIT: usize = 256 << 10;

/// What numbers a text may show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// Small ones: a person wrote it.
    Written,
    /// Any, and hexadecimal ones: the kernel or the processor says it.
    Told,
    /// The same, in groups of digits that look like addresses elsewhere.
    Registers,
}

/// Redacts the files of one snapshot.
#[derive(Debug)]
pub struct Redactor {
    words: Words,
    /// New base names of files that are read in the order of their names.
    ordered: BTreeMap<String, String>,
    /// How many words, numbers and addresses were replaced.
    pub replaced: usize,
}

/// Folders whose files are read in the order of their names.
const ORDERED: [&str; 7] = [
    "modprobe.d/",
    "etc/default/grub.d/",
    "etc/dracut.conf.d/",
    "loader/entries/",
    "etc/mkinitcpio.d/",
    "sos_commands/",
    "avicenna/",
];

/// How names of files begin that readers know them by.
const FRONTS: [&str; 6] = ["cpuid", "lscpu", "dmesg", "uname", "ps_", "acpidump"];

/// Firmware tables that rules read.
const TABLES: [&str; 3] = ["IVRS", "DMAR", "APIC"];

impl Redactor {
    /// For a snapshot with these files; an error if the system gives no random numbers.
    pub fn new<'p>(paths: impl Iterator<Item = &'p str>) -> io::Result<Redactor> {
        let mut redactor = Redactor { words: Words::new()?, ordered: BTreeMap::new(), replaced: 0 };
        let is_ordered = |path: &&str| ORDERED.iter().any(|folder| path.contains(folder));
        let mut names: Vec<&str> =
            paths.filter(is_ordered).filter_map(|path| path.rsplit('/').next()).collect();
        // Where a file of ours would stand, had the host one.
        names.push("avicenna.conf");
        names.sort_unstable();
        names.dedup();
        let mut before = String::new();
        let mut count = 0;
        for name in names {
            let new = match redactor.name(name) {
                same if same == name => {
                    (before, count) = (same.clone(), 0);
                    same
                }
                _ => {
                    count += 1;
                    let (stem, end) = before.rsplit_once('.').unwrap_or((&before, "conf"));
                    let end = name.rsplit_once('.').map_or(end, |(_, own)| own);
                    let end = if is_known(end) { end } else { "conf" };
                    // Behind the last known name, and in front of the next.
                    format!("{stem}_{count:03}.{end}")
                }
            };
            redactor.ordered.insert(name.to_owned(), new);
        }
        redactor.replaced = 0;
        Ok(redactor)
    }

    /// A file's name; what tells readers what it is stays in front.
    fn name(&mut self, name: &str) -> String {
        let front =
            FRONTS.iter().find(|front| name.starts_with(**front)).map_or(0, |front| front.len());
        let (front, rest) = name.split_at(front);
        let parts: Vec<String> =
            rest.split('_').map(|part| self.line(part, Kind::Written, &[])).collect();
        format!("{front}{}", parts.join("_"))
    }

    /// Where a file stands in the snapshot.
    pub fn path(&mut self, path: &str) -> String {
        let (folder, name) = path.rsplit_once('/').unwrap_or(("", path));
        if !folder.is_empty()
            && ORDERED.iter().any(|ordered| path.contains(ordered))
            && let Some(new) = self.ordered.get(name)
        {
            return format!("{folder}/{new}");
        }
        if path.starts_with("sys/") || path.starts_with("proc/") {
            return self.line(path, Kind::Told, &[]);
        }
        let is_machines = path.contains("libvirt/qemu/");
        match name.rsplit_once('.').filter(|_| is_machines) {
            Some((stem, end)) => {
                let all = 0..stem.len();
                format!("{folder}/{}.{end}", self.line(stem, Kind::Written, &[all]))
            }
            None if folder.is_empty() => self.name(name),
            None => format!("{folder}/{}", self.name(name)),
        }
    }

    /// What goes out of a file.
    pub fn file(&mut self, path: &str, bytes: &[u8]) -> Vec<u8> {
        // ACPI tables are binary, and hold no identity beyond the vendor's own; formats of events
        // are the kernel's source.
        let is_format = path.starts_with("sys/kernel/") && path.ends_with("/format");
        if path.starts_with("sys/firmware/acpi/tables/") || is_format {
            return bytes.to_vec();
        }
        if wanted::is_process(path) {
            return self.arguments(&wanted::arguments(bytes)).into_bytes();
        }
        let text = String::from_utf8_lossy(bytes);
        let name = path.rsplit('/').next().unwrap_or(path);
        if path.starts_with("sos_commands/process/ps_") {
            self.text(&kept(&text, is_of_monitor), Kind::Written)
        } else if name.starts_with("dmesg") {
            let is_kept =
                |_: usize, line: &str| log::is_wanted(line) || line.contains("Linux version");
            self.text(&kept(&text, is_kept), Kind::Told)
        } else if name.starts_with("acpidump") {
            self.text(&tables(&text), Kind::Registers)
        } else if name.starts_with("cpuid")
            || path.starts_with("avicenna/msr")
            || path.starts_with("avicenna/cpuid")
        {
            self.text(&text, Kind::Registers)
        } else if path != "proc/cmdline" && (path.starts_with("sys/") || path.starts_with("proc/"))
        {
            self.text(&text, Kind::Told)
        } else {
            self.text(&text, Kind::Written)
        }
        .into_bytes()
    }

    /// The words of a command line, each with a zero behind it.
    fn arguments(&mut self, words: &[String]) -> String {
        let mut redacted = String::new();
        let (mut hides_next, mut is_after_name) = (false, false);
        for word in words.iter().filter(|word| word.len() <= LINE_LIMIT) {
            let is_option = word.starts_with('-');
            let whole = 0..word.len();
            let places = match hides_next && !is_option {
                true => vec![whole],
                false if is_after_name && !word.contains("guest=") => {
                    let end = word.find(',').unwrap_or(word.len());
                    std::iter::once(0..end).collect()
                }
                false => places(word, true),
            };
            redacted.push_str(&self.line(word, Kind::Written, &places));
            redacted.push('\0');
            is_after_name = word == "-name";
            hides_next = is_option
                && !word.contains('=')
                && (is_telling(word) && word != "-serial" || matches!(word.as_str(), "-p" | "-u"));
        }
        redacted
    }

    fn text(&mut self, text: &str, kind: Kind) -> String {
        let is_short = |line: &str| line.len() <= LINE_LIMIT;
        let short: String = text
            .split_inclusive('\n')
            .map(|line| if is_short(line) { line } else { "redacted\n" })
            .collect();
        let mut places = places(&short, false);
        if kind == Kind::Written {
            places.extend(comments(&short));
            places = merged(places);
        }
        self.line(&short, kind, &places)
    }

    /// Word by word. In `strict` places nothing stays.
    fn line(&mut self, text: &str, kind: Kind, strict: &[Range<usize>]) -> String {
        let mut redacted = String::with_capacity(text.len());
        let mut at = 0;
        let mut next = 0;
        while let Some(c) = text[at..].chars().next() {
            while strict.get(next).is_some_and(|place| place.end <= at) {
                next += 1;
            }
            let is_strict = strict.get(next).is_some_and(|place| place.start <= at);
            let rest = &text[at..];
            if let Some(length) = escape(rest) {
                redacted.push_str(if length > 2 { "?" } else { &rest[..length] });
                at += length;
                continue;
            }
            let is_in_word = text[..at].ends_with(is_word);
            let found = (!is_in_word && (c.is_ascii_hexdigit() || c == ':'))
                .then(|| address::at_start(rest, kind == Kind::Registers))
                .flatten();
            if let Some(found) =
                found.filter(|found| !(is_strict && matches!(found, Found::Kept(_))))
            {
                let (Found::Kept(length) | Found::Digits(length) | Found::Ipv4(length)) = found;
                redacted.push_str(&address::stand_in(&self.words, &rest[..length], found));
                self.replaced += usize::from(!matches!(found, Found::Kept(_)));
                at += length;
                continue;
            }
            if !is_word(c) {
                redacted.push(c);
                at += c.len_utf8();
                continue;
            }
            let length = rest.find(|c| !is_word(c)).unwrap_or(rest.len());
            let word = &rest[..length];
            let is_piece = is_piece(&text[..at], &rest[length..]) && has_letter_and_digit(word);
            if !is_strict && !is_piece && stays(word, kind) {
                redacted.push_str(word);
            } else {
                redacted.push_str(self.words.stand_in(word));
                self.replaced += 1;
            }
            at += length;
        }
        redacted
    }
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// Whether something stands within a longer word of base64.
fn is_piece(before: &str, after: &str) -> bool {
    const JOINTS: [char; 2] = ['+', '/'];
    let goes_on = after.starts_with(JOINTS) && !after[1..].starts_with(char::is_whitespace);
    before.ends_with(JOINTS) || goes_on
}

/// Hexadecimal by chance: a number that the kernel says has a place of its own.
fn has_letter_and_digit(word: &str) -> bool {
    let letters = word.bytes().filter(u8::is_ascii_alphabetic).count();
    word.len() > 4 && letters > 0 && letters < word.len() && !is_known(word)
}

/// The length of an escape of JSON, a shell or XML at the start of a text.
fn escape(rest: &str) -> Option<usize> {
    if rest.starts_with('\\') {
        let next = rest.chars().nth(1)?;
        if next == 'u' {
            let digits = rest.get(2..6)?;
            return digits.bytes().all(|byte| byte.is_ascii_hexdigit()).then_some(6);
        }
        return matches!(next, 'n' | 't' | 'r' | 'b' | 'f' | '\\' | '"' | '\'' | '/').then_some(2);
    }
    let number = rest.strip_prefix("&#")?;
    let length = number.find(';').filter(|length| *length < 9)?;
    Some(length + 3)
}

/// Whether a word or number that stands in no place of a secret may be shown.
fn stays(word: &str, kind: Kind) -> bool {
    let digits = |word: &str| word.bytes().all(|byte| byte.is_ascii_digit());
    let hexadecimal = |word: &str| word.bytes().all(|byte| byte.is_ascii_hexdigit());
    let is_told = kind != Kind::Written;
    if digits(word) {
        return word.len() <= if is_told { 20 } else { 6 };
    }
    // A number of JSON with its exponent.
    if let Some((number, exponent)) = word.split_once(['e', 'E'])
        && !number.is_empty()
        && number.len() <= 6
        && matches!(exponent.len(), 1 | 2)
        && digits(number)
        && digits(exponent)
    {
        return true;
    }
    if let Some(number) = word.strip_prefix("0x").or_else(|| word.strip_prefix("0X")) {
        return hexadecimal(number) && number.len() <= if is_told { 16 } else { 8 };
    }
    let is_number = is_told && hexadecimal(word) && word.len() <= 16;
    is_number && (kind == Kind::Registers || is_printed(word)) || is_known(word)
}

/// Whether hexadecimal digits look as the kernel prints a number, rather than as a person's word.
fn is_printed(word: &str) -> bool {
    let has = |is: fn(&u8) -> bool| word.bytes().any(|byte| is(&byte));
    let is_of_one_case = !(has(u8::is_ascii_uppercase) && has(u8::is_ascii_lowercase));
    let is_mask = word.bytes().all(|byte| matches!(byte, b'f' | b'F'));
    is_of_one_case && (word.len() <= 4 || is_mask || has(u8::is_ascii_digit))
}

/// Comments are for readers: nothing in them stays, unless they are for us.
fn comments(text: &str) -> Vec<Range<usize>> {
    let (mut at, mut places) = (0, vec![]);
    for line in text.split_inclusive('\n') {
        if line.trim_start().starts_with('#') && !line.contains("avicenna:") {
            places.push(at..at + line.len());
        }
        at += line.len();
    }
    places
}

fn kept(text: &str, is_kept: impl Fn(usize, &str) -> bool) -> String {
    let lines = text.split_inclusive('\n').enumerate();
    lines.filter(|(number, line)| is_kept(*number, line)).map(|(_, line)| line).collect()
}

/// A process list's heading, and what runs virtual machines.
fn is_of_monitor(number: usize, line: &str) -> bool {
    let words: Vec<String> = line.split_whitespace().take(40).map(str::to_owned).collect();
    number == 0
        || words.iter().any(|word| word == "PID")
        || (0..words.len()).any(|from| wanted::is_monitor(&words[from..]))
}

/// The tables that rules read, of a listing of all.
fn tables(text: &str) -> String {
    let mut is_wanted = false;
    kept_by(text, |line| {
        if !line.starts_with(char::is_whitespace) && !line.trim().is_empty() {
            is_wanted = TABLES.iter().any(|table| line.starts_with(table));
        }
        is_wanted
    })
}

fn kept_by(text: &str, mut is_kept: impl FnMut(&str) -> bool) -> String {
    text.split_inclusive('\n').filter(|line| is_kept(line)).collect()
}
