//! Tables by number: what all parts have, and what a vendor's have.

use crate::model::CpuModel;
use arch::cpuid::Feature;

/// A row: a number, or several that follow each other.
pub struct Entry<T> {
    pub first: u32,
    pub last: u32,
    /// Parts without the feature do not have it.
    pub needs: Option<Feature>,
    pub what: T,
}

/// Rows in the order of their numbers. A vendor's table has what the common one has not.
pub struct Tables<T: 'static> {
    pub all: &'static [Entry<T>],
    /// By [`Dialect`], in its order.
    ///
    /// [`Dialect`]: crate::operation::Dialect
    pub own: [&'static [Entry<T>]; 2],
}

impl<T> Tables<T> {
    /// The row of a number, if the part has it.
    pub fn find(&self, model: &CpuModel, number: u32) -> Option<&'static Entry<T>> {
        let own = self.own[model.dialect() as usize];
        let row = row(self.all, number).or_else(|| row(own, number))?;
        row.needs.is_none_or(|feature| model.has(feature)).then_some(row)
    }

    #[cfg(test)]
    pub fn check(&self) {
        for own in self.own {
            let mut rows: Vec<_> = self.all.iter().chain(own).collect();
            for table in [self.all, own] {
                assert!(table.is_sorted_by_key(|row| row.first));
            }
            rows.sort_by_key(|row| row.first);
            for pair in rows.windows(2) {
                assert!(pair[0].last < pair[1].first, "{:#x} has two rows", pair[1].first);
            }
        }
    }
}

fn row<T>(rows: &'static [Entry<T>], number: u32) -> Option<&'static Entry<T>> {
    let row = rows.get(rows.partition_point(|row| row.last < number))?;
    (row.first <= number).then_some(row)
}
