//! KVM's tracepoints, counted by the kernel itself in a tracefs instance of our own: histograms
//! keyed by the field that matters, and the few inhibit events as text.
//! [LINUX "Event Histograms"]

use crate::protocol::Tracepoints;
use anyhow::Context;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use trace::inhibit::Numbering;

const INSTANCE: &str = "/sys/kernel/tracing/instances/avicenna-lab";
const EXIT: (&str, &str) = ("kvm_exit", "exit_reason");
const INCOMPLETE: (&str, &str) = ("kvm_avic_incomplete_ipi", "id");
const UNACCELERATED: (&str, &str) = ("kvm_avic_unaccelerated_access", "offset");
const INHIBIT: &str = "kvm_apicv_inhibit_changed";

/// Counting, until it is dropped or finished.
pub(super) struct Tracing;

fn event(name: &str) -> PathBuf {
    Path::new(INSTANCE).join("events/kvm").join(name)
}

fn write(path: &Path, text: &str) -> anyhow::Result<()> {
    std::fs::write(path, text)
        .with_context(|| format!("cannot write {text:?} to {}", path.display()))
}

impl Tracing {
    pub(super) fn start() -> anyhow::Result<Self> {
        std::fs::create_dir_all(INSTANCE).with_context(|| format!("cannot create {INSTANCE}"))?;
        let tracing = Self;
        for (name, key) in [EXIT, INCOMPLETE, UNACCELERATED] {
            write(&event(name).join("trigger"), &format!("hist:keys={key}:size=4096"))?;
        }
        write(&event(INHIBIT).join("enable"), "1")?;
        Ok(tracing)
    }

    pub(super) fn finish(self) -> anyhow::Result<Tracepoints> {
        let counts = |(name, key): (&str, &str)| {
            let path = event(name).join("hist");
            std::fs::read_to_string(&path)
                .map(|text| histogram(&text, key))
                .with_context(|| format!("cannot read {}", path.display()))
        };
        let trace = std::fs::read_to_string(Path::new(INSTANCE).join("trace"))?;
        Ok(Tracepoints {
            exits: counts(EXIT)?,
            incomplete: counts(INCOMPLETE)?,
            unaccelerated: counts(UNACCELERATED)?,
            inhibits: trace.lines().filter_map(inhibit).collect(),
            numbering: std::fs::read_to_string(event(INHIBIT).join("format"))
                .ok()
                .and_then(|format| Numbering::from_print_format(&format)),
        })
    }
}

impl Drop for Tracing {
    /// The instance's triggers go with it.
    fn drop(&mut self) {
        for (name, key) in [EXIT, INCOMPLETE, UNACCELERATED] {
            let _ = write(&event(name).join("trigger"), &format!("!hist:keys={key}:size=4096"));
        }
        let _ = write(&event(INHIBIT).join("enable"), "0");
        let _ = std::fs::remove_dir(INSTANCE);
    }
}

/// Lines such as `{ exit_reason:         96 } hitcount:       2365`.
fn histogram(text: &str, key: &str) -> BTreeMap<u64, u64> {
    let entry = |line: &str| {
        let (keys, values) = line.strip_prefix("{ ")?.split_once('}')?;
        let key = keys.trim().strip_prefix(key)?.strip_prefix(':')?.trim();
        let count = values.trim().strip_prefix("hitcount:")?.split_whitespace().next()?;
        Some((key.parse().ok()?, count.parse().ok()?))
    };
    text.lines().filter_map(entry).collect()
}

/// Lines such as `x-112 [000] .....     0.340829: kvm_apicv_inhibit_changed: set reason=2, …`.
fn inhibit(line: &str) -> Option<(f64, String)> {
    let (head, text) = line.split_once(": kvm_apicv_inhibit_changed: ")?;
    let seconds = head.rsplit(' ').next()?.parse().ok()?;
    Some((seconds, text.trim().to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn histograms_and_inhibits_as_the_kernel_prints_them() {
        let text = "# event histogram\n#\n\n{ exit_reason:        101 } hitcount:          1\n\
                    { exit_reason:       1024 } hitcount:       4084\n\nTotals:\n    Hits: 4085\n";
        let counts = histogram(text, "exit_reason");
        assert_eq!(counts, BTreeMap::from([(101, 1), (1024, 4084)]));
        assert!(histogram(text, "reason").is_empty());
        let line = "          x-1 [000] .....     0.340829: kvm_apicv_inhibit_changed: \
                    set reason=2, inhibits=0x4";
        assert_eq!(inhibit(line), Some((0.340829, "set reason=2, inhibits=0x4".into())));
        assert_eq!(inhibit("# tracer: nop"), None);
    }
}
