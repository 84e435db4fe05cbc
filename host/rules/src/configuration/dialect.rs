//! One syntax: how it is recognized, read, and changed. The reader and the fixer of a syntax are a
//! pair in one folder, and the text is parsed once for both.

pub mod cloud_hypervisor;
pub mod command_line;
pub mod firecracker;
pub mod kubevirt;
pub mod libvirt_log;
pub mod libvirt_xml;
pub mod module_options;
pub mod proxmox;
pub mod readconfig;

use super::change::{MachineChange, ParameterChange};
use super::edit::Edit;
use super::input::{Hints, InputError, Kind, ModuleOption};
use crate::position::Lines;
use crate::vm::VmConfiguration;
use std::fmt::Debug;

/// A syntax. Those that are known stand in `registry.rs`.
pub trait Dialect: Sync {
    /// What inputs of it are called.
    fn kind(&self) -> Kind;

    /// Whether a text that none of the dialects before it knows is one of this syntax.
    fn recognizes(&self, text: &str) -> bool;

    /// Reads a whole input.
    fn read<'t>(
        &self,
        file: &str,
        lines: &Lines<'t>,
        hints: &Hints,
    ) -> Result<Contents<'t>, InputError>;
}

/// The parsed text of machines.
pub trait MachineText: Debug {
    /// Edits that make a change in the text of a machine, which is counted in the order in which
    /// they were read; `None` where this syntax cannot say it.
    fn edits(&self, machine: usize, change: &MachineChange) -> Option<Vec<Edit>>;
}

/// The parsed text of a host's parameters.
pub trait ParameterText: Debug {
    /// Edits that make a change; `None` where the text cannot take it.
    fn edits(&self, change: &ParameterChange) -> Option<Vec<Edit>>;
}

/// What an input holds.
#[derive(Debug)]
pub struct Contents<'t> {
    /// As which kind the input was read.
    pub kind: Kind,
    /// In the order of the text; empty for a host's parameters.
    pub vms: Vec<VmConfiguration>,
    /// Parameters of modules and of the kernel; empty for machines.
    pub options: Vec<ModuleOption>,
    /// The text that was read.
    pub lines: Lines<'t>,
    text: Text<'t>,
}

#[derive(Debug)]
enum Text<'t> {
    /// What was, and not what will be: a log, a running process; or a syntax without the settings
    /// that matter.
    Fixed,
    Machines(Box<dyn MachineText + 't>),
    Parameters(Box<dyn ParameterText + 't>),
}

impl<'t> Contents<'t> {
    fn new(kind: Kind, lines: &Lines<'t>, vms: Vec<VmConfiguration>, text: Text<'t>) -> Self {
        Self { kind, vms, options: Vec::new(), lines: lines.clone(), text }
    }

    /// Machines whose text is not to be changed.
    pub(crate) fn fixed(kind: Kind, lines: &Lines<'t>, vms: Vec<VmConfiguration>) -> Self {
        Self::new(kind, lines, vms, Text::Fixed)
    }

    /// Machines, and their text.
    pub(crate) fn machines(
        kind: Kind,
        lines: &Lines<'t>,
        vms: Vec<VmConfiguration>,
        text: impl MachineText + 't,
    ) -> Self {
        Self::new(kind, lines, vms, Text::Machines(Box::new(text)))
    }

    /// A host's parameters, and their text.
    pub(crate) fn parameters(
        kind: Kind,
        lines: &Lines<'t>,
        options: Vec<ModuleOption>,
        text: impl ParameterText + 't,
    ) -> Self {
        Self { options, ..Self::new(kind, lines, Vec::new(), Text::Parameters(Box::new(text))) }
    }

    /// Edits that make a change in a machine's text; empty where this input cannot take it.
    pub fn machine_edits(&self, machine: usize, change: &MachineChange) -> Vec<Edit> {
        match &self.text {
            Text::Machines(text) => text.edits(machine, change).unwrap_or_default(),
            Text::Parameters(_) | Text::Fixed => Vec::new(),
        }
    }

    /// Edits that make a change in a host's parameters; empty where this input cannot take it.
    pub fn parameter_edits(&self, change: &ParameterChange) -> Vec<Edit> {
        match &self.text {
            Text::Parameters(text) => text.edits(change).unwrap_or_default(),
            Text::Machines(_) | Text::Fixed => Vec::new(),
        }
    }
}
