//! Here-documents of shell scripts that write a unit or another script: where nothing is quoted,
//! two backslashes at the end of a line are the one that joins it with the next in what is written.

use super::text_of;

/// The text with such lines joined, of the same length; `None` where there are none.
pub fn joined(text: &str) -> Option<String> {
    if !text.contains("<<") || !text.contains("\\\\\n") {
        return None;
    }
    let mut bytes = text.as_bytes().to_vec();
    let mut end_word: Option<&str> = None;
    let (mut start, mut is_changed) = (0, false);
    for line in text.split_inclusive('\n') {
        let end = start + line.len();
        match end_word {
            None => end_word = opened(line),
            Some(word) if line.trim() == word => end_word = None,
            Some(_) => {
                let backslashes = line.trim_end_matches('\n').bytes().rev();
                if backslashes.take_while(|byte| *byte == b'\\').count() == 2 {
                    bytes[end - 3..end].fill(b' ');
                    is_changed = true;
                }
            }
        }
        start = end;
    }
    is_changed.then(|| text_of(bytes))
}

/// The word that ends a here-document which a line begins, if nothing in it is quoted.
fn opened(line: &str) -> Option<&str> {
    let (before, rest) = line.split_once("<<")?;
    let rest = rest.trim_start_matches('-').trim_start_matches([' ', '\t']);
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let word = &rest[..rest.find(|c| !is_word(c)).unwrap_or(rest.len())];
    let is_comment = before.trim_start().starts_with('#');
    (!word.is_empty() && !is_comment).then_some(word)
}
