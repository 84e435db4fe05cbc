//! What is wrong, judged by what the silicon shows: no annotation of the guest or the hypervisor.

mod changes;
mod end;
mod page;
mod rule;
mod said;
mod vcpu;
mod wait;

pub use changes::Changes;
pub use end::{End, SILENCE};
pub use rule::{Rule, Way};
pub use vcpu::{Place, Vcpu};
pub(super) use vcpu::{svm_halts, vmx_halts};
pub(super) use wait::PATIENCE_ASLEEP;

use crate::silicon::remapping::{Posting, Route};
use arch::address::Device;
use arch::identity::RequesterId;
use arch::msi::MessageSignalled;
use arch::svm::ExitCode;
use arch::time::Picoseconds;
use board::Machine;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use trace::{Event, Record, VirtualCpu};
use wait::Verdict;

/// Virtual time between two looks at the machine. It decides when an alarm is raised, not what is
/// one.
pub const LOOK: Picoseconds = Picoseconds::from_nanoseconds(10_000);

/// A rule that was broken.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Alarm {
    /// Which.
    pub rule: Rule,
    /// When it was raised.
    pub at: Picoseconds,
    /// Since when.
    pub since: Picoseconds,
    /// The vCPU by its control block; 0 if it is about none.
    pub vcpu: u64,
    /// The processor that it last ran on.
    pub cpu: u16,
    /// The interrupt that waits; 0 if it is about none.
    pub vector: u8,
    /// Where it waits: the address of a backing page or of a posted-interrupt descriptor.
    pub place: u64,
    /// How that came there.
    pub way: Way,
    /// What the kernel said.
    pub text: String,
}

impl Alarm {
    /// One that is about words.
    fn said(rule: Rule, at: Picoseconds, text: &str) -> Self {
        Self {
            rule,
            at,
            since: at,
            vcpu: 0,
            cpu: 0,
            vector: 0,
            place: 0,
            way: Way::Software,
            text: text.to_owned(),
        }
    }
}

/// What two alarms share that have one cause, as far as can be told.
pub type Key = (Rule, Way, String);

impl Alarm {
    /// The key by which findings are one.
    pub fn key(&self) -> Key {
        let words: Vec<&str> = self.text.split_whitespace().filter_map(word).collect();
        (self.rule, self.way, words.join(" "))
    }
}

/// Numbers, times and addresses differ from run to run; of a place in the code the function stays.
fn word(word: &str) -> Option<&str> {
    let is_number = word.chars().any(|letter| letter.is_ascii_digit());
    let function = || word.split_once("+0x").map(|(function, _)| function);
    if is_number { function() } else { Some(word) }
}

/// All oracles, over one run of the machine.
#[derive(Clone, Default)]
pub struct Oracle {
    vcpus: BTreeMap<VirtualCpu, Vcpu>,
    /// By processor in its guest: the ICR of the IPI that it sent last.
    sent: BTreeMap<u16, u64>,
    /// When a function sent its last message, which an IOMMU posts at once. Both are on the track
    /// of the first processor, whose guest sends as well.
    message: Option<Picoseconds>,
    /// The messages that functions have sent.
    messages: BTreeSet<(RequesterId, Device, u32)>,
    /// By page or descriptor: how the last vector came there.
    ways: BTreeMap<u64, Way>,
    /// The last line of the console, as far as it has been printed.
    line: Vec<u8>,
    /// What the host's agent says, and whether anybody runs.
    ear: end::Ear,
    /// What the guest said to be wrong since the last look.
    notices: Vec<Alarm>,
    /// Whether it ever did: its end, which follows, tells nothing new, nor does who sleeps then.
    is_noticed: bool,
    alarms: Vec<Alarm>,
    changes: Changes,
    /// All that was observed, if the caller asks for it.
    pub(super) records: Option<Vec<Record>>,
}

/// Upper halves of ports at which the guest says that an interrupt is lost, or that nobody sent
/// one; the lower half is the vector.
const NOTICES: [(u64, Rule); 2] = [(0x0F, Rule::Lost), (0x0D, Rule::Unasked)];
/// [SDM3 "Basic VM-Exit Reasons"]
const VMX_IO: u32 = 30;

/// Messages at most of which it is asked whom they go to.
const MOST_MESSAGES: usize = 64;
/// Alarms of one window at most: what follows the first is mostly of the same cause.
const MOST_ALARMS: usize = 16;
/// Words of a kernel's message that is a fault of its own, besides warnings.
const COMPLAINTS: [&str; 8] = [
    "BUG:",
    "Oops",
    "general protection fault",
    "soft lockup",
    "hard LOCKUP",
    "detected stalls",
    "blocked for more than",
    "Kernel panic",
];

impl Oracle {
    /// What has been broken since the last call.
    pub fn take(&mut self) -> Vec<Alarm> {
        std::mem::take(&mut self.alarms)
    }

    /// What the host has changed since the last call.
    pub fn take_changes(&mut self) -> Changes {
        std::mem::take(&mut self.changes)
    }

    /// The vCPUs that have run.
    pub fn vcpus(&self) -> impl Iterator<Item = &Vcpu> {
        self.vcpus.values()
    }

    /// Takes in what happened.
    pub fn observe(&mut self, record: &Record) {
        if let Some(records) = &mut self.records {
            records.push(*record);
        }
        let cpu = record.cpu.0;
        if leaves_its_command(&record.event) {
            self.sent.remove(&cpu);
        }
        match record.event {
            Event::Entry { vcpu, injected, rip } => {
                self.ear.enter();
                let own = self.vcpu(vcpu, cpu);
                let is_started = own.begins(rip.0 == 0);
                let is_moved = own.enter(cpu);
                if injected != 0 {
                    own.accept(injected as u8);
                }
                self.changes.moves += u64::from(is_moved);
                self.changes.starts += u64::from(is_started);
            }
            Event::SvmExit { vcpu, code, info1, .. } => {
                self.vcpu(vcpu, cpu).leave(svm_halts(code));
                if code == ExitCode::IoPort {
                    self.notice(record, vcpu, info1);
                }
            }
            Event::VmxExit { vcpu, reason, qualification, .. } => {
                self.vcpu(vcpu, cpu).leave(vmx_halts(reason));
                if reason & 0xFFFF == VMX_IO {
                    self.notice(record, vcpu, qualification);
                }
            }
            Event::VirtualInterruptAccepted { vcpu, vector } => {
                self.vcpu(vcpu, cpu).accept(vector.0);
            }
            Event::VirtualIpiSent { icr, .. } => {
                self.sent.insert(cpu, icr);
            }
            Event::MessageSignalled { requester, address, data } => {
                self.message = Some(record.at);
                if self.messages.len() < MOST_MESSAGES {
                    self.messages.insert((requester, address, data));
                }
            }
            Event::Posted { place, .. } => {
                let is_message = self.message == Some(record.at);
                let sent = self.sent.get(&cpu).filter(|_| !is_message);
                let way = sent.map_or(Way::Device, |icr| way_of(*icr));
                self.ways.insert(place.0, way);
                self.changes.posts += u64::from(way == Way::Device);
            }
            _ => {}
        }
    }

    /// What the guest says by a port: which interrupt is lost or was not sent. Both vendors have
    /// the port in bits 31:16. [APM2 "EXITINFO1 for IOIO Intercept"] [SDM3 "Exit Qualification for
    /// I/O Instructions"]
    fn notice(&mut self, record: &Record, vcpu: VirtualCpu, information: u64) {
        let port = information >> 16;
        let notice = NOTICES.iter().find(|(upper, _)| port >> 8 & 0xFF == *upper);
        let Some((_, rule)) = notice else { return };
        self.is_noticed = true;
        self.notices.push(Alarm {
            vcpu: vcpu.0.0,
            cpu: record.cpu.0,
            vector: port as u8,
            ..Alarm::said(*rule, record.at, "")
        });
    }

    fn vcpu(&mut self, vcpu: VirtualCpu, cpu: u16) -> &mut Vcpu {
        self.vcpus.entry(vcpu).or_insert_with(|| Vcpu::new(vcpu.0, cpu))
    }

    /// Takes in what the kernel prints on its console.
    pub fn listen(&mut self, at: Picoseconds, bytes: &[u8]) {
        for byte in bytes {
            if *byte != b'\n' {
                self.line.push(*byte);
                continue;
            }
            let line = String::from_utf8_lossy(&std::mem::take(&mut self.line)).into_owned();
            if is_warning(&line) || COMPLAINTS.iter().any(|words| line.contains(words)) {
                self.raise(Alarm::said(Rule::Console, at, line.trim()));
            }
        }
    }

    /// Takes in what the host's agent says, who knows how the guest ended.
    pub fn hear(&mut self, at: Picoseconds, bytes: &[u8]) {
        let heard = self.ear.hear(bytes).filter(|end| end.is_fault);
        let (saves, raises) = self.ear.take_done();
        self.changes.saves += saves;
        self.changes.raises += raises;
        if let Some(end) = heard.filter(|_| !self.is_noticed) {
            self.raise(Alarm::said(Rule::Ended, at, &end.text));
        }
    }

    /// How the guest ended, if it did.
    pub fn end(&self) -> Option<&End> {
        self.ear.end()
    }

    /// Whether no vCPU has been in its guest for so long that none ever will.
    pub fn is_deserted(&self, now: Picoseconds) -> bool {
        self.ear.is_deserted(now)
    }

    /// As if none had been for that long.
    #[cfg(test)]
    pub fn fall_silent(&mut self, now: Picoseconds) {
        self.ear.fall_silent(now);
    }

    /// Whether none has been for longer than the guest of the mix ever is silent.
    pub fn is_silent(&self, now: Picoseconds) -> bool {
        self.ear.is_silent(now)
    }

    /// Looks at the machine, which stands between two events.
    pub fn look(&mut self, machine: &Machine) {
        let now = machine.state.now;
        // Who is held up may be about to announce what is missing, but sends nothing twice.
        let is_held = wait::is_anybody_held(machine);
        let notices = std::mem::take(&mut self.notices);
        let counts = notices.into_iter().filter(|one| one.rule == Rule::Unasked || !is_held);
        counts.for_each(|alarm| self.raise(alarm));
        // A guest that has given up sends nothing, and nobody runs it again.
        if !self.is_noticed {
            self.judge(machine);
        }
        let is_inside = self.vcpus.values().any(|vcpu| vcpu.place() == Place::InGuest);
        self.ear.look(now, is_inside);
    }

    fn judge(&mut self, machine: &Machine) {
        let postings = self.postings(machine);
        let vcpus = std::mem::take(&mut self.vcpus);
        self.vcpus = vcpus
            .into_iter()
            .map(|(key, mut vcpu)| {
                self.changes.switches += u64::from(vcpu.is_switched(machine));
                let verdicts = vcpu.judge(machine, &postings);
                for Verdict { wrong, since } in verdicts.into_iter().flatten() {
                    let place = vcpu.place_of_requests(machine).map_or(0, |place| place.0);
                    let came = || self.ways.get(&place).copied().unwrap_or(Way::Software);
                    self.raise(Alarm {
                        rule: wrong.rule,
                        at: machine.state.now,
                        since,
                        vcpu: key.0.0,
                        cpu: vcpu.cpu(),
                        vector: wrong.vector.0,
                        place,
                        way: wrong.way.unwrap_or_else(came),
                        text: String::new(),
                    });
                }
                (key, vcpu)
            })
            .collect();
    }

    /// What functions' messages are posted to, as tables have it now.
    fn postings(&self, machine: &Machine) -> Vec<Posting> {
        let of = |(requester, address, data): &(RequesterId, Device, u32)| {
            let message = MessageSignalled { address: *address, data: *data };
            Route::of(machine, *requester, message)?.posting(machine)
        };
        self.messages.iter().filter_map(of).collect()
    }

    fn raise(&mut self, alarm: Alarm) {
        if self.alarms.len() < MOST_ALARMS {
            self.alarms.push(alarm);
        }
    }
}

/// Whether a processor is done with the IPI that its guest sent last.
fn leaves_its_command(event: &Event) -> bool {
    use Event::*;
    matches!(event, Entry { .. } | SvmExit { .. } | VmxExit { .. } | Halt { .. } | Wake {})
}

/// The first line of a warning names the processor, behind the place in newer kernels; a line that
/// begins likewise and names none is advice. [LINUX "kernel/panic.c"]
fn is_warning(line: &str) -> bool {
    let words = line.split_once("WARNING: ").map_or("", |(_, words)| words);
    words.starts_with("CPU: ") || words.contains(", CPU#")
}

/// How an ICR addresses its targets. [APM2 "Interrupt Command Register"]
pub(super) fn way_of(icr: u64) -> Way {
    let icr = arch::apic::Icr::from_bits(icr);
    match (icr.shorthand(), icr.destination_mode()) {
        (arch::apic::Scope::Destination, arch::apic::DestinationMode::Physical) => Way::Physical,
        (arch::apic::Scope::Destination, _) => Way::Logical,
        _ => Way::Shorthand,
    }
}

#[cfg(test)]
mod tests;
