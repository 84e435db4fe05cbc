//! The initial RAM disk of the running kernel, as far as it loads KVM's modules: a module that is
//! loaded from it gets the options that were copied into it when it was made.

use crate::fact::Fact;
use crate::host::ConfigurationFile;
use std::collections::BTreeSet;

/// An initial RAM disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InitialDisk {
    /// A file of modprobe.d that was changed after the disk was made.
    pub older_than: Option<String>,
    /// KVM's modules that are in it, with underscores.
    pub modules: Fact<BTreeSet<String>>,
    /// Its files of modprobe.d that name KVM, in the order in which modprobe reads them.
    pub files: Fact<Vec<ConfigurationFile>>,
}

impl InitialDisk {
    /// Whether it loads a module; `None` where it could not be read.
    pub fn has(&self, module: &str) -> Option<bool> {
        self.modules.get().map(|modules| modules.contains(module))
    }
}
