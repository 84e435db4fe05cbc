use super::*;
use crate::evidence::plan::{is_file, words};
use std::collections::BTreeMap;

#[test]
fn every_file_is_a_figure_with_what_was_measured_where_and_how_it_is_run_again() {
    assert!(OWN.len() >= 30, "{} figures", OWN.len());
    let (mut titles, mut problems) = (Vec::new(), Vec::new());
    let names: Vec<&str> = OWN.iter().map(|(name, _)| *name).collect();
    for (name, text) in OWN {
        let figure = match Published::parse(name, text) {
            Ok(figure) => figure,
            Err(error) => {
                problems.push(format!("{name}: {error}"));
                continue;
            }
        };
        let from = &figure.published;
        let said = [&from.source, &from.document, &from.section, &from.machine, &from.clock];
        let said = said.into_iter().chain([&from.kernel, &from.mitigations, &figure.statistic]);
        let mut say = |is_so: bool, what: &str| {
            if !is_so {
                problems.push(format!("{name}: {what}"));
            }
        };
        say(said.into_iter().all(|text| !text.is_empty()), "an empty word");
        say(cpu::CpuModel::named(&figure.cpu).is_ok(), "a CPU model that is not there");
        say(!titles.contains(&figure.title), "another figure's title");
        say(UNITS.contains(&figure.unit.as_str()), "a unit that nobody converts");
        say(figure.plan.is_some() == figure.unpredicted.is_none(), "a plan, or why there is none");
        for other in &figure.computed_from {
            say(names.contains(&other.as_str()), "it is computed from a figure that is not there");
        }
        titles.push(figure.title);
    }
    assert!(problems.is_empty(), "{problems:#?}");
}

const UNITS: [&str; 7] = ["cycles", "ns", "µs", "percent", "ratio", "IPIs/s", "M IPIs/s"];

#[test]
fn a_plan_runs_the_lab_on_the_figures_model_and_names_each_file_that_it_needs() {
    for figure in Published::all() {
        let Some(plan) = &figure.plan else { continue };
        let files = plan.needs.iter().filter(|need| is_file(need));
        let files: BTreeMap<_, _> =
            files.map(|need| (need.clone(), std::path::PathBuf::from("/there"))).collect();
        for command in plan.commands() {
            let words = words(command, &files);
            assert_eq!(words[0], "lab", "{}", figure.name);
            let cpu = words.iter().position(|word| word == "--cpu").expect("a model");
            let model = words[cpu + 1].split(',').next();
            assert_eq!(model, Some(figure.cpu.as_str()), "{}", figure.name);
            assert!(words.iter().all(|word| !word.contains('{')), "{}: {words:?}", figure.name);
            let is_run = words[1] == "run";
            assert_eq!(is_run, matches!(figure.take, Take::Measure(_)), "{}", figure.name);
        }
        let is_change = figure.setting == Setting::Change;
        let is_other = !matches!(figure.take, Take::Measure(_));
        assert_eq!(plan.before.is_some(), is_change && is_other, "{}", figure.name);
    }
}

#[test]
fn a_figure_stands_beside_runs_that_switch_its_feature_or_have_it_on() {
    let all = Published::all();
    let named = |name: &str| all.iter().find(|one| one.name == name).expect(name);
    let (without, with) = (named("ipiv-xapic-off"), named("ipiv-xapic-on"));
    for (feature, off, on) in
        [("ipi=off,on", true, true), ("both", false, true), ("apicv=on", false, false)]
    {
        let model = cpu::CpuModel::named("sapphire-rapids").expect("a model of the machine");
        let request: crate::plan::Request = feature.parse().expect(feature);
        let experiment = request.on(&model).expect(feature);
        assert_eq!(without.is_of("sapphire-rapids", &experiment), off, "{feature}");
        assert_eq!(with.is_of("sapphire-rapids", &experiment), on, "{feature}");
        assert!(!with.is_of("skylake-sp", &experiment), "{feature}");
    }
}

/// Two figures of the same source: a rate that is the number of senders by a latency, a ratio, a
/// difference or a change of two rows.
#[test]
fn a_row_whose_value_follows_from_others_says_so() {
    let all = Published::all();
    let told: Vec<_> = all.iter().filter(|row| row.unpredicted.is_none()).collect();
    let first: Vec<_> = told.iter().copied().filter(|row| row.computed_from.is_empty()).collect();
    let is_close = |a: f64, b: f64| (a / b - 1.0).abs() < 0.0005;
    for row in &told {
        let Take::Measure(place) = &row.take else { continue };
        let senders = f64::from(place.senders.unwrap_or(0));
        let is_near = |other: &&&Published| other.published.source == row.published.source;
        let of_latency = |other: &&&Published| {
            other.unit == "ns" && is_close(row.value * other.value, senders * 1000.0)
        };
        let rate = told.iter().filter(is_near).any(|other| of_latency(&other));
        let pair = first.iter().filter(is_near).any(|a| {
            first.iter().filter(is_near).any(|b| {
                let is_other = a.name != b.name && a.name != row.name && b.name != row.name;
                is_other
                    && a.unit == b.unit
                    && (is_close(a.value / b.value, row.value)
                        || is_close((a.value / b.value - 1.0) * 100.0, row.value)
                        || is_close(a.value - b.value, row.value))
            })
        });
        assert_eq!(rate || pair, !row.computed_from.is_empty(), "{}", row.name);
    }
}

#[test]
fn whatever_crosses_fitted_hardware_is_a_calibration_and_all_fitted_costs_are_of_it() {
    for name in cpu::CpuModel::names() {
        let model = cpu::CpuModel::named(name).expect("a model of the machine");
        let profile = board::cost::CostProfile::named(model.costs()).expect("its profile");
        for ((section, figure), cost) in profile.figures() {
            let is_hardware = ["avic", "apicv"].contains(&section);
            assert!(cost.fitted_to.is_empty() || is_hardware, "{name} {section}.{figure}");
        }
    }
}
