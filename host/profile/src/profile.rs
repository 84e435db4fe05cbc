//! The finished profile: rows of statistics per vCPU, everything counted, and the inhibits.

use crate::cell::{Blocks, Cell};
use crate::key::{Key, View};
use crate::part::{InhibitChange, Part, Tally};
use trace::exit_reason::Isa;

/// One vCPU: a thread that has entered a guest.
#[derive(Clone, Debug)]
pub struct Vcpu {
    /// The virtual machine's process; 0 where the recording does not tell.
    pub process: u32,
    /// As the host numbers it.
    pub thread: u32,
    /// As KVM numbers it within its machine.
    pub number: u32,
    /// Sorted by key.
    pub cells: Vec<(Key, Cell)>,
    /// Exits followed by another exit.
    pub unpaired: u64,
    /// Exits thrown away for a loss, or a clock that ran back.
    pub discarded: u64,
}

/// What a recording says about its virtual machines.
#[derive(Clone, Debug)]
pub struct Profile {
    /// Sorted by process, number and thread.
    pub vcpus: Vec<Vcpu>,
    /// Sorted by process, family and value.
    pub tallies: Vec<Tally>,
    /// Sorted by time.
    pub inhibits: Vec<InhibitChange>,
    /// KVM events read, whether they are tabled or not.
    pub events: u64,
    /// Events that the recorder itself says it lost.
    pub lost_events: u64,
    /// Events beyond what is kept one by one.
    pub ignored: u64,
    /// What the exits say they are.
    pub isa: Option<Isa>,
    /// First and last event; `None` of an empty recording.
    pub span_ns: Option<(u64, u64)>,
}

impl Profile {
    /// Of these vCPUs, and nothing else.
    pub fn of(vcpus: Vec<Vcpu>, isa: Option<Isa>) -> Self {
        Self {
            vcpus,
            tallies: Vec::new(),
            inhibits: Vec::new(),
            events: 0,
            lost_events: 0,
            ignored: 0,
            isa,
            span_ns: None,
        }
    }
}

impl Part {
    /// Ends the recording: exits still open are dropped, since nobody saw how long they lasted.
    pub fn finish(mut self) -> Profile {
        let (isa, last_ns) = (self.isa(), self.latest_ns());
        let mut inhibits = self.take_inhibits();
        inhibits.sort_by_key(|change| change.time_ns);
        let mut vcpus: Vec<Vcpu> = self
            .threads
            .into_entries()
            .into_iter()
            .filter(|(_, thread)| thread.has_entered)
            .map(|(number, thread)| Vcpu {
                process: thread.process,
                thread: number,
                number: thread.vcpu,
                cells: sorted(thread.cells.into_entries()),
                unpaired: thread.unpaired,
                discarded: thread.discarded,
            })
            .collect();
        vcpus.sort_by_key(|vcpu| (vcpu.process, vcpu.number, vcpu.thread));
        align_blocks(&mut vcpus);
        let mut tallies: Vec<Tally> = self
            .tallies
            .iter()
            .map(|&(key, count)| Tally {
                process: key.process,
                family: key.family,
                value: key.value,
                count,
            })
            .collect();
        tallies.sort_by_key(|tally| (tally.process, tally.family, tally.value));
        Profile {
            vcpus,
            tallies,
            inhibits,
            events: self.events,
            lost_events: self.losses.events,
            ignored: self.ignored,
            isa: Isa::from_number(isa),
            span_ns: (self.events > 0).then_some((self.first_ns, last_ns)),
        }
    }
}

fn sorted(mut cells: Vec<(Key, Cell)>) -> Vec<(Key, Cell)> {
    // Rows of which nothing ended.
    cells.retain(|row| row.1.count > 0);
    cells.iter_mut().for_each(|row| row.1.settle());
    cells.sort_by_key(|row| row.0);
    cells
}

/// Blocks of all rows get one width, so that they can be laid side by side.
pub(crate) fn align_blocks(vcpus: &mut [Vcpu]) {
    let cells = || vcpus.iter().flat_map(|vcpu| &vcpu.cells);
    let shift = cells().map(|row| row.1.blocks.shift()).max().unwrap_or(0);
    for (_, cell) in vcpus.iter_mut().flat_map(|vcpu| &mut vcpu.cells) {
        cell.blocks.widen_to(shift);
    }
}

/// Which rows and vCPUs of a profile are meant.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selection {
    /// Which table.
    pub view: View,
    /// Only the vCPUs of this number.
    pub vcpu: Option<u32>,
    /// Only the machine of this process.
    pub process: Option<u32>,
    /// One row per exit reason, as the peer has it, rather than one per reason and detail.
    pub by_reason: bool,
    /// Whether anybody looks at how it went over time, which takes longer than all the rest.
    pub has_times: bool,
}

impl Profile {
    /// Rows of a selection, joined over vCPUs, most frequent first; rows of equal count in the
    /// order of the peer.
    pub fn rows(&self, selection: &Selection) -> Vec<(Key, Cell)> {
        let mut rows: Vec<(Key, Cell)> = Vec::new();
        let selected = |vcpu: &&Vcpu| {
            selection.vcpu.is_none_or(|number| number == vcpu.number)
                && selection.process.is_none_or(|process| process == vcpu.process)
        };
        for (key, cell) in self.vcpus.iter().filter(selected).flat_map(|vcpu| &vcpu.cells) {
            if key.view() != selection.view {
                continue;
            }
            let key = if selection.by_reason { key.without_detail() } else { *key };
            match rows.iter_mut().find(|row| row.0 == key) {
                Some(row) => row.1.join(cell),
                None => rows.push((key, cell.clone())),
            }
        }
        rows.sort_by(|a, b| {
            let bucket = |key: Key| key.peer_value() & 0xfff;
            b.1.count
                .cmp(&a.1.count)
                .then(bucket(a.0).cmp(&bucket(b.0)))
                .then(b.1.first_ns.cmp(&a.1.first_ns))
                .then(a.0.cmp(&b.0))
        });
        rows
    }

    /// Width of the blocks of time, the same for all rows.
    pub fn block_width_ns(&self) -> u64 {
        let mut cells = self.vcpus.iter().flat_map(|vcpu| &vcpu.cells);
        cells.next().map_or_else(|| Blocks::default().width_ns(), |row| row.1.blocks.width_ns())
    }

    /// Width of the stretches of time that are shown: narrower blocks are for statistics.
    pub fn shown_width_ns(&self) -> u64 {
        /// About an eighth of a second.
        const NARROWEST_SHOWN: u64 = 1 << 27;
        self.block_width_ns().max(NARROWEST_SHOWN)
    }

    /// Seconds between the first and the last event.
    pub fn seconds(&self) -> f64 {
        self.span_ns.map_or(0.0, |(first, last)| (last - first) as f64 / 1e9)
    }
}
