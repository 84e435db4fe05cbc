//! Options of modules: in a file of our own, or on the command line of a kernel that has the module
//! built in.

use super::Drafting;
use super::boot::{Arguments, Loader};
use super::step::{Action, Expected, OPTIONS_FILE, Step};
use crate::capability::{Row, initial_disk, reload_line};
use crate::configuration::dialect::module_options;
use crate::configuration::given;
use crate::feature::{COMMON_MODULE, Feature, Parameter};
use crate::finding::Needs;
use reading::{ConfigurationFile, InitialDisk, boolean};

impl Drafting<'_> {
    fn is_given_off(&self, module: &str, option: &str) -> bool {
        let given = given::option(self.facts, module, option);
        given.and_then(|(value, _)| boolean(&value)) == Some(false)
    }

    /// A parameter that kvm keeps as it was: an option where it is given as off or kvm cannot be
    /// loaded again, otherwise loading kvm again is enough.
    pub(super) fn kept(&mut self, feature: Feature, because: Row, risk: &'static str) {
        let Parameter { module, name, .. } = feature.parameter();
        let is_fixed = self.facts.module(COMMON_MODULE).get().is_some_and(|kvm| kvm.is_builtin);
        if is_fixed || self.is_given_off(module, name) {
            self.options(module, &[(name, "1")], because, risk, false);
        } else {
            self.reload(module, because, false);
        }
    }

    /// Options of a module: in a file of our own, or on the command line of a kernel that has it
    /// built in. Other files that say the opposite are changed too, since the last one read wins.
    pub(super) fn options(
        &mut self,
        module: &str,
        options: &[(&str, &str)],
        because: Row,
        risk: &'static str,
        is_optional: bool,
    ) {
        let is_builtin = self.facts.module(module).get().is_some_and(|module| module.is_builtin);
        let on_command_line: Vec<String> = options
            .iter()
            .filter_map(|(name, _)| {
                let argument = format!("{module}.{name}");
                self.facts.kernel_argument(&argument).map(|value| format!("{argument}={value}"))
            })
            .collect();
        if is_builtin || !on_command_line.is_empty() {
            let add: Vec<String> =
                options.iter().map(|(name, value)| format!("{module}.{name}={value}")).collect();
            let words = Arguments::new(
                add.iter()
                    .map(String::as_str)
                    .filter(|word| !on_command_line.iter().any(|given| given == word)),
                on_command_line
                    .iter()
                    .map(String::as_str)
                    .filter(|given| !add.iter().any(|word| word == given)),
            );
            return self.ask(words, because, risk, is_optional);
        }
        let lines: Vec<String> = options
            .iter()
            .map(|(name, value)| format!("options {module} {name}={value}"))
            .collect();
        let instruction = match Loader::detect(self.facts) {
            Loader::Described => Some(format!(
                "boot.extraModprobeConfig = \"{}\"; in configuration.nix, and rebuild: files in /etc are made from it",
                lines.join("\\n")
            )),
            Loader::Image => Some(format!(
                "'{}' in a file of /etc/modprobe.d, by the configuration that this system is installed from: its root \
                 is an image, and what is written into it does not last",
                lines.join("' and '")
            )),
            _ => None,
        };
        if let Some(instruction) = instruction {
            let title = format!("give {module} its options");
            return self.tell(title, instruction, because, risk, is_optional);
        }
        if !is_optional {
            let expected = |(option, value): &(&str, &str)| Expected {
                module: module.to_owned(),
                option: (*option).to_owned(),
                value: (*value).to_owned(),
            };
            self.expects.extend(options.iter().map(expected));
        }
        if let Some((line, place)) = given::unfollowed(self.facts, module) {
            let title = format!("give {module} its options");
            let words: Vec<String> =
                options.iter().map(|(name, value)| format!("{name}={value}")).collect();
            let instruction = format!(
                "have the line '{line}' of {place} pass {} on, or take it out: it decides what the module is given",
                words.join(" ")
            );
            return self.tell(title, instruction, because, risk, is_optional);
        }
        let is_given = |(option, value): &(&str, &str)| {
            let found = given::by_modprobe(self.facts, module, option);
            found.is_some_and(|(found, _)| boolean(&found) == boolean(value))
        };
        if options.iter().all(is_given) {
            return self.reload(module, because, is_optional);
        }
        for (option, wanted) in options {
            let installed = given::by_install(self.facts, module, option);
            let opposite = installed.filter(|(value, _)| boolean(value) != boolean(wanted));
            if let Some((value, place)) = opposite {
                let title = format!("give {module} its options");
                let instruction = format!(
                    "take {option}={value} out of the line install {module} of {place}: it counts more than any other"
                );
                return self.tell(title, instruction, because, risk, is_optional);
            }
        }
        self.without_opposites(module, options, because, is_optional);
        let before = self.text_of(OPTIONS_FILE);
        let after = with_options(before.as_deref().unwrap_or(""), module, options);
        if before.as_deref() != Some(&after) {
            let title = format!("give {module} its options");
            self.write(OPTIONS_FILE, before, after, title, because, risk, is_optional);
        }
        self.reload(module, because, is_optional);
    }

    fn tell(
        &mut self,
        title: String,
        instruction: String,
        because: Row,
        risk: &str,
        is_optional: bool,
    ) {
        self.steps.push(Step {
            id: format!("tell-{}", self.steps.len() + 1),
            title,
            because: because.into(),
            action: Action::Tell { instruction },
            needs: Needs::Reboot,
            risk: risk.into(),
            is_optional,
        });
    }

    /// The content of a file as planned so far, or as it is.
    fn text_of(&self, path: &str) -> Option<String> {
        let planned = self.steps.iter().rev().find_map(|step| match &step.action {
            Action::Write { path: written, after, .. } if written == path => Some(after.clone()),
            _ => None,
        });
        planned.or_else(|| self.file(path).map(|file| file.text.clone()))
    }

    fn file(&self, path: &str) -> Option<&ConfigurationFile> {
        let modprobe = self.facts.modprobe.get().into_iter().flatten();
        modprobe.chain(&self.facts.boot.files).find(|file| file.path == path)
    }

    /// Several steps may touch one file: they become one, unless one of them is a matter of choice.
    #[expect(clippy::too_many_arguments, reason = "the fields of a step")]
    fn write(
        &mut self,
        path: &str,
        before: Option<String>,
        after: String,
        title: String,
        because: Row,
        risk: &str,
        is_optional: bool,
    ) {
        let is_same = |step: &&mut Step| {
            let writes =
                matches!(&step.action, Action::Write { path: written, .. } if written == path);
            writes && step.is_optional == is_optional
        };
        let earlier = self.steps.iter_mut().find(is_same);
        if let Some(Step { action: Action::Write { after: planned, .. }, .. }) = earlier {
            *planned = after;
            return;
        }
        self.steps.push(Step {
            id: format!("write-{}", path.trim_start_matches('/').replace('/', "-")),
            title: format!("{title} in {path}"),
            because: because.into(),
            action: Action::Write { path: path.into(), before, after },
            needs: Needs::ModuleReload,
            risk: risk.into(),
            is_optional,
        });
    }

    fn without_opposites(
        &mut self,
        module: &str,
        options: &[(&str, &str)],
        because: Row,
        is_optional: bool,
    ) {
        let files: Vec<String> = self
            .facts
            .modprobe
            .get()
            .into_iter()
            .flatten()
            .map(|file| file.path.clone())
            .filter(|path| path != OPTIONS_FILE)
            .collect();
        for path in files {
            let Some(before) = self.text_of(&path) else { continue };
            let after = without_options(&before, module, options);
            if after != before {
                // Packages own the other folders: a file of the same name in /etc hides theirs.
                let target = match path.rsplit('/').next() {
                    Some(name) if !path.starts_with("/etc/") => format!("/etc/modprobe.d/{name}"),
                    _ => path.clone(),
                };
                let existing = self.text_of(&target);
                self.write(
                    &target,
                    existing,
                    after,
                    format!("take the opposite options of {module} out"),
                    because,
                    "none beyond the next step's",
                    is_optional,
                );
            }
        }
    }

    fn reload(&mut self, module: &str, because: Row, is_optional: bool) {
        let id = format!("reload-{module}");
        if let Some(step) = self.steps.iter_mut().find(|step| step.id == id) {
            step.is_optional &= is_optional;
            return;
        }
        let running = self.facts.vms.get().map_or(0, Vec::len);
        let line = reload_line(self.facts, module);
        let instruction = match running {
            0 => line,
            count => format!(
                "move the {} to another node or stop {}, then {line}; or reboot",
                match count {
                    1 => "running virtual machine".to_owned(),
                    _ => format!("{count} running virtual machines"),
                },
                if count == 1 { "it" } else { "them" }
            ),
        };
        self.steps.push(Step {
            id,
            title: format!("reload {module}"),
            because: because.into(),
            action: Action::Tell { instruction },
            needs: Needs::ModuleReload,
            risk: "no virtual machine may run".into(),
            is_optional,
        });
    }

    /// An initial RAM disk that loads the module gives it the options that it was made with.
    pub(super) fn initial_ram_disk(&mut self) {
        let modules: Vec<String> =
            self.expects.iter().map(|expected| expected.module.clone()).collect();
        let names = |text: &str| {
            text.lines().filter(|line| !line.trim_start().starts_with('#')).any(|line| {
                let mut words =
                    line.split(|c: char| !c.is_ascii_alphanumeric() && c != '_' && c != '-');
                words.any(|word| modules.contains(&word.replace('-', "_")))
            })
        };
        let file = self.facts.boot.files.iter().find(|file| {
            let is_one =
                ["/etc/initramfs-tools/modules", "/etc/mkinitcpio.conf", "/etc/dracut.conf"]
                    .contains(&file.path.as_str())
                    || file.path.starts_with("/etc/dracut.conf.d/");
            is_one && names(&file.text)
        });
        let disk = &self.facts.initial_disk;
        // One that cannot be read and is older than what it was made from may have it too.
        let is_in = |disk: &InitialDisk| {
            modules.iter().any(|name| disk.has(name).unwrap_or(disk.older_than.is_some()))
        };
        let place = match (file, disk.get().filter(|disk| is_in(disk))) {
            (Some(file), _) => &file.path,
            (None, Some(_)) => &disk.place,
            (None, None) => return,
        };
        let Some(command) = initial_disk::command(self.facts) else { return };
        let command: Vec<String> = command.iter().map(|word| word.to_string()).collect();
        self.steps.push(Step {
            id: "initial-ram-disk".into(),
            title: format!("rebuild the initial RAM disk, which loads the module ({place})"),
            because: self.steps.first().map_or_else(String::new, |step| step.because.clone()),
            action: Action::Run { undo: command.clone(), command, keeps: vec![] },
            needs: Needs::Reboot,
            risk: "the host boots from it".into(),
            is_optional: false,
        });
    }
}

/// The content of our options file with these options: one line for each module.
pub(super) fn with_options(text: &str, module: &str, options: &[(&str, &str)]) -> String {
    let mut result = match text {
        "" => "# Written by avicenna enable; avicenna rollback takes it back.\n".to_owned(),
        _ => text.to_owned(),
    };
    if !result.ends_with('\n') {
        result.push('\n');
    }
    let result = module_options::without(&result, module, |name, _| {
        options.iter().any(|(other, _)| *other == name)
    });
    let words: Vec<String> =
        options.iter().map(|(name, value)| format!("{name}={value}")).collect();
    format!("{result}options {module} {}\n", words.join(" "))
}

/// A modprobe.d text without options that contradict these. Everything else keeps its form.
pub(super) fn without_options(text: &str, module: &str, options: &[(&str, &str)]) -> String {
    module_options::without(text, module, |name, value| {
        options.iter().any(|(other, wanted)| *other == name && boolean(value) != boolean(wanted))
    })
}
