//! The search on the reference hypervisor, on a part that loses wake-ups and on one that does not.

use super::choice::Strategy;
use super::minimise::minimise;
use super::oracle::Rule;
use super::stage::Stage;
use crate::reference;
use arch::time::Picoseconds;
use board::perturb;
use cpu::CpuModel;

/// Two vCPUs, the second of which halts most of the time, under way.
fn stage(erratum: &str) -> Stage {
    let mut model = CpuModel::named("zen2").expect("a model that comes with the machine");
    model.choose(&format!("erratum-1235={erratum}")).expect("a variant");
    let options = "avic=on vcpus=2 guest.tests=mix guest.apic=xapic guest.seed=3";
    let machine = reference::under_way(model, options, "\"record\":\"mix\"");
    Stage::of(machine, "the reference hypervisor")
}

#[test]
fn a_window_is_the_same_after_every_return_and_on_another_machine() {
    let mut one = stage("off");
    let drawn = || Strategy::Directed.source(7);
    let (first, records) = one.record(drawn());
    assert!(first.holds.len() > 3, "{}", first.holds.len());
    assert!(records.len() > 100, "{}", records.len());
    for round in 0..5 {
        one.window(Strategy::Random.source(round));
        assert_eq!(one.window(drawn()).hash, first.hash, "round {round}");
    }
    let plan = perturb::Source::Plan(first.decisions());
    assert_eq!(one.window(plan.clone()).hash, first.hash, "the log is a plan of the same");
    assert_eq!(stage("off").window(plan).hash, first.hash, "another machine");
}

#[test]
fn a_part_that_loses_wake_ups_is_found_out_and_what_it_needs_is_little() {
    let mut stage = stage("on");
    let (seen, alarm) = (0..400)
        .find_map(|seed| {
            if seed % 10 == 9 {
                stage.advance(Picoseconds::from_nanoseconds(3_100_000));
            }
            let seen = stage.window(Strategy::Directed.source(seed));
            let alarm = seen.alarms.iter().find(|alarm| alarm.rule == Rule::Asleep).cloned();
            Some((seen, alarm?))
        })
        .expect("a wake-up that is lost");
    let (kept, again, _) = minimise(&mut stage, &alarm.key(), &seen.decisions());
    assert!(again.alarm(&alarm.key()).is_some(), "it is raised by what is left");
    assert!(kept.len() <= 5, "{kept:?}");
    let plan = perturb::Source::Plan(kept);
    assert_eq!(stage.window(plan).hash, again.hash, "it repeats bit by bit");
}

#[test]
fn a_part_that_loses_none_raises_no_alarm() {
    let mut stage = stage("off");
    for seed in 0..60 {
        let strategy = if seed % 2 == 0 { Strategy::Directed } else { Strategy::Random };
        let seen = stage.window(strategy.source(seed));
        assert_eq!(seen.alarms, [], "seed {seed}");
    }
}
