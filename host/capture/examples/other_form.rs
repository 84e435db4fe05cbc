//! Gives a finished perf.data another of the forms that perf writes, or one of trace-cmd's; of a
//! directory, OUT is its name.
//!
//! `other_form pipe|compressed-pipe|compressed-file|directory|compressed-directory IN OUT`, or
//! `trace-dat-6|trace-dat-7|compressed-trace-dat`

#[path = "../tests/forms/perf_data.rs"]
#[expect(dead_code, reason = "the tests use the rest")]
mod forms;
#[path = "../tests/forms/trace_dat.rs"]
mod trace_dat;

use trace_dat::{Form, samples, trace_dat};

const FORMS: &str = "pipe, compressed-pipe, compressed-file, directory, compressed-directory, \
    trace-dat-6, trace-dat-7, compressed-trace-dat";

fn main() -> std::io::Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [form, from, to] = words.as_slice() else {
        panic!("other_form FORM IN OUT, of the forms {FORMS}")
    };
    let file = std::fs::read(from)?;
    let of_trace_cmd = |form| trace_dat(&file, &samples(&file), form, |_| false);
    let of_threads = |is_compressed| {
        std::fs::create_dir_all(to)?;
        for (name, bytes) in forms::directory_of_cpus(&file, is_compressed) {
            std::fs::write(std::path::Path::new(to).join(name), bytes)?;
        }
        Ok(())
    };
    let other = match form.as_str() {
        "pipe" => forms::pipe(&file, false),
        "compressed-pipe" => forms::pipe(&file, true),
        "compressed-file" => forms::compressed_file(&file),
        "directory" => return of_threads(false),
        "compressed-directory" => return of_threads(true),
        "trace-dat-6" => of_trace_cmd(Form::Six),
        "trace-dat-7" => of_trace_cmd(Form::Seven),
        "compressed-trace-dat" => of_trace_cmd(Form::SevenPacked),
        other => panic!("no form {other}, but {FORMS}"),
    };
    std::fs::write(to, other)
}
