//! Which virtual machines, who manages them, and how they are reached.

use super::super::program::is_program;
use ::experiment::place::{Remark, Weight};
use ::experiment::plan::{HostSetup, Plan};
use facts::source;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// No file of sysfs or procfs that is read here has more: /proc/interrupts of 1,024 processors has
/// half of it.
const MOST_BYTES: u64 = 16 << 20;

/// Who starts and stops virtual machines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum ManagerName {
    /// Through virsh
    #[default]
    Libvirt,
    /// A script of yours that starts QEMU with the arguments it is given
    Qemu,
    /// Through its API's socket, whose path is the machine's name
    CloudHypervisor,
    /// Through commands of yours
    Firecracker,
}

impl ManagerName {
    const NAMES: [(Self, &'static str); 4] = [
        (Self::Libvirt, "libvirt"),
        (Self::Qemu, "qemu"),
        (Self::CloudHypervisor, "cloud-hypervisor"),
        (Self::Firecracker, "firecracker"),
    ];
}

#[derive(clap::Args, Clone, Debug, Default)]
pub struct Options {
    /// On a host: a virtual machine by its name, or by the path of its API's socket; several if the
    /// plan takes several
    #[arg(long = "vm", value_name = "VM")]
    pub vms: Vec<String>,
    /// On a host: what manages them
    #[arg(long, value_enum, default_value_t)]
    pub manager: ManagerName,
    /// On a host: a shell's command that starts a machine (plain QEMU, Firecracker); it gets the
    /// machine's name as $VM, and for QEMU more arguments as $ARGUMENTS
    #[arg(long, value_name = "COMMAND")]
    pub start: Option<String>,
    /// On a host: a shell's command that stops it
    #[arg(long, value_name = "COMMAND")]
    pub stop: Option<String>,
    /// On a host: reach guests by ssh: the target, in which %VM stands for the machine
    #[arg(long, value_name = "TARGET", conflicts_with = "serial")]
    pub ssh: Option<String>,
    /// On a host: reach guests by a shell on a serial line: its socket, in which %VM stands for the
    /// machine
    #[arg(long, value_name = "SOCKET")]
    pub serial: Option<String>,
    /// The host's files are below this folder: for tests
    #[arg(long, value_name = "DIR", hide = true)]
    pub root: Option<PathBuf>,
}

impl Options {
    /// As the journal keeps them.
    pub fn to_map(&self) -> BTreeMap<String, String> {
        let manager = ManagerName::NAMES.iter().find(|(one, _)| *one == self.manager);
        let root = self.root.as_ref().map(|root| root.display().to_string());
        [
            ("vms", (!self.vms.is_empty()).then(|| self.vms.join("\n"))),
            ("manager", manager.map(|(_, name)| (*name).to_owned())),
            ("start", self.start.clone()),
            ("stop", self.stop.clone()),
            ("ssh", self.ssh.clone()),
            ("serial", self.serial.clone()),
            ("root", root),
        ]
        .into_iter()
        .filter_map(|(name, value)| Some((name.to_owned(), value?)))
        .collect()
    }

    pub fn from_map(map: &BTreeMap<String, String>) -> Self {
        let text = |name: &str| map.get(name).cloned();
        let manager = text("manager").unwrap_or_default();
        let manager = ManagerName::NAMES.iter().find(|(_, name)| *name == manager);
        Self {
            vms: text("vms")
                .map(|vms| vms.lines().map(str::to_owned).collect())
                .unwrap_or_default(),
            manager: manager.map(|(one, _)| *one).unwrap_or_default(),
            start: text("start"),
            stop: text("stop"),
            ssh: text("ssh"),
            serial: text("serial"),
            root: text("root").map(PathBuf::from),
        }
    }

    /// A file of the host's.
    pub fn file(&self, path: &str) -> PathBuf {
        let root = self.root.as_deref().unwrap_or(Path::new("/"));
        root.join(path.trim_start_matches('/'))
    }

    /// The text of a file of sysfs or procfs.
    pub fn text(&self, path: &str) -> Result<String, source::Error> {
        source::read_text(&self.file(path), MOST_BYTES)
    }

    /// What is missing.
    pub fn check(&self, plan: &Plan, setup: &HostSetup) -> Vec<Remark> {
        let mut remarks = Vec::new();
        let mut block = |cause: String, remedy: &str| {
            remarks.push(Remark::new(Weight::Blocks, cause, remedy));
        };
        let guests = plan.factors.iter().filter(|one| one.kind == "guests");
        let guests = guests.flat_map(|one| &one.levels).filter_map(|level| level.parse().ok());
        let needed = guests.chain([setup.guests]).max().unwrap_or(1);
        if self.vms.len() < needed {
            let cause = format!(
                "the plan takes {needed} virtual machines, and {} are named",
                self.vms.len()
            );
            block(cause, "name each by --vm");
        }
        let is_reached_by_agent = self.ssh.is_none() && self.serial.is_none();
        if setup.is_in_guest && is_reached_by_agent && self.manager != ManagerName::Libvirt {
            block(
                "there is no way into the guest".into(),
                "give --ssh TARGET or --serial SOCKET; the guest agent is libvirt's",
            );
        }
        let own = if setup.is_in_guest { &[][..] } else { &setup.needs[..] };
        for name in own.iter().filter(|name| !is_program(name)) {
            block(format!("the program {name} is not on this host"), "install it");
        }
        for (name, is_needed) in
            [("ssh", self.ssh.is_some()), ("virsh", self.manager == ManagerName::Libvirt)]
        {
            if is_needed && !is_program(name) {
                block(format!("{name} is not on this host"), "install it");
            }
        }
        remarks
    }
}
