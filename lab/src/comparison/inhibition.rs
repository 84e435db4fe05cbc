//! When and why KVM kept a virtual machine from AVIC or APICv: its trace events as a time line.
//!
//! Numbers of reasons differ between kernels, so they are decoded by the names that the host's
//! kernel gives its own bits, or else by its version.

use crate::protocol::Tracepoints;
use profile::inhibit::{Inhibits, follow};
use profile::part::InhibitChange;
use trace::inhibit::Numbering;

/// The time line of a virtual machine while its processors could run: what was set before counts
/// from there on, and what came later not at all.
pub fn history(points: &Tracepoints, release: &str) -> Option<Inhibits> {
    let (start, end) = points.ran.map(|(start, end)| (nanoseconds(start), nanoseconds(end)))?;
    let changes = points.inhibits.iter().filter_map(|(at, text)| change(*at, text));
    let changes: Vec<InhibitChange> = changes
        .filter(|change| change.time_ns <= end)
        .map(|change| InhibitChange { time_ns: change.time_ns.max(start), ..change })
        .collect();
    let named = points.numbering.clone().or_else(|| Numbering::of_kernel(release));
    let numbering = named.unwrap_or_else(Numbering::assumed);
    let mut history = follow(&changes, &numbering, (start, end))?;
    for machine in &mut history.machines {
        // KVM also clears what was never set.
        machine.reasons.retain(|reason| reason.times_set > 0 || reason.seconds > 0.0);
    }
    Some(history)
}

fn nanoseconds(seconds: f64) -> u64 {
    (seconds * 1e9).max(0.0) as u64
}

/// `set reason=9, inhibits=0x200 PIT_REINJ`; kernels before 6.11 give no names.
fn change(at: f64, text: &str) -> Option<InhibitChange> {
    let (action, rest) = text.split_once(" reason=")?;
    let (bit, rest) = rest.split_once(", inhibits=0x")?;
    let mask = rest.split_ascii_whitespace().next()?;
    Some(InhibitChange {
        time_ns: nanoseconds(at),
        // There is one virtual machine at a time.
        process: 0,
        thread: 0,
        bit: bit.parse().ok().filter(|bit| *bit < 64)?,
        is_set: action == "set",
        mask: u64::from_str_radix(mask, 16).ok()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn points(numbering: Option<Numbering>) -> Tracepoints {
        let events = [
            (10.0, "set reason=2, inhibits=0x4"),
            (10.5, "cleared reason=2, inhibits=0x0"),
            (10.5, "cleared reason=4, inhibits=0x0"),
            (11.0, "set reason=8, inhibits=0x100"),
            (12.5, "set reason=2, inhibits=0x104"),
        ];
        let inhibits = events.map(|(at, text)| (at, text.to_owned())).to_vec();
        Tracepoints { inhibits, numbering, ran: Some((10.0, 12.0)), ..Tracepoints::default() }
    }

    fn names(points: &Tracepoints, release: &str) -> Vec<String> {
        let history = history(points, release).expect("events");
        history.machines[0].reasons.iter().map(|reason| reason.name.clone()).collect()
    }

    #[test]
    fn numbers_mean_what_the_kernel_says_or_else_its_version() {
        assert_eq!(names(&points(None), "6.1.0-56-amd64"), ["ABSENT", "PIT_REINJ"]);
        assert_eq!(names(&points(None), "6.12.107+deb13-amd64"), ["ABSENT", "IRQWIN"]);
        let own = Numbering::from_names(["DISABLED", "HYPERV", "SEV"]);
        assert_eq!(names(&points(own), "6.12.107")[0], "SEV");
    }

    /// The share of the time inhibited, for processors that could run in a stretch.
    fn share(ran: (f64, f64)) -> f64 {
        let points = Tracepoints { ran: Some(ran), ..points(None) };
        history(&points, "6.12.0").expect("events").machines[0].inhibited_share
    }

    #[test]
    fn only_the_time_in_which_processors_could_run_counts() {
        let all = history(&points(None), "6.12.0").expect("events");
        assert!((all.machines[0].inhibited_seconds - 1.5).abs() < 1e-6, "{:?}", all.machines);
        assert!(all.machines[0].reasons[1].is_set_at_end);
        // Before the first processor is made, and after the machine is gone, an inhibit costs
        // nothing.
        assert_eq!(share((10.6, 10.9)), 0.0);
        assert_eq!(share((11.5, 12.0)), 1.0);
        assert_eq!(history(&Tracepoints::default(), "6.12.0"), None);
    }

    #[test]
    fn what_is_no_event_is_none() {
        for text in
            ["", "set reason=2", "set reason=x, inhibits=0x4", "set reason=99, inhibits=0x4"]
        {
            assert_eq!(change(0.0, text), None, "{text}");
        }
    }
}
