//! The kernel's file systems.

use anyhow::Context;
use rustix::mount::{MountFlags, mount};
use std::ffi::CStr;

/// What is needed to find out who we are. Fails where this process may not mount, and then is not
/// the first of a machine.
pub(crate) fn early() -> rustix::io::Result<()> {
    if std::path::Path::new("/proc/self").exists() {
        return Ok(());
    }
    mount("proc", "/proc", "proc", MountFlags::empty(), None)
}

/// The rest. One that is not there is missed by the program that needs it.
pub(crate) fn late() {
    mount_all("", &LATE);
}

/// The usual ones in a folder that becomes the root.
pub(crate) fn in_root(root: &str) {
    mount_all(root, &[("proc", "/proc")]);
    mount_all(root, &LATE);
}

/// What pseudo-terminals are made in, where it is not there yet.
pub(crate) fn terminals() {
    if !std::path::Path::new("/dev/pts/ptmx").exists() {
        mount_all("", &[("devpts", "/dev/pts")]);
    }
}

/// A shared folder: pages of files are kept only where a program has mapped them, so that a change
/// on either side is seen on the other. [LINUX "v9fs: Plan 9 Resource Sharing for Linux"]
const OF_FOLDERS: &CStr = c"trans=virtio,version=9p2000.L,msize=262144,cache=mmap";

/// Mounts the shared folder with this tag.
pub(crate) fn folder(tag: &str, place: &str) -> anyhow::Result<()> {
    std::fs::create_dir_all(place).with_context(|| format!("cannot make the folder {place}"))?;
    mount(tag, place, "9p", MountFlags::empty(), OF_FOLDERS)
        .with_context(|| format!("cannot mount a shared folder at {place}"))
}

const LATE: [(&str, &str); 7] = [
    ("sysfs", "/sys"),
    ("devtmpfs", "/dev"),
    ("tmpfs", "/dev/shm"),
    ("tmpfs", "/tmp"),
    ("tmpfs", "/run"),
    ("debugfs", "/sys/kernel/debug"),
    ("tracefs", "/sys/kernel/tracing"),
];

fn mount_all(root: &str, all: &[(&str, &str)]) {
    for (kind, place) in all {
        let place = format!("{root}{place}");
        let _ = std::fs::create_dir_all(&place);
        let _ = mount(*kind, &place, *kind, MountFlags::empty(), None);
    }
}
