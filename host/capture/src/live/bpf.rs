//! The kernel program: loaded, told where the fields of this kernel's events lie, attached, read.
//!
//! The object is built from `bpf/exits.bpf.c` by `bpf/build.sh` and committed. It needs no BTF, so
//! a modular kvm does not matter; it needs `bpf_probe_read_kernel` (Linux 5.5).

use crate::Error;
use crate::format::EventFormat;
use crate::sums::{About, OCTAVES, RowKey, Sums};
use aya::maps::PerCpuHashMap;
use aya::programs::TracePoint;
use aya::{Ebpf, EbpfLoader};
use std::collections::BTreeMap;
use tracefs::Directory;

const OBJECT: &[u8] = aya::include_bytes_aligned!("../../bpf/exits.bpf.o");

/// Words of a row and of its sums, as `struct row` and `struct sums` lay them out.
type RawRow = [u64; 4];
const SUM_WORDS: usize = 5 + OCTAVES;
type RawSums = [u64; SUM_WORDS];

/// Offsets of the fields that the program reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Offsets {
    /// `exit_reason` of `kvm_exit`.
    pub exit_reason: u32,
    /// `isa` of `kvm_exit`.
    pub exit_isa: u32,
    /// `info1` of `kvm_exit`; zero where the kernel has none.
    pub exit_info1: u32,
    /// `info2` of `kvm_exit`; zero where the kernel has none.
    pub exit_info2: u32,
    /// `vcpu_id` of `kvm_entry`.
    pub entry_vcpu: u32,
    /// `write` of `kvm_msr`.
    pub msr_write: u32,
    /// `ecx` of `kvm_msr`.
    pub msr_index: u32,
    /// `data` of `kvm_msr`.
    pub msr_data: u32,
}

impl Offsets {
    /// Reads them from the running kernel.
    pub fn of_kernel(directory: &Directory) -> Result<Self, Error> {
        let exit = format(directory, "kvm_exit")?;
        let entry = format(directory, "kvm_entry")?;
        let msr = format(directory, "kvm_msr")?;
        let place = |format: &EventFormat, name: &str| {
            let field = format.field(name).ok_or_else(|| {
                Error::Unsupported(format!("{} has no field {name} on this kernel", format.name))
            })?;
            u32::try_from(field.offset)
                .map_err(|_| Error::Unsupported(format!("field {name} lies too far away")))
        };
        Ok(Self {
            exit_reason: place(&exit, "exit_reason")?,
            exit_isa: place(&exit, "isa")?,
            // Before 5.10 they are there under the same names; without them there is no detail.
            exit_info1: place(&exit, "info1").unwrap_or(0),
            exit_info2: place(&exit, "info2").unwrap_or(0),
            entry_vcpu: place(&entry, "vcpu_id")?,
            msr_write: place(&msr, "write")?,
            msr_index: place(&msr, "ecx")?,
            msr_data: place(&msr, "data")?,
        })
    }
}

/// The format of a KVM event on the running kernel.
fn format(directory: &Directory, event: &str) -> Result<EventFormat, Error> {
    EventFormat::parse("kvm", &directory.format("kvm", event)?)
        .ok_or_else(|| Error::Unsupported(format!("the format of {event} is not understood")))
}

/// Program, category and event.
pub type Attachment = (&'static str, &'static str, &'static str);

/// Where the programs belong.
pub const KVM: [Attachment; 3] = [
    ("on_exit", "kvm", "kvm_exit"),
    ("on_msr", "kvm", "kvm_msr"),
    ("on_entry", "kvm", "kvm_entry"),
];

/// The program at work; detached when dropped.
pub struct Bpf {
    ebpf: Ebpf,
}

impl Bpf {
    /// Loads and attaches; `process` restricts it to one virtual machine.
    pub fn load(
        offsets: &Offsets,
        process: Option<u32>,
        attachments: &[Attachment],
    ) -> Result<Self, Error> {
        let refused = |error: &dyn std::fmt::Display| Error::Unsupported(format!("BPF: {error}"));
        let only = process.unwrap_or(0);
        let mut ebpf = EbpfLoader::new()
            .set_global("OFFSET_EXIT_REASON", &offsets.exit_reason, true)
            .set_global("OFFSET_EXIT_ISA", &offsets.exit_isa, true)
            .set_global("OFFSET_EXIT_INFO1", &offsets.exit_info1, true)
            .set_global("OFFSET_EXIT_INFO2", &offsets.exit_info2, true)
            .set_global("OFFSET_ENTRY_VCPU", &offsets.entry_vcpu, true)
            .set_global("OFFSET_MSR_WRITE", &offsets.msr_write, true)
            .set_global("OFFSET_MSR_INDEX", &offsets.msr_index, true)
            .set_global("OFFSET_MSR_DATA", &offsets.msr_data, true)
            .set_global("ONLY_PROCESS", &only, true)
            .load(OBJECT)
            .map_err(|error| refused(&error))?;
        for (program, category, event) in attachments {
            let found = ebpf.program_mut(program);
            let found = found.ok_or_else(|| refused(&format!("no program {program}")))?;
            let point: &mut TracePoint = found.try_into().map_err(|error| refused(&error))?;
            point.load().map_err(|error| refused(&error))?;
            point.attach(category, event).map_err(|error| refused(&error))?;
        }
        Ok(Self { ebpf })
    }

    /// All rows as they stand, summed over CPUs.
    pub fn rows(&self) -> Result<BTreeMap<RowKey, Sums>, Error> {
        let refused = |error: &dyn std::fmt::Display| Error::Unsupported(format!("BPF: {error}"));
        let map = self.ebpf.map("ROWS").ok_or_else(|| refused(&"no map of rows"))?;
        let map: PerCpuHashMap<_, RawRow, RawSums> =
            PerCpuHashMap::try_from(map).map_err(|error| refused(&error))?;
        let mut rows: BTreeMap<RowKey, Sums> = BTreeMap::new();
        for row in map.iter() {
            let (key, per_cpu) = row.map_err(|error| refused(&error))?;
            let sums = rows.entry(row_key(&key)).or_default();
            per_cpu.iter().for_each(|raw| add(sums, raw));
        }
        Ok(rows)
    }
}

fn row_key(raw: &RawRow) -> RowKey {
    let isa_and_vcpu = (raw[1] >> 32) as u32;
    RowKey {
        process: raw[0] as u32,
        thread: (raw[0] >> 32) as u32,
        vcpu: isa_and_vcpu & 0xff_ffff,
        isa: isa_and_vcpu >> 24,
        reason: raw[1] as u32,
        about: about(raw[2], raw[3]),
    }
}

fn about(detail: u64, data: u64) -> About {
    let low = detail as u32;
    match (detail >> 60, detail >> 32 & 0xffff) {
        (3, flag) => About::Register { offset: low as u16, is_write: flag & 1 != 0 },
        (4, _) => About::IncompleteIpi { cause: low },
        (0, 0) => About::Nothing,
        (0, kind) => About::Msr { index: low, is_write: kind == 2, icr: data as u32 },
        _ => About::Nothing,
    }
}

fn add(sums: &mut Sums, raw: &RawSums) {
    let [count, time_ns, squares, least_ns, most_ns, octaves @ ..] = raw;
    if *count == 0 {
        return;
    }
    sums.count += count;
    sums.time_ns += time_ns;
    sums.squares += squares;
    sums.least_ns = if sums.least_ns == 0 { *least_ns } else { sums.least_ns.min(*least_ns) };
    sums.most_ns = sums.most_ns.max(*most_ns);
    sums.octaves.resize(OCTAVES, 0);
    sums.octaves.iter_mut().zip(octaves).for_each(|(sum, octave)| *sum += octave);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_raw_row_is_taken_apart_as_the_program_put_it_together() {
        let key = row_key(&[7 | 8 << 32, 0x7c | (2 << 24 | 3) << 32, 2 << 32 | 0x830, 0x800]);
        assert_eq!((key.process, key.thread, key.vcpu, key.isa, key.reason), (7, 8, 3, 2, 0x7c));
        assert_eq!(key.about, About::Msr { index: 0x830, is_write: true, icr: 0x800 });
        let register = About::Register { offset: 0xb0, is_write: true };
        assert_eq!(about(3 << 60 | 1 << 32 | 0xb0, 0), register);
        assert_eq!(about(4 << 60 | 1, 0), About::IncompleteIpi { cause: 1 });
        assert_eq!(about(0, 0), About::Nothing);
    }

    /// KVM's own events may never fire where this runs; system calls do, and have the shape: a
    /// number at offset 8 of the event that opens, and an event that closes.
    #[test]
    fn the_program_counts_what_opens_and_closes() {
        let offsets = Offsets {
            exit_reason: 8,
            exit_isa: 8,
            exit_info1: 0,
            exit_info2: 0,
            entry_vcpu: 8,
            msr_write: 8,
            msr_index: 8,
            msr_data: 8,
        };
        let syscalls =
            [("on_exit", "raw_syscalls", "sys_enter"), ("on_entry", "raw_syscalls", "sys_exit")];
        let bpf = match Bpf::load(&offsets, Some(std::process::id()), &syscalls) {
            Ok(bpf) => bpf,
            Err(error) => {
                println!("NOTICE: the kernel program was not tried: {error}");
                return;
            }
        };
        const GETPPID: u32 = 110;
        for _ in 0..1000 {
            std::hint::black_box(std::os::unix::process::parent_id());
        }
        let rows = bpf.rows().expect("the map can be read");
        let counted = rows.iter().filter(|row| row.0.reason == GETPPID);
        let sums: Vec<&Sums> = counted.map(|row| row.1).collect();
        let count: u64 = sums.iter().map(|sums| sums.count).sum();
        assert!((1000..1100).contains(&count), "{count}");
        for sums in sums {
            assert_eq!(sums.octaves.iter().sum::<u64>(), sums.count);
            assert!(sums.least_ns <= sums.most_ns && sums.time_ns >= sums.most_ns);
        }
    }
}
