//! A folder with a made-up host and configurations, gone at the end of a test.

use crate::made_up;
use std::fs;
use std::path::PathBuf;

/// A machine that runs on it.
const MACHINE: (&str, &str) = (
    "proc/4711/cmdline",
    "/usr/bin/qemu-system-x86_64\0-name\0guest=web\0-accel\0kvm\0-machine\0q35\0",
);

/// The files of the host.
pub fn host() -> Vec<(&'static str, &'static str)> {
    made_up::HOST.iter().copied().chain([MACHINE]).collect()
}

/// A configuration that keeps AVIC off.
pub const BAD: &str = "qemu-system-x86_64 -enable-kvm -machine q35 -m 64\n";

/// The host in `host`, two such configurations beside it.
pub struct Scene(pub tempfile::TempDir);

impl Scene {
    pub fn new() -> Scene {
        let scene = Scene(tempfile::tempdir().unwrap());
        made_up::write(&scene.at("host"), &host());
        fs::write(scene.at("bad.sh"), BAD).unwrap();
        fs::write(scene.at("worse.sh"), BAD).unwrap();
        scene
    }

    pub fn at(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    pub fn read(&self, name: &str) -> String {
        fs::read_to_string(self.at(name)).unwrap_or_default()
    }
}
