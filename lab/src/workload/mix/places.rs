//! Which processor has which vCPU.

use anyhow::Context;
use bench::thread_name;
use bus::Random;
use rustix::io::Errno;
use rustix::process::Pid;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// Where vCPUs are, and the processor that none of them has, which is this thread's.
pub(super) struct Places {
    /// By vCPU: its thread and its processor.
    vcpus: Vec<(Pid, usize)>,
    free: usize,
}

impl Places {
    /// As threads were begun: each on a processor of its own, and one left. None if the guest has
    /// ended.
    pub fn find(vcpus: u16) -> anyhow::Result<Option<Self>> {
        let threads: Vec<(Pid, String)> = std::fs::read_dir("/proc/self/task")?
            .flatten()
            .filter_map(|entry| {
                let pid = Pid::from_raw(entry.file_name().to_str()?.parse().ok()?)?;
                let name = std::fs::read_to_string(entry.path().join("comm")).ok()?;
                Some((pid, name.trim_end().to_owned()))
            })
            .collect();
        let place = |vcpu: u16| {
            let name = thread_name(vcpu);
            let found = threads.iter().find(|(_, own)| *own == name);
            let Some((pid, _)) = found else { return Ok(None) };
            let pid = *pid;
            let set = match sched_getaffinity(Some(pid)) {
                Err(Errno::SRCH) => return Ok(None),
                set => set?,
            };
            let mut cpus = (0..CpuSet::MAX_CPU).filter(|cpu| set.is_set(*cpu));
            let cpu = cpus.next().with_context(|| format!("{name} runs nowhere"))?;
            anyhow::ensure!(cpus.next().is_none(), "{name} is not on one processor");
            Ok(Some((pid, cpu)))
        };
        let vcpus = (0..vcpus).map(place).collect::<anyhow::Result<Option<Vec<_>>>>()?;
        let Some(vcpus) = vcpus else { return Ok(None) };
        let all = sched_getaffinity(None)?;
        let is_free = |cpu: &usize| all.is_set(*cpu) && vcpus.iter().all(|(_, own)| own != cpu);
        let free = (0..CpuSet::MAX_CPU).find(is_free).context("no processor is free")?;
        put(None, free)?;
        Ok(Some(Self { vcpus, free }))
    }

    /// Moves a vCPU to the free processor, and this thread to that which it leaves; false if the
    /// guest has ended.
    pub fn shift(&mut self, random: &mut Random) -> anyhow::Result<bool> {
        let index = random.below(self.vcpus.len() as u64) as usize;
        let (pid, own) = &mut self.vcpus[index];
        if put(Some(*pid), self.free)? {
            std::mem::swap(own, &mut self.free);
            return put(None, self.free);
        }
        Ok(false)
    }
}

/// Keeps a thread on a processor; false if there is no such thread any more.
fn put(thread: Option<Pid>, cpu: usize) -> anyhow::Result<bool> {
    let mut set = CpuSet::new();
    set.set(cpu);
    match sched_setaffinity(thread, &set) {
        Err(Errno::SRCH) => Ok(false),
        done => done.map(|()| true).with_context(|| format!("cannot run on processor {cpu}")),
    }
}
