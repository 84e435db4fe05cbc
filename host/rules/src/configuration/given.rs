//! What a host's files and its kernel command line give modules.

use super::dialect::module_options;
use super::{InputError, ModuleOption};
use crate::position::Lines;
use reading::module::same_parameter;
use reading::{ConfigurationFile, Facts};

/// The value modprobe.d gives to a module's option, with the file: the last one read counts.
pub fn by_modprobe(facts: &Facts, module: &str, option: &str) -> Option<(String, String)> {
    by_files(facts.modprobe.get()?, module, option)
}

/// The same of any files of modprobe.d, such as an initial RAM disk's.
pub fn by_files(
    files: &[ConfigurationFile],
    module: &str,
    option: &str,
) -> Option<(String, String)> {
    // `install` lines act last, whatever file they are in.
    let installed = last(files, module, option, module_options::installed);
    installed.or_else(|| last(files, module, option, module_options::given))
}

/// All that files of modprobe.d and the kernel command line give modules and the kernel.
pub fn all(facts: &Facts) -> Vec<ModuleOption> {
    let files = facts.modprobe.get().into_iter().flatten();
    let mut all: Vec<ModuleOption> = files
        .flat_map(|file| module_options::modprobe(&Lines::new(&file.text)).unwrap_or_default())
        .collect();
    if let Some(text) = facts.command_line.get() {
        all.extend(module_options::kernel_command_line(&Lines::new(text)).unwrap_or_default());
    }
    all
}

/// What counts more than a file of modprobe.d: options of the files that are read after it, of
/// `install` lines, and of the kernel command line. All of them for a path that is in no such list.
pub fn after(facts: &Facts, path: &str) -> Vec<ModuleOption> {
    let files = facts.modprobe.get().map(Vec::as_slice).unwrap_or_default();
    let place = files.iter().position(|file| file.path == path);
    let later = place.map_or(&[][..], |place| &files[place + 1..]);
    let read = |text: &str, read: fn(&Lines<'_>) -> Result<Vec<ModuleOption>, InputError>| {
        read(&Lines::new(text)).unwrap_or_default()
    };
    let mut found: Vec<ModuleOption> =
        later.iter().flat_map(|file| read(&file.text, module_options::given)).collect();
    if let Some(text) = facts.command_line.get() {
        found.extend(read(text, module_options::kernel_command_line));
    }
    let others = files.iter().filter(|file| file.path != path);
    found.extend(others.flat_map(|file| read(&file.text, module_options::installed)));
    found
}

/// The `install` line that loads a module by a command of its own, with its file: what the module
/// is given then is not known.
pub fn unfollowed(facts: &Facts, module: &str) -> Option<(String, String)> {
    let files = facts.modprobe.get()?;
    files.iter().rev().find_map(|file| {
        let installed = module_options::installed(&Lines::new(&file.text)).ok()?;
        let open = installed.into_iter().rev().find(|option| {
            same_parameter(&option.module, module) && option.name.starts_with("$(")
        })?;
        let line = open.name.trim_start_matches("$(").trim_end_matches(')').to_owned();
        Some((line, file.path.clone()))
    })
}

/// The option that a line `install MODULE …` gives, which no other line overrides.
pub fn by_install(facts: &Facts, module: &str, option: &str) -> Option<(String, String)> {
    last(facts.modprobe.get()?, module, option, module_options::installed)
}

fn last(
    files: &[ConfigurationFile],
    module: &str,
    option: &str,
    read: impl Fn(&Lines<'_>) -> Result<Vec<ModuleOption>, InputError>,
) -> Option<(String, String)> {
    let mut found = None;
    for file in files {
        let lines = Lines::new(&file.text);
        // A file that is too long for a configuration is none.
        for given in read(&lines).unwrap_or_default() {
            if same_parameter(&given.module, module) && same_parameter(&given.name, option) {
                let value = given.value.unwrap_or_else(|| "1".to_owned());
                found = Some((value, file.path.clone()));
            }
        }
    }
    found
}

/// What the module is given when it is loaded: modprobe appends the kernel command line's
/// parameters to those of its files and an `install` line's to all of them, and the last one
/// counts.
pub fn option(facts: &Facts, module: &str, option: &str) -> Option<(String, String)> {
    let on_command_line = || {
        facts
            .kernel_argument(&format!("{module}.{option}"))
            .map(|value| (value.to_string(), facts.command_line.place.clone()))
    };
    by_install(facts, module, option)
        .or_else(on_command_line)
        .or_else(|| by_modprobe(facts, module, option))
}
