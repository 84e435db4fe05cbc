//! The machine's own trace: exits and entries of guests that a hypervisor runs on the emulated
//! computer, as `avicenna machine run --trace` writes them.
//!
//! A vCPU is named by its VMCB or VMCS, which stands for the thread of a recording;
//! they are numbered in the order of appearance. Those that have the same nested page tables are
//! taken for one virtual machine: a hypervisor gives each its own. The MSR that an exit was about
//! comes right behind it; traces of machines that did not say it yet are read too.

use crate::parallel::STOPPED;
use crate::sink::{Origin, Sink};
use arch::address::SystemPhysical;
use std::collections::BTreeMap;
use std::io::Read;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use trace::file::{ReadError, Reader};
use trace::kvm::{Exit, KvmEvent, Stamp};
use trace::{Event, Record, VirtualCpu};

/// First bytes of such a file.
pub const MAGIC: &[u8] = b"AVCTRACE";

/// `isa` as KVM numbers it.
const VMX: u32 = 1;
const SVM: u32 = 2;

/// vCPUs that are told apart.
const MOST_VCPUS: usize = 1 << 16;

/// Reads a trace into a sink, up to where it breaks off.
pub fn read<S: Sink>(
    input: impl Read,
    stop: &AtomicBool,
    progress: &AtomicU64,
    sink: &mut S,
) -> Result<Origin, ReadError> {
    let counted = Counted { input, progress };
    let reader = Reader::new(counted)?;
    let mut origin = Origin {
        format: "trace of the machine".into(),
        recorder: Some("avicenna machine".into()),
        events: vec!["kvm_exit".into(), "kvm_entry".into()],
        ..Origin::default()
    };
    let mut vcpus = Vcpus::default();
    let mut has_msr = false;
    for record in reader {
        match record {
            Ok(record) => {
                has_msr |= matches!(record.event, Event::MsrRead { .. } | Event::MsrWrite { .. });
                vcpus.deliver(&record, sink);
            }
            Err(error) => {
                origin.warnings.push(format!("{error}: everything before it is analysed"));
                break;
            }
        }
        if stop.load(Ordering::Relaxed) {
            origin.warnings.push(STOPPED.into());
            break;
        }
    }
    if has_msr {
        origin.events.push("kvm_msr".into());
    }
    origin.bytes = progress.load(Ordering::Relaxed);
    Ok(origin)
}

struct Counted<'a, R> {
    input: R,
    progress: &'a AtomicU64,
}

impl<R: Read> Read for Counted<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let read = self.input.read(buffer)?;
        self.progress.fetch_add(read as u64, Ordering::Relaxed);
        Ok(read)
    }
}

/// Numbers of vCPUs, in the order of appearance.
#[derive(Default)]
struct Vcpus {
    guests: Guests,
    numbers: BTreeMap<u64, u32>,
    /// Whose exit was the latest on each processor, until the next entry there.
    exited: BTreeMap<u16, u32>,
}

impl Vcpus {
    fn number(&mut self, vcpu: VirtualCpu) -> u32 {
        let next = self.numbers.len();
        if next >= MOST_VCPUS {
            return MOST_VCPUS as u32;
        }
        *self.numbers.entry(vcpu.0.0).or_insert(next as u32)
    }

    fn deliver<S: Sink>(&mut self, record: &Record, sink: &mut S) {
        if let Event::NestedRoot { vcpu, root } = record.event {
            let vcpu = self.number(vcpu);
            self.guests.has_root(vcpu, root);
        }
        let Some((vcpu, event)) = self.event(record) else { return };
        let stamp = Stamp {
            time_ns: record.at.0 / 1000,
            process: vcpu.map_or(0, |number| self.guests.machine_of(number)),
            // Zero is nobody's: what belongs to no vCPU.
            thread: vcpu.map_or(0, |number| number + 1),
            cpu: record.cpu.0.into(),
        };
        sink.event(&stamp, &event);
    }

    fn event(&mut self, record: &Record) -> Option<(Option<u32>, KvmEvent)> {
        let cpu = record.cpu.0;
        Some(match record.event {
            Event::SvmExit { vcpu, code, info1, info2, interrupt_info, .. } => {
                let reason = code.into_bits() as u32;
                let interruption = interrupt_info as u32;
                let exit = Exit { isa: SVM, reason, info1, info2, interruption };
                let vcpu = self.number(vcpu);
                self.exited.insert(cpu, vcpu);
                (Some(vcpu), KvmEvent::Exit(exit))
            }
            Event::VmxExit { vcpu, reason, qualification, interruption, .. } => {
                let (info1, info2) = (qualification, 0);
                let interruption = interruption as u32;
                let exit = Exit { isa: VMX, reason, info1, info2, interruption };
                let vcpu = self.number(vcpu);
                self.exited.insert(cpu, vcpu);
                (Some(vcpu), KvmEvent::Exit(exit))
            }
            Event::Entry { vcpu, .. } => {
                let vcpu = self.number(vcpu);
                self.exited.remove(&cpu);
                (Some(vcpu), KvmEvent::Entry { vcpu })
            }
            Event::MsrRead { index, value } => {
                let vcpu = self.exited.get(&cpu).copied()?;
                (Some(vcpu), KvmEvent::Msr { is_write: false, index, value })
            }
            Event::MsrWrite { index, value } => {
                let vcpu = self.exited.get(&cpu).copied()?;
                (Some(vcpu), KvmEvent::Msr { is_write: true, index, value })
            }
            Event::Doorbell { target } => {
                (None, KvmEvent::Doorbell { vcpu: target.0, apic: target.0 })
            }
            // What hardware does without an exit has no tracepoint.
            _ => return None,
        })
    }
}

/// Which virtual machine a vCPU is part of, by its nested page tables.
#[derive(Default)]
struct Guests {
    /// Machine and tables of each vCPU.
    of_vcpu: BTreeMap<u32, (u32, SystemPhysical)>,
    machines: u32,
}

impl Guests {
    /// Tables may be replaced while a machine runs: its vCPUs then change one after
    /// the other, so that one that was seen stays where it is and others that follow it join it.
    fn has_root(&mut self, vcpu: u32, root: SystemPhysical) {
        let known = self.of_vcpu.get(&vcpu).map(|guest| guest.0);
        let sharing = self.of_vcpu.values().find(|guest| guest.1 == root).map(|guest| guest.0);
        let machine = known.or(sharing).unwrap_or_else(|| {
            self.machines += 1;
            self.machines
        });
        self.of_vcpu.insert(vcpu, (machine, root));
    }

    /// Zero for one that has none.
    fn machine_of(&self, vcpu: u32) -> u32 {
        self.of_vcpu.get(&vcpu).map_or(0, |guest| guest.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arch::address::Linear;
    use arch::identity::CpuIndex;
    use arch::svm::exit::ExitCode;
    use arch::time::Picoseconds;
    use trace::file::Writer;

    #[derive(Default)]
    struct Seen(Vec<(u64, u32, KvmEvent)>);

    impl Sink for Seen {
        fn event(&mut self, stamp: &Stamp, event: &KvmEvent) {
            self.0.push((stamp.time_ns, stamp.thread, *event));
        }

        fn lost(&mut self, _: u32, _: u64, _: u64) {}
    }

    fn written() -> Vec<u8> {
        let vcpu = |page: u64| VirtualCpu(SystemPhysical(page));
        let rip = Linear(0);
        let records = [
            (1_000, Event::Entry { vcpu: vcpu(0x5000), injected: 0, rip }),
            (2_000, Event::Halt { rip }),
            (
                3_500,
                Event::SvmExit {
                    vcpu: vcpu(0x5000),
                    code: ExitCode::from_bits(0x78),
                    info1: 0,
                    info2: 0,
                    interrupt_info: 0,
                    rip,
                },
            ),
            (4_000, Event::Entry { vcpu: vcpu(0x9000), injected: 0, rip }),
            // Nobody's: no exit is open.
            (5_000, Event::MsrRead { index: 0x10, value: 0 }),
            (
                6_000,
                Event::SvmExit {
                    vcpu: vcpu(0x9000),
                    code: ExitCode::Msr,
                    info1: 1,
                    info2: 0,
                    interrupt_info: 0,
                    rip,
                },
            ),
            (6_000, Event::MsrWrite { index: 0x830, value: 0xfb }),
        ];
        let mut writer = Writer::new(Vec::new(), &[]).expect("memory");
        for (at, event) in records {
            let record = Record { at: Picoseconds(at), cpu: CpuIndex(0), event };
            writer.push(&record).expect("memory");
        }
        writer.finish().expect("memory").0
    }

    fn seen(bytes: &[u8]) -> (Seen, Origin) {
        let mut seen = Seen::default();
        let (stop, progress) = (AtomicBool::new(false), AtomicU64::new(0));
        let origin = read(bytes, &stop, &progress, &mut seen).expect("a whole head");
        (seen, origin)
    }

    #[test]
    fn exits_and_entries_are_told_apart_by_their_control_block_and_name_their_register() {
        let (seen, origin) = seen(&written());
        let msr = Exit { isa: SVM, reason: 0x7c, info1: 1, ..Exit::default() };
        let hlt = Exit { isa: SVM, reason: 0x78, ..Exit::default() };
        let expected = [
            (1, 1, KvmEvent::Entry { vcpu: 0 }),
            (3, 1, KvmEvent::Exit(hlt)),
            (4, 2, KvmEvent::Entry { vcpu: 1 }),
            (6, 2, KvmEvent::Exit(msr)),
            (6, 2, KvmEvent::Msr { is_write: true, index: 0x830, value: 0xfb }),
        ];
        assert_eq!(seen.0, expected);
        assert!(origin.warnings.is_empty());
        assert!(origin.events.iter().any(|event| event == "kvm_msr"));
    }

    #[test]
    fn virtual_processors_with_the_same_page_tables_are_one_machine() {
        let mut guests = Guests::default();
        let root = SystemPhysical;
        // Two of the first machine, one of a second; then the first gets other tables, of which a
        // third processor is the first to tell.
        for (vcpu, page, machine) in [
            (0, 0x1000, 1),
            (1, 0x1000, 1),
            (2, 0x2000, 2),
            (0, 0x3000, 1),
            (3, 0x3000, 1),
            (1, 0x3000, 1),
            // Nobody has the first tables any more: they may be a third machine's.
            (4, 0x1000, 3),
        ] {
            guests.has_root(vcpu, root(page));
            assert_eq!(guests.machine_of(vcpu), machine, "vCPU {vcpu}");
        }
        assert_eq!(guests.machine_of(9), 0);
    }

    #[test]
    fn a_trace_that_breaks_off_says_so() {
        let whole = written();
        let (_, origin) = seen(&whole[..whole.len() - 1]);
        assert_eq!(origin.warnings.len(), 1);
    }
}
