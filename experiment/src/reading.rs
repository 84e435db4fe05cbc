//! From what a trial saw to the values of its metrics.

use crate::place::{Evidence, Exits, Seen};
use crate::plan::{Metric, OfExits, OfSeveral, Plan, Setting, Source};
use crate::statistics::{median, warm_up};
use std::collections::BTreeMap;

/// Values of one metric in one trial at most.
const MOST_VALUES: usize = 1 << 20;

/// The value of each metric of the plan, of several values what the metric says; or what is
/// missing.
pub fn figures(
    plan: &Plan,
    setting: &Setting,
    seen: &Seen,
) -> Result<BTreeMap<String, f64>, String> {
    let mut figures = BTreeMap::new();
    for metric in plan.metrics_of(setting) {
        let series = match series(metric, seen) {
            Ok(Some(series)) => series,
            Ok(None) => continue,
            Err(_) if metric.is_optional => continue,
            Err(why) => return Err(format!("{}: {why}", metric.name)),
        };
        let sum = || series.iter().sum::<f64>();
        let value = match metric.of_several {
            OfSeveral::Median => median(&series[warm_up(&series)..]),
            OfSeveral::Mean => Some(sum() / series.len() as f64),
            OfSeveral::Sum => Some(sum()),
        };
        let value = value.filter(|value| value.is_finite());
        let value = value.ok_or_else(|| format!("{}: no value", metric.name))?;
        figures.insert(metric.name.clone(), value / metric.divide);
    }
    Ok(figures)
}

/// None where there is nothing of which it would be a value.
fn series(metric: &Metric, seen: &Seen) -> Result<Option<Vec<f64>>, String> {
    let one = |value: Option<&f64>, what: &str| {
        value.map(|value| vec![*value]).ok_or_else(|| format!("{what} was not measured"))
    };
    let found = match &metric.source {
        Source::Regex(pattern) => by_regex(pattern, &seen.output),
        Source::Json(path) => by_path(path, &seen.output),
        Source::Record { members, value, per } => {
            by_record(members, value, per.as_deref(), &seen.output)
        }
        Source::Exits(which, of) => {
            return Ok(exits(which, *of, seen).map(|value| vec![value]));
        }
        Source::Cpu(part) => one(seen.cpu.get(part), &format!("the processors' {part} time")),
        Source::Counter(name) => one(seen.counters.get(name), name),
        Source::Evidence(name) => match seen.evidence.get(name) {
            Some(Evidence::Number(value)) => Ok(vec![*value]),
            Some(Evidence::Text(text)) => Err(format!("{name} is {text:?}, no number")),
            None => Err(format!("{name} was not found out")),
        },
    };
    found.map(Some)
}

/// No exit of a reason is a count of zero, and has no mean; nor have exits that nobody timed.
fn exits(which: &str, of: OfExits, seen: &Seen) -> Option<f64> {
    let rows: Vec<&Exits> = seen
        .exits
        .iter()
        .filter(|(name, row)| match which {
            "all" => true,
            "work" => !row.is_wait,
            reason => name.eq_ignore_ascii_case(reason),
        })
        .map(|(_, row)| row)
        .collect();
    let count = rows.iter().map(|row| row.count).sum::<u64>() as f64;
    match of {
        OfExits::Count => Some(count),
        OfExits::Share => {
            let work = seen.exits.values().filter(|row| !row.is_wait);
            Some(100.0 * count / work.map(|row| row.count).sum::<u64>().max(1) as f64)
        }
        OfExits::Mean => {
            let time: Option<u64> = rows.iter().map(|row| row.time_ns).sum();
            time.map(|time| time as f64 / count).filter(|mean| mean.is_finite())
        }
    }
}

fn by_regex(pattern: &str, output: &str) -> Result<Vec<f64>, String> {
    let regex = regex::Regex::new(pattern).map_err(|error| error.to_string())?;
    let found = regex.captures_iter(output).take(MOST_VALUES);
    let values = found.filter_map(|one| one.get(1)?.as_str().replace(',', "").parse().ok());
    some(values.collect(), &format!("{pattern:?} matches nothing with a number"), output)
}

fn by_path(path: &str, output: &str) -> Result<Vec<f64>, String> {
    let json: serde_json::Value = serde_json::from_str(output).map_err(|error| {
        format!("the output is not JSON: {error}; it begins {:?}", begin(output))
    })?;
    match json.pointer(path) {
        Some(serde_json::Value::Array(all)) => {
            some(all.iter().filter_map(serde_json::Value::as_f64).collect(), path, output)
        }
        Some(value) => some(value.as_f64().into_iter().collect(), path, output),
        None => Err(format!("the output has no {path}")),
    }
}

fn by_record(
    members: &BTreeMap<String, String>,
    value: &str,
    per: Option<&str>,
    output: &str,
) -> Result<Vec<f64>, String> {
    let is_meant = |record: &serde_json::Value| {
        members.iter().all(|(name, wanted)| match &record[name.as_str()] {
            serde_json::Value::String(text) => text == wanted,
            serde_json::Value::Null => wanted.is_empty(),
            other => {
                let shown = other.to_string();
                shown == *wanted
            }
        })
    };
    let number = |record: &serde_json::Value| {
        let value = record[value].as_f64()?;
        per.map_or(Some(value), |per| Some(value / record[per].as_f64().filter(|one| *one != 0.0)?))
    };
    let lines = output.lines().filter(|line| line.starts_with('{')).take(MOST_VALUES);
    let records = lines.filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok());
    let values = records.filter(is_meant).filter_map(|record| number(&record)).collect();
    let wanted = members.iter().map(|(name, value)| format!("{name}={value}"));
    let wanted = wanted.collect::<Vec<_>>().join(" ");
    some(values, &format!("no line of JSON with {wanted} has {value}"), output)
}

fn some(values: Vec<f64>, what: &str, output: &str) -> Result<Vec<f64>, String> {
    if values.is_empty() {
        return Err(format!("{what}; the output begins {:?}", begin(output)));
    }
    Ok(values)
}

fn begin(output: &str) -> String {
    output.trim_start().chars().take(80).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn metric(source: Source) -> Metric {
        Metric {
            name: "m".into(),
            unit: "u".into(),
            less_is_better: Some(true),
            source,
            only: Setting::new(),
            divide: 1.0,
            difference: None,
            absolute: None,
            is_optional: false,
            of_several: OfSeveral::Median,
        }
    }

    #[test]
    fn of_several_values_the_metric_says_what_counts() {
        let output = "rate 10\nrate 1\nrate 4";
        let expected = [(OfSeveral::Median, 4.0), (OfSeveral::Mean, 5.0), (OfSeveral::Sum, 15.0)];
        for (of_several, expected) in expected {
            let metric = Metric { of_several, ..metric(Source::Regex("rate ([0-9]+)".into())) };
            let mut plan = crate::shipped::named("firecracker-pit")
                .expect("it is shipped")
                .expect("it has no fault");
            plan.metrics = vec![metric];
            let seen = Seen { output: output.into(), ..Seen::default() };
            let found = figures(&plan, &Setting::new(), &seen).expect("a value");
            assert_eq!(found["m"], expected, "{of_several:?}");
        }
    }

    fn record(pairs: &[(&str, &str)], value: &str, per: Option<&str>) -> Source {
        let members = pairs.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect();
        Source::Record { members, value: value.into(), per: per.map(Into::into) }
    }

    #[test]
    fn values_are_found_wherever_they_stand() {
        let lines = "noise\n{\"record\":\"latency\",\"test\":\"one\",\"p50\":7}\n\
                     {\"record\":\"threads\",\"events\":30,\"seconds\":2,\"fence\":true}\n";
        for (source, output, expected) in [
            (
                Source::Regex("time: ([0-9.,]+) ms".into()),
                "time: 1,204.5 ms\ntime: 9 ms",
                vec![1204.5, 9.0],
            ),
            (Source::Json("/a/0/b".into()), "{\"a\":[{\"b\":3}]}", vec![3.0]),
            (Source::Json("/a".into()), "{\"a\":[1,2]}", vec![1.0, 2.0]),
            (record(&[("record", "latency"), ("test", "one")], "p50", None), lines, vec![7.0]),
            (record(&[("fence", "true")], "events", Some("seconds")), lines, vec![15.0]),
        ] {
            let seen = Seen { output: output.into(), ..Seen::default() };
            assert_eq!(series(&metric(source), &seen), Ok(Some(expected)));
        }
    }

    #[test]
    fn what_is_missing_is_said_with_what_was_there() {
        for (source, output, part) in [
            (Source::Regex("x=([0-9]+)".into()), "y=1", "the output begins \"y=1\""),
            (Source::Json("/a".into()), "text", "the output is not JSON"),
            (
                record(&[("record", "latency")], "p50", None),
                "",
                "no line of JSON with record=latency",
            ),
            (Source::Counter("posted".into()), "", "posted was not measured"),
            (Source::Evidence("inhibited".into()), "", "inhibited was not found out"),
        ] {
            let seen = Seen { output: output.into(), ..Seen::default() };
            let error = series(&metric(source), &seen).expect_err(part);
            assert!(error.contains(part), "{error}");
        }
    }

    #[test]
    fn a_trial_without_an_optional_metric_counts_and_one_without_another_does_not() {
        let text = crate::plan::tests::SMALL.replace("value = \"p50\"", "value = \"nosuch\"");
        let figures = |text: &str| {
            let plan = Plan::read(text, "small").unwrap_or_else(|faults| panic!("{faults}"));
            let output = "{\"record\":\"latency\",\"p50\":7}".into();
            figures(&plan, &Setting::new(), &Seen { output, ..Seen::default() })
        };
        assert!(figures(&text).is_err());
        let optional = text.replace("value = \"nosuch\"", "value = \"nosuch\"\noptional = true");
        assert_eq!(figures(&optional), Ok(BTreeMap::new()));
    }

    #[test]
    fn waiting_is_no_work_and_an_absent_reason_counts_zero() {
        let row = |count, is_wait, time_ns| Exits { count, is_wait, time_ns };
        let exits = BTreeMap::from([
            ("msr".into(), row(5, false, Some(4000))),
            ("vintr".into(), row(15, false, None)),
            ("hlt".into(), row(9, true, None)),
        ]);
        let seen = Seen { exits, ..Seen::default() };
        let of = |which: &str, of| series(&metric(Source::Exits(which.into(), of)), &seen);
        for (which, value, found) in [
            ("all", OfExits::Count, 29.0),
            ("work", OfExits::Count, 20.0),
            ("MSR", OfExits::Count, 5.0),
            ("npf", OfExits::Count, 0.0),
            ("msr", OfExits::Share, 25.0),
            ("npf", OfExits::Share, 0.0),
            ("msr", OfExits::Mean, 800.0),
        ] {
            assert_eq!(of(which, value), Ok(Some(vec![found])), "{which} {value:?}");
        }
        for which in ["npf", "vintr"] {
            assert_eq!(of(which, OfExits::Mean), Ok(None), "{which}");
        }
    }
}
