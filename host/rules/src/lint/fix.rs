//! Changes as edits of the text: only what is wrong, in the style of what stands around it.

mod command_line;
mod kubevirt;
mod libvirt;
mod option;
mod proxmox;
mod readconfig;

use super::change::{Change, Edit};
use super::diagnostic::{Remedy, Report, Target};
use super::judge::lint;
use crate::configuration::{self, Hints, InputError, Kind};
use crate::finding::{Answer, Severity};
use crate::position::Lines;
use crate::vm::VmConfiguration;

/// Rounds of fixing: one change can uncover another.
const MAX_ROUNDS: usize = 8;

/// One input, read once for all changes of all its machines.
pub struct Editor<'t, 'l> {
    kind: Kind,
    lines: &'l Lines<'t>,
    syntax: Syntax<'t>,
}

enum Syntax<'t> {
    CommandLine(command_line::Commands<'t>),
    Readconfig,
    Libvirt(libvirt::Domains<'t>),
    Proxmox,
    Kubevirt(kubevirt::Manifests),
    /// A log and a running process are what was, not what will be; a host's parameters are no
    /// machine.
    Fixed,
}

impl<'t, 'l> Editor<'t, 'l> {
    /// Reads the text once more for its syntax, as far as its kind can be edited.
    pub fn new(kind: Kind, lines: &'l Lines<'t>) -> Self {
        let syntax = match kind {
            Kind::CommandLine => {
                Some(Syntax::CommandLine(command_line::Commands::read(lines.text())))
            }
            Kind::Readconfig => Some(Syntax::Readconfig),
            Kind::LibvirtXml => libvirt::Domains::read(lines).map(Syntax::Libvirt),
            Kind::Proxmox => Some(Syntax::Proxmox),
            Kind::Kubevirt => kubevirt::Manifests::read(lines).map(Syntax::Kubevirt),
            Kind::ProcessCommandLine | Kind::LibvirtLog | Kind::Firecracker => None,
            Kind::Modprobe | Kind::KernelCommandLine => None,
        };
        Self { kind, lines, syntax: syntax.unwrap_or(Syntax::Fixed) }
    }

    /// Edits that make a change in a machine's text; `None` where this input cannot take it.
    pub fn edits(&self, vm: &VmConfiguration, change: &Change) -> Option<Vec<Edit>> {
        match &self.syntax {
            Syntax::CommandLine(commands) => commands.edits(vm, change),
            Syntax::Readconfig => readconfig::edits(self.lines, change),
            Syntax::Libvirt(domains) => domains.edits(self.lines.text(), vm, change),
            Syntax::Proxmox => proxmox::edits(self.lines, change),
            Syntax::Kubevirt(manifests) => manifests.edits(self.lines.text(), vm, change),
            Syntax::Fixed => None,
        }
    }

    /// Edits that make a change in a host's parameters.
    pub fn option_edits(&self, change: &Change) -> Vec<Edit> {
        let text = self.lines.text();
        let edits = option::edits(self.kind, self.lines, change).unwrap_or_default();
        let is_shell = self.kind == Kind::KernelCommandLine && text.contains("GRUB_");
        if is_shell {
            let all: Vec<&Edit> = edits.iter().collect();
            // A word that is pieced together, or that no shell would read so afterwards.
            if !configuration::settings::differ_in_one_word(text, &applied(text, &all)) {
                return Vec::new();
            }
        }
        edits
    }
}

/// Replaces one range.
fn replace(start: usize, end: usize, replacement: impl Into<String>) -> Vec<Edit> {
    vec![Edit { start, end, replacement: replacement.into() }]
}

/// Inserts at one place.
fn insert(at: usize, text: impl Into<String>) -> Vec<Edit> {
    replace(at, at, text)
}

/// A mended text with what is left to say about it.
#[derive(Clone, PartialEq, Debug)]
pub struct Fixed {
    /// The whole text, as far as it could be mended.
    pub text: String,
    /// Changes made.
    pub mended: usize,
    /// Of the mended text.
    pub report: Report,
}

/// Applies every edit of every diagnostic until nothing more can be mended.
pub fn fixed(
    file: &str,
    text: &str,
    kind: Option<Kind>,
    target: &Target,
) -> Result<Fixed, InputError> {
    let hints = Hints { qemu: target.qemu };
    let mut text = text.to_owned();
    let mut mended = 0;
    let mut contents = configuration::read(file, &text, kind, &hints)?;
    let mut report = lint(&contents, &text, target, file);
    for _ in 0..MAX_ROUNDS {
        let (next, applied) = apply(&text, &report);
        if applied == 0 {
            break;
        }
        let next_contents = configuration::read(file, &next, Some(contents.kind), &hints)?;
        let next_report = lint(&next_contents, &next, target, file);
        // An edit that does not lessen what is wrong would go on for ever.
        if burden(&next_report) >= burden(&report) {
            break;
        }
        mended += applied;
        (text, contents, report) = (next, next_contents, next_report);
    }
    Ok(Fixed { text, mended, report })
}

/// What is wrong, graver things first.
fn burden(report: &Report) -> [usize; 4] {
    let count = |answer, severity| {
        let found = report.diagnostics.iter();
        found.filter(|found| found.answer == answer && found.severity == severity).count()
    };
    [
        count(Answer::No, Severity::Error),
        count(Answer::No, Severity::Warning),
        count(Answer::No, Severity::Note),
        report.diagnostics.len(),
    ]
}

/// Applies the edits that do not touch one another; the others wait for the next round.
fn apply(text: &str, report: &Report) -> (String, usize) {
    let mut edits: Vec<&Edit> = Vec::new();
    let mut applied = 0;
    let remedies = || {
        let remedies =
            report.diagnostics.iter().filter_map(|diagnostic| diagnostic.remedy.as_ref());
        remedies.filter(|remedy| !remedy.edits.is_empty())
    };
    // A split irqchip takes the in-kernel PIT with it: what to do about the PIT shows afterwards.
    let splits = remedies().any(|remedy| remedy.change == Change::SplitIrqchip);
    let is_early = |remedy: &&Remedy| !splits || remedy.change != Change::DiscardPitTicks;
    let with_edits = remedies().filter(is_early).map(|remedy| &remedy.edits);
    for group in with_edits {
        if group.iter().all(|edit| edits.contains(&edit)) {
            // Two rules ask for the same change.
            continue;
        }
        let touches = |edit: &Edit| {
            edits.iter().any(|other| edit.start <= other.end && other.start <= edit.end)
        };
        if group.iter().any(touches) {
            continue;
        }
        edits.extend(group);
        applied += 1;
    }
    edits.sort();
    (self::applied(text, &edits), applied)
}

/// A text with edits that are sorted and do not touch.
fn applied(text: &str, edits: &[&Edit]) -> String {
    let mut result = String::with_capacity(text.len() + 64 * edits.len());
    let mut at = 0;
    for edit in edits {
        let (Some(before), true) = (text.get(at..edit.start), text.is_char_boundary(edit.end))
        else {
            continue;
        };
        result.push_str(before);
        result.push_str(&edit.replacement);
        at = edit.end;
    }
    result.push_str(text.get(at..).unwrap_or_default());
    result
}

/// The white space before the first character of the line that holds `at`.
fn indentation(text: &str, at: usize) -> &str {
    let start = text[..at].rfind('\n').map_or(0, |newline| newline + 1);
    let line = &text[start..];
    let length = line.len() - line.trim_start_matches([' ', '\t']).len();
    &line[..length.min(at.saturating_sub(start))]
}
