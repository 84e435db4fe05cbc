//! What becomes of a loop that waits while a turn is long: rounds are skipped, and everything that
//! comes after finds the processor where it would have been.
//!
//! Left out: turns that end after few rounds, as they do where several processors wait at the same
//! time (those are the board's, [`crate::Waiting`]), and loops that look at the time, whose
//! registers differ each time.

use super::policy::Native;
use crate::engine::blocks::Blocks;
use crate::engine::room::Room;
use crate::engine::round::{LONGEST, classes, interpret_round, pauses};
use crate::guest::rounds::Rounds;
use crate::{Bus, Cpu};
use arch::time::Picoseconds;

/// If code was left for a loop that seems to wait: goes round it as often as there is room for,
/// if it does.
pub(crate) fn skip_rounds(
    cpu: &mut Cpu,
    blocks: &mut Blocks,
    native: &mut Native,
    bus: &mut Bus<'_>,
    room: Room,
) {
    if !native.spin.takes_waiting_loop() || !cpu.pending.is_quiet() {
        return;
    }
    let before = cpu.clock.instructions();
    if let Some(round) = interpret_round(cpu, blocks, bus, room) {
        let instructions = round.places.len() as u64;
        let fitting = room.clock.0.saturating_sub(cpu.clock.now().0) / round.time;
        let countable = (room.instructions - cpu.clock.instructions()) / instructions;
        let rounds = Rounds { time: round.time, pauses: &pauses(&round.places) };
        let rounds = cpu.pass_rounds(rounds, fitting.min(countable));
        cpu.clock.spend(Picoseconds(rounds * round.time));
        cpu.clock.count(rounds * instructions);
        blocks.note_classes(cpu.index, &classes(&round.places), rounds);
    }
    let skipped = (cpu.clock.instructions() - before).saturating_sub(LONGEST as u64);
    native.spin.looked(skipped);
}
