//! A recording to a profile: opens the file, lets its reader fill parts, joins them.

use super::progress::Progress;
use capture::open::{Input, open};
use capture::order::Orderer;
use capture::perf_data::{Header, Reading, fold, read_stream};
use capture::sink::Stretched;
use capture::{Origin, Sink, ftrace_text, machine, perf_table, sums, trace_dat};
use profile::avoidable::Evidence;
use profile::name::ExtraNames;
use profile::pairing::Arrival;
use profile::part::Edges;
use profile::pasted::{PrintedRow, from_rows};
use profile::{Assembly, Context, Options, Part, Profile};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::num::NonZero;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64};
use trace::exit_reason::Isa;
use trace::inhibit::Numbering;
use trace::kvm::{Departure, KvmEvent, Stamp};

/// A vCPU that says nothing for longer than this outside its guest may have run elsewhere between.
/// A shorter time cuts a recording into more pieces; a longer one may turn out to be wrong, and
/// then the threads concerned are read once more.
const LONGEST_SILENCE_NS: u64 = 1 << 20;

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
    pub vendor: Option<Isa>,
    pub kernel: Option<String>,
}

/// A part of a recording and the names of its threads.
struct Gathering {
    part: Part,
    names: BTreeMap<u32, String>,
}

impl Sink for Gathering {
    fn event(&mut self, stamp: &Stamp, event: &KvmEvent) {
        self.part.event(stamp, event);
    }

    #[inline(always)]
    fn departure(&mut self, departure: &Departure) {
        self.part.departure(departure);
    }

    #[inline(always)]
    fn entry(&mut self, stamp: &Stamp, vcpu: u32) {
        self.part.entry(stamp, vcpu);
    }

    #[inline(always)]
    fn trip(&mut self, departure: &Departure, entry_ns: u64, vcpu: impl FnOnce() -> u32) {
        self.part.trip(departure, entry_ns, vcpu);
    }

    fn lost(&mut self, cpu: u32, at_ns: u64, events: u64) {
        self.part.lost(cpu, at_ns, events);
    }

    fn thread_name(&mut self, _: u32, thread: u32, name: &str) {
        self.names.insert(thread, name.to_owned());
    }

    fn finished_round(&mut self) {
        self.part.finished_round();
    }
}

impl Stretched for Gathering {
    type Edges = (Edges, BTreeMap<u32, String>);

    fn cut(&mut self) -> Self::Edges {
        (self.part.cut(), std::mem::take(&mut self.names))
    }
}

/// What a reader leaves behind.
struct Gathered {
    gathering: Gathering,
    origin: Origin,
    extra_names: ExtraNames,
    inhibit_names: BTreeMap<u32, String>,
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
    let opened = open(path)?;
    let bytes = match &opened.input {
        Input::PerfDirectory(directory) => directory.length(),
        _ => std::fs::metadata(path).map_or(0, |metadata| metadata.len()),
    };
    let progress = Progress::start(&name, bytes);
    let read = &progress.bytes;
    let make = || Gathering { part: Part::new(&told.options), names: BTreeMap::new() };
    let breakage = opened.breakage();
    let mut gathered = match opened.input {
        Input::PerfFile(file, length) => read_perf_file(file, length, stop, read, &told.options)?,
        Input::PerfDirectory(directory) => {
            let mut ordered = Orderer::new(make());
            let origin = directory.read(stop, read, &mut ordered)?;
            Gathered::new(ordered.finish(), origin)
        }
        Input::PerfPipe(mut input) => {
            let mut ordered = Orderer::new(make());
            let origin = read_stream(&mut *input, None, stop, read, &mut ordered)?;
            Gathered::new(ordered.finish(), origin)
        }
        Input::TraceDat(file, length) => {
            let mut gathering = make();
            let origin = trace_dat::read(&file, length, stop, read, &mut gathering)?;
            Gathered::new(gathering, origin)
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
        Input::Table(text) => return tables(&name, &text, told),
        Input::Sums(input) => {
            let mut file = sums::read(input)?;
            file.origin.warnings.extend(breakage());
            let context = super::watch::context(&file.origin, &file.names);
            let profile = super::watch::profile_of(&file);
            return Ok(vec![Analysis { name, origin: file.origin, profile, context }]);
        }
    };
    drop(progress);
    gathered.origin.warnings.extend(breakage());
    Ok(vec![finish(name, gathered, told)])
}

impl Gathered {
    fn new(gathering: Gathering, origin: Origin) -> Self {
        let (extra_names, inhibit_names) = (ExtraNames::new(), BTreeMap::new());
        Self { gathering, origin, extra_names, inhibit_names }
    }
}

fn read_perf_file(
    file: File,
    length: u64,
    stop: &AtomicBool,
    progress: &AtomicU64,
    options: &Options,
) -> anyhow::Result<Gathered> {
    let header = Header::read(&file, length)?;
    if header.is_compressed {
        let gathering = Gathering { part: Part::new(options), names: BTreeMap::new() };
        let mut ordered = Orderer::new(gathering);
        let mut records = file;
        records.seek(SeekFrom::Start(header.data.start))?;
        let mut records = records.take(header.data.end - header.data.start);
        let origin = read_stream(&mut records, Some(header), stop, progress, &mut ordered)?;
        return Ok(Gathered::new(ordered.finish(), origin));
    }
    let arrival = if header.layouts.has_several_buffers {
        Arrival::ByCpu { gap_ns: LONGEST_SILENCE_NS }
    } else {
        Arrival::InOrder
    };
    let reading = Reading::new(stop, progress);
    let (mut whole, warnings) = read_chunks(&file, &header, &reading, options, arrival)?;
    let tangled = whole.part.tangled_threads();
    if !tangled.is_empty() {
        // Cut wherever they can have been elsewhere, they cannot be out of order.
        let (options, arrival) = (options.only_threads(tangled), Arrival::ByCpu { gap_ns: 0 });
        let (finer, _) = read_chunks(&file, &header, &reading, &options, arrival)?;
        whole.part.replace_threads(finer.part);
    }
    let mut origin = header.origin;
    origin.warnings.extend(warnings);
    Ok(Gathered::new(whole, origin))
}

/// Reads all records with as many threads as there are CPUs, unless that misleads.
fn read_chunks(
    file: &File,
    header: &Header,
    reading: &Reading<'_>,
    options: &Options,
    arrival: Arrival,
) -> anyhow::Result<(Gathering, Vec<String>)> {
    let make = || Gathering { part: Part::of(options, arrival), names: BTreeMap::new() };
    let alone = Reading { threads: NonZero::<usize>::MIN, ..*reading };
    for reading in [reading, &alone] {
        let mut assembly = Assembly::new(options, arrival);
        let mut names = BTreeMap::new();
        let folded = fold(file, header, reading, &make, |(edges, more)| {
            assembly.take(edges);
            names.extend(more);
        })?;
        if let Some((sums, warnings)) = folded {
            let part = assembly.finish(sums.into_iter().map(|sum| sum.part));
            return Ok((Gathering { part, names }, warnings));
        }
    }
    anyhow::bail!("records end in different places when they are read twice: the file changes")
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
        let origin = Origin {
            format: "table of perf kvm stat".into(),
            bytes: text.len() as u64,
            warnings: table.warnings,
            ..Origin::default()
        };
        let context = Context { isa: told.vendor, extra_names, ..Context::default() };
        let number = if count > 1 { format!(" table {}", index + 1) } else { String::new() };
        Analysis { name: format!("{name}{number}"), origin, profile, context }
    });
    Ok(analyses.collect())
}
