//! Every reader, over recordings that are damaged at random: an error or a warning, but no panic,
//! no endless loop and no memory that the file does not justify. The damage is seeded, so that a
//! failure can be had again.

mod forms;

use forms::{
    Temporary, compressed_file, data, directory, directory_of_cpus, packed_with_zlib, pipe, read,
    shortened,
};
use trace::event::{Event, Record};

/// Damaged copies of each recording; more with AVICENNA_FUZZ=NUMBER.
const COPIES: usize = 60;

/// Xorshift, so that a seed is the whole story.
struct Chance(u64);

impl Chance {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 16) as usize % limit.max(1)
    }
}

/// Numbers that sizes, counts and offsets get wrong.
const EDGES: [u64; 9] = [0, 1, 7, 8, 0x7fff, 0xffff, 0x7fff_ffff, 0xffff_ffff_ffff_fff8, u64::MAX];

/// Damage where a file says how it is to be read is worth more than in its middle.
fn place(chance: &mut Chance, length: usize) -> usize {
    match chance.below(4) {
        0 => chance.below(length.min(256)),
        1 => length - 1 - chance.below(length.min(4096)),
        _ => chance.below(length),
    }
}

fn damage(bytes: &mut Vec<u8>, chance: &mut Chance) {
    for _ in 0..1 + chance.below(6) {
        if bytes.is_empty() {
            return;
        }
        let at = place(chance, bytes.len());
        match chance.below(6) {
            0 => bytes[at] ^= 1 << chance.below(8),
            1 => bytes[at] = chance.below(256) as u8,
            2 => {
                let edge = EDGES[chance.below(EDGES.len())].to_le_bytes();
                let length = [1, 2, 4, 8][chance.below(4)].min(bytes.len() - at);
                bytes[at..at + length].copy_from_slice(&edge[..length]);
            }
            3 => bytes.truncate(at),
            4 => {
                let end = (at + chance.below(64)).min(bytes.len());
                bytes.drain(at..end);
            }
            _ => {
                let end = (at + chance.below(64)).min(bytes.len());
                let copy = bytes[at..end].to_vec();
                let to = chance.below(bytes.len());
                bytes.splice(to..to, copy);
            }
        }
    }
}

fn copies() -> usize {
    let wanted = std::env::var("AVICENNA_FUZZ").ok().and_then(|count| count.parse().ok());
    wanted.unwrap_or(COPIES)
}

fn survives(name: &str, whole: &[u8]) {
    for seed in 1..=copies() {
        let mut chance = Chance(0x9e37_79b9_7f4a_7c15 ^ (seed as u64) << 20);
        let mut bytes = whole.to_vec();
        damage(&mut bytes, &mut chance);
        let file = Temporary::new(&format!("hostile-{name}-{seed}"), &bytes);
        // Nothing damaged says more than its bytes can hold: no event takes less than two.
        if let Ok((seen, _)) = read(&file.0) {
            assert!(seen.events.len() <= 64 * whole.len(), "{name}, seed {seed}");
        }
    }
    assert!(read(&Temporary::new(&format!("sound-{name}"), whole).0).is_ok(), "{name} undamaged");
}

fn perf_file() -> Vec<u8> {
    shortened(&data("small-xapic-pp.data.zst"), 64 << 10)
}

#[test]
fn perf_data_files() {
    survives("file", &perf_file());
    survives("intel", &shortened(&data("vmx-x2apic-mix.data.zst"), 32 << 10));
    survives("all-events", &shortened(&data("all-kvm-events-mix.data.zst"), 32 << 10));
}

#[test]
fn perf_data_in_pipes() {
    survives("pipe", &pipe(&perf_file(), false));
}

#[test]
fn compressed_perf_data() {
    survives("packed-pipe", &pipe(&perf_file(), true));
    survives("packed-file", &compressed_file(&perf_file()));
}

#[test]
fn trace_dat() {
    survives("six", &data("xapic-pp.v6.dat.zst"));
    survives("seven", &data("xapic-pp.v7.dat"));
    survives("seven-zlib", &packed_with_zlib(&data("xapic-pp.v7.dat")));
}

#[test]
fn directories_of_perf_data() {
    for (is_by_cpu, is_compressed) in [(false, false), (false, true), (true, false)] {
        let divided = if is_by_cpu { directory_of_cpus } else { directory };
        let whole = divided(&perf_file(), is_compressed);
        let size: usize = whole.iter().map(|file| file.1.len()).sum();
        for seed in 1..=copies() {
            let mut chance = Chance(0x517c_c1b7_2722_0a95 ^ (seed as u64) << 20);
            let mut files = whole.clone();
            let one = chance.below(files.len());
            damage(&mut files[one].1, &mut chance);
            let name = format!("hostile-directory-{is_by_cpu}-{is_compressed}-{seed}");
            if let Ok((seen, _)) = read(&Temporary::directory(&name, &files).0) {
                assert!(seen.events.len() <= 64 * size, "seed {seed}");
            }
        }
    }
}

#[test]
fn text_of_ftrace() {
    let text = "# tracer: nop\n\
        qemu-1234  [003] d..1. 12.345678: kvm_exit: vcpu 0 reason msr rip 0xffff info1 \
        0x0000000000000001 info2 0x0000000000000000 intr_info 0x00000000 error_code 0x00000000\n\
        qemu-1234  (   77) [003] .... 12.345679: kvm_msr: msr_write 830 = 0x8fb\n\
        CPU 1/KVM-9 [000] .... 13.000001: kvm_entry: vcpu 0, rip 0xffffffff81000000\n\
        CPU 1/KVM-9 [000] .... 13.000002: kvm_apicv_inhibit_changed: set reason=8, inhibits=0x100\n"
        .repeat(40);
    survives("text", text.as_bytes());
    let packed = zstd::encode_all(text.as_bytes(), 1).expect("memory");
    survives("packed-text", &packed);
}

#[test]
fn pasted_tables() {
    let reports = data("perf-6.1-reports.txt");
    let text = String::from_utf8_lossy(&reports).into_owned();
    let page = format!(
        "VM-EXIT    Samples  Samples%     Time%    Min Time    Max Time         Avg time\n{}",
        text.lines().filter(|line| line.contains("us")).take(30).collect::<Vec<_>>().join("\n")
    );
    survives("table", page.as_bytes());
}

#[test]
fn summed_exits() {
    use capture::sums::{About, Interval, RowKey, Sums, SumsWriter};
    let mut bytes = Vec::new();
    let mut writer =
        SumsWriter::new(&mut bytes, 5, &capture::Origin::default(), &[(1, "vm".into())])
            .expect("memory");
    let about = About::Register { offset: 0xb0, is_write: true };
    let key = RowKey { process: 1, thread: 2, vcpu: 0, isa: 2, reason: 0x7c, about };
    let sums = Sums { count: 3, time_ns: 30, octaves: vec![0, 0, 0, 3], ..Sums::default() };
    for second in 1..20 {
        let interval = Interval { end_ns: second, rows: vec![(key, sums.clone())] };
        writer.interval(&interval).expect("memory");
    }
    survives("sums", &bytes);
}

#[test]
fn traces_of_the_machine() {
    let mut writer = trace::file::Writer::new(Vec::new(), &[]).expect("memory");
    for at in 0..2000u64 {
        let vcpu = trace::VirtualCpu(arch::address::SystemPhysical(0x5000));
        let rip = arch::address::Linear(at);
        let event = match at % 2 {
            0 => Event::Entry { vcpu, injected: 0, rip },
            _ => Event::SvmExit {
                vcpu,
                code: arch::svm::exit::ExitCode::from_bits(0x78),
                info1: 0,
                info2: 0,
                interrupt_info: 0,
                rip,
            },
        };
        let cpu = arch::identity::CpuIndex(0);
        let record = Record { at: arch::time::Picoseconds(at * 1000), cpu, event };
        writer.push(&record).expect("memory");
    }
    survives("machine", &writer.finish().expect("memory").0);
}
