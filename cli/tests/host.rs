//! The operators' verbs as a person runs them, on a made-up host in a folder.

mod made_up;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// A folder that looks like a host's root, gone at the end.
struct Root(PathBuf);

/// What it has over the common host: comments and settings that stay, a machine, another process.
const FILES: &[(&str, &str)] = &[
    ("proc/interrupts", "           CPU0\n PIN:   0   Posted-interrupt notification event\n"),
    (
        "proc/4711/cmdline",
        "/usr/bin/qemu-system-x86_64\0-name\0guest=web\0-accel\0kvm\0-machine\0q35\0-uuid\0\
         12345678-1234-1234-1234-123456789abc\0-device\0virtio-net,mac=52:54:00:12:34:56\0",
    ),
    ("proc/4712/cmdline", "/bin/secret-program\0--token\0hunter2\0"),
    (
        "etc/default/grub",
        "GRUB_TIMEOUT=5\nGRUB_CMDLINE_LINUX_DEFAULT=\"quiet amd_iommu_intr=legacy\"\n",
    ),
    ("etc/modprobe.d/kvm.conf", "# mine\noptions kvm_amd avic=0 nested=1\n"),
];

impl Root {
    fn new(name: &str) -> Root {
        let path = std::env::temp_dir().join(format!("avicenna-cli-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        made_up::write(&path, made_up::HOST);
        made_up::write(&path, FILES);
        Root(path)
    }

    fn put(&self, file: &str, text: &str) {
        fs::write(self.0.join(file), text).unwrap();
    }

    /// Everything below etc.
    fn settings(&self) -> BTreeMap<PathBuf, String> {
        fn walk(folder: &Path, found: &mut BTreeMap<PathBuf, String>) {
            for entry in fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    walk(&path, found);
                } else {
                    found.insert(path.clone(), fs::read_to_string(&path).unwrap());
                }
            }
        }
        let mut found = BTreeMap::new();
        walk(&self.0.join("etc"), &mut found);
        found
    }
}

impl Drop for Root {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn avicenna(arguments: &[&str], root: &Path) -> Output {
    let root = root.to_str().unwrap();
    Command::new(env!("CARGO_BIN_EXE_avicenna"))
        .args(arguments)
        .args(["--root", root])
        .output()
        .unwrap()
}

fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

#[test]
fn check_says_what_is_off_and_why_without_colour_and_in_whole_lines() {
    let root = Root::new("check");
    for arguments in [&["check"][..], &["check", "-v"], &["why"], &["enable"]] {
        let output = avicenna(arguments, &root.0);
        let text = stdout(&output);
        assert_eq!(output.status.code(), Some(1), "{arguments:?}: {text}");
        assert!(!text.contains('\x1b'), "{arguments:?}");
    }
    let text = stdout(&avicenna(&["check"], &root.0));
    let change = text.lines().find(|line| line.starts_with("Change: ")).unwrap();
    assert!(change.contains("avic=1") && change.contains("amd_iommu_intr=legacy"), "{change}");
    assert!(change.contains("(costs: reboot)"), "once for both: {change}");
    assert!(text.contains("the option avic is given as off"), "{text}");
    assert!(text.contains("amd_iommu_intr=legacy is given"), "{text}");
}

#[test]
fn exit_status_says_clean_findings_usage_or_cannot_tell() {
    let root = Root::new("status");
    assert_eq!(avicenna(&["check"], &root.0).status.code(), Some(1));
    root.put("sys/module/kvm_amd/parameters/avic", "Y");
    root.put("proc/cmdline", "quiet");
    let clean = avicenna(&["check"], &root.0);
    assert_eq!(clean.status.code(), Some(0), "{}", stdout(&clean));
    let nothing = root.0.join("usr");
    assert_eq!(avicenna(&["check"], &nothing).status.code(), Some(3));
    assert_eq!(avicenna(&["check"], Path::new("/nonexistent")).status.code(), Some(3));
    assert_eq!(avicenna(&["check", "--format", "x"], &root.0).status.code(), Some(2));
}

#[test]
fn snapshot_gives_the_same_answers_and_none_of_the_secrets() {
    let root = Root::new("snapshot");
    for (path, text) in MACHINES {
        fs::create_dir_all(root.0.join(path).parent().unwrap()).unwrap();
        root.put(path, text);
    }
    let shown = stdout(&avicenna(&["snapshot", "--show"], &root.0));
    let file = root.0.join("s.tar.zst");
    let made = avicenna(&["snapshot", "-o", file.to_str().unwrap()], &root.0);
    assert!(made.status.success(), "{made:?}");
    let again = avicenna(&["snapshot", "-o", file.to_str().unwrap()], &root.0);
    assert!(!again.status.success(), "an existing file is not replaced unasked");

    for arguments in [
        &["check", "--format", "json"][..],
        &["why", "--format", "json"],
        &["enable", "--format", "json"],
    ] {
        let of = |root: &Path| {
            let mut value: serde_json::Value =
                serde_json::from_str(&stdout(&avicenna(arguments, root))).unwrap();
            value.as_object_mut().unwrap().remove("origin");
            serde_json::to_string_pretty(&value).unwrap()
        };
        assert_same_but_for_names(&of(&root.0), &of(&file));
    }
    let lint = |path: &Path| {
        let words = ["lint", "--format", "json"];
        let mut command = Command::new(env!("CARGO_BIN_EXE_avicenna"));
        let output = command.args(words).arg(path).output().unwrap();
        stdout(&output).replace(path.to_str().unwrap(), "HOST")
    };
    let (folder, snapshot) = (lint(&root.0), lint(&file));
    assert!(folder.contains("AV001") && folder.contains("web.xml"), "{folder}");
    assert_same_but_for_names(&folder, &snapshot);
    let unpacked = zstd::decode_all(fs::File::open(&file).unwrap()).unwrap();
    let text = String::from_utf8_lossy(&unpacked);
    for secret in [
        "12345678-1234",
        "52:54:00",
        "hunter2",
        "secret-program",
        "web",
        "acme",
        "2001:db8",
        "4711-4",
    ] {
        assert!(!text.contains(secret), "{secret} is in the snapshot");
        assert!(!shown.contains(secret), "{secret} is in the listing");
    }
    assert!(shown.contains("==> etc/modprobe.d/kvm.conf ("), "{shown}");
    use std::os::unix::fs::PermissionsExt;
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
}

/// Machines in every form, with names that lead from one to another.
const MACHINES: &[(&str, &str)] = &[
    (
        "etc/libvirt/qemu/web.xml",
        "<domain type='kvm'>\n  <name>web</name>\n  <description>acme 4711-4711</description>\n  <os>\n    \
         <type arch='x86_64' machine='pc-q35-8.2'>hvm</type>\n  </os>\n  <clock offset='utc'>\n    \
         <timer name='pit' tickpolicy='delay'/>\n  </clock>\n  <devices>\n    <graphics passwd='hunter2'/>\n    \
         <hostdev><source><address domain='0x0000' bus='0xc1' slot='0x00' function='0x0'/></source></hostdev>\n  \
         </devices>\n</domain>\n",
    ),
    (
        "var/log/libvirt/qemu/web.log",
        "2024-05-01 12:00:00.000+0000: starting up libvirt version: 9.0.0, qemu version: 8.2.0, kernel: \
         6.12.10-acme, hostname: acme\nLC_ALL=C \\\nHOME=/var/lib/acme \\\n/usr/bin/qemu-system-x86_64 \\\n\
         -name guest=web \\\n-accel kvm \\\n-machine q35 \\\n-vnc '[2001:db8::1]:1'\n",
    ),
    (
        "etc/pve/qemu-server/100.conf",
        "# acme\nname: web\nmachine: q35\nhostpci0: 0000:c1:00.0,pcie=1\nargs: -global kvm-pit.lost_tick_policy=delay\n",
    ),
];

/// Texts that differ in words alone, each of which stands for the same word everywhere.
fn assert_same_but_for_names(one: &str, other: &str) {
    let words = |text: &str| -> Vec<String> {
        let words = text.split(|c: char| !c.is_alphanumeric() && c != '_');
        words.filter(|word| !word.is_empty()).map(str::to_owned).collect()
    };
    let (ones, others) = (words(one), words(other));
    let mut names = BTreeMap::new();
    let mut back = BTreeMap::new();
    for (index, (word, stands)) in ones.iter().zip(&others).enumerate() {
        let around = &ones[index.saturating_sub(8)..(index + 2).min(ones.len())];
        assert_eq!(names.entry(word).or_insert(stands), &stands, "{around:?}");
        // Digits of addresses are few.
        if stands.len() > 3 {
            assert_eq!(back.entry(stands).or_insert(word), &word, "{around:?}");
        }
    }
    assert_eq!(ones.len(), others.len());
}

#[test]
fn enable_applies_verifies_repeats_without_effect_and_rolls_back_exactly() {
    let root = Root::new("enable");
    let before = root.settings();
    assert_eq!(stdout(&avicenna(&["enable"], &root.0)).matches("avicenna.conf").count(), 1);
    assert_eq!(root.settings(), before, "a plan changes nothing");
    assert_eq!(
        avicenna(&["enable", "--apply"], &root.0).status.code(),
        Some(3),
        "standard input is not a terminal"
    );
    assert_eq!(root.settings(), before);

    let applied = avicenna(&["enable", "--apply", "--yes"], &root.0);
    let text = stdout(&applied);
    assert!(applied.status.success() && text.contains("recorded as 1"), "{text}");
    assert!(text.contains("run on the host itself: update-grub"), "{text}");
    let after = root.settings();
    let content = |file: &str| after[&root.0.join(file)].as_str();
    assert_eq!(content("etc/modprobe.d/kvm.conf"), "# mine\noptions kvm_amd nested=1\n");
    assert!(content("etc/modprobe.d/avicenna.conf").contains("options kvm_amd avic=1\n"));
    assert_eq!(
        content("etc/default/grub"),
        "GRUB_TIMEOUT=5\nGRUB_CMDLINE_LINUX_DEFAULT=\"quiet\"\n"
    );

    let repeated = stdout(&avicenna(&["enable", "--apply", "--yes"], &root.0));
    assert!(
        repeated.contains("nothing to apply") || repeated.contains("done already"),
        "{repeated}"
    );
    assert_eq!(root.settings(), after);

    let back = avicenna(&["rollback", "--yes"], &root.0);
    assert!(back.status.success(), "{back:?}");
    assert_eq!(root.settings(), before);
    assert_eq!(avicenna(&["rollback", "--yes"], &root.0).status.code(), Some(3));
}

#[test]
fn definitions_of_machines_are_repaired_on_request_and_restored() {
    let root = Root::new("machines");
    fs::create_dir_all(root.0.join("etc/pve/qemu-server")).unwrap();
    root.put("etc/pve/qemu-server/100.conf", "# web\nmachine: q35\nname: web\ncores: 4\n");
    let before = root.settings();
    let plan = stdout(&avicenna(&["enable"], &root.0));
    assert!(plan.contains("--include vm-100"), "{plan}");
    avicenna(&["enable", "--apply", "--yes"], &root.0);
    assert_eq!(
        root.settings()[&root.0.join("etc/pve/qemu-server/100.conf")],
        before[&root.0.join("etc/pve/qemu-server/100.conf")]
    );
    let applied = avicenna(&["enable", "--apply", "--yes", "--include", "vm-100"], &root.0);
    assert!(applied.status.success(), "{applied:?}");
    let repaired = &root.settings()[&root.0.join("etc/pve/qemu-server/100.conf")];
    assert!(repaired.contains("lost_tick_policy=discard"), "{repaired}");
    for _ in 0..2 {
        assert!(avicenna(&["rollback", "--yes"], &root.0).status.success());
    }
    assert_eq!(root.settings(), before);
}

#[test]
fn domain_of_libvirt_is_repaired_defined_and_restored() {
    let root = Root::new("domain");
    let domain = "etc/libvirt/qemu/web.xml";
    fs::create_dir_all(root.0.join("etc/libvirt/qemu")).unwrap();
    let text = "<!--\nWARNING: THIS IS AN AUTO-GENERATED FILE.\n-->\n\n<domain type='kvm'>\n  <name>web</name>\n  \
                <os>\n    <type arch='x86_64' machine='pc-q35-8.0'>hvm</type>\n  </os>\n  <clock offset='utc'>\n    \
                <timer name='pit' tickpolicy='delay'/>\n  </clock>\n</domain>\n";
    root.put(domain, text);
    let before = root.settings();
    let plan = stdout(&avicenna(&["enable", "--include", "all"], &root.0));
    assert!(plan.contains("run     virsh define /etc/libvirt/qemu/web.xml"), "{plan}");
    assert!(plan.contains("+     <timer name='pit' tickpolicy='discard'/>"), "{plan}");

    let arguments = ["enable", "--apply", "--yes", "--include", "vm-web"];
    let applied = avicenna(&arguments, &root.0);
    let said = stdout(&applied);
    assert!(applied.status.success(), "{applied:?}");
    assert!(
        said.contains("run on the host itself: virsh define /etc/libvirt/qemu/web.xml"),
        "{said}"
    );
    assert!(said.contains("takes effect after:") && said.contains("VM restart"), "{said}");
    assert_eq!(root.settings()[&root.0.join(domain)], text.replace("'delay'", "'discard'"));
    let repeated = avicenna(&arguments, &root.0);
    assert!(repeated.status.success(), "{repeated:?}");
    assert!(avicenna(&["rollback", "--yes"], &root.0).status.success());
    assert_eq!(root.settings(), before);
}

#[test]
fn why_names_the_machine_the_inhibit_and_the_line() {
    let root = Root::new("why");
    root.put("sys/module/kvm_amd/parameters/avic", "Y");
    for name in ["web", "4711"] {
        let text = stdout(&avicenna(&["why", name], &root.0));
        assert!(text.contains("PIT_REINJ for its whole life"), "{text}");
        assert!(text.contains("-global kvm-pit.lost_tick_policy=discard"), "{text}");
    }
    assert_eq!(avicenna(&["why", "nosuch"], &root.0).status.code(), Some(3));
}

#[test]
fn check_takes_a_single_file_of_any_known_form() {
    let root = Root::new("single");
    let listing = "CPU:\n\
        0x00000000: EAX=0x00000010, EBX=0x68747541, ECX=0x444d4163, EDX=0x69746e65\n\
        0x8000000a: EAX=0x00000001, EBX=0x00008000, ECX=0x00000000, EDX=0x119fbfff\n";
    let dump = "SSDT @ 0x0\n    0000: 53 53 44 54  SSDT\n\nDMAR @ 0x0\n\
        \x20   0000: 44 4D 41 52 30 00 00 00 01 00 00 00 00 00 00 00  DMAR0...........\n\
        \x20   0010: 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00  ................\n\
        \x20   0020: 00 00 00 00 26 01 00 00 00 00 00 00 00 00 00 00  ....&...........\n";
    let check = |name: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_avicenna"));
        command.args(["check", "--all"]).arg(root.0.join(name)).output().unwrap()
    };
    for (name, text, row) in [
        ("listing.txt", listing, "yes      the CPU has x2AVIC [cpu 0]"),
        ("tables.txt", dump, "yes      the firmware allows interrupt remapping"),
        (
            "journal.txt",
            "Nov 21 10:00:00 pve1 kernel: Linux version 6.8.12-4-pve (build@x) #1 SMP\n",
            "Linux 6.8.12-4-pve",
        ),
    ] {
        root.put(name, text);
        let shown = stdout(&check(name));
        assert!(shown.contains(row), "{name}: {shown}");
    }
    root.put("prose.txt", "this is not a host\n");
    let refused = check("prose.txt");
    assert_eq!(refused.status.code(), Some(3));
    assert!(String::from_utf8(refused.stderr).unwrap().contains("cpuid -r"));
}
