//! Translated code against the interpreter: random code from random states ends with the
//! same registers, all of RFLAGS, clock, count and RAM, wherever its turns are cut and whatever the
//! TLB holds. `AVICENNA_FUZZ_ROUNDS` sets how many rounds there are, `AVICENNA_FUZZ_SEED` the
//! first.

mod bench;
mod code;
mod flat;
mod narrow;
mod observed;
mod spin;
mod start;
mod strings;
mod wide;

use bench::{Bench, run, summary};
use cpu::decode::Dialect;

const ROUNDS: u64 = 2_000;

fn number(name: &str, otherwise: u64) -> u64 {
    std::env::var(name).map_or(otherwise, |text| text.parse().expect("a number"))
}

#[test]
fn translated_code_does_what_the_interpreter_does() {
    let first = number("AVICENNA_FUZZ_SEED", 0);
    let last = first + number("AVICENNA_FUZZ_ROUNDS", ROUNDS);
    for (model, dialect) in [("zen4", Dialect::Amd), ("generic-intel", Dialect::Intel)] {
        let Some(mut bench) = Bench::new(model, dialect) else { return };
        (first..last).for_each(|seed| {
            bench.round(seed);
        });
    }
}

#[test]
fn entries_repeated_in_the_interpreter_agree_with_it() {
    let Some(mut bench) = Bench::new("zen4", Dialect::Amd) else { return };
    bench.translator.verify(1);
    (0..300).for_each(|seed| {
        bench.round(seed);
    });
    let verified = bench.translator.verified().expect("entries are repeated");
    assert!(verified.compared > 100, "{verified:?}");
    assert_eq!((verified.disagreements, &verified.first), (0, &None));
}

#[test]
fn random_rounds_complete_most_of_their_many_instructions_in_translated_code() {
    const ROUNDS: u64 = 300;
    let Some(mut bench) = Bench::new("zen4", Dialect::Amd) else { return };
    let all: u64 = (0..ROUNDS).map(|seed| bench.round(seed)).sum();
    let translated = bench.translator.completed_translated();
    assert!(all > 20 * ROUNDS, "{all} instructions in {ROUNDS} rounds");
    assert!(2 * translated > all, "{translated} of {all} instructions in translated code");
}
