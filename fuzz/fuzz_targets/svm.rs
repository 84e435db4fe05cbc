//! VMCB fields and code of a guest: whatever they are, the processor neither panics nor hangs, and
//! what it says after an exit is what the manual allows. The rounds are those of the clause tests;
//! the first eight bytes are the seed, then come fields and code.
#![no_main]

#[expect(dead_code, reason = "the clause tests use more of it")]
#[path = "../../conformance/clauses/svm/lab.rs"]
mod lab;
#[path = "../../conformance/clauses/svm/random.rs"]
mod random;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Some((seed, given)) = bytes.split_first_chunk() else { return };
    random::round(u64::from_le_bytes(*seed), given);
});
