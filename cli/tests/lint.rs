//! `avicenna lint` from outside: exit status, formats, repairing, and real QEMU starting what was
//! repaired.

use schema::assert_follows;
use serde_json::Value;
use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

const BAD: &str = "qemu-system-x86_64 -enable-kvm -machine q35 -m 64\n";
const GOOD: &str = "qemu-system-x86_64 -enable-kvm -machine q35,kernel-irqchip=split -m 64\n";
const OPEN: &str = "qemu-system-x86_64 -enable-kvm $OPTIONS -m 64\n";

fn run(arguments: &[&str], input: &str) -> Output {
    let mut child = Command::new(env!("CARGO_BIN_EXE_avicenna"))
        .arg("lint")
        .args(arguments)
        .env_remove("CLICOLOR_FORCE")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // A program that refuses its arguments does not read.
    let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
    child.wait_with_output().unwrap()
}

fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

/// A folder of this test alone, removed at its end.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path =
            std::env::temp_dir().join(format!("avicenna-lint-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn write(&self, name: &str, text: &str) -> String {
        let path = self.0.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn exit_status_tells_clean_findings_usage_and_unknown() {
    for (arguments, input, status) in [
        (&["-"][..], GOOD, 0),
        (&["-"], BAD, 1),
        (&["-", "--target", "intel"], BAD, 0),
        (&["-"], OPEN, 3),
        (&["-"], "hello\n", 3),
        (&["/nonexistent/file"], "", 3),
        (&[], "", 2),
        (&["-", "--kernel", "new"], GOOD, 2),
        (&["-", "--kind", "nonsense"], GOOD, 2),
        (&["--explain", "AV001"], "", 0),
        (&["--explain", "pit-reinject"], "", 0),
        (&["--explain", "AV999"], "", 2),
        (&["--list"], "", 0),
        (&["--diff", "-"], BAD, 1),
        (&["--diff", "-"], GOOD, 0),
        (&["-"], "qemu-system-x86_64 -m 64\n", 0),
        (&["-", "--fail-on", "note"], "qemu-system-x86_64 -m 64\n", 1),
        (&["-", "--kernel", "5.15"], "kvm -machine q35,kernel-irqchip=split -cpu EPYC\n", 1),
        (&["-", "--kernel", "6.1"], "kvm -machine q35,kernel-irqchip=split -cpu EPYC\n", 0),
    ] {
        let output = run(arguments, input);
        assert_eq!(output.status.code(), Some(status), "{arguments:?} {input:?} {output:?}");
    }
}

#[test]
fn text_names_place_rule_and_change_in_one_line() {
    let output = run(&["-"], BAD);
    let text = stdout(&output);
    let line = text.lines().next().unwrap();
    for part in
        ["<stdin>:1:41: error[AV001]", "(AMD)", "; fix: -global kvm-pit.lost_tick_policy=discard"]
    {
        assert!(line.contains(part), "{part} in {line}");
    }
    assert!(text.contains("1 error"), "{text}");
    assert!(
        text.contains("Linux 7.3, QEMU 10.2"),
        "judged for versions, not for 'current' ones: {text}"
    );
    assert!(!text.contains('\x1b'), "colour without a terminal");
    let long = format!("{} -name {}\n", BAD.trim(), "x".repeat(500));
    let lines = stdout(&run(&["-"], &long)).lines().count();
    assert_eq!(lines, text.lines().count(), "a program reads one line for each thing");
    let page = stdout(&run(&["--explain", "av001"], ""));
    // There its headings are one level deeper.
    let words = |text: &str| -> Vec<String> {
        text.split_whitespace()
            .filter(|word| !word.trim_matches('#').is_empty())
            .map(String::from)
            .collect()
    };
    let all = words(&stdout(&run(&["--explain", "all"], "")));
    let page = words(&page);
    assert!(all.windows(page.len()).any(|part| part == page), "{page:?}");
}

#[test]
fn json_follows_its_published_schema() {
    let schema = schema::published("lint-1.json");
    let modprobe = "options kvm_amd avic=0 npt=0\n";
    let many = "kvm -smp 600 -cpu host,hv-synic,hv-stimer,hv-evmcs -M q35,confidential-guest-support=x -s\n";
    for input in [BAD, GOOD, OPEN, "hello\n", modprobe, many] {
        let output = run(&["-", "--format", "json"], input);
        let value: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_follows(&value, &schema, input);
    }
    let value: Value =
        serde_json::from_slice(&run(&["-", "--format", "json"], BAD).stdout).unwrap();
    let found = &value["inputs"][0]["diagnostics"][0];
    assert_eq!((&found["rule"], &found["inhibit"]), (&"AV001".into(), &"PIT_REINJ".into()));
    assert_eq!(found["vendors"], serde_json::json!(["amd"]));
    let wrong = serde_json::json!({ "schema": 2, "inputs": [] });
    assert!(schema::fault(&wrong, &schema).is_some());
}

#[test]
fn sarif_has_what_the_standard_requires() {
    let output = run(&["-", "--format", "sarif"], &format!("{BAD}{OPEN}"));
    let log: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(log["version"], "2.1.0");
    assert!(log["$schema"].as_str().unwrap().contains("sarif-2.1.0"));
    let run_ = &log["runs"][0];
    let driver = &run_["tool"]["driver"];
    assert!(driver["name"].is_string());
    let rules = driver["rules"].as_array().unwrap();
    let mut ids = std::collections::BTreeSet::new();
    for rule in rules {
        assert!(ids.insert(rule["id"].as_str().unwrap()));
        assert!(rule["shortDescription"]["text"].is_string());
        let level = rule["defaultConfiguration"]["level"].as_str().unwrap();
        assert!(["none", "note", "warning", "error"].contains(&level));
    }
    let results = run_["results"].as_array().unwrap();
    assert!(results.iter().any(|result| result["kind"] == "open") && !results.is_empty());
    for result in results {
        let index = usize::try_from(result["ruleIndex"].as_u64().unwrap()).unwrap();
        assert_eq!(rules[index]["id"], result["ruleId"]);
        assert!(!result["message"]["text"].as_str().unwrap().is_empty());
        // A level other than none is for kind fail alone [SARIF 3.27.10].
        assert_eq!(result["kind"] == "fail", result["level"] != "none");
        let location = &result["locations"][0]["physicalLocation"];
        let uri = location["artifactLocation"]["uri"].as_str().unwrap();
        assert!(!uri.contains(['<', '>', ' ']), "{uri}");
        for member in ["startLine", "startColumn", "endLine", "endColumn"] {
            assert!(location["region"][member].as_u64().unwrap() >= 1, "{member}");
        }
        for fix in result["fixes"].as_array().into_iter().flatten() {
            let changes = fix["artifactChanges"].as_array().unwrap();
            assert!(!changes.is_empty());
            for change in changes {
                assert!(change["artifactLocation"]["uri"].is_string());
                let replacements = change["replacements"].as_array().unwrap();
                assert!(replacements.iter().all(|one| one["deletedRegion"]["byteOffset"].is_u64()));
            }
        }
    }
    let failed = run(&["-", "--format", "sarif"], "hello\n");
    let log: Value = serde_json::from_slice(&failed.stdout).unwrap();
    assert_eq!(log["runs"][0]["invocations"][0]["executionSuccessful"], false);
}

#[test]
fn github_annotations_are_one_line_each() {
    let text = stdout(&run(&["-", "--format", "github"], BAD));
    assert_eq!(text.lines().count(), 1);
    assert!(
        text.starts_with("::error file=<stdin>,line=1,col=41,title=AV001 pit-reinject::"),
        "{text}"
    );
    assert!(text.contains("%0Afix: "));
}

#[test]
fn fix_repairs_files_in_place_and_standard_input_to_standard_output() {
    let folder = Folder::new("fix");
    let file = folder.write("start.sh", BAD);
    let output = run(&["--diff", &file], "");
    assert!(
        stdout(&output).contains("\n-qemu-system") && stdout(&output).contains("\n+qemu-system")
    );
    assert_eq!(std::fs::read_to_string(&file).unwrap(), BAD, "--diff changes nothing");
    let output = run(&["--fix", &file], "");
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let repaired = std::fs::read_to_string(&file).unwrap();
    assert!(repaired.contains("-global kvm-pit.lost_tick_policy=discard"));
    assert_eq!(run(&[&file], "").status.code(), Some(0));
    let piped = run(&["--fix", "-"], BAD);
    assert_eq!(stdout(&piped), repaired);
    let untouched = run(&["--fix", "-"], GOOD);
    assert_eq!(stdout(&untouched), GOOD);
}

#[test]
fn a_host_folder_is_judged_file_by_file_for_its_own_kernel() {
    let folder = Folder::new("host");
    folder.write("etc/modprobe.d/kvm.conf", "options kvm_amd nested=1\n");
    folder.write("etc/modprobe.d/other.conf", "options snd power_save=1\n");
    folder.write("proc/cmdline", "root=/dev/sda1 ro amd_iommu=on\n");
    folder.write("proc/sys/kernel/osrelease", "6.1.0-56-amd64\n");
    folder.write("proc/42/cmdline", "/usr/bin/qemu-system-x86_64\0-enable-kvm\0-cpu\0host\0");
    folder.write("proc/43/cmdline", "/sbin/init\0");
    folder.write(
        "etc/libvirt/qemu/a.xml",
        "<domain type='kvm'><os><type machine='pc'>hvm</type></os></domain>",
    );
    let output = run(&["--format", "json", folder.0.to_str().unwrap()], "");
    let value: Value = serde_json::from_slice(&output.stdout).unwrap();
    let mut found = Vec::new();
    for input in value["inputs"].as_array().unwrap() {
        let file = input["file"].as_str().unwrap().rsplit_once(":/").unwrap().1.to_owned();
        for diagnostic in input["diagnostics"].as_array().unwrap() {
            found.push(format!("{file} {}", diagnostic["rule"].as_str().unwrap()));
        }
    }
    let expected = [
        "etc/libvirt/qemu/a.xml AV001",
        "etc/modprobe.d/kvm.conf AV101",
        "proc/42/cmdline AV001",
        "proc/cmdline AV201",
    ];
    assert_eq!(found, expected, "{}", stdout(&output));
    assert_eq!(output.status.code(), Some(1));
}

#[test]
fn real_qemu_starts_the_repaired_default_command_line() {
    let Ok(version) = Command::new("qemu-system-x86_64").arg("--version").output() else {
        println!("skipped: qemu-system-x86_64 is not installed");
        return;
    };
    println!("{}", String::from_utf8_lossy(&version.stdout).lines().next().unwrap_or_default());
    // Judged as a KVM machine, started with TCG: test machines need not have KVM. More than 255
    // vCPUs are left out, since TCG of this version does not take them.
    for command in [
        "kvm -m 64",
        "kvm -M q35 -m 64 -smp 2",
        "kvm -M q35,kernel-irqchip=off -m 64",
        "kvm -M q35 -m 64 -global kvm-pit.lost_tick_policy=slew",
        "kvm -M q35 -m 64 -device intel-iommu,intremap=on",
    ] {
        let output = run(&["--fix", "-"], &format!("{command}\n"));
        assert_eq!(output.status.code(), Some(0), "{command}: {output:?}");
        let repaired = stdout(&output);
        assert_eq!(run(&["-"], &repaired).status.code(), Some(0), "{repaired}");
        let arguments: Vec<&str> = repaired.split_whitespace().skip(1).collect();
        let mut child = Command::new("qemu-system-x86_64")
            .args(["-accel", "tcg", "-S", "-display", "none", "-nodefaults", "-monitor", "stdio"])
            .args(&arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        child.stdin.take().unwrap().write_all(b"info status\nquit\n").unwrap();
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{arguments:?}: {output:?}");
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(said.contains("paused"), "{arguments:?}: {said}");
    }
}

#[test]
fn fix_writes_the_files_of_a_folder_and_offers_only_what_it_can_do() {
    let folder = Folder::new("fixfolder");
    let modprobe = folder.write("etc/modprobe.d/kvm.conf", "options kvm_amd avic=0\n");
    folder.write("usr/lib/modprobe.d/intel.conf", "options kvm_intel enable_apicv=0\n");
    folder.write("proc/42/cmdline", "/usr/bin/qemu-system-x86_64\0-enable-kvm\0");
    let root = folder.0.to_str().unwrap();
    let before = stdout(&run(&[root], ""));
    for (file, can) in
        [("/etc/modprobe.d/kvm.conf:", true), ("/usr/lib/", false), ("/proc/42/", false)]
    {
        let line = before.lines().find(|line| line.contains(file)).unwrap();
        assert_eq!(line.contains("[--fix]"), can, "{line}");
    }
    let output = run(&["--fix", root], "");
    assert_eq!(output.status.code(), Some(1), "the running machine is as it was: {output:?}");
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("kvm.conf: 1 changed") && said.contains("/proc/42/cmdline"), "{said}");
    assert_eq!(std::fs::read_to_string(&modprobe).unwrap(), "options kvm_amd avic=1\n");
}

#[test]
fn what_cannot_be_repaired_is_refused_with_the_reason() {
    let folder = Folder::new("refuse");
    let mut builder = tar::Builder::new(vec![]);
    let text = b"options kvm_amd avic=0\n";
    let mut header = tar::Header::new_gnu();
    header.set_size(text.len() as u64);
    header.set_mode(0o644);
    builder.append_data(&mut header, "etc/modprobe.d/kvm.conf", &text[..]).unwrap();
    let archive = folder.0.join("host.tar");
    std::fs::write(&archive, builder.into_inner().unwrap()).unwrap();
    for (file, reason) in [
        (archive.to_str().unwrap(), "archive"),
        ("/proc/self/cmdline", "the kernel"),
        ("/", "avicenna enable"),
    ] {
        let output = run(&["--fix", file], "");
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{file}: {said}");
        assert!(said.contains("cannot be repaired") && said.contains(reason), "{file}: {said}");
    }
    let judged = stdout(&run(&[archive.to_str().unwrap()], ""));
    assert!(judged.contains("AV102") && !judged.contains("[--fix]"), "{judged}");
}

#[test]
fn folder_of_configurations_is_judged_file_by_file() {
    let folder = Folder::new("args");
    folder.write("a.args", BAD);
    folder.write("more/b.args", GOOD);
    folder.write("README", "Nothing to see here.\n");
    folder
        .write("fire.json", "{\"boot-source\": {\"kernel_image_path\": \"k\"}, \"drives\": []}\n");
    let output = run(&[folder.0.to_str().unwrap()], "");
    let text = stdout(&output);
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(text.contains("a.args:1:41: error[AV001]") && text.contains("3 inputs"), "{text}");
    assert!(text.contains("fire.json:") && text.contains("Firecracker"), "{text}");
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("1 file not known as configurations"), "{said}");
}

#[test]
fn one_foreign_byte_is_read_and_refusals_say_which_kind_they_are() {
    let folder = Folder::new("bytes");
    let latin1 = folder.0.join("latin1.sh");
    std::fs::write(&latin1, [b"# caf\xe9\n", BAD.as_bytes()].concat()).unwrap();
    let output = run(&[latin1.to_str().unwrap()], "");
    let text = stdout(&output);
    assert!(text.contains("latin1.sh:2:41: error[AV001]") && !text.contains("[--fix]"), "{text}");
    let before = std::fs::read(&latin1).unwrap();
    run(&["--fix", latin1.to_str().unwrap()], "");
    assert_eq!(
        std::fs::read(&latin1).unwrap(),
        before,
        "what is not understood whole is not written"
    );

    let big = folder.0.join("big.sh");
    std::fs::File::create(&big).unwrap().set_len((16 << 20) + 1).unwrap();
    let binary = folder.0.join("binary");
    std::fs::write(&binary, b"\x7fELF\x00\xff\xfe").unwrap();
    let broken = folder.write("broken.xml", "<domain type='kvm'><os>");
    let unknown = folder.write("unknown", "hello\n");
    let empty = folder.write("empty", "");
    for (file, word) in [
        (big.to_str().unwrap(), "too big"),
        (binary.to_str().unwrap(), "not a text file"),
        (&broken, "1:"),
        (&unknown, "unknown"),
        (&empty, "empty"),
    ] {
        let output = run(&[file], "");
        let text = stdout(&output);
        assert_eq!(output.status.code(), Some(3), "{text}");
        assert!(text.contains("cannot read") && text.contains(word), "{word}: {text}");
    }
}
