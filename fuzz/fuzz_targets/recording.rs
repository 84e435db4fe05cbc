//! Any file as a recording of VM exits: whatever its first bytes say it is.
#![no_main]

use capture::Reading;
use capture::open::{Input, open};
use capture::perf_data::{Header, fold, read_stream};
use capture::sink::{Sink, Stretched};
use capture::{ftrace_text, machine, perf_table, sums, trace_dat, xen_trace};
use libfuzzer_sys::fuzz_target;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64};
use trace::kvm::{KvmEvent, Stamp};

struct Nothing;

impl Sink for Nothing {
    fn event(&mut self, _: &Stamp, _: &KvmEvent) {}

    fn lost(&mut self, _: u32, _: u64, _: u64) {}
}

impl Stretched for Nothing {
    type Edges = ();

    fn cut(&mut self) {}
}

fuzz_target!(|bytes: &[u8]| {
    let path = std::env::temp_dir().join(format!("avicenna-fuzz-{}", std::process::id()));
    std::fs::write(&path, bytes).expect("the temporary folder is writable");
    let (stop, progress) = (AtomicBool::new(false), AtomicU64::new(0));
    // Errors are answers; only a panic is a finding.
    let opened = open(&path, &stop, &mut |_| Arc::default());
    match opened.map(|opened| opened.input) {
        Ok(Input::PerfFile(file, length)) => {
            if let Ok(header) = Header::read(&file, length) {
                let reading =
                    Reading { chunks: (4 << 10, 4 << 10), ..Reading::new(&stop, &progress) };
                let _ = fold(&file, &header, &reading, &|| Nothing, |()| {});
            }
        }
        Ok(Input::PerfPipe(mut input)) => {
            let _ = read_stream(&mut *input, None, &stop, &progress, &mut Nothing);
        }
        Ok(Input::TraceDat(file, length)) => {
            if let Ok(recording) = trace_dat::Recording::open(file, length) {
                let _ = recording.read(&stop, &progress, &mut Nothing);
                let reading =
                    Reading { chunks: (4 << 10, 4 << 10), ..Reading::new(&stop, &progress) };
                let _ = recording.fold(&reading, &|| Nothing, |(), _| {});
            }
        }
        Ok(Input::Text(input)) => {
            let _ = ftrace_text::read(input, &stop, &progress, &mut Nothing);
        }
        Ok(Input::Machine(input)) => {
            let _ = machine::read(input, &stop, &progress, &mut Nothing);
        }
        Ok(Input::Xen(input)) => {
            let _ = xen_trace::read(input, Default::default(), &stop, &progress, &mut Nothing);
        }
        Ok(Input::Table(text)) => {
            let _ = perf_table::read(&text);
        }
        Ok(Input::Sums(input)) => {
            let _ = sums::read(input);
        }
        Ok(Input::PerfDirectory(_)) | Err(_) => {}
    }
});
