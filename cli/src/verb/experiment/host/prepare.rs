//! The host's own settings that make trials vary: those that a plan names are set for the time of
//! the experiment.

use super::options::Options;
use super::undo::{Undo, run, write};
use ::experiment::place::{Change, Failure, Teller};
use ::experiment::plan::HostSetup;

/// Processors that are looked at.
const MOST_PROCESSORS: usize = 4096;

/// Sets what the plan names; each change is in the journal before it is made.
pub fn prepare(
    options: &Options,
    setup: &HostSetup,
    teller: &mut dyn Teller,
) -> Result<(), Failure> {
    for word in &setup.prepare {
        match word.as_str() {
            "governor" => governors(options, teller)?,
            "turbo" => {
                set(options, teller, "sys/devices/system/cpu/cpufreq/boost", "0")?;
                set(options, teller, "sys/devices/system/cpu/intel_pstate/no_turbo", "1")?;
            }
            "thp" => {
                let path = "sys/kernel/mm/transparent_hugepage/enabled";
                set(options, teller, path, "always")?;
            }
            "irqbalance" => irqbalance(teller)?,
            _ => {}
        }
    }
    Ok(())
}

fn governors(options: &Options, teller: &mut dyn Teller) -> Result<(), Failure> {
    for cpu in 0..MOST_PROCESSORS {
        let path = format!("sys/devices/system/cpu/cpu{cpu}/cpufreq/scaling_governor");
        if !options.file(&format!("sys/devices/system/cpu/cpu{cpu}")).exists() {
            break;
        }
        set(options, teller, &path, "performance")?;
    }
    Ok(())
}

/// A file that is not there is no setting of this host.
fn set(options: &Options, teller: &mut dyn Teller, path: &str, value: &str) -> Result<(), Failure> {
    let Ok(text) = options.text(path) else { return Ok(()) };
    let had = chosen(text.trim());
    if had == value {
        return Ok(());
    }
    let undo = Undo::Write { path: path.into(), text: had.into() };
    let change = Change { what: format!("/{path}: {had} to {value}"), undo: undo.to_text() };
    teller.change(change)?;
    write(options, path, value).map_err(Failure::Failed)
}

/// Of `always [madvise] never`, the word in brackets.
fn chosen(text: &str) -> &str {
    text.split_once('[').and_then(|(_, rest)| rest.split_once(']')).map_or(text, |(word, _)| word)
}

fn irqbalance(teller: &mut dyn Teller) -> Result<(), Failure> {
    let command = |verb: &str| -> Vec<String> {
        ["systemctl", verb, "irqbalance.service"].map(str::to_owned).to_vec()
    };
    if run(&command("is-active")).is_err() {
        return Ok(());
    }
    let undo = Undo::Run(command("start")).to_text();
    teller.change(Change { what: "irqbalance stopped".into(), undo })?;
    run(&command("stop")).map(|_| ()).map_err(Failure::Failed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_word_in_brackets_is_the_one_that_was_chosen() {
        assert_eq!(chosen("always [madvise] never"), "madvise");
        assert_eq!(chosen("schedutil"), "schedutil");
    }
}
