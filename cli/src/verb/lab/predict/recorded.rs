//! What the feature would save a host whose exits were recorded.

use super::whence;
use crate::status::{Status, Usage};
use crate::terminal;
use ::lab::calibrate::{Saved, saved};
use ::lab::host::Host;
use ::lab::plan::vendor;
use analysis::{Told, Unfollowed, analyse};
use anyhow::{Context as _, anyhow};
use profile::Options;
use profile::pairing::Views;
use report::grid::{Grid, Value};
use rules::inhibit::Vendor;
use std::fmt::Write as _;
use std::path::Path;
use std::process::ExitCode;
use trace::exit_reason::Isa;

/// What it cannot know, whatever was recorded.
const UNKNOWN: &str = "\
Not known: what other threads took meanwhile; IPIs to vCPUs that do not run and ends of level
interrupts, which exit all the same; exits that stay and take longer with the feature; what KVM does
between its tracepoints besides the switch; how much sooner interrupts come; whether something
inhibits the feature (avicenna check).
";
/// Of a recording in another form than was measured, or where nothing was.
const NOT_MEASURED: &str = "\
What recording itself took is in these times: the profile does not say how much that is of a
recording in this form (bench calibrate measures it as exits record does it).
";

pub(super) fn run(recording: &Path, host: &Host) -> anyhow::Result<ExitCode> {
    let told = Told::nothing(Options::new(0, u64::MAX, None, Views { has_accesses: false }));
    let stop = std::sync::atomic::AtomicBool::new(false);
    let costs = host.cost_profile()?;
    let own = match vendor(&host.model) {
        Vendor::Amd => Isa::Svm,
        Vendor::Intel => Isa::Vmx,
    };
    for analysis in analyse(recording, &told, &stop, &mut Unfollowed)? {
        let place = || analysis.name.clone();
        let isa = analysis.profile.isa.or(analysis.context.isa);
        let isa = isa.context("it does not say whose exits these are").with_context(place)?;
        if isa != own {
            let model = host.model.name();
            return Err(Usage::of(anyhow!(
                "{}: exits of {isa:?}, and --cpu {model} has the other vendor's: name the model of \
                 the host that was recorded",
                analysis.name
            )));
        }
        for warning in &analysis.origin.warnings {
            remark!("avicenna: {}: {warning}", analysis.name);
        }
        let recorded = (&analysis.profile, analysis.origin.format.as_str());
        let found = saved(recorded, &analysis.context, &host.model, &costs);
        let found = found.context("it does not say whose exits these are")?;
        let of = format!("{} ({})", costs.name, whence(&costs));
        terminal::print(&text(&analysis.name, host.model.name(), &of, &found));
    }
    Ok(Status::Clean.into())
}

/// What is said of it.
fn text(name: &str, model: &str, costs: &str, found: &Saved) -> String {
    let Saved { total, work_ns, unknown_ns, lacking, intercepted_ns, seconds, vcpus, .. } = found;
    let work_ms = *work_ns as f64 / 1e6;
    let percent = |ms: f64, of: f64| if of > 0.0 { ms * 100.0 / of } else { 0.0 };
    let mut text = format!(
        "{name}: {seconds:.1} s, {vcpus} vCPUs; exits took {work_ms:.1} ms from exit to entry, \
         waiting left out\n"
    );
    if found.rows.is_empty() {
        let _ = writeln!(text, "Nothing that {model} has would take exits of it away");
    } else {
        let [likely, low, high] = total.map(|ns| ns / 1e6);
        let _ = write!(
            text,
            "{model} would save {likely:.1} ms of processor time ({low:.1} to {high:.1}), {:.1} % of \
             that, by the cost profile {costs}; likely and 90 % interval of prices and of what the \
             recording leaves open\n{}",
            percent(likely, work_ms),
            grid(found).to_text_within(terminal::columns())
        );
    }
    if *unknown_ns > 0 {
        let ms = *unknown_ns as f64 / 1e6;
        let _ = writeln!(
            text,
            "Of {ms:.1} ms ({:.1} %) the recording does not tell whether they would go; they are \
             not counted (exits report says which, and why)",
            percent(ms, work_ms)
        );
    }
    for (feature, ns) in lacking {
        let ms = *ns as f64 / 1e6;
        let _ = writeln!(text, "{ms:.1} ms would go by {feature}, which {model} has not");
    }
    if *intercepted_ns > 0 {
        let ms = *intercepted_ns as f64 / 1e6;
        let _ = writeln!(
            text,
            "{ms:.1} ms are writes of the self-IPI register, which KVM intercepts with AVIC, too"
        );
    }
    if !found.is_known {
        text += NOT_MEASURED;
    }
    text + UNKNOWN
}

fn grid(found: &Saved) -> Grid {
    let columns = ["exit", "feature", "exits", "recorded", "beside", "instead", "saved ms"];
    let mut grid = Grid::new("Saved; of each exit, in ns", &columns);
    for row in &found.rows {
        let [likely, low, high] = row.saved.map(|ns| ns / 1e6);
        grid.rows.push(vec![
            Value::text(row.name.as_str()),
            Value::text(row.feature),
            Value::Count(row.count),
            Value::Number(row.recorded_ns, 0),
            Value::Number(row.beside_ns, 0),
            Value::Number(row.instead_ns, 0),
            Value::text(format!("{likely:.2} ({low:.2} to {high:.2})")),
        ]);
    }
    grid
}
