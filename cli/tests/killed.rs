//! A verb that changes files is killed at any moment: each file is then as it was or as it was to
//! become, and what was recorded takes the rest back.
//!
//! `AVICENNA_KILLS` says how often, 8 times each if it is not set.

mod made_up;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Further files, so that a change has several steps.
const FILES: [(&str, &str); 2] = [
    ("etc/default/grub.d/50.cfg", "GRUB_CMDLINE_LINUX=\"amd_iommu_intr=legacy\"\n"),
    ("etc/pve/qemu-server/101.conf", "cores: 4\nmachine: q35\nname: web\nostype: l26\n"),
];

fn kills() -> u32 {
    std::env::var("AVICENNA_KILLS").ok().and_then(|text| text.parse().ok()).unwrap_or(8)
}

fn host() -> TempDir {
    let root = tempfile::tempdir().unwrap();
    made_up::write(root.path(), made_up::HOST);
    made_up::write(root.path(), &FILES);
    root
}

/// All files of the host's own folders with what is in them, but for records of changes.
fn files(root: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap().flatten() {
            let path = entry.path();
            let name = path.strip_prefix(root).unwrap().display().to_string();
            if path.is_dir() {
                folders.push(path);
            } else if !name.starts_with("var/") {
                found.insert(name, fs::read(path).unwrap());
            }
        }
    }
    found
}

fn start(arguments: &[&str], root: &Path) -> Child {
    let mut command = Command::new(env!("CARGO_BIN_EXE_avicenna"));
    command.args(arguments).current_dir(root);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
}

/// Runs to its end, and how long that takes.
fn whole(arguments: &[&str], root: &Path) -> Duration {
    let start_of_it = Instant::now();
    start(arguments, root).wait().unwrap();
    start_of_it.elapsed()
}

/// Runs and is killed after a part of the time that it takes; every part comes once, in no order.
fn killed(arguments: &[&str], root: &Path, time: Duration, number: u32) {
    let mut child = start(arguments, root);
    std::thread::sleep(time * (number * 37 % 101) / 100);
    // It may have ended.
    let _ = child.kill();
    child.wait().unwrap();
}

fn assert_old_or_new(
    found: &BTreeMap<String, Vec<u8>>,
    old: &BTreeMap<String, Vec<u8>>,
    new: &BTreeMap<String, Vec<u8>>,
) {
    for (name, bytes) in found {
        let is_old = old.get(name) == Some(bytes);
        let text = String::from_utf8_lossy(bytes);
        assert!(is_old || new.get(name) == Some(bytes), "{name} is neither old nor new: {text}");
    }
    assert!(old.keys().all(|name| found.contains_key(name)), "a file is gone: {found:?}");
}

#[test]
fn a_killed_change_leaves_files_old_or_new_and_can_be_taken_back() {
    let apply = ["enable", "--apply", "--yes", "--include", "all", "--root", "."];
    let back = ["rollback", "--yes", "--root", "."];
    let root = host();
    let old = files(root.path());
    let time = whole(&apply, root.path());
    let new = files(root.path());
    assert!(new.len() > old.len() || new != old, "nothing is changed");
    whole(&back, root.path());
    assert_eq!(files(root.path()), old, "what is not killed is taken back");
    let mut changed = 0;
    for number in 0..kills() {
        let root = host();
        killed(&apply, root.path(), time, number);
        let found = files(root.path());
        assert_old_or_new(&found, &old, &new);
        changed += usize::from(found != old);
        whole(&back, root.path());
        assert_eq!(files(root.path()), old, "killed at moment {number}");
    }
    println!("{} killed, {changed} of them after the first change", kills());
}

#[test]
fn a_killed_repair_leaves_a_file_old_or_new() {
    let script: String = (0..400)
        .map(|number| format!("qemu-system-x86_64 -enable-kvm -name vm{number} -m 2G &\n"))
        .collect();
    let root = tempfile::tempdir().unwrap();
    let file = root.path().join("start.sh");
    let repair = ["lint", "--fix", "--target", "amd", "start.sh"];
    fs::write(&file, &script).unwrap();
    let old = files(root.path());
    let time = whole(&repair, root.path());
    let new = files(root.path());
    assert_ne!(old, new);
    for number in 0..kills() {
        fs::write(&file, &script).unwrap();
        killed(&repair, root.path(), time, number);
        assert_old_or_new(&files(root.path()), &old, &new);
    }
}
