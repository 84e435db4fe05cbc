//! A guest that KVM inhibits AVIC or APICv for while it runs, again and again for a moment. Nobody
//! chooses it: it is what one inhibit is watched in.

use super::kind::{Attendant, Conditions, Workload};
use crate::protocol::Step;
use anyhow::Context;
use bench::{Inhibit, Inhibitor, VirtualMachine};
use serde_json::Value as Json;
use std::time::{Duration, Instant};

/// What a step of the timer chip is called; others are called what they inhibit by.
pub const TIMER: &str = "pit";
/// Looks after the guest has begun, until the first.
const LOOKS_BEFORE: u32 = 3;
/// Longer than KVM takes to have every processor of the guest enter again.
const INHIBITED: Duration = Duration::from_micros(15);

pub(super) struct Inhibited;

impl Workload for Inhibited {
    fn name(&self) -> &'static str {
        "inhibited"
    }

    fn summary(&self) -> &'static str {
        "a guest that KVM inhibits AVIC or APICv for now and then"
    }

    fn steps(&self, _: &Conditions<'_>) -> Vec<Step> {
        Vec::new()
    }

    fn attend(&self, step: &Step) -> anyhow::Result<Option<Box<dyn Attendant>>> {
        let by = match step.name.as_str() {
            TIMER => None,
            name => {
                let inhibit: Inhibit = serde_json::from_value(Json::String(name.into()))
                    .with_context(|| format!("nothing inhibits by {name}"))?;
                Some(inhibit)
            }
        };
        Ok(Some(Box::new(Switch { by, inhibitor: None, looks: None })))
    }
}

struct Switch {
    by: Option<Inhibit>,
    inhibitor: Option<Inhibitor>,
    /// Since the guest has begun.
    looks: Option<u32>,
}

impl Attendant for Switch {
    fn give(&mut self, vm: &VirtualMachine) -> anyhow::Result<()> {
        self.inhibitor = Some(vm.inhibitor(self.by)?);
        Ok(())
    }

    fn take(&mut self, line: &str) -> anyhow::Result<()> {
        if line.starts_with('{') {
            self.looks.get_or_insert(0);
        }
        Ok(())
    }

    fn look(&mut self) -> anyhow::Result<Option<String>> {
        let (Some(inhibitor), Some(looks)) = (&self.inhibitor, &mut self.looks) else {
            return Ok(None);
        };
        *looks = looks.saturating_add(1);
        if *looks > LOOKS_BEFORE {
            inhibitor.set()?;
            let begun = Instant::now();
            // Sleeping would take longer.
            while begun.elapsed() < INHIBITED {
                std::hint::spin_loop();
            }
            inhibitor.lift()?;
        }
        Ok(None)
    }
}
