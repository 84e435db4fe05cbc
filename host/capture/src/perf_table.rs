//! A table of `perf kvm stat` that was pasted into a mail, a bug report, an article.
//!
//! Lines that are not rows (headings, time stamps, messages in between) are read past. A page may
//! hold several tables; each is one recording.

use crate::Error;

/// One row as printed.
#[derive(Clone, Debug, PartialEq)]
pub struct TableRow {
    /// The first column, as printed.
    pub name: String,
    /// Exits of this row.
    pub samples: u64,
    /// The shortest, in microseconds.
    pub min_us: f64,
    /// The longest, in microseconds.
    pub max_us: f64,
    /// Their mean, in microseconds.
    pub mean_us: f64,
    /// Standard error of the mean in per cent.
    pub error_percent: f64,
    /// Share of the time of all rows, in per cent.
    pub time_percent: f64,
}

impl TableRow {
    /// Narrows the mean, of which two decimals are printed, by the share of the time, of which two
    /// are printed too: of millions of short exits it tells more.
    fn sharpen(&mut self, total_us: f64) {
        const HALF: f64 = 0.005;
        let mean_of = |percent: f64| percent / 100.0 * total_us / self.samples.max(1) as f64;
        let low = mean_of(self.time_percent - HALF).max(self.mean_us - HALF);
        let high = mean_of(self.time_percent + HALF).min(self.mean_us + HALF);
        if low <= high {
            self.mean_us = self.mean_us.clamp(low, high);
        }
    }
}

/// One table.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PastedTable {
    /// Heading of the first column.
    pub title: String,
    /// In the order of the page.
    pub rows: Vec<TableRow>,
    /// The line *Total Samples*, where there is one.
    pub total_samples: Option<u64>,
    /// The line *Total events handled time*, in microseconds, where there is one.
    pub total_us: Option<f64>,
    /// What of the table could not be read.
    pub warnings: Vec<String>,
}

const MOST_TABLES: usize = 64;
const MOST_ROWS: usize = 4096;

/// All tables of a text; an error if there is none.
pub fn read(text: &str) -> Result<Vec<PastedTable>, Error> {
    let mut tables: Vec<PastedTable> = Vec::new();
    let mut open: Option<PastedTable> = None;
    for line in text.lines() {
        // Answers to mails quote what they speak of.
        let line = line.trim_start_matches(['>', '|', ' ', '\t']);
        if line.contains("Samples%") && line.contains("Avg time") {
            tables.extend(open.take().filter(|table| !table.rows.is_empty()));
            let title = line.split("Samples").next().unwrap_or_default().trim().to_owned();
            open = Some(PastedTable { title, ..PastedTable::default() });
        } else if let Some((samples, time)) = totals(line) {
            if let Some(mut table) = open.take() {
                (table.total_samples, table.total_us) = (Some(samples), time);
                tables.push(table);
            }
        } else if let Some(table) = &mut open
            && table.rows.len() < MOST_ROWS
        {
            table.rows.extend(row(line));
        }
        if tables.len() >= MOST_TABLES {
            break;
        }
    }
    tables.extend(open.filter(|table| !table.rows.is_empty()));
    for table in &mut tables {
        let sum: u64 = table.rows.iter().map(|row| row.samples).sum();
        if let Some(total) = table.total_samples.filter(|total| *total != sum) {
            table.warnings.push(format!(
                "the rows add up to {sum} samples, the table says {total}: rows are missing"
            ));
        } else if let Some(total_us) = table.total_us {
            table.rows.iter_mut().for_each(|row| row.sharpen(total_us));
        }
    }
    if tables.is_empty() {
        return Err(Error::UnknownFormat("no table of perf kvm stat in the text".into()));
    }
    Ok(tables)
}

/// `name samples share% share% minus maxus meanus ( +- error% )`; a name may have spaces.
fn row(line: &str) -> Option<TableRow> {
    let (front, error) = line.split_once("( +-")?;
    let error = error.split('%').next()?.trim().parse().ok()?;
    let words: Vec<&str> = front.split_whitespace().collect();
    let [name @ .., samples, _, time_percent, min, max, mean] = words.as_slice() else {
        return None;
    };
    let us = |text: &str| text.strip_suffix("us")?.parse::<f64>().ok().filter(|us| *us >= 0.0);
    Some(TableRow {
        name: (!name.is_empty()).then(|| name.join(" "))?,
        samples: samples.parse().ok()?,
        min_us: us(min)?,
        max_us: us(max)?,
        mean_us: us(mean)?,
        error_percent: error,
        time_percent: time_percent.strip_suffix('%')?.parse().ok()?,
    })
}

/// `Total Samples:18, Total events handled time:1023810.53us.`
fn totals(line: &str) -> Option<(u64, Option<f64>)> {
    let rest = line.trim().strip_prefix("Total Samples:")?;
    let (samples, rest) = rest.split_once(',')?;
    let time = rest.rsplit(':').next().unwrap_or_default().trim();
    let time = time.trim_end_matches('.').strip_suffix("us").and_then(|us| us.parse().ok());
    Some((samples.trim().parse().ok()?, time))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const NOISY: &str = "\
15:52:35.709821
Analyze events for all VMs, all VCPUs:

             VM-EXIT    Samples  Samples%     Time%    Min Time    Max Time         Avg time

              INVLPG      18940    68.75%     4.34%      0.73us 104499.10us     45.88us ( +-  13.51% )
unknown kvm exit code:131072 on VMX
             PF excp       3622    13.15%    86.12%      0.34us 1663159.36us   4765.94us ( +-  18.58% )

Total Samples:27549, Total events handled time:20043311.08us.
";

    #[test]
    fn rows_are_told_from_the_noise_between_them() {
        let tables = read(NOISY).expect("a table");
        assert_eq!(tables.len(), 1);
        let table = &tables[0];
        assert_eq!(table.title, "VM-EXIT");
        let names: Vec<_> = table.rows.iter().map(|row| row.name.as_str()).collect();
        assert_eq!(names, ["INVLPG", "PF excp"]);
        assert_eq!((table.rows[0].samples, table.rows[0].mean_us), (18940, 45.88));
        assert_eq!((table.total_samples, table.total_us), (Some(27549), Some(20_043_311.08)));
        assert_eq!(table.warnings.len(), 1);
    }

    #[test]
    fn a_quoted_table_reads_like_the_table() {
        let quoted: String = NOISY.lines().map(|line| format!("> > {line}\n")).collect();
        assert_eq!(read(&quoted).expect("a table"), read(NOISY).expect("a table"));
    }

    #[test]
    fn a_share_of_the_time_narrows_a_mean() {
        let text = "\
             VM-EXIT    Samples  Samples%     Time%    Min Time    Max Time         Avg time
           interrupt   10980413    80.00%    60.00%      0.17us  36735.18us      0.82us ( +-   0.43% )
                 hlt        100    20.00%    40.00%      0.45us  13752.90us  60000.00us ( +-   8.06% )

Total Samples:10980513, Total events handled time:14960000.00us.
";
        let rows = &read(text).expect("a table")[0].rows;
        let shares: Vec<f64> =
            rows.iter().map(|row| row.mean_us * row.samples as f64 / 149_600.0).collect();
        assert!((shares[0] - 60.0).abs() < 0.006, "{shares:?}");
        assert!((rows[0].mean_us - 0.82).abs() < 0.005, "{rows:?}");
        // Where the two do not agree, the mean stands.
        assert_eq!(rows[1].mean_us, 60_000.0);
    }

    #[test]
    fn a_page_may_hold_several_tables() {
        assert_eq!(read(&NOISY.repeat(3)).expect("tables").len(), 3);
        assert!(read("nothing of the kind").is_err());
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "(Samples%|Avg time|Total Samples:|,|us|%|\\( \\+-|[0-9. \n]){0,60}") {
            let _ = read(&format!("Samples% Avg time\n{text}"));
        }
    }
}
