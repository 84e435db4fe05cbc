//! A finding as a C program for /dev/kvm, to be tried on a real machine: the guest's mix of
//! interrupts with what the host changes, and a kernel module that holds processors up where the
//! finding's were held, which widens the window.
//!
//! Nobody can repeat a real machine's run. So the program goes on for a time and tells of each
//! interrupt that waited for long although nothing held it back.

use super::finding::{Finding, Place};
use super::oracle::{PATIENCE_ASLEEP, Rule};
use super::stage::Mix;
use crate::workload::mix::Flip;
use anyhow::ensure;
use bench::Timer;
use std::fmt::Write;

#[cfg(test)]
mod tests;

/// The parts of the program, one behind the other in one file.
const GUEST: &str = include_str!("reproducer/guest.c");
const HOST: &str = include_str!("reproducer/host.c");
const CHANGES: &str = include_str!("reproducer/changes.c");
const RUN: &str = include_str!("reproducer/run.c");
const HOLD: &str = include_str!("reproducer/hold.c");
/// Where the module's places go.
const PLACES: &str = "@PLACES@";

/// Microseconds for which an interrupt waits before it is told of.
const LATE: u64 = PATIENCE_ASLEEP.0 / 1_000_000;

const MAKEFILE: &str = "\
# make: the program; make modules: what holds processors up, for the kernel that runs
KDIR ?= /lib/modules/$(shell uname -r)/build
CFLAGS ?= -O2 -Wall
LDFLAGS ?= -static
obj-m += hold.o

reproducer: reproducer.c
\t$(CC) $(CFLAGS) $(LDFLAGS) -pthread -o $@ $<

modules:
\t$(MAKE) -C $(KDIR) M=$(CURDIR) modules

.PHONY: modules
";

/// A file of a reproducer: its name and its text.
pub type File = (&'static str, String);

/// The files, for a folder of their own. Fails for a finding of a guest that was given a function,
/// which no program brings, or whose lines the host raises, for one of an interrupt that nobody
/// sent, and for one whose names are not a kernel's: a finding is a file that others may have
/// written, and what comes of it is compiled.
pub fn files(finding: &Finding) -> anyhow::Result<Vec<File>> {
    ensure!(
        !finding.mix.changes.posts,
        "the guest of this finding has a function that interrupts it (--with device): a C program \
         has none. lab explore replay --trace FILE shows what happened"
    );
    ensure!(
        !finding.mix.changes.raises,
        "the host of this finding raises lines of the I/O APIC (--with lines), which the C program \
         does not. lab explore replay --trace FILE shows what happened"
    );
    ensure!(
        !finding.mix.changes.starts,
        "processors of this finding's guest are started again (--with startup), which the C \
         program's are not. lab explore replay --trace FILE shows what happened"
    );
    ensure!(
        finding.alarm.rule != Rule::Unasked,
        "this finding is of an interrupt that nobody sent, and the C program tells of those that \
         come late. lab explore replay --trace FILE shows what happened"
    );
    let release = &finding.release;
    ensure!(is_name(release), "the finding's release is not one of a kernel: {release:?}");
    for Place { function, .. } in &finding.places {
        ensure!(is_name(function), "the finding's place is not a function: {function:?}");
    }
    let mut files = vec![("reproducer.c", program(finding)), ("Makefile", MAKEFILE.into())];
    if !finding.places.is_empty() {
        files.push(("hold.c", module(finding)));
    }
    Ok(files)
}

/// Whether a word can stand between quotes as it is.
fn is_name(word: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._+~-".contains(&byte);
    !word.is_empty() && word.bytes().all(is_plain)
}

fn program(finding: &Finding) -> String {
    [&head(finding), "\n", &definitions(&finding.mix), "\n", GUEST, HOST, CHANGES, RUN].concat()
}

/// What the file is about, as a comment.
fn head(finding: &Finding) -> String {
    let Finding { release, version, words, story, places, .. } = finding;
    let mut lines = vec![
        "SPDX-License-Identifier: MIT OR Apache-2.0".to_owned(),
        String::new(),
        format!("{}, found by avicenna {version} in {release}:", finding.cause()),
        format!("avicenna lab explore {}", words.join(" ")),
    ];
    lines.extend(story.iter().map(|line| format!("- {line}")));
    lines.push(String::new());
    lines.push(
        "make && ./reproducer [SECONDS [LATE]]: status 0 if nothing waits for LATE us,".into(),
    );
    lines.push(
        "1 if something does. Use an idle machine, since a vCPU that does not get its".into(),
    );
    lines.push(
        "processor is late as well, and compare with a kernel that has no such fault.".into(),
    );
    if !places.is_empty() {
        lines.push("hold.c holds processors up where they were held in the finding.".into());
    }
    // Neither an end of the comment nor a backslash before the end of a line, which would join two.
    let plain = |line: &String| {
        let line = line.replace(|one: char| one.is_control() || one == '\\', "?");
        format!(" * {}", line.replace("*/", "* /")).trim_end().to_owned() + "\n"
    };
    format!("/*\n{} */\n", lines.iter().map(plain).collect::<String>())
}

fn definitions(mix: &Mix) -> String {
    let flip = match mix.changes.flip {
        None => "NO_FLIP",
        Some(Flip::AutoEoi) => "AUTO_EOI",
        Some(Flip::BlockIrq) => "BLOCK_IRQ",
        Some(Flip::ApicId) => "OTHER_APIC_ID",
        Some(Flip::Pit) => "PIT_REINJECTS",
    };
    let has_timer = mix.has_timer();
    let number = |value: bool| u32::from(value).to_string();
    let values = [
        ("CPUS", mix.vcpus.to_string()),
        ("X2APIC", number(mix.apic == "x2apic")),
        ("SEED", format!("{:#x}ull", mix.seed)),
        ("POLLS", number(mix.polls)),
        ("PIT", number(has_timer)),
        ("REINJECTS", number(mix.timer == Timer::KernelReinject)),
        ("FLIP", flip.into()),
        ("MOVES", number(mix.changes.moves)),
        ("SENDS", number(mix.changes.sends)),
        ("SAVES", number(mix.changes.saves)),
        ("LATE", LATE.to_string()),
    ];
    values.iter().fold(String::new(), |mut text, (name, value)| {
        let _ = writeln!(text, "#define {name} {value}");
        text
    })
}

fn module(finding: &Finding) -> String {
    let row = |Place { function, offset, delay }: &Place| {
        let nanoseconds = delay.0.div_ceil(1000);
        format!(
            "\t{{ .symbol = \"{function}\", .offset = {offset:#x}, .nanoseconds = {nanoseconds} }},\n"
        )
    };
    // One probe for each instruction: held there twice, it is held for longer.
    let mut places: Vec<Place> = Vec::new();
    for place in &finding.places {
        let is_same =
            |one: &&mut Place| (&one.function, one.offset) == (&place.function, place.offset);
        match places.iter_mut().find(is_same) {
            Some(one) => one.delay = one.delay.max(place.delay),
            None => places.push(place.clone()),
        }
    }
    let rows: String = places.iter().map(row).collect();
    let head = format!(
        "// SPDX-License-Identifier: MIT OR Apache-2.0\n#define RELEASE \"{}\"\n",
        finding.release
    );
    head + &HOLD.replace(PLACES, &rows)
}
