//! This program as the first process of a virtual machine: a workload, then power-off.

use crate::linux::mounts;
use crate::workload;

/// `words` are the workload's name and, behind a comma, what it is told besides.
pub(super) fn run(words: &str) {
    mounts::late();
    let (name, rest) = words.split_once(',').unwrap_or((words, ""));
    match workload::named(name) {
        Some(workload) => {
            if let Err(error) = workload.work(rest) {
                let text = format!("{error:#}").replace(['"', '\\'], "'");
                say!("{{\"record\":\"failure\",\"{name}\":\"{text}\"}}");
            }
        }
        None => say!("{{\"record\":\"failure\",\"unknown workload\":\"{name}\"}}"),
    }
}
