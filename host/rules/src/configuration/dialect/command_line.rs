//! Command lines of QEMU and other VMMs: in shell text, scripts and unit files, and of processes.

mod edit;

use super::{Contents, Dialect};
use crate::configuration::embedded;
use crate::configuration::input::{Hints, InputError, Kind};
use crate::configuration::other_vmm;
use crate::configuration::qemu_arguments::{invocation, settings};
use crate::configuration::shell::{self, Command};
use crate::position::Lines;
use crate::vm::{VmConfiguration, Vmm};
use edit::{Commands, Place};

/// Shell text, scripts, unit files.
pub struct CommandLine;

impl Dialect for CommandLine {
    fn kind(&self) -> Kind {
        Kind::CommandLine
    }

    /// Whether shell text starts a machine.
    fn recognizes(&self, text: &str) -> bool {
        let Ok(commands) = embedded::commands(text) else { return false };
        !placed_machines(&commands, "", &Lines::new(""), &Hints::default()).is_empty()
    }

    fn read<'t>(
        &self,
        file: &str,
        lines: &Lines<'t>,
        hints: &Hints,
    ) -> Result<Contents<'t>, InputError> {
        let commands = embedded::commands(lines.text())?;
        let found = placed_machines(&commands, file, lines, hints);
        let (vms, places) = found.into_iter().unzip();
        // A shell takes a CR into the word before it: nothing could be added as it is meant.
        if embedded::is_shell_text(lines.text()) && lines.text().contains("\r\n") {
            return Ok(Contents::fixed(self.kind(), lines, vms));
        }
        let text = Commands { text: lines.text(), places };
        Ok(Contents::machines(Kind::CommandLine, lines, vms, text))
    }
}

/// NUL-separated words of a running process.
pub struct ProcessCommandLine;

impl Dialect for ProcessCommandLine {
    fn kind(&self) -> Kind {
        Kind::ProcessCommandLine
    }

    fn recognizes(&self, text: &str) -> bool {
        text.contains('\0')
    }

    fn read<'t>(
        &self,
        file: &str,
        lines: &Lines<'t>,
        hints: &Hints,
    ) -> Result<Contents<'t>, InputError> {
        let commands = shell::nul_separated(lines.text())?;
        Ok(Contents::fixed(self.kind(), lines, machines(&commands, file, lines, hints)))
    }
}

/// All machines of shell commands, QEMU's and others'.
pub fn machines(
    commands: &[Command<'_>],
    file: &str,
    lines: &Lines<'_>,
    hints: &Hints,
) -> Vec<VmConfiguration> {
    placed_machines(commands, file, lines, hints).into_iter().map(|(vm, _)| vm).collect()
}

fn placed_machines<'t>(
    commands: &[Command<'t>],
    file: &str,
    lines: &Lines<'_>,
    hints: &Hints,
) -> Vec<(VmConfiguration, Place<'t>)> {
    let mut found = Vec::new();
    for command in commands {
        if let Some(invocation) = invocation(command) {
            let settings = settings(&invocation, lines);
            let span = lines.position(invocation.span.start, invocation.span.end);
            let vm = settings.resolve(file, span, hints.qemu);
            found.push((vm, Place::Qemu(invocation)));
        } else if let Some(vm) = other_vmm::machine(command, file, lines) {
            let run = command.words.iter().find(|word| word.text == "run");
            let place = match run.filter(|_| vm.vmm == Vmm::Crosvm) {
                Some(run) => Place::Crosvm { run_end: run.raw.end },
                None => Place::Fixed,
            };
            found.push((vm, place));
        }
    }
    found
}
