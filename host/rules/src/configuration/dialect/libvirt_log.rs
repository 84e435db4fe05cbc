//! libvirt's logs of QEMU processes (`/var/log/libvirt/qemu/NAME.log`): every start with its whole
//! command line.
//!
//! Source: `qemuDomainLogContext` and `virCommandWriteArgLog` of libvirt 11. A line
//! `…: starting up libvirt version: …, qemu version: …, kernel: …` opens a start; the command
//! follows with one option per line.

use super::command_line::machines;
use super::{Contents, Dialect};
use crate::configuration::input::{Hints, InputError, Kind};
use crate::configuration::shell;
use crate::position::Lines;
use crate::vm::{Manager, VmConfiguration};
use reading::Kernel;
use reading::version::Version;

const START: &str = "starting up libvirt version:";
/// Starts of one log; rotated long before.
const MAX_STARTS: usize = 100_000;

/// One machine per start; with a log of many starts the last one is what runs now.
pub struct LibvirtLog;

impl Dialect for LibvirtLog {
    fn kind(&self) -> Kind {
        Kind::LibvirtLog
    }

    fn recognizes(&self, text: &str) -> bool {
        text.contains(START)
    }

    fn read<'t>(
        &self,
        file: &str,
        lines: &Lines<'t>,
        hints: &Hints,
    ) -> Result<Contents<'t>, InputError> {
        Ok(Contents::fixed(Kind::LibvirtLog, lines, starts(file, lines, hints)?))
    }
}

fn starts(
    file: &str,
    lines: &Lines<'_>,
    hints: &Hints,
) -> Result<Vec<VmConfiguration>, InputError> {
    let text = lines.text();
    let mut starts: Vec<usize> = text.match_indices(START).map(|(at, _)| at).collect();
    if starts.len() > MAX_STARTS {
        let position = lines.position(starts[MAX_STARTS], starts[MAX_STARTS] + START.len());
        return Err(InputError::at(position, format!("more than {MAX_STARTS} starts")));
    }
    starts.push(text.len());
    let mut found = Vec::new();
    for window in starts.windows(2) {
        found.extend(start(file, lines, window[0], window[1], hints)?);
    }
    Ok(found)
}

fn start(
    file: &str,
    lines: &Lines<'_>,
    from: usize,
    until: usize,
    hints: &Hints,
) -> Result<Option<VmConfiguration>, InputError> {
    let text = &lines.text()[from..until];
    let header_end = text.find('\n').unwrap_or(text.len());
    let header = &text[..header_end];
    let after = |key: &str| {
        let at = header.find(key)? + key.len();
        header[at..].split(',').next().map(str::trim)
    };
    let qemu = after("qemu version:").and_then(Version::parse).or(hints.qemu);
    let body = from + header_end;
    let command_end = command_end(lines.text(), body, until);
    let mut commands = shell::commands(&lines.text()[body..command_end])?;
    for command in &mut commands {
        for word in &mut command.words {
            word.shift(body);
        }
    }
    let hints = Hints { qemu };
    let Some(mut vm) = machines(&commands, file, lines, &hints).into_iter().next() else {
        return Ok(None);
    };
    vm.manager = Manager::Libvirt;
    vm.kernel = after("kernel:").and_then(|release| Kernel::parse(release, None));
    Ok(Some(vm))
}

/// The command ends at the first line that does not continue.
fn command_end(text: &str, from: usize, until: usize) -> usize {
    let mut at = from + 1;
    while at < until {
        let rest = &text[at..until];
        let length = rest.find('\n').map_or(rest.len(), |end| end + 1);
        at += length;
        if !rest[..length].trim_end().ends_with('\\') {
            break;
        }
    }
    at.min(until)
}
