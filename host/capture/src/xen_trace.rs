//! What `xentrace` writes: the trace buffers of Xen. [XENTRACE "trace.h"]
//!
//! Records lie back to back, each with a word that says what it is and how long. They come in
//! windows, one CPU after the other, and a record of the file names the CPU whose window follows.
//! Exits and entries do not say whose they are; the scheduler's records of the same CPU do, if
//! they were recorded (`xentrace -e all`, or class 2f000h beside 81000h). The file says neither
//! whose processor it was nor how fast its time-stamp counter ran.

mod record;
#[cfg(test)]
mod tests;

use crate::parallel::STOPPED;
use crate::sink::{Origin, Sink};
use record::{Kind, Record, Records};
use std::collections::BTreeMap;
use std::io::{Cursor, Read};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use trace::exit_reason::Isa;
use trace::kvm::{Exit, KvmEvent, Stamp};

/// First bytes of such a file: the CPU whose window follows.
pub const MAGIC: &[u8] = &[0x03, 0xf0, 0x01, 0x20];

/// What `xenalyze` takes for the frequency of the counter unless it is told.
pub const ASSUMED_HERTZ: u64 = 2_400_000_000;

/// Bytes looked at to tell whose exits they are.
const HEAD: u64 = 4 << 20;
/// No exit of Intel's has so high a number yet; AMD's interrupts and much else do.
/// [SDM3 "VMX Basic Exit Reasons"] [APM2 "SVM Intercept Exit Codes"]
const FIRST_OF_AMD: u32 = 0x60;
/// Threads of vCPUs that no record of the scheduler names begin here, one for each CPU.
const NAMELESS: u32 = 1 << 31;
/// CPUs of the host that are told apart.
const MOST_CPUS: u32 = 4096;
/// Records whose names are given to the sink, at most.
const MOST_VCPUS: usize = 1 << 16;

/// What the user knows of a recording that does not say it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Known {
    /// Whose exits they are; found out from their numbers if not given.
    pub isa: Option<Isa>,
    /// Counts of the time-stamp counter in a second; not zero.
    pub tsc_hertz: Option<u64>,
}

/// Reads a recording into a sink, up to where it breaks off.
pub fn read<S: Sink>(
    mut input: impl Read,
    known: Known,
    stop: &AtomicBool,
    progress: &AtomicU64,
    sink: &mut S,
) -> std::io::Result<Origin> {
    let mut head = Vec::new();
    input.by_ref().take(HEAD).read_to_end(&mut head)?;
    let isa = known.isa.unwrap_or_else(|| isa_of(&head));
    let mut host = Host {
        isa: known.isa,
        found: isa,
        tsc_hertz: known.tsc_hertz.unwrap_or(ASSUMED_HERTZ),
        ..Host::default()
    };
    let mut records = Records::new(Cursor::new(head).chain(input));
    let mut warnings = Vec::new();
    loop {
        match records.next()? {
            Ok(Some(record)) => host.take(&record, sink),
            Ok(None) => break,
            Err(broken) => {
                warnings.push(format!("{broken}: everything before it is analysed"));
                break;
            }
        }
        progress.store(records.bytes(), Ordering::Relaxed);
        if stop.load(Ordering::Relaxed) {
            warnings.push(STOPPED.into());
            break;
        }
    }
    if known.tsc_hertz.is_none() {
        warnings.push(
            "the recording does not say how fast the time-stamp counter ran: 2.4 GHz is assumed; \
             --tsc-mhz says it (xl dmesg has it)"
                .into(),
        );
    }
    if host.has_nameless {
        warnings.push(
            "some exits belong to a vCPU that no record of the scheduler names: each CPU of the \
             host stands for one; record class 2f000h as well"
                .into(),
        );
    }
    Ok(Origin {
        format: "xentrace".into(),
        recorder: Some("xentrace".into()),
        cpu: Some(match isa {
            Isa::Vmx => "GenuineIntel".into(),
            Isa::Svm => "AuthenticAMD".into(),
        }),
        host_cpus: Some(host.cpus.len() as u32),
        events: vec!["kvm_exit".into(), "kvm_entry".into(), "kvm_msr".into()],
        bytes: records.bytes(),
        warnings,
        ..Origin::default()
    })
}

/// Whose exits the records at the beginning of a file are. Newer Xen has a record of its own for
/// each vendor, older Xen one for both.
fn isa_of(head: &[u8]) -> Isa {
    let mut records = Records::new(head);
    while let Ok(Ok(Some(record))) = records.next() {
        match record.kind() {
            Kind::Exit { isa: Some(isa), .. } => return isa,
            // Bit 31 is Intel's: the entry failed.
            Kind::Exit { reason, .. } if reason & !(1 << 31) >= FIRST_OF_AMD => return Isa::Svm,
            _ => {}
        }
    }
    Isa::Vmx
}

/// A vCPU by domain and number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Vcpu {
    domain: u16,
    number: u16,
}

/// Where one of the host's CPUs is.
#[derive(Clone, Copy, Debug, Default)]
struct Cpu {
    tsc: u64,
    running: Option<Vcpu>,
}

#[derive(Debug)]
struct Host {
    /// As the user says.
    isa: Option<Isa>,
    /// For records that do not say.
    found: Isa,
    tsc_hertz: u64,
    /// The CPU whose window it is.
    cpu: u32,
    cpus: BTreeMap<u32, Cpu>,
    /// Vcpus whose names have been given.
    named: BTreeMap<u32, ()>,
    has_nameless: bool,
}

impl Default for Host {
    fn default() -> Self {
        Self {
            isa: None,
            found: Isa::Vmx,
            tsc_hertz: ASSUMED_HERTZ,
            cpu: 0,
            cpus: BTreeMap::new(),
            named: BTreeMap::new(),
            has_nameless: false,
        }
    }
}

impl Host {
    fn take<S: Sink>(&mut self, record: &Record, sink: &mut S) {
        if let Kind::CpuChange { cpu } = record.kind() {
            // The recorder goes round the CPUs in order.
            if cpu <= self.cpu {
                sink.finished_round();
            }
            self.cpu = cpu.min(MOST_CPUS);
            return;
        }
        let cpu = self.cpus.entry(self.cpu).or_default();
        cpu.tsc = record.tsc.unwrap_or(cpu.tsc);
        match record.kind() {
            Kind::Runs { domain, vcpu } => cpu.running = Some(Vcpu { domain, number: vcpu }),
            Kind::RunsNot => cpu.running = None,
            Kind::Lost { records } => {
                let at_ns = nanoseconds(cpu.tsc, self.tsc_hertz);
                // Who runs is not known any more.
                cpu.running = None;
                sink.lost(self.cpu, at_ns, records.into());
            }
            kind => {
                if let Some(event) = self.event(kind) {
                    let stamp = self.stamp(sink);
                    sink.event(&stamp, &event);
                }
            }
        }
    }

    fn event(&self, kind: Kind) -> Option<KvmEvent> {
        Some(match kind {
            Kind::Entry => KvmEvent::Entry { vcpu: self.vcpu().map_or(0, |it| it.number.into()) },
            Kind::Exit { isa, reason } => {
                let isa = self.isa.or(isa).unwrap_or(self.found);
                KvmEvent::Exit(Exit { isa: isa as u32, reason, ..Exit::default() })
            }
            Kind::Msr { is_write, index, value } => KvmEvent::Msr { is_write, index, value },
            Kind::Port { is_write, port } => KvmEvent::PortIo { is_write, port },
            _ => return None,
        })
    }

    fn vcpu(&self) -> Option<Vcpu> {
        self.cpus.get(&self.cpu)?.running
    }

    /// Of what happens now on the CPU of this window; a vCPU that is new is named.
    fn stamp<S: Sink>(&mut self, sink: &mut S) -> Stamp {
        let cpu = self.cpus.get(&self.cpu).copied().unwrap_or_default();
        let (process, thread, name) = match cpu.running {
            Some(Vcpu { domain, number }) => {
                let thread = u32::from(domain) << 15 | u32::from(number & 0x7fff);
                (u32::from(domain), thread + 1, format!("d{domain}v{number}"))
            }
            None => {
                self.has_nameless = true;
                (0, NAMELESS + self.cpu, format!("on CPU {}", self.cpu))
            }
        };
        if self.named.len() < MOST_VCPUS && self.named.insert(thread, ()).is_none() {
            sink.thread_name(process, thread, &name);
        }
        let time_ns = nanoseconds(cpu.tsc, self.tsc_hertz);
        Stamp { time_ns, process, thread, cpu: self.cpu }
    }
}

/// Of counts of a counter with `hertz` counts a second.
fn nanoseconds(tsc: u64, hertz: u64) -> u64 {
    let ns = u128::from(tsc) * 1_000_000_000 / u128::from(hertz.max(1));
    u64::try_from(ns).unwrap_or(u64::MAX)
}
