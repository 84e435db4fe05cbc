//! What operators do with the verbs: short answers, hostile names, inputs that are cut off,
//! monitoring.

#[path = "operators/kinds.rs"]
mod kinds;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// A folder that looks like a host's root, gone at the end.
struct Root(PathBuf);

impl Root {
    fn new(name: &str, files: &[(&str, &str)]) -> Root {
        let path = std::env::temp_dir().join(format!("avicenna-ops-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).unwrap();
        let root = Root(path);
        files.iter().for_each(|(file, text)| root.put(file, text));
        root
    }

    fn put(&self, file: &str, text: &str) {
        let file = self.0.join(file);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, text).unwrap();
    }
}

impl Drop for Root {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn avicenna(arguments: &[&str], root: &Path) -> Output {
    Command::new(env!("CARGO_BIN_EXE_avicenna"))
        .args(arguments)
        .arg("--root")
        .arg(root)
        .output()
        .unwrap()
}

fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

const GENOA: &str = "processor\t: 0\nvendor_id\t: AuthenticAMD\ncpu family\t: 25\nmodel\t\t: 17\n\
                     model name\t: AMD EPYC 9654\nstepping\t: 1\nflags\t\t: svm npt avic x2avic cx16\n";
const ON: &[(&str, &str)] = &[
    ("proc/cpuinfo", GENOA),
    ("proc/sys/kernel/osrelease", "6.18.4\n"),
    ("proc/cmdline", "root=/dev/sda1 quiet\n"),
    ("sys/module/kvm/refcnt", "1\n"),
    ("sys/module/kvm_amd/initstate", "live\n"),
    ("sys/module/kvm_amd/refcnt", "0\n"),
    ("sys/module/kvm_amd/parameters/avic", "Y\n"),
    ("sys/module/kvm_amd/parameters/npt", "Y\n"),
    ("sys/module/kvm_amd/parameters/sev_snp", "N\n"),
    ("sys/module/kvm_amd/parameters/enable_ipiv", "Y\n"),
    ("sys/module/kvm_amd/parameters/enable_device_posted_irqs", "Y\n"),
    ("sys/class/iommu/ivhd0/amd-iommu/features", "25bf732fa2295afe:1d\n"),
];

#[test]
fn names_of_machines_cannot_steer_the_terminal() {
    let root = Root::new("names", ON);
    let name = "web\x1b]0;owned\x07\u{202e}x";
    root.put("proc/7/cmdline", &format!("qemu-system-x86_64\0-name\0{name}\0-enable-kvm\0"));
    root.put("etc/pve/qemu-server/100.conf", &format!("name: {name}\nmachine: q35\n"));
    let verbs: &[&[&str]] = &[
        &["why"],
        &["why", "-q"],
        &["why", "nosuch"],
        &["why", "--format", "json"],
        &["why", "--format", "nagios"],
        &["report"],
        &["check"],
        &["enable", "--include", "all"],
        &["enable", "--format", "json"],
    ];
    let steers = |c: char| (c.is_control() && c != '\n') || c == '\u{202e}';
    for arguments in verbs {
        let output = avicenna(arguments, &root.0);
        for stream in [&output.stdout, &output.stderr] {
            let text = String::from_utf8(stream.clone()).unwrap();
            assert!(!text.contains(steers), "{arguments:?}: {text:?}");
        }
    }
    let lint =
        Command::new(env!("CARGO_BIN_EXE_avicenna")).arg("lint").arg(&root.0).output().unwrap();
    assert!(!stdout(&lint).contains(steers), "{:?}", stdout(&lint));
    assert!(stdout(&lint).contains("AV001"), "{:?}", stdout(&lint));
}

#[test]
fn archive_that_is_cut_off_is_never_a_clean_answer() {
    let root = Root::new("cut", &[]);
    let mut builder = tar::Builder::new(vec![]);
    let all = ON.iter().chain(&[("proc/7/cmdline", "bash"), ("proc/8/cmdline", "init")]);
    for (path, text) in all {
        let mut header = tar::Header::new_gnu();
        header.set_size(text.len() as u64);
        header.set_mode(0o644);
        builder.append_data(&mut header, path, text.as_bytes()).unwrap();
    }
    let bytes = builder.into_inner().unwrap();
    let (whole, cut) = (root.0.join("whole.tar"), root.0.join("cut.tar"));
    fs::write(&whole, &bytes).unwrap();
    // The end mark and the last file are gone.
    fs::write(&cut, &bytes[..bytes.len() - 1024 - 1024]).unwrap();
    for arguments in [&["check"][..], &["why"], &["enable"], &["snapshot", "-o", "-"]] {
        let output = avicenna(arguments, &cut);
        let said = String::from_utf8(output.stderr.clone()).unwrap();
        assert_eq!(output.status.code(), Some(3), "{arguments:?}: {said}");
        assert!(said.contains("broken or cut off"), "{arguments:?}: {said}");
    }
    let lint = Command::new(env!("CARGO_BIN_EXE_avicenna")).arg("lint").arg(&cut).output().unwrap();
    assert_eq!(lint.status.code(), Some(3));
    assert_eq!(avicenna(&["check"], &whole).status.code(), Some(0));
    let none = avicenna(&["why"], &whole);
    assert_eq!(none.status.code(), Some(0), "{none:?}");
}

#[test]
fn monitoring_reads_metrics_and_one_line() {
    let root = Root::new("monitoring", ON);
    root.put("proc/7/cmdline", "qemu-system-x86_64\0-name\0web\0-enable-kvm\0");
    let metrics = stdout(&avicenna(&["check", "--format", "prometheus"], &root.0));
    assert!(metrics.contains("# TYPE avicenna_check_status gauge\n"), "{metrics}");
    assert!(
        metrics.contains("avicenna_check_status{item=\"kvm-avic\",subject=\"host\"} 1\n"),
        "{metrics}"
    );
    assert!(metrics.contains("avicenna_check_timestamp_seconds "), "{metrics}");
    for line in metrics.lines().filter(|line| !line.starts_with('#')) {
        let (_, value) = line.rsplit_once(' ').unwrap();
        assert!(value == "NaN" || value.parse::<f64>().is_ok(), "{line}");
    }
    let machines = stdout(&avicenna(&["why", "--format", "prometheus"], &root.0));
    assert!(machines.contains("avicenna_apicv_active{vm=\"web\",pid=\"7\"} 0\n"), "{machines}");
    assert!(
        machines.contains("avicenna_apicv_inhibit{vm=\"web\",pid=\"7\",reason=\"PIT_REINJ\"} 1\n"),
        "{machines}"
    );
    let line = avicenna(&["check", "--format", "nagios"], &root.0);
    assert!(stdout(&line).starts_with("AVICENNA OK: AVIC is on"), "{}", stdout(&line));
    assert_eq!((stdout(&line).lines().count(), line.status.code()), (1, Some(0)));
    let why = avicenna(&["why", "--format", "nagios"], &root.0);
    assert!(
        stdout(&why)
            .starts_with("AVICENNA WARNING: 0 of 1 virtual machines use AVIC; web: PIT_REINJ")
    );
    assert_eq!(why.status.code(), Some(1));
}

/// Very different hosts: their files beside or instead of [`ON`], what the answers say, and the
/// exit status.
#[test]
fn ten_very_different_hosts_are_answered_and_quietly_in_one_line_each() {
    let intel = |flags: &str, vmx: &str| {
        format!(
            "processor\t: 0\nvendor_id\t: GenuineIntel\ncpu family\t: 6\nmodel\t\t: 143\nstepping\t: 8\n\
             flags\t\t: {flags}\nvmx flags\t: {vmx}\n"
        )
    };
    let spr = intel("vmx cx16", "vtpr vapic_reg vid posted_intr ipi_virt");
    let desktop = intel("vmx cx16", "vtpr");
    let guest = "processor\t: 0\nvendor_id\t: GenuineIntel\ncpu family\t: 6\nmodel\t\t: 143\nflags\t\t: cx16 hypervisor\n";
    let milan = GENOA.replace("avic x2avic ", "").replace("9654", "7763");
    let zen2 = GENOA.replace("25", "23").replace(": 17", ": 49").replace("x2avic ", "");
    let kvm_intel: Vec<(&str, &str)> = vec![
        ("proc/sys/kernel/osrelease", "6.12.1\n"),
        ("proc/cmdline", "quiet\n"),
        ("sys/module/kvm/refcnt", "1\n"),
        ("sys/module/kvm_intel/refcnt", "0\n"),
        ("sys/module/kvm_intel/parameters/enable_ipiv", "Y\n"),
        ("sys/class/iommu/dmar0/intel-iommu/cap", "9ed008c40780c66\n"),
        ("sys/class/iommu/dmar0/intel-iommu/ecap", "3ee9e86f050df\n"),
        ("dmesg.txt", "[    0.1] DMAR-IR: Enabled IRQ remapping in x2apic mode\n"),
    ];
    let amd = |changes: &[(&'static str, &'static str)]| -> Vec<(&str, &str)> {
        let kept = ON.iter().filter(|(path, _)| !changes.iter().any(|(other, _)| other == path));
        kept.chain(changes).copied().collect()
    };
    let with_cpu = |mut files: Vec<(&'static str, &'static str)>, cpu: &str| {
        files.retain(|(path, _)| *path != "proc/cpuinfo");
        let mut files: Vec<(String, String)> =
            files.into_iter().map(|(path, text)| (path.to_owned(), text.to_owned())).collect();
        files.push(("proc/cpuinfo".to_owned(), cpu.to_owned()));
        files
    };
    let owned = |files: Vec<(&'static str, &'static str)>| with_cpu(files, GENOA);
    let intel_host = |parameter: &'static str, cpu: &str| {
        let mut files = kvm_intel.clone();
        files.push(("sys/module/kvm_intel/parameters/enable_apicv", parameter));
        with_cpu(files, cpu)
    };
    let off = ("sys/module/kvm_amd/parameters/avic", "N\n");
    type Files = Vec<(String, String)>;
    let rows: Vec<(&str, Files, &[&str], i32)> = vec![
        (
            "all on",
            owned(amd(&[])),
            &["This hardware can: AVIC and x2AVIC", "AVIC is on, for IPIs and"],
            0,
        ),
        (
            "old kernel's default",
            owned(amd(&[off, ("proc/sys/kernel/osrelease", "6.1.0-30-amd64\n")])),
            &["AVIC is off, because off is the default before 6.18", "Change: ", "module reload"],
            1,
        ),
        (
            "two causes",
            owned(amd(&[
                off,
                ("etc/modprobe.d/kvm.conf", "options kvm_amd \\\n  avic=0\n"),
                ("proc/cmdline", "amd_iommu_intr=legacy\n"),
            ])),
            &["avic is given as off; and amd_iommu_intr=legacy is given", "(costs: reboot)"],
            1,
        ),
        (
            "Milan",
            with_cpu(amd(&[off]), &milan),
            &["This hardware cannot: the processor has no AVIC", "AVIC is off, and stays off"],
            1,
        ),
        (
            "Zen 2",
            with_cpu(amd(&[("sys/module/kvm_amd/parameters/enable_ipiv", "N\n")]), &zen2),
            &[
                "AVIC, with IPIs left to software (erratum 1235)",
                "IPIs are not accelerated, because erratum 1235",
            ],
            1,
        ),
        (
            "Sapphire Rapids",
            intel_host("Y\n", &spr),
            &["APICv and IPI virtualization", "APICv is on"],
            0,
        ),
        (
            "desktop without posted interrupts",
            intel_host("N\n", &desktop),
            &["This hardware cannot: the processor has no APIC-register virtualization"],
            1,
        ),
        (
            "virtual machine",
            with_cpu(
                vec![("proc/sys/kernel/osrelease", "6.12.1\n"), ("sys/module/kvm/refcnt", "0\n")],
                guest,
            ),
            &["This virtual machine cannot: its hypervisor shows it no VMX"],
            1,
        ),
        (
            "CPUID listing",
            vec![(
                "cpuid.txt".to_owned(),
                "CPU:\n0x00000000 0x00: eax=0x10 ebx=0x68747541 ecx=0x444d4163 edx=0x69746e65\n\
                 0x00000001 0x00: eax=0x00a10f11 ebx=0x0 ecx=0x7efa320b edx=0x178bfbff\n\
                 0x80000001 0x00: eax=0x00a10f11 ebx=0x0 ecx=0x75c237ff edx=0x2fd3fbff\n\
                 0x8000000a 0x00: eax=0x1 ebx=0x8000 ecx=0x0 edx=0x119fbfff\n"
                    .to_owned(),
            )],
            &["This hardware can: AVIC and x2AVIC", "Whether it is on cannot be seen here"],
            0,
        ),
        (
            "process list alone",
            vec![(
                "sos_commands/process/ps_auxwww".to_owned(),
                "USER PID %CPU %MEM VSZ RSS TTY STAT START TIME COMMAND\n".to_owned(),
            )],
            &["No processor is described in this input"],
            3,
        ),
    ];
    for (name, files, said, status) in rows {
        let root = Root::new(&name.replace(' ', "-"), &[]);
        files.iter().for_each(|(file, text)| root.put(file, text));
        let output = avicenna(&["check"], &root.0);
        let text = stdout(&output);
        for part in said {
            assert!(text.contains(part), "{name}: no '{part}' in\n{text}");
        }
        let quiet = avicenna(&["check", "-q"], &root.0);
        let (line, answer) = (stdout(&quiet), ["yes: ", "no: ", "", "unknown: "][status as usize]);
        assert!(line.starts_with(answer) && line.lines().count() == 1, "{name}: {line}");
        assert_eq!(quiet.status.code(), Some(status), "{name}: {line}");
        assert_eq!(output.status.code(), Some(status), "{name}\n{text}");
    }
}

#[test]
fn plan_that_changes_nothing_is_no_finding() {
    let milan = GENOA.replace("avic x2avic ", "");
    let root = Root::new("nothing", ON);
    assert_eq!(avicenna(&["enable"], &root.0).status.code(), Some(0));
    root.put("proc/cpuinfo", &milan);
    root.put("sys/module/kvm_amd/parameters/avic", "N\n");
    let output = avicenna(&["enable"], &root.0);
    assert!(stdout(&output).contains("No step"), "{}", stdout(&output));
    assert_eq!(
        output.status.code(),
        Some(0),
        "what hardware lacks is not a step: check tells of it"
    );
}

#[test]
fn live_host_cites_no_paths_of_snapshots() {
    let output =
        Command::new(env!("CARGO_BIN_EXE_avicenna")).args(["check", "-v"]).output().unwrap();
    let text = stdout(&output);
    assert!(text.starts_with("live host"), "{text}");
    for path in ["avicenna/cpuid", "avicenna/msr", "avicenna/dmesg"] {
        assert!(!text.contains(path), "{path} in {text}");
    }
}

#[test]
fn wrong_verb_is_told_the_right_one() {
    let root = Root::new("verbs", ON);
    root.put("start.sh", "qemu-system-x86_64 -enable-kvm -m 1G\n");
    root.put(
        "decoded.txt",
        "CPU 0:\n   vendor_id = \"AuthenticAMD\"\n   version information (1/eax):\n",
    );
    root.put("lscpu.json", "{\"lscpu\": [{\"field\": \"Vendor ID:\", \"data\": \"AuthenticAMD\", \"children\": [{\"field\": \"Flags:\", \"data\": \"svm npt avic\"}]}]}\n");
    let run = |words: &[&str]| {
        let output = Command::new(env!("CARGO_BIN_EXE_avicenna")).args(words).output().unwrap();
        let text = [output.stdout.clone(), output.stderr.clone()].concat();
        (String::from_utf8(text).unwrap(), output.status.code())
    };
    let path = |name: &str| root.0.join(name).to_str().unwrap().to_owned();
    for (words, said) in [
        (["check", &path("start.sh")], "use avicenna lint"),
        (["check", &path("decoded.txt")], "cpuid -r"),
        (["lint", &path("proc/cpuinfo")], "avicenna check"),
        (["why", &path("lscpu.json")], "virtual machines were not recorded"),
    ] {
        let (text, status) = run(&words);
        assert!(text.contains(said), "{words:?}: {text}");
        assert_eq!(status, Some(3), "{words:?}");
    }
    let (text, _) = run(&["check", "--all", &path("lscpu.json")]);
    assert!(text.contains("yes      the CPU has AVIC"), "{text}");
}

#[test]
fn a_file_that_was_given_is_cited_by_its_name() {
    let root = Root::new("named", &[]);
    let lscpu = "Architecture: x86_64\nVendor ID: AuthenticAMD\nFlags: svm npt\n";
    root.put("lscpu.txt", lscpu);
    root.put("some-cpuinfo", GENOA);
    for name in ["lscpu.txt", "some-cpuinfo"] {
        let file = root.0.join(name);
        let output = Command::new(env!("CARGO_BIN_EXE_avicenna"))
            .args(["check", "--verbose"])
            .arg(&file)
            .output()
            .unwrap();
        let text = stdout(&output).replace("\n                ", " ");
        assert!(text.contains(&format!("at {}", file.display())), "{text}");
        assert!(!text.contains("sos_commands") && !text.contains("/proc/cpuinfo"), "{text}");
    }
}

/// CPUID as `cpuid -r` writes it, of family 6: VMX at leaf 1 ECX bit 5, a hypervisor's bit at 31.
fn intel_dump(signature: u32, leaf_1_ecx: u32) -> String {
    format!(
        "CPU:\n   0x00000000 0x00: eax=0x00000016 ebx=0x756e6547 ecx=0x6c65746e edx=0x49656e69\n   \
         0x00000001 0x00: eax={signature:#010x} ebx=0x00100800 ecx={leaf_1_ecx:#010x} edx=0xbfebfbff\n"
    )
}

#[test]
fn a_dump_of_an_intel_processor_is_answered_by_its_model_where_that_tells() {
    let root = Root::new("models", &[]);
    for (name, signature, ecx, said) in [
        ("skylake-sp", 0x0005_0654, 0x20, "hardware can: APICv, as all published dumps"),
        ("haswell-ep", 0x0003_06F2, 0x20, "hardware can: APICv, as all published dumps"),
        ("skylake", 0x0005_06E3, 0x20, "hardware cannot: the processor has no APIC-register"),
        ("sandy-bridge-ep", 0x0002_06D7, 0x20, "hardware cannot: the processor has no APIC-reg"),
        // Servers of this model have it, desktops have not.
        ("ivy-bridge-e", 0x0003_06E4, 0x20, "can is not known"),
        // The model is below the hypervisor, what it shows is not.
        ("guest", 0x0005_0654, 0x8000_0020, "can is not known"),
    ] {
        root.put(name, &intel_dump(signature, ecx));
        let output = Command::new(env!("CARGO_BIN_EXE_avicenna"))
            .args(["check", "-q"])
            .arg(root.0.join(name))
            .output()
            .unwrap();
        let text = stdout(&output).replace("\n  ", " ");
        assert!(text.contains(said), "{name}: {text}");
    }
}
