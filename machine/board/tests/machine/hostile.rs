//! Guests that attack the machine that executes them: at the edges of RAM and of addresses, in
//! devices, and by changing code that is running, by themselves, by another processor, by a device
//! and by other pages. In every way of executing the same comes of it, on models of both vendors:
//! the trace's hash, instructions, times and RAM.

mod attack;
mod guest;

use arch::time::Picoseconds;
use attack::ATTACKS;
use board::snapshot::checksum;
use board::{Limits, Machine, Outcome};
use guest::{Attack, configuration, started};

const MODELS: [&str; 2] = ["zen4", "sapphire-rapids"];
const LAST: Picoseconds = Picoseconds::from_milliseconds(1000);
/// Entries of which one is repeated: each takes a copy of all RAM.
const VERIFIED: u64 = 101;
/// Generations of pages at the start: usual, and such that they are used up in the first rounds.
const GENERATIONS: [u32; 2] = [0, u32::MAX - 5];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Interpreted,
    /// From the first run of a block.
    Translated,
    /// As a new machine does.
    Usual,
    /// Some entries into translated code repeated in the interpreter.
    Verified,
    /// Translated, stopped at odd moments.
    Stopped,
    /// Translated, saved and restored half-way.
    Restored,
}

const WAYS: [Way; 5] = [Way::Translated, Way::Usual, Way::Verified, Way::Stopped, Way::Restored];

/// What must be the same.
#[derive(Debug, PartialEq, Eq)]
struct End {
    outcome: Option<Outcome>,
    hash: String,
    instructions: u64,
    clocks: Vec<Picoseconds>,
    ram: u64,
}

fn end(machine: &mut Machine, until: Picoseconds) -> Option<Outcome> {
    machine.run(Limits { until, instructions: u64::MAX })
}

/// The end in a way; `half` is a moment before it. `None` if this host cannot go that way.
fn run(model: &str, attack: &Attack, generation: u32, way: Way, half: Picoseconds) -> Option<End> {
    let mut machine = started(model, attack, generation);
    match way {
        Way::Interpreted => machine.interpret(),
        Way::Usual => {}
        _ => machine.translate(0).ok()?,
    }
    match way {
        Way::Verified => machine.verify(VERIFIED),
        Way::Stopped => {
            for step in 1..40u64 {
                end(&mut machine, Picoseconds(half.0 / 40 * step + 1_237 * step * step));
            }
        }
        Way::Restored => {
            end(&mut machine, half);
            let mut file = Vec::new();
            let digest = configuration(model).digest();
            machine.save("half", &mut file, digest).expect("it is written");
            machine = Machine::restore(&configuration(model), "half", &file[..]).expect("restored");
            machine.translate(0).ok()?;
        }
        _ => {}
    }
    let outcome = end(&mut machine, LAST);
    if let Some(verified) = machine.verified().filter(|_| way == Way::Verified) {
        assert_eq!(
            (verified.disagreements, &verified.first),
            (0, &None),
            "{model}: {}",
            attack.name
        );
    }
    Some(End {
        outcome,
        hash: machine.state.wiring.recorder.hash.to_string(),
        instructions: machine.instructions(),
        clocks: machine.state.cpus.iter().map(|cpu| cpu.clock.now()).collect(),
        ram: checksum(&machine.memory.ram),
    })
}

#[test]
fn attack_has_the_same_end_in_every_way_of_executing() {
    for model in MODELS {
        for attack in &ATTACKS {
            let usual = run(model, attack, 0, Way::Interpreted, LAST).expect("the interpreter");
            let at = format!("{model}: {}", attack.name);
            assert!(matches!(usual.outcome, Some(Outcome::DebugExit(_))), "{at}: {usual:?}");
            let half = Picoseconds(usual.clocks[0].0 / 2);
            for generation in GENERATIONS {
                for way in [&[Way::Interpreted], &WAYS[..]].concat() {
                    match run(model, attack, generation, way, half) {
                        Some(other) => assert_eq!(other, usual, "{at}: {way:?} from {generation}"),
                        None => println!("skipped: {way:?}, as this host executes no such memory"),
                    }
                }
            }
        }
    }
}
