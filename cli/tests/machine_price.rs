//! `machine run --composition` and `machine price`: a run is counts times costs to the picosecond,
//! and other costs give what a run with them takes.

mod multiboot;

use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// A thousand times CPUID, a multiplication and 64 elements of a string; then debug exit 0.
const WORK: [u8; 34] = [
    0xBD, 0xE8, 0x03, 0, 0, // mov ebp, 1000
    0x0F, 0xA2, // cpuid
    0x69, 0xC0, 3, 0, 0, 0, // imul eax, eax, 3
    0xBF, 0, 0, 0x20, 0, // mov edi, 20_0000h
    0xB9, 64, 0, 0, 0, // mov ecx, 64
    0xF3, 0xAA, // rep stosb
    0x4D, // dec ebp
    0x75, 0xE9, // jnz to cpuid
    0x31, 0xC0, // xor eax, eax
    0xE7, 0xF4, // out 0F4h, eax
    0xEB, 0xFE, // jmp to itself
];

fn avicenna(arguments: &[&str]) -> Output {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut command = Command::new(env!("CARGO_BIN_EXE_avicenna"));
    command.current_dir(root).args(arguments).output().expect("the program starts")
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Runs the work, and answers the file with what it consisted of.
fn counted(name: &str, options: &[&str]) -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
    let kernel = folder.join(format!("{name}.multiboot"));
    fs::write(&kernel, multiboot::image(&WORK)).expect("the folder for tests can be written");
    let file = folder.join(format!("{name}.json"));
    let words = ["machine", "run", "--kernel", kernel.to_str().expect("text"), "--memory", "16M"];
    let words = [&words[..], &["--composition", file.to_str().expect("text")], options].concat();
    let output = avicenna(&words);
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    file
}

fn json(file: &Path) -> Value {
    serde_json::from_str(&fs::read_to_string(file).expect("a file")).expect("JSON")
}

fn priced(file: &Path, options: &[&str]) -> Value {
    let words = ["machine", "price", file.to_str().expect("text"), "--format", "json"];
    let output = avicenna(&[&words[..], options].concat());
    assert!(output.status.success(), "{}", said(&output));
    let value = serde_json::from_slice(&output.stdout).expect("JSON");
    schema::assert_follows(&value, &schema::published("machine-price-1.json"), "the answer");
    value
}

fn number(value: &Value) -> u64 {
    value.as_u64().expect("a count")
}

/// What the only processor's clock says, which its file's counts and prices add up to.
fn picoseconds(file: &Path) -> u64 {
    let value = json(file);
    schema::assert_follows(&value, &schema::published("machine-composition-1.json"), "the file");
    let own = &value["processors"][0];
    let kinds = own["kinds"].as_object().expect("kinds");
    let of = |kind: &Value| number(&kind["count"]) * number(&kind["picoseconds_each"]);
    let work: u64 = kinds.values().map(of).sum();
    let beside = ["string_elements_picoseconds", "waited_picoseconds"];
    let beside: u64 = beside.iter().map(|name| number(&own[name])).sum();
    assert_eq!(work + beside, number(&own["picoseconds"]));
    assert_eq!(number(&own["kinds"]["instruction.serializing"]["count"]), 1000);
    assert_eq!(number(&own["kinds"]["instruction.multiply"]["count"]), 1000);
    work + beside
}

/// Work and waiting, in picoseconds.
fn whole(priced: &Value, bill: usize) -> f64 {
    let work = priced["by"][bill]["seconds"].as_f64().expect("a number");
    (work + priced["waited_seconds"].as_f64().expect("a number")) * 1e12
}

#[test]
fn other_costs_and_another_clock_give_what_a_run_with_them_takes() {
    let run = counted("priced", &[]);
    let other = counted(
        "priced-otherwise",
        &["--costs", "machine/board/costs/zen2.toml", "--clock", "2.5GHz"],
    );
    let [here, there] = [&run, &other].map(|file| picoseconds(file));
    assert!(there > here + here / 10, "{here} {there}");
    // A string's elements are rounded down to a picosecond.
    let most = 1500.0;
    let both = priced(&run, &["--costs", "zen2", "--clock", "2.5GHz"]);
    assert!((whole(&both, 0) - here as f64).abs() < 2.0, "{here} {both}");
    assert!((whole(&both, 1) - there as f64).abs() < most, "{there} {both}");
    for bill in both["by"].as_array().expect("bills") {
        let ends = bill["seconds_interval"].as_array().expect("an interval");
        let [low, high] = [&ends[0], &ends[1]].map(|end| end.as_f64().expect("a number"));
        let seconds = bill["seconds"].as_f64().expect("a number");
        assert!(low < seconds && seconds < high, "{bill}");
    }
}

#[test]
fn counts_that_no_clock_can_tell_are_priced_as_they_are() {
    let run = counted("priced-hugely", &[]);
    let mut huge = json(&run);
    huge["processors"][0]["kinds"]["instruction.serializing"]["count"] = u64::MAX.into();
    huge["processors"][0]["string_elements_picoseconds"] = u64::MAX.into();
    huge["core_hertz"] = u64::MAX.into();
    fs::write(&run, huge.to_string()).expect("the folder for tests can be written");
    let seconds = |bill: usize| {
        let priced = priced(&run, &["--clock", "1GHz"]);
        priced["by"][bill]["seconds"].as_f64().expect("a number")
    };
    // A hundred cycles of zen4's each.
    let expected = u64::MAX as f64 * 100e-9;
    assert!(seconds(1) > expected, "{}", seconds(1));
    assert!(seconds(0).is_finite());
}

#[test]
fn what_cannot_be_priced_is_said() {
    let run = counted("priced-wrongly", &[]);
    let run = run.to_str().expect("text");
    let kinds = fs::read_to_string(run).expect("a file");
    let strange = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("strange.json");
    fs::write(&strange, kinds.replace("instruction.multiply", "instruction.miracle"))
        .expect("the folder for tests can be written");
    let strange = strange.to_str().expect("text");
    let rows: [(&[&str], i32, &str); 5] = [
        (&[run, "--processor", "1"], 2, "no processor 1: the run had 1 of them"),
        (&[run, "--costs", "zen9"], 2, "zen9"),
        (&[run, "--clock", "boost"], 2, "must be a rate, such as 2.5GHz"),
        (&[strange], 3, "instruction.miracle"),
        (&["/dev/null"], 3, "must be a file that machine run --composition wrote"),
    ];
    for (words, status, text) in rows {
        let output = avicenna(&[&["machine", "price"], words].concat());
        assert_eq!(output.status.code(), Some(status), "{words:?}: {}", said(&output));
        assert!(said(&output).contains(text), "{words:?}: {}", said(&output));
    }
}
