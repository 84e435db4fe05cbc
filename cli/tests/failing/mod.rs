//! Runs a program and lets one of its system calls fail, by `fail.c` beside this file.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::LazyLock;
use std::time::{Duration, Instant};

/// What calls answer instead of being made: numbers of x86-64 Linux.
const ERRORS: [i32; 7] = [
    5,  // EIO
    4,  // EINTR
    28, // ENOSPC
    13, // EACCES
    38, // ENOSYS
    11, // EAGAIN
    NO_MEMORY,
];
/// ENOMEM, of calls that ask for memory.
const NO_MEMORY: i32 = 12;
/// A program that gets no memory is ended by its own allocator, or by who loads it.
const ENDED: [i32; 2] = [128 + 6, 128 + 11];
/// No run takes so long.
const LONGEST: Duration = Duration::from_secs(300);

static PROGRAM: LazyLock<Result<PathBuf, String>> = LazyLock::new(|| {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let program = folder.join(format!("fail-{}", std::process::id()));
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/failing/fail.c");
    let compiled = Command::new("gcc").args(["-O1", "-o"]).args([&program, &source]).status();
    match compiled {
        Ok(status) => assert!(status.success(), "fail.c does not compile"),
        Err(error) => return Err(format!("no gcc: {error}")),
    }
    let tried = Command::new(&program).args(["5", "0", "0", "/bin/true"]).output().unwrap();
    let why = String::from_utf8_lossy(&tried.stderr).trim().to_owned();
    if tried.status.success() { Ok(program) } else { Err(format!("calls cannot fail: {why}")) }
});

/// Whether calls can be made to fail here; if not it is said.
pub fn is_possible() -> bool {
    PROGRAM.as_ref().inspect_err(|why| println!("skipped: {why}")).is_ok()
}

/// What is to fail: the how-manieth call of a kind, and with which error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    call: i32,
    nth: usize,
    code: i32,
}

/// The faults that are tried, of what an attempt runs. Usually each kind of call fails the first
/// time, the `step`th, and so on in powers of it, the errors taking turns, so that it is the same
/// faults whenever the program is the same; with `AVICENNA_FAULTS=all` each call with each error.
pub fn faults(attempt: impl Fn(Fault) -> Run, step: usize) -> Vec<Fault> {
    let is_all = std::env::var("AVICENNA_FAULTS").is_ok_and(|word| word == "all");
    let mut faults = Vec::new();
    let of_files = attempt(Fault { call: 0, nth: 0, code: ERRORS[0] }).calls;
    let of_memory = attempt(Fault { call: 0, nth: 0, code: NO_MEMORY }).calls;
    for (calls, codes) in [(of_files, &ERRORS[..ERRORS.len() - 1]), (of_memory, &[NO_MEMORY][..])] {
        for (call, count) in calls {
            let powers = std::iter::successors(Some(1), |nth| Some(nth * step));
            let numbers: Vec<usize> = match is_all {
                true => (1..=count).collect(),
                false => powers.take_while(|nth| *nth <= count).collect(),
            };
            for nth in numbers {
                let turn = [codes[faults.len() % codes.len()]];
                let codes = if is_all { codes } else { &turn };
                faults.extend(codes.iter().map(|code| Fault { call, nth, code: *code }));
            }
        }
    }
    faults
}

/// How a run ended in which a call failed.
#[derive(Debug)]
pub struct Run {
    pub status: i32,
    pub said: String,
    /// Otherwise there were not so many.
    pub has_failed: bool,
    /// How often each call was made.
    calls: BTreeMap<i32, usize>,
    code: i32,
}

impl Run {
    /// Neither a panic nor a signal, but where memory was refused.
    pub fn is_sound(&self) -> bool {
        let is_ended = self.code == NO_MEMORY && ENDED.contains(&self.status);
        is_ended || self.status < 128 && self.status != 101
    }
}

/// Runs a command in its folder, with a fault.
pub fn run(command: &Command, fault: Fault) -> Run {
    let folder = command.get_current_dir().expect("a folder");
    let file = |name| fs::File::create(folder.join(name)).unwrap();
    let mut failing = Command::new("sh");
    failing
        .args(["-c", "exec \"$0\" \"$@\" 3>calls"])
        .arg(PROGRAM.as_ref().unwrap())
        .args([fault.code.to_string(), fault.call.to_string(), fault.nth.to_string()])
        .arg(command.get_program())
        .args(command.get_args())
        .current_dir(folder)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(file("stderr"));
    for (name, value) in command.get_envs() {
        if let Some(value) = value {
            failing.env(name, value);
        }
    }
    let mut child = failing.spawn().unwrap();
    let status = ended(&mut child, LONGEST);
    let status = status.unwrap_or_else(|| panic!("{fault:?}: it does not end"));
    let calls = fs::read_to_string(folder.join("calls")).unwrap();
    let made = calls.lines().filter_map(|line| {
        let (call, count) = line.strip_prefix("call ")?.split_once(' ')?;
        Some((call.parse().ok()?, count.parse().ok()?))
    });
    Run {
        status: status.code().unwrap(),
        said: String::from_utf8_lossy(&fs::read(folder.join("stderr")).unwrap()).into_owned(),
        has_failed: calls.contains("failed "),
        calls: made.collect(),
        code: fault.code,
    }
}

/// How a program ends within a time.
pub fn ended(child: &mut std::process::Child, most: Duration) -> Option<ExitStatus> {
    let begun = Instant::now();
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            return Some(status);
        }
        if begun.elapsed() > most {
            child.kill().unwrap();
            return None;
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}
