//! What the VMM asks KVM for that inhibits, and where that is found.

use super::super::{Doing, Step};
use super::Follower;
use crate::watch::{Halt, Watch};
use arch::identity::CpuIndex;
use arch::time::Picoseconds;
use trace::{Event, Record};

/// An inhibit is sought in windows of so much, half of which is what the next begins with: its
/// cause comes before what shows it.
const WINDOW: Picoseconds = Picoseconds::from_nanoseconds(200_000);
/// Its cause comes before what shows it by less than this.
const CAUSE: Picoseconds = Picoseconds::from_nanoseconds(25_000);
/// One that has not come by then is not waited for.
const MOST_WINDOWS: usize = 1000;
/// By which a VMM asks KVM for something.
const REQUESTS: [&str; 2] = ["kvm_vcpu_ioctl", "kvm_vm_ioctl"];

impl Follower {
    /// Goes on until shortly before KVM inhibits, and learns who runs where; whether it does.
    pub fn seek_inhibit(&mut self, watch: &mut Watch<'_>) -> Result<bool, Halt> {
        for _ in 0..MOST_WINDOWS {
            watch.check()?;
            let mark = self.machine.mark();
            self.advance_by(WINDOW);
            let records = self.take();
            let is_inhibit =
                |record: &&Record| matches!(record.event, Event::VirtualApic { is_on: false, .. });
            let shows = records.iter().find(is_inhibit).map(|record| record.at);
            records.iter().filter(|_| shows.is_some()).for_each(|record| self.learn(record));
            self.machine.return_to(&mark);
            self.machine.forget_mark();
            if let Some(shows) = shows {
                let before = shows.0.saturating_sub(CAUSE.0 + self.machine.state.now.0);
                self.advance_by(Picoseconds(before));
                self.take();
                self.last.clear();
                self.changes();
                return Ok(true);
            }
            self.advance(Picoseconds(WINDOW.0 / 2));
        }
        Ok(false)
    }

    /// Tells what the VMM asks KVM for that inhibits, if a processor has just come there.
    pub(super) fn tell_request(&mut self, index: usize) {
        let Some(cause) = self.extent.kind().cause() else { return };
        let (cpu, at) = (CpuIndex(index as u16), self.machine.state.cpus[index].clock.now());
        let ip = arch::address::Linear(self.machine.state.cpus[index].registers.ip);
        let name = self.symbols.name(ip).unwrap_or_default();
        // At its first instruction.
        let is_request = name.strip_suffix("+0x0").is_some_and(|name| REQUESTS.contains(&name));
        if !is_request || self.machine.state.cpus[index].is_guest() {
            return;
        }
        let (text, rule) = cause.request(self.requests);
        self.requests += 1;
        self.extent.begin_at(at);
        self.vmm = Some(cpu);
        self.waiting = self.vcpus.keys().copied().collect();
        let step = Step {
            at_ps: 0,
            who: self.role(None, cpu),
            doing: Doing::Host,
            text: text.into(),
            details: Vec::new(),
            rule,
            functions: Vec::new(),
            makes: None,
        };
        self.push(Some(cpu), at, step);
    }
}
