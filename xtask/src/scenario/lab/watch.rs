//! `lab watch`: the lessons of docs/lab.md are what the program shows, step by step.

use super::super::check::Checks;
use super::session::Lab;
use anyhow::{Result, ensure};

const PAGE: &str = include_str!("../../../../docs/lab.md");

pub(super) fn check(lab: &Lab<'_>, checks: &mut Checks) {
    for cpu in ["zen4", "sapphire-rapids"] {
        let result = shows_the_lesson(lab, cpu);
        checks.succeed(format!("the page's lesson of an IPI on {cpu} is shown"), result);
    }
    checks.succeed("without AVIC an IPI's exits are shown with KVM's functions", names_code(lab));
}

/// Words of each step; times and the kernel's functions are another kernel's.
fn shows_the_lesson(lab: &Lab<'_>, cpu: &str) -> Result<()> {
    let command = format!("avicenna lab watch ipi --list --cpu {cpu}");
    let block = PAGE.split_once(&command).map_or("", |(_, behind)| behind);
    let lesson = block.split_once("\n\n").map_or("", |(_, lesson)| lesson);
    // The first line names the kernel.
    let lines = lesson.lines().take_while(|line| line.starts_with("    ")).skip(1);
    let steps: Vec<String> = lines.filter_map(words).map(without_numbers).collect();
    ensure!(steps.len() >= 10, "the page has {} steps behind {command}", steps.len());
    let said = without_numbers(&watch(lab, &["ipi", "--cpu", cpu])?);
    let mut rest = said.as_str();
    for step in steps {
        let behind = rest.split_once(&step).map(|(_, behind)| behind);
        rest = behind.ok_or_else(|| anyhow::anyhow!("{step:?} is not shown there: {said}"))?;
    }
    Ok(())
}

/// Either vCPU may be the one that sends, and another kernel chooses other vectors.
fn without_numbers(text: &str) -> String {
    text.chars().filter(|letter| !letter.is_ascii_digit()).collect()
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

fn names_code(lab: &Lab<'_>) -> Result<()> {
    let said = watch(lab, &["ipi", "--feature", "off"])?;
    for part in ["VM exit: msr", "ICR: vector e1h", "svm_inject_irq", "by EVENTINJ"] {
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
