//! An answer, printed or written, and its exit status.

use super::chosen::Format;
use crate::status::Status;
use crate::terminal;
use ::experiment::answer::Answer;
use ::experiment::page;
use ::experiment::statistics::Verdict;
use std::path::PathBuf;
use std::process::ExitCode;

/// The answer in a form.
pub fn shown(
    answer: &Answer,
    format: Format,
    compare: bool,
    columns: usize,
) -> anyhow::Result<String> {
    Ok(match format {
        Format::Text => page::text(answer, columns, compare),
        Format::Markdown => page::markdown(answer, compare),
        Format::Json => answer.to_json()?,
        Format::Html => page::html(answer),
    })
}

/// Prints the answer, or writes it to a file.
pub fn print(
    answer: &Answer,
    format: Format,
    compare: bool,
    output: Option<&PathBuf>,
) -> anyhow::Result<()> {
    match output {
        None => {
            let text = shown(answer, format, compare, terminal::columns())?;
            match format {
                Format::Text => terminal::print(&text),
                _ => terminal::program(text.as_bytes()),
            };
        }
        Some(path) => {
            let text = shown(answer, format, compare, terminal::COLUMNS)?;
            change::Output::write(path, text.as_bytes(), change::Like::Umask)?;
        }
    }
    Ok(())
}

/// 0 if better, no different or shown; 1 if worse or never in effect; 3 if undecided.
pub fn status_of(answer: &Answer) -> ExitCode {
    let verdicts =
        || answer.cells.iter().flat_map(|cell| &cell.metrics).filter_map(|one| one.verdict);
    let has_void = answer.cells.iter().any(|cell| cell.void.is_some());
    let status = if has_void || verdicts().any(|one| one == Verdict::Worse) {
        Status::Findings
    } else if !answer.is_decided() {
        Status::CannotTell
    } else {
        Status::Clean
    };
    status.into()
}
