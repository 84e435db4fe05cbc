//! Little that becomes much: inputs of less than a megabyte in every format that is read. None
//! takes more than 256 MiB or a minute of processor time, none ends the program by a signal or a
//! panic.

use std::fs;
use std::path::Path;
use std::process::Command;

/// Runs the program below 1 GiB of addresses; prints its status, and its most memory in MiB.
const RUNNER: &str = "
import resource, subprocess, sys
def limit():
    resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30))
    resource.setrlimit(resource.RLIMIT_CPU, (60, 60))
null = subprocess.DEVNULL
done = subprocess.run(sys.argv[1:], preexec_fn=limit, timeout=900, stdin=null, stdout=null, stderr=null)
print(done.returncode, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss >> 10)
";
const MOST_MEMORY: u64 = 256;
const MOST_INPUT: usize = 1 << 20;

fn is_bounded(folder: &Path, words: &str) {
    let mut command = Command::new("python3");
    command.args(["-c", RUNNER, env!("CARGO_BIN_EXE_avicenna")]).args(words.split(' '));
    let output = command.current_dir(folder).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let figures: Vec<i64> = said.split_whitespace().filter_map(|word| word.parse().ok()).collect();
    let [status, memory] = figures[..] else {
        panic!("{words}: not finished: {}", String::from_utf8_lossy(&output.stderr))
    };
    assert!((0..=3).contains(&status), "{words}: status {status}");
    assert!(memory as u64 <= MOST_MEMORY, "{words}: {memory} MiB");
}

fn has_python() -> bool {
    let has = Command::new("python3").arg("-V").output().is_ok();
    if !has {
        println!("skipped: no python3");
    }
    has
}

fn write(folder: &Path, name: &str, bytes: &[u8]) {
    assert!(bytes.len() <= MOST_INPUT, "{name} is too large: {}", bytes.len());
    fs::write(folder.join(name), bytes).unwrap();
}

fn zstd(bytes: &[u8]) -> Vec<u8> {
    zstd::encode_all(bytes, 3).unwrap()
}

#[test]
fn configuration_that_nests_or_multiplies_is_bounded() {
    if !has_python() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let aliases = (1..30).fold("a0: &a0 [x,x]\n".to_owned(), |text, at| {
        let before = format!("*a{}", at - 1);
        format!("{text}a{at}: &a{at} [{}]\n", [before.as_str(); 9].join(","))
    });
    let variables = (1..60).fold("a0=xxxxxxxx\n".to_owned(), |text, at| {
        let before = format!("$a{}", at - 1);
        format!("{text}a{at}={before}{before}{before}{before}\n")
    });
    let entities: String = (1..30)
        .map(|at| format!("<!ENTITY a{at} \"{}\">", format!("&a{};", at - 1).repeat(10)))
        .collect();
    let attributes: String = (0..60_000).map(|at| format!(" a{at}='1'")).collect();
    let many = 300_000;
    let rows: [(&str, String); 29] = [
        ("lists.json", "[".repeat(3 * many)),
        ("objects.json", "{\"a\":".repeat(many / 2)),
        ("lists.yaml", "[".repeat(many) + &"]".repeat(many)),
        ("maps.yaml", "{a: ".repeat(many / 2)),
        ("aliases.yaml", format!("kind: VirtualMachine\n{aliases}")),
        ("deep.xml", format!("<domain type='kvm'>{}", "<a>".repeat(many))),
        ("wide.xml", format!("<domain type='kvm'>{}</domain>", "<a/>".repeat(many / 2))),
        ("attributes.xml", format!("<domain{attributes}/>")),
        (
            "entities.xml",
            format!("<!DOCTYPE l [<!ENTITY a0 'a'>{entities}]><domain>&a29;</domain>"),
        ),
        ("words.sh", format!("qemu-system-x86_64 -enable-kvm {}", "-S ".repeat(many))),
        ("flags.sh", format!("qemu-system-x86_64 -enable-kvm -cpu host{}", ",+a".repeat(many))),
        ("json.sh", format!("qemu-system-x86_64 -device '{}'", "{\"a\":".repeat(many / 2))),
        ("nested.sh", "$(".repeat(many)),
        ("braces.sh", format!("qemu-system-x86_64 -name {}", "{a,b}".repeat(60))),
        ("twice.sh", format!("a=x\n{}qemu-system-x86_64 -name $a\n", "a=$a$a$a$a\n".repeat(40))),
        ("doubled.sh", format!("{variables}qemu-system-x86_64 -enable-kvm -name $a59\n")),
        ("appended.sh", format!("a=x\n{}qemu-system-x86_64 -name $a\n", "a+=$a\n".repeat(50_000))),
        ("line.conf", "x".repeat(3 * many)),
        ("words.conf", format!("args: {}", "-S ".repeat(many))),
        ("options.conf", "options kvm avic=1\n".repeat(many / 6)),
        ("bad.conf", "options kvm_amd avic=0\n".repeat(many / 8)),
        ("bad.cmdline", "kvm_amd.avic=0 ".repeat(many / 5)),
        ("fewer.cmdline", "kvm_amd.avic=0 ".repeat(9_000)),
        ("arrays.sh", format!("a=(x)\n{}", "a+=(\"${a[@]}\")\n".repeat(many / 5))),
        ("loops.sh", "a=$b\nb=$a\n".repeat(many / 4)),
        ("functions.sh", "f() { f f; }\n".repeat(many / 5)),
        ("here.sh", "cat <<E\n".repeat(many / 3)),
        ("continued.sh", format!("qemu-system-x86_64 {}-S\n", "\\\n".repeat(many))),
        ("anchors.yaml", "- &a [*a, *a]\n".repeat(many / 5)),
    ];
    for (name, text) in rows {
        write(folder.path(), name, text.as_bytes());
        is_bounded(folder.path(), &format!("lint {name}"));
        is_bounded(folder.path(), &format!("lint --diff {name}"));
    }
    let plans = [
        ("lists.toml", format!("a={}", "[".repeat(many))),
        ("keys.toml", format!("{}=1", ["a"; 400_000].join("."))),
        ("tables.toml", "[[a]]\n".repeat(many / 2)),
    ];
    for (name, text) in plans {
        write(folder.path(), name, text.as_bytes());
        is_bounded(folder.path(), &format!("experiment check {name}"));
        is_bounded(folder.path(), &format!("lab run --recipe {name}"));
        is_bounded(folder.path(), &format!("machine run --kernel lists.json --cpu {name}"));
        is_bounded(folder.path(), &format!("machine run --kernel lists.json --costs {name}"));
    }
    // Each is judged with what all others give.
    let many = folder.path().join("modprobe.d");
    fs::create_dir(&many).unwrap();
    for file in 0..900 {
        let text = "options kvm_amd avic=0\n".repeat(45);
        fs::write(many.join(format!("{file}.conf")), text).unwrap();
    }
    is_bounded(folder.path(), "lint modprobe.d");
    is_bounded(folder.path(), "experiment check /dev/zero");
    is_bounded(folder.path(), "lab compare /dev/zero lists.json");
    is_bounded(folder.path(), "report lists.json");
}

#[test]
fn archives_of_much_are_bounded() {
    if !has_python() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let rows: [(&str, &str, &str); 6] = [
        ("zeros", "var/log/libvirt/qemu/{}.log", "\0"),
        ("log", "var/log/libvirt/qemu/{}.log", "kvm: avic x2avic AMD-Vi\n"),
        ("xml", "etc/libvirt/qemu/{}.xml", "<a/>"),
        ("words", "proc/{}/cmdline", "/usr/bin/qemu-system-x86_64\0-S\0"),
        ("modules", "etc/modprobe.d/{}.conf", "options kvm avic=1\n"),
        ("entries", "boot/loader/entries/{}.conf", "options avic=1\n"),
    ];
    for (name, path, piece) in rows {
        let content = piece.repeat((2 << 20) / piece.len());
        let mut builder = tar::Builder::new(zstd::Encoder::new(vec![], 1).unwrap());
        for index in 0..300 {
            let mut header = tar::Header::new_gnu();
            header.set_size(content.len() as u64);
            let path = path.replace("{}", &index.to_string());
            builder.append_data(&mut header, path, content.as_bytes()).unwrap();
        }
        let packed = builder.into_inner().unwrap().finish().unwrap();
        let name = format!("{name}.tar.zst");
        write(folder.path(), &name, &packed);
        for verb in ["check --root", "why --root", "lint", "snapshot --show --root"] {
            is_bounded(folder.path(), &format!("{verb} {name}"));
        }
    }
}

#[test]
fn kernels_and_recordings_that_promise_much_are_bounded() {
    if !has_python() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let perf = |size: u64, start: u64, length: u64| {
        let mut bytes = b"PERFILE2".to_vec();
        let words = [104, size, 104, length, start, length, 0, 0, u64::MAX, u64::MAX, u64::MAX];
        words.iter().for_each(|word: &u64| bytes.extend(word.to_le_bytes()));
        bytes.resize(900_000, 0xFF);
        bytes
    };
    let section = |announced: u64| {
        let mut bytes = b"\x17\x08\x44tracing6\0\0\x08\0\x10\0\0header_page\0".to_vec();
        bytes.extend(announced.to_le_bytes());
        bytes.resize(900_000, 0);
        bytes
    };
    let zeros = vec![0; 256 << 20];
    let mut long_line = b"# tracer: nop\n#\n qemu-1 [000] 1.0: kvm_exit: ".to_vec();
    long_line.resize(256 << 20, b'x');
    let mut packed_perf = b"PERFILE2\x68\0\0\0\0\0\0\0".to_vec();
    packed_perf.resize(256 << 20, 0);
    let rows = [
        ("huge.data", perf(144, 104, 1 << 62)),
        ("many.data", perf(16, 104, 800_000)),
        ("none.data", perf(0, 0, 0)),
        ("section.dat", section(1 << 60)),
        ("large.dat", section(250 << 20)),
        ("zeros.zst", zstd(&zeros)),
        ("line.zst", zstd(&long_line)),
        ("perf.zst", zstd(&packed_perf)),
    ];
    for (name, bytes) in rows {
        write(folder.path(), name, &bytes);
        is_bounded(folder.path(), &format!("exits report {name}"));
        is_bounded(folder.path(), &format!("check --root {name}"));
        is_bounded(
            folder.path(),
            &format!("machine run --memory 64M --max-instructions 1000 --kernel {name}"),
        );
        is_bounded(folder.path(), &format!("machine trace {name}"));
    }
    // An ELF file with as many headers as its head can say, each of 2^60 bytes.
    let mut elf = b"\x7fELF\x02\x01\x01".to_vec();
    elf.resize(16, 0);
    elf.extend([2, 0, 62, 0, 1, 0, 0, 0]);
    elf.extend(0x10_0000u64.to_le_bytes());
    elf.extend(64u64.to_le_bytes());
    elf.resize(54, 0);
    for count in [64u16, 65535] {
        let mut bytes = elf.clone();
        [56, count, 64, 0, 0].iter().for_each(|word| bytes.extend(word.to_le_bytes()));
        for _ in 0..count.min(8000) {
            bytes.extend([4, 0, 0, 0, 7, 0, 0, 0]);
            let words = [0u64, 0x10_0000, 0x10_0000, 1 << 59, 1 << 60, 4096];
            words.iter().for_each(|word| bytes.extend(word.to_le_bytes()));
        }
        write(folder.path(), "elf", &bytes);
        is_bounded(folder.path(), "machine run --memory 64M --max-instructions 1000 --kernel elf");
    }
}

/// A firmware table whose sum is right.
fn table(signature: &[u8; 4], body: &[u8]) -> Vec<u8> {
    let mut bytes = signature.to_vec();
    bytes.extend((36 + body.len() as u32).to_le_bytes());
    bytes.extend([1, 0]);
    bytes.resize(36, b' ');
    bytes.extend(body);
    bytes[9] = 0;
    bytes[9] = bytes.iter().fold(0u8, |sum, byte| sum.wrapping_sub(*byte));
    bytes
}

#[test]
fn what_a_host_says_of_itself_at_length_is_bounded() {
    if !has_python() {
        return;
    }
    let times = |head: &[u8], piece: &[u8]| [head, &piece.repeat(900_000 / piece.len())].concat();
    let device = [[0x11, 0xFF, 24, 0].as_slice(), &[0; 20]].concat();
    let unit = [0, 0, 16, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    let processor = [0, 8, 0, 0, 1, 0, 0, 0];
    let leaf = b"CPU 0:\n   0x00000000 0x00: eax=0x00000010 ebx=0x1 ecx=0x2 edx=0x3\n";
    let process = b"root 1 0 0 0 0 ? S 0 0 /usr/bin/qemu-system-x86_64 -S\n";
    let rows: [(&str, Vec<u8>); 13] = [
        ("sys/firmware/acpi/tables/IVRS", table(b"IVRS", &times(&[0; 12], &device))),
        ("sys/firmware/acpi/tables/DMAR", table(b"DMAR", &times(&[0x2E; 12], &unit))),
        ("sys/firmware/acpi/tables/APIC", table(b"APIC", &times(&[0; 8], &processor))),
        ("acpidump.txt", times(b"", b"IVRS @ 0x0\n  0000: 49 56 52 53\n")),
        ("proc/cpuinfo", times(b"", b"processor\t: 0\nflags\t\t: a\n\n")),
        ("proc/cmdline", times(b"", b"kvm_amd.avic=0 ")),
        ("proc/interrupts", times(b"    ", b"CPU0 ")),
        ("proc/7/cmdline", times(b"/usr/bin/qemu-system-x86_64\0", b"-device\0a\0")),
        ("cpuid.txt", times(b"", leaf)),
        ("sos_commands/kernel/dmesg", times(b"", b"AMD-Vi: a\n")),
        ("sos_commands/process/ps_auxwww", times(b"USER PID COMMAND\n", process)),
        ("sos_commands/processor/lscpu", times(b"", b"{\"lscpu\":[")),
        ("avicenna/manifest.json", times(b"", b"{\"unreadable\":")),
    ];
    for (name, bytes) in rows {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("host").join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        assert!(bytes.len() <= MOST_INPUT, "{name}");
        fs::write(path, bytes).unwrap();
        for verb in
            ["check --root", "why --root", "snapshot --show --root", "lint", "enable --root"]
        {
            is_bounded(folder.path(), &format!("{verb} host"));
        }
    }
}

#[test]
fn recordings_and_saved_machines_of_many_names_are_bounded() {
    if !has_python() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let line = |process: usize, cpu: usize, at: usize, event: &str| {
        format!("  q-{process} [{cpu}] .... 1.{at:06}: {event}\n")
    };
    let lines = |of: &dyn Fn(usize) -> String| {
        format!("# tracer: nop\n#\n{}", (0..12_000).map(of).collect::<String>())
    };
    let exit = "kvm_exit: reason hlt rip 0x1 info 0 0";
    let ends = "  q-1 [0] .... 0.000001: kvm_exit: reason hlt rip 0x1 info 0 0\n  \
                q-1 [0] .... 18446744073.0: kvm_entry: vcpu 1\n";
    let rows = [
        ("processes.txt", lines(&|at| line(at, 0, at, exit))),
        ("reasons.txt", lines(&|at| line(1, 0, at, &exit.replace("hlt", &format!("R{at}"))))),
        ("vcpus.txt", lines(&|at| line(1, 0, at, &format!("kvm_entry: vcpu {}", at * 99_991)))),
        ("processors.txt", lines(&|at| line(1, at * 7919, at, "kvm_entry: vcpu 1"))),
        ("all-of-time.txt", lines(&|_| ends.to_owned()).chars().take(900_000).collect()),
        ("symbols.txt", "ffffffff81000000 T _ZN1a1b17h0123456789abcdefE\n".repeat(18_000)),
    ];
    for (name, text) in rows {
        write(folder.path(), name, text.as_bytes());
        for format in ["text", "json", "html"] {
            is_bounded(folder.path(), &format!("exits report --format {format} {name}"));
        }
        is_bounded(folder.path(), &format!("exits compare {name} {name}"));
        is_bounded(folder.path(), &format!("machine run --kernel {name} --symbols {name}"));
    }
    fs::write(folder.path().join("kernel"), image::BENCHMARK).unwrap();
    let machine = "machine run --memory 16M --max-instructions 2000";
    let save = format!("{machine} --kernel kernel --snapshot-on instructions:1000 saved");
    let mut command = Command::new(env!("CARGO_BIN_EXE_avicenna"));
    let saved = command.args(save.split(' ')).current_dir(folder.path()).output().unwrap();
    let saved = fs::read(folder.path().join("saved")).unwrap_or_else(|_| panic!("{saved:?}"));
    // The sizes of memory and of the state as the head says them.
    for (at, size) in [(24, 1u64 << 40), (24, u64::MAX), (32, 1 << 31), (32, u64::MAX), (32, 1)] {
        let mut bytes = saved.clone();
        bytes[at..at + 8].copy_from_slice(&size.to_le_bytes());
        let sum = board::snapshot::checksum(&bytes[..48]);
        bytes[48..56].copy_from_slice(&sum.to_le_bytes());
        bytes.truncate(MOST_INPUT);
        write(folder.path(), "large", &bytes);
        is_bounded(folder.path(), &format!("{machine} --restore large"));
    }
}
