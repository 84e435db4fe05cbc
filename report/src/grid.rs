//! A table of typed values, which every format prints in its own way.

use crate::writer::clean;
use serde::{Serialize, Serializer};

/// One value.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// Words.
    Text(String),
    /// How many of something.
    Count(u64),
    /// A number with the decimals that are shown of it; programs get all of it.
    Number(f64, u8),
    /// There is no such figure, which is not zero.
    Missing,
}

impl Value {
    /// Words, of anything that is words.
    pub fn text(text: impl Into<String>) -> Self {
        Self::Text(text.into())
    }

    /// As people read it.
    pub fn shown(&self) -> String {
        match self {
            Self::Text(text) => text.clone(),
            Self::Count(count) => grouped(*count),
            Self::Number(number, decimals) => {
                let text = format!("{number:.*}", usize::from(*decimals));
                match text.strip_prefix('-') {
                    Some(zero) if !zero.contains(|digit| matches!(digit, '1'..='9')) => zero.into(),
                    _ => text,
                }
            }
            Self::Missing => "-".into(),
        }
    }

    /// As programs read it: no grouping, nothing rounded away.
    pub fn plain(&self) -> String {
        match self {
            Self::Text(text) => text.clone(),
            Self::Count(count) => count.to_string(),
            Self::Number(number, _) => number.to_string(),
            Self::Missing => String::new(),
        }
    }

    /// Whether it is words: text stands left, numbers right.
    pub const fn is_text(&self) -> bool {
        matches!(self, Self::Text(_))
    }
}

impl Serialize for Value {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Text(text) => serializer.serialize_str(text),
            Self::Count(count) => serializer.serialize_u64(*count),
            Self::Number(number, _) => serializer.serialize_f64(*number),
            Self::Missing => serializer.serialize_none(),
        }
    }
}

#[cfg(test)]
impl schemars::JsonSchema for Value {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Value".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({"type": ["string", "integer", "number", "null"]})
    }
}

/// Digits in groups of three.
pub fn grouped(count: u64) -> String {
    let digits = count.to_string();
    let mut text = String::with_capacity(digits.len() * 4 / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A table with a name.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Grid {
    /// What it shows.
    pub title: String,
    /// Names of columns as programs know them, in snake case.
    pub columns: Vec<&'static str>,
    /// As many values in each row as there are columns.
    pub rows: Vec<Vec<Value>>,
}

impl Grid {
    /// A table with no rows yet.
    pub fn new(title: impl Into<String>, columns: &[&'static str]) -> Self {
        Self { title: title.into(), columns: columns.to_vec(), rows: Vec::new() }
    }

    /// Whether a column has words and no numbers.
    fn is_text(&self, column: usize) -> bool {
        let mut cells = self.rows.iter().filter_map(|row| row.get(column));
        let is_number = |cell: &Value| matches!(cell, Value::Count(_) | Value::Number(..));
        cells.clone().any(Value::is_text) && !cells.any(is_number)
    }

    /// Names of columns as people read them.
    fn heads(&self) -> Vec<String> {
        self.columns.iter().map(|name| name.replace('_', " ").replace("percent", "%")).collect()
    }

    /// Without columns that say nothing in any row.
    pub fn without_empty_columns(mut self) -> Self {
        let says = |value: &Value| match value {
            Value::Text(text) => !text.is_empty(),
            Value::Count(_) | Value::Number(..) => true,
            Value::Missing => false,
        };
        let keeps: Vec<bool> = (0..self.columns.len())
            .map(|column| {
                self.rows.is_empty()
                    || self.rows.iter().any(|row| row.get(column).is_some_and(says))
            })
            .collect();
        let mut keep = keeps.iter();
        self.columns.retain(|_| keep.next().copied().unwrap_or(true));
        for row in &mut self.rows {
            let mut keep = keeps.iter();
            row.retain(|_| keep.next().copied().unwrap_or(true));
        }
        self
    }

    /// Columns padded to their width: text to the left, numbers to the right.
    pub fn to_text(&self) -> String {
        self.to_text_within(usize::MAX)
    }

    /// The same in lines of at most so many columns, if its widest column and its first fit: what
    /// has no place beside the others follows below, behind the first column once more.
    pub fn to_text_within(&self, most: usize) -> String {
        let shown: Vec<Vec<String>> =
            self.rows.iter().map(|row| row.iter().map(Value::shown).collect()).collect();
        let heads = self.heads();
        let width = |column: usize| {
            let cells = shown.iter().filter_map(|row| row.get(column));
            let widest = cells.map(|cell| cell.chars().count()).max().unwrap_or(0);
            widest.max(heads[column].chars().count())
        };
        let widths: Vec<usize> = (0..self.columns.len()).map(width).collect();
        let is_text: Vec<bool> =
            (0..self.columns.len()).map(|column| self.is_text(column)).collect();
        let line = |cells: &[String], columns: &[usize]| {
            let padded = columns.iter().filter_map(|&column| {
                let (cell, width) = (cells.get(column)?, widths[column]);
                Some(if is_text[column] {
                    format!("{cell:<width$}")
                } else {
                    format!("{cell:>width$}")
                })
            });
            format!("  {}", padded.collect::<Vec<_>>().join("  ")).trim_end().to_owned() + "\n"
        };
        let mut text = folded(&self.title, most, 2);
        for columns in blocks(&widths, most) {
            // What is too wide even behind the first column alone is folded.
            let needed: usize = columns.iter().map(|column| widths[*column] + 2).sum();
            if needed > most {
                shown.iter().for_each(|row| {
                    let cells = columns.iter().filter_map(|column| row.get(*column));
                    let cells: Vec<&str> = cells.map(|cell| cell.trim()).collect();
                    text.push_str(&folded(&format!("  {}", cells.join("  ")), most, 4));
                });
                continue;
            }
            text.push_str(&line(&heads, &columns));
            shown.iter().for_each(|row| text.push_str(&line(row, &columns)));
        }
        text
    }

    /// RFC 4180, with a line of column names.
    pub fn to_csv(&self) -> String {
        let mut text = self.columns.iter().map(|name| quoted(name)).collect::<Vec<_>>().join(",");
        text.push_str("\r\n");
        for row in &self.rows {
            let cells: Vec<String> = row.iter().map(csv_cell).collect();
            text.push_str(&cells.join(","));
            text.push_str("\r\n");
        }
        text
    }

    /// As Markdown, with the title as a heading.
    pub fn to_markdown(&self) -> String {
        let is_text = |column: usize| self.is_text(column);
        let rule: Vec<&str> = (0..self.columns.len())
            .map(|column| if is_text(column) { "---" } else { "---:" })
            .collect();
        let mut text = format!(
            "### {}\n\n| {} |\n| {} |\n",
            marked_down(&self.title),
            self.heads().iter().map(|head| marked_down(head)).collect::<Vec<_>>().join(" | "),
            rule.join(" | ")
        );
        for row in &self.rows {
            let cells: Vec<String> = row.iter().map(|value| marked_down(&value.shown())).collect();
            text.push_str(&format!("| {} |\n", cells.join(" | ")));
        }
        text.push('\n');
        text
    }

    /// As HTML, with the title as a heading; words of others are escaped.
    pub fn to_html(&self) -> String {
        let mut text = format!("<h2>{}</h2>\n<table>\n<tr>", escaped(&self.title));
        let class = |column: usize| if self.is_text(column) { "" } else { " class=\"n\"" };
        let classes: Vec<&str> = (0..self.columns.len()).map(class).collect();
        for (name, class) in self.heads().iter().zip(&classes) {
            text.push_str(&format!("<th{class}>{}</th>", escaped(name)));
        }
        text.push_str("</tr>\n");
        for row in &self.rows {
            text.push_str("<tr>");
            for (value, class) in row.iter().zip(&classes) {
                text.push_str(&format!("<td{class}>{}</td>", escaped(&value.shown())));
            }
            text.push_str("</tr>\n");
        }
        text.push_str("</table>\n");
        text
    }
}

/// Columns that stand beside each other in lines of at most so many characters.
fn blocks(widths: &[usize], most: usize) -> Vec<Vec<usize>> {
    let mut blocks: Vec<Vec<usize>> = Vec::new();
    let mut used = 0;
    for (column, width) in widths.iter().enumerate() {
        let needed = width + 2;
        match blocks.last_mut() {
            Some(block) if used + needed <= most => block.push(column),
            Some(_) => {
                blocks.push(vec![0, column]);
                used = widths[0] + 2;
            }
            None => blocks.push(vec![column]),
        }
        used = used.saturating_add(needed);
    }
    // The first column stands in every block: one of its own would say nothing.
    if blocks.len() > 1 && blocks[0].len() == 1 {
        blocks.remove(0);
    }
    blocks
}

/// A sentence in lines of at most so many columns, all after the first indented; a longer word
/// stands alone.
pub fn folded(text: &str, most: usize, indent: usize) -> String {
    let start = text.len() - text.trim_start().len();
    let mut result = " ".repeat(start);
    let mut used = start;
    let mut is_first = true;
    for word in text.split_whitespace() {
        let length = word.chars().count();
        if !is_first && used.saturating_add(1 + length) > most {
            result.push('\n');
            result.push_str(&" ".repeat(indent));
            used = indent;
        } else if !is_first {
            result.push(' ');
            used += 1;
        }
        result.push_str(word);
        used += length;
        is_first = false;
    }
    result + "\n"
}

fn quoted(text: &str) -> String {
    if text.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text.to_owned()
    }
}

/// Text safe inside HTML and SVG, attributes included.
pub fn escaped(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&#39;"),
            other if other.is_control() && other != '\n' => safe.push('\u{fffd}'),
            // Marks that turn the direction of what follows.
            '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => safe.push('\u{fffd}'),
            other => safe.push(other),
        }
    }
    safe
}

/// A value by RFC 4180. A spreadsheet would take words that begin so for a formula: an apostrophe
/// in front makes them words.
pub(crate) fn csv_cell(value: &Value) -> String {
    let plain = value.plain();
    let is_formula = value.is_text() && plain.starts_with(['=', '+', '-', '@', '\t', '\r']);
    if is_formula { quoted(&format!("'{plain}")) } else { quoted(&plain) }
}

/// Words that mean themselves in Markdown: on one line, in one cell, no link, no HTML, no emphasis.
pub fn marked_down(text: &str) -> String {
    let mut words = String::with_capacity(text.len());
    for c in clean(text).chars() {
        match c {
            '<' => words.push_str("&lt;"),
            '&' => words.push_str("&amp;"),
            '\\' | '|' | '`' | '*' | '[' | ']' => words.extend(['\\', c]),
            c => words.push(c),
        }
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grid() -> Grid {
        let mut grid = Grid::new("Reasons", &["reason", "count", "share"]);
        grid.rows.push(vec![
            Value::text("a,\"b\""),
            Value::Count(1_234_567),
            Value::Number(12.345, 1),
        ]);
        grid.rows.push(vec![Value::text("<x>|"), Value::Count(5), Value::Missing]);
        grid
    }

    #[test]
    fn a_table_that_is_too_wide_goes_on_below_behind_its_first_column() {
        let mut grid = Grid::new("a title of several words", &["name", "off", "on", "change"]);
        grid.rows.push(vec![
            Value::text("interrupt"),
            Value::Count(1_234_567),
            Value::Count(12),
            Value::Number(-99.99, 2),
        ]);
        assert_eq!(
            grid.to_text_within(26),
            "a title of several words\n  name             off  on\n  interrupt  1,234,567  12\n  \
             name       change\n  interrupt  -99.99\n"
        );
        assert_eq!(grid.to_text(), grid.to_text_within(80));
        for most in [40, 60, 80, 100, 160] {
            let text = grid.to_text_within(most);
            assert!(text.lines().all(|line| line.chars().count() <= most), "{most}:\n{text}");
            assert!(text.contains("-99.99") && text.contains("1,234,567"), "{text}");
        }
    }

    #[test]
    fn sentences_are_folded_at_words() {
        assert_eq!(folded("one two three", 8, 2), "one two\n  three\n");
        assert_eq!(folded("  one two", 7, 4), "  one\n    two\n");
        assert_eq!(folded("", 8, 2), "\n");
        assert_eq!(folded("muchtoolong", 4, 0), "muchtoolong\n");
    }

    #[test]
    fn each_format_escapes_what_is_special_in_it() {
        assert!(grid().to_csv().contains("\"a,\"\"b\"\"\",1234567,12.345\r\n"));
        assert!(grid().to_markdown().contains("| &lt;x>\\| | 5 | - |"));
        assert!(grid().to_html().contains("<td>&lt;x&gt;|</td>"));
    }

    /// The records of a text by RFC 4180, read strictly.
    fn read_csv(text: &str) -> Vec<Vec<String>> {
        let (mut records, mut record) = (vec![], vec![]);
        let mut rest = text;
        while !rest.is_empty() {
            let mut cell = String::new();
            if let Some(quoted) = rest.strip_prefix('"') {
                rest = quoted;
                loop {
                    let at = rest.find('"').expect("a closing quote");
                    cell.push_str(&rest[..at]);
                    rest = &rest[at + 1..];
                    match rest.strip_prefix('"') {
                        Some(more) => rest = more,
                        None => break,
                    }
                    cell.push('"');
                }
            } else {
                let end = rest.find([',', '\r', '\n']).expect("an end");
                assert!(!rest[..end].contains('"'), "a bare quote: {rest}");
                cell.push_str(&rest[..end]);
                rest = &rest[end..];
            }
            record.push(cell);
            match rest.strip_prefix(',') {
                Some(more) => rest = more,
                None => {
                    rest = rest.strip_prefix("\r\n").expect("the end of a record");
                    records.push(std::mem::take(&mut record));
                }
            }
        }
        records
    }

    #[test]
    fn hostile_names_stay_one_cell_and_are_no_formula() {
        for name in crate::writer::HOSTILE {
            let mut grid = Grid::new(name, &["name", "count"]);
            grid.rows.push(vec![Value::text(name), Value::Number(-1.5, 1)]);
            let records = read_csv(&grid.to_csv());
            let [_, record] = records.as_slice() else { panic!("{records:?}") };
            let [cell, number] = record.as_slice() else { panic!("{record:?}") };
            assert_eq!(number, "-1.5", "a number is not a formula");
            assert_eq!(cell.strip_prefix('\'').unwrap_or(cell), name);
            assert!(!cell.starts_with(['=', '+', '-', '@', '\t', '\r']), "{cell}");
            let markdown = grid.to_markdown();
            let lines: Vec<&str> = markdown.lines().collect();
            let [title, "", _, _, row, ""] = lines.as_slice() else { panic!("{markdown}") };
            let mut is_escaped = false;
            let bars = row.chars().filter(|c| {
                let was_escaped = std::mem::take(&mut is_escaped);
                is_escaped = *c == '\\' && !was_escaped;
                *c == '|' && !was_escaped
            });
            assert_eq!(bars.count(), 3, "{row}");
            for text in [title, row] {
                let text = text.replace("\\[", "");
                assert!(
                    !text.contains(['<', '[']) && !text.contains(crate::writer::steers),
                    "{text}"
                );
            }
            let html = grid.to_html();
            assert!(!html.contains("<script") && !html.contains("\x1b"), "{html}");
        }
    }

    #[test]
    fn no_name_turns_the_direction_of_a_page() {
        assert_eq!(escaped("a\u{202e}b\u{2067}c\u{1b}d"), "a\u{fffd}b\u{fffd}c\u{fffd}d");
    }

    #[test]
    fn programs_get_names_with_underscores_and_people_do_not() {
        let grid = Grid::new("", &["work_time_percent"]);
        for shown in [grid.to_text(), grid.to_markdown(), grid.to_html()] {
            assert!(shown.contains("work time %"), "{shown}");
        }
        assert_eq!(grid.to_csv(), "work_time_percent\r\n");
    }

    #[test]
    fn the_published_schema_is_that_of_the_type() {
        let list = schema::plain::<Grid>("avicenna experiment list --format json", 1);
        schema::assert_published("experiment-list-1.json", &list);
    }

    #[test]
    fn a_column_goes_that_says_nothing_in_any_row() {
        let mut grid = Grid::new("", &["a", "b", "c", "d"]);
        let none = || Value::text("");
        grid.rows.push(vec![none(), Value::Missing, none(), Value::Count(0)]);
        grid.rows.push(vec![none(), Value::Missing, Value::text("x"), Value::Missing]);
        assert_eq!(grid.clone().without_empty_columns().columns, ["c", "d"]);
        grid.rows.clear();
        assert_eq!(grid.without_empty_columns().columns.len(), 4);
    }

    #[test]
    fn nothing_has_no_sign() {
        let rows = [(-0.001, "0.00"), (-0.01, "-0.01"), (0.0, "0.00"), (-12.0, "-12.00")];
        for (number, shown) in rows {
            assert_eq!(Value::Number(number, 2).shown(), shown);
        }
    }

    #[test]
    fn text_aligns_words_left_and_numbers_right() {
        let text = grid().to_text();
        assert!(text.contains("  a,\"b\"   1,234,567   12.3\n"), "{text}");
    }
}
