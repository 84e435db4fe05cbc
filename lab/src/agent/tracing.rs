//! KVM's tracepoints, counted by the kernel itself in a tracefs instance of our own: histograms
//! keyed by the field that matters, and the few inhibit events as text.
//! [LINUX "Event Histograms"]

use crate::protocol::Tracepoints;
use std::collections::BTreeMap;
use trace::inhibit::Numbering;
use tracefs::{Directory, Entry, InhibitChange, Instance, Line};

const EXIT: (&str, &str) = ("kvm_exit", "exit_reason");
const INCOMPLETE: (&str, &str) = ("kvm_avic_incomplete_ipi", "id");
const UNACCELERATED: (&str, &str) = ("kvm_avic_unaccelerated_access", "offset");

/// Counting, until it is dropped or finished.
pub(super) struct Tracing {
    directory: Directory,
    instance: Instance,
}

impl Tracing {
    pub(super) fn start() -> anyhow::Result<Self> {
        let directory = Directory::find()?;
        let mut instance = Instance::create(&directory)?;
        for (name, key) in [EXIT, INCOMPLETE, UNACCELERATED] {
            instance.set_trigger("kvm", name, &format!("hist:keys={key}:size=4096"))?;
        }
        instance.enable_kvm_events(&[InhibitChange::EVENT])?;
        Ok(Self { directory, instance })
    }

    pub(super) fn finish(self) -> anyhow::Result<Tracepoints> {
        let counts = |(name, key): (&str, &str)| {
            self.instance.histogram("kvm", name).map(|entries| counts(&entries, key))
        };
        Ok(Tracepoints {
            exits: counts(EXIT)?,
            incomplete: counts(INCOMPLETE)?,
            unaccelerated: counts(UNACCELERATED)?,
            inhibits: self.instance.text()?.lines().filter_map(inhibit).collect(),
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
    }
}
