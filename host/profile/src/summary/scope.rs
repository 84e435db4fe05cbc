//! What one computation of a summary works on, and each part of the summary computed from it.

use super::{Ceiling, Context, Extent, Group, Row, Table, Timeline};
use crate::avoidable::{Evidence, Judgement, Verdict, is_idle, judge};
use crate::cell::Cell;
use crate::inhibit::{Inhibits, follow};
use crate::key::{Detail, Key, View};
use crate::name::{access_meaning, detail_name, row_name};
use crate::profile::{Profile, Selection, Vcpu};
use std::collections::BTreeMap;
use trace::exit_reason::{Isa, vmx};
use trace::inhibit::Authority;

pub(super) struct Scope<'a> {
    pub(super) profile: &'a Profile,
    pub(super) context: &'a Context,
    pub(super) isa: Option<Isa>,
    pub(super) evidence: Evidence,
}

/// Whether a fault was an access to a register of the APIC.
pub(super) fn has_apic_faults(profile: &Profile) -> bool {
    let is_register = |detail| matches!(detail, Detail::Icr(_) | Detail::Register { .. });
    let mut keys = profile.vcpus.iter().flat_map(|vcpu| &vcpu.cells).map(|cell| cell.0);
    keys.any(|key| {
        key.view() == View::Vmexit
            && matches!(key.reason() & 0xffff, vmx::EPT_VIOLATION | vmx::EPT_MISCONFIG)
            && is_register(key.detail())
    })
}

impl Scope<'_> {
    pub(super) fn is_idle(&self, key: Key) -> bool {
        key.view() == View::Vmexit && self.isa.is_some_and(|isa| is_idle(isa, key.reason()))
    }

    pub(super) fn judge(&self, key: Key) -> Option<Judgement> {
        let isa = self.isa.filter(|_| key.view() == View::Vmexit)?;
        Some(judge(isa, key.reason(), key.detail(), self.evidence))
    }

    pub(super) fn table(&self, selection: &Selection) -> Table {
        let rows = self.profile.rows(selection);
        let count: u64 = rows.iter().map(|row| row.1.count).sum();
        let time_ns: u64 = rows.iter().map(|row| row.1.time_ns).sum();
        let work_ns: u64 =
            rows.iter().filter(|row| !self.is_idle(row.0)).map(|row| row.1.time_ns).sum();
        let totals = (count, time_ns, work_ns);
        let rows = rows.iter().map(|(key, cell)| self.row(*key, cell, selection, totals)).collect();
        Table { view: selection.view, rows, count, time_ns }
    }

    fn row(
        &self,
        key: Key,
        cell: &Cell,
        selection: &Selection,
        (count, time_ns, work_ns): (u64, u64, u64),
    ) -> Row {
        let is_idle = self.is_idle(key);
        // A reason that joins several details has no verdict of its own.
        let judgement = self.judge(key).filter(|_| !selection.by_reason);
        let about = match key.view() {
            View::Vmexit => detail_name(key.detail()),
            _ => access_meaning(key).unwrap_or_default(),
        };
        let quantile = |fraction| {
            let value = cell.histogram.quantile(fraction)?;
            Some(value.clamp(cell.min_ns as f64, cell.max_ns as f64))
        };
        Row {
            name: row_name(key, self.isa, &self.context.extra_names),
            about,
            count: cell.count,
            count_share: share(cell.count, count),
            time_share: share(cell.time_ns, time_ns),
            work_share: if is_idle { 0.0 } else { share(cell.time_ns, work_ns) },
            is_idle,
            time_ns: cell.time_ns,
            min_ns: cell.min_ns,
            max_ns: cell.max_ns,
            mean_ns: cell.mean_ns(),
            relative_error: cell.relative_error(),
            p50_ns: quantile(0.5),
            p99_ns: quantile(0.99),
            p999_ns: quantile(0.999),
            per_second: rate(cell.count, self.profile.seconds()),
            verdict: judgement.map(|judgement| judgement.verdict),
            feature: judgement.map_or_else(String::new, |judgement| judgement.feature.into()),
            rule: judgement.map_or_else(String::new, |judgement| judgement.rule.into()),
            histogram: cell.histogram.octaves(),
        }
    }

    fn vcpus(&self, selection: &Selection) -> impl Iterator<Item = &Vcpu> {
        self.profile.vcpus.iter().filter(|vcpu| {
            selection.vcpu.is_none_or(|number| number == vcpu.number)
                && selection.process.is_none_or(|process| process == vcpu.process)
        })
    }

    fn machine_name(&self, process: u32) -> String {
        match (process, self.context.thread_names.get(&process)) {
            (0, _) => "all".into(),
            (_, Some(name)) => format!("{name}/{process}"),
            (_, None) => process.to_string(),
        }
    }

    /// Inhibits, with the threads that caused them by what they are: a vCPU, or a thread of the
    /// monitor.
    pub(super) fn inhibits(&self, span: (u64, u64)) -> Option<Inhibits> {
        let mut inhibits = follow(&self.profile.inhibits, &self.context.numbering, span)?;
        inhibits.name_setters(|thread| {
            if let Some(vcpu) = self.profile.vcpus.iter().find(|vcpu| vcpu.thread == thread) {
                return Some(format!("vCPU {}", vcpu.number));
            }
            let name = self.context.thread_names.get(&thread)?;
            Some(format!("{name}/{thread}"))
        });
        Some(inhibits)
    }

    fn vcpu_name(&self, vcpu: &Vcpu) -> String {
        if self.profile.vcpus.iter().all(|other| other.process == vcpu.process) {
            format!("vCPU {}", vcpu.number)
        } else {
            format!("{} vCPU {}", self.machine_name(vcpu.process), vcpu.number)
        }
    }

    pub(super) fn machines(&self, selection: &Selection) -> Vec<Group> {
        let mut processes: Vec<u32> = self.vcpus(selection).map(|vcpu| vcpu.process).collect();
        processes.dedup();
        let group = |process: u32| {
            let cells = self
                .vcpus(selection)
                .filter(move |vcpu| vcpu.process == process)
                .flat_map(|vcpu| &vcpu.cells);
            self.group(self.machine_name(process), cells, self.profile.seconds())
        };
        processes.into_iter().map(group).collect()
    }

    pub(super) fn by_vcpu(&self, selection: &Selection) -> Vec<Group> {
        self.vcpus(selection)
            .map(|vcpu| self.group(self.vcpu_name(vcpu), vcpu.cells.iter(), self.profile.seconds()))
            .collect()
    }

    fn group<'b>(
        &self,
        name: String,
        cells: impl Iterator<Item = &'b (Key, Cell)>,
        seconds: f64,
    ) -> Group {
        let parts = cells
            .filter(|row| row.0.view() == View::Vmexit)
            .map(|(key, cell)| (*key, cell.count, cell.time_ns));
        self.group_of(name, parts, seconds)
    }

    fn group_of(
        &self,
        name: String,
        parts: impl Iterator<Item = (Key, u64, u64)>,
        seconds: f64,
    ) -> Group {
        let mut group = Group {
            name,
            count: 0,
            per_second: 0.0,
            work_count: 0,
            work_ns: 0,
            idle_ns: 0,
            avoidable: 0,
            avoidable_ns: 0,
            top: String::new(),
        };
        // Few enough to look through.
        let mut reasons: Vec<(u32, u64)> = Vec::new();
        for (key, count, time_ns) in parts {
            group.count += count;
            match reasons.iter_mut().find(|row| row.0 == key.reason()) {
                Some(row) => row.1 += count,
                None => reasons.push((key.reason(), count)),
            }
            if self.is_idle(key) {
                group.idle_ns += time_ns;
            } else {
                group.work_count += count;
                group.work_ns += time_ns;
            }
            if self.judge(key).is_some_and(|judged| judged.verdict == Verdict::Avoidable) {
                group.avoidable += count;
                group.avoidable_ns += time_ns;
            }
        }
        group.per_second = rate(group.count, seconds);
        let top = reasons.into_iter().max_by_key(|row| (row.1, std::cmp::Reverse(row.0)));
        if let Some((reason, count)) = top.filter(|row| row.1 > 0) {
            let key = Key::exit(reason, crate::key::PackedDetail::UNKNOWN);
            let name = row_name(key, self.isa, &self.context.extra_names);
            group.top = format!("{name} {:.0} %", share(count, group.count));
        }
        group
    }

    /// Seconds to divide by. A short piece at either end of a recording says little about a rate.
    fn block_seconds(&self, from_ns: u64, until_ns: u64) -> f64 {
        let least_ns = self.profile.shown_width_ns() / 8;
        until_ns.saturating_sub(from_ns).max(least_ns) as f64 / 1e9
    }

    /// How many blocks make a stretch, for no more stretches than these.
    pub(super) fn stretch(&self, most: u64) -> u64 {
        let width_ns = self.profile.shown_width_ns();
        let (first, last) = self.profile.span_ns.unwrap_or((0, 0));
        // Stretches are aligned, so that there may be one more.
        (last / width_ns - first / width_ns + 1).div_ceil(most.saturating_sub(1).max(1)).max(1)
    }

    /// Lines of so many blocks of time each.
    pub(super) fn by_time(&self, selection: &Selection, stretch: u64) -> Vec<Group> {
        let mut blocks: Vec<(u64, (Key, u64, u64))> = Vec::new();
        let exits = self.vcpus(selection).flat_map(|vcpu| &vcpu.cells);
        for (key, cell) in exits.filter(|row| row.0.view() == View::Vmexit) {
            let counted = cell.blocks.iter().filter(|(_, block)| block.count > 0);
            blocks
                .extend(counted.map(|(start, block)| (start, (*key, block.count, block.time_ns))));
        }
        // A row's blocks are in order, which this sort makes use of.
        blocks.sort_by_key(|block| block.0);
        let length_ns = self.profile.shown_width_ns().saturating_mul(stretch);
        let (first, last) = self.profile.span_ns.unwrap_or((0, 0));
        blocks
            .chunk_by(|one, other| one.0 / length_ns == other.0 / length_ns)
            .map(|rows| {
                let from = rows[0].0 / length_ns * length_ns;
                // The first begins before the recording, the last may end after it.
                let until = from.saturating_add(length_ns).min(last);
                let from = from.max(first);
                let name = format!("{:.3}", from as f64 / 1e9);
                let seconds = self.block_seconds(from, until);
                self.group_of(name, rows.iter().map(|row| row.1), seconds)
            })
            .collect()
    }

    /// Seconds of the first event, and the width of a block.
    fn origin(&self) -> (f64, f64) {
        let first = self.profile.span_ns.map_or(0.0, |span| span.0 as f64 / 1e9);
        (first, self.profile.shown_width_ns() as f64 / 1e9)
    }

    pub(super) fn timeline(&self, selection: &Selection) -> Timeline {
        let (first, width) = self.origin();
        let width_ns = self.profile.shown_width_ns();
        let mut series = Vec::new();
        let span = self.profile.span_ns.unwrap_or((0, 0));
        let (begin, end) = (span.0 / width_ns, span.1 / width_ns);
        // Blocks are at most 1024 per cell and aligned; the bound is against odd clocks.
        let count = (end - begin + 1).min(4096) as usize;
        for vcpu in self.vcpus(selection) {
            let mut rates: Vec<f64> = vec![0.0; count];
            let cells = vcpu.cells.iter().filter(|row| row.0.view() == View::Vmexit);
            for (start, block) in cells.flat_map(|row| row.1.blocks.iter()) {
                let index = (start / width_ns).wrapping_sub(begin) as usize;
                if let Some(rate) = rates.get_mut(index) {
                    // Blocks may be narrower than what is shown.
                    let start = start / width_ns * width_ns;
                    let from = start.max(span.0);
                    let until = start.saturating_add(width_ns).min(span.1);
                    *rate += block.count as f64 / self.block_seconds(from, until);
                }
            }
            series.push((self.vcpu_name(vcpu), rates));
        }
        let starts = (0..count as u64)
            .map(|index| (((begin + index) * width_ns) as f64 / 1e9 - first).max(0.0))
            .collect();
        Timeline { block_seconds: width, starts, series }
    }

    pub(super) fn warnings(&self) -> Vec<String> {
        let mut warnings = Vec::new();
        let profile = self.profile;
        let discarded: u64 = profile.vcpus.iter().map(|vcpu| vcpu.discarded).sum();
        if profile.lost_events > 0 {
            warnings.push(format!(
                "{} events were lost while recording: counts are too low by about as many \
                 (record with larger buffers, -m)",
                profile.lost_events
            ));
        }
        if discarded > 0 {
            warnings.push(format!(
                "{discarded} exits span a loss or a clock that ran back and are left out"
            ));
        }
        if profile.ignored > 0 {
            warnings.push(format!("{} events exceed what is kept one by one", profile.ignored));
        }
        if !profile.inhibits.is_empty() && self.context.numbering.authority == Authority::Assumed {
            warnings.push(
                "numbers of inhibits differ between kernels and the recording does not name its \
                 own: give --kernel RELEASE"
                    .into(),
            );
        }
        if self.isa.is_none() && !profile.vcpus.is_empty() {
            warnings.push(
                "the vendor is not known, so reasons have no names: give --vendor amd or intel"
                    .into(),
            );
        }
        warnings
    }
}

pub(super) fn ceiling(detailed: &Table) -> Ceiling {
    let mut ceiling = Ceiling::default();
    let mut features: BTreeMap<&str, Extent> = BTreeMap::new();
    for row in &detailed.rows {
        let extent = match row.verdict {
            _ if row.is_idle => &mut ceiling.idle,
            Some(Verdict::Avoidable) => &mut ceiling.avoidable,
            Some(Verdict::NotAvoidable) => &mut ceiling.not_avoidable,
            _ => &mut ceiling.unknown,
        };
        add(extent, row);
        if !row.is_idle {
            add(&mut ceiling.work, row);
        }
        if row.verdict == Some(Verdict::Avoidable) {
            add(features.entry(&row.feature).or_default(), row);
        }
    }
    ceiling.by_feature =
        features.into_iter().map(|(name, extent)| (name.to_owned(), extent)).collect();
    ceiling.by_feature.sort_by_key(|row| std::cmp::Reverse(row.1.count));
    let (count, time) = (ceiling.work.count, ceiling.work.time_ns);
    let Ceiling { work, idle, avoidable, not_avoidable, unknown, by_feature } = &mut ceiling;
    let features = by_feature.iter_mut().map(|row| &mut row.1);
    for extent in [work, idle, avoidable, not_avoidable, unknown].into_iter().chain(features) {
        extent.count_share = share(extent.count, count);
        extent.time_share = share(extent.time_ns, time);
    }
    ceiling
}

fn add(extent: &mut Extent, row: &Row) {
    extent.count += row.count;
    extent.time_ns += row.time_ns;
}

fn share(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 * 100.0 }
}

fn rate(count: u64, seconds: f64) -> f64 {
    if seconds > 0.0 { count as f64 / seconds } else { 0.0 }
}
