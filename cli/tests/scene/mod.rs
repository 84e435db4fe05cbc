//! A folder with a made-up host and configurations, gone at the end of a test.

use std::fs;
use std::path::PathBuf;

/// A host that could have AVIC and has not.
pub const HOST: &[(&str, &str)] = &[
    (
        "proc/cpuinfo",
        "processor\t: 0\nvendor_id\t: AuthenticAMD\ncpu family\t: 25\nmodel\t\t: 17\nmodel name\t: AMD EPYC 9654\n\
         stepping\t: 1\nflags\t\t: svm npt avic x2avic cx16\n",
    ),
    ("proc/sys/kernel/osrelease", "6.12.10\n"),
    ("proc/cmdline", "root=/dev/sda1 quiet amd_iommu_intr=legacy\n"),
    (
        "proc/4711/cmdline",
        "/usr/bin/qemu-system-x86_64\0-name\0guest=web\0-accel\0kvm\0-machine\0q35\0",
    ),
    ("etc/default/grub", "GRUB_CMDLINE_LINUX_DEFAULT=\"quiet amd_iommu_intr=legacy\"\n"),
    ("etc/modprobe.d/kvm.conf", "options kvm_amd avic=0 nested=1\n"),
    ("usr/sbin/update-grub", "#!/bin/sh\n"),
    ("sys/module/kvm/refcnt", "1\n"),
    ("sys/module/kvm_amd/initstate", "live\n"),
    ("sys/module/kvm_amd/refcnt", "0\n"),
    ("sys/module/kvm_amd/parameters/avic", "N\n"),
    ("sys/module/kvm_amd/parameters/npt", "Y\n"),
    ("sys/class/iommu/ivhd0/amd-iommu/features", "25bf732fa2295afe:1d\n"),
];

/// A configuration that keeps AVIC off.
pub const BAD: &str = "qemu-system-x86_64 -enable-kvm -machine q35 -m 64\n";

/// The host in `host`, two such configurations beside it.
pub struct Scene(pub tempfile::TempDir);

impl Scene {
    pub fn new() -> Scene {
        let scene = Scene(tempfile::tempdir().unwrap());
        for (file, text) in HOST {
            let file = scene.at("host").join(file);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, text).unwrap();
        }
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
