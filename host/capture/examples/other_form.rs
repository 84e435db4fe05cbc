//! Gives a finished perf.data another of the forms that perf writes.
//!
//! `other_form pipe|compressed-pipe|compressed-file IN OUT`

#[path = "../tests/forms/mod.rs"]
#[expect(dead_code, reason = "the tests use the rest")]
mod forms;

fn main() -> std::io::Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [form, from, to] = words.as_slice() else {
        panic!("other_form pipe|compressed-pipe|compressed-file IN OUT")
    };
    let file = std::fs::read(from)?;
    let other = match form.as_str() {
        "pipe" => forms::pipe(&file, false),
        "compressed-pipe" => forms::pipe(&file, true),
        "compressed-file" => forms::compressed_file(&file),
        other => panic!("no form {other}"),
    };
    std::fs::write(to, other)
}
