//! Places that hold secrets, names or serial numbers, whatever stands there: known by the word
//! before them.

use std::ops::Range;

const SECRETS: &[&str] = &[
    "password",
    "passwd",
    "secret",
    "token",
    "credential",
    "apikey",
    "api-key",
    "api_key",
    "authkey",
    "passphrase",
    "signature",
    "access_key",
    "accesskey",
    "access-key",
    "private",
    "_pass",
    "-pass",
    "_pwd",
    "_key",
    "-key",
];

/// Names that tell as a whole, or as the last part behind a dot.
const WHOLE: &[&str] = &[
    "data",
    "key",
    "string",
    "cookie",
    "authorization",
    "pass",
    "pwd",
    "psk",
    "pw",
    "sig",
    "auth",
    "bearer",
    "serial",
    "sn",
    "asset",
    "serial-number",
    "serial_number",
    "serialnumber",
    "asset_tag",
    "guest",
    "hostname",
    "host_name",
    "nodename",
    "title",
    "description",
    "username",
    "user",
    "ciuser",
    "cipassword",
    "sshkeys",
    "login",
    "runas",
    "email",
    "searchdomain",
    "wwn",
    "wwpn",
    "wwnn",
];

/// Elements whose text is all of it, to the end tag.
const ELEMENTS: &[&str] = &[
    "title",
    "description",
    "password",
    "secret",
    "value",
    "serial",
    "oemStrings",
    "name",
    "hostname",
    "metadata",
    "product",
    "vendor_id",
    "wwn",
    "owner",
    "label",
    "imagelabel",
    "baselabel",
];

/// Bytes between a name and its value.
const MOST_BETWEEN: usize = 8;

/// The stretches of a text in which no word stays. `is_word` if the text is one word of a command
/// line, in which blanks belong to a value.
pub(super) fn places(text: &str, is_word: bool) -> Vec<Range<usize>> {
    let mut found = vec![];
    urls(text, &mut found);
    elements(text, &mut found);
    let bytes = text.as_bytes();
    let mut at = 0;
    while at < bytes.len() {
        if !is_name(bytes[at]) {
            at += 1;
            continue;
        }
        let length = bytes[at..].iter().position(|byte| !is_name(*byte)).unwrap_or(text.len() - at);
        let end = at + length;
        let is_smbios = &text[at..end] == "value" && text[..at].contains("type=11,");
        if (is_telling(&text[at..end]) || is_smbios || is_short_option(&text[..end], at))
            && let Some(value) = value(text, at, end, is_word)
        {
            found.push(value);
        }
        at = end;
    }
    merged(found)
}

/// In order, and none within another.
pub(super) fn merged(mut places: Vec<Range<usize>>) -> Vec<Range<usize>> {
    places.sort_by_key(|range| range.start);
    let mut result: Vec<Range<usize>> = vec![];
    for place in places {
        match result.last_mut().filter(|last| place.start <= last.end) {
            Some(last) => last.end = last.end.max(place.end),
            None => result.push(place),
        }
    }
    result
}

fn is_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.')
}

/// A name behind which a private value stands.
pub(super) fn is_telling(name: &str) -> bool {
    let name = name.trim_start_matches('-').to_ascii_lowercase();
    let last = name.rsplit('.').next().unwrap_or(&name);
    // `password-secret=sec0` names an object; the name goes as every name does.
    WHOLE.contains(&last)
        || SECRETS.iter().any(|word| name.contains(word)) && !name.ends_with("-secret")
}

/// `-p X` and `-u X`, which no monitor has but many a client.
fn is_short_option(before: &str, at: usize) -> bool {
    matches!(&before[at..], "-p" | "-u")
        && !before[..at].ends_with(|c: char| !c.is_whitespace() && c != '\'' && c != '"')
}

/// The value behind a name, if something joins them.
fn value(text: &str, start: usize, end: usize, is_word: bool) -> Option<Range<usize>> {
    let bytes = text.as_bytes();
    let is_option = bytes[start] == b'-';
    let between = text[end..]
        .bytes()
        .take(MOST_BETWEEN)
        .take_while(|byte| matches!(byte, b' ' | b'\t' | b'=' | b':' | b'"' | b'\'' | b'\\' | b'>'))
        .count();
    let joint = &text[end..end + between];
    let has_joint = joint.contains(['=', ':', '>']) || is_option && joint.contains(' ');
    let from = end + between;
    if !has_joint || joint.contains("::") || text[from..].starts_with("//") {
        return None;
    }
    let rest = &text[from..];
    let quote = joint.chars().next_back().filter(|c| matches!(c, '"' | '\''));
    let line = rest.find('\n').unwrap_or(rest.len());
    let length = match quote {
        Some(quote) => closing(&rest[..line], quote),
        None if joint.contains('>') => rest.find('<').unwrap_or(rest.len()),
        // A header's value has several words.
        None if joint.contains(':') && !joint.contains('=') => line,
        None => unquoted(&rest[..line], is_word),
    };
    (length > 0).then_some(from..from + length)
}

fn closing(rest: &str, quote: char) -> usize {
    let mut is_escaped = false;
    rest.char_indices()
        .find(|(_, c)| {
            let ends = *c == quote && !is_escaped;
            is_escaped = *c == '\\' && !is_escaped;
            ends
        })
        .map_or(rest.len(), |(at, _)| at)
}

/// To a single comma: two of them are one comma of the value.
fn unquoted(rest: &str, is_word: bool) -> usize {
    let bytes = rest.as_bytes();
    let mut at = 0;
    while at < bytes.len() {
        match bytes[at] {
            b',' if bytes.get(at + 1) == Some(&b',') => at += 1,
            b',' => return at,
            b' ' | b'\t' if !is_word => return at,
            _ => {}
        }
        at += 1;
    }
    rest.len()
}

/// `scheme://user:password@host`, and `user%password@host`.
fn urls(text: &str, found: &mut Vec<Range<usize>>) {
    for (at, mark) in text.match_indices("://") {
        let from = at + mark.len();
        let rest = &text[from..];
        let ends = |c: char| c.is_whitespace() || matches!(c, '/' | '?' | '#' | '"' | '\'' | '<');
        let authority = &rest[..rest.find(ends).unwrap_or(rest.len())];
        if let Some(length) = authority.rfind('@') {
            found.push(from..from + length);
        }
    }
    for (at, _) in text.match_indices('@') {
        let starts =
            |c: char| c.is_whitespace() || matches!(c, '=' | '/' | '"' | '\'' | '<' | '>' | ',');
        let from = text[..at].rfind(starts).map_or(0, |before| before + 1);
        found.push(from..at);
    }
}

fn elements(text: &str, found: &mut Vec<Range<usize>>) {
    for name in ELEMENTS {
        let opening = format!("<{name}");
        for (at, _) in text.match_indices(&opening) {
            let rest = &text[at + opening.len()..];
            let Some(tag) = rest.find('>').filter(|_| rest.starts_with(['>', ' ', '\n'])) else {
                continue;
            };
            if rest[..tag].ends_with('/') {
                continue;
            }
            let from = at + opening.len() + tag + 1;
            let length = text[from..].find(&format!("</{name}")).unwrap_or(0);
            found.push(from..from + length);
        }
    }
}
