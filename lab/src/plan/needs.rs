//! What a workload needs of the host that it runs on.

/// Of the emulated host and of the guests' initial RAM disk.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Needs {
    /// Modules of the host besides KVM's.
    pub modules: &'static [&'static str],
    /// Parameters of modules, `MODULE.NAME=VALUE`, where the user has not chosen others.
    pub parameters: &'static [&'static str],
    /// What guests are given of the host, for which it has to have an IOMMU.
    pub function: Option<Function>,
    /// None where the built-in benchmark is the guest.
    pub linux: Option<LinuxGuest>,
    /// A file of this machine that is the guest's kernel, for bare metal.
    pub image: Option<std::path::PathBuf>,
}

/// A function of the host that a guest is given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Function {
    /// The one for measuring interrupts.
    Pulse,
    /// One of two network functions with a wire between.
    Wire,
}

/// The kernel of the host as a guest, with this program as its first process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LinuxGuest {
    /// Modules of the host's kernel that the guest has.
    pub modules: &'static [&'static str],
    /// A program of this machine, or of the root, with its arguments.
    pub command: Option<String>,
    /// A folder that is the guest's root.
    pub root: Option<std::path::PathBuf>,
    /// Bytes of its files.
    pub root_bytes: u64,
}
