//! Where something stands in an input: line, column and byte span.

pub use crate::finding::Position;

/// The line starts of a text, so that a byte offset becomes a line and a column in logarithmic time.
#[derive(Clone, Debug)]
pub struct Lines<'t> {
    text: &'t str,
    starts: Vec<usize>,
}

impl<'t> Lines<'t> {
    pub fn new(text: &'t str) -> Self {
        let after_newlines =
            text.bytes().enumerate().filter(|(_, b)| *b == b'\n').map(|(at, _)| at + 1);
        Self { text, starts: std::iter::once(0).chain(after_newlines).collect() }
    }

    pub fn text(&self) -> &'t str {
        self.text
    }

    /// The position of `start..end`; offsets beyond the text are cut to its end.
    pub fn position(&self, start: usize, end: usize) -> Position {
        let start = start.min(self.text.len());
        let line = self.starts.partition_point(|&at| at <= start) - 1;
        let before = self.text.get(self.starts[line]..start).map_or(0, |cut| cut.chars().count());
        Position {
            line: u32::try_from(line + 1).unwrap_or(u32::MAX),
            column: u32::try_from(before + 1).unwrap_or(u32::MAX),
            start,
            end: end.clamp(start, self.text.len()),
        }
    }

    /// The text of a line, counted from 1, without its line end.
    pub fn line(&self, number: u32) -> &'t str {
        let index = (number as usize).saturating_sub(1);
        let Some(&start) = self.starts.get(index) else { return "" };
        let end = self.starts.get(index + 1).map_or(self.text.len(), |&next| next - 1);
        self.text[start..end.max(start)].trim_end_matches('\r')
    }
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
}
