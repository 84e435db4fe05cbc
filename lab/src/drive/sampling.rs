//! Where the host's processors are while interrupts are measured, looked at from outside at moments
//! that chance chooses: looking changes nothing.

use super::example::taken_by;
use arch::identity::CpuIndex;
use arch::time::Picoseconds;
use board::{Limits, Machine, Outcome};
use cpu::Activity;
use trace::Record;

/// Between two looks, at least and at most: 200 ns in the mean.
const NEAREST: u64 = 100_000;
const FARTHEST: u64 = 300_000;
/// Looks at a step, 1.2 ms of it.
const MOST_LOOKS: usize = 6000;
/// Interrupts that guests take before the first look: until then they begin.
const FIRST: usize = 20;
/// Between two looks whether so many have been taken.
const WAIT: Picoseconds = Picoseconds::from_nanoseconds(100_000);

/// What a processor of the host was in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// A program of the host.
    Program,
    /// The host's kernel, at this address.
    Kernel(u64),
}

/// A processor that executed the host's code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sample {
    pub at: Picoseconds,
    /// When what it executed then was done: it is seen as it is after that.
    pub done: Picoseconds,
    pub cpu: CpuIndex,
    pub place: Place,
}

/// What was seen of a step.
#[derive(Debug, Default)]
pub(crate) struct Samples {
    /// In order of time.
    pub all: Vec<Sample>,
    /// When it was looked first and last, and how often.
    pub span: Option<(Picoseconds, Picoseconds)>,
    pub looks: usize,
}

impl Samples {
    /// The time that each look stands for.
    pub fn period(&self) -> f64 {
        let span = self.span.map_or(0, |(first, last)| last.0 - first.0);
        span as f64 / self.looks.saturating_sub(1).max(1) as f64
    }
}

/// What has happened and was not taken yet.
fn recorded(machine: &Machine) -> &[Record] {
    machine.state.wiring.recorder.records.as_deref().unwrap_or_default()
}

/// Looks at a machine that runs.
#[derive(Debug)]
pub(crate) struct Sampling {
    random: u64,
    /// When it is to be looked next: a run may be cut before.
    due: Option<Picoseconds>,
    /// Interrupts that guests had taken at the last look, and since.
    taken: usize,
    new: usize,
    samples: Samples,
}

impl Sampling {
    pub fn new() -> Self {
        Self {
            random: 0x9E37_79B9_7F4A_7C15,
            due: None,
            taken: 0,
            new: 0,
            samples: Samples::default(),
        }
    }

    pub fn finish(self) -> Samples {
        self.samples
    }

    /// Runs a machine until then, or to its end, and looks on the way.
    pub fn run(&mut self, machine: &mut Machine, until: Picoseconds) -> Option<Outcome> {
        while self.samples.looks < MOST_LOOKS && machine.state.now < until {
            let now = machine.state.now;
            let due = match self.due {
                Some(due) => due,
                None if self.taken >= FIRST => now.saturating_add(Picoseconds(self.next())),
                // The same moments however a run is cut.
                None => Picoseconds((now.0 / WAIT.0 + 1) * WAIT.0),
            };
            self.due = Some(due);
            let seen = recorded(machine).len();
            let limits = Limits { until: due.min(until), instructions: u64::MAX };
            let outcome = machine.run(limits);
            let taken = recorded(machine).iter().skip(seen).filter_map(taken_by).count();
            let has_begun = self.taken >= FIRST;
            self.new += taken;
            if outcome.is_some() || machine.state.now < limits.until {
                return outcome;
            }
            if machine.state.now >= due {
                self.due = None;
                self.taken += std::mem::take(&mut self.new);
                if has_begun {
                    self.look(machine);
                }
            }
        }
        machine.run(Limits { until, instructions: u64::MAX })
    }

    fn look(&mut self, machine: &Machine) {
        let at = machine.state.now;
        let samples = &mut self.samples;
        samples.looks += 1;
        samples.span = Some((samples.span.map_or(at, |(first, _)| first), at));
        for (index, cpu) in machine.state.cpus.iter().enumerate() {
            if cpu.is_guest() || cpu.pending.activity() != Activity::Running {
                continue;
            }
            let place = match cpu.registers.cpl() {
                3 => Place::Program,
                _ => Place::Kernel(cpu.registers.ip),
            };
            let done = cpu.clock.now().max(at);
            samples.all.push(Sample { at, done, cpu: CpuIndex(index as u16), place });
        }
    }

    /// Picoseconds to the next look. [Marsaglia "Xorshift RNGs"]
    fn next(&mut self) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        NEAREST + self.random % (FARTHEST - NEAREST + 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use board::load::Source;
    use board::topology::Topology;
    use board::{Configuration, Images};
    use cpu::CpuModel;

    const LATE: Picoseconds = Picoseconds::from_milliseconds(1000);

    /// The processor's model and the hypervisor's options, feature off and on.
    const ARMS: [(&str, &str); 6] = [
        ("zen4", "avic=off guest.apic=xapic"),
        ("zen4", "avic=on guest.apic=xapic"),
        ("zen4", "avic=on guest.apic=x2apic"),
        ("sapphire-rapids", "apicv=off guest.apic=x2apic"),
        ("sapphire-rapids", "apicv=on guest.apic=x2apic"),
        ("sapphire-rapids", "apicv=on guest.apic=xapic"),
    ];

    fn hypervisor((model, options): (&str, &str)) -> Machine {
        let model = CpuModel::named(model).expect("a model that comes with the machine");
        let topology = Topology::of_cores(4).expect("four processors");
        let mut machine =
            Machine::new(&Configuration::of(model, topology, 256 << 20)).expect("a machine");
        machine
            .load(&Images {
                kernel: Source::of("hypervisor", image::HYPERVISOR),
                initrd: None,
                modules: &[],
                command_line: &format!(
                    "{options} vcpus=2 guest.output=memory guest.tests=ipi \
                     guest.targets=spinning guest.samples=40"
                ),
            })
            .expect("the hypervisor's image");
        machine.state.wiring.recorder.records = Some(Vec::new());
        machine
    }

    fn did(machine: &Machine) -> (u64, u64) {
        (machine.instructions(), machine.state.wiring.recorder.hash.value())
    }

    #[test]
    fn a_machine_does_the_same_whether_it_is_looked_at_or_not() {
        for arm in ARMS {
            let (mut plain, mut looked_at) = (hypervisor(arm), hypervisor(arm));
            let mut sampling = Sampling::new();
            let limits = Limits { until: LATE, instructions: u64::MAX };
            let outcomes = [plain.run(limits), sampling.run(&mut looked_at, LATE)];
            assert_eq!(outcomes, [Some(Outcome::DebugExit(0)); 2], "{arm:?}");
            assert_eq!(did(&plain), did(&looked_at), "{arm:?}");
            let samples = sampling.finish();
            assert!(samples.looks > 500 && !samples.all.is_empty(), "{} looks", samples.looks);
            // 200 ns in the mean.
            assert!((samples.period() - 200_000.0).abs() < 10_000.0, "{}", samples.period());
        }
    }

    /// A boundary at which the processor sends an interrupt without an exit is one like any other.
    #[test]
    fn a_machine_does_the_same_wherever_instructions_end_its_runs() {
        for arm in ARMS {
            let mut whole = hypervisor(arm);
            let limits = |instructions| Limits { until: LATE, instructions };
            assert_eq!(whole.run(limits(u64::MAX)), Some(Outcome::DebugExit(0)), "{arm:?}");
            for piece in [1, 11] {
                let mut cut = hypervisor(arm);
                let outcome = loop {
                    let next = cut.instructions() + piece;
                    if let Some(outcome) = cut.run(limits(next)) {
                        break outcome;
                    }
                    assert!(cut.state.now < LATE, "{arm:?}, {piece}: no end");
                };
                assert_eq!(outcome, Outcome::DebugExit(0), "{arm:?}, {piece}");
                assert_eq!(did(&cut), did(&whole), "{arm:?}, {piece}");
            }
        }
    }

    #[test]
    fn it_is_looked_at_in_the_same_moments_however_the_run_is_cut() {
        let looked_at = |piece: u64| {
            let (mut machine, mut sampling) = (hypervisor(ARMS[0]), Sampling::new());
            while machine.state.now < LATE {
                let until = machine.state.now.saturating_add(Picoseconds(piece));
                if sampling.run(&mut machine, until).is_some() {
                    break;
                }
                // Who drives it takes what was recorded.
                machine.state.wiring.recorder.records = Some(Vec::new());
            }
            sampling.finish()
        };
        let whole = looked_at(LATE.0);
        assert!(whole.looks > 1000, "{} looks", whole.looks);
        for piece in [5_000_000_000, 77_777_777, 1_234_567] {
            let cut = looked_at(piece);
            assert_eq!((cut.span, cut.looks), (whole.span, whole.looks), "{piece}");
            assert!(cut.all == whole.all, "{piece}");
        }
    }
}
