//! A recording read by as many threads as there are CPUs, and put together.

use crate::Error;
use capture::order::Orderer;
use capture::perf_data::{Divided, Header, fold, read_stream};
use capture::sink::Stretched;
use capture::{Origin, Reading, Sink, trace_dat};
use profile::name::ExtraNames;
use profile::pairing::Arrival;
use profile::part::Edges;
use profile::{Assembly, Options, Part};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::num::NonZero;
use std::sync::atomic::{AtomicBool, AtomicU64};
use trace::kvm::{Departure, KvmEvent, Stamp};

/// A vCPU that says nothing for longer than this outside its guest may have run elsewhere between.
/// A shorter time cuts a recording into more pieces; a longer one may turn out to be wrong, and
/// then the threads concerned are read once more.
const LONGEST_SILENCE_NS: u64 = 1 << 20;

/// A part of a recording and the names of its threads.
pub(crate) struct Gathering {
    pub part: Part,
    pub names: BTreeMap<u32, String>,
}

impl Gathering {
    pub const fn new(part: Part) -> Self {
        Self { part, names: BTreeMap::new() }
    }
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
pub(crate) struct Gathered {
    pub gathering: Gathering,
    pub origin: Origin,
    pub extra_names: ExtraNames,
    pub inhibit_names: BTreeMap<u32, String>,
}

impl Gathered {
    pub fn new(gathering: Gathering, origin: Origin) -> Self {
        let (extra_names, inhibit_names) = (ExtraNames::new(), BTreeMap::new());
        Self { gathering, origin, extra_names, inhibit_names }
    }
}

pub(crate) fn read_perf_file(
    file: File,
    length: u64,
    stop: &AtomicBool,
    progress: &AtomicU64,
    options: &Options,
) -> Result<Gathered, Error> {
    let header = Header::read(&file, length)?;
    if header.is_compressed {
        let gathering = Gathering::new(Part::new(options));
        let mut ordered = Orderer::new(gathering);
        let mut records = file;
        records.seek(SeekFrom::Start(header.data.start))?;
        let mut records = records.take(header.data.end - header.data.start);
        let origin = read_stream(&mut records, Some(header), stop, progress, &mut ordered)?;
        return Ok(Gathered::new(ordered.finish()?, origin));
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
    let tangled = whole.part.tangled_threads();
    if !tangled.is_empty() {
        let gathering = Gathering::new(Part::new(&options.only_threads(tangled.clone())));
        let mut ordered = Orderer::of_threads(gathering, tangled);
        let header = Header::read(&file, length)?;
        let mut records = &file;
        records.seek(SeekFrom::Start(header.data.start))?;
        let mut records = records.take(header.data.end - header.data.start);
        read_stream(&mut records, Some(header), stop, progress, &mut ordered)?;
        whole.part.replace_threads(ordered.finish()?.part);
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
) -> Result<Merged, Error> {
    let make = || Gathering::new(Part::of(options, arrival));
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
    Err(Error::Changing)
}

/// Streams of a recording that are read in parallel.
trait Streams: Sync {
    fn fold(
        &self,
        reading: &Reading<'_>,
        make: &(impl Fn() -> Gathering + Sync),
        join: impl FnMut(<Gathering as Stretched>::Edges, u64) + Send,
    ) -> Result<(Vec<Gathering>, Vec<String>), capture::Error>;

    /// The same by one thread, event by event in the order of time.
    fn merged(&self, reading: &Reading<'_>, gathering: Gathering)
    -> Result<Merged, capture::Error>;
}

/// What was gathered and what is wrong with the recording.
type Merged = (Gathering, Vec<String>);

impl Streams for trace_dat::Recording {
    fn fold(
        &self,
        reading: &Reading<'_>,
        make: &(impl Fn() -> Gathering + Sync),
        join: impl FnMut(<Gathering as Stretched>::Edges, u64) + Send,
    ) -> Result<(Vec<Gathering>, Vec<String>), capture::Error> {
        Self::fold(self, reading, make, join)
    }

    fn merged(
        &self,
        reading: &Reading<'_>,
        mut gathering: Gathering,
    ) -> Result<Merged, capture::Error> {
        let warnings = self.read(reading.stop, reading.progress, &mut gathering)?;
        Ok((gathering, warnings))
    }
}

impl Streams for Divided {
    fn fold(
        &self,
        reading: &Reading<'_>,
        make: &(impl Fn() -> Gathering + Sync),
        join: impl FnMut(<Gathering as Stretched>::Edges, u64) + Send,
    ) -> Result<(Vec<Gathering>, Vec<String>), capture::Error> {
        Self::fold(self, reading, make, join)
    }

    fn merged(
        &self,
        reading: &Reading<'_>,
        gathering: Gathering,
    ) -> Result<Merged, capture::Error> {
        let mut ordered = Orderer::new(gathering);
        let warnings = self.read(reading.stop, reading.progress, &mut ordered)?;
        Ok((ordered.finish()?, warnings))
    }
}

/// Reads the files of a recorder with several threads.
pub(crate) fn read_divided(
    recording: &Divided,
    reading: &Reading<'_>,
    options: &Options,
) -> Result<Gathered, Error> {
    let (whole, warnings) = read_untangled(recording, reading, options)?;
    let mut origin = recording.origin().clone();
    origin.warnings.extend(warnings);
    Ok(Gathered::new(whole, origin))
}

/// Reads the pages of all CPUs, unless only the order of time makes sense of them.
pub(crate) fn read_trace_dat(
    recording: &trace_dat::Recording,
    reading: &Reading<'_>,
    options: &Options,
) -> Result<Gathered, Error> {
    let (mut whole, warnings) = if recording.is_of_one_cpu() {
        read_in_parallel(recording, reading, options, Arrival::InOrder)?
    } else if recording.has_one_buffer_per_cpu() {
        read_untangled(recording, reading, options)?
    } else {
        recording.merged(reading, Gathering::new(Part::new(options)))?
    };
    whole.names.extend(recording.names().clone());
    let mut origin = recording.origin().clone();
    origin.warnings.extend(warnings);
    Ok(Gathered::new(whole, origin))
}

/// Reads streams as coarsely as turns out to be right for each thread of the recording.
fn read_untangled(
    streams: &impl Streams,
    reading: &Reading<'_>,
    options: &Options,
) -> Result<Merged, Error> {
    let arrival = Arrival::ByCpu { gap_ns: LONGEST_SILENCE_NS };
    let (mut whole, warnings) = read_in_parallel(streams, reading, options, arrival)?;
    let tangled = whole.part.tangled_threads();
    if !tangled.is_empty() {
        let options = options.only_threads(tangled);
        let finer = read_in_parallel(streams, reading, &options, Arrival::ByCpu { gap_ns: 0 })?;
        whole.part.replace_threads(finer.0.part);
    }
    let tangled = whole.part.tangled_threads();
    if !tangled.is_empty() {
        let gathering = Gathering::new(Part::new(&options.only_threads(tangled)));
        whole.part.replace_threads(streams.merged(reading, gathering)?.0.part);
    }
    Ok((whole, warnings))
}

fn read_in_parallel(
    streams: &impl Streams,
    reading: &Reading<'_>,
    options: &Options,
    arrival: Arrival,
) -> Result<Merged, Error> {
    let make = || Gathering::new(Part::of(options, arrival));
    let mut assembly = Assembly::new(options, arrival);
    let mut names = BTreeMap::new();
    let (sums, warnings) = streams.fold(reading, &make, |(edges, more), settled_ns| {
        assembly.take_in_parallel(edges, settled_ns);
        names.extend(more);
    })?;
    let part = assembly.finish(sums.into_iter().map(|sum| sum.part));
    Ok((Gathering { part, names }, warnings))
}

#[cfg(test)]
mod tests;
