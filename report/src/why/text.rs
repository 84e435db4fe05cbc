//! What becomes of each machine's interrupts, for readers.

use crate::document::Severity;
use crate::layout::{Colour, Look};
use crate::writer::clean;
use rules::finding::{Answer, Fix};
use rules::why::{Machine, Why};

/// The answer as lines: one for each machine, or all that is known of it.
pub fn text(why: &Why, is_incomplete: bool, quiet: bool, look: Look) -> String {
    let mut text = String::new();
    if why.machines.is_empty() {
        text.push_str(match is_incomplete {
            true => "No virtual machine is in what could be read.\n",
            false => "No virtual machine is running here.\n",
        });
    }
    for machine in &why.machines {
        if quiet {
            short(&mut text, why, machine, look);
        } else {
            one(&mut text, why, machine, look);
        }
    }
    text
}

/// A line for each machine, with the host's name in front.
pub fn lines(why: &Why, host: &str) -> String {
    if why.machines.is_empty() {
        return format!("{}: no virtual machine\n", clean(host));
    }
    let mut text = String::new();
    for machine in &why.machines {
        text.push_str(&format!("{}: ", clean(host)));
        short(&mut text, why, machine, Look::PLAIN);
    }
    text
}

/// One line: name, answer, reason, and the change where there is one.
fn short(text: &mut String, why: &Why, machine: &Machine, look: Look) {
    let active = &machine.active;
    let fix = active.fix.as_ref().map_or(String::new(), |fix| format!("; change: {}", fix.line));
    let feature = why.feature;
    let active_colour = Severity::from(active.answer);
    let line = format!("{}: {feature} {}: {}{fix}", active.subject, active.answer, active.reason);
    text.push_str(&look.painted_line(active_colour, &look.verbatim("", &line)));
}

/// A line to copy, and what it takes.
fn change(heading: &str, fix: &Fix, look: Look) -> String {
    look.verbatim(heading, &format!("{} (needs: {})", fix.line, fix.needs))
}

fn one(text: &mut String, why: &Why, machine: &Machine, look: Look) {
    let title = format!(
        "{} (pid {}, {})",
        clean(&machine.active.subject),
        machine.pid,
        machine.vmm.unwrap_or("VMM not understood")
    );
    text.push_str(&look.painted_line(Colour::Bold, &title));
    let row = |text: &mut String, answer: Answer, statement: &str, reason: &str| {
        let statement = format!("{statement}: {reason}");
        text.push_str(&look.row(Severity::from(answer), &answer.to_string(), &statement));
    };
    row(text, machine.active.answer, &format!("{} active", why.feature), &machine.active.reason);
    // What is said of each function need not be said of all.
    if let Some(devices) = machine.devices.as_ref().filter(|_| machine.functions.is_empty()) {
        row(text, devices.answer, "device interrupts posted", &devices.reason);
    }
    for function in &machine.functions {
        let posted = &function.posted;
        row(text, posted.answer, &format!("{} posted", function.address), &posted.reason);
        if let Some(fix) = &posted.fix {
            text.push_str(&change("    change    ", fix, look));
        }
    }
    for cause in machine.causes.iter().filter(|cause| cause.inhibit.duration.is_lasting()) {
        let inhibit = &cause.inhibit;
        let certainty = format!("{:?}", inhibit.certainty).to_lowercase();
        text.push_str(&look.hanging(
            "    inhibit",
            14,
            &format!("{} {}, {certainty}: {}", inhibit.reason, inhibit.duration, inhibit.because),
        ));
        match &cause.fix {
            Some(fix) => text.push_str(&change("    change    ", fix, look)),
            None => text.push_str(&look.hanging("    change", 14, "none that this VMM offers")),
        }
    }
    if let Some(fix) = machine
        .active
        .fix
        .as_ref()
        .filter(|fix| !machine.causes.iter().any(|cause| cause.fix.as_ref() == Some(fix)))
    {
        text.push_str(&change("    host      ", fix, look));
        if machine.causes.iter().any(|cause| cause.lasts && cause.fix.is_some()) {
            let both =
                "both changes are needed: the host's for any machine, the other for this one";
            text.push_str(&look.hanging("", 14, &format!("{:14}{both}", "")));
        }
    }
    for evidence in
        machine.active.evidence.iter().filter(|evidence| !evidence.what.starts_with("predicted"))
    {
        text.push_str(&look.hanging(
            "    seen",
            14,
            &format!("{} at {}: {}", evidence.what, evidence.place, evidence.value),
        ));
    }
    for reason in &machine.unseen {
        text.push_str(&look.hanging("    unseen", 14, reason));
    }
}
