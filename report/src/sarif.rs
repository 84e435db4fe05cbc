//! SARIF 2.1.0 (OASIS, "Static Analysis Results Interchange Format"), for code scanning.

use serde_json::{Value, json};

/// A log of one run of a tool: its rules, its results, and what it could not look at.
pub fn log(tool: &str, rules: Vec<Value>, results: Vec<Value>, unread: Vec<Value>) -> Value {
    json!({
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [{
            "tool": { "driver": {
                "name": tool,
                "semanticVersion": env!("CARGO_PKG_VERSION"),
                "rules": rules,
            }},
            "columnKind": "unicodeCodePoints",
            "invocations": [{
                "executionSuccessful": unread.is_empty(),
                "toolExecutionNotifications": unread,
            }],
            "results": results,
        }],
    })
}

/// A path as a relative reference: what a URI reserves is escaped.
pub fn uri(path: &str) -> String {
    path.bytes()
        .map(|byte| match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'/' | b'.' | b'-' | b'_' | b'~' => {
                char::from(byte).to_string()
            }
            _ => format!("%{byte:02X}"),
        })
        .collect()
}
