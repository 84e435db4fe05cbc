//! What would switch the feature on here: a plan of steps, each with what it needs, its risk and its way back.
//!
//! The plan follows from the findings of [`crate::capability`]: what the hardware lacks has no step, what an option
//! or the kernel command line forbids has one. Virtual machines' own inhibits come from [`crate::why`]. Nothing is
//! changed here; a step is data that another crate applies and takes back.

mod boot;
mod machine;
#[cfg(test)]
mod tests;

pub use boot::Loader;

use crate::capability::{self, Report};
use crate::finding::{Answer, Needs};
use crate::host::{ConfigurationFile, Facts, boolean};
use serde::Serialize;

/// Version of the published form of [`Plan`]: docs/schema/enable-1.json.
pub const SCHEMA: u32 = 1;

/// The file that holds this tool's module options, and nothing else.
pub const OPTIONS_FILE: &str = "/etc/modprobe.d/avicenna.conf";

/// One change of the host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Action {
    /// Give a file this content; `before` is `None` for a file that does not exist.
    Write { path: String, before: Option<String>, after: String },
    /// Run a program of the host, and its opposite to take it back.
    Run { command: Vec<String>, undo: Vec<String> },
    /// Something only the operator can do.
    Tell { instruction: String },
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Step {
    pub id: String,
    pub title: String,
    /// The row of `check` that asks for it.
    pub because: String,
    pub action: Action,
    pub needs: Needs,
    pub risk: String,
    /// Part of the plan only if asked for: it trades something else away.
    pub is_optional: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Plan {
    pub schema: u32,
    pub steps: Vec<Step>,
    /// What no step can change, and why.
    pub blocked: Vec<String>,
    /// Virtual machines that run now: a module cannot be reloaded under them.
    pub running: usize,
}

impl Plan {
    pub fn is_empty(&self) -> bool {
        self.steps.is_empty()
    }
}

/// The plan for a host.
pub fn plan(facts: &Facts, report: &Report) -> Plan {
    let mut draft = Drafting { facts, report, steps: vec![], blocked: vec![] };
    if facts.cpus.iter().any(|cpu| cpu.vendor.as_ref().is_some_and(|vendor| vendor.has_svm())) {
        draft.amd();
    } else if facts
        .cpus
        .iter()
        .any(|cpu| cpu.vendor.as_ref().is_some_and(|vendor| vendor.has_vmx()))
    {
        draft.intel();
    } else {
        draft.blocked.push("the processor's vendor is not known".into());
    }
    draft.hardware();
    draft.steps.extend(machine::steps(facts, report));
    Plan {
        schema: SCHEMA,
        steps: draft.steps,
        blocked: draft.blocked,
        running: facts.vms.get().map_or(0, Vec::len),
    }
}

struct Drafting<'f> {
    facts: &'f Facts,
    report: &'f Report,
    steps: Vec<Step>,
    blocked: Vec<String>,
}

impl Drafting<'_> {
    fn answer(&self, id: &str) -> Answer {
        let mut found =
            self.report.findings.iter().filter(|row| row.id == id).map(|row| row.answer).peekable();
        if found.peek().is_none() { Answer::Unknown } else { found.fold(Answer::Yes, Answer::and) }
    }

    fn amd(&mut self) {
        if self.answer("cpu-avic") != Answer::No
            && self.answer("cpu-npt") != Answer::No
            && self.answer("kvm-avic") == Answer::No
        {
            let mut options = vec![("avic", "1")];
            if self.facts.parameter("kvm_amd", "npt").get().and_then(|text| boolean(text))
                == Some(false)
            {
                options.push(("npt", "1"));
            }
            self.options(
                "kvm_amd",
                &options,
                "kvm-avic",
                "guests run with AVIC, a part of KVM they did not use before",
            );
        }
        if self.answer("kvm-ipi") == Answer::No && self.answer("cpu-erratum-1235") == Answer::Yes {
            self.kept("kvm_amd", "enable_ipiv", "kvm-ipi", "IPIs are delivered by the CPU");
        }
        if self.answer("kvm-device-posting") == Answer::No
            && self.answer("iommu-guest-apic-on") != Answer::No
        {
            self.kept(
                "kvm_amd",
                "enable_device_posted_irqs",
                "kvm-device-posting",
                "device interrupts bypass the host",
            );
        }
        if self.answer("kvm-nested") == Answer::No {
            self.options(
                "kvm_amd",
                &[("nested", "0")],
                "kvm-nested",
                "guests can no longer run virtual machines of their own",
            );
            self.make_last_optional();
        }
        let remove: Vec<&str> = self.words_to_remove(&[
            ("amd_iommu_intr", "legacy"),
            ("amd_iommu", "off"),
            ("intremap", "off"),
        ]);
        self.kernel_arguments(
            &[],
            &remove,
            "iommu-guest-apic-on",
            "interrupts of devices take another path",
        );
    }

    fn intel(&mut self) {
        let has_parts = [
            "cpu-tpr-shadow",
            "cpu-apic-register",
            "cpu-interrupt-delivery",
            "cpu-posted-interrupts",
        ]
        .iter()
        .all(|id| self.answer(id) != Answer::No);
        if has_parts
            && self.answer("kvm-apicv") == Answer::No
            && self.facts.module("kvm_intel").get().is_some()
        {
            self.options(
                "kvm_intel",
                &[("enable_apicv", "1")],
                "kvm-apicv",
                "guests run with APICv, a part of KVM they did not use before",
            );
        }
        if has_parts
            && self.answer("kvm-ipi") == Answer::No
            && self.answer("cpu-ipi") == Answer::Yes
        {
            self.kept("kvm_intel", "enable_ipiv", "kvm-ipi", "IPIs are delivered by the CPU");
        }
        if has_parts
            && self.answer("kvm-device-posting") == Answer::No
            && self.answer("iommu-posting-on") == Answer::Yes
        {
            self.kept(
                "kvm_intel",
                "enable_device_posted_irqs",
                "kvm-device-posting",
                "device interrupts bypass the host",
            );
        }
        let remove = self.words_to_remove(&[("intremap", "off"), ("intremap", "nopost")]);
        self.kernel_arguments(
            &[],
            &remove,
            "iommu-posting-on",
            "interrupts of devices take another path",
        );
        if self.answer("iommu-x2apic-opt-out") == Answer::No {
            self.kernel_arguments(
                &["intremap=no_x2apic_optout"],
                &[],
                "iommu-x2apic-opt-out",
                "the firmware asks for xAPIC: its system management code may not expect x2APIC",
            );
            self.make_last_optional();
        }
    }

    fn make_last_optional(&mut self) {
        if let Some(step) = self.steps.last_mut() {
            step.is_optional = true;
        }
    }

    /// What the findings put down to hardware or firmware.
    fn hardware(&mut self) {
        let blocked = self
            .report
            .findings
            .iter()
            .filter(|row| row.is_problem() && !row.id.starts_with("answer-"))
            .filter(|row| {
                row.fix
                    .as_ref()
                    .is_some_and(|fix| matches!(fix.needs, Needs::Hardware | Needs::Firmware))
            })
            .map(|row| format!("{} [{}]: {}", row.statement, row.subject, row.reason));
        self.blocked.extend(blocked);
    }

    fn is_given_off(&self, module: &str, option: &str) -> bool {
        let on_command_line = self.facts.kernel_argument(&format!("{module}.{option}"));
        let in_file = self.facts.modprobe_option(module, option);
        let value = on_command_line.map(str::to_string).or(in_file.map(|(value, _)| value));
        value.as_deref().and_then(boolean) == Some(false)
    }

    /// A parameter that kvm keeps as it was: an option where it is given as off or kvm cannot be loaded again,
    /// otherwise loading kvm again is enough.
    fn kept(&mut self, module: &str, option: &str, because: &str, risk: &str) {
        let is_fixed = self.facts.module("kvm").get().is_some_and(|kvm| kvm.is_builtin);
        if is_fixed || self.is_given_off(module, option) {
            self.options(module, &[(option, "1")], because, risk);
        } else {
            self.reload(module, because);
        }
    }

    /// The words of the kernel command line that forbid the feature.
    fn words_to_remove(&self, forbidding: &[(&str, &str)]) -> Vec<&'static str> {
        const KNOWN: &[&str] =
            &["amd_iommu_intr=legacy", "amd_iommu=off", "intremap=off", "intremap=nopost"];
        let given = |word: &str| self.facts.command_line_words().any(|other| other == word);
        KNOWN
            .iter()
            .copied()
            .filter(|word| {
                word.split_once('=').is_some_and(|pair| forbidding.contains(&pair)) && given(word)
            })
            .collect()
    }

    /// Options of a module: in a file of our own, or on the command line of a kernel that has it built in. Other
    /// files that say the opposite are changed too, since the last one read wins.
    fn options(&mut self, module: &str, options: &[(&str, &str)], because: &str, risk: &str) {
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
            let add: Vec<&str> = add.iter().map(String::as_str).collect();
            let remove: Vec<&str> = on_command_line.iter().map(String::as_str).collect();
            return self.kernel_arguments(&add, &remove, because, risk);
        }
        self.without_opposites(module, options, because);
        let before = self.text_of(OPTIONS_FILE);
        let after = with_options(before.as_deref().unwrap_or(""), module, options);
        if before.as_deref() == Some(&after) {
            return self.reload(module, because);
        }
        self.write(
            OPTIONS_FILE,
            before,
            after,
            format!("give {module} its options"),
            because,
            risk,
        );
        self.reload(module, because);
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

    /// Several steps may touch one file: they become one.
    fn write(
        &mut self,
        path: &str,
        before: Option<String>,
        after: String,
        title: String,
        because: &str,
        risk: &str,
    ) {
        let earlier = self.steps.iter_mut().find(
            |step| matches!(&step.action, Action::Write { path: written, .. } if written == path),
        );
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
            is_optional: false,
        });
    }

    fn without_opposites(&mut self, module: &str, options: &[(&str, &str)], because: &str) {
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
                );
            }
        }
    }

    fn reload(&mut self, module: &str, because: &str) {
        let id = format!("reload-{module}");
        if self.steps.iter().any(|step| step.id == id) {
            return;
        }
        let running = self.facts.vms.get().map_or(0, Vec::len);
        // kvm keeps what its vendor half cleared, so both go. One that is built in stays.
        let both = match self.facts.module("kvm").get().is_some_and(|kvm| kvm.is_builtin) {
            true => module.to_owned(),
            false => format!("{module} kvm"),
        };
        let instruction = match running {
            0 => format!("modprobe -r {both} && modprobe {module}"),
            count => format!(
                "stop the {}, then modprobe -r {both} && modprobe {module}; or reboot",
                match count {
                    1 => "running virtual machine".to_owned(),
                    _ => format!("{count} running virtual machines"),
                }
            ),
        };
        self.steps.push(Step {
            id,
            title: format!("reload {module}"),
            because: because.into(),
            action: Action::Tell { instruction },
            needs: Needs::ModuleReload,
            risk: "no virtual machine may run".into(),
            is_optional: false,
        });
    }

    fn kernel_arguments(&mut self, add: &[&str], remove: &[&str], because: &str, risk: &str) {
        let add: Vec<&str> = add
            .iter()
            .copied()
            .filter(|word| !self.facts.command_line_words().any(|given| given == *word))
            .collect();
        if add.is_empty() && remove.is_empty() {
            return;
        }
        for action in boot::actions(self.facts, &add, remove) {
            let means = match &action {
                Action::Write { path, .. } => format!(", in {path}"),
                Action::Run { command, .. } => {
                    format!(", with {}", command.first().map_or("", String::as_str))
                }
                Action::Tell { .. } => String::new(),
            };
            let title = [("add", &add[..]), ("remove", remove)]
                .iter()
                .filter(|(_, words)| !words.is_empty())
                .map(|(verb, words)| format!("{verb} {}", words.join(" ")))
                .collect::<Vec<_>>()
                .join(", ");
            self.steps.push(Step {
                id: format!("kernel-arguments-{}", self.steps.len() + 1),
                title: format!("kernel command line: {title}{means}"),
                because: because.into(),
                action,
                needs: Needs::Reboot,
                risk: risk.into(),
                is_optional: false,
            });
        }
    }
}

/// The content of our options file with these options: one line for each module.
fn with_options(text: &str, module: &str, options: &[(&str, &str)]) -> String {
    let mut result: String = text.split_inclusive('\n').collect();
    if result.is_empty() {
        result.push_str("# Written by avicenna enable; avicenna rollback takes it back.\n");
    }
    if !result.ends_with('\n') {
        result.push('\n');
    }
    let result = without_options_where(&result, module, |name, _| {
        options.iter().any(|(other, _)| *other == name)
    });
    let words: Vec<String> =
        options.iter().map(|(name, value)| format!("{name}={value}")).collect();
    format!("{result}options {module} {}\n", words.join(" "))
}

/// A modprobe.d text without options that contradict these. Everything else keeps its form.
fn without_options(text: &str, module: &str, options: &[(&str, &str)]) -> String {
    without_options_where(text, module, |name, value| {
        options.iter().any(|(other, wanted)| *other == name && boolean(value) != boolean(wanted))
    })
}

fn without_options_where(
    text: &str,
    module: &str,
    is_unwanted: impl Fn(&str, &str) -> bool,
) -> String {
    let mut result = String::new();
    for line in text.split_inclusive('\n') {
        let mut words = line.split_whitespace();
        let is_ours = words.next() == Some("options")
            && words.next().is_some_and(|name| name.replace('-', "_") == module);
        let kept: Vec<&str> = words
            .filter(|word| {
                let (name, value) = word.split_once('=').unwrap_or((word, "1"));
                !is_unwanted(name, value)
            })
            .collect();
        let all = line.split_whitespace().count().saturating_sub(2);
        if !is_ours || kept.len() == all {
            result.push_str(line);
        } else if !kept.is_empty() {
            result.push_str(&format!("options {module} {}\n", kept.join(" ")));
        }
    }
    result
}

/// The plan for a host whose findings are not at hand.
pub fn plan_of(facts: &Facts) -> Plan {
    plan(facts, &capability::check(facts))
}
