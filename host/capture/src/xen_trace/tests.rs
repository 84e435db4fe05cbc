use super::*;

/// Records as Xen writes them; `tsc` counts up.
#[derive(Default)]
struct Written(Vec<u8>);

impl Written {
    fn words(mut self, words: &[u32]) -> Self {
        self.0.extend(words.iter().flat_map(|word| word.to_le_bytes()));
        self
    }

    /// The window of a CPU follows.
    fn cpu(self, cpu: u32) -> Self {
        self.words(&[0x2001_f003, cpu, 0])
    }

    fn record(self, number: u32, tsc: u64, extra: &[u32]) -> Self {
        let head = 1 << 31 | (extra.len() as u32) << 28 | number;
        self.words(&[head, tsc as u32, (tsc >> 32) as u32]).words(extra)
    }
}

#[derive(Default)]
struct Seen {
    events: Vec<(u64, u32, u32, KvmEvent)>,
    lost: Vec<(u32, u64, u64)>,
    names: Vec<(u32, String)>,
    rounds: usize,
}

impl Sink for Seen {
    fn event(&mut self, stamp: &Stamp, event: &KvmEvent) {
        self.events.push((stamp.time_ns, stamp.process, stamp.thread, *event));
    }

    fn lost(&mut self, cpu: u32, at_ns: u64, events: u64) {
        self.lost.push((cpu, at_ns, events));
    }

    fn thread_name(&mut self, _: u32, thread: u32, name: &str) {
        self.names.push((thread, name.into()));
    }

    fn finished_round(&mut self) {
        self.rounds += 1;
    }
}

/// A counter of 2 GHz, so that two counts are a nanosecond.
fn seen(bytes: &[u8], isa: Option<Isa>) -> (Seen, Origin) {
    let mut seen = Seen::default();
    let known = Known { isa, tsc_hertz: Some(2_000_000_000) };
    let (stop, progress) = (AtomicBool::new(false), AtomicU64::new(0));
    let origin = read(bytes, known, &stop, &progress, &mut seen).expect("memory");
    (seen, origin)
}

fn exit(isa: Isa, reason: u32) -> KvmEvent {
    KvmEvent::Exit(Exit { isa: isa as u32, reason, ..Exit::default() })
}

/// Vcpu 1 of domain 5, as a thread.
const D5V1: u32 = (5 << 15 | 1) + 1;

#[test]
fn exits_belong_to_the_vcpu_that_the_scheduler_gave_the_cpu() {
    let written = Written::default()
        .cpu(0)
        // From runnable to running.
        .record(0x2_1101, 1000, &[5 << 16 | 1])
        .record(0x8_1001, 1010, &[])
        .record(0x8_1102, 1030, &[32, 0x1234, 0])
        .record(0x8_200d, 1032, &[0x830, 0xfb, 1])
        .record(0x8_1001, 1040, &[])
        // An exit of a guest in 32-bit mode: the address is a word.
        .record(0x8_1002, 1060, &[12, 0x1234])
        // From running to blocked, and another vCPU is given the CPU.
        .record(0x2_1021, 1070, &[5 << 16 | 1])
        .record(0x2_800f, 1080, &[6, 0, 0, 0])
        .record(0x8_1001, 1090, &[]);
    let (seen, origin) = seen(&written.0, None);
    let expected = [
        (505, 5, D5V1, KvmEvent::Entry { vcpu: 1 }),
        (515, 5, D5V1, exit(Isa::Vmx, 32)),
        (516, 5, D5V1, KvmEvent::Msr { is_write: true, index: 0x830, value: 0x1_0000_00fb }),
        (520, 5, D5V1, KvmEvent::Entry { vcpu: 1 }),
        (530, 5, D5V1, exit(Isa::Vmx, 12)),
        (545, 6, (6 << 15) + 1, KvmEvent::Entry { vcpu: 0 }),
    ];
    assert_eq!(seen.events, expected);
    assert_eq!(seen.names, [(D5V1, "d5v1".into()), ((6 << 15) + 1, "d6v0".into())]);
    assert!(origin.warnings.is_empty(), "{:?}", origin.warnings);
    assert_eq!(origin.bytes, written.0.len() as u64);
}

#[test]
fn exits_of_amd_are_known_by_their_record_or_by_their_numbers() {
    type Row = (&'static str, &'static [(u32, u32)], Option<Isa>, Isa);
    let rows: [Row; 5] = [
        ("a record of AMD's", &[(0x8_1103, 0x78)], None, Isa::Svm),
        ("a number of AMD's", &[(0x8_1102, 0x0e), (0x8_1102, 0x400)], None, Isa::Svm),
        ("numbers that either may have", &[(0x8_1102, 0x0e)], None, Isa::Vmx),
        ("the user says so", &[(0x8_1102, 0x0e)], Some(Isa::Svm), Isa::Svm),
        ("an entry of Intel's that failed", &[(0x8_1102, 1 << 31 | 33)], None, Isa::Vmx),
    ];
    for (what, records, told, expected) in rows {
        let mut written = Written::default().cpu(0).record(0x2_1101, 0, &[1 << 16]);
        for (number, reason) in records {
            written = written.record(*number, 10, &[*reason, 0, 0]);
        }
        let (seen, _) = seen(&written.0, told);
        let first = records[0].1;
        assert_eq!(seen.events[0].3, exit(expected, first), "{what}");
    }
}

#[test]
fn windows_of_several_cpus_are_rounds() {
    let entry = |written: Written, tsc| written.record(0x8_1001, tsc, &[]);
    let mut written = Written::default();
    for round in 0..3 {
        written = entry(written.cpu(0), round * 100);
        written = entry(written.cpu(3), round * 100);
    }
    let (seen, origin) = seen(&written.0, None);
    // The first window comes behind nothing; its number is not above that of the start.
    assert_eq!(seen.rounds, 3);
    assert_eq!(origin.host_cpus, Some(2));
    let threads: Vec<_> = seen.events.iter().map(|event| event.2).collect();
    assert_eq!(threads[..2], [NAMELESS, NAMELESS + 3]);
    assert_eq!(origin.warnings.len(), 1, "nobody said who ran");
}

#[test]
fn what_was_lost_is_said_and_hides_who_runs() {
    let written = Written::default()
        .cpu(2)
        .record(0x2_1201, 100, &[7 << 16])
        .record(0x1_f001, 200, &[12, 7 << 16, 50, 0])
        .record(0x8_1001, 300, &[]);
    let (seen, _) = seen(&written.0, None);
    assert_eq!(seen.lost, [(2, 100, 12)]);
    assert_eq!(seen.events, [(150, 0, NAMELESS + 2, KvmEvent::Entry { vcpu: 0 })]);
}

#[test]
fn a_file_that_breaks_off_is_read_up_to_there() {
    let whole = Written::default().cpu(0).record(0x8_1001, 10, &[]).record(0x8_1002, 20, &[1, 2]).0;
    let last = whole.len() - 20;
    for length in 0..whole.len() {
        let (seen, origin) = seen(&whole[..length], None);
        let is_between = matches!(length, 0 | 12) || length == last;
        let broken = origin.warnings.iter().any(|warning| warning.contains("breaks off"));
        assert_eq!(broken, !is_between, "{length} bytes");
        assert_eq!(seen.events.len(), usize::from(length >= last), "{length} bytes");
    }
}
