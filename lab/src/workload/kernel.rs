//! A kernel of the user's that runs on bare metal, such as a test of kvm-unit-tests.

use super::kind::{Conditions, Workload};
use crate::plan::Needs;
use crate::protocol::{Guest, Step};
use std::path::{Path, PathBuf};

/// The word that users write before it.
pub(super) const WORD: &str = "kernel";

/// A file of this machine, and the words that it is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kernel {
    file: PathBuf,
    words: String,
}

impl Kernel {
    /// From `FILE WORDS…`, or why not.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let text = text.trim();
        let (file, words) = text.split_once(' ').unwrap_or((text, ""));
        if !Path::new(file).is_file() {
            return Err(format!(
                "{WORD} {file}: there is no such file: a kernel for bare metal, such as \
                 x86/vmexit.flat in a built tree of kvm-unit-tests, and the words it is told"
            ));
        }
        Ok(Self { file: file.into(), words: words.trim().to_owned() })
    }

    /// What stands for any in steps that were stored.
    pub(super) const fn none() -> Self {
        Self { file: PathBuf::new(), words: String::new() }
    }
}

impl Workload for Kernel {
    fn name(&self) -> &'static str {
        WORD
    }

    fn summary(&self) -> &'static str {
        "a kernel of this machine for bare metal"
    }

    fn title(&self) -> String {
        format!("{WORD} {} {}", self.file.display(), self.words).trim_end().to_owned()
    }

    fn needs(&self) -> Needs {
        Needs { image: Some(self.file.clone()), ..Needs::default() }
    }

    fn steps(&self, conditions: &Conditions<'_>) -> Vec<Step> {
        let modes = [("xAPIC", false), ("x2APIC", true)].into_iter();
        let steps = modes.flat_map(|(name, has_x2apic)| {
            let guest = Guest::Kernel(self.words.clone());
            let step = conditions.step(WORD, name, has_x2apic, guest);
            [Step { is_traced: false, ..step.clone() }, step]
        });
        steps.collect()
    }
}
