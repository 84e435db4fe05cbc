//! Addresses and identifiers, known by their form.

use super::word::Words;
use std::net::{Ipv4Addr, Ipv6Addr};

/// An address at the start of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// So many bytes that stay as they are.
    Kept(usize),
    /// So many bytes, of which every hexadecimal digit is replaced.
    Digits(usize),
    /// An IPv4 address of so many bytes.
    Ipv4(usize),
}

/// Digits in groups, joined by one character, and how many groups there are at least.
const FORMS: [(usize, char, usize); 5] =
    [(2, ':', 6), (2, '-', 6), (4, ':', 4), (4, '.', 3), (4, '-', 3)];

/// Groups of an address into which something else has run.
const MANY: usize = 5;

/// `has_registers` where eight digits and four in groups are what a register holds.
pub(super) fn at_start(rest: &str, has_registers: bool) -> Option<Found> {
    let end = rest.find(|c: char| !c.is_ascii_hexdigit() && !matches!(c, ':' | '-' | '.'));
    let run = &rest[..end.unwrap_or(rest.len())];
    if let Some(length) = pci(run) {
        return Some(Found::Kept(length));
    }
    if has_registers {
        return None;
    }
    if let Some(length) = uuid(run).or_else(|| groups(run)) {
        return Some(Found::Digits(length));
    }
    ipv6(run).or_else(|| ipv4(run)).or_else(|| many(run))
}

/// Groups of any length, with others run into them: more than a time or a date has.
fn many(run: &str) -> Option<Found> {
    [':', '-'].into_iter().find_map(|joint| {
        let end = run.find(|c: char| !c.is_ascii_hexdigit() && c != joint).unwrap_or(run.len());
        let groups = run[..end].split(joint).filter(|group| !group.is_empty()).count();
        (groups >= MANY).then_some(Found::Digits(end))
    })
}

fn hexadecimal(text: &str, length: usize) -> bool {
    text.len() >= length && text.bytes().take(length).all(|byte| byte.is_ascii_hexdigit())
}

/// Where a run of digits goes on, it is not an address of this form.
fn ends(rest: &str) -> bool {
    !rest.starts_with(|c: char| c.is_ascii_hexdigit())
}

/// `0000:41:00.0` and `41:00.0`.
fn pci(run: &str) -> Option<usize> {
    let short = |text: &str| {
        let bytes = text.as_bytes();
        hexadecimal(text, 2)
            && bytes.get(2) == Some(&b':')
            && text.get(3..).is_some_and(|rest| hexadecimal(rest, 2))
            && bytes.get(5) == Some(&b'.')
            && matches!(bytes.get(6), Some(b'0'..=b'7'))
            && !matches!(bytes.get(7), Some(byte) if byte.is_ascii_hexdigit() || matches!(byte, b':'))
    };
    let long = hexadecimal(run, 4) && run.as_bytes().get(4) == Some(&b':');
    if long && short(&run[5..]) { Some(12) } else { short(run).then_some(7) }
}

fn uuid(run: &str) -> Option<usize> {
    let word = run.get(..36)?;
    let has_form = word.bytes().enumerate().all(|(at, byte)| match at {
        8 | 13 | 18 | 23 => byte == b'-',
        _ => byte.is_ascii_hexdigit(),
    });
    (has_form && ends(&run[36..])).then_some(36)
}

fn groups(run: &str) -> Option<usize> {
    FORMS.into_iter().find_map(|(digits, joint, least)| {
        let (mut length, mut count) = (0, 0);
        while hexadecimal(&run[length..], digits) && ends(&run[length + digits..]) {
            length += digits;
            count += 1;
            match run[length..].strip_prefix(joint) {
                Some(next) if hexadecimal(next, digits) => length += 1,
                _ => break,
            }
        }
        // Numbers that are joined by dashes are a date or the like when they are few. The last
        // group may be the first part of an IPv4 address.
        let goes_on = |rest: &str| rest.starts_with('.') && hexadecimal(&rest[1..], 1);
        (count >= least && !goes_on(&run[length..])).then_some(length)
    })
}

fn ipv6(run: &str) -> Option<Found> {
    let longest = run.len().min(45);
    let length = (2..=longest).rev().find(|length| {
        run.is_char_boundary(*length) && run[..*length].parse::<Ipv6Addr>().is_ok()
    })?;
    let address: Ipv6Addr = run[..length].parse().ok()?;
    let stays = address.is_loopback() || address.is_unspecified();
    Some(if stays { Found::Kept(length) } else { Found::Digits(length) })
}

/// Also where a word or a full stop stands right behind it.
fn ipv4(run: &str) -> Option<Found> {
    let longest = run.len().min("255.255.255.255".len());
    let parsed = |length: &usize| run.get(..*length)?.parse::<Ipv4Addr>().ok();
    let length = (7..=longest).rev().find(|length| parsed(length).is_some())?;
    let address = parsed(&length)?;
    let stays = address.is_loopback() || address.is_unspecified();
    Some(if stays { Found::Kept(length) } else { Found::Ipv4(length) })
}

/// Another address of the same form; the same for the same digits, however they are joined.
pub(super) fn stand_in(words: &Words, address: &str, found: Found) -> String {
    let digits: String = address.chars().filter(char::is_ascii_hexdigit).collect();
    let key = digits.to_ascii_lowercase();
    let mut stream = words.stream(&key, u32::MAX);
    match found {
        Found::Kept(_) => address.to_owned(),
        Found::Ipv4(_) => {
            let part = |part: &str, value: u64| match part.len() {
                1 => 1 + value % 9,
                2 => 10 + value % 90,
                _ => 100 + value % 156,
            };
            let parts = address.split('.').zip(stream);
            parts.map(|(text, value)| part(text, value).to_string()).collect::<Vec<_>>().join(".")
        }
        Found::Digits(_) => {
            let mut digit = || stream.next().unwrap_or_default();
            let other = |c: char, value: u64| match c {
                '0'..='9' => char::from(b'0' + (value % 10) as u8),
                'a'..='f' => char::from(b'a' + (value % 6) as u8),
                'A'..='F' => char::from(b'A' + (value % 6) as u8),
                c => c,
            };
            address
                .chars()
                .map(|c| if c.is_ascii_hexdigit() { other(c, digit()) } else { c })
                .collect()
        }
    }
}
