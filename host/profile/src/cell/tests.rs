use super::*;
use proptest::prelude::*;

#[test]
fn a_bucket_holds_the_values_between_its_floor_and_the_next() {
    for value in (0..4096).chain([1 << 20, (1 << 20) + 1, u64::from(u32::MAX), (1 << 40) - 1]) {
        let bucket = Histogram::bucket(value);
        assert!(
            Histogram::floor(bucket) <= value && value < Histogram::floor(bucket + 1),
            "{value}"
        );
    }
    let last = Histogram::bucket(u64::MAX);
    assert_eq!(last, Histogram::default().buckets.len() - 1);
}

#[test]
fn quantiles_of_a_uniform_range_are_within_a_step() {
    let mut histogram = Histogram::default();
    (1..=100_000).for_each(|value| histogram.add(value));
    for (fraction, truth) in [(0.5, 50_000.0), (0.99, 99_000.0), (0.999, 99_900.0)] {
        let found = histogram.quantile(fraction).expect("not empty");
        assert!((found / truth - 1.0).abs() < 1.0 / 16.0, "{fraction}: {found}");
    }
    assert_eq!(Histogram::default().quantile(0.5), None);
}

#[test]
fn octaves_run_from_the_first_used_to_the_last() {
    let mut histogram = Histogram::default();
    [3, 5, 6, 40].into_iter().for_each(|value| histogram.add(value));
    assert_eq!(histogram.octaves(), [(2, 1), (4, 2), (8, 0), (16, 0), (32, 1)]);
}

#[test]
fn blocks_widen_instead_of_growing_without_bound() {
    let mut blocks = Blocks::default();
    for second in 0..100_000u64 {
        blocks.add_many(second * 1_000_000_000, 1, 1);
    }
    assert!(blocks.iter().count() <= blocks::MOST_BLOCKS);
    assert_eq!(blocks.iter().map(|(_, block)| block.count).sum::<u64>(), 100_000);
    blocks.add_many(0, 1, 1);
    blocks.add_many(u64::MAX, 1, 1);
    assert_eq!(blocks.iter().map(|(_, block)| block.count).sum::<u64>(), 100_002);
}

#[test]
fn the_relative_error_is_that_of_the_textbook() {
    let mut cell = Cell::default();
    for duration in [2, 4, 4, 4, 5, 5, 7, 9] {
        cell.add(0, duration);
    }
    let deviation = (32.0f64 / 7.0).sqrt();
    let expected = 100.0 * deviation / 8f64.sqrt() / 5.0;
    assert!((cell.relative_error() - expected).abs() < 1e-12);
}

proptest! {
    #[test]
    fn joining_parts_equals_the_whole(
        values in proptest::collection::vec((0u64..1 << 45, 0u64..1 << 42), 0..200),
        cut in 0usize..200,
    ) {
        let mut whole = Cell::default();
        let mut parts = [Cell::default(), Cell::default()];
        for (index, &(start, duration)) in values.iter().enumerate() {
            whole.add(start, start + duration);
            parts[usize::from(index >= cut)].add(start, start + duration);
        }
        let [mut first, second] = parts;
        first.join(&second);
        whole.settle();
        let shift = first.blocks.shift().max(whole.blocks.shift());
        first.blocks.widen_to(shift);
        whole.blocks.widen_to(shift);
        let nonzero = |cell: &Cell| {
            cell.blocks.iter().filter(|(_, block)| block.count > 0).collect::<Vec<_>>()
        };
        prop_assert_eq!(nonzero(&first), nonzero(&whole));
        prop_assert_eq!(&first.histogram, &whole.histogram);
        prop_assert_eq!(first.relative_error().to_bits(), whole.relative_error().to_bits());
        prop_assert_eq!((first.count, first.min_ns, first.max_ns), (whole.count, whole.min_ns, whole.max_ns));
    }
}
