//! Memory: physical, or as a processor translates.

use crate::answer::Service;
use crate::error::{Code, Refusal};
use arch::address::{Linear, SystemPhysical};
use arch::identity::CpuIndex;

/// Bytes of one read.
const LARGEST_READ: usize = 16 << 20;

impl Service<'_> {
    pub(crate) fn read(
        &self,
        at: u64,
        bytes: usize,
        cpu: Option<u16>,
        room: usize,
    ) -> Result<Vec<u8>, Refusal> {
        fits(bytes, room.min(LARGEST_READ))?;
        let Some(cpu) = cpu else {
            let slice = self.machine.memory.slice(SystemPhysical(at), bytes);
            return slice.map(<[u8]>::to_vec).map_err(|_| no_ram(at, bytes));
        };
        if usize::from(cpu) >= self.machine.state.cpus.len() {
            return Err(self.no_processor(cpu));
        }
        let mut read = vec![0; bytes];
        match self.machine.read_linear(CpuIndex(cpu), Linear(at), &mut read) {
            done if done == bytes => Ok(read),
            done => Err(no_mapping(at, done, cpu)),
        }
    }

    pub(crate) fn write(&mut self, at: u64, from: &[u8], cpu: Option<u16>) -> Result<(), Refusal> {
        let Some(cpu) = cpu else {
            let written = self.machine.memory.write(SystemPhysical(at), from);
            return written.map_err(|_| no_ram(at, from.len()));
        };
        if usize::from(cpu) >= self.machine.state.cpus.len() {
            return Err(self.no_processor(cpu));
        }
        match self.machine.write_linear(CpuIndex(cpu), Linear(at), from) {
            done if done == from.len() => Ok(()),
            done => Err(no_mapping(at, done, cpu)),
        }
    }
}

/// Whether so many bytes may be in a reply.
pub fn fits(bytes: usize, most: usize) -> Result<(), Refusal> {
    if bytes > most {
        let text = format!("{bytes} bytes, the reply has room for {most}");
        return Err(Refusal::new(Code::Limit, text));
    }
    Ok(())
}

fn no_ram(at: u64, bytes: usize) -> Refusal {
    Refusal::new(Code::Memory, format!("{bytes} bytes at {at:#x} are not all in RAM"))
}

fn no_mapping(at: u64, done: usize, cpu: u16) -> Refusal {
    let at = at.wrapping_add(done as u64);
    let text = format!("processor {cpu} has no RAM at linear {at:#x}; {done} bytes before it");
    Refusal::new(Code::Memory, text)
}
