//! What the kernel summed up, as a profile.

use capture::Origin;
use capture::sums::{About, Interval, SumsFile};
use profile::avoidable::Evidence;
use profile::sampled::{Added, Sampled};
use profile::{Context, PackedDetail, Profile};
use trace::exit_reason::Isa;

/// Adds an interval to what was collected.
pub fn collect(sampled: &mut Sampled, interval: &Interval) {
    sampled.until(interval.end_ns);
    for (key, sums) in &interval.rows {
        sampled.add(&Added {
            process: key.process,
            thread: key.thread,
            vcpu: key.vcpu,
            isa: key.isa,
            reason: key.reason,
            detail: detail(key.about),
            count: sums.count,
            time_ns: sums.time_ns,
            squares: sums.squares,
            least_ns: sums.least_ns,
            most_ns: sums.most_ns,
            octaves: sums.octaves.clone(),
        });
    }
}

fn detail(about: About) -> PackedDetail {
    match about {
        About::Nothing => PackedDetail::UNKNOWN,
        About::Msr { index: 0x830, is_write: true, icr } => PackedDetail::icr(icr, true),
        About::Msr { index: index @ 0x800..=0x8ff, is_write, .. } => {
            PackedDetail::register(((index - 0x800) << 4) as u16, is_write)
        }
        About::Msr { index, is_write, .. } => PackedDetail::msr(index, is_write),
        About::Register { offset, is_write } => PackedDetail::register(offset, is_write),
        About::IncompleteIpi { cause } => PackedDetail::incomplete_ipi(cause),
    }
}

/// A context for what the kernel sums up.
pub fn context(origin: &Origin, names: &[(u32, String)]) -> Context {
    let has_msr = origin.events.iter().any(|event| event == "kvm_msr");
    Context {
        isa: origin.cpu.as_deref().and_then(Isa::of_vendor),
        // Who sees MSRs sees each exit; histograms see neither.
        evidence: Evidence { has_msr, has_exits: has_msr, ..Evidence::default() },
        thread_names: names.iter().cloned().collect(),
        ..Context::default()
    }
}

/// A file of intervals as a profile.
pub fn profile_of(file: &SumsFile) -> Profile {
    let mut sampled = Sampled::new(file.start_ns);
    file.intervals.iter().for_each(|interval| collect(&mut sampled, interval));
    sampled.profile()
}
