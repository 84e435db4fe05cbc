//! Tables of what a recording has beside exits: inhibits, vectors, and everything that is counted.

use super::Report;
use crate::grid::{Grid, Value};
use profile::inhibit::{Inhibits, ReasonTime, Setter};
use profile::name::host_vector_name;
use trace::inhibit::Authority;

/// How each vector of the guest travelled.
pub fn vectors(report: &Report) -> Grid {
    let columns = [
        "vector",
        "ipis",
        "msis",
        "accepted",
        "posted",
        "injected",
        "injected_again",
        "end_of_interrupt",
        "of_them_without_exit",
        "in_linux",
    ];
    let mut grid = Grid::new("Vectors", &columns);
    for vector in &report.summary.interrupts.vectors {
        let mut row = vec![Value::text(format!("{:#04x}", vector.vector))];
        let counts = [
            vector.ipi,
            vector.msi,
            vector.accepted,
            vector.posted,
            vector.injected,
            vector.reinjected,
            vector.end_of_interrupt,
            vector.paravirtual_end,
        ];
        row.extend(counts.map(Value::Count));
        let name = u8::try_from(vector.vector).ok().and_then(host_vector_name);
        row.push(Value::text(name.unwrap_or_default()));
        grid.rows.push(row);
    }
    grid
}

/// Inhibits, a line per machine and reason.
pub fn inhibits(inhibits: &Inhibits) -> Grid {
    let columns = [
        "vm",
        "reason",
        "seconds",
        "of time %",
        "set",
        "cleared",
        "most changes/s",
        "state",
        "set by",
        "cause",
    ];
    let basis = match inhibits.authority {
        Authority::Kernel => "named by the kernel",
        Authority::Version => "named by the kernel's version",
        Authority::Assumed => "the kernel is not known, so numbers keep all their meanings",
    };
    let share = match inhibits.machines.as_slice() {
        [machine] => format!(", {:.1} % of the time", machine.inhibited_share * 100.0),
        _ => String::new(),
    };
    let mut grid = Grid::new(format!("Inhibits of AVIC or APICv{share} ({basis})"), &columns);
    for machine in &inhibits.machines {
        for reason in &machine.reasons {
            let state = match (reason.is_set_at_end, reason.is_storm) {
                (true, true) => "set at end, storm",
                (true, false) => "set at end",
                (false, true) => "storm",
                (false, false) => "",
            };
            grid.rows.push(vec![
                if machine.process == 0 {
                    Value::Missing
                } else {
                    Value::Text(machine.process.to_string())
                },
                Value::text(&reason.name),
                Value::Number(reason.seconds, 3),
                Value::Number(reason.share * 100.0, 1),
                Value::Count(reason.times_set),
                Value::Count(reason.times_cleared),
                Value::Count(reason.worst_changes_per_second),
                Value::text(state),
                setters(reason),
                Value::text(reason.cause.unwrap_or(match inhibits.authority {
                    Authority::Assumed => "depends on the kernel: give --kernel RELEASE",
                    _ => "not known to this kernel's numbering",
                })),
            ]);
        }
    }
    grid
}

/// The threads that set a reason, with how often where there are several.
fn setters(reason: &ReasonTime) -> Value {
    const SHOWN: usize = 3;
    let name = |setter: &Setter| {
        setter.name.clone().unwrap_or_else(|| format!("thread {}", setter.thread))
    };
    let text = match reason.setters.as_slice() {
        [] => return Value::Missing,
        [only] => name(only),
        several => {
            let mut shown: Vec<_> = several
                .iter()
                .take(SHOWN)
                .map(|setter| format!("{} ({})", name(setter), setter.times))
                .collect();
            if several.len() > SHOWN {
                shown.push("others".into());
            }
            shown.join(", ")
        }
    };
    Value::Text(text)
}

/// Everything counted beside exits, table by table; empty ones are left out.
pub fn interrupts(report: &Report) -> Vec<Grid> {
    let found = &report.summary.interrupts;
    let mut grids = Vec::new();
    if !found.vectors.is_empty() {
        grids.push(vectors(report));
    }
    let counted = [
        ("IPIs without a vector", &found.other_ipis),
        ("IPIs that AVIC could not complete", &found.incomplete_ipis),
        ("Registers that AVIC left to KVM", &found.unaccelerated),
        ("GA log of the IOMMU", &found.guest_log),
        ("Doorbells", &found.doorbells),
        ("Posted device interrupts", &found.posted_routes),
        ("Interrupt lines raised", &found.lines),
        ("Returns to the virtual-machine monitor", &found.userspace_exits),
    ];
    for (title, counts) in counted.into_iter().filter(|(_, counts)| !counts.is_empty()) {
        let mut grid = Grid::new(title, &["what", "count"]);
        grid.rows.extend(counts.iter().map(|row| vec![Value::text(&row.0), Value::Count(row.1)]));
        grids.push(grid);
    }
    let mut rest = Grid::new("Also seen", &["what", "count"]);
    for (name, count) in [
        ("wakeups after sleeping", found.slept),
        ("wakeups while polling", found.polled),
        (
            "accepted without a vector: INIT, NMI, wake-ups of waiting spinlocks",
            found.accepted_without_vector,
        ),
        ("ends of interrupt while none was in service", found.stray_ends),
        ("exits of a guest's guest", found.nested_exits),
        ("IPI targets searched for in software", found.kick_slow_path),
    ] {
        if count > 0 {
            rest.rows.push(vec![Value::text(name), Value::Count(count)]);
        }
    }
    grids.extend((!rest.rows.is_empty()).then_some(rest));
    grids
}
