//! `lab watch`: the lessons of the book are what the program shows, step by step.

use super::super::check::Checks;
use super::session::Lab;
use anyhow::{Result, ensure};

const LAB: &str = include_str!("../../../../docs/lab.md");
const DEVICES: &str = include_str!("../../../../docs/device-interrupts.md");

/// Page and command of each lesson.
const LESSONS: [(&str, &str, &str); 5] = [
    (LAB, "ipi", "zen4"),
    (LAB, "ipi", "sapphire-rapids"),
    (LAB, "inhibit", "zen4"),
    (DEVICES, "device", "zen4"),
    (DEVICES, "device", "sapphire-rapids"),
];
/// What is told of events without a lesson on a page.
const TOLD: [(&[&str], &[&str]); 6] = [
    (
        &["ipi", "--feature", "off"],
        &["VM exit: msr", "ICR: vector e1h", "svm_inject_irq", "by EVENTINJ"],
    ),
    (
        &["device", "--feature", "off"],
        &["GuestMode 0", "vfio_msihandler", "irqfd_wakeup", "VM exit: interrupt", "by EVENTINJ"],
    ),
    (
        &["device-wake"],
        &["IsRun 0", "GATag", "avic_ga_log_notifier", "IRTE: IsRun 0 -> 1", "EOI of vector e1h"],
    ),
    (
        &["device-wake", "--cpu", "sapphire-rapids"],
        &["NV f1h", "pi_wakeup_handler", "NV f1h -> f2h", "EOI of vector e1h"],
    ),
    (
        &["inhibit", "--cpu", "sapphire-rapids"],
        &[
            "virtual-interrupt delivery 1 -> 0",
            "the debugger detaches",
            "virtual-interrupt delivery 0 -> 1",
        ],
    ),
    (
        &["inhibit", "--inhibit", "pit"],
        &["KVM_REINJECT_CONTROL of 1", "AVIC enable 1 -> 0", "AVIC enable 0 -> 1"],
    ),
];

pub(super) fn check(lab: &Lab<'_>, checks: &mut Checks) {
    for (page, event, cpu) in LESSONS {
        let result = shows_the_lesson(lab, page, event, cpu);
        checks.succeed(format!("the page's lesson of lab watch {event} on {cpu} is shown"), result);
    }
    for (words, parts) in TOLD {
        checks.succeed(format!("lab watch {} tells what it should", words.join(" ")), {
            tells(lab, words, parts)
        });
    }
}

/// Words of each step; times and the kernel's functions are another kernel's.
fn shows_the_lesson(lab: &Lab<'_>, page: &str, event: &str, cpu: &str) -> Result<()> {
    let command = format!("avicenna lab watch {event} --list --cpu {cpu}");
    let block = page.split_once(&command).map_or("", |(_, behind)| behind);
    let lesson = block.split_once("\n\n").map_or("", |(_, lesson)| lesson);
    // The first line names the kernel.
    let lines = lesson.lines().take_while(|line| line.starts_with("    ")).skip(1);
    let steps: Vec<String> =
        without_functions(lines).into_iter().filter_map(words).map(without_numbers).collect();
    ensure!(steps.len() >= 8, "the page has {} steps behind {command}", steps.len());
    let said = without_numbers(&watch(lab, &[event, "--cpu", cpu])?);
    let mut rest = said.as_str();
    for step in steps {
        let behind = rest.split_once(&step).map(|(_, behind)| behind);
        rest = behind.ok_or_else(|| anyhow::anyhow!("{step:?} is not shown there: {said}"))?;
    }
    Ok(())
}

/// Either vCPU may be the one that sends, and another kernel chooses other vectors and addresses.
fn without_numbers(text: &str) -> String {
    let is_number = |word: &str| {
        let digits = word.strip_suffix('h').unwrap_or(word);
        !digits.is_empty() && digits.chars().all(|letter| letter.is_ascii_hexdigit())
    };
    let words = text.split(|letter: char| !letter.is_ascii_alphanumeric());
    words.filter(|word| !is_number(word)).collect::<Vec<_>>().join(" ")
}

/// Which functions KVM has is another kernel's; they go on in lines that are indented further.
fn without_functions<'a>(lines: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let indent = |line: &str| line.len() - line.trim_start().len();
    let mut own = None;
    let mut kept = Vec::new();
    for line in lines {
        let is_begin = line.trim_start().starts_with("KVM: ");
        own = if is_begin { Some(indent(line)) } else { own.filter(|own| indent(line) > *own) };
        if own.is_none() {
            kept.push(line);
        }
    }
    kept
}

/// What is said of a step or of a change: a line without its time and who it is.
fn words(line: &str) -> Option<&str> {
    let line = line.trim();
    let is_rule = line.starts_with('[') || line.starts_with("ns ") || line.contains(" steps in ");
    let text = match line.split_once("  ") {
        Some((_, behind)) => behind.trim().split_once("  ")?.1.trim(),
        None => line,
    };
    (!is_rule && !text.is_empty()).then_some(text)
}

fn tells(lab: &Lab<'_>, words: &[&str], parts: &[&str]) -> Result<()> {
    let said = watch(lab, words)?;
    for part in parts {
        ensure!(said.contains(part), "{part:?} is not in: {said}");
    }
    Ok(())
}

fn watch(lab: &Lab<'_>, words: &[&str]) -> Result<String> {
    let usual = ["watch", "--list", "--functions", "100", "--kernel", &lab.kernel];
    let said = lab.said(&[&usual[..], words].concat())?;
    ensure!(said.status == Some(0), "status {:?}: {}", said.status, said.errors);
    Ok(said.output)
}
