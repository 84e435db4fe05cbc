//! A recording to a profile: opens the file, lets its reader fill parts, joins them.

use super::gather::{Gathered, Gathering, read_divided, read_perf_file, read_trace_dat};
use super::progress::Progress;
use capture::open::{Input, open};
use capture::order::Orderer;
use capture::perf_data::read_stream;
use capture::{Origin, Reading, ftrace_text, machine, perf_table, sums, trace_dat, xen_trace};
use profile::avoidable::Evidence;
use profile::pasted::{PrintedRow, from_rows};
use profile::{Context, Options, Part, Profile};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use trace::exit_reason::Isa;
use trace::inhibit::Numbering;

/// A profile with what is known of its recording.
pub struct Analysis {
    /// The file's name, with a number where it holds several recordings.
    pub name: String,
    pub origin: Origin,
    pub profile: Profile,
    pub context: Context,
}

/// What the user says about a recording.
pub struct Told {
    pub options: Options,
    /// The same stretch of time as in the options.
    pub from_ns: u64,
    pub to_ns: u64,
    pub vendor: Option<Isa>,
    pub kernel: Option<String>,
    pub tsc_hertz: Option<u64>,
}

/// Reads recordings of any kind; a text may hold several tables.
pub fn analyse(path: &Path, told: &Told, stop: &AtomicBool) -> anyhow::Result<Vec<Analysis>> {
    read(path, told, stop).map_err(|error| match error.downcast_ref() {
        Some(capture::Error::File { .. }) => error,
        _ => error.context(path.display().to_string()),
    })
}

fn read(path: &Path, told: &Told, stop: &AtomicBool) -> anyhow::Result<Vec<Analysis>> {
    let name = path.display().to_string();
    let mut unpacking = None;
    let opened = open(path, stop, &mut |packed| {
        Arc::clone(&unpacking.insert(Progress::of_packed(&name, packed)).bytes)
    })?;
    let progress = match &opened.input {
        Input::PerfFile(_, length) | Input::TraceDat(_, length) => {
            // Whatever was packed is unpacked now.
            drop(unpacking.take());
            Progress::start(&name, *length)
        }
        Input::PerfDirectory(directory) => Progress::start(&name, directory.length()),
        _ if unpacking.is_some() => Progress::hidden(),
        _ => Progress::start(&name, std::fs::metadata(path).map_or(0, |metadata| metadata.len())),
    };
    let read = &progress.bytes;
    let make = || Gathering::new(Part::new(&told.options));
    let breakage = opened.breakage();
    let mut gathered = match opened.input {
        Input::PerfFile(file, length) => read_perf_file(file, length, stop, read, &told.options)?,
        Input::PerfDirectory(directory) => {
            let recording = directory.into_recording()?;
            read_divided(&recording, &Reading::new(stop, read), &told.options)?
        }
        Input::PerfPipe(mut input) => {
            let mut ordered = Orderer::new(make());
            let origin = read_stream(&mut *input, None, stop, read, &mut ordered)?;
            Gathered::new(ordered.finish()?, origin)
        }
        Input::TraceDat(file, length) => {
            let recording = trace_dat::Recording::open(file, length)?;
            read_trace_dat(&recording, &Reading::new(stop, read), &told.options)?
        }
        Input::Text(input) => {
            let mut gathering = make();
            let found = ftrace_text::read(input, stop, read, &mut gathering)?;
            Gathered {
                gathering,
                origin: found.origin,
                extra_names: found.extra_names,
                inhibit_names: found.inhibit_names,
            }
        }
        Input::Machine(input) => {
            let mut gathering = make();
            let origin = machine::read(input, stop, read, &mut gathering)?;
            Gathered::new(gathering, origin)
        }
        Input::Xen(input) => {
            let mut ordered = Orderer::new(make());
            let known = xen_trace::Known { isa: told.vendor, tsc_hertz: told.tsc_hertz };
            let origin = xen_trace::read(input, known, stop, read, &mut ordered)?;
            Gathered::new(ordered.finish()?, origin)
        }
        Input::Table(text) => return tables(&name, &text, told),
        Input::Sums(input) => {
            let mut file = sums::read(input)?;
            file.origin.warnings.extend(breakage());
            file.narrow(told.from_ns, told.to_ns);
            let context = super::watch::context(&file.origin, &file.names);
            let profile = super::watch::profile_of(&file);
            return Ok(vec![Analysis { name, origin: file.origin, profile, context }]);
        }
    };
    drop((progress, unpacking));
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

fn tables(name: &str, text: &str, told: &Told) -> anyhow::Result<Vec<Analysis>> {
    let tables = perf_table::read(text)?;
    let count = tables.len();
    let analyses = tables.into_iter().enumerate().map(|(index, table)| {
        let rows: Vec<PrintedRow> = table.rows.into_iter().map(super::watch::printed).collect();
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
