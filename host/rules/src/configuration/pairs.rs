//! QEMU's option values: `key=value,…` with doubled commas, or a JSON object; each part with its
//! place.

use super::shell::Word;
use std::ops::Range;

/// Pairs of one option value; QEMU's longest have a few dozen.
const MAX_PAIRS: usize = 4096;
/// Nesting of JSON objects that is followed.
const MAX_DEPTH: usize = 16;

/// One `key=value` of an option, or a bare word (`value` is `None`). Ranges are of the source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pair {
    pub key: String,
    pub value: Option<String>,
    /// The whole pair.
    pub at: Range<usize>,
    /// The value only; where a bare word ends, an empty range there.
    pub value_at: Range<usize>,
}

/// Splits an option value.
pub fn pairs(word: &Word<'_>) -> Vec<Pair> {
    if word.text.trim_start().starts_with('{') { json_pairs(word) } else { keyval_pairs(word) }
}

fn keyval_pairs(word: &Word<'_>) -> Vec<Pair> {
    let text = word.text.as_ref();
    let mut found = Vec::new();
    let mut start = 0;
    while start < text.len() && found.len() < MAX_PAIRS {
        let end = element_end(text, start);
        let element = &text[start..end];
        let (key, value) = match element.split_once('=') {
            Some((key, value)) => (key, Some(value.replace(",,", ","))),
            None => (element, None),
        };
        let value_start = if value.is_some() { start + key.len() + 1 } else { end };
        found.push(Pair {
            key: key.replace(",,", ","),
            value,
            at: word.source(start..end),
            value_at: if value_start < end {
                word.source(value_start..end)
            } else {
                let at = word.source(start..end).end;
                at..at
            },
        });
        start = end + 1;
    }
    found
}

/// End of the element that starts at `start`: the next comma that is not doubled.
fn element_end(text: &str, start: usize) -> usize {
    let bytes = text.as_bytes();
    let mut at = start;
    while at < bytes.len() {
        if bytes[at] == b',' {
            if bytes.get(at + 1) != Some(&b',') {
                return at;
            }
            at += 1;
        }
        at += 1;
    }
    bytes.len()
}

/// Reads a JSON object flat: nested keys are joined with dots, arrays are skipped.
fn json_pairs(word: &Word<'_>) -> Vec<Pair> {
    let mut reader = Json { text: word.text.as_ref(), at: 0, found: Vec::new() };
    reader.blank();
    reader.object("", 0);
    let locate = |pair: Flat| Pair {
        key: pair.key,
        value: Some(pair.value),
        at: word.source(pair.at),
        value_at: word.source(pair.value_at),
    };
    reader.found.into_iter().map(locate).collect()
}

struct Flat {
    key: String,
    value: String,
    at: Range<usize>,
    value_at: Range<usize>,
}

struct Json<'t> {
    text: &'t str,
    at: usize,
    found: Vec<Flat>,
}

impl Json<'_> {
    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn blank(&mut self) {
        while self.peek().is_some_and(|byte| byte.is_ascii_whitespace()) {
            self.at += 1;
        }
    }

    /// Reads an object if one starts here; false when the text is not as JSON says.
    fn object(&mut self, prefix: &str, depth: usize) -> bool {
        if self.peek() != Some(b'{') || depth > MAX_DEPTH {
            return false;
        }
        self.at += 1;
        loop {
            self.blank();
            match self.peek() {
                Some(b'}') => {
                    self.at += 1;
                    return true;
                }
                Some(b',') => self.at += 1,
                Some(b'"') => {
                    if self.found.len() >= MAX_PAIRS || !self.member(prefix, depth) {
                        return false;
                    }
                }
                _ => return false,
            }
        }
    }

    fn member(&mut self, prefix: &str, depth: usize) -> bool {
        let start = self.at;
        let Some(key) = self.string() else { return false };
        self.blank();
        if self.peek() != Some(b':') {
            return false;
        }
        self.at += 1;
        self.blank();
        let key = if prefix.is_empty() { key } else { format!("{prefix}.{key}") };
        let value_start = self.at;
        match self.peek() {
            Some(b'{') => return self.object(&key, depth + 1),
            Some(b'[') => return self.skip_array(),
            Some(b'"') => {
                let Some(value) = self.string() else { return false };
                // Without the quotes, so that a value can be replaced in place.
                let value_at = value_start + 1..self.at - 1;
                self.found.push(Flat { key, value, at: start..self.at, value_at });
            }
            Some(_) => {
                let rest = &self.text[self.at..];
                let length = rest
                    .find(|c: char| matches!(c, ',' | '}' | ']') || c.is_ascii_whitespace())
                    .unwrap_or(rest.len());
                self.at += length;
                let value = rest[..length].to_owned();
                self.found.push(Flat {
                    key,
                    value,
                    at: start..self.at,
                    value_at: value_start..self.at,
                });
            }
            None => return false,
        }
        true
    }

    fn string(&mut self) -> Option<String> {
        let mut value = String::new();
        self.at += 1;
        let mut rest = self.text[self.at..].chars();
        while let Some(next) = rest.next() {
            self.at += next.len_utf8();
            match next {
                '"' => return Some(value),
                '\\' => {
                    let escaped = rest.next()?;
                    self.at += escaped.len_utf8();
                    value.push(escaped);
                }
                other => value.push(other),
            }
        }
        None
    }

    fn skip_array(&mut self) -> bool {
        let mut depth = 0usize;
        while let Some(byte) = self.peek() {
            match byte {
                b'"' => {
                    if self.string().is_none() {
                        return false;
                    }
                    continue;
                }
                b'[' => depth += 1,
                b']' => depth -= 1,
                _ => {}
            }
            self.at += 1;
            while !self.text.is_char_boundary(self.at) {
                self.at += 1;
            }
            if depth == 0 {
                return true;
            }
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_carry_keys_values_and_places() {
        type Read<'t> = &'t [(&'t str, Option<&'t str>)];
        let cases: [(&str, Read<'_>); 7] = [
            ("pc,usb=off", &[("pc", None), ("usb", Some("off"))]),
            ("file=a,,b,x=", &[("file", Some("a,b")), ("x", Some(""))]),
            (
                r#"{"driver":"intel-iommu","eim":"on","n":3,"o":{"p":true}}"#,
                &[
                    ("driver", Some("intel-iommu")),
                    ("eim", Some("on")),
                    ("n", Some("3")),
                    ("o.p", Some("true")),
                ],
            ),
            (r#"{"a":[1,[2,"]"]],"b":"c"}"#, &[("b", Some("c"))]),
            (r#"{"a":"#, &[]),
            (r#"{"a":["#, &[]),
            ("", &[]),
        ];
        for (text, expected) in cases {
            let found = pairs(&Word::plain(text, 0));
            let read: Vec<_> = found.iter().map(|p| (p.key.as_str(), p.value.as_deref())).collect();
            assert_eq!(read, expected, "{text}");
            for pair in found.iter().filter(|pair| !pair.value_at.is_empty()) {
                let value = pair.value.as_deref().unwrap_or_default();
                assert_eq!(text[pair.value_at.clone()].replace(",,", ","), value, "{text}");
            }
        }
    }
}
