//! Every way of grouping in every format, over recordings of every kind: what programs read can be
//! read, and says the same in each of them.

use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use trace::{Event, Record, VirtualCpu};

const GROUPINGS: [&str; 6] = ["reason", "detail", "vcpu", "vm", "vector", "time"];

/// The column with the name of a line, and the one that adds up to all exits.
fn columns(by: &str) -> (&'static str, Option<&'static str>) {
    match by {
        "reason" | "detail" => ("name", Some("count")),
        "vcpu" => ("vcpu", Some("exits")),
        "vm" => ("vm", Some("exits")),
        "time" => ("from_s", Some("exits")),
        _ => ("vector", None),
    }
}

fn written(name: &str, bytes: &[u8]) -> PathBuf {
    let name = format!("matrix-{}-{name}", std::process::id());
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::write(&path, bytes).expect("the target directory is writable");
    path
}

fn ftrace_text() -> Vec<u8> {
    (0..40u32)
        .map(|n| {
            let (thread, at) = (900 + n % 2, n * 30);
            format!(
                "CPU {vcpu}/KVM-{thread} [000] .... 1.{at:06}: kvm_entry: vcpu {vcpu}, rip 0x1\n\
                 CPU {vcpu}/KVM-{thread} [000] .... 1.{exit:06}: kvm_exit: vcpu {vcpu} reason msr \
                 rip 0x1 info1 0x0000000000000001 info2 0x0000000000000000 intr_info 0x00000000 \
                 error_code 0x00000000\n\
                 CPU {vcpu}/KVM-{thread} [000] .... 1.{msr:06}: kvm_msr: msr_write 830 = 0x8fb\n",
                vcpu = n % 2,
                exit = at + 5,
                msr = at + 7,
            )
        })
        .collect::<String>()
        .into_bytes()
}

fn machine_trace() -> Vec<u8> {
    let mut writer = trace::file::Writer::new(Vec::new(), &[]).expect("memory");
    for at in 0..400u64 {
        let vcpu = VirtualCpu(arch::address::SystemPhysical(0x5000 + 0x1000 * (at / 2 % 2)));
        let rip = arch::address::Linear(at);
        let event = match at % 2 {
            0 => Event::Entry { vcpu, injected: 0, rip },
            _ => Event::SvmExit {
                vcpu,
                code: arch::svm::exit::ExitCode::from_bits(0x7c),
                info1: 1,
                info2: 0,
                interrupt_info: 0,
                rip,
            },
        };
        let cpu = arch::identity::CpuIndex(0);
        let record = Record { at: arch::time::Picoseconds(at * 1_000_000), cpu, event };
        writer.push(&record).expect("memory");
    }
    writer.finish().expect("memory").0
}

const TABLE: &str = "\
             VM-EXIT    Samples  Samples%     Time%    Min Time    Max Time         Avg time

                 msr      42521    71.00%    20.00%      0.50us     50.00us      2.00us ( +-   1.00% )
                 hlt      17369    29.00%    80.00%      1.00us   5000.00us     20.00us ( +-   2.00% )

Total Samples:59890, Total events handled time:432422.00us.
";

fn recordings() -> Vec<PathBuf> {
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("../host/capture/tests/data");
    let committed = [
        "small-x2apic-big.data.zst",
        "vmx-x2apic-mix.data.zst",
        "all-kvm-events-mix.data.zst",
        "xapic-pp.v7.dat",
    ];
    let made = [
        written("text", &ftrace_text()),
        written("machine", &machine_trace()),
        written("table", TABLE.as_bytes()),
    ];
    committed.iter().map(|name| data.join(name)).chain(made).collect()
}

fn report(recording: &Path, by: &str, format: &str) -> Vec<u8> {
    let output = Command::new(env!("CARGO_BIN_EXE_avicenna"))
        .args(["exits", "report", "--by", by, "--format", format])
        .arg(recording)
        .output()
        .expect("the binary runs");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success(),
        "{}: --by {by} --format {format}: {said}",
        recording.display()
    );
    output.stdout
}

fn text(recording: &Path, by: &str, format: &str) -> String {
    String::from_utf8(report(recording, by, format)).expect("text")
}

/// Fields of lines that quote nothing in these recordings but what has a comma in it.
fn fields(line: &str) -> Vec<String> {
    let (mut fields, mut is_quoted) = (vec![String::new()], false);
    for letter in line.chars() {
        match letter {
            '"' => is_quoted = !is_quoted,
            ',' if !is_quoted => fields.push(String::new()),
            _ => fields.last_mut().expect("never empty").push(letter),
        }
    }
    fields
}

fn csv(text: &str) -> Vec<BTreeMap<String, String>> {
    let mut lines = text.lines();
    let names = fields(lines.next().expect("a line of names"));
    let line = |line: &str| {
        let fields = fields(line);
        assert_eq!(fields.len(), names.len(), "{line}");
        names.iter().cloned().zip(fields).collect()
    };
    lines.map(line).collect()
}

fn shown(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

fn check(recording: &Path) {
    let whole: Value = serde_json::from_slice(&report(recording, "reason", "json")).expect("JSON");
    let table = &whole["reports"][0]["summary"]["table"];
    let exits = table["count"].as_u64().expect("a count");
    assert!(exits > 0, "{}", recording.display());
    for by in GROUPINGS {
        let at = format!("{} --by {by}", recording.display());
        let (name, counted) = columns(by);
        // Everything is in it, whatever is asked for.
        let json: Value = serde_json::from_slice(&report(recording, by, "json")).expect("JSON");
        assert_eq!(json, whole, "{at}");

        let rows = csv(&text(recording, by, "csv"));
        let objects: Vec<Value> = text(recording, by, "ndjson")
            .lines()
            .map(|line| serde_json::from_str(line).expect("an object a line"))
            .collect();
        assert_eq!(rows.len(), objects.len(), "{at}");
        for (row, object) in rows.iter().zip(&objects) {
            let is_same = match object[name].as_f64() {
                Some(number) => row[name].parse() == Ok(number),
                None => row[name] == shown(&object[name]),
            };
            assert!(is_same, "{at}: {} and {}", row[name], object[name]);
            assert_eq!(row.len(), object.as_object().map_or(0, serde_json::Map::len), "{at}");
        }
        if let Some(counted) = counted.filter(|_| !rows.is_empty()) {
            let sum: u64 = rows.iter().map(|row| row[counted].parse::<u64>().expect("whole")).sum();
            assert_eq!(sum, exits, "{at}");
        }

        if cfg!(feature = "parquet") {
            let parquet = report(recording, by, "parquet");
            assert!(parquet.starts_with(b"PAR1") && parquet.ends_with(b"PAR1"), "{at}");
        }
        let page = text(recording, by, "html");
        let has_plot = page.contains("<figure class=\"plot ") && page.contains("class=\"track");
        assert!(has_plot && page.trim_end().ends_with("</html>"), "{at}");

        let plain = text(recording, by, "text");
        let markdown = text(recording, by, "markdown");
        assert!(markdown.contains("\n| ") || rows.is_empty(), "{at}: {markdown}");
        for row in &rows {
            // Numbers are shown with fewer digits there.
            let words = if by == "time" { "" } else { row[name].as_str() };
            assert!(plain.contains(words) && markdown.contains(words), "{at}: {words}");
        }
        for line in text(recording, by, "folded").lines() {
            let (stack, us) = line.rsplit_once(' ').expect("a stack and a number");
            assert!(stack.starts_with("work;") || stack.starts_with("idle;"), "{at}: {line}");
            assert!(us.parse::<u64>().is_ok(), "{at}: {line}");
        }
    }
}

#[test]
fn every_grouping_in_every_format_says_the_same() {
    let recordings = recordings();
    for recording in &recordings {
        check(recording);
    }
    for made in &recordings[4..] {
        let _ = std::fs::remove_file(made);
    }
}
