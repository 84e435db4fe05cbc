//! A recording to a profile: opens the file, lets its reader fill parts, joins them.

use crate::gather::{Gathered, Gathering, read_divided, read_perf_file, read_trace_dat};
use crate::{Error, sampled};
use capture::open::{Input, open};
use capture::order::Orderer;
use capture::perf_data::read_stream;
use capture::perf_table::TableRow;
use capture::{Origin, Reading, ftrace_text, machine, perf_table, sums, trace_dat, xen_trace};
use profile::avoidable::Evidence;
use profile::pasted::{PrintedRow, from_rows};
use profile::{Context, Options, Part, Profile};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64};
use trace::exit_reason::Isa;
use trace::inhibit::Numbering;

/// A profile with what is known of its recording.
pub struct Analysis {
    /// The file's name, with a number where it holds several recordings.
    pub name: String,
    /// What recorded it, where, and what it lacks.
    pub origin: Origin,
    /// The exits.
    pub profile: Profile,
    /// What the exits' names and verdicts rest on.
    pub context: Context,
}

/// What the user says about a recording.
pub struct Told {
    /// Which exits count.
    pub options: Options,
    /// The same stretch of time as in the options.
    pub from_ns: u64,
    /// Its end.
    pub to_ns: u64,
    /// What exits are, where the recording does not say.
    pub vendor: Option<Isa>,
    /// The kernel's release, where the recording does not say or says wrongly.
    pub kernel: Option<String>,
    /// The time-stamp counter's rate, where the recording does not say.
    pub tsc_hertz: Option<u64>,
}

impl Told {
    /// Nothing but the recording itself.
    pub fn nothing(options: Options) -> Self {
        Self { options, from_ns: 0, to_ns: u64::MAX, vendor: None, kernel: None, tsc_hertz: None }
    }
}

/// A listener to how far a reading is.
pub trait Follow {
    /// Reading of so many bytes begins, after whatever went before; returns where the bytes that
    /// have been read are counted.
    fn begins(&mut self, name: &str, bytes: u64, is_packed: bool) -> Arc<AtomicU64>;

    /// The recording has been read.
    fn ends(&mut self) {}
}

/// Nobody wants to know.
pub struct Unfollowed;

impl Follow for Unfollowed {
    fn begins(&mut self, _: &str, _: u64, _: bool) -> Arc<AtomicU64> {
        Arc::default()
    }
}

/// Reads recordings of any kind; a text may hold several tables.
pub fn analyse(
    path: &Path,
    told: &Told,
    stop: &AtomicBool,
    follower: &mut dyn Follow,
) -> Result<Vec<Analysis>, Error> {
    let outcome = read(path, told, stop, follower);
    follower.ends();
    outcome.map_err(|error| match error {
        Error::Capture(capture::Error::File { .. }) => error,
        _ => Error::Recording { path: path.to_owned(), source: Box::new(error) },
    })
}

fn read(
    path: &Path,
    told: &Told,
    stop: &AtomicBool,
    follower: &mut dyn Follow,
) -> Result<Vec<Analysis>, Error> {
    let name = path.display().to_string();
    let mut unpacked = None;
    let opened = open(path, stop, &mut |packed| {
        Arc::clone(unpacked.insert(follower.begins(&name, packed, true)))
    })?;
    let read = match &opened.input {
        // Whatever was packed is unpacked now.
        Input::PerfFile(_, length) | Input::TraceDat(_, length) => {
            follower.begins(&name, *length, false)
        }
        Input::PerfDirectory(directory) => follower.begins(&name, directory.length(), false),
        // It is unpacked while it is read.
        _ if unpacked.is_some() => Arc::default(),
        _ => {
            let length = std::fs::metadata(path).map_or(0, |metadata| metadata.len());
            follower.begins(&name, length, false)
        }
    };
    let breakage = opened.breakage();
    let (reading, options) = (Reading::new(stop, &read), &told.options);
    let make = || Gathering::new(Part::new(options));
    let mut gathered = match opened.input {
        Input::PerfFile(file, length) => read_perf_file(file, length, stop, &read, options)?,
        Input::PerfDirectory(directory) => {
            read_divided(&directory.into_recording()?, &reading, options)?
        }
        Input::PerfPipe(mut input) => {
            let mut ordered = Orderer::new(make());
            let origin = read_stream(&mut *input, None, stop, &read, &mut ordered)?;
            Gathered::new(ordered.finish()?, origin)
        }
        Input::TraceDat(file, length) => {
            read_trace_dat(&trace_dat::Recording::open(file, length)?, &reading, options)?
        }
        Input::Text(input) => {
            let mut gathering = make();
            let found = ftrace_text::read(input, stop, &read, &mut gathering)?;
            Gathered {
                gathering,
                origin: found.origin,
                extra_names: found.extra_names,
                inhibit_names: found.inhibit_names,
            }
        }
        Input::Machine(input) => {
            let mut gathering = make();
            let origin = machine::read(input, stop, &read, &mut gathering)?;
            Gathered::new(gathering, origin)
        }
        Input::Xen(input) => {
            let mut ordered = Orderer::new(make());
            let known = xen_trace::Known { isa: told.vendor, tsc_hertz: told.tsc_hertz };
            let origin = xen_trace::read(input, known, stop, &read, &mut ordered)?;
            Gathered::new(ordered.finish()?, origin)
        }
        Input::Table(text) => return tables(&name, &text, told),
        Input::Sums(input) => {
            let mut file = sums::read(input)?;
            file.origin.warnings.extend(breakage());
            file.narrow(told.from_ns, told.to_ns);
            let context = sampled::context(&file.origin, &file.names);
            let profile = sampled::profile_of(&file);
            return Ok(vec![Analysis { name, origin: file.origin, profile, context }]);
        }
    };
    gathered.origin.warnings.extend(breakage());
    Ok(vec![finish(name, gathered, told)])
}

fn finish(name: String, gathered: Gathered, told: &Told) -> Analysis {
    let Gathered { gathering, mut origin, extra_names, inhibit_names } = gathered;
    if told.kernel.is_some() {
        origin.kernel_release.clone_from(&told.kernel);
    }
    let printed = origin.inhibit_print_format.as_deref().and_then(Numbering::from_print_format);
    let learnt =
        || Numbering::from_bits(inhibit_names.iter().map(|(bit, name)| (*bit, name.as_str())));
    let by_release = || origin.kernel_release.as_deref().and_then(Numbering::of_kernel);
    let has = |name: &str| origin.events.iter().any(|event| event == name);
    let context = Context {
        isa: told.vendor.or_else(|| origin.cpu.as_deref().and_then(Isa::of_vendor)),
        numbering: printed.or_else(learnt).or_else(by_release).unwrap_or_else(Numbering::assumed),
        evidence: Evidence {
            has_msr: has("kvm_msr"),
            has_mmio: has("kvm_mmio"),
            has_exits: true,
            ..Evidence::default()
        },
        extra_names,
        thread_names: gathering.names,
    };
    Analysis { name, profile: gathering.part.finish(), origin, context }
}

fn tables(name: &str, text: &str, told: &Told) -> Result<Vec<Analysis>, Error> {
    let tables = perf_table::read(text)?;
    let count = tables.len();
    let analyses = tables.into_iter().enumerate().map(|(index, table)| {
        let rows: Vec<PrintedRow> = table.rows.into_iter().map(printed).collect();
        let (profile, extra_names) = from_rows(&table.title, &rows);
        let mut warnings = table.warnings;
        if told.from_ns > 0 || told.to_ns < u64::MAX {
            warnings.push("a printed table has no times: --from and --to change nothing".into());
        }
        let origin = Origin {
            format: "table of perf kvm stat".into(),
            bytes: text.len() as u64,
            warnings,
            ..Origin::default()
        };
        let context = Context { isa: told.vendor, extra_names, ..Context::default() };
        let number = if count > 1 { format!(" table {}", index + 1) } else { String::new() };
        Analysis { name: format!("{name}{number}"), origin, profile, context }
    });
    Ok(analyses.collect())
}

/// A row of a table as it was printed.
fn printed(row: TableRow) -> PrintedRow {
    PrintedRow {
        name: row.name,
        count: row.samples,
        min_us: row.min_us,
        max_us: row.max_us,
        mean_us: row.mean_us,
        error_percent: row.error_percent,
    }
}
