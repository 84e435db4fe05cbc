//! KVM's tracepoints, counted by the kernel itself in a tracefs instance of our own: histograms
//! keyed by the field that matters, and the few inhibit events as text.
//! [LINUX "Event Histograms"]

use crate::protocol::Tracepoints;
use rules::feature::{INCOMPLETE_IPI, UNACCELERATED_ACCESS};
use std::collections::BTreeMap;
use std::path::Path;
use trace::inhibit::Numbering;
use tracefs::{Directory, Entry, InhibitChange, Instance, Line, MARK};

const EXIT: (&str, &str) = ("kvm_exit", "exit_reason");
const INCOMPLETE: (&str, &str) = (INCOMPLETE_IPI.name, INCOMPLETE_IPI.key);
const UNACCELERATED: (&str, &str) = (UNACCELERATED_ACCESS.name, UNACCELERATED_ACCESS.key);
/// What is about devices' interrupts.
const WOKEN: (&str, &str) = ("kvm_avic_ga_log", "vcpuid");
const ROUTES: (&str, &str) = ("kvm_pi_irte_update", "gsi");
/// The row of /proc/interrupts. [LINUX "arch/x86/kernel/irq.c"]
const WAKEUPS: &str = "PIW:";
const KVM_INTEL: &str = "/sys/module/kvm_intel";
/// Our own marks between the kernel's events.
const BEGIN: &str = "avicenna: vCPUs can run";
const END: &str = "avicenna: vCPUs have ended";

/// Counting, until it is dropped or finished.
pub struct Tracing {
    directory: Directory,
    instance: Instance,
    has_device: bool,
    /// Intel's side has no event: how many there were before.
    wakeups_before: Option<u64>,
}

impl Tracing {
    /// Of a virtual machine with a device of the host's or without.
    pub fn start(has_device: bool) -> anyhow::Result<Self> {
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
        let wakeups_before = has_device.then(wakeups).flatten();
        Ok(Self { directory, instance, has_device, wakeups_before })
    }

    /// vCPUs can run from here on.
    pub fn mark_begin(&self) -> anyhow::Result<()> {
        Ok(self.instance.mark(BEGIN)?)
    }

    /// They no longer can.
    pub fn mark_end(&self) -> anyhow::Result<()> {
        Ok(self.instance.mark(END)?)
    }

    /// What was counted.
    pub fn finish(self) -> anyhow::Result<Tracepoints> {
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
            woken: match (self.wakeups_before, self.has_device.then(wakeups).flatten()) {
                (Some(before), Some(after)) => Some(after.saturating_sub(before)),
                _ => all(WOKEN),
            },
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

/// Interrupts with the vector by which VT-d wakes vCPUs, of all processors; None on a
/// host without Intel's half of KVM.
fn wakeups() -> Option<u64> {
    let interrupts = std::fs::read_to_string("/proc/interrupts").ok()?;
    Path::new(KVM_INTEL).exists().then(|| of_all_processors(&interrupts, WAKEUPS))?
}

fn of_all_processors(interrupts: &str, name: &str) -> Option<u64> {
    let line = interrupts.lines().find_map(|line| line.trim_start().strip_prefix(name))?;
    Some(line.split_whitespace().map_while(|word| word.parse::<u64>().ok()).sum())
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
    fn a_row_of_interrupts_is_summed_over_processors() {
        let text = "           CPU0       CPU1\n PIN:          7          0   Posted-interrupt \
                    notification event\n PIW:         20          3   Posted-interrupt wakeup event\n";
        assert_eq!(of_all_processors(text, WAKEUPS), Some(23));
        assert_eq!(of_all_processors("           CPU0\n", WAKEUPS), None);
    }

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
