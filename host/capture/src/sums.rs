//! Exits summed up while they happened: what the kernel program counts, and the file of it.
//!
//! The file is text, one JSON value a line: a head, then for every interval the rows that changed
//! in it. It is only ever appended to, so that whatever ends a recording leaves what was written
//! before; a last line that breaks off is left out with a warning.

use crate::Error;
use crate::sink::Origin;
use serde::{Deserialize, Serialize};
use std::io::{BufRead, Write};

/// First bytes of such a file.
pub const MAGIC: &[u8] = b"{\"avicenna_exits\":";
const VERSION: u32 = 1;
/// Octaves of the kernel program's histogram.
pub const OCTAVES: usize = 40;

/// What an exit was about, as far as the kernel program looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum About {
    /// Nothing that is looked at.
    Nothing,
    /// With the kind of command that was written, where it is the ICR.
    Msr {
        /// Number of the MSR.
        index: u32,
        /// WRMSR, not RDMSR.
        is_write: bool,
        /// The command's low 32 bits without its vector, where the ICR was written; else zero.
        icr: u32,
    },
    /// A register of the APIC's page.
    Register {
        /// Bytes from the page's start.
        offset: u16,
        /// A write.
        is_write: bool,
    },
    /// An IPI that AVIC left to KVM.
    IncompleteIpi {
        /// Number of the cause. [APM2 "AVIC IPI Delivery Not Completed"]
        cause: u32,
    },
}

/// Which exits a row sums up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct RowKey {
    /// Number of the process that runs the machine.
    pub process: u32,
    /// Number of the vCPU's thread.
    pub thread: u32,
    /// KVM's number of the vCPU.
    pub vcpu: u32,
    /// KVM's number of the instruction set: 1 is VMX, 2 is SVM.
    pub isa: u32,
    /// The exit's reason, as KVM's tracepoint has it.
    pub reason: u32,
    /// What it was about.
    pub about: About,
}

/// The sums of a row.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sums {
    /// Exits.
    pub count: u64,
    /// From exit to entry, all together, in nanoseconds.
    pub time_ns: u64,
    /// Sum of squares of units of 1024 ns.
    pub squares: u64,
    /// The shortest, in nanoseconds.
    pub least_ns: u64,
    /// The longest, in nanoseconds.
    pub most_ns: u64,
    /// Counts by power of two of nanoseconds.
    pub octaves: Vec<u64>,
}

impl Sums {
    /// What was added since an earlier reading of the same row. The shortest and the longest are
    /// only known of all time; of what was added, an old one is narrowed to its octave.
    pub fn since(&self, earlier: &Self) -> Self {
        let at = |index: usize| earlier.octaves.get(index).copied().unwrap_or(0);
        let octaves: Vec<u64> = self
            .octaves
            .iter()
            .enumerate()
            .map(|(index, count)| count.saturating_sub(at(index)))
            .collect();
        let is_first = earlier.count == 0;
        let lowest = octaves.iter().position(|count| *count > 0).filter(|index| *index < 63);
        // The last octave takes all that lasted longer.
        let highest = octaves
            .iter()
            .rposition(|count| *count > 0)
            .filter(|index| *index < 63 && index + 1 < octaves.len());
        let least_ns = match lowest {
            Some(index) if !is_first && self.least_ns >= earlier.least_ns => {
                self.least_ns.max((1 << index) & !1)
            }
            _ => self.least_ns,
        };
        let most_ns = match highest {
            Some(index) if !is_first && self.most_ns <= earlier.most_ns => {
                self.most_ns.min((2 << index) - 1)
            }
            _ => self.most_ns,
        };
        let count = self.count.saturating_sub(earlier.count);
        let time_ns = self.time_ns.saturating_sub(earlier.time_ns);
        let squares = self.squares.saturating_sub(earlier.squares);
        Self { count, time_ns, squares, least_ns, most_ns, octaves }
    }
}

/// What happened in an interval that ended at a time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Interval {
    /// In nanoseconds of the host's monotonic clock.
    pub end_ns: u64,
    /// Rows that had exits in it.
    pub rows: Vec<(RowKey, Sums)>,
}

#[derive(Debug, Serialize, Deserialize)]
struct Head {
    avicenna_exits: u32,
    start_ns: u64,
    origin: Origin,
    /// Names of processes.
    names: Vec<(u32, String)>,
}

/// Writes a file of intervals.
pub struct SumsWriter<W> {
    out: W,
}

impl<W: Write> SumsWriter<W> {
    /// Writes the head of a file. Fails where `out` does.
    pub fn new(
        mut out: W,
        start_ns: u64,
        origin: &Origin,
        names: &[(u32, String)],
    ) -> Result<Self, Error> {
        let head = Head {
            avicenna_exits: VERSION,
            start_ns,
            origin: origin.clone(),
            names: names.to_vec(),
        };
        line(&mut out, &head)?;
        Ok(Self { out })
    }

    /// Appends an interval as one write, so that a reader sees all of it or none.
    pub fn interval(&mut self, interval: &Interval) -> Result<(), Error> {
        line(&mut self.out, interval)
    }
}

fn line(out: &mut impl Write, value: &impl Serialize) -> Result<(), Error> {
    let mut text = serde_json::to_vec(value).map_err(std::io::Error::other)?;
    text.push(b'\n');
    out.write_all(&text).and_then(|()| out.flush()).map_err(Error::Write)
}

/// What a file holds.
#[derive(Debug)]
pub struct SumsFile {
    /// Where it was made.
    pub origin: Origin,
    /// When it began, in nanoseconds of the host's monotonic clock.
    pub start_ns: u64,
    /// Names of processes by number.
    pub names: Vec<(u32, String)>,
    /// In order of time.
    pub intervals: Vec<Interval>,
}

impl SumsFile {
    /// Leaves only intervals of which the middle lies from one time to before another.
    pub fn narrow(&mut self, from_ns: u64, to_ns: u64) {
        let mut begin_ns = self.start_ns;
        let mut first_ns = None;
        self.intervals.retain(|interval| {
            let middle_ns = begin_ns / 2 + interval.end_ns / 2;
            let stays = (from_ns..to_ns).contains(&middle_ns);
            if stays {
                first_ns.get_or_insert(begin_ns);
            }
            begin_ns = interval.end_ns;
            stays
        });
        self.start_ns = first_ns.unwrap_or(self.start_ns);
    }
}

/// A day of seconds.
const MOST_INTERVALS: usize = 1 << 17;

/// Reads a file of intervals, up to where it breaks off.
pub fn read(input: impl BufRead) -> Result<SumsFile, Error> {
    let mut lines = input.lines();
    let first = lines.next().transpose()?.unwrap_or_default();
    let head: Head = serde_json::from_str(&first)
        .map_err(|error| Error::malformed("head of summed exits", 0, error.to_string()))?;
    if head.avicenna_exits != VERSION {
        return Err(Error::Unsupported(format!("summed exits of version {}", head.avicenna_exits)));
    }
    let mut file = SumsFile {
        origin: head.origin,
        start_ns: head.start_ns,
        names: head.names,
        intervals: Vec::new(),
    };
    for line in lines.take(MOST_INTERVALS) {
        match serde_json::from_str(&line?) {
            Ok(interval) => file.intervals.push(interval),
            Err(error) => {
                let number = file.intervals.len() + 1;
                let why = format!("interval {number} breaks off ({error}): the rest is left out");
                file.origin.warnings.push(why);
                break;
            }
        }
    }
    Ok(file)
}

#[cfg(test)]
mod tests;
