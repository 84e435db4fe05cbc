//! systemd's units: lines of `Exec…=`, and the variables of `Environment=`.
//!
//! Left out: specifiers (`%i`), and separators that only a shell knows.

use super::{blank, text_of};

/// Whether a text is a unit: a section comes first.
pub fn is_one(text: &str) -> bool {
    let is_comment = |line: &&str| line.is_empty() || line.starts_with(['#', ';']);
    let first = text.lines().map(str::trim).find(|line| !is_comment(line));
    // A readconfig file has sections too, with other names.
    let is_section = |name: &str| name == "Service" || name == "Unit" || name == "Install";
    first
        .and_then(|line| line.strip_prefix('[')?.strip_suffix(']'))
        .is_some_and(|name| is_section(name) && !text.starts_with("#!"))
}

/// The unit's commands as shell text of the same length.
pub fn shell_text(text: &str) -> String {
    let mut bytes = text.as_bytes().to_vec();
    // Other files may set the same variables.
    let is_open = text.lines().any(|line| line.trim_start().starts_with("EnvironmentFile="));
    let mut start = 0;
    let mut goes_on = None;
    for line in text.split_inclusive('\n') {
        let range = start..start + line.len();
        start = range.end;
        let is_comment = line.trim_start().starts_with(['#', ';']);
        if is_comment || line.trim().is_empty() {
            // A comment does not end a line that goes on; a blank line does.
            let end = if is_comment && goes_on.is_some() { 0 } else { line_end(line) };
            blank(&mut bytes[range.start..range.end - end]);
            goes_on = goes_on.filter(|_| is_comment);
            continue;
        }
        let is_exec = match goes_on {
            Some(is_exec) => is_exec,
            None => {
                let exec = command_of(line);
                let kept = exec.unwrap_or(line.len() - line_end(line));
                blank(&mut bytes[range.start..range.start + kept]);
                if exec.is_none() && !is_open {
                    assignments(line, &mut bytes[range.clone()]);
                }
                exec.is_some()
            }
        };
        if goes_on == Some(false) {
            blank(&mut bytes[range.start..range.end - line_end(line)]);
        }
        goes_on = line.trim_end_matches(['\n', '\r']).ends_with('\\').then_some(is_exec);
    }
    text_of(bytes)
}

fn line_end(line: &str) -> usize {
    line.len() - line.trim_end_matches(['\n', '\r']).len()
}

/// Bytes before the command of an `Exec…=` line.
fn command_of(line: &str) -> Option<usize> {
    let (key, value) = line.split_once('=')?;
    if !key.trim().starts_with("Exec") {
        return None;
    }
    let command = value.trim_start_matches([' ', '\t', '-', '@', ':', '+', '!', '|']);
    Some(line.len() - command.len())
}

/// `Environment="A=b c" D=e` as `A="b c" D=e`, into a line that is blank: of the same length, and
/// values keep their places. A variable with more than plain characters stays unknown.
fn assignments(line: &str, out: &mut [u8]) {
    let Some(("Environment", value)) = line.split_once('=').map(|(key, value)| (key.trim(), value))
    else {
        return;
    };
    if value.contains(['\\', '$', '`', '%']) {
        return;
    }
    let mut at = line.len() - value.len();
    let mut rest = value;
    loop {
        let item = rest.trim_start();
        at += rest.len() - item.len();
        let quote = item.chars().next().filter(|c| matches!(c, '"' | '\''));
        let end = match quote {
            Some(quote) => match item[1..].find(quote) {
                Some(end) => end + 2,
                None => return,
            },
            None => item.find(char::is_whitespace).unwrap_or(item.len()),
        };
        if end == 0 {
            return;
        }
        let whole = &item[..end];
        let inner = whole.trim_matches(['"', '\'']);
        let is_plain =
            quote.is_some() || !whole.contains(['"', '\'', ';', '&', '|', '<', '>', '#']);
        if let Some((name, _)) = inner.split_once('=').filter(|_| is_plain) {
            let slot = &mut out[at..at + end];
            slot.copy_from_slice(whole.as_bytes());
            if let Some(quote) = quote {
                // The quote moves behind the name.
                slot[..=name.len()].copy_from_slice(format!("{name}=").as_bytes());
                slot[name.len() + 1] = quote as u8;
            }
        }
        at += end;
        rest = &item[end..];
    }
}
