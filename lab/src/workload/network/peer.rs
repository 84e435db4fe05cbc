//! The host's own end of a wire whose other end a guest has been given.

use super::wire::{ADDRESS, BEGINS, OF_HOST, OVER, OWN_ADDRESS, ROUND_TRIPS};
use crate::linux::function::{bind, interface};
use crate::linux::interface::{Interface, interrupts_of};
use crate::linux::place::GUEST_COMMAND_LINE;
use crate::workload::kind::Attendant;
use anyhow::Context;
use bench::VirtualMachine;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use serde_json::Value as Json;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};

/// As /proc/interrupts has the lines of functions that vfio has given away.
const OF_GUEST: &str = "vfio-msix";

/// What listens at the host's end, and what the host has counted.
pub(super) struct Peer {
    /// What the guest is told: where to send to.
    word: String,
    taken_before: u64,
    taken: Option<u64>,
}

impl Peer {
    /// Listens, by processors of the host that run none of so many virtual ones, where there are
    /// such; a guest is to send so many bytes.
    pub(super) fn start(vcpus: u16, bytes: u64) -> anyhow::Result<Self> {
        bind(ADDRESS)?;
        let own = Interface(interface(OWN_ADDRESS)?);
        own.set_up()?;
        let free = free_processors(vcpus);
        if let Some(list) = &free {
            serve_interrupts(&own.0, list);
        }
        let listener = TcpListener::bind("[::]:0").context("cannot listen")?;
        let port = listener.local_addr()?.port();
        let peer = std::thread::Builder::new().spawn(move || {
            if let Some(list) = &free {
                stay_on(list);
            }
            // What fails here the guest notices: nobody answers.
            let _ = listener.accept().and_then(|(stream, _)| serve(stream));
        });
        peer.context("no thread for the network's other end")?;
        let address = own.address()?;
        let word = format!("network,{bytes},{port},{address}");
        Ok(Self { word, taken_before: 0, taken: None })
    }
}

impl Attendant for Peer {
    fn words(&self) -> String {
        format!("{GUEST_COMMAND_LINE}{}", self.word)
    }

    /// Gives the guest its end.
    fn give(&mut self, vm: &VirtualMachine) -> anyhow::Result<()> {
        Ok(vm.give(ADDRESS)?)
    }

    /// Counts what happens between two lines of the guest.
    fn take(&mut self, line: &str) -> anyhow::Result<()> {
        let record = line.starts_with('{').then(|| serde_json::from_str::<Json>(line).ok());
        let Some(record) = record.flatten() else { return Ok(()) };
        match record["record"].as_str() {
            Some(BEGINS) => self.taken_before = interrupts_of(OF_GUEST),
            Some(OVER) => self.taken = Some(interrupts_of(OF_GUEST) - self.taken_before),
            _ => {}
        }
        Ok(())
    }

    /// What was counted, as a record, once it is.
    fn look(&mut self) -> anyhow::Result<Option<String>> {
        let record = |taken| format!("{{\"record\":\"{OF_HOST}\",\"taken\":{taken}}}");
        Ok(self.taken.take().map(record))
    }
}

/// Answers each of the first bytes, then says how many came behind them.
fn serve(mut stream: TcpStream) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    let mut byte = [0];
    for _ in 0..ROUND_TRIPS {
        stream.read_exact(&mut byte)?;
        stream.write_all(&byte)?;
    }
    let mut received = 0;
    let mut some = vec![0; 1 << 16];
    loop {
        match stream.read(&mut some)? {
            0 => return stream.write_all(&u64::to_le_bytes(received)),
            count => received += count as u64,
        }
    }
}

/// vCPUs are on the first that this process may use.
fn free_processors(vcpus: u16) -> Option<Vec<usize>> {
    let own = sched_getaffinity(None).ok()?;
    let usable = (0..CpuSet::MAX_CPU).filter(|cpu| own.is_set(*cpu));
    let free: Vec<usize> = usable.skip(vcpus.into()).collect();
    (!free.is_empty()).then_some(free)
}

fn stay_on(list: &[usize]) {
    let mut set = CpuSet::new();
    list.iter().for_each(|cpu| set.set(*cpu));
    // Where the host refuses, it runs where it may.
    let _ = sched_setaffinity(None, &set);
}

/// Has processors of the list take an interface's interrupts.
fn serve_interrupts(name: &str, list: &[usize]) {
    let list = list.iter().map(usize::to_string).collect::<Vec<_>>().join(",");
    let text = std::fs::read_to_string("/proc/interrupts").unwrap_or_default();
    for line in text.lines().filter(|line| line.contains(name)) {
        let number = line.split(':').next().unwrap_or_default().trim();
        // One that cannot be moved stays.
        let _ = std::fs::write(format!("/proc/irq/{number}/smp_affinity_list"), &list);
    }
}
