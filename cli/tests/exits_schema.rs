//! `exits report --format json` follows `docs/schema/exits-1.json`.

mod schema;

use schema::fault;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn report(recording: &str) -> Value {
    let output = Command::new(env!("CARGO_BIN_EXE_avicenna"))
        .args(["exits", "report", "--format", "json"])
        .arg(root().join("host/capture/tests/data").join(recording))
        .output()
        .expect("the binary runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("JSON")
}

#[test]
fn json_follows_its_published_schema() {
    let path = root().join("docs/schema/exits-1.json");
    let text = std::fs::read_to_string(path).expect("it is published");
    let schema: Value = serde_json::from_str(&text).expect("JSON");
    for recording in
        ["small-xapic-pp.data.zst", "all-kvm-events-mix.data.zst", "vmx-x2apic-mix.data.zst"]
    {
        let report = report(recording);
        assert_eq!(fault(&report, &schema, &schema, "$"), None, "{recording}");
    }
    // The checker itself can fail.
    let mut wrong = report("small-xapic-pp.data.zst");
    wrong["reports"][0]["summary"]["table"]["rows"][0]["count"] = "many".into();
    assert!(fault(&wrong, &schema, &schema, "$").is_some_and(|fault| fault.contains("rows[0]")));
}
