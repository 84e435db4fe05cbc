//! SENDUIPI natively and in a guest, on the machine alone: Linux has no user of user interrupts, so
//! that the guest is one for bare metal, and its hypervisor the one that comes along.

use anyhow::{Context as _, bail};
use arch::time::Picoseconds;
use board::load::{Module, Source};
use board::topology::Topology;
use board::{Configuration, Images, Limits, Machine, Outcome};
use cpu::CpuModel;
use report::grid::{Grid, Value};
use serde_json::Value as Json;

const MEMORY: u64 = 128 << 20;
const LIMIT_S: u64 = 20;
/// The clock at which the published figures were measured.
const PUBLISHED_HERTZ: f64 = 2.0e9;
const SAMPLES: u64 = 500;
/// Exits for commands are of the start as well; what sending takes is told by the difference
/// between this many samples and [`SAMPLES`].
const FEW_SAMPLES: u64 = 100;
/// Of the sender, one way, of the receiver: Skyloft, SOSP 2024, on a Xeon Gold 5418Y.
const PUBLISHED: [u64; 3] = [167, 1211, 661];

/// One way of sending: a row of the table.
struct Way {
    name: &'static str,
    /// The hypervisor's command line; `None` without one.
    hypervisor: Option<&'static str>,
}

const WAYS: [Way; 4] = [
    Way { name: "native", hypervisor: None },
    Way { name: "guest, interrupts injected", hypervisor: Some("apicv=off") },
    Way { name: "guest, APICv", hypervisor: Some("apicv=on ipiv=off") },
    Way { name: "guest, IPI virtualization", hypervisor: Some("apicv=on") },
];

/// What a run gave.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Figures {
    /// Cycles of the time-stamp counter at the sender.
    pub send: u64,
    /// From before SENDUIPI to the handler's first instructions.
    pub one_way: u64,
    /// What the receiver's program lost.
    pub receive: u64,
    /// Writes of the virtual ICR that exited.
    pub command_exits: u64,
    /// User interrupts that were sent.
    pub sent: u64,
    /// Checks of the manual that hold, of how many.
    pub checks: (u64, u64),
}

impl Figures {
    /// Exits for each user interrupt by which this run sent more than another.
    fn exits_to_send(&self, fewer: &Self) -> f64 {
        let exits = self.command_exits as f64 - fewer.command_exits as f64;
        exits / self.sent.saturating_sub(fewer.sent).max(1) as f64
    }
}

/// What all ways came to.
pub struct Answer {
    /// In a sentence, what does not hold in front.
    pub verdict: String,
    /// A row for each way, and what is published.
    pub table: Grid,
    /// Whether all checks of the manual hold in all ways.
    pub holds: bool,
}

/// Runs all ways.
pub fn answer(model: &CpuModel) -> anyhow::Result<Answer> {
    let hertz = model.tsc_hertz() as f64;
    let at_published = |own: u64| own as f64 / hertz * PUBLISHED_HERTZ;
    let cycles = |own: u64| Value::Number(at_published(own), 0);
    let columns = ["way", "sender", "one_way", "receiver", "exits_to_send", "checks"];
    let mut grid = Grid::new("SENDUIPI", &columns);
    let mut sentence = Sentence::default();
    for way in WAYS {
        let of = |samples| run(model, &way, samples).with_context(|| way.name.to_owned());
        let figures = of(SAMPLES)?;
        let exits = match way.hypervisor {
            Some(_) => Some(figures.exits_to_send(&of(FEW_SAMPLES)?)),
            None => None,
        };
        sentence.add(&way, &figures, exits, at_published(figures.one_way));
        let exits = exits.map_or(Value::Missing, |exits| Value::Number(exits, 2));
        grid.rows.push(vec![
            Value::text(way.name),
            cycles(figures.send),
            cycles(figures.one_way),
            cycles(figures.receive),
            exits,
            Value::text(format!("{} of {}", figures.checks.0, figures.checks.1)),
        ]);
    }
    let published = PUBLISHED.map(Value::Count);
    let row = [Value::text("published, native")].into_iter().chain(published);
    grid.rows.push(row.chain([Value::Missing, Value::Missing]).collect());
    Ok(Answer { verdict: sentence.text(), table: grid, holds: sentence.failed.is_empty() })
}

/// The answer as it is gathered, way by way.
#[derive(Default)]
struct Sentence {
    exits: Vec<String>,
    one_way: Vec<String>,
    checks: u64,
    failed: Vec<String>,
}

impl Sentence {
    fn add(&mut self, way: &Way, figures: &Figures, exits: Option<f64>, one_way: f64) {
        let (held, all) = figures.checks;
        let name = way.name;
        self.checks += all;
        if held < all || all == 0 {
            self.failed.push(format!("{name}: {held} of {all} checks of the manual hold"));
        }
        self.exits.extend(exits.map(|exits| format!("{exits:.2} ({name})")));
        self.one_way.push(report::grid::grouped(one_way.round() as u64));
    }

    fn text(&self) -> String {
        let first = match self.failed.as_slice() {
            [] => String::new(),
            failed => format!("WRONG: {}; ", failed.join("; ")),
        };
        format!(
            "{first}SENDUIPI: VM exits for each one that a guest sends: {}; cycles one way, natively \
             and in these guests: {}; {} checks of the manual were made",
            self.exits.join(", ").replace("guest, ", ""),
            self.one_way.join(", ").replacen(", ", "; ", 1),
            self.checks
        )
    }
}

fn run(model: &CpuModel, way: &Way, samples: u64) -> anyhow::Result<Figures> {
    let topology = Topology::of_cores(2)?;
    let mut machine = Machine::new(&Configuration::of(model.clone(), topology, MEMORY))?;
    let guest = Source::of("uintr", image::UINTR);
    let (kernel, modules, command_line) = match way.hypervisor {
        None => (guest, vec![], format!("apic=x2apic samples={samples}")),
        Some(options) => {
            let kernel = Source::of("hypervisor", image::HYPERVISOR);
            let words = format!("{options} guest.apic=x2apic guest.samples={samples}");
            (kernel, vec![Module { file: guest, command_line: "" }], words)
        }
    };
    let images = Images { kernel, initrd: None, modules: &modules, command_line: &command_line };
    machine.load(&images)?;
    let until = Picoseconds::from_milliseconds(LIMIT_S * 1000);
    let mut text = Vec::new();
    let outcome = loop {
        let ended = machine.run(Limits { until, instructions: u64::MAX });
        text.extend(machine.take_console().into_iter().map(|(_, byte)| byte));
        match ended {
            Some(outcome) => break outcome,
            None if machine.state.now >= until => bail!("did not end in {LIMIT_S} s of its time"),
            None => {}
        }
    };
    let text = String::from_utf8_lossy(&text);
    if outcome != Outcome::DebugExit(0) {
        bail!("ended with {outcome:?}: {}", text.lines().last().unwrap_or_default());
    }
    Ok(read(&text))
}

/// The guest's records, by themselves or in those of the hypervisor.
fn read(text: &str) -> Figures {
    let mut figures = Figures::default();
    for outer in text.lines().filter_map(|line| serde_json::from_str::<Json>(line).ok()) {
        let record = if outer["record"] == "guest" { &outer["output"] } else { &outer };
        let word = |name: &str| record[name].as_str().unwrap_or_default();
        let number = |name: &str| record[name].as_u64().unwrap_or(0);
        match (word("record"), word("test")) {
            ("check", _) => {
                figures.checks.0 += u64::from(record["passed"] == true);
                figures.checks.1 += 1;
            }
            ("latency", "send") => {
                figures.send = number("p50");
                figures.sent += number("samples");
            }
            ("latency", "one_way") => figures.one_way = number("p50"),
            ("latency", "receive") => {
                figures.receive = number("mean");
                figures.sent += number("samples");
            }
            ("exit", _) if word("reason") == "apic_write" => {
                figures.command_exits = number("count");
            }
            _ => {}
        }
    }
    figures
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_way_delivers_and_only_ipi_virtualization_sends_without_exits() {
        let model = CpuModel::named("sapphire-rapids").expect("a model that comes along");
        let [native, injected, posted, virtualized] = WAYS.map(|way| {
            let of = |samples| {
                run(&model, &way, samples).unwrap_or_else(|e| panic!("{}: {e:#}", way.name))
            };
            (of(SAMPLES), of(FEW_SAMPLES))
        });
        for (figures, fewer) in [&native, &injected, &posted, &virtualized] {
            assert_eq!((figures.checks, fewer.checks), ((7, 7), (7, 7)));
            assert_eq!(figures.sent, 2 * SAMPLES);
        }
        let exits = |(figures, fewer): &(Figures, Figures)| figures.exits_to_send(fewer);
        assert_eq!([&injected, &posted, &virtualized].map(exits), [1.0, 1.0, 0.0]);
        let [native, injected, posted, virtualized] =
            [native.0, injected.0, posted.0, virtualized.0];
        assert!(native.send < virtualized.send && virtualized.send < posted.send);
        assert!(virtualized.receive < injected.receive);
    }

    #[test]
    fn a_check_that_does_not_hold_comes_first() {
        let mut sentence = Sentence::default();
        let figures = |held| Figures { checks: (held, 7), ..Figures::default() };
        sentence.add(&WAYS[0], &figures(7), None, 988.4);
        sentence.add(&WAYS[3], &figures(7), Some(0.0), 1840.0);
        assert_eq!(
            sentence.text(),
            "SENDUIPI: VM exits for each one that a guest sends: 0.00 (IPI virtualization); cycles one \
             way, natively and in these guests: 988; 1,840; 14 checks of the manual were made"
        );
        sentence.add(&WAYS[1], &figures(6), Some(1.0), 2825.0);
        let text = sentence.text();
        assert!(text.starts_with("WRONG: guest, interrupts injected: 6 of 7 checks"), "{text}");
    }

    #[test]
    fn records_are_read_as_they_are_and_inside_those_of_the_hypervisor() {
        let sent = r#"{"record":"latency","test":"send","samples":2,"p50":7}"#;
        let inside = format!(r#"{{"record":"guest","feature":"on","output":{sent}}}"#);
        for text in [sent, &inside] {
            let figures = read(text);
            assert_eq!((figures.send, figures.sent), (7, 2));
        }
    }
}
