//! What a host's files and its kernel command line give modules.

use super::dialect::module_options;
use super::{InputError, ModuleOption};
use crate::position::Lines;
use reading::module::same_parameter;
use reading::{ConfigurationFile, Facts};

/// Options of one host that are looked at: many times what one has.
pub const MOST_OPTIONS: usize = 5_000;

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

/// All that files of modprobe.d and the kernel command line give modules and the kernel, read once
/// for many questions.
pub struct Given {
    files: Vec<OfFile>,
    kernel: Vec<ModuleOption>,
    /// There is more than is looked at.
    pub is_cut: bool,
}

struct OfFile {
    path: String,
    given: Vec<ModuleOption>,
    installed: Vec<ModuleOption>,
}

impl Given {
    /// What a host's files say; a file that is too long for a configuration is none.
    pub fn of(facts: &Facts) -> Self {
        let read = |text: &str, read: fn(&Lines<'_>) -> Result<Vec<ModuleOption>, InputError>| {
            read(&Lines::new(text)).unwrap_or_default()
        };
        let kernel = facts.command_line.get();
        let kernel = kernel.map(|text| read(text, module_options::kernel_command_line));
        let kernel = kernel.unwrap_or_default();
        let mut all = Self { files: Vec::new(), kernel, is_cut: false };
        let mut count = 0;
        for file in facts.modprobe.get().into_iter().flatten() {
            let given = read(&file.text, module_options::given);
            let installed = read(&file.text, module_options::installed);
            count += given.len() + installed.len();
            if count > MOST_OPTIONS {
                all.is_cut = true;
                break;
            }
            all.files.push(OfFile { path: file.path.clone(), given, installed });
        }
        all
    }

    /// Every option.
    pub fn all(&self) -> Vec<ModuleOption> {
        let files = self.files.iter().flat_map(|file| [&file.given, &file.installed]);
        files.chain([&self.kernel]).flatten().cloned().collect()
    }

    /// What counts more than a file of modprobe.d: options of the files that are read after it, of
    /// `install` lines, and of the kernel command line. All of them for a path that is in no such
    /// list.
    pub fn after(&self, path: &str) -> Vec<ModuleOption> {
        let place = self.files.iter().position(|file| file.path == path);
        let later = place.map_or(&[][..], |place| &self.files[place + 1..]);
        let others = self.files.iter().filter(|file| file.path != path);
        let later = later.iter().map(|file| &file.given).chain([&self.kernel]);
        later.chain(others.map(|file| &file.installed)).flatten().cloned().collect()
    }
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
