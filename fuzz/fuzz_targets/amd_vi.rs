//! What software can do to AMD-Vi, with tables as a kernel leaves them: whatever it is, the unit
//! neither panics nor hangs, and logs what it refuses. The rounds are those of the crate's tests;
//! the first eight bytes are the seed, then come the numbers that decide.
#![no_main]

#[expect(dead_code, reason = "the crate's tests use more of it")]
#[path = "../../machine/iommu/tests/random/round.rs"]
mod round;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Some((seed, given)) = bytes.split_first_chunk() else { return };
    round::of_amd_vi(u64::from_le_bytes(*seed), given);
});
