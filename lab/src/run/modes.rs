//! The modes of guests' APICs.

use crate::protocol::{Guest, Step};

/// In which guests run, one after the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Modes {
    /// xAPIC mode alone.
    XApic,
    /// x2APIC mode alone.
    X2Apic,
    /// Both.
    Both,
}

/// Steps that are called by their mode.
const NAMES: [&str; 2] = ["xAPIC", "x2APIC"];

impl Modes {
    fn has(self, is_x2apic: bool) -> bool {
        match self {
            Self::XApic => !is_x2apic,
            Self::X2Apic => is_x2apic,
            Self::Both => true,
        }
    }

    /// Steps in these modes: the built-in benchmark has a step for each, of Linux guests there is
    /// one, whose kernel takes the mode that its virtual machine has. Those that are about another
    /// thing than a mode stay.
    pub(super) fn of(self, steps: Vec<Step>) -> Vec<Step> {
        let own = [false, true].into_iter().filter(|is_x2apic| self.has(*is_x2apic));
        let each = |step: Step| match step.guest {
            Guest::Linux(_) => own.clone().map(|is_x2apic| in_mode(&step, is_x2apic)).collect(),
            _ if NAMES.contains(&step.name.as_str())
                && !self.has(step.configuration.has_x2apic) =>
            {
                Vec::new()
            }
            _ => vec![step],
        };
        steps.into_iter().flat_map(each).collect()
    }
}

fn in_mode(step: &Step, is_x2apic: bool) -> Step {
    let own = NAMES[usize::from(is_x2apic)];
    let mut step = step.clone();
    step.name = match NAMES.contains(&step.name.as_str()) {
        true => own.into(),
        false => format!("{}, {own}", step.name),
    };
    step.configuration.has_x2apic = is_x2apic;
    step
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::{Experiment, Setting};
    use crate::workload::{Chosen, Conditions};
    use bench::Configuration;

    #[test]
    fn a_linux_guest_runs_once_in_each_mode_and_the_benchmark_as_often_as_before() {
        let arm = Experiment::default().arm(Setting::On);
        let configuration = Configuration::default();
        let conditions = Conditions::plain(&arm, &configuration);
        let names = |workload: &str, modes: Modes| -> Vec<(String, bool)> {
            let chosen: Chosen = workload.parse().expect("a workload");
            let steps = modes.of(chosen.steps(&conditions));
            steps.into_iter().map(|one| (one.name, one.configuration.has_x2apic)).collect()
        };
        let own = |name: &str, is_x2apic| (name.to_owned(), is_x2apic);
        assert_eq!(names("threads", Modes::XApic), [own("xAPIC", false)]);
        let both = [own("xAPIC", false), own("x2APIC", true)];
        assert_eq!(names("threads", Modes::Both), both);
        // Timed, and traced.
        assert_eq!(names("ipi", Modes::X2Apic), [own("x2APIC", true), own("x2APIC", true)]);
        assert_eq!(names("ipi", Modes::Both).len(), 4);
        assert_eq!(names("device", Modes::X2Apic), names("device", Modes::XApic));
        assert!(!names("device", Modes::X2Apic).is_empty());
    }
}
