//! A made-up host as files in a folder.

use std::fs;
use std::path::Path;

/// A host that could have AVIC and has not.
pub const HOST: &[(&str, &str)] = &[
    (
        "proc/cpuinfo",
        "processor\t: 0\nvendor_id\t: AuthenticAMD\ncpu family\t: 25\nmodel\t\t: 17\nmodel name\t: AMD EPYC 9654\n\
         stepping\t: 1\nflags\t\t: svm npt avic x2avic cx16\n",
    ),
    ("proc/sys/kernel/osrelease", "6.12.10\n"),
    ("proc/cmdline", "root=/dev/sda1 quiet amd_iommu_intr=legacy\n"),
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

/// Writes files below a folder, over those that are there.
pub fn write(root: &Path, files: &[(&str, &str)]) {
    for (file, text) in files {
        let file = root.join(file);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, text).unwrap();
    }
}
