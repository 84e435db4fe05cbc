//! What a program's end says, by the kernel's conventions for selftests: exit status 0 is passed, 4
//! is skipped, and where it prints TAP its points count as well. A kernel that warned has failed
//! whatever the program says. [LINUX "Documentation/dev-tools/kselftest.rst"]

use super::tap::Tap;
use serde::Serialize;

/// The exit status for "skipped".
const SKIPPED: i32 = 4;
/// What the selftests of KVM print above why they failed.
const ASSERTION: &str = "==== Test Assertion Failure ====";
/// Of a reason, not more.
const MOST_REASON: usize = 300;

/// With what the kernel begins to tell of a fault of its own.
const FAULTS: [&str; 9] = [
    "WARNING: ",
    "BUG: ",
    "kernel BUG at ",
    "Oops: ",
    "general protection fault",
    "unchecked MSR access error: ",
    "INFO: task ",
    "INFO: rcu_",
    "watchdog: BUG: ",
];

/// What a program's end says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Convention {
    /// The kernel's for its selftests.
    Selftest,
    /// Of kvm-unit-tests: 0 at the debug port is passed, half of 77 is skipped.
    KvmUnitTests,
}

/// Half of 77 at the debug port, as an exit status.
const UNIT_TEST_SKIPPED: i32 = (77 >> 1) * 2 + 1;

/// What became of a program.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "verdict", content = "reason", rename_all = "lowercase")]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub enum Verdict {
    /// It passed.
    Pass,
    /// It could not be run there, and why.
    Skip(String),
    /// It failed, and why.
    Fail(String),
    /// It did not end, and where it was.
    Stopped(String),
}

impl Verdict {
    /// In a word, as lists of expectations have it.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Pass => "pass",
            Self::Skip(_) => "skip",
            Self::Fail(_) => "fail",
            Self::Stopped(_) => "stopped",
        }
    }

    /// Why.
    pub fn reason(&self) -> &str {
        match self {
            Self::Pass => "",
            Self::Skip(why) | Self::Fail(why) | Self::Stopped(why) => why,
        }
    }

    /// Of an image of kvm-unit-tests that ended.
    pub(super) fn of_unit_test(status: i32, output: &str, log: &[String]) -> Self {
        let first = |word| output.lines().map(str::trim).find(|line| line.starts_with(word));
        if let Some(fault) = fault(log) {
            return Self::Fail(short(&format!("the kernel: {fault}")));
        }
        let why = |word| first(word).map_or_else(|| last_line(output), str::to_owned);
        match status {
            0 => Self::Pass,
            UNIT_TEST_SKIPPED => Self::Skip(short(&why("SKIP"))),
            _ => Self::Fail(short(&format!("exit status {status}: {}", why("FAIL")))),
        }
    }

    /// Of a program that ended.
    pub(super) fn of(status: i32, output: &str, log: &[String]) -> Self {
        let tap = Tap::read(output);
        if let Some(fault) = fault(log) {
            return Self::Fail(short(&format!("the kernel: {fault}")));
        }
        if status == SKIPPED {
            return Self::Skip(short(&tap.skips_all.unwrap_or_else(|| last_line(output))));
        }
        if let Some(why) = &tap.bail_out {
            return Self::Fail(short(&format!("bailed out: {why}")));
        }
        if let Some(point) = &tap.failed {
            let why = assertion(output).map(|why| format!(": {why}")).unwrap_or_default();
            return Self::Fail(short(&format!("{point}{why}")));
        }
        if status != 0 {
            let why = assertion(output).unwrap_or_else(|| last_line(output));
            return Self::Fail(short(&format!("exit status {status}: {why}")));
        }
        match tap {
            Tap { skips_all: Some(why), .. } => Self::Skip(short(&why)),
            _ if tap.is_spoken() && tap.is_short() => {
                Self::Fail("fewer points than announced".to_owned())
            }
            Tap { passed: 0, skipped: 1.., .. } => Self::Skip("all points skipped".to_owned()),
            _ => Self::Pass,
        }
    }
}

/// The first line in which the kernel tells of a fault.
pub(super) fn fault(log: &[String]) -> Option<&str> {
    let is_fault = |line: &&String| FAULTS.iter().any(|word| line.starts_with(word));
    log.iter().find(is_fault).map(String::as_str)
}

/// Where an assertion failed and what it says, from the lines below its head.
fn assertion(output: &str) -> Option<String> {
    let (_, below) = output.split_once(ASSERTION)?;
    let mut lines = below.lines().map(str::trim).filter(|line| !line.is_empty());
    let place = lines.next()?;
    // Numbered lines are the stack, and those with the process come before them.
    let is_frame = |line: &str| {
        line.starts_with("pid=")
            || line.split_once('\t').is_some_and(|(n, _)| n.parse::<u32>().is_ok())
            || line.split_once(": ").is_some_and(|(n, _)| n.parse::<u32>().is_ok())
            || line.starts_with("(stack trace")
            // Nothing on the host names the frames.
            || line.contains("addr2line")
    };
    let says = lines.find(|line| !is_frame(line));
    Some(says.map_or_else(|| place.to_owned(), |says| format!("{place}: {says}")))
}

fn last_line(output: &str) -> String {
    let last = output.lines().rev().map(str::trim).find(|line| !line.is_empty());
    last.unwrap_or("without a word").to_owned()
}

fn short(text: &str) -> String {
    text.chars().take(MOST_REASON).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_of_kvm_unit_tests_is_judged_by_what_it_writes_to_the_debug_port() {
        let output = "PASS: a\nFAIL: b\nSKIP: c\nSUMMARY: 3 tests";
        for (status, word, reason) in [
            (0, "pass", ""),
            (77, "skip", "SKIP: c"),
            (3, "fail", "exit status 3: FAIL: b"),
            (137, "fail", "exit status 137: FAIL: b"),
        ] {
            let verdict = Verdict::of_unit_test(status, output, &[]);
            assert_eq!((verdict.word(), verdict.reason()), (word, reason), "{status}");
        }
    }

    #[test]
    fn a_program_is_judged_by_its_status_its_points_and_the_kernel() {
        let assertion = "Random seed: 0x6b8b4567\n==== Test Assertion Failure ====\n  x86_64/a.c:12: a == b\n  \
                         pid=1 tid=1 errno=4 - Interrupted system call\n     1\t0x1: main at a.c:1\n  \
                         want 1, got 2\n";
        for (status, output, log, word, reason) in [
            (0, "", "", "pass", ""),
            (0, "1..1\nok 1\n", "", "pass", ""),
            (4, "1..0 # SKIP - Requirement not met: cap\n", "", "skip", "Requirement not met: cap"),
            (4, "no module\n", "", "skip", "no module"),
            (0, "1..0 # SKIP none\n", "", "skip", "none"),
            (0, "1..2\nok 1\n", "", "fail", "fewer points than announced"),
            (0, "1..1\nok 1 # SKIP x\n", "", "skip", "all points skipped"),
            (0, "1..1\nnot ok 1 name\n", "", "fail", "1 name"),
            (254, assertion, "", "fail", "exit status 254: x86_64/a.c:12: a == b: want 1, got 2"),
            (137, "", "", "fail", "exit status 137: without a word"),
            (0, "Bail out! x\n", "", "fail", "bailed out: x"),
            (0, "", "WARNING: CPU: 1 PID: 7 at a.c:1 f+0x1/0x2", "fail", "the kernel: WARNING: "),
            (4, "", "kvm: a WARNING: of others", "skip", "without a word"),
        ] {
            let log: Vec<String> = log.lines().map(str::to_owned).collect();
            let verdict = Verdict::of(status, output, &log);
            assert_eq!(verdict.word(), word, "{status} {output}");
            assert!(verdict.reason().starts_with(reason), "{status} {output}: {verdict:?}");
        }
    }
}
