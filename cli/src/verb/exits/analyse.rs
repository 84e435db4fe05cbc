//! A recording to a profile: opens the file, lets the reader fill parts, joins them.

use anyhow::Context as _;
use capture::order::{Collected, Orderer};
use capture::perf_data::{Header, Reading, fold};
use capture::{Origin, Sink};
use profile::avoidable::Evidence;
use profile::{Context, Options, Part, Profile};
use std::collections::BTreeMap;
use std::fs::File;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64};
use trace::exit_reason::Isa;
use trace::inhibit::Numbering;
use trace::kvm::{KvmEvent, Stamp};

/// A profile with what is known of its recording.
pub struct Analysis {
    pub origin: Origin,
    pub profile: Profile,
    pub context: Context,
}

/// A part of a recording and the names of its threads.
struct Gathering {
    part: Part,
    names: BTreeMap<u32, String>,
}

impl Sink for Gathering {
    #[inline]
    fn event(&mut self, stamp: &Stamp, event: &KvmEvent) {
        self.part.event(stamp, event);
    }

    fn lost(&mut self, cpu: u32, at_ns: u64, events: u64) {
        self.part.lost(cpu, at_ns, events);
    }

    fn thread_name(&mut self, _: u32, thread: u32, name: &str) {
        self.names.insert(thread, name.to_owned());
    }
}

/// Reads a recording of any kind.
pub fn analyse(path: &Path, options: &Options, vendor: Option<Isa>) -> anyhow::Result<Analysis> {
    let file = File::open(path).with_context(|| format!("cannot open {}", path.display()))?;
    let length = file.metadata()?.len();
    let header = Header::read(&file, length)?;
    let (stop, progress) = (AtomicBool::new(false), AtomicU64::new(0));
    let make = || Gathering { part: Part::new(options), names: BTreeMap::new() };
    let mut whole = make();
    let warnings = fold(&file, &header, &Reading::new(&stop, &progress), &make, |later| {
        whole.part.join(later.part);
        whole.names.extend(later.names);
    })?;
    let moved = whole.part.moved_threads();
    if header.layouts.has_several_buffers && !moved.is_empty() {
        let mut ordered = Orderer::new(make());
        fold(
            &file,
            &header,
            &Reading::new(&stop, &progress),
            &|| Collected::new(&moved),
            |chunk| {
                chunk.replay(&mut ordered);
            },
        )?;
        whole.part.replace_threads(ordered.finish().part);
    }
    let mut origin = header.origin;
    origin.warnings.extend(warnings);
    let context = context_of(&origin, whole.names, vendor);
    Ok(Analysis { origin, profile: whole.part.finish(), context })
}

fn context_of(
    origin: &Origin,
    thread_names: BTreeMap<u32, String>,
    vendor: Option<Isa>,
) -> Context {
    let numbering = origin.inhibit_print_format.as_deref().and_then(Numbering::from_print_format);
    let by_release = || origin.kernel_release.as_deref().and_then(Numbering::of_kernel);
    let has = |name: &str| origin.events.iter().any(|event| event == name);
    Context {
        isa: vendor.or_else(|| origin.cpu.as_deref().and_then(Isa::of_vendor)),
        numbering: numbering.or_else(by_release).unwrap_or_else(Numbering::assumed),
        evidence: Evidence { has_msr: has("kvm_msr"), has_mmio: has("kvm_mmio") },
        thread_names,
        ..Context::default()
    }
}
