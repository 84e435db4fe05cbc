//! Rows of many hosts and recordings, read by as many threads as there are CPUs.

use super::gather::{Found, find};
use crate::status::Status;
use crate::terminal::remark;
use crate::verb::exits::by_machine;
use crate::verb::many::in_parallel;
use crate::verb::{lake, why};
use facts::Inputs;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use report::lake::{Host, Lake};
use rules::capability;
use std::collections::BTreeMap;
use std::io::IsTerminal as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Files whose rows are written together: what is held in memory, and what engines read at a time.
const AT_ONCE: usize = 500;

/// Writes the rows of every file; those that cannot be read are named, and the others written.
pub fn write(paths: &[PathBuf], name: Option<&str>, folder: &Path) -> anyhow::Result<ExitCode> {
    anyhow::ensure!(name.is_none(), "--host names one host, and {} are given", paths.len());
    let bar = bar(paths.len());
    let mut unread = 0;
    for chunk in paths.chunks(AT_ONCE) {
        let mut rows = Lake::default();
        for (path, outcome) in chunk.iter().zip(read(chunk, &bar)) {
            match outcome {
                Ok(more) => rows.append(more),
                Err(error) => {
                    unread += 1;
                    bar.suspend(|| remark(&format!("avicenna: {}: {error:#}", path.display())));
                }
            }
        }
        lake::write(folder, rows)?;
    }
    bar.finish_and_clear();
    let read = paths.len() - unread;
    remark(&format!("rows of {read} of {} files in {}", paths.len(), folder.display()));
    Ok(if unread > 0 { Status::CannotTell } else { Status::Clean }.into())
}

fn bar(count: usize) -> ProgressBar {
    let target = match std::io::stderr().is_terminal() {
        true => ProgressDrawTarget::stderr(),
        false => ProgressDrawTarget::hidden(),
    };
    let bar = ProgressBar::with_draw_target(Some(count as u64), target);
    match ProgressStyle::with_template("{bar:30} {pos}/{len} files {eta}") {
        Ok(style) => bar.with_style(style),
        Err(_) => bar,
    }
}

/// The rows of each, in the order of the paths.
fn read(paths: &[PathBuf], bar: &ProgressBar) -> Vec<anyhow::Result<Lake>> {
    in_parallel(paths, |path| {
        let rows = rows_of(path);
        bar.inc(1);
        rows
    })
}

fn rows_of(path: &Path) -> anyhow::Result<Lake> {
    let mut lake = Lake::default();
    match find(path)? {
        Found::Host(inputs) => host_rows(&inputs, Some(path), None, &mut lake),
        Found::Recordings(found) => {
            for analysis in found {
                let identity = lake::of_recording(&analysis.origin, path, None);
                let recording = by_machine(&analysis, &BTreeMap::new());
                report::lake::exits(&recording, &identity, &mut lake);
            }
        }
        Found::Results(found) => {
            let identity = lake::of_file(path);
            report::lake::trials(&found.trials, &identity, &mut lake);
            report::lake::outcomes(&found.outcomes, &identity, &mut lake);
        }
    }
    Ok(lake)
}

/// What `check` and `why` say of a host, as rows.
pub fn host_rows(inputs: &Inputs, path: Option<&Path>, name: Option<&str>, lake: &mut Lake) {
    let facts = facts::facts(inputs);
    let check = capability::check(&facts);
    let identity = lake::of_host(inputs, path, check.kernel.as_deref(), name);
    let why = why::chosen(&facts, None).ok().map(|machines| {
        let unseen = |_: &_| Err("its running state was not looked at".to_owned());
        rules::why::why(&facts, &check, &machines, unseen)
    });
    report::lake::host(&Host { facts: &facts, report: &check, why: why.as_ref() }, &identity, lake);
}
