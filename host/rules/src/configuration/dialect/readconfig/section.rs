//! The sections of a file, with their places.

use crate::configuration::input::InputError;
use crate::configuration::pairs::Pair;
use crate::position::Lines;

/// Sections of one file.
const MAX_SECTIONS: usize = 10_000;

/// A section with its keys; ranges are of the source.
#[derive(Debug, Default)]
pub struct Section {
    pub group: String,
    pub id: Option<String>,
    pub pairs: Vec<Pair>,
    /// The header line.
    pub start: usize,
    /// End of its last line with content.
    pub end: usize,
}

/// Reads the sections of a file.
pub fn sections(lines: &Lines<'_>) -> Result<Vec<Section>, InputError> {
    let mut found: Vec<Section> = Vec::new();
    let mut start = 0;
    for line in lines.text().split_inclusive('\n') {
        let content = line.trim();
        let at = start + (line.len() - line.trim_start().len());
        let end = at + content.len();
        start += line.len();
        if content.is_empty() || content.starts_with('#') {
            continue;
        }
        if let Some(header) = content.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            if found.len() >= MAX_SECTIONS {
                let message = format!("more than {MAX_SECTIONS} sections");
                return Err(InputError::at(lines.position(at, end), message));
            }
            let (group, id) = match header.split_once(char::is_whitespace) {
                Some((group, id)) => (group, Some(id.trim().trim_matches('"').to_owned())),
                None => (header, None),
            };
            let group = group.trim().to_owned();
            found.push(Section { group, id, pairs: Vec::new(), start: at, end });
            continue;
        }
        let (Some(section), Some((key, value))) = (found.last_mut(), content.split_once('='))
        else {
            let message = "neither a [section] nor a key = \"value\" of one".to_owned();
            return Err(InputError::at(lines.position(at, end), message));
        };
        let quoted = value.trim();
        let inner = quoted.trim_matches('"');
        let value_start = at + content.len() - quoted.len() + usize::from(quoted.starts_with('"'));
        section.pairs.push(Pair {
            key: key.trim().to_owned(),
            value: Some(inner.to_owned()),
            at: at..end,
            value_at: value_start..value_start + inner.len(),
        });
        section.end = end;
    }
    Ok(found)
}
