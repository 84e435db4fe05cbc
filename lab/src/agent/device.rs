//! The function for measuring interrupts, given to a guest, and driven as the guest says that it is
//! ready.

use super::function::bind;
use crate::device::ADDRESS;
use anyhow::Context;
use bench::{Pulse, Target, VirtualMachine};
use serde_json::Value as Json;
use std::time::{Duration, Instant};

/// After the last interrupt, for what is still on its way.
const GRACE: Duration = Duration::from_millis(5);

/// The function and what has been made of it.
pub(super) struct Driven {
    pulse: Pulse,
    period_ns: u32,
    count: u32,
    state: State,
}

enum State {
    Waiting,
    Running {
        end: Target,
    },
    /// All are sent.
    Sent {
        end: Target,
        at: Instant,
    },
    Over,
}

impl Driven {
    pub(super) fn new(vm: &VirtualMachine, period_ns: u32, count: u32) -> anyhow::Result<Self> {
        bind(ADDRESS)?;
        let pulse = Pulse::give_to(vm, ADDRESS)?;
        Ok(Self { pulse, period_ns, count, state: State::Waiting })
    }

    /// Starts the function when the guest says that it is ready.
    pub(super) fn take(&mut self, line: &str) -> anyhow::Result<()> {
        let record = line.starts_with('{').then(|| serde_json::from_str::<Json>(line).ok());
        let Some(record) = record.flatten() else { return Ok(()) };
        if record["record"].as_str() != Some("device_ready") {
            return Ok(());
        }
        let byte = |key: &str| {
            let number = record[key].as_u64().and_then(|number| u8::try_from(number).ok());
            number.with_context(|| format!("the guest says no {key}: {line}"))
        };
        let apic_id = byte("destination")?;
        let page = record["page"].as_u64().with_context(|| format!("no page: {line}"))?;
        let target = Target { apic_id, vector: byte("vector")? };
        self.pulse.start(target, page, self.period_ns, self.count)?;
        self.state = State::Running { end: Target { apic_id, vector: byte("end")? } };
        Ok(())
    }

    /// Looks whether it has sent everything, and tells the guest then; what was sent, as a record.
    pub(super) fn look(&mut self) -> anyhow::Result<Option<String>> {
        match self.state {
            State::Running { end } if !self.pulse.is_running()? => {
                self.state = State::Sent { end, at: Instant::now() };
            }
            State::Sent { end, at } if at.elapsed() >= GRACE => {
                let (sent, refused) = self.pulse.sent()?;
                self.pulse.tell(end)?;
                self.state = State::Over;
                return Ok(Some(format!(
                    "{{\"record\":\"device_sent\",\"sent\":{sent},\"refused\":{refused}}}"
                )));
            }
            _ => {}
        }
        Ok(None)
    }
}
