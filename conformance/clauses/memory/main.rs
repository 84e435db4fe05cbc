//! Clauses of memory's order with store buffers (`memory=tso`): litmus tests against the abstract
//! machine of x86-TSO, and interrupts that overtake the data they announce.

mod bare;
mod interrupt;
mod litmus;
mod model;
mod test;

/// Rounds of each test; more if the environment says so (`LITMUS_ROUNDS`).
fn rounds() -> u32 {
    let asked = std::env::var("LITMUS_ROUNDS").ok();
    asked.map_or(10_000, |rounds| rounds.parse().expect("LITMUS_ROUNDS is a number"))
}
