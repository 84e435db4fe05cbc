//! Parameters of kernel modules and of the kernel: `modprobe.d` files, `/proc/cmdline`, boot loader
//! settings.
//!
//! Sources: `modprobe.d(5)`, the kernel's `Documentation/admin-guide/kernel-parameters.rst`,
//! `/etc/default/grub`, the Boot Loader Specification. Left out: modprobe commands other than
//! `options` and `install`.

mod edit;

use super::{Contents, Dialect};
use crate::configuration::input::{Hints, InputError, Kind, ModuleOption};
use crate::configuration::shell::settings::{self, SettingWord};
use crate::finding::Position;
use crate::position::Lines;
use edit::Parameters;
use std::ops::Range;

/// Files of modprobe.d.
pub struct Modprobe;

impl Dialect for Modprobe {
    fn kind(&self) -> Kind {
        Kind::Modprobe
    }

    fn recognizes(&self, text: &str) -> bool {
        is_modprobe(text)
    }

    fn read<'t>(&self, _: &str, lines: &Lines<'t>, _: &Hints) -> Result<Contents<'t>, InputError> {
        let text = Parameters { kind: self.kind(), text: lines.text() };
        Ok(Contents::parameters(self.kind(), lines, modprobe(lines)?, text))
    }
}

/// Kernel command lines, wherever they are written.
pub struct KernelCommandLine;

impl Dialect for KernelCommandLine {
    fn kind(&self) -> Kind {
        Kind::KernelCommandLine
    }

    fn recognizes(&self, text: &str) -> bool {
        is_kernel_command_line(text)
    }

    fn read<'t>(&self, _: &str, lines: &Lines<'t>, _: &Hints) -> Result<Contents<'t>, InputError> {
        let text = Parameters { kind: self.kind(), text: lines.text() };
        Ok(Contents::parameters(self.kind(), lines, kernel_command_line(lines)?, text))
    }
}

/// Whether a text is a `modprobe.d` file.
fn is_modprobe(text: &str) -> bool {
    const COMMANDS: [&str; 6] = ["options", "blacklist", "alias", "install", "remove", "softdep"];
    let mut found = false;
    for line in
        text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'))
    {
        match line.split_whitespace().next() {
            Some(command) if COMMANDS.contains(&command) => found = true,
            _ if found => {}
            _ => return false,
        }
    }
    found && !is_loader_entry(text)
}

/// Whether a text is a boot loader entry (`title`, `linux`, `initrd`, `options`).
fn is_loader_entry(text: &str) -> bool {
    let starts = |key: &str| text.lines().any(|line| line.split_whitespace().next() == Some(key));
    starts("options") && (starts("linux") || starts("title") || starts("efi"))
}

/// Whether a text holds a kernel command line.
fn is_kernel_command_line(text: &str) -> bool {
    if is_loader_entry(text) || has_grub_setting(text) {
        return true;
    }
    let mut lines = text.lines().filter(|line| !line.trim().is_empty() && !line.starts_with('#'));
    let (Some(line), None) = (lines.next(), lines.next()) else { return false };
    const TELLING: [&str; 14] = [
        "BOOT_IMAGE=",
        "root=",
        "console=",
        "kvm.",
        "kvm_amd.",
        "kvm_intel.",
        "amd_iommu",
        "intel_iommu",
        "intremap=",
        "iommu=",
        "x2apic",
        "nox2apic",
        "initrd=",
        "systemd.",
    ];
    let mut words = line.split_whitespace();
    words.any(|word| {
        TELLING.iter().any(|start| word.starts_with(start)) || matches!(word, "ro" | "rw" | "quiet")
    })
}

/// Whether a setting of GRUB's stands in a text, at the beginning of a line or behind another.
fn has_grub_setting(text: &str) -> bool {
    let lines = text.lines().filter(|line| !line.trim_start().starts_with('#'));
    lines.flat_map(|line| line.split(';')).any(|part| grub_value(part).is_some())
}

/// The value of a `GRUB_CMDLINE_LINUX…=` line with its offset in the line.
fn grub_value(line: &str) -> Option<(usize, &str)> {
    let trimmed = line.trim_start();
    if !trimmed.starts_with("GRUB_CMDLINE_LINUX") {
        return None;
    }
    let (name, value) = line.split_once('=')?;
    let quote = value.starts_with(['"', '\'']);
    let inner = if quote { &value[1..] } else { value };
    let close = value.chars().next().filter(|_| quote);
    let inner = close.and_then(|c| inner.find(c)).map_or(inner.trim_end(), |end| &inner[..end]);
    Some((name.len() + 1 + usize::from(quote), inner))
}

/// One `options MODULE …` or `install MODULE …` of a `modprobe.d` file.
struct Statement {
    /// With its line ends.
    range: Range<usize>,
    /// Runs a command in place of loading the module.
    is_install: bool,
    module: String,
    words: Vec<Range<usize>>,
}

/// The statements of a file, as modprobe takes it apart: a backslash joins the next line, comments
/// too.
fn statements(text: &str) -> Vec<Statement> {
    let mut found = Vec::new();
    let mut lines = with_offsets(text).peekable();
    while let Some((start, line)) = lines.next() {
        let mut parts = words(content(line), start);
        let mut end = start + line.len();
        let mut continues = is_continued(line);
        while continues && let Some((next, line)) = lines.next() {
            parts.extend(words(content(line), next));
            end = next + line.len();
            continues = is_continued(line);
        }
        let mut parts = parts.into_iter();
        let command = parts.next().map_or("", |word| &text[word]);
        if let Some(module) = parts.next().filter(|_| ["options", "install"].contains(&command)) {
            let module = text[module].replace('-', "_");
            let is_install = command == "install";
            let words = parts.collect();
            found.push(Statement { range: start..end, is_install, module, words });
        }
    }
    found
}

impl Statement {
    /// The options that an `install` line gives where it does nothing but load the module
    /// (`/sbin/modprobe --ignore-install MODULE NAME=VALUE…`); `None` for any other command.
    fn installed_options(&self, text: &str) -> Option<Vec<Range<usize>>> {
        let word = |range: &Range<usize>| &text[range.clone()];
        let (program, rest) = self.words.split_first()?;
        let is_loader = word(program).rsplit('/').next() == Some("modprobe");
        let mut ignores = false;
        let mut is_loaded = false;
        let mut options = Vec::new();
        for range in rest {
            match word(range) {
                "--ignore-install" | "-i" => ignores = true,
                "$CMDLINE_OPTS" => {}
                name if !is_loaded && name.replace('-', "_") == self.module => is_loaded = true,
                text if is_loaded
                    && text.contains('=')
                    && !text.contains(['$', '`', ';', '|', '&']) =>
                {
                    options.push(range.clone());
                }
                text if text.starts_with('-') && !is_loaded => {}
                _ => return None,
            }
        }
        (is_loader && ignores && is_loaded).then_some(options)
    }
}

/// Only a backslash right before the line end continues a line.
fn is_continued(line: &str) -> bool {
    line.ends_with("\\\n")
}

fn content(line: &str) -> &str {
    line.strip_suffix("\\\n").unwrap_or(line)
}

/// Options of a `modprobe.d` file, those of `install` lines last, as the module is given them. A
/// `#` behind them begins no comment: modprobe passes it on with all that follows, and the kernel
/// takes what it knows. An `install` line that is not followed is an open option, `$(…)`.
pub fn modprobe(lines: &Lines<'_>) -> Result<Vec<ModuleOption>, InputError> {
    let mut found = given(lines)?;
    found.extend(installed(lines)?);
    Ok(found)
}

/// Those of `options` lines.
pub fn given(lines: &Lines<'_>) -> Result<Vec<ModuleOption>, InputError> {
    let text = lines.text();
    let mut found = Vec::new();
    for statement in statements(text).iter().filter(|statement| !statement.is_install) {
        for word in &statement.words {
            if !text[word.clone()].starts_with('#') {
                push(&mut found, option(&statement.module, word.clone(), lines), lines)?;
            }
        }
    }
    Ok(found)
}

/// Those of `install` lines, which come behind all `options` of all files.
pub fn installed(lines: &Lines<'_>) -> Result<Vec<ModuleOption>, InputError> {
    let text = lines.text();
    let mut found = Vec::new();
    for statement in statements(text).iter().filter(|statement| statement.is_install) {
        match statement.installed_options(text) {
            Some(words) => {
                for word in words {
                    push(&mut found, option(&statement.module, word, lines), lines)?;
                }
            }
            None => {
                let at = lines.position(statement.range.start, statement.range.end);
                let line = text[statement.range.clone()].trim().replace('\n', " ");
                let module = statement.module.clone();
                let name = format!("$({line})");
                push(
                    &mut found,
                    ModuleOption { module, name, value: None, at, value_at: at },
                    lines,
                )?;
            }
        }
    }
    Ok(found)
}

/// The file without the options of a module that `is_unwanted` names, by name and value; all else
/// keeps its form.
pub fn without(text: &str, module: &str, is_unwanted: impl Fn(&str, &str) -> bool) -> String {
    let mut result = String::with_capacity(text.len());
    let mut at = 0;
    let ours = |statement: &&Statement| statement.module == module && !statement.is_install;
    for statement in statements(text).iter().filter(ours) {
        let goes = |word: &&Range<usize>| {
            let word = &text[(*word).clone()];
            let (name, value) = word.split_once('=').unwrap_or((word, "1"));
            is_unwanted(&name.replace('-', "_"), value.trim_matches('"'))
        };
        let unwanted: Vec<&Range<usize>> = statement.words.iter().filter(goes).collect();
        if unwanted.is_empty() {
            continue;
        }
        if unwanted.len() == statement.words.len() {
            result.push_str(&text[at..statement.range.start]);
            at = statement.range.end;
            continue;
        }
        for word in unwanted {
            // The blanks before it go too, but not the end of the line before.
            let kept = text[at..word.start].trim_end_matches([' ', '\t']);
            result.push_str(kept);
            at = word.end;
        }
    }
    result.push_str(&text[at..]);
    result
}

/// Options of a kernel command line, wherever it is written; module parameters come with their
/// module.
pub fn kernel_command_line(lines: &Lines<'_>) -> Result<Vec<ModuleOption>, InputError> {
    let text = lines.text();
    let has_grub = has_grub_setting(text);
    let mut found = Vec::new();
    if has_grub {
        match settings::words(&as_shell_text(text), GRUB_PREFIX) {
            Ok(words) => {
                // What an earlier file says is judged there.
                let is_own = |word: &SettingWord| {
                    !word.text.trim_start_matches(['$', '{']).starts_with(GRUB_PREFIX)
                };
                for word in words.into_iter().filter(is_own) {
                    push(&mut found, option_of_setting(&word, lines), lines)?;
                }
                return Ok(found);
            }
            // What follows is what the lines say; something else may count.
            Err(why) => {
                let at = lines.position(0, 0);
                let open = format!("$GRUB_CMDLINE_LINUX ({why})");
                let name = open.clone();
                found.push(ModuleOption {
                    module: String::new(),
                    name,
                    value: None,
                    at,
                    value_at: at,
                });
            }
        }
    }
    let is_entry = is_loader_entry(text);
    for (start, line) in with_offsets(text) {
        if line.trim_start().starts_with('#') {
            continue;
        }
        let (offset, value) = if has_grub {
            let Some(value) = grub_value(line) else { continue };
            value
        } else if is_entry {
            let Some(rest) = line.trim_start().strip_prefix("options") else { continue };
            (line.len() - rest.len(), rest)
        } else {
            (0, line)
        };
        for word in words(value, start + offset) {
            let name = text[word.clone()].split('=').next().unwrap_or_default();
            push(&mut found, option(&module_of(name), word, lines), lines)?;
        }
    }
    Ok(found)
}

const GRUB_PREFIX: &str = "GRUB_CMDLINE_LINUX";

/// What an editor of another system left at the ends of lines and of the text is blank here, so
/// that places stay.
fn as_shell_text(text: &str) -> String {
    let text = text.replace("\r\n", " \n");
    match text.strip_prefix('\u{feff}') {
        Some(rest) => format!("   {rest}"),
        None => text,
    }
}

fn option_of_setting(word: &SettingWord, lines: &Lines<'_>) -> ModuleOption {
    let name = word.text.split('=').next().unwrap_or_default();
    let module = module_of(name);
    if word.is_literal {
        return option(&module, word.at.clone(), lines);
    }
    let (name, value) = match word.text.split_once('=') {
        Some((name, value)) => (name, Some(value.trim_matches('"').to_owned())),
        None => (word.text.as_str(), None),
    };
    let at = lines.position(word.at.start, word.at.end);
    let name = match name.split_once('.') {
        Some((_, name)) if !module.is_empty() => name.replace('-', "_"),
        _ => name.to_owned(),
    };
    ModuleOption { name, value, at, value_at: Position { start: at.end, ..at }, module }
}

/// The module of a parameter as the kernel command line names it; empty for the kernel's own.
fn module_of(name: &str) -> String {
    match name.split_once('.') {
        Some((module, _)) if is_module_name(module) => module.replace('-', "_"),
        _ => String::new(),
    }
}

fn is_module_name(name: &str) -> bool {
    !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-')
}

/// Options of one input; more than any file or kernel command line has.
const MAX_OPTIONS: usize = 10_000;

fn push(
    found: &mut Vec<ModuleOption>,
    option: ModuleOption,
    lines: &Lines<'_>,
) -> Result<(), InputError> {
    if found.len() >= MAX_OPTIONS {
        let position = lines.position(option.at.start, option.at.end);
        return Err(InputError::at(position, format!("more than {MAX_OPTIONS} options")));
    }
    found.push(option);
    Ok(())
}

fn option(module: &str, word: Range<usize>, lines: &Lines<'_>) -> ModuleOption {
    let text = &lines.text()[word.clone()];
    let (name, value) = match text.split_once('=') {
        Some((name, value)) => (name, Some(value)),
        None => (text, None),
    };
    let value_start = value.map_or(word.end, |value| word.end - value.len());
    let bare =
        if module.is_empty() { name } else { name.split_once('.').map_or(name, |(_, name)| name) };
    ModuleOption {
        module: module.to_owned(),
        name: if module.is_empty() { bare.to_owned() } else { bare.replace('-', "_") },
        value: value.map(|value| value.trim_matches('"').to_owned()),
        at: lines.position(word.start, word.end),
        value_at: lines.position(value_start, word.end),
    }
}

/// Lines with the offset of each.
fn with_offsets(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut start = 0;
    text.split_inclusive('\n').map(move |line| {
        let at = start;
        start += line.len();
        (at, line)
    })
}

/// Blank-separated words of a line as source ranges; double quotes keep blanks together.
pub fn words(line: &str, offset: usize) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    let mut start = None;
    let mut is_quoted = false;
    for (at, c) in line.char_indices() {
        if c == '"' {
            is_quoted = !is_quoted;
        }
        match (c.is_whitespace() && !is_quoted, start) {
            (true, Some(from)) => {
                found.push(offset + from..offset + at);
                start = None;
            }
            (false, None) => start = Some(at),
            _ => {}
        }
    }
    if let Some(from) = start {
        found.push(offset + from..offset + line.len());
    }
    found
}
