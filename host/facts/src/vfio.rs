//! Which PCI functions a process has through vfio, by the files that it has open.
//!
//! A group (`/dev/vfio/12`) stands for all functions of the IOMMU group that a driver of vfio has,
//! a device of its own (`/dev/vfio/devices/vfio3`) for one. From 6.18 on the kernel also says it of
//! the descriptor that a group hands out, which is not needed here.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// Most files of a process, and functions of a group, that are looked at.
const ENTRIES_LIMIT: usize = 20_000;

/// Addresses such as `0000:3b:00.1`; `None` where the process may not be looked into.
pub fn functions(root: &Path, pid: &str) -> Option<BTreeSet<String>> {
    let files = fs::read_dir(root.join("proc").join(pid).join("fd")).ok()?;
    let targets = files
        .flatten()
        .take(ENTRIES_LIMIT)
        .filter_map(|file| fs::read_link(file.path()).ok()?.into_os_string().into_string().ok());
    Some(targets.flat_map(|target| of_file(root, &target)).collect())
}

/// What an open file gives.
fn of_file(root: &Path, target: &str) -> Vec<String> {
    if let Some(device) = target.strip_prefix("/dev/vfio/devices/") {
        let device = root.join("sys/class/vfio-dev").join(device).join("device");
        let function = fs::canonicalize(device).ok();
        let name = function.and_then(|path| Some(path.file_name()?.to_str()?.to_owned()));
        return name.into_iter().collect();
    }
    let Some(group) = target.strip_prefix("/dev/vfio/").filter(|group| is_number(group)) else {
        return vec![];
    };
    let functions = root.join("sys/kernel/iommu_groups").join(group).join("devices");
    let entries = fs::read_dir(functions).into_iter().flatten().flatten().take(ENTRIES_LIMIT);
    let is_given = |name: &String| {
        let driver = root.join("sys/bus/pci/devices").join(name).join("driver");
        // A bridge of the group keeps its own driver, or has none.
        fs::read_link(driver).is_ok_and(|driver| {
            driver.file_name().is_some_and(|name| name.to_string_lossy().contains("vfio"))
        })
    };
    entries.filter_map(|entry| entry.file_name().into_string().ok()).filter(is_given).collect()
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn groups_and_devices_lead_to_the_functions_that_vfio_drives() {
        let root = tempfile::tempdir().expect("a writable folder");
        let at = |path: &str| root.path().join(path);
        let link = |target: &str, path: &str| {
            fs::create_dir_all(at(path).parent().expect("a folder")).expect("a writable folder");
            symlink(target, at(path)).expect("a new link");
        };
        for (address, driver) in
            [("0000:3b:00.0", "pcieport"), ("0000:3b:00.1", "vfio-pci"), ("0000:3b:00.2", "ice")]
        {
            link("../../x", &format!("sys/kernel/iommu_groups/12/devices/{address}"));
            link(
                &format!("../../../bus/pci/drivers/{driver}"),
                &format!("sys/bus/pci/devices/{address}/driver"),
            );
        }
        fs::create_dir_all(at("sys/devices/0000:01:00.0")).expect("a writable folder");
        link("../../../devices/0000:01:00.0", "sys/class/vfio-dev/vfio3/device");
        for (number, target) in
            ["/dev/vfio/vfio", "/dev/vfio/12", "/dev/vfio/devices/vfio3", "anon_inode:kvm-vm"]
                .iter()
                .enumerate()
        {
            link(target, &format!("proc/7/fd/{number}"));
        }
        let found = functions(root.path(), "7").expect("a readable process");
        assert_eq!(found, BTreeSet::from(["0000:01:00.0", "0000:3b:00.1"].map(String::from)));
        assert_eq!(functions(root.path(), "8"), None);
    }
}
