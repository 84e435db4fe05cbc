//! What setup of the firmware has to say, by the names that makers give it.

use crate::document;
use crate::layout::{Colour, Look};
use rules::Answer;
use rules::capability::{Report, Row};
use rules::firmware::{OPTIONS, Switch};
use rules::inhibit::Vendor;

/// Each switch with what this host shows of it, and the makers' options; of both vendors where the
/// processor is not known.
pub fn firmware(report: &Report, look: Look) -> String {
    let mut text = String::new();
    let rows = [(Row::CpuSvm, Vendor::Amd), (Row::CpuVmx, Vendor::Intel)];
    let own = rows.into_iter().find(|(row, _)| report.answer(*row).is_some());
    for (_, vendor) in rows.into_iter().filter(|row| own.is_none_or(|own| own == *row)) {
        for switch in Switch::ALL.into_iter().filter(|switch| switch.concerns(vendor)) {
            let row = switch.row(vendor);
            let answer = row.and_then(|row| report.answer(row)).unwrap_or(Answer::Unknown);
            let colour = document::Severity::from(answer);
            text.push_str(&look.row(colour, &answer.to_string(), switch.name()));
            let seen =
                look.hanging(&format!("{:1$}on if", "", Look::ROW), Look::ROW + 12, switch.seen());
            text.push_str(&look.painted_line(Colour::Dim, &seen));
            for one in OPTIONS.iter().filter(|one| (one.vendor, one.switch) == (vendor, switch)) {
                let attribute = match one.attribute {
                    "" => String::new(),
                    attribute => format!(" ({attribute})"),
                };
                let maker = format!("{:1$}{2}", "", Look::ROW, one.maker);
                let line = format!("{}: {}{attribute}", one.name, one.value);
                text.push_str(&look.hanging(&maker, Look::ROW + 12, &line));
            }
        }
    }
    let note = "Other setups have other names; docs/operators/check.md says where these are from.";
    text.push('\n');
    text.push_str(&look.hanging("", 0, note));
    text
}
