//! What verbs print as JSON follows what is published, and says which version of it that is.

use serde_json::Value;
use std::path::Path;
use std::process::Command;

/// What a verb prints on standard output.
fn printed(words: &[&str]) -> Vec<u8> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut command = Command::new(env!("CARGO_BIN_EXE_avicenna"));
    let output = command.current_dir(root).args(words).output().expect("the binary runs");
    // 1 is of hosts and files that something is found in.
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(matches!(output.status.code(), Some(0 | 1 | 3)), "{words:?}: {said}");
    output.stdout
}

#[test]
fn verbs_that_run_anywhere_print_what_is_published() {
    let rows: [(&str, &[&str]); 8] = [
        ("check-1.json", &["check", "--format", "json"]),
        ("why-1.json", &["why", "--format", "json"]),
        ("enable-1.json", &["enable", "--format", "json"]),
        ("lint-1.json", &["lint", "--format", "json", "docs/README.md"]),
        ("report-1.json", &["report", "--format", "json"]),
        ("machine-cpus-1.json", &["machine", "list-cpus", "--format", "json"]),
        ("machine-variants-1.json", &["machine", "list-variants", "--format", "json"]),
        (
            "machine-variants-1.json",
            &["machine", "list-variants", "--cpu", "zen2", "--format", "json"],
        ),
    ];
    for (name, words) in rows {
        let schema = schema::published(name);
        let mut value: Value = serde_json::from_slice(&printed(words)).expect(name);
        schema::assert_follows(&value, &schema, &words.join(" "));
        assert_eq!(value["schema"], 1, "{words:?}");
        value["schema"] = 0.into();
        assert!(schema::fault(&value, &schema).is_some(), "{words:?}");
    }
}
