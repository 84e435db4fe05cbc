//! KVM's tracepoints, counted by the kernel itself in a tracefs instance of our own: histograms
//! keyed by the field that matters, and the few inhibit events as text.
//! [LINUX "Event Histograms"]

use crate::protocol::Tracepoints;
use rules::feature::{INCOMPLETE_IPI, UNACCELERATED_ACCESS};
use std::collections::BTreeMap;
use trace::inhibit::Numbering;
use tracefs::{Directory, Entry, InhibitChange, Instance, Line, MARK};

const EXIT: (&str, &str) = ("kvm_exit", "exit_reason");
const INCOMPLETE: (&str, &str) = (INCOMPLETE_IPI.name, INCOMPLETE_IPI.key);
const UNACCELERATED: (&str, &str) = (UNACCELERATED_ACCESS.name, UNACCELERATED_ACCESS.key);
/// What is about devices' interrupts.
const WOKEN: (&str, &str) = ("kvm_avic_ga_log", "vcpuid");
const ROUTES: (&str, &str) = ("kvm_pi_irte_update", "gsi");
/// Our own marks between the kernel's events.
const BEGIN: &str = "avicenna: virtual processors can run";
const END: &str = "avicenna: virtual processors have ended";

/// Counting, until it is dropped or finished.
pub(super) struct Tracing {
    directory: Directory,
    instance: Instance,
    has_device: bool,
}

impl Tracing {
    /// Of a virtual machine with a device of the host's or without.
    pub(super) fn start(has_device: bool) -> anyhow::Result<Self> {
        let directory = Directory::find()?;
        let mut instance = Instance::create(&directory)?;
        for (name, key) in [EXIT, INCOMPLETE, UNACCELERATED] {
            instance.set_trigger("kvm", name, &format!("hist:keys={key}:size=4096"))?;
        }
        for (name, key) in [WOKEN, ROUTES].into_iter().filter(|_| has_device) {
            // A kernel without the event counts none of them.
            let _ = instance.set_trigger("kvm", name, &format!("hist:keys={key}"));
        }
        instance.enable_kvm_events(&[InhibitChange::EVENT])?;
        Ok(Self { directory, instance, has_device })
    }

    /// Virtual processors can run from here on.
    pub(super) fn mark_begin(&self) -> anyhow::Result<()> {
        Ok(self.instance.mark(BEGIN)?)
    }

    /// They no longer can.
    pub(super) fn mark_end(&self) -> anyhow::Result<()> {
        Ok(self.instance.mark(END)?)
    }

    pub(super) fn finish(self) -> anyhow::Result<Tracepoints> {
        let counts = |(name, key): (&str, &str)| {
            self.instance.histogram("kvm", name).map(|entries| counts(&entries, key))
        };
        let all = |point| {
            let counts = self.has_device.then(|| counts(point).ok()).flatten();
            counts.map(|counts| counts.values().sum())
        };
        let text = self.instance.text()?;
        Ok(Tracepoints {
            exits: counts(EXIT)?,
            incomplete: counts(INCOMPLETE)?,
            unaccelerated: counts(UNACCELERATED)?,
            woken: all(WOKEN),
            routes: all(ROUTES),
            inhibits: text.lines().filter_map(inhibit).collect(),
            ran: marked(&text, BEGIN).zip(marked(&text, END)),
            numbering: self
                .directory
                .format("kvm", InhibitChange::EVENT)
                .ok()
                .and_then(|format| Numbering::from_print_format(&format)),
        })
    }
}

fn counts(entries: &[Entry], key: &str) -> BTreeMap<u64, u64> {
    entries
        .iter()
        .filter_map(|entry| Some((entry.number(key)?, entry.value("hitcount")?)))
        .collect()
}

/// When an inhibit changed, and what the event says.
fn inhibit(line: &str) -> Option<(f64, String)> {
    let line = Line::parse(line).filter(|line| line.event == InhibitChange::EVENT)?;
    Some((line.seconds, line.text.to_owned()))
}

/// When one of our marks was made.
fn marked(text: &str, mark: &str) -> Option<f64> {
    let lines = text.lines().filter(|line| line.ends_with(mark)).filter_map(Line::parse);
    lines.filter(|line| line.event == MARK).map(|line| line.seconds).next()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn histograms_and_inhibits_as_the_kernel_prints_them() {
        let text = "# event histogram\n#\n\n{ exit_reason:        101 } hitcount:          1\n\
                    { exit_reason:       1024 } hitcount:       4084\n\nTotals:\n    Hits: 4085\n";
        let entries = tracefs::histogram(text);
        assert_eq!(counts(&entries, "exit_reason"), BTreeMap::from([(101, 1), (1024, 4084)]));
        assert!(counts(&entries, "reason").is_empty());
        let line = "          x-1 [000] .....     0.340829: kvm_apicv_inhibit_changed: \
                    set reason=2, inhibits=0x4";
        assert_eq!(inhibit(line), Some((0.340829, "set reason=2, inhibits=0x4".into())));
        assert_eq!(inhibit("# tracer: nop"), None);
        let text =
            format!("# tracer: nop\n  x-1 [000] .....     0.34: tracing_mark_write: {BEGIN}\n");
        assert_eq!((marked(&text, BEGIN), marked(&text, END)), (Some(0.34), None));
    }
}
