//! Where something stands in an input: line, column and byte span.

pub use crate::finding::Position;

/// Bytes between two counts of characters.
const BLOCK: usize = 1024;

/// The line starts of a text, so that a byte offset becomes a line and a column quickly, in long
/// lines too.
#[derive(Clone, Debug)]
pub struct Lines<'t> {
    text: &'t str,
    starts: Vec<usize>,
    /// Characters that start before each multiple of [`BLOCK`].
    counts: Vec<usize>,
}

impl<'t> Lines<'t> {
    /// Finds the lines of a text once.
    pub fn new(text: &'t str) -> Self {
        let bytes = text.bytes().enumerate();
        let after_newlines = bytes.filter(|(_, byte)| *byte == b'\n').map(|(at, _)| at + 1);
        let starts = std::iter::once(0).chain(after_newlines).collect();
        let counts = text
            .as_bytes()
            .chunks(BLOCK)
            .scan(0, |before, block| {
                let count = *before;
                *before += character_starts(block);
                Some(count)
            })
            .collect();
        Self { text, starts, counts }
    }

    /// As it was given.
    pub fn text(&self) -> &'t str {
        self.text
    }

    /// The position of `start..end`; offsets beyond the text are cut to its end.
    pub fn position(&self, start: usize, end: usize) -> Position {
        let start = start.min(self.text.len());
        let line = self.starts.partition_point(|&at| at <= start) - 1;
        let before = self.characters_before(start) - self.characters_before(self.starts[line]);
        Position {
            line: u32::try_from(line + 1).unwrap_or(u32::MAX),
            column: u32::try_from(before + 1).unwrap_or(u32::MAX),
            start,
            end: end.clamp(start, self.text.len()),
        }
    }

    fn characters_before(&self, offset: usize) -> usize {
        let block = offset / BLOCK;
        let Some(&count) = self.counts.get(block) else {
            return self.counts.last().map_or(0, |count| {
                count + character_starts(&self.text.as_bytes()[(self.counts.len() - 1) * BLOCK..])
            });
        };
        count + character_starts(&self.text.as_bytes()[block * BLOCK..offset])
    }

    /// The text of a line, counted from 1, without its line end.
    pub fn line(&self, number: u32) -> &'t str {
        let index = (number as usize).saturating_sub(1);
        let Some(&start) = self.starts.get(index) else { return "" };
        let end = self.starts.get(index + 1).map_or(self.text.len(), |&next| next - 1);
        self.text[start..end.max(start)].trim_end_matches('\r')
    }
}

/// Bytes that start a character of UTF-8.
fn character_starts(bytes: &[u8]) -> usize {
    bytes.iter().filter(|byte| **byte & 0xc0 != 0x80).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_count_characters_and_lines_count_from_one() {
        let text = "ab\nüx=1\r\n\nend";
        let lines = Lines::new(text);
        for (needle, line, column) in [("b", 1, 2), ("x=1", 2, 2), ("end", 4, 1)] {
            let start = text.find(needle).unwrap();
            let position = lines.position(start, start + needle.len());
            assert_eq!((position.line, position.column), (line, column), "{needle}");
        }
        assert_eq!(lines.line(2), "üx=1");
        assert_eq!(lines.line(3), "");
        assert_eq!(lines.line(99), "");
        assert_eq!(lines.position(1000, 2000).line, 4);
    }

    #[test]
    fn columns_of_long_lines_count_across_blocks() {
        let text = "é".repeat(3000);
        let lines = Lines::new(&text);
        for index in [0usize, 1, 511, 512, 513, 2999, 3000] {
            assert_eq!(lines.position(2 * index, 2 * index).column as usize, index + 1);
        }
        let exact = "x".repeat(2 * BLOCK);
        assert_eq!(
            Lines::new(&exact).position(2 * BLOCK, 2 * BLOCK).column as usize,
            2 * BLOCK + 1
        );
    }
}
