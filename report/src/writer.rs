//! The one way to standard output and standard error.
//!
//! What people read has everything escaped that would steer a terminal: names of machines and files
//! come from others. Colours of ours are put in by a mark that nobody else can know, and become
//! colours when the text is written. What programs read goes out as it is: each format escapes by
//! its own rules.
//!
//! A full or closed output ends the talk and nothing else: what was begun goes on, and
//! [`lost`] says at the end that the result did not arrive.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::io::{self, ErrorKind, Write};
use std::sync::{LazyLock, Mutex, PoisonError};
use std::time::Duration;

/// How the talk on standard output stands.
#[derive(Debug, Default)]
struct Talk {
    /// Nobody reads any more, or nothing more can be written.
    has_ended: bool,
    /// Why the reader did not get all, where it is not the reader's own choice.
    lost: Option<String>,
}

static OUTPUT: Mutex<Talk> = Mutex::new(Talk { has_ended: false, lost: None });

/// Writes what people read to standard output; whether it is still read.
pub fn people(text: &str) -> bool {
    program(shown(text, true).as_bytes())
}

/// Writes what a program reads to standard output, as it is; whether it is still read.
pub fn program(bytes: &[u8]) -> bool {
    let mut talk = OUTPUT.lock().unwrap_or_else(PoisonError::into_inner);
    if !talk.has_ended
        && let Err(error) = put(&mut io::stdout().lock(), bytes)
    {
        talk.has_ended = true;
        talk.lost = (error.kind() != ErrorKind::BrokenPipe).then(|| error.to_string());
    }
    !talk.has_ended
}

/// Writes a remark beside the result, a line of its own, to standard error.
pub fn remark(text: &str) {
    let line = shown(text.trim_end_matches('\n'), true) + "\n";
    let _ = put(&mut io::stderr().lock(), line.as_bytes());
}

/// Writes the beginning of a line to standard error, such as a question.
pub fn ask(text: &str) {
    let _ = put(&mut io::stderr().lock(), shown(text, true).as_bytes());
}

/// Writes over the line that stands last on the terminal of standard error.
pub fn same_line(text: &str) {
    let line = format!("\r\x1b[K{}", shown(text, true));
    let _ = put(&mut io::stderr().lock(), line.as_bytes());
}

/// Why what was written to standard output did not arrive. A reader that has seen enough, such as
/// `head`, loses nothing.
pub fn lost() -> Option<String> {
    OUTPUT.lock().unwrap_or_else(PoisonError::into_inner).lost.clone()
}

fn put(stream: &mut impl Write, mut bytes: &[u8]) -> io::Result<()> {
    loop {
        let outcome = match bytes.is_empty() {
            true => stream.flush().map(|()| 0),
            false => stream.write(bytes),
        };
        match outcome {
            Ok(0) if bytes.is_empty() => return Ok(()),
            Ok(0) => return Err(ErrorKind::WriteZero.into()),
            Ok(count) => bytes = &bytes[count..],
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            // The pipe's other owner has made it non-blocking, for us as well.
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                std::thread::sleep(Duration::from_millis(1));
            }
            Err(error) => return Err(error),
        }
    }
}

/// Begins a colour of ours: another one in each process, so that no name can hold it. Where the
/// system gives no random number there are no colours.
static MARK: LazyLock<Option<String>> = LazyLock::new(|| {
    let mut number = [0; 8];
    let length = rustix::rand::getrandom(&mut number, rustix::rand::GetRandomFlags::empty());
    (length == Ok(number.len())).then(|| format!("\x1b{:016x}:", u64::from_le_bytes(number)))
});

/// The text in a colour, by the number that terminals know it by.
pub fn painted(code: u8, text: &str) -> String {
    match &*MARK {
        Some(mark) => format!("{mark}{code:02}{text}{mark}00"),
        None => text.to_owned(),
    }
}

/// Whether a character changes how others are shown, or the terminal's state.
pub fn steers(c: char) -> bool {
    matches!(c,
        '\0'..='\u{8}' | '\u{b}'..='\u{1f}' | '\u{7f}'..='\u{9f}' | '\u{ad}' | '\u{61c}' | '\u{180e}'
        | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}'
        | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

/// The text with everything escaped that steers, and with our colours or without.
pub fn shown(text: &str, has_colours: bool) -> Cow<'_, str> {
    if !text.contains(steers) {
        return Cow::Borrowed(text);
    }
    let mut result = String::with_capacity(text.len() + 16);
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        if let Some((code, after)) = behind_mark(rest) {
            if has_colours {
                let _ = write!(result, "\x1b[{}m", code.strip_prefix('0').unwrap_or(code));
            }
            rest = after;
            continue;
        }
        match steers(c) {
            false => result.push(c),
            true => result.extend(c.escape_unicode()),
        }
        rest = &rest[c.len_utf8()..];
    }
    Cow::Owned(result)
}

/// A colour's number and what follows it, where one of ours begins.
fn behind_mark(text: &str) -> Option<(&str, &str)> {
    text.strip_prefix(MARK.as_deref()?)?.split_at_checked(2)
}

/// A name or a line of others, on one line and without what steers.
pub fn clean(text: &str) -> String {
    text.chars()
        .flat_map(|c| {
            let is_plain = !steers(c) && c != '\n';
            let escape = (!is_plain).then(|| c.escape_unicode());
            is_plain.then_some(c).into_iter().chain(escape.into_iter().flatten())
        })
        .collect()
}

/// JSON in which no character steers the terminal that it may be shown on: it has escapes for all.
pub fn json(text: &str) -> Cow<'_, str> {
    if !text.contains(steers) {
        return Cow::Borrowed(text);
    }
    let mut result = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        match steers(c) {
            false => result.push(c),
            true => {
                let mut units = [0; 2];
                c.encode_utf16(&mut units).iter().for_each(|unit| {
                    let _ = write!(result, "\\u{unit:04x}");
                });
            }
        }
    }
    Cow::Owned(result)
}

/// Names that would break one format or another if they were written as they are.
#[doc(hidden)]
pub const HOSTILE: [&str; 24] = [
    "",
    " ",
    "web",
    "a\"b\\c\nd",
    "a\\",
    "\\n",
    "web\x1b]0;owned\x07",
    "\u{200b}\u{202e}\u{ad}\u{feff}",
    "a\rb\tc\0d\u{85}\u{2028}e",
    "=HYPERLINK(\"http://x\")",
    "+1",
    "-1+2",
    "@SUM(A1)",
    "\t=1",
    "a|b\\|c",
    "<script>alert(1)</script>&amp;]]>",
    "# [x](javascript:y) ![z](http://w) `c` *d* _e_",
    "--> {{ x }} ${{ y }} $(z)",
    "::error file=x::y%0A",
    "not ok 1 - x # SKIP",
    "...\n---\n1..9",
    "a;b c 5",
    "💻\u{301}\u{10ffff}",
    "{x=\"y\"} 1",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_colours_of_ours_are_colours() {
        let name = "a\x1b[31mred\x1b[0m\x1b]0;x\x07\u{202e}\u{9b}2J\r";
        let escaped = "a\\u{1b}[31mred\\u{1b}[0m\\u{1b}]0;x\\u{7}\\u{202e}\\u{9b}2J\\u{d}";
        assert_eq!(shown(name, true), escaped);
        assert_eq!(shown(&painted(31, name), true), format!("\x1b[31m{escaped}\x1b[0m"));
        assert_eq!(shown(&painted(1, name), false), escaped);
        assert_eq!(shown("\x1b0000000000000000:31x", true), "\\u{1b}0000000000000000:31x");
        assert_eq!(clean("a\nb\x1b"), "a\\u{a}b\\u{1b}");
    }

    #[test]
    fn json_is_the_same_value_with_nothing_that_steers() {
        let name = "web\x1b]0;x\x07\u{202e}\u{9b}2J\u{e0001}";
        let text = serde_json::to_string(name).unwrap();
        let safe = json(&text);
        assert!(!safe.contains(steers), "{safe}");
        assert_eq!(serde_json::from_str::<String>(&safe).unwrap(), name);
    }

    #[test]
    fn writers_that_take_little_or_want_us_to_wait_get_all() {
        struct Slow(Vec<u8>, usize);
        impl Write for Slow {
            fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
                self.1 += 1;
                match self.1 % 3 {
                    0 => Err(ErrorKind::WouldBlock.into()),
                    1 => Err(ErrorKind::Interrupted.into()),
                    _ => {
                        self.0.push(bytes[0]);
                        Ok(1)
                    }
                }
            }

            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        let mut slow = Slow(vec![], 0);
        put(&mut slow, b"all of it").unwrap();
        assert_eq!(slow.0, b"all of it");
    }
}
