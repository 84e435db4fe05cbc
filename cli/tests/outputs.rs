//! A full or closed standard output or standard error ends the talk, never the work, and no verb
//! answers with 101, the status of a panic.

mod made_up;
mod scene;

use scene::Scene;
use std::fs::{self, File};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// What a stream is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stream {
    Taken,
    Full,
    Broken,
    Closed,
}

impl Stream {
    fn word(self, number: u8) -> String {
        match self {
            Stream::Taken => format!("{number}>/dev/null"),
            Stream::Full => format!("{number}>/dev/full"),
            // The reader has gone when the program begins.
            Stream::Broken => format!("{number}>&9"),
            Stream::Closed => format!("{number}>&-"),
        }
    }
}

fn run(scene: &Scene, words: &[&str], stdout: Stream, stderr: Stream) -> ExitStatus {
    run_with(scene, words, "</dev/null", stdout, stderr)
}

fn run_with(
    scene: &Scene,
    words: &[&str],
    stdin: &str,
    stdout: Stream,
    stderr: Stream,
) -> ExitStatus {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let script = format!("exec \"$@\" {} {} 9>&-", stdout.word(1), stderr.word(2));
    let script = format!("exec 9>&0; exec {stdin}; {script}");
    let mut child = Command::new("sh")
        .args(["-c", &script, "sh", env!("CARGO_BIN_EXE_avicenna")])
        .args(words)
        .current_dir(scene.0.path())
        .env("XDG_CACHE_HOME", scene.at("cache"))
        .stdin(Stdio::from(writer))
        .spawn()
        .unwrap();
    let begun = Instant::now();
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            return status;
        }
        if begun.elapsed() > Duration::from_secs(60) {
            child.kill().unwrap();
            panic!("{words:?} does not end with {stdout:?} and {stderr:?}");
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Every verb: what needs nothing but a folder, or fails.
const VERBS: &[&str] = &[
    "--help",
    "--version",
    "check --root host",
    "check --all --root host",
    "check --format json --root host",
    "check --format prometheus --root host",
    "check --format nagios --root host",
    "why --root host",
    "why --format json --root host",
    "why nosuch --root host",
    "enable --root host",
    "enable --format json --root host",
    "rollback --list --root host",
    "rollback --yes --root host",
    "lint bad.sh",
    "lint --format json bad.sh",
    "lint --format sarif bad.sh",
    "lint --format github bad.sh",
    "lint --diff bad.sh",
    "lint --list",
    "lint --explain AV001",
    "lint nosuch",
    "report --format json host",
    "snapshot -o - --root host",
    "snapshot --show-rules",
    "machine inspect nosuch",
    "machine list-cpus",
    "machine list-cpus --format json",
    "machine list-variants",
    "machine price nosuch",
    "machine run --kernel nosuch",
    "machine serve --stdio --kernel nosuch",
    "machine test bad.sh",
    "machine trace nosuch",
    "exits report nosuch",
    "exits compare nosuch nosuch",
    "exits record --rung monitor",
    "exits live --rung nosuch",
    "bench --kernel nosuch",
    "bench calibrate --repeats 0",
    "lab run --kernel nosuch",
    "lab recipes",
    "lab senduipi",
    "lab calibrate nosuch",
    "lab compare nosuch nosuch",
    "lab evidence",
    "lab exec --kernel nosuch true",
    "lab explore --kernel nosuch",
    "lab explore replay nosuch",
    "lab explore minimise nosuch",
    "lab explore bisect nosuch",
    "lab explore reproducer nosuch",
    "lab explore contest --kernel nosuch",
    "lab suite --kernel nosuch nosuch",
    "lab watch ipi --kernel nosuch",
    "lab predict --kernel nosuch",
    "lab shell --kernel nosuch",
    "lab clear",
    "experiment list",
    "experiment show firecracker-pit",
    "experiment check firecracker-pit",
    "experiment run nosuch",
    "experiment status nosuch",
    "experiment resume nosuch",
    "experiment restore nosuch",
    "experiment report nosuch",
    "qemu -kernel nosuch",
    "generate completions bash",
    "nosuch",
];

/// The verbs below these, as their help names them, down to those that have none below.
fn verbs(above: &str) -> Vec<String> {
    let mut help = Command::new(env!("CARGO_BIN_EXE_avicenna"));
    let help = help.args(above.split_whitespace()).arg("--help").output().unwrap();
    let help = String::from_utf8(help.stdout).unwrap();
    let list = help.split_once("\nCommands:\n").map_or("", |(_, list)| list);
    let rows = list.lines().take_while(|line| !line.is_empty());
    let names = rows.filter_map(|row| row.strip_prefix("  ")?.split(' ').next());
    let names = names.filter(|name| !name.is_empty() && *name != "help");
    let below: Vec<String> =
        names.flat_map(|name| verbs(format!("{above} {name}").trim())).collect();
    if below.is_empty() { vec![above.to_owned()] } else { below }
}

#[test]
fn no_verb_panics_or_hangs_when_nobody_listens() {
    let scene = Scene::new();
    let all = verbs("");
    assert!(all.len() > 30, "{all:?}");
    for verb in &all {
        assert!(VERBS.iter().any(|row| row.starts_with(verb)), "no row in VERBS for {verb}");
    }
    let of_all = all.iter().map(|verb| format!("{verb} --nosuch"));
    let rows = VERBS.iter().map(|row| (*row).to_owned());
    for verb in rows.chain(of_all) {
        let words: Vec<&str> = verb.split(' ').collect();
        let usual = run(&scene, &words, Stream::Taken, Stream::Taken);
        for stream in [Stream::Full, Stream::Broken, Stream::Closed] {
            for (stdout, stderr) in
                [(stream, Stream::Taken), (Stream::Taken, stream), (stream, stream)]
            {
                let status = run(&scene, &words, stdout, stderr);
                let at = format!("{verb}: {stdout:?} {stderr:?}: {status:?}");
                assert!(status.code() != Some(101) && status.signal().is_none(), "{at}");
                // Only where the result is lost the status may be another: nobody can tell. A
                // reader of text who has gone has seen enough; half an archive is none.
                let is_archive = words.starts_with(&["snapshot", "-o", "-"]);
                let is_lost = stdout == Stream::Full || stdout == Stream::Broken && is_archive;
                let is_right = status.code() == usual.code() || is_lost && status.code() == Some(3);
                // Help and usage are printed by the parser of arguments.
                assert!(is_right || verb.starts_with("--"), "{at}, usually {usual:?}");
            }
        }
        let status = run_with(&scene, &words, "<&-", Stream::Taken, Stream::Taken);
        assert_eq!(status.code(), usual.code(), "{verb} without standard input");
    }
}

#[test]
fn what_was_begun_is_finished_and_verified_with_nobody_listening() {
    for stream in [Stream::Full, Stream::Broken, Stream::Closed] {
        for (stdout, stderr) in [(stream, Stream::Taken), (stream, stream)] {
            let scene = Scene::new();
            let is_lost = stream == Stream::Full;
            let right = |status: ExitStatus| {
                status.code() == Some(0) || is_lost && status.code() == Some(3)
            };
            let before = scene.read("host/etc/default/grub");
            let words = ["enable", "--apply", "--yes", "--root", "host"];
            let status = run(&scene, &words, stdout, stderr);
            assert!(right(status), "{stdout:?} {stderr:?}: {status:?}");
            assert!(!scene.read("host/etc/default/grub").contains("legacy"));
            assert!(scene.read("host/etc/modprobe.d/avicenna.conf").contains("avic=1"));
            let status = run(&scene, &["rollback", "--yes", "--root", "host"], stdout, stderr);
            assert!(right(status), "{stdout:?} {stderr:?}: {status:?}");
            assert_eq!(scene.read("host/etc/default/grub"), before);
            run(&scene, &["lint", "--fix", "bad.sh", "worse.sh"], stdout, stderr);
            for name in ["bad.sh", "worse.sh"] {
                assert!(
                    scene.read(name).contains("lost_tick_policy=discard"),
                    "{stream:?}: {name}"
                );
            }
        }
    }
}

#[test]
fn head_sees_one_line_and_the_change_is_made() {
    let scene = Scene::new();
    let script = "{ \"$0\" enable --apply --yes --root host; echo $? >status; } | head -1 >line";
    let status = Command::new("bash")
        .args(["-c", script, env!("CARGO_BIN_EXE_avicenna")])
        .current_dir(scene.0.path())
        .stderr(Stdio::null())
        .status();
    assert!(status.unwrap().success());
    assert_eq!(scene.read("status"), "0\n");
    assert_eq!(scene.read("line").lines().count(), 1);
    assert!(scene.read("host/etc/modprobe.d/avicenna.conf").contains("avic=1"));
    let record = scene.read("host/var/lib/avicenna/changes/000001.json");
    assert!(record.contains("\"is_rolled_back\": false"), "{record}");
}

#[test]
fn colours_of_ours_are_colours_and_those_of_names_are_not() {
    let scene = Scene::new();
    let name = "qemu-system-x86_64\0-name\0a\x1b[32myes\x1b[0m\0-enable-kvm\0";
    fs::write(scene.at("host/proc/4711/cmdline"), name).unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_avicenna"))
        .args(["why", "--root", "host"])
        .current_dir(scene.0.path())
        .env("CLICOLOR_FORCE", "1")
        .env_remove("NO_COLOR")
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("\x1b[31m") || text.contains("\x1b[33m"), "{text}");
    assert!(!text.contains("\x1b[32myes") && text.contains("a\\u{1b}[32myes"), "{text}");
}

#[test]
fn result_that_replaces_a_file_is_whole_or_not_there() {
    let scene = Scene::new();
    let output = scene.at("out.json");
    fs::write(&output, "old").unwrap();
    let is_there = |path: &Path| fs::read_to_string(path).unwrap();
    let limit = "ulimit -f 1; trap '' XFSZ; exec \"$0\" snapshot --force -o out.json --root host";
    let status = Command::new("bash")
        .args(["-c", limit, env!("CARGO_BIN_EXE_avicenna")])
        .current_dir(scene.0.path())
        .stderr(File::create(scene.at("said")).unwrap())
        .status()
        .unwrap();
    let is_whole = status.success();
    assert!(is_whole || is_there(&output) == "old", "{}", scene.read("said"));
    let left = fs::read_dir(scene.0.path()).unwrap().flatten();
    let left = left.filter(|entry| entry.file_name().to_string_lossy().starts_with(".avicenna-"));
    assert_eq!(left.count(), 0);
}

/// Asks for memory until nothing more is taken, since nobody takes the answers.
fn ask_for_ever(mut line: &std::net::TcpStream) {
    use std::io::Write;
    line.set_nonblocking(true).unwrap();
    let question = "m0,400";
    let sum = question.bytes().fold(0u8, |sum, byte| sum.wrapping_add(byte));
    let packet = format!("${question}#{sum:02x}");
    let mut refused = 0;
    while refused < 20 {
        match line.write(packet.as_bytes()) {
            Ok(1..) => refused = 0,
            Ok(0) | Err(_) => {
                refused += 1;
                std::thread::sleep(Duration::from_millis(20));
            }
        }
    }
}

/// No peer comes, one comes from elsewhere, one comes and the machine stands still, or one asks and
/// does not listen: an interrupt signal ends each.
#[test]
fn debugger_that_is_waited_for_or_halts_the_machine_does_not_keep_it_from_ending() {
    use std::io::{BufRead, BufReader};
    let kernel = tempfile::NamedTempFile::new().unwrap();
    fs::write(kernel.path(), image::BENCHMARK).unwrap();
    let path = kernel.path().to_str().unwrap();
    let run = |address: &str| {
        Command::new(env!("CARGO_BIN_EXE_avicenna"))
            .args(["machine", "run", "--gdb", address, "--kernel", path])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap()
    };
    let refused = run("0.0.0.0:0").wait_with_output().unwrap();
    assert_eq!(refused.status.code(), Some(2), "{refused:?}");
    assert!(String::from_utf8_lossy(&refused.stderr).contains("--gdb-any"), "{refused:?}");
    for (is_halted, is_deaf) in [(false, false), (true, false), (true, true)] {
        let mut child = run("127.0.0.1:0");
        let mut said = String::new();
        BufReader::new(child.stderr.take().unwrap()).read_line(&mut said).unwrap();
        let address = said.trim().rsplit(' ').next().unwrap().to_owned();
        let line = is_halted.then(|| std::net::TcpStream::connect(&address).unwrap());
        std::thread::sleep(Duration::from_millis(200));
        if let Some(line) = line.as_ref().filter(|_| is_deaf) {
            ask_for_ever(line);
        }
        let pid = rustix::process::Pid::from_child(&child);
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
        let begun = Instant::now();
        let status = loop {
            if let Some(status) = child.try_wait().unwrap() {
                break status;
            }
            if begun.elapsed() > Duration::from_secs(20) {
                child.kill().unwrap();
                panic!("halted {is_halted}, deaf {is_deaf}: it does not end ({said})");
            }
            std::thread::sleep(Duration::from_millis(10));
        };
        assert_eq!(status.code(), Some(130), "halted {is_halted}: {said}");
        drop(line);
    }
}
