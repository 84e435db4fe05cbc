//! `trace.dat` of trace-cmd, versions 6 and 7, plain or compressed with zlib or zstd.
//!
//! Follows the manual pages trace-cmd.dat.v6(5) and trace-cmd.dat.v7(5). Each CPU's ring-buffer
//! pages are walked on their own, a stretch of them at a time, by several threads. A recording
//! names threads but not processes, so its virtual machines cannot be told apart.
//! DEVIATION(TRACECMD "latency"): files that hold text instead of ring-buffer pages, and 32-bit and
//! big-endian hosts are refused with a message.

mod compression;
mod delivery;
mod front;
mod merge;
mod option;
mod page;
mod source;
mod stretch;

use crate::parallel::{self, Complaints};
use crate::sink::{Origin, Stretched};
use crate::{Error, Reading};
use delivery::Decoders;
use front::{Front, read_front};
use source::{Buffers, Source};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::sync::atomic::Ordering;
use stretch::Stretch;

/// First bytes of every version; perf.data carries the same in front of its formats.
pub const MAGIC: &[u8; 10] = b"\x17\x08\x44tracing";

/// An opened recording.
#[derive(Debug)]
pub struct Recording {
    file: File,
    length: u64,
    front: Front,
    decoders: Decoders,
}

impl Recording {
    /// Reads what stands in front of the buffers. Fails where the file is damaged there or has
    /// no events of KVM.
    pub fn open(file: File, length: u64) -> Result<Self, Error> {
        let mut front = read_front(&file, length)?;
        front.origin.bytes = length;
        for format in &front.formats.events {
            front.origin.events.push(format.name.clone());
            if format.name == "kvm_apicv_inhibit_changed" {
                front.origin.inhibit_print_format = Some(format.print_format.clone());
            }
        }
        let decoders = Decoders::new(&front.formats.events);
        if decoders.is_empty() {
            return Err(Error::Unsupported(
                "the recording has no KVM events; record with trace-cmd record -e kvm".into(),
            ));
        }
        Ok(Self { file, length, front, decoders })
    }

    /// Where it was made.
    pub const fn origin(&self) -> &Origin {
        &self.front.origin
    }

    /// Names of threads.
    pub const fn names(&self) -> &BTreeMap<u32, String> {
        &self.front.names
    }

    /// Everything is of one CPU, and so in the order of time.
    pub fn is_of_one_cpu(&self) -> bool {
        self.front.cpus.iter().filter(|data| data.size > 0).count() <= 1
    }

    /// Whether each CPU has one buffer, so that its events come in one stream.
    pub fn has_one_buffer_per_cpu(&self) -> bool {
        let with_pages = self.front.cpus.iter().filter(|data| data.size > 0);
        let mut seen = BTreeSet::new();
        with_pages.into_iter().all(|data| seen.insert(data.cpu))
    }

    fn sources<'a>(&'a self, complaints: &'a Complaints) -> Result<Vec<Source<'a>>, Error> {
        let file = (&self.file, self.length);
        let indices = 0..self.front.cpus.len();
        indices.map(|index| Source::new(file, complaints, &self.front, index)).collect()
    }

    /// Reads the pages of all CPUs with several threads: see [`parallel::fold`]. Gives the sinks of
    /// all threads and what is wrong with the recording.
    pub fn fold<S: Stretched + Send>(
        &self,
        reading: &Reading<'_>,
        make: &(impl Fn() -> S + Sync),
        join: impl FnMut(S::Edges, u64) + Send,
    ) -> Result<(Vec<S>, Vec<String>), Error> {
        let complaints = Complaints::default();
        let size = parallel::stretch_of(reading, self.length);
        let mut buffers = Buffers::default();
        let sources = self.sources(&complaints)?.into_iter();
        let streams = sources
            .filter_map(|source| Stretch::new(self, reading.progress, source, size, &mut buffers));
        let sinks = parallel::fold(streams.collect(), reading, make, join)?;
        Ok((sinks, complaints.into_warnings(reading.stop.load(Ordering::Relaxed))))
    }
}
