//! The time line of inhibits: how long each reason kept a virtual machine from its hardware APIC.

use crate::part::InhibitChange;
use serde::Serialize;
use std::collections::BTreeMap;
use trace::inhibit::{Authority, Numbering, Reason};

/// Changes of one reason within one second that make a storm.
const STORM_PER_SECOND: u64 = 100;
const SECOND: u64 = 1_000_000_000;

/// How one reason behaved.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ReasonTime {
    /// Number in KVM's mask.
    pub bit: u32,
    /// `None` where the kernel's numbering has no such bit.
    #[cfg_attr(feature = "schema", schemars(schema_with = "crate::schema::reason"))]
    pub reason: Option<Reason>,
    /// Of the reason; where it is not known, the bit and what it may mean.
    pub name: String,
    /// What sets it, in a few words.
    pub cause: Option<&'static str>,
    /// For how long it was set.
    pub seconds: f64,
    /// Share of the time observed.
    pub share: f64,
    /// Changes that set it.
    pub times_set: u64,
    /// Changes that cleared it.
    pub times_cleared: u64,
    /// The most changes within one second.
    pub worst_changes_per_second: u64,
    /// A hundred changes within one second, or more.
    pub is_storm: bool,
    /// Set at the last change, and so to the end.
    pub is_set_at_end: bool,
    /// Thread that set it last.
    pub set_by: Option<u32>,
    /// Threads that set it, the most frequent first, at most [`MOST_SETTERS`].
    pub setters: Vec<Setter>,
}

/// A thread that set a reason.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Setter {
    /// As the host numbers it.
    pub thread: u32,
    /// `vCPU 1`, or the thread's name with its number, where the recording says.
    pub name: Option<String>,
    /// How often it did.
    pub times: u64,
}

/// Threads named for a reason.
const MOST_SETTERS: usize = 8;

/// A stretch of time with the same set of reasons.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Stretch {
    /// Of the recording's clock.
    pub from_ns: u64,
    /// Of the recording's clock; the stretch ends before.
    pub to_ns: u64,
    /// Bits of the reasons that were set throughout.
    pub mask: u64,
}

/// The inhibits of one virtual machine.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct MachineInhibits {
    /// Of its monitor, as the host numbers it.
    pub process: u32,
    /// From here on its mask is known: the first change, or the recording's start.
    pub from_ns: u64,
    /// The recording's end.
    pub to_ns: u64,
    /// Bits set and cleared.
    pub changes: u64,
    /// Seconds with at least one reason, and their share of the time observed.
    pub inhibited_seconds: f64,
    /// Of the time observed, 0 to 1.
    pub inhibited_share: f64,
    /// Those that were set or cleared, by bit.
    pub reasons: Vec<ReasonTime>,
    /// At most [`MOST_STRETCHES`], the longest kept apart and flaps run together.
    pub stretches: Vec<Stretch>,
    /// Changes whose mask does not follow from the change before.
    pub inconsistent: u64,
}

/// Inhibits of all machines, and what the names rest on.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Inhibits {
    /// What tells that a bit has this name.
    #[cfg_attr(feature = "schema", schemars(schema_with = "crate::schema::authority"))]
    pub authority: Authority,
    /// By process.
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
#[derive(Clone, Default)]
struct Bit {
    since_ns: Option<u64>,
    total_ns: u64,
    sets: u64,
    clears: u64,
    window_start_ns: u64,
    window_changes: u64,
    worst: u64,
    set_by: Option<u32>,
    setters: BTreeMap<u32, u64>,
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
            *self.setters.entry(thread).or_default() += 1;
            self.since_ns.get_or_insert(at_ns);
        } else {
            self.clears += 1;
            self.clear(at_ns);
        }
    }

    fn setters(&self) -> Vec<Setter> {
        let setters = self.setters.iter();
        let mut setters: Vec<_> =
            setters.map(|(&thread, &times)| Setter { thread, name: None, times }).collect();
        // Stable: of equally frequent ones, the lowest number first.
        setters.sort_by_key(|setter| std::cmp::Reverse(setter.times));
        setters.truncate(MOST_SETTERS);
        setters
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
    let mut bits = vec![Bit::default(); 64];
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
    let observed = to_ns.saturating_sub(from_ns).max(1);
    let reasons = bits
        .iter()
        .enumerate()
        .filter(|(_, bit)| bit.sets + bit.clears > 0 || bit.since_ns.is_some())
        .map(|(index, bit)| {
            let total = bit
                .total_ns
                .saturating_add(bit.since_ns.map_or(0, |since| to_ns.saturating_sub(since)));
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
                setters: bit.setters(),
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

impl Inhibits {
    /// Names the threads that set reasons, as far as they have names.
    pub fn name_setters(&mut self, name: impl Fn(u32) -> Option<String>) {
        let reasons = self.machines.iter_mut().flat_map(|machine| &mut machine.reasons);
        for setter in reasons.flat_map(|reason| &mut reason.setters) {
            setter.name = name(setter.thread);
        }
    }
}

#[cfg(test)]
mod tests;
