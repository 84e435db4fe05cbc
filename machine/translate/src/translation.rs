//! A block: the look at the room that is left, its instructions one after the other, its ways out;
//! behind them what is seldom reached.

use crate::Code;
use crate::block::Block;
use crate::operation;
use crate::translator::Translator;
use iced_x86::Instruction;

/// The block's code; `None` if its bytes are not the instructions that `steps` says, it takes
/// 2.1 ms or longer, or there are more counters than code can reach.
pub fn translate(block: Block<'_>) -> Option<Code> {
    let instructions = block.decode()?;
    // Code takes the block's time off the room as an i32.
    i32::try_from(block.steps.last()?.end_time).ok()?;
    let last_counter = block.first_counter.unwrap_or(0) as usize + block.steps.len();
    i32::try_from(last_counter * size_of::<u64>()).ok()?;
    let mut translator = Translator::new(block, &instructions);
    run(&mut translator, &instructions);
    Some(translator.finish())
}

fn run(t: &mut Translator<'_>, instructions: &[Instruction]) {
    let no_room = t.begin();
    let mut goes_on = true;
    for (step, instruction) in instructions.iter().enumerate() {
        t.begin_step(step);
        let resume = t.e.label();
        let emitted = operation::translate(t, instruction);
        goes_on = t.end_step(emitted, resume);
    }
    if goes_on {
        t.fall_through(instructions.last().map_or(0, |last| last.next_ip() as i64));
    }
    t.end(no_room);
}
