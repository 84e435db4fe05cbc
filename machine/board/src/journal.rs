//! A journal of what some code does to memory on all processors, such as a hypervisor's: where two
//! of them meet a delay may matter. Nothing that the machine does shows that it is kept.

use crate::Machine;
use arch::address::SystemPhysical;
use arch::identity::CpuIndex;
use cpu::{Interest, Touch};

impl Machine {
    /// From here on what some code outside of guests does to memory is noted, until the machine
    /// returns to its mark. What a debugger observes is forgotten.
    pub fn keep_journal(&mut self, interest: &Interest) {
        self.state.cpus.iter_mut().for_each(|cpu| cpu.keep_journal(interest.clone()));
    }

    /// What was noted since the last call, by processor, each in order of time.
    pub fn take_journal(&mut self) -> Vec<(CpuIndex, Vec<Touch>)> {
        let cpus = self.state.cpus.iter_mut().enumerate();
        cpus.map(|(index, cpu)| (CpuIndex(index as u16), cpu.observation.take_touches())).collect()
    }

    /// The index into RAM of the byte at an address, if RAM is there: [`Touch::place`].
    pub fn place(&self, at: SystemPhysical) -> Option<u64> {
        self.memory.offset(at).map(|offset| offset as u64)
    }
}
