use super::*;
use arch::address::Linear;
use bus::Random;

const RIP: Linear = Linear(0x1000);

fn ns(time: u64) -> Picoseconds {
    Picoseconds::from_nanoseconds(time)
}

fn halt(cpu: u16, at: u64) -> Record {
    Record { at: ns(at), cpu: CpuIndex(cpu), event: Event::Halt { rip: RIP } }
}

fn plan() -> Decision {
    Decision { cpu: CpuIndex(1), after: Anchor::Halt, count: 2, offset: ns(30), delay: ns(500) }
}

#[test]
fn a_processor_is_held_at_its_place_and_no_other_is() {
    let mut one = Perturbation::new(Source::Plan(vec![plan()]), &[ns(0), ns(0)]);
    one.note(&halt(1, 100));
    assert_eq!(one.next(1), None, "the first halt is not the second");
    one.note(&halt(0, 150));
    one.note(&halt(0, 160));
    assert_eq!(one.next(0), None, "another processor's second halt");
    one.note(&halt(1, 200));
    assert_eq!(one.next(1), Some(ns(230)));
    assert_eq!(one.hold(1, ns(229), RIP), None);
    assert_eq!(one.hold(1, ns(230), RIP), Some(ns(500)));
    assert_eq!(one.hold(1, ns(800), RIP), None, "once");
    assert_eq!(one.into_log(), [Hold { decision: plan(), at: ns(230), rip: RIP }]);
}

#[test]
fn a_place_that_the_processor_has_left_behind_is_never_reached() {
    let mut one = Perturbation::new(Source::Plan(vec![plan()]), &[ns(0), ns(0)]);
    for at in [100, 200, 210] {
        one.note(&halt(1, at));
    }
    assert_eq!(one.hold(1, ns(10_000), RIP), None);
    assert!(one.into_log().is_empty());
}

#[test]
fn a_turn_that_ended_for_a_place_that_was_left_behind_is_in_the_log_and_a_plan_ends_it_there() {
    let turns = |plan: Vec<Decision>| {
        let mut one = Perturbation::new(Source::Plan(plan), &[ns(0), ns(0)]);
        one.note(&halt(1, 100));
        one.note(&halt(1, 200));
        let ends = one.next(1);
        one.bound(1, ns(230));
        one.note(&halt(1, 210));
        assert_eq!(one.hold(1, ns(230), RIP), None, "its third halt is another place");
        (ends, one.into_log())
    };
    let (ends, log) = turns(vec![plan()]);
    let decision = Decision { delay: ns(0), ..plan() };
    assert_eq!(ends, Some(ns(230)));
    assert_eq!(log, [Hold { decision, at: ns(230), rip: RIP }]);
    let again = log.iter().map(|hold| hold.decision).collect();
    assert_eq!(turns(again), (ends, log));
    assert_eq!(turns(Vec::new()), (None, Vec::new()));
    // A turn that ended before, for another reason, ended for that.
    let mut one = Perturbation::new(Source::Plan(vec![plan()]), &[ns(0), ns(0)]);
    one.note(&halt(1, 100));
    one.note(&halt(1, 200));
    one.bound(1, ns(230));
    assert_eq!(one.hold(1, ns(220), RIP), None);
    assert!(one.into_log().is_empty());
}

#[test]
fn the_log_of_chance_is_a_plan_of_the_same() {
    let chance = Chance {
        random: Random(7),
        anywhere: Some(ns(300)),
        behind: [3; Anchor::ALL.len()],
        nearby: ns(100),
        delays: (ns(10), ns(1000)),
    };
    let run = |source: Source| {
        let mut one = Perturbation::new(source, &[ns(0), ns(0)]);
        let mut held = Vec::new();
        for at in (0..20_000).step_by(50) {
            for cpu in 0..2 {
                if at % 350 == 0 {
                    one.note(&halt(cpu, at));
                }
                held.extend(one.hold(cpu.into(), ns(at), RIP).map(|delay| (cpu, at, delay)));
            }
        }
        (held, one.into_log())
    };
    let (held, log) = run(Source::Chance(Box::new(chance)));
    assert!(held.len() > 20, "{}", held.len());
    let plan = log.iter().map(|hold| hold.decision).collect();
    assert_eq!(run(Source::Plan(plan)), (held, log));
}
