//! `avicenna-qemu`: `machine run` with QEMU's options, for scripts that were written for QEMU. It
//! is this program under another name, and the verb `qemu`. What an option means is in a table, a
//! row an option ([`option`]); what cannot be honoured is refused with the reason, what has no
//! effect is said once. The exit status is QEMU's: 0 for power-off or reset, `value * 2 + 1` for a
//! write to the exit port, 1 for an error.

mod character;
mod device;
mod flash;
mod folder;
mod option;
mod place;
mod processor;
mod request;

use crate::status::Status;
use crate::verb::machine;
use request::Request;
use std::path::Path;
use std::process::ExitCode;

/// The name that makes this program QEMU's front.
const NAME: &str = "avicenna-qemu";

/// Of whose options these are. Scripts read the version in the first line of the help.
const VERSION: &str =
    "QEMU emulator version 9.2.0 (the options alone, as avicenna-qemu takes them)";

#[derive(clap::Args)]
pub struct Arguments {
    /// QEMU's options
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "OPTION")]
    options: Vec<String>,
}

/// The options, if this program was called by QEMU's front's name.
pub fn called() -> Option<Vec<String>> {
    let mut words = std::env::args_os().map(|word| word.to_string_lossy().into_owned());
    let name = words.next()?;
    (Path::new(&name).file_name()? == NAME).then(|| words.collect())
}

pub fn run(arguments: &Arguments) -> ExitCode {
    emulate(&arguments.options)
}

/// Does as QEMU would.
pub fn emulate(options: &[String]) -> ExitCode {
    let request = match Request::parse(options, &|name| std::env::var(name).ok()) {
        Ok(request) => request,
        Err(refusal) => return refused(&refusal),
    };
    if let Some(text) = request.answer() {
        say!("{}", text.trim_end());
        return ExitCode::SUCCESS;
    }
    if !request.ignored.is_empty() {
        remark!("{NAME}: warning: without effect here: {}", request.ignored.join("; "));
    }
    let words = match request.words() {
        Ok(words) => words,
        Err(refusal) => return refused(&refusal),
    };
    match machine::run_words(&words) {
        // What the guest wrote to the exit port is odd.
        Ok(status) if status == Status::TripleFault.code() => {
            if !request.ends_at_reset {
                remark!("{NAME}: warning: the guest asked for a reset, which ends the run");
            }
            ExitCode::SUCCESS
        }
        Ok(status) => {
            if status == Status::Deadlock.code() {
                remark!("{NAME}: every processor waits for ever");
            }
            ExitCode::from(status)
        }
        Err(error) => refused(&format!("{error:#}")),
    }
}

fn refused(why: &str) -> ExitCode {
    remark!("{NAME}: {why}");
    ExitCode::FAILURE
}
