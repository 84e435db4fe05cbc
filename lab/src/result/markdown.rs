//! A result for a ticket or a page of documentation, through the model of `report`.

use super::{LabResult, grids, remarks};
use crate::comparison::Comparison;
use report::document::{Document, Section, Severity};

impl LabResult {
    /// The verdict comes first; every table and remark follows.
    pub fn to_markdown(&self) -> String {
        self.document().to_markdown()
    }

    /// The whole as a model that knows no workload.
    fn document(&self) -> Document {
        let mut document = Document::new(self.title());
        document.fact("run", Some(self.run_line()));
        let mut answer = Section::new("Answer");
        let good = if self.verdict.is_good() { Severity::Good } else { Severity::Problem };
        answer.say(good, &self.verdict.text);
        answer.say(Severity::Good, self.costs_sentence());
        document.add(answer);
        self.comparisons.iter().for_each(|one| document.add(section(one)));
        let mut published = Section::new("Published figures");
        grids::predictions(&self.predictions).into_iter().for_each(|grid| published.show(grid));
        let remarks = remarks::of_predictions(self);
        remarks.into_iter().for_each(|remark| published.say(Severity::Good, remark));
        document.add(published);
        document
    }
}

fn section(comparison: &Comparison) -> Section {
    let mut section = Section::new(&comparison.name);
    let troubles = comparison.troubles.iter();
    troubles.for_each(|trouble| section.say(Severity::Problem, trouble));
    let remarks = remarks::of_comparison(comparison);
    remarks.into_iter().for_each(|remark| section.say(Severity::Good, remark));
    grids::of_comparison(comparison).into_iter().for_each(|grid| section.show(grid));
    section
}
