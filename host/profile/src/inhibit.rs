//! The time line of inhibits: how long each reason kept a virtual machine from its hardware APIC.

use crate::part::InhibitChange;
use serde::Serialize;
use trace::inhibit::{Authority, Numbering, Reason};

/// Changes of one reason within one second that make a storm.
const STORM_PER_SECOND: u64 = 100;
const SECOND: u64 = 1_000_000_000;

/// How one reason behaved.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ReasonTime {
    pub bit: u32,
    /// `None` where the kernel's numbering has no such bit.
    pub reason: Option<Reason>,
    pub name: String,
    pub cause: Option<&'static str>,
    pub seconds: f64,
    /// Share of the time observed.
    pub share: f64,
    pub times_set: u64,
    pub times_cleared: u64,
    /// The most changes within one second.
    pub worst_changes_per_second: u64,
    pub is_storm: bool,
    pub is_set_at_end: bool,
    /// Thread that set it last.
    pub set_by: Option<u32>,
}

/// A stretch of time with the same set of reasons.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Stretch {
    pub from_ns: u64,
    pub to_ns: u64,
    pub mask: u64,
}

/// The inhibits of one virtual machine.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct MachineInhibits {
    pub process: u32,
    pub from_ns: u64,
    pub to_ns: u64,
    pub changes: u64,
    /// Seconds with at least one reason, and their share of the time observed.
    pub inhibited_seconds: f64,
    pub inhibited_share: f64,
    pub reasons: Vec<ReasonTime>,
    /// At most [`MOST_STRETCHES`], the longest kept apart and flaps run together.
    pub stretches: Vec<Stretch>,
    /// Changes whose mask does not follow from the change before.
    pub inconsistent: u64,
}

/// Inhibits of all machines, and what the names rest on.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Inhibits {
    pub authority: Authority,
    pub machines: Vec<MachineInhibits>,
}

/// Stretches kept for a plot.
pub const MOST_STRETCHES: usize = 512;

/// Follows changes, sorted by time, to the end of the recording.
pub fn follow(
    changes: &[InhibitChange],
    numbering: &Numbering,
    span_ns: (u64, u64),
) -> Option<Inhibits> {
    let mut processes: Vec<u32> = changes.iter().map(|change| change.process).collect();
    processes.sort_unstable();
    processes.dedup();
    let machines: Vec<_> = processes
        .into_iter()
        .map(|process| {
            let of_machine: Vec<InhibitChange> =
                changes.iter().filter(|change| change.process == process).copied().collect();
            follow_machine(process, &of_machine, numbering, span_ns)
        })
        .collect();
    (!machines.is_empty()).then_some(Inhibits { authority: numbering.authority, machines })
}

/// What is known of one bit while following.
#[derive(Clone, Copy, Default)]
struct Bit {
    since_ns: Option<u64>,
    total_ns: u64,
    sets: u64,
    clears: u64,
    window_start_ns: u64,
    window_changes: u64,
    worst: u64,
    set_by: Option<u32>,
}

impl Bit {
    fn change(&mut self, at_ns: u64, is_set: bool, thread: u32) {
        if at_ns.saturating_sub(self.window_start_ns) >= SECOND || self.window_changes == 0 {
            (self.window_start_ns, self.window_changes) = (at_ns, 0);
        }
        self.window_changes += 1;
        self.worst = self.worst.max(self.window_changes);
        if is_set {
            self.sets += 1;
            self.set_by = Some(thread);
            self.since_ns.get_or_insert(at_ns);
        } else {
            self.clears += 1;
            self.clear(at_ns);
        }
    }

    fn clear(&mut self, at_ns: u64) {
        if let Some(since) = self.since_ns.take() {
            self.total_ns += at_ns.saturating_sub(since);
        }
    }
}

fn follow_machine(
    process: u32,
    changes: &[InhibitChange],
    numbering: &Numbering,
    span_ns: (u64, u64),
) -> MachineInhibits {
    let first = &changes[0];
    // What was set before the first change is what its mask holds beside the bit it changed.
    let before = first.mask & !(1u64.checked_shl(first.bit).unwrap_or(0))
        | if first.is_set { 0 } else { 1u64.checked_shl(first.bit).unwrap_or(0) };
    let from_ns = if before == 0 { first.time_ns } else { span_ns.0.min(first.time_ns) };
    let to_ns = span_ns.1.max(changes.last().map_or(0, |change| change.time_ns));
    let mut bits = [Bit::default(); 64];
    for (index, bit) in bits.iter_mut().enumerate() {
        if before >> index & 1 != 0 {
            bit.since_ns = Some(from_ns);
        }
    }
    let mut mask = before;
    let mut inhibited_ns = 0;
    let mut since = from_ns;
    let mut inconsistent = 0;
    let mut stretches = Vec::new();
    for change in changes {
        let flag = 1u64.checked_shl(change.bit).unwrap_or(0);
        let expected = if change.is_set { mask | flag } else { mask & !flag };
        inconsistent += u64::from(expected != change.mask);
        if let Some(bit) = bits.get_mut(change.bit as usize) {
            bit.change(change.time_ns, change.is_set, change.thread);
        }
        // Bits that changed unseen are taken to have changed now.
        for (index, bit) in bits.iter_mut().enumerate() {
            match (expected ^ change.mask) >> index & 1 != 0 {
                true if change.mask >> index & 1 != 0 => {
                    bit.since_ns.get_or_insert(change.time_ns);
                }
                true => bit.clear(change.time_ns),
                false => {}
            }
        }
        if change.mask != mask {
            inhibited_ns += if mask != 0 { change.time_ns.saturating_sub(since) } else { 0 };
            push_stretch(&mut stretches, Stretch { from_ns: since, to_ns: change.time_ns, mask });
            (mask, since) = (change.mask, change.time_ns);
        }
    }
    inhibited_ns += if mask != 0 { to_ns - since } else { 0 };
    push_stretch(&mut stretches, Stretch { from_ns: since, to_ns, mask });
    let seconds = |ns: u64| ns as f64 / 1e9;
    let observed = (to_ns - from_ns).max(1);
    let reasons = bits
        .iter()
        .enumerate()
        .filter(|(_, bit)| bit.sets + bit.clears > 0 || bit.since_ns.is_some())
        .map(|(index, bit)| {
            let total = bit.total_ns + bit.since_ns.map_or(0, |since| to_ns - since);
            let reason = reason_of(numbering, index as u32);
            ReasonTime {
                bit: index as u32,
                reason,
                name: reason
                    .map_or_else(|| name_of_bit(numbering, index as u32), |r| r.name().into()),
                cause: reason.map(Reason::cause),
                seconds: seconds(total),
                share: total as f64 / observed as f64,
                times_set: bit.sets,
                times_cleared: bit.clears,
                worst_changes_per_second: bit.worst,
                is_storm: bit.worst >= STORM_PER_SECOND,
                is_set_at_end: bit.since_ns.is_some(),
                set_by: bit.set_by,
            }
        })
        .collect();
    MachineInhibits {
        process,
        from_ns,
        to_ns,
        changes: changes.len() as u64,
        inhibited_seconds: seconds(inhibited_ns),
        inhibited_share: inhibited_ns as f64 / observed as f64,
        reasons,
        stretches: thin(stretches),
        inconsistent,
    }
}

/// Without a known kernel, only a bit that never meant anything else has a name.
fn reason_of(numbering: &Numbering, bit: u32) -> Option<Reason> {
    match (numbering.authority, Numbering::candidates(bit).as_slice()) {
        (Authority::Assumed, [only]) => Some(*only),
        (Authority::Assumed, _) => None,
        _ => numbering.reason(bit),
    }
}

fn name_of_bit(numbering: &Numbering, bit: u32) -> String {
    let candidates = Numbering::candidates(bit);
    if numbering.authority != Authority::Assumed || candidates.is_empty() {
        return format!("bit {bit}");
    }
    let names: Vec<_> = candidates.into_iter().map(Reason::name).collect();
    format!("bit {bit}: {}", names.join(" or "))
}

fn push_stretch(stretches: &mut Vec<Stretch>, stretch: Stretch) {
    if stretch.to_ns > stretch.from_ns {
        stretches.push(stretch);
    }
}

/// Runs the shortest neighbours together until few enough are left for a plot: each pass doubles
/// the length below which a stretch joins the one before it, taking over its reasons.
fn thin(mut stretches: Vec<Stretch>) -> Vec<Stretch> {
    let mut shortest = 1 << 16;
    // Bounded: after 48 doublings every stretch is shorter than the limit.
    while stretches.len() > MOST_STRETCHES {
        let mut joined: Vec<Stretch> = Vec::with_capacity(stretches.len() / 2);
        for stretch in stretches {
            match joined.last_mut() {
                Some(last)
                    if (stretch.to_ns - stretch.from_ns).min(last.to_ns - last.from_ns)
                        < shortest =>
                {
                    last.to_ns = stretch.to_ns;
                    last.mask |= stretch.mask;
                }
                _ => joined.push(stretch),
            }
        }
        stretches = joined;
        shortest <<= 1;
    }
    stretches
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change(time_ns: u64, is_set: bool, bit: u32, mask: u64) -> InhibitChange {
        InhibitChange { time_ns, process: 1, thread: 2, bit, is_set, mask }
    }

    fn machine(changes: &[InhibitChange], span: (u64, u64)) -> MachineInhibits {
        let numbering = Numbering::of_kernel("6.1").expect("a known kernel");
        follow(changes, &numbering, span).expect("there are changes").machines.remove(0)
    }

    #[test]
    fn seconds_per_reason_overlap_and_the_whole_counts_once() {
        let changes = [
            change(SECOND, true, 2, 0b100),
            change(2 * SECOND, true, 8, 0x104),
            change(4 * SECOND, false, 2, 0x100),
            change(5 * SECOND, false, 8, 0),
        ];
        let machine = machine(&changes, (0, 9 * SECOND));
        let rows: Vec<_> =
            machine.reasons.iter().map(|row| (row.name.as_str(), row.seconds)).collect();
        assert_eq!(rows, [("ABSENT", 3.0), ("PIT_REINJ", 3.0)]);
        assert_eq!((machine.inhibited_seconds, machine.inhibited_share), (4.0, 0.5));
        assert_eq!(machine.inconsistent, 0);
    }

    #[test]
    fn a_bit_set_before_the_recording_counts_from_its_start() {
        let changes = [change(SECOND, true, 8, 0x120), change(SECOND + 10, false, 8, 0x20)];
        let machine = machine(&changes, (0, 2 * SECOND));
        assert_eq!(machine.reasons[0].name, "APIC_BASE_MODIFIED");
        assert_eq!((machine.reasons[0].seconds, machine.reasons[0].is_set_at_end), (2.0, true));
    }

    #[test]
    fn without_a_kernel_a_number_keeps_its_meanings() {
        let changes = [change(0, true, 8, 0x100), change(1, true, 1, 0x102)];
        let found = follow(&changes, &Numbering::assumed(), (0, 10)).expect("there are changes");
        let names: Vec<_> = found.machines[0].reasons.iter().map(|row| row.name.as_str()).collect();
        assert_eq!(names, ["HYPERV", "bit 8: IRQWIN or PIT_REINJ"]);
    }

    #[test]
    fn a_storm_is_told_from_a_flap() {
        let mut changes = Vec::new();
        for n in 0..200 {
            changes.push(change(n * 1000, n % 2 == 0, 7, if n % 2 == 0 { 0x80 } else { 0 }));
        }
        let storm = machine(&changes, (0, SECOND));
        assert!(storm.reasons[0].is_storm);
        assert!(!machine(&changes[..4], (0, SECOND)).reasons[0].is_storm);
    }

    #[test]
    fn setting_twice_is_set_once() {
        let changes =
            [change(0, true, 7, 0x80), change(10, true, 7, 0x80), change(SECOND, false, 7, 0)];
        let machine = machine(&changes, (0, SECOND));
        assert_eq!((machine.reasons[0].seconds, machine.reasons[0].times_set), (1.0, 2));
    }

    #[test]
    fn damaged_bit_numbers_are_survived() {
        let changes = [change(0, true, 4_000_000_000, 0), change(5, false, 64, u64::MAX)];
        assert_eq!(machine(&changes, (0, 10)).inconsistent, 1);
    }
}
