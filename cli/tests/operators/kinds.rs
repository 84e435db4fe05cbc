//! Inputs that operators have, a row a kind: what is said of them and what is done to them.

use super::{ON, Root, avicenna, stdout};
use std::fs;
use std::process::{Command, Output};

const OFF: (&str, &str) = ("sys/module/kvm_amd/parameters/avic", "N\n");
const SINCE_6_12: (&str, &str) = ("proc/sys/kernel/osrelease", "6.12.10\n");

fn root(name: &str, more: &[(&str, &str)]) -> Root {
    let root = Root::new(name, ON);
    more.iter().for_each(|(file, text)| root.put(file, text));
    root
}

fn lint(root: &Root, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_avicenna"));
    command.arg("lint").args(arguments).current_dir(&root.0).output().unwrap()
}

/// Both streams, and the status.
fn all(output: &Output) -> (Option<i32>, String) {
    let text = [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes));
    (output.status.code(), text.concat())
}

/// What a POSIX shell makes of GRUB's settings.
fn sourced(root: &Root) -> Vec<String> {
    let script = ". \"$1\"; printf '%s %s' \"$GRUB_CMDLINE_LINUX\" \"$GRUB_CMDLINE_LINUX_DEFAULT\"";
    let output = Command::new("sh")
        .args(["-c", script, "sh"])
        .arg(root.0.join("etc/default/grub"))
        .output()
        .unwrap();
    assert!(output.stderr.is_empty(), "{output:?}");
    stdout(&output).split_whitespace().map(String::from).collect()
}

#[test]
fn settings_of_grub_give_the_shell_what_was_meant_or_stay_as_they_are() {
    const LEGACY: &str = "amd_iommu_intr=legacy";
    // With what the shell has afterwards; `None` where the file has to stay.
    let rows: [(&str, &str, Option<&str>); 9] = [
        ("lines joined", "V=\"quiet \\\n  amd_iommu_intr=legacy\"\n", Some("quiet ADDED")),
        ("a line end within quotes", "V=\"quiet\n  amd_iommu_intr=legacy\"\n", Some("quiet ADDED")),
        ("escaped quotes", "V=\"a=\\\"b c\\\" amd_iommu_intr=legacy\"\n", Some("a=\"b c\" ADDED")),
        ("a comment behind", "V=amd_iommu_intr=legacy   # here\n", Some("ADDED")),
        ("quotes side by side", "V=\"amd_iommu_intr=legacy \"'splash'\n", Some("splash ADDED")),
        ("a variable", "X=amd_iommu_intr=legacy\nV=\"quiet $X\"\n", Some("quiet ADDED")),
        ("two on a line", "V=quiet; V=\"quiet amd_iommu_intr=legacy\"\n", Some("quiet ADDED")),
        ("a condition", "if [ -e /x ]; then\n V=quiet\nelse\n V=amd_iommu_intr=legacy\nfi\n", None),
        ("line ends of another system", "V=\"amd_iommu_intr=legacy\"\r\n", None),
    ];
    for (kind, text, after) in rows {
        let text = text.replace('V', "GRUB_CMDLINE_LINUX_DEFAULT");
        let root = root("grub", &[OFF, SINCE_6_12, ("usr/sbin/update-grub", "")]);
        fs::remove_file(root.0.join("sys/module/kvm_amd/initstate")).unwrap();
        fs::remove_file(root.0.join("sys/module/kvm_amd/refcnt")).unwrap();
        root.put("proc/cmdline", &format!("root=/dev/sda1 quiet {LEGACY}\n"));
        root.put("etc/default/grub", &text);
        let (_, said) = all(&avicenna(&["enable", "--apply", "--yes"], &root.0));
        match after {
            Some(after) => {
                let words = after.replace("ADDED", "kvm_amd.avic=1");
                let words: Vec<&str> = words.split_whitespace().collect();
                assert_eq!(sourced(&root), words, "{kind}: {said}");
            }
            None => {
                let left = fs::read_to_string(root.0.join("etc/default/grub")).unwrap();
                assert_eq!(left, text, "{kind}");
                assert!(said.contains("by hand"), "{kind}: {said}");
            }
        }
    }
}

#[test]
fn lint_reads_the_words_of_grub_as_the_shell_does() {
    for text in [
        "GRUB_CMDLINE_LINUX=\"quiet \\\n  amd_iommu=off\"\n",
        "A=1; GRUB_CMDLINE_LINUX=quiet; GRUB_CMDLINE_LINUX=\"amd_iommu=off\"\n",
        "X=amd_iommu=off\nGRUB_CMDLINE_LINUX=\"$X\"\n",
    ] {
        let root = Root::new("words", &[("grub", text)]);
        let (status, said) = all(&lint(&root, &["grub"]));
        assert!(status == Some(1) && said.contains("AV202"), "{text}: {said}");
    }
}

#[test]
fn files_of_modprobe_are_one_input_in_the_order_in_which_they_are_read() {
    const ON_FIRST: (&str, &str) = ("etc/modprobe.d/a.conf", "options kvm_amd avic=1\n");
    const OFF_FIRST: (&str, &str) = ("etc/modprobe.d/a.conf", "options kvm_amd avic=0\n");
    /// A name, the host's files, and the only one that is blamed.
    type Row<'a> = (&'a str, &'a [(&'a str, &'a str)], Option<&'a str>);
    let rows: [Row<'_>; 7] = [
        (
            "two options in two files",
            &[
                ("etc/modprobe.d/a.conf", "options kvm_amd nested=1\n"),
                ("etc/modprobe.d/b.conf", "options kvm_amd avic=1\n"),
            ],
            None,
        ),
        (
            "on, then off",
            &[ON_FIRST, ("etc/modprobe.d/z.conf", "options kvm_amd avic=0\n")],
            Some("z.conf"),
        ),
        ("off, then on", &[OFF_FIRST, ("etc/modprobe.d/z.conf", "options kvm_amd avic=1\n")], None),
        (
            "off, and on by the command line",
            &[OFF_FIRST, ("proc/cmdline", "root=/dev/sda1 kvm_amd.avic=1\n")],
            None,
        ),
        (
            "a name that hides another",
            &[ON_FIRST, ("usr/lib/modprobe.d/a.conf", "options kvm_amd avic=0\n")],
            None,
        ),
        (
            "an install line",
            &[
                ON_FIRST,
                (
                    "etc/modprobe.d/b.conf",
                    "install kvm_amd /sbin/modprobe --ignore-install kvm_amd avic=0\n",
                ),
            ],
            Some("b.conf"),
        ),
        (
            "/usr/local",
            &[ON_FIRST, ("usr/local/lib/modprobe.d/x.conf", "options kvm_amd npt=0\n")],
            Some("x.conf"),
        ),
    ];
    for (kind, files, blamed) in rows {
        let root = root("modprobe", &[&[SINCE_6_12][..], files].concat());
        let (status, said) = all(&lint(&root, &["."]));
        assert_eq!(status, Some(i32::from(blamed.is_some())), "{kind}: {said}");
        for line in said.lines().filter(|line| line.contains("error")) {
            let is_sum = line.contains("machines:");
            assert!(is_sum || line.contains(blamed.unwrap()), "{kind}: {said}");
        }
        // The same files, named by themselves or by their folder.
        let named: Vec<&str> =
            files.iter().map(|(file, _)| *file).filter(|file| file.starts_with("etc/")).collect();
        let has_all = files.iter().all(|(file, _)| file.starts_with("etc/"));
        let target = ["--target", "amd", "--kernel", "6.12"];
        for names in [named.as_slice(), &["etc/modprobe.d"]] {
            let (status, said) = all(&lint(&root, &[&target, names].concat()));
            assert!(!has_all || status == Some(i32::from(blamed.is_some())), "{kind}: {said}");
        }
    }
}

#[test]
fn host_is_judged_by_all_files_that_its_boot_loader_reads() {
    let root = root(
        "boot",
        &[
            ("etc/default/grub", "GRUB_CMDLINE_LINUX=\"quiet\"\n"),
            (
                "etc/default/grub.d/50.cfg",
                "GRUB_CMDLINE_LINUX=\"$GRUB_CMDLINE_LINUX amd_iommu=off\"\n",
            ),
            ("boot/loader/entries/a.conf", "title a\nlinux /v\noptions root=/dev/a iommu=off\n"),
        ],
    );
    let (status, said) = all(&lint(&root, &["."]));
    assert_eq!(status, Some(1), "{said}");
    for file in ["50.cfg:1:", "a.conf:3:"] {
        assert!(said.contains(file), "{said}");
    }
}

#[test]
fn line_that_loads_a_module_by_a_command_is_told_and_nothing_is_written() {
    let line = "install kvm_amd /bin/false";
    let root =
        root("install", &[OFF, SINCE_6_12, ("etc/modprobe.d/kvm.conf", &format!("{line}\n"))]);
    let check = stdout(&avicenna(&["check"], &root.0));
    assert!(check.contains(&format!("is up to a command: {line}")), "{check}");
    assert!(check.contains("have that line pass avic=1 on, or take it out"), "{check}");
    let plan = stdout(&avicenna(&["enable"], &root.0));
    assert!(plan.contains(&format!("have the line '{line}'")), "{plan}");
    assert!(!plan.contains("options kvm_amd avic=1"), "{plan}");
}

#[test]
fn options_that_are_asked_for_and_not_loaded_want_the_same_reload_everywhere() {
    let asked = ("etc/modprobe.d/kvm.conf", "options kvm_amd avic=1\n");
    let root = root("asked", &[OFF, SINCE_6_12, asked]);
    for verb in ["check", "enable"] {
        let said = stdout(&avicenna(&[verb], &root.0));
        assert!(said.contains("modprobe -r kvm_amd kvm && modprobe kvm_amd"), "{verb}: {said}");
        assert!(!said.contains("echo"), "{verb}: {said}");
    }
    // One that is built in stays.
    fs::remove_file(root.0.join("sys/module/kvm/refcnt")).unwrap();
    root.put("sys/module/kvm/parameters/halt_poll_ns", "200000\n");
    for verb in ["check", "enable"] {
        let said = stdout(&avicenna(&[verb], &root.0));
        assert!(said.contains("modprobe -r kvm_amd && modprobe kvm_amd"), "{verb}: {said}");
    }
}

#[test]
fn json_stays_json_and_yaml_keeps_its_line_ends_and_comments() {
    let manifest = |clock: &str| {
        format!(
            "{{\"apiVersion\":\"kubevirt.io/v1\",\"kind\":\"VirtualMachine\",\"metadata\":{{\"name\":\"a\"}},\"spec\":\
             {{\"template\":{{\"spec\":{{\"domain\":{{\"cpu\":{{\"cores\":2}},\"clock\":{clock},\"devices\":{{}}}}}}}}}}}}\n"
        )
    };
    for clock in [
        "{\"timer\":{\"hpet\":{\"present\":false}}}",
        "{\"timer\":{}}",
        "{\"utc\":{}}",
        "{\"timer\":{\"pit\":{\"tickPolicy\":\"delay\"}}}",
    ] {
        let root = Root::new("json", &[("vm.json", &manifest(clock))]);
        assert_eq!(lint(&root, &["--fix", "vm.json"]).status.code(), Some(0), "{clock}");
        let text = fs::read_to_string(root.0.join("vm.json")).unwrap();
        let read: serde_json::Value = serde_json::from_str(&text).unwrap();
        let policy = "/spec/template/spec/domain/clock/timer/pit/tickPolicy";
        assert_eq!(read.pointer(policy).unwrap(), "discard", "{text}");
    }
    let yaml = "apiVersion: kubevirt.io/v1\nkind: VirtualMachine\nmetadata:\n  name: a\nspec:\n  template:\n    spec:\n      \
                domain:\n        cpu:\n          cores: 2\n        clock:\n          timer:   # none yet\n        devices: {}\n";
    let block = "clock:\n          timer:   # none yet";
    for text in [
        yaml.to_owned(),
        yaml.replace('\n', "\r\n"),
        yaml.replace("clock:", "clock: &c"),
        yaml.replace(block, "clock: {}   # none yet"),
        yaml.replace(block, "clock: {timer: { }}   # none yet"),
    ] {
        let root = Root::new("yaml", &[("vm.yaml", &text)]);
        assert_eq!(lint(&root, &["--fix", "vm.yaml"]).status.code(), Some(0), "{text}");
        let after = fs::read_to_string(root.0.join("vm.yaml")).unwrap();
        assert!(after.contains("# none yet") && after.contains("discard"), "{after}");
        let plain = after.matches('\n').count() - after.matches("\r\n").count();
        assert_eq!(plain == 0, text.contains('\r'), "{after:?}");
    }
}

#[test]
fn machine_of_380_vcpus_is_never_taken_its_x2apic() {
    let arguments = [
        "qemu-system-x86_64",
        "-machine",
        "q35,accel=kvm,kernel-irqchip=split",
        "-cpu",
        "EPYC",
        "-smp",
        "380",
        "",
    ]
    .join("\0");
    // With what `why` answers: by the distribution's source, or unknown.
    for (release, status) in [
        ("5.15.0-204.146.1.el8uek.x86_64", 0),
        ("5.14.0-503.11.1.el9_5.x86_64", 0),
        ("5.14.0-427.13.1.el9_4.cloudlinux.x86_64", 3),
        ("5.14.21-150500.55.19-default", 3),
        ("5.10.0-136.12.0.86.oe2203sp1.x86_64", 3),
        ("5.15.0-1050-aws", 3),
        // Known not to have x2AVIC.
        ("5.15.0-91-generic", 1),
        ("5.15.100", 1),
    ] {
        let root = root(
            "big",
            &[("proc/sys/kernel/osrelease", release), ("proc/4711/cmdline", &arguments)],
        );
        root.put(
            "etc/pve/qemu-server/101.conf",
            "cores: 95\nsockets: 4\nmachine: q35\nargs: -cpu host\n",
        );
        let (found, said) = all(&avicenna(&["why"], &root.0));
        assert_eq!(found, Some(status), "{release}: {said}");
        let plan = stdout(&avicenna(&["enable", "--include", "all"], &root.0));
        let takes_nested = if status == 1 { "none" } else { "svm=off" };
        for word in ["x2apic=off", "-x2apic", takes_nested] {
            assert!(!plan.contains(word) && !said.contains(word), "{release}: {said}\n{plan}");
        }
        let script =
            "qemu-system-x86_64 -machine q35,accel=kvm,kernel-irqchip=split -cpu EPYC -smp 380\n";
        root.put("vm.sh", script);
        let kernel = ["--fix", "--kernel", release, "--target", "amd", "vm.sh"];
        let (_, said) = all(&lint(&root, &kernel));
        assert!(!said.contains("x2apic=off"), "{release}: {said}");
        assert_eq!(fs::read_to_string(root.0.join("vm.sh")).unwrap(), script, "{release}");
    }
}

#[test]
fn more_than_255_vcpus_need_x2apic_and_destinations_that_reach_them() {
    let start = "qemu-system-x86_64 -machine q35,accel=kvm,kernel-irqchip=split";
    for (arguments, is_right) in [
        ("-cpu host -smp 380", true),
        ("-cpu host,-x2apic -smp 380", false),
        ("-cpu host,-x2apic -smp 4,maxcpus=380", false),
        ("-cpu host,-x2apic -smp 200,sockets=5,cores=20,threads=2", false),
        ("-cpu host -smp 380 -device intel-iommu,intremap=on", true),
        ("-cpu host -smp 380 -device intel-iommu,intremap=on,eim=off", false),
        ("-cpu host -smp 380 -device amd-iommu,intremap=on", false),
        ("-cpu host -smp 380 -device amd-iommu,intremap=on,xtsup=on", true),
        ("-cpu host -smp 380 -device intel-iommu,intremap=off", true),
    ] {
        let root = Root::new("many", &[("vm.sh", &format!("{start} {arguments}\n"))]);
        let (status, said) = all(&lint(&root, &["vm.sh"]));
        assert_eq!(status, Some(i32::from(!is_right)), "{arguments}: {said}");
        assert!(is_right || said.contains("AV009"), "{arguments}: {said}");
        // One repair is enough.
        assert_eq!(lint(&root, &["--fix", "vm.sh"]).status.code(), Some(0), "{arguments}");
    }
}

#[test]
fn arguments_of_proxmox_are_kept_and_machines_go_by_their_numbers() {
    let definition = "args: -cpu host,kvm=off -device vfio-pci,host=01:00.0\ncores: 4\nname: web\nmachine: q35\nostype: l26\n";
    let process = "/usr/bin/kvm\0-id\x00101\0-name\0web,debug-threads=on\0-chardev\0socket,id=qmp,path=/var/run/qemu-server/101.qmp\0\
                   -machine\0type=pc-q35-9.2+pve1\0-cpu\0host,kvm=off\0-enable-kvm\0";
    let root = root(
        "proxmox",
        &[("etc/pve/qemu-server/101.conf", definition), ("proc/2101/cmdline", process)],
    );
    for name in ["101", "vm-101", "web", "2101"] {
        let (status, said) = all(&avicenna(&["why", name], &root.0));
        assert_eq!(status, Some(1), "{name}: {said}");
        let merged = "qm set 101 --args '-cpu host,kvm=off -device vfio-pci,host=01:00.0 -global kvm-pit.lost_tick_policy=discard'";
        assert!(said.contains(merged), "{name}: {said}");
    }
}

#[test]
fn files_of_other_tools_are_judged_or_named() {
    for (name, text, says) in [
        (
            "u.service",
            "[Service]\nEnvironment=\"O=-machine q35,accel=kvm\"\nExecStart=/q/qemu-system-x86_64 $O\n",
            "AV001",
        ),
        (
            "p.yml",
            "- hosts: a\n  tasks:\n  - command: >\n      qemu-system-x86_64 -machine\n      q35,accel=kvm\n",
            "AV001",
        ),
        ("c.sh", "cloud-hypervisor --cpus boot=4,max=600 --kernel /k\n", "largest APIC ID is 599"),
        (
            "c.json",
            "{\"cpus\":{\"boot_vcpus\":4,\"max_vcpus\":600},\"payload\":{\"kernel\":\"/k\"}}\n",
            "largest APIC ID is 599",
        ),
        (
            "f.json",
            "{\"boot-source\":{\"kernel_image_path\":\"k\"},\"machine-config\":{\"vcpu_count\":2}}\n",
            "AV001",
        ),
        ("l.py", "run(['qemu-system-x86_64', '-machine', 'q35'])\n", "not recognized"),
        ("s.py", "run(\"qemu-system-x86_64 -enable-kvm\", shell=True)\n", "not recognized"),
        ("c.go", "exec.Command(\"qemu-system-x86_64\", \"-enable-kvm\")\n", "not recognized"),
        ("h.go", "exec.Command(\"cloud-hypervisor\", \"--cpus\", \"boot=4\")\n", "not recognized"),
        ("m.tf", "resource \"libvirt_domain\" \"a\" {\n  vcpu = 4\n}\n", "Terraform"),
        ("n.nix", "{\n  boot.kernelParams = [ \"amd_iommu=off\" ];\n}\n", "NixOS"),
        (
            "l.nix",
            "{ pkgs, ... }:\n{ qemu = [ \"-machine\" \"q35\" \"-enable-kvm\" ]; }\n",
            "NixOS",
        ),
        ("ci.sh", "time cargo nextest run -p cloud-hypervisor --retries 3\n", "not recognized"),
        ("i.yaml", "config:\n  raw.qemu: -cpu host\nname: a\n", "Incus"),
        ("Vagrantfile", "Vagrant.configure(\"2\") do |config|\nend\n", "Vagrant"),
        ("nova.conf", "[DEFAULT]\nx = y\n[libvirt]\nvirt_type = kvm\n", "nova"),
    ] {
        let root = Root::new("dialect", &[(name, text)]);
        let (status, said) = all(&lint(&root, &["--target", "amd", name]));
        assert!(said.contains(says), "{name}: {said}");
        let is_judged = says.contains("AV") || says.contains("APIC");
        assert_eq!(status == Some(3), !is_judged, "{name}: {said}");
    }
}

#[test]
fn folder_of_single_answers_tells_what_they_tell_and_what_is_still_to_be_asked() {
    let told = "      AVIC: AMD virtual interrupt controller  = true\n      X2AVIC: virtualized X2APIC = true\n";
    let root = Root::new("seed", &[("cpuid.txt", told), ("features", "25bf732fa2295afe:1d\n")]);
    let said = stdout(&avicenna(&["check"], &root.0));
    assert!(said.contains("This hardware can: AVIC and x2AVIC; the IOMMU can post"), "{said}");
    for what in ["/sys/module/kvm_amd/parameters/avic", "/proc/cmdline"] {
        assert!(said.contains(what), "{said}");
    }
}

#[test]
fn another_architecture_has_nothing_to_switch_on() {
    let cpuinfo = "processor\t: 0\nFeatures\t: fp asimd\nCPU implementer\t: 0x41\n";
    let root = Root::new(
        "arm",
        &[("proc/cpuinfo", cpuinfo), ("proc/sys/kernel/osrelease", "6.1.0-21-arm64\n")],
    );
    for verb in ["check", "enable"] {
        let said = stdout(&avicenna(&[verb], &root.0)).to_lowercase();
        assert!(said.contains("this is an arm64 host"), "{verb}: {said}");
        assert!(!said.contains("not known") && !said.contains("unknown"), "{verb}: {said}");
    }
}

#[test]
fn reader_that_goes_away_ends_the_talk_and_not_the_work() {
    let root = root("closed", &[OFF, SINCE_6_12]);
    let program = env!("CARGO_BIN_EXE_avicenna");
    let place = root.0.display();
    for (verb, is_there) in [("enable --apply --yes", true), ("rollback --yes", false)] {
        let script = format!(
            "'{program}' {verb} --root '{place}' | head -c 1 >/dev/null; echo ${{PIPESTATUS[0]}}"
        );
        let output = Command::new("bash").args(["-c", &script]).output().unwrap();
        assert_eq!(stdout(&output).trim(), "0", "{verb}: {output:?}");
        assert_eq!(root.0.join("etc/modprobe.d/avicenna.conf").exists(), is_there, "{verb}");
    }
    let script = format!("'{program}' check --root '{place}' >/dev/full");
    let full = Command::new("bash").args(["-c", &script]).output().unwrap();
    assert_eq!(full.status.code(), Some(3), "{full:?}");
}

/// An archive of cpio's new form, not packed.
fn initial_disk(files: &[(&str, &str)]) -> String {
    let mut text = String::new();
    for (name, content) in files.iter().chain(&[("TRAILER!!!", "")]) {
        text.push_str("070701");
        let numbers = [1, 0o100_644, 0, 0, 1, 0, content.len(), 0, 0, 0, 0, name.len() + 1, 0];
        numbers.iter().for_each(|number| text.push_str(&format!("{number:08X}")));
        for part in [&format!("{name}\0"), *content] {
            text.push_str(part);
            text.push_str(&"\0".repeat(text.len().next_multiple_of(4) - text.len()));
        }
    }
    text
}

#[test]
fn initial_disk_with_an_older_copy_is_an_answer_of_its_own() {
    const MODULE: (&str, &str) = ("usr/lib/modules/6.12.10/kernel/arch/x86/kvm/kvm-amd.ko.xz", "x");
    let asked = ("etc/modprobe.d/kvm.conf", "options kvm_amd avic=1\n");
    let older = ("etc/modprobe.d/kvm.conf", "options kvm_amd nested=0\n");
    let other = ("init", "#!/bin/sh\n");
    let reload = "modprobe -r kvm_amd kvm && modprobe kvm_amd";
    let renew = "update-initramfs -u -k all && reboot";
    let long_ls = |size: usize| {
        format!(
            "Image: /boot/initramfs-6.12.10.img: 30M\n-rw-r--r--   1 root     root   {size} Jun  1 2025 \
             etc/modprobe.d/kvm.conf\n-rw-r--r--   1 root     root   90000 Jun  1 2025 {}\n",
            MODULE.0
        )
    };
    let disk = |files: &[(&str, &str)]| ("boot/initrd.img-6.12.10", initial_disk(files));
    for (kind, (path, text), said, change) in [
        ("an older copy", disk(&[other, older, MODULE]), "6.12.10, which has an older copy", renew),
        ("no copy", disk(&[other, MODULE]), "6.12.10, which has an older copy", renew),
        ("the same copy", disk(&[asked, MODULE]), "6.12.10 is not the cause", reload),
        ("without the module", disk(&[older]), "6.12.10 is not the cause", reload),
        (
            "not read, and older",
            (
                "avicenna/initrd.txt",
                "initrd /boot/initrd.img-6.12.10\nchanged /etc/modprobe.d/kvm.conf\nunreadable lzo\n".into(),
            ),
            "6.12.10, which may have an older copy",
            renew,
        ),
        (
            "another length",
            ("sos_commands/boot/lsinitrd", long_ls(7)),
            "6.12.10.img, which may have an older copy",
            renew,
        ),
        (
            "the same length",
            ("sos_commands/boot/lsinitrd", long_ls(asked.1.len())),
            "6.12.10.img is not the cause",
            reload,
        ),
    ] {
        let tool = ("usr/sbin/update-initramfs", "");
        let root = root("disk", &[OFF, SINCE_6_12, asked, tool, (path, &text)]);
        let snapshot = root.0.join("snapshot.tar.zst");
        let written = snapshot.to_str().unwrap();
        assert!(avicenna(&["snapshot", "-o", written], &root.0).status.success(), "{kind}");
        for place in [&root.0, &snapshot] {
            let check = stdout(&avicenna(&["check"], place));
            assert!(check.contains(said) && check.contains(change), "{kind}: {check}");
            let plan = stdout(&avicenna(&["enable"], place));
            assert!(plan.contains(reload), "{kind}: {plan}");
            assert_eq!(plan.contains("rebuild"), kind != "without the module", "{kind}: {plan}");
        }
    }
    // Nothing asks for it any more, and the disk still switches it off.
    let (path, text) = disk(&[("etc/modprobe.d/kvm.conf", "options kvm_amd avic=0\n"), MODULE]);
    let kernel = ("boot/initrd.img-6.18.4", text.as_str());
    assert_ne!(kernel.0, path);
    let root = root("disk", &[OFF, kernel]);
    let check = stdout(&avicenna(&["check"], &root.0));
    assert!(check.contains("older copy and gives it avic=0"), "{check}");
}
