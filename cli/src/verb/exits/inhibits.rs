//! Inhibits of AVIC and APICv as they are set and cleared, beside the exits of `exits live`.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read as _;
use trace::inhibit::Numbering;
use tracefs::{Directory, InhibitChange, Instance, Line};

/// Bytes that are read at a time; a storm beyond that waits in the kernel.
const MOST_BYTES: usize = 1 << 20;

/// What inhibits a virtual machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inhibit {
    pub process: u32,
    /// Names of the reasons, or what is left of the mask.
    pub reasons: String,
}

/// The changes since watching began.
pub struct Inhibits {
    seen: Result<Seen, String>,
    now: BTreeMap<u32, Inhibit>,
    changes: u64,
}

struct Seen {
    /// Before the instance, which cannot go while it is read.
    pipe: File,
    _instance: Instance,
    numbering: Numbering,
    /// The beginning of a line whose end has not come.
    begun: Vec<u8>,
}

impl Inhibits {
    /// A user who may see exits may see these too, except on old kernels, which have no such event.
    pub fn start() -> Self {
        let seen = Seen::start().map_err(|error| error.to_string());
        Self { seen, now: BTreeMap::new(), changes: 0 }
    }

    /// Takes what has changed.
    pub fn poll(&mut self) {
        let Ok(seen) = &mut self.seen else { return };
        for (thread, change) in seen.read() {
            let process = process_of(thread).unwrap_or(thread);
            self.changes += 1;
            take(&mut self.now, &seen.numbering, process, change);
        }
    }

    pub fn now(&self) -> impl Iterator<Item = &Inhibit> {
        self.now.values()
    }

    pub const fn changes(&self) -> u64 {
        self.changes
    }

    pub fn why_unseen(&self) -> Option<&str> {
        self.seen.as_ref().err().map(String::as_str)
    }
}

fn take(
    now: &mut BTreeMap<u32, Inhibit>,
    numbering: &Numbering,
    process: u32,
    change: InhibitChange,
) {
    if change.mask == 0 {
        now.remove(&process);
        return;
    }
    let (reasons, unknown) = numbering.reasons(change.mask);
    let mut names: Vec<String> = reasons.iter().map(|reason| reason.name().to_owned()).collect();
    if unknown != 0 {
        names.push(format!("{unknown:#x}"));
    }
    now.insert(process, Inhibit { process, reasons: names.join(" ") });
}

impl Seen {
    fn start() -> Result<Self, tracefs::Error> {
        let directory = Directory::find()?;
        let format = directory.format("kvm", InhibitChange::EVENT)?;
        let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
        let numbering = Numbering::from_print_format(&format)
            .or_else(|| Numbering::of_kernel(release.trim()))
            .unwrap_or_else(Numbering::assumed);
        let instance = Instance::create_for(&directory, "inhibits")?;
        instance.enable_kvm_events(&[InhibitChange::EVENT])?;
        let pipe = instance.pipe_without_waiting()?;
        Ok(Self { pipe, _instance: instance, numbering, begun: Vec::new() })
    }

    /// What has come since the last time.
    fn read(&mut self) -> Vec<(u32, InhibitChange)> {
        let mut piece = [0; 4096];
        while self.begun.len() < MOST_BYTES
            // An error says that there is nothing more for now.
            && let Ok(read @ 1..) = self.pipe.read(&mut piece)
        {
            self.begun.extend_from_slice(&piece[..read]);
        }
        let end = self.begun.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        let lines: Vec<u8> = self.begun.drain(..end).collect();
        let change = |line: &str| {
            let line = Line::parse(line)?;
            Some((line.thread, InhibitChange::parse(line.text)?))
        };
        String::from_utf8_lossy(&lines).lines().filter_map(change).collect()
    }
}

/// The process of a thread; one that has ended cannot be asked.
fn process_of(thread: u32) -> Option<u32> {
    let status = std::fs::read_to_string(format!("/proc/{thread}/status")).ok()?;
    status.lines().find_map(|line| line.strip_prefix("Tgid:"))?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_latest_mask_of_each_machine_holds() {
        let numbering = Numbering::of_kernel("6.1.0").expect("a known kernel");
        let mut now = BTreeMap::new();
        for (process, text) in [
            (7, "set reason=8, inhibits=0x100"),
            (9, "set reason=2, inhibits=0x4"),
            (7, "set reason=3, inhibits=0x108"),
            (9, "cleared reason=2, inhibits=0x0"),
        ] {
            let change = InhibitChange::parse(text).expect("as the kernel prints it");
            take(&mut now, &numbering, process, change);
        }
        let reasons: Vec<&str> = now.values().map(|inhibit| inhibit.reasons.as_str()).collect();
        assert_eq!(reasons, ["BLOCKIRQ PIT_REINJ"]);
    }
}
