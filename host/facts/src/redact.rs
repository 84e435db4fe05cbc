//! What a snapshot leaves out: serial numbers, MAC addresses, UUIDs, passwords and other secrets.
//!
//! Applied to every text before it is written, line by line. A value becomes `<redacted:KIND>`, so
//! that the shape of the line stays readable for the rules. `avicenna snapshot --show-rules` prints
//! [`RULES`].

/// A kind of secret and how it is known.
pub struct Rule {
    /// What stands for the value: `<redacted:KIND>`.
    pub kind: &'static str,
    /// How it is known, for people.
    pub what: &'static str,
}

/// All of them, in the order in which they are explained.
pub const RULES: &[Rule] = &[
    Rule { kind: "uuid", what: "8-4-4-4-12 hexadecimal digits, anywhere" },
    Rule { kind: "mac", what: "six pairs of hexadecimal digits joined by ':' or '-', anywhere" },
    Rule {
        kind: "serial",
        what: "the value after serial=, serial:, sn=, asset=, and <serial>, <entry name='serial'> in XML",
    },
    Rule {
        kind: "secret",
        what: "the value after a word that contains password, passwd, secret, token, credential, apikey, api-key, \
               authkey or passphrase, or is data, key, string, cookie, authorization, pass, pwd or psk, joined by '=', ':' or \
               a blank option (--token X), such XML attributes, and SMBIOS strings (type=11,value=)",
    },
    Rule {
        kind: "data",
        what: "base64 and hexadecimal runs of 32 or more characters with letters and digits",
    },
    Rule {
        kind: "user",
        what: "what stands before the host inside URLs (scheme://user:password@host, user%password@host)",
    },
    Rule { kind: "address", what: "IPv4 addresses other than 0.0.0.0 and 127.x" },
];

/// Longest line that is redacted by the rules; a longer one is dropped whole.
const LINE_LIMIT: usize = 256 << 10;

/// Redacts a text.
pub fn text(text: &str) -> String {
    let mut redacted = String::with_capacity(text.len());
    for line in text.split_inclusive('\n') {
        let (body, end) = line.strip_suffix('\n').map_or((line, ""), |body| (body, "\n"));
        if body.len() > LINE_LIMIT {
            redacted.push_str("<redacted:long line>");
        } else {
            redacted.push_str(&line_of_text(body, Form::Line));
        }
        redacted.push_str(end);
    }
    redacted
}

/// Redacts the words of a command line, where a secret may stand in the word after its name.
pub fn arguments(words: &[String]) -> Vec<String> {
    let mut redacted: Vec<String> = vec![];
    let mut hides_next = false;
    for word in words {
        let is_option = word.starts_with('-');
        redacted.push(if hides_next && !is_option {
            "<redacted:secret>".into()
        } else if word.len() > LINE_LIMIT {
            "<redacted:long line>".into()
        } else {
            line_of_text(word, Form::Word)
        });
        hides_next = is_option && !word.contains('=') && names_secret(word);
    }
    redacted
}

/// What a text is: a line of words, or one word of a command line, where a blank belongs to a
/// value.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    Line,
    Word,
}

fn line_of_text(line: &str, form: Form) -> String {
    let line = user_info(line);
    let line = values(&line, form);
    let line = xml_serial(&line);
    tokens(&line)
}

/// `scheme://user:password@host`: everything between the slashes and the last `@` of the authority.
fn user_info(line: &str) -> String {
    const MARK: &str = "://";
    let mut redacted = String::with_capacity(line.len());
    let mut rest = line;
    while let Some(at) = rest.find(MARK) {
        let (before, after) = rest.split_at(at + MARK.len());
        redacted.push_str(before);
        let ends = |c: char| c.is_whitespace() || matches!(c, '/' | '?' | '#' | '"' | '\'' | '<');
        let length = after.find(ends).unwrap_or(after.len());
        let host = after[..length].rfind('@').unwrap_or(0);
        if host > 0 {
            redacted.push_str("<redacted:user>");
        }
        rest = &after[host..];
    }
    redacted.push_str(rest);
    redacted
}

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
];

/// Names that tell as a whole: a Ceph key in a drive's name, a cookie, a configuration handed in by
/// fw_cfg.
const WHOLE_SECRETS: &[&str] =
    &["data", "key", "string", "cookie", "authorization", "pass", "pwd", "psk"];

fn names_secret(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    // `password-secret=sec0` names an object, which is no secret, and must stay for the arguments
    // to make sense.
    WHOLE_SECRETS.contains(&name.as_str())
        || SECRETS.iter().any(|word| name.contains(word)) && !name.ends_with("-secret")
}

fn names_serial(name: &str) -> bool {
    matches!(
        name.to_ascii_lowercase().as_str(),
        "serial" | "sn" | "asset" | "serial-number" | "serial_number"
    )
}

fn is_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.')
}

/// `name=value` and `name: value`, with or without quotes; the value ends at a separator.
fn values(line: &str, form: Form) -> String {
    let bytes = line.as_bytes();
    let mut redacted = String::with_capacity(line.len());
    let (mut at, mut copied) = (0, 0);
    while at < bytes.len() {
        if !matches!(bytes[at], b'=' | b':') {
            at += 1;
            continue;
        }
        let start =
            bytes[..at].iter().rposition(|&b| !is_name(b) && b != b'"').map_or(0, |i| i + 1);
        let name = line[start..at].trim_matches('"');
        let is_smbios_string = name == "value" && line[..start].ends_with("type=11,");
        let kind = if names_secret(name) || is_smbios_string {
            "secret"
        } else if names_serial(name) && bytes[at] == b'=' {
            "serial"
        } else {
            at += 1;
            continue;
        };
        let mut from = at + 1;
        while bytes.get(from) == Some(&b' ') {
            from += 1;
        }
        let quote = bytes.get(from).copied().filter(|b| matches!(b, b'"' | b'\''));
        from += usize::from(quote.is_some());
        let ends = |b: u8| match quote {
            Some(quote) => b == quote,
            None if b == b' ' => form == Form::Line,
            None => matches!(b, b',' | b'"' | b'\'' | b'<' | b'>' | b'&' | b';' | b'}'),
        };
        let to =
            bytes[from..].iter().position(|&b| ends(b)).map_or(bytes.len(), |length| from + length);
        if to > from {
            redacted.push_str(&line[copied..from]);
            redacted.push_str(&format!("<redacted:{kind}>"));
            copied = to;
        }
        at = to.max(at + 1);
    }
    redacted.push_str(&line[copied..]);
    redacted
}

/// `<serial>X</serial>`, `<entry name='serial'>X</entry>`, `<password>X</password>`.
fn xml_serial(line: &str) -> String {
    const OPENERS: &[(&str, &str)] = &[
        ("<serial>", "serial"),
        ("<entry name='serial'>", "serial"),
        ("<entry name=\"serial\">", "serial"),
        ("<entry name='asset'>", "serial"),
        ("<password>", "secret"),
        ("<secret>", "secret"),
        ("<value>", "secret"),
    ];
    let mut line = line.to_string();
    for (opener, kind) in OPENERS {
        if let Some(at) = line.find(opener) {
            let from = at + opener.len();
            let to = line[from..].find('<').map_or(line.len(), |length| from + length);
            line.replace_range(from..to, &format!("<redacted:{kind}>"));
        }
    }
    line
}

/// UUIDs, MAC addresses, IPv4 addresses and long keys, wherever they stand.
fn tokens(line: &str) -> String {
    let is_token =
        |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | ':' | '.' | '+' | '/' | '_' | '@');
    let mut redacted = String::with_capacity(line.len());
    let mut rest = line;
    while !rest.is_empty() {
        let length = rest.find(|c| !is_token(c)).unwrap_or(rest.len());
        let (token, after) = rest.split_at(length);
        redacted.push_str(&token_text(token));
        let skip = after.chars().next().map_or(0, char::len_utf8);
        redacted.push_str(&after[..skip]);
        rest = &after[skip..];
    }
    redacted
}

fn token_text(token: &str) -> String {
    if is_key(token) {
        return "<redacted:data>".into();
    }
    let mut text = String::with_capacity(token.len());
    let mut at = 0;
    while let Some(rest) = token.get(at..).filter(|rest| !rest.is_empty()) {
        let starts_word = !token[..at].ends_with(|c: char| c.is_ascii_alphanumeric());
        let found = [(36, "uuid"), (17, "mac")].into_iter().find(|&(length, kind)| {
            starts_word
                && rest
                    .get(..length)
                    .is_some_and(|word| if kind == "uuid" { is_uuid(word) } else { is_mac(word) })
                && !rest[length..].starts_with(|c: char| c.is_ascii_hexdigit())
        });
        if let Some((length, kind)) = found {
            text.push_str(&format!("<redacted:{kind}>"));
            at += length;
        } else if let Some(length) = starts_word.then(|| address(rest)).flatten() {
            text.push_str("<redacted:address>");
            at += length;
        } else {
            let step = rest.chars().next().map_or(1, char::len_utf8);
            text.push_str(&rest[..step]);
            at += step;
        }
    }
    text
}

fn is_uuid(word: &str) -> bool {
    word.bytes().enumerate().all(|(at, byte)| match at {
        8 | 13 | 18 | 23 => byte == b'-',
        _ => byte.is_ascii_hexdigit(),
    })
}

fn is_mac(word: &str) -> bool {
    let separator = word.as_bytes().get(2).copied();
    matches!(separator, Some(b':' | b'-'))
        && word.bytes().enumerate().all(|(at, byte)| match at % 3 {
            2 => Some(byte) == separator,
            _ => byte.is_ascii_hexdigit(),
        })
}

/// The length of an IPv4 address at the start of a text that is not a loopback or the unspecified
/// one.
fn address(rest: &str) -> Option<usize> {
    let length = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
    let word = &rest[..length];
    let parsed: std::net::Ipv4Addr = word.parse().ok()?;
    (!parsed.is_loopback() && !parsed.is_unspecified()).then_some(length)
}

/// A long run without separators that looks like a key and not like a path or a word.
fn is_key(token: &str) -> bool {
    token.len() >= 32
        && !token.contains([':', '.', '-', '_', '/', '@'])
        && token.bytes().any(|b| b.is_ascii_digit())
        && token.bytes().any(|b| b.is_ascii_alphabetic())
}

#[cfg(test)]
mod tests;
