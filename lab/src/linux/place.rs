//! Where the initial RAM disks of hosts and guests have what.

/// Where the initial RAM disk has kernel modules, in the order in which they are loaded.
pub(crate) const MODULES: &str = "/lib/modules-in-order";
/// Where it has parameters for them.
pub(crate) const PARAMETERS: &str = "/lib/module-parameters";
/// Where it has what the machine's times rest on, as JSON.
pub(crate) const COSTS: &str = "/lib/avicenna-costs.json";
/// Where it has a Linux guest.
pub(crate) const GUEST_KERNEL: &str = "/guest/vmlinuz";
pub(crate) const GUEST_INITRD: &str = "/guest/initrd";
/// Where it has a kernel for bare metal.
pub(crate) const GUEST_IMAGE: &str = "/guest/image";
/// Where it has the command of a guest, and the folder that is the command's root, if there is one.
pub(crate) const GUEST_COMMAND: &str = "/command";
pub(crate) const GUEST_ROOT: &str = "/root-of-command";
/// The word that makes this program the first process of a guest; a workload follows.
pub(crate) const GUEST_COMMAND_LINE: &str = "avicenna.guest=";
/// A word there: begin with the others.
pub(crate) const TOGETHER: &str = "avicenna.together";
/// What an interactive lab runs.
pub(crate) const SHELL: &str = "/bin/sh";
