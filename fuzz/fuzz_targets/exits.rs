//! A recording of VM exits as it is told: whatever its events say, they are counted and
//! summed up, in all views.
#![no_main]

use analysis::{Told, Unfollowed, analyse};
use libfuzzer_sys::fuzz_target;
use profile::pairing::Views;
use profile::{Options, Selection, Summary, View};
use std::sync::atomic::AtomicBool;

fuzz_target!(|bytes: &[u8]| {
    let path = std::env::temp_dir().join(format!("avicenna-fuzz-exits-{}", std::process::id()));
    std::fs::write(&path, bytes).expect("the temporary folder is writable");
    let told = Told::nothing(Options::new(0, u64::MAX, None, Views { has_accesses: true }));
    // Errors are answers; only a panic is a finding.
    let all = analyse(&path, &told, &AtomicBool::new(false), &mut Unfollowed);
    for one in all.into_iter().flatten() {
        for view in [View::Vmexit, View::Mmio, View::Ioport, View::Msr] {
            let selection =
                Selection { view, by_reason: true, has_times: true, ..Selection::default() };
            let _ = Summary::new(&one.profile, &one.context, &selection);
        }
    }
});
