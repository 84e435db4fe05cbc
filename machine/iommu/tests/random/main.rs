//! Rounds of [`round`] for both vendors, of 100 steps each. `AVICENNA_FUZZ_SEED` sets the first
//! seed, `AVICENNA_FUZZ_ROUNDS` how many rounds there are: the usual 10,000 are a million steps.

mod round;

/// Of each vendor, where nothing else is said.
const ROUNDS: u64 = 10_000;

fn rounds(round: fn(u64)) {
    let number = |name: &str, default| match std::env::var(name) {
        Ok(text) => text.parse().expect("a number"),
        Err(_) => default,
    };
    let first = number("AVICENNA_FUZZ_SEED", 0);
    for seed in first..first + number("AVICENNA_FUZZ_ROUNDS", ROUNDS) {
        let outcome = std::panic::catch_unwind(|| round(seed));
        assert!(outcome.is_ok(), "the round with seed {seed} failed");
    }
}

#[test]
fn whatever_software_does_to_amd_vi_it_answers_and_logs_each_refusal_it_has_room_for() {
    rounds(|seed| {
        round::of_amd_vi(seed, &[]);
    });
}

#[test]
fn whatever_software_does_to_vt_d_it_answers_and_records_each_refusal_it_has_room_for() {
    rounds(|seed| {
        round::of_vt_d(seed, &[]);
    });
}

#[test]
fn rounds_reach_what_they_are_for() {
    for (vendor, round) in
        [("AMD-Vi", round::of_amd_vi as fn(u64, &[u8]) -> round::Seen), ("VT-d", round::of_vt_d)]
    {
        let mut sum = round::Seen::default();
        (0..200).for_each(|seed| sum.add(round(seed, &[])));
        let seen = [sum.translated, sum.refused, sum.posted, sum.remapped, sum.logged];
        assert!(seen.iter().all(|count| *count > 100), "{vendor}: {sum:?}");
    }
}
