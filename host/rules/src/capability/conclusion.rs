//! What rows say together, and sentences that several of them use.

use super::draft::Draft;
use super::row::Row;
use crate::boot_word::{BootWord, Takes};
use crate::finding::{Answer, Evidence, Finding, Severity};
use reading::CpuKind;

pub const ANSWERS: [Row; 3] = [Row::AnswerActive, Row::AnswerIpi, Row::AnswerDevice];

/// One of the three answers.
pub fn answer(id: Row, answer: Answer, reason: &str, evidence: Vec<Evidence>) -> Finding {
    let statement = match id {
        Row::AnswerActive => "the hardware interrupt controller is used (AVIC, APICv)",
        Row::AnswerIpi => "IPIs between vCPUs are delivered without an exit",
        _ => "interrupts of passed-through devices are posted to vCPUs",
    };
    Draft::new(id, "host", statement, "conjunction of the rows below")
        .severity(Severity::Error)
        .evidence_all(evidence)
        .answer(answer, reason)
}

/// What the given rows say together: the first that is not a yes gives the reason.
pub fn conclude(id: Row, rows: &[&Finding], good: &str) -> Finding {
    let all = rows.iter().fold(Answer::Yes, |all, row| all.and(row.answer));
    let decisive = rows.iter().find(|row| row.answer == all && all != Answer::Yes);
    let mut finding = match decisive {
        Some(row) => answer(id, all, &row.reason, vec![]),
        None => answer(id, all, good, vec![]),
    };
    finding.evidence = rows
        .iter()
        .map(|row| {
            Evidence::new(
                row.statement.clone(),
                format!("row {} ({})", row.id, row.subject),
                row.answer.to_string(),
            )
        })
        .collect();
    finding.fix = decisive.and_then(|row| row.fix.clone());
    finding
}

/// A vendor's CPU capability that a row rests on: the answer of every kind of core together.
pub fn every(findings: &[Finding], id: Row) -> Answer {
    let rows: Vec<Answer> =
        findings.iter().filter(|finding| finding.is(id)).map(|finding| finding.answer).collect();
    if rows.is_empty() { Answer::Unknown } else { rows.into_iter().fold(Answer::Yes, Answer::and) }
}

/// What a word of the kernel command line takes away, as a reason.
pub fn taken(word: &BootWord) -> String {
    let what = match word.takes {
        Takes::Iommu => "it switches the IOMMU off",
        Takes::Remapping => "it switches interrupt remapping off",
        Takes::Posting => "it keeps the IOMMU from posting interrupts",
        Takes::Apic => "without the host's APICs there is no interrupt remapping",
        Takes::X2apic => "the host stays in xAPIC mode",
        Takes::Messages => "only messages can be posted, and devices may send none",
    };
    format!("{} is given: {what}", word.text())
}

/// What undoes it.
pub fn removed(word: &BootWord) -> String {
    format!("remove {} from the kernel command line", word.text())
}

pub fn flag_evidence(cpu: &CpuKind, flag: &str) -> Evidence {
    if let Some(has) = cpu.told.get(flag) {
        let says = if *has { "there" } else { "not there" };
        return Evidence::new(format!("what was given of {flag}"), cpu.flags.place.clone(), says);
    }
    cpu.flags.evidence(format!("flag {flag}"), |flags| {
        if flags.contains(flag) { "listed" } else { "not listed" }
    })
}
