//! The JSON of `exits report` and `exits compare` follows what is published under `docs/schema`.

use serde_json::Value;
use std::path::Path;
use std::process::Command;

/// The JSON that a verb prints about committed recordings.
fn json(verb: &str, recordings: &[&str]) -> Value {
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("../host/capture/tests/data");
    let output = Command::new(env!("CARGO_BIN_EXE_avicenna"))
        .args(["exits", verb, "--format", "json"])
        .args(recordings.iter().map(|recording| data.join(recording)))
        .output()
        .expect("the binary runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("JSON")
}

#[test]
fn reports_follow_their_schema() {
    let schema = schema::published("exits-1.json");
    for recording in
        ["small-xapic-pp.data.zst", "all-kvm-events-mix.data.zst", "vmx-x2apic-mix.data.zst"]
    {
        schema::assert_follows(&json("report", &[recording]), &schema, recording);
    }
    let mut wrong = json("report", &["small-xapic-pp.data.zst"]);
    wrong["reports"][0]["summary"]["table"]["rows"][0]["count"] = "many".into();
    assert!(schema::fault(&wrong, &schema).is_some_and(|fault| fault.contains("rows[0]")));
}

#[test]
fn comparisons_follow_their_schema() {
    let schema = schema::published("compare-1.json");
    let recordings = ["small-xapic-pp.data.zst", "small-x2apic-big.data.zst", "xapic-pp.v7.dat"];
    let comparisons = json("compare", &recordings);
    assert_eq!(comparisons.as_array().map(Vec::len), Some(2));
    schema::assert_follows(&comparisons, &schema, "compare");
    let mut wrong = comparisons;
    wrong[1]["changes"][0]["finding"] = "perhaps".into();
    assert!(schema::fault(&wrong, &schema).is_some_and(|fault| fault.contains("[1].changes[0]")));
}
