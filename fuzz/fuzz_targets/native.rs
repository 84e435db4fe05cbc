//! Random code in random modes, translated and interpreted: both end the same. The rounds are those
//! of the processor's tests; the first eight bytes are the seed of state and page tables, by which
//! it is of 64 bits or of 32, the next the mode, then comes code.
#![no_main]

#[expect(dead_code, reason = "the processor's tests use more of it")]
#[path = "../../machine/cpu/tests/native/bench.rs"]
mod bench;
#[path = "../../machine/cpu/tests/native/code.rs"]
mod code;
#[expect(dead_code, reason = "the processor's tests use more of it")]
#[path = "../../machine/cpu/tests/native/narrow.rs"]
mod narrow;
#[path = "../../machine/cpu/tests/native/start.rs"]
mod start;

use bench::Bench;
use cpu::decode::Dialect;
use libfuzzer_sys::fuzz_target;
use std::cell::RefCell;

thread_local! {
    static BENCHES: RefCell<[Option<Bench>; 2]> = RefCell::new([
        Bench::new("zen4", Dialect::Amd),
        Bench::new("generic-intel", Dialect::Intel),
    ]);
}

fuzz_target!(|bytes: &[u8]| {
    let Some((seed, [mode, code @ ..])) = bytes.split_first_chunk() else { return };
    let seed = u64::from_le_bytes(*seed);
    BENCHES.with_borrow_mut(|benches| {
        if let Some(bench) = &mut benches[(seed & 1) as usize] {
            let code = &code[..code.len().min(0x800)];
            if seed & 2 == 0 {
                bench.round_of(seed, *mode, code);
            } else {
                bench.round_from(seed, |cpu, memory, random| {
                    narrow::set_up(cpu, memory, random);
                    start::vary(cpu, *mode);
                    narrow::write(memory, random, code);
                });
            }
        }
    });
});
