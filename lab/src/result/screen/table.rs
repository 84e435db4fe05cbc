//! The rows at the screen's end: a table that fits.

/// Columns three apart, the first to the left. Where that is too wide, headings take two lines;
/// what does not fit then is left out, the last column first.
pub(super) fn aligned(mut table: Vec<Vec<String>>, columns: usize) -> String {
    if width(&table) > columns {
        let heads = table.remove(0);
        let (first, second) = heads.iter().map(|head| in_two(head)).unzip();
        table.splice(0..0, [first, second]);
    }
    while width(&table) > columns && table[0].len() > 2 {
        table.iter_mut().for_each(|row| {
            row.pop();
        });
    }
    let widths = widths(&table);
    let line = |row: &Vec<String>| {
        let cells = row.iter().zip(&widths).enumerate();
        let padded = cells.map(|(place, (cell, width))| match place {
            0 => format!("  {cell:<width$}"),
            _ => format!("   {cell:>width$}"),
        });
        padded.collect::<String>().trim_end().to_owned() + "\n"
    };
    table.iter().map(line).collect()
}

fn widths(table: &[Vec<String>]) -> Vec<usize> {
    let columns = table.iter().map(Vec::len).max().unwrap_or(0);
    let cells = |column: usize| table.iter().filter_map(move |row| row.get(column));
    (0..columns)
        .map(|column| cells(column).map(|cell| cell.chars().count()).max().unwrap_or(0))
        .collect()
}

fn width(table: &[Vec<String>]) -> usize {
    let widths = widths(table);
    widths.iter().sum::<usize>() + 3 * widths.len() - 1
}

/// At the space at which the longer part is shortest.
fn in_two(head: &str) -> (String, String) {
    let parts = head.match_indices(' ').map(|(place, _)| (&head[..place], &head[place + 1..]));
    let best =
        parts.min_by_key(|(first, second)| first.chars().count().max(second.chars().count()));
    let (first, second) = best.unwrap_or(("", head));
    (first.to_owned(), second.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Vec<Vec<String>> {
        let row = |cells: [&str; 3]| cells.map(str::to_owned).to_vec();
        vec![row(["", "exits other than HLT", "time in KVM"]), row(["xAPIC", "9 -> 1", "75 %"])]
    }

    #[test]
    fn a_table_that_is_too_wide_has_headings_of_two_lines_and_then_fewer_columns() {
        for (columns, lines) in [
            (80, vec!["          exits other than HLT   time in KVM", "  xAPIC"]),
            (
                40,
                vec!["          exits other     time", "             than HLT   in KVM", "  xAPIC"],
            ),
            (24, vec!["          exits other", "             than HLT", "  xAPIC        9 -> 1"]),
        ] {
            let text = aligned(table(), columns);
            for (line, begin) in text.lines().zip(&lines) {
                assert!(line.starts_with(begin), "{columns}:\n{text}");
                assert!(line.chars().count() <= columns, "{columns}:\n{text}");
            }
            assert_eq!(text.lines().count(), lines.len(), "{text}");
        }
    }
}
