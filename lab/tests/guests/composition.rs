//! What processors' time consists of, counts times costs, with the hypervisor and its guest at
//! work.

use crate::LIMITS;
use arch::identity::CpuIndex;
use arch::time::Picoseconds;
use board::Limits;
use board::composition::Kind;
use cpu::Step;
use cpu::decode::Cost;

const CPUS: [CpuIndex; 2] = [CpuIndex(0), CpuIndex(1)];
const OPTIONS: &str = "output=memory guest.output=memory guest.samples=20 guest.messages=20 \
                       guest.warmup=2 guest.tests=ipi,exits,timer vcpus=2";

#[test]
fn every_clock_has_advanced_by_counts_times_costs_to_the_picosecond() {
    for (name, send) in [("zen4", Step::AvicSend), ("sapphire-rapids", Step::ApicvSend)] {
        let model = crate::model(name);
        let mut machine = crate::started(model.clone(), 2, image::HYPERVISOR, OPTIONS);
        machine.count_composition();
        let prices = machine.costs.prices(&model);
        let of = |machine: &board::Machine, cpu| machine.composition(cpu).expect("it is counted");
        let begun =
            CPUS.map(|cpu| (of(&machine, cpu), machine.state.cpus[usize::from(cpu.0)].clock.now()));
        let half = Limits { until: Picoseconds::from_milliseconds(3), ..LIMITS };
        for limits in [half, LIMITS] {
            machine.run(limits);
            for (cpu, (before, at)) in CPUS.into_iter().zip(&begun) {
                let clock = &machine.state.cpus[usize::from(cpu.0)].clock;
                let spent = of(&machine, cpu).since(before);
                assert_eq!(spent.time(&prices).0, clock.now().0 - at.0, "{name} {cpu:?}");
                let executed: u64 = spent.instructions.iter().sum();
                assert!(executed >= clock.instructions(), "{name} {cpu:?}");
            }
        }
        let all = of(&machine, CPUS[0]);
        for step in [Step::Entry, Step::Exit, send] {
            assert!(all.count(Kind::Step(step)) > 0, "{name}: {step:?}");
        }
        assert!(
            all.count(Kind::Instruction(Cost::Pause)) > 0
                && all.messages.by_distance.iter().sum::<u64>() > 0
        );
    }
}

#[test]
fn counting_changes_nothing_but_that_it_counts() {
    let model = crate::model("zen4");
    let hash = |counts: bool| {
        let mut machine = crate::started(model.clone(), 2, image::HYPERVISOR, OPTIONS);
        if counts {
            machine.count_composition();
        }
        machine.run(LIMITS);
        (machine.state.wiring.recorder.hash.value(), machine.instructions())
    };
    assert_eq!(hash(false), hash(true));
}
