//! Everything that a run found, as text.

use super::gloss::Glossary;
use super::{LabResult, grids, remarks};

impl LabResult {
    /// For a terminal of so many columns. The verdict comes first.
    pub fn to_text(&self, columns: usize) -> String {
        let mut page = Lines { text: String::new(), columns, glossary: Glossary::default() };
        page.sentence(&self.verdict.text);
        page.text.push('\n');
        page.sentence(&self.title());
        page.sentence(&self.costs_sentence());
        page.text.push('\n');
        for comparison in &self.comparisons {
            grids::of_comparison(comparison).iter().for_each(|grid| page.table(grid));
            remarks::of_comparison(comparison).iter().for_each(|remark| page.sentence(remark));
            let troubles = comparison.troubles.iter();
            troubles.for_each(|trouble| page.sentence(&format!("TROUBLE: {trouble}")));
            page.text.push('\n');
        }
        if let Some(grid) = grids::predictions(&self.predictions) {
            page.table(&grid);
        }
        remarks::of_predictions(self).iter().for_each(|remark| page.sentence(remark));
        page.glossed(&self.run_line());
        page.text
    }
}

/// Text that grows downwards and stays inside a terminal.
struct Lines {
    text: String,
    columns: usize,
    glossary: Glossary,
}

impl Lines {
    fn sentence(&mut self, text: &str) {
        for line in text.lines() {
            self.text += &report::grid::folded(line, self.columns, 2);
        }
    }

    fn glossed(&mut self, text: &str) {
        self.sentence(text);
        self.explain(text);
    }

    fn table(&mut self, grid: &report::grid::Grid) {
        let table = grid.to_text_within(self.columns);
        self.text += &table;
        self.explain(&table);
        self.text.push('\n');
    }

    fn explain(&mut self, text: &str) {
        for line in self.glossary.explain(text) {
            self.text += &report::grid::folded(&format!("  {line}"), self.columns, 4);
        }
    }
}
