use super::*;
use proptest::prelude::*;

fn interval() -> Interval {
    let key = RowKey {
        process: 1,
        thread: 2,
        vcpu: 0,
        isa: 2,
        reason: 0x7c,
        about: About::Msr { index: 0x830, is_write: true, icr: 0x800 },
    };
    let sums = Sums { count: 3, time_ns: 30, octaves: vec![0, 0, 0, 3], ..Sums::default() };
    Interval { end_ns: 9, rows: vec![(key, sums)] }
}

fn written() -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut writer =
        SumsWriter::new(&mut bytes, 5, &Origin::default(), &[(1, "vm".into())]).expect("memory");
    writer.interval(&interval()).expect("memory");
    writer.interval(&interval()).expect("memory");
    bytes
}

#[test]
fn what_is_written_is_read() {
    let bytes = written();
    assert!(bytes.starts_with(MAGIC));
    let file = read(bytes.as_slice()).expect("well formed");
    assert_eq!((file.start_ns, file.intervals.len()), (5, 2));
    assert_eq!(file.intervals[1], interval());
    assert_eq!(interval().rows[0].1.since(&interval().rows[0].1).count, 0);
}

#[test]
fn a_stretch_of_time_is_made_of_whole_intervals() {
    let interval = |end_ns| Interval { end_ns, rows: Vec::new() };
    let rows = [
        ((0, u64::MAX), 100, &[200, 300, 400][..]),
        ((200, 400), 200, &[300, 400]),
        ((160, 340), 200, &[300]),
        ((500, 600), 100, &[]),
    ];
    for ((from, to), start, ends) in rows {
        let mut file = SumsFile {
            origin: Origin::default(),
            start_ns: 100,
            names: Vec::new(),
            intervals: [200, 300, 400].map(interval).to_vec(),
        };
        file.narrow(from, to);
        let left: Vec<u64> = file.intervals.iter().map(|interval| interval.end_ns).collect();
        assert_eq!((file.start_ns, left.as_slice()), (start, ends), "{from} {to}");
    }
}

#[test]
fn the_longest_of_an_interval_is_not_that_of_the_whole_time() {
    let sums = |count, least_ns, most_ns, octaves: [u64; 14]| Sums {
        count,
        least_ns,
        most_ns,
        octaves: octaves.to_vec(),
        ..Sums::default()
    };
    let mut octaves = [0; 14];
    (octaves[3], octaves[12]) = (1, 1);
    let first = sums(2, 9, 5_035, octaves);
    assert_eq!(first.since(&Sums::default()).most_ns, 5_035);
    octaves[8] = 2;
    let second = sums(4, 9, 5_035, octaves).since(&first);
    assert_eq!((second.least_ns, second.most_ns), (256, 511));
    octaves[12] = 2;
    let third = sums(3, 9, 6_000, octaves).since(&first);
    assert_eq!(third.most_ns, 6_000);
}

proptest! {
    #[test]
    fn a_file_cut_anywhere_keeps_its_whole_intervals(cut in 0usize..2000) {
        let bytes = written();
        let cut = cut.min(bytes.len());
        let whole = bytes[..cut].iter().filter(|byte| **byte == b'\n').count();
        if let Ok(file) = read(&bytes[..cut]) {
            prop_assert!(file.intervals.len() + 1 >= whole);
            prop_assert!(file.intervals.iter().all(|found| *found == interval()));
        } else {
            prop_assert_eq!(whole, 0);
        }
    }
}
