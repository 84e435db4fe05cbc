//! The function for measuring interrupts, given to a guest, and driven as the guest says that it is
//! ready. A burst follows another when the one before is long over, so that an interrupt that
//! nobody took shows.

use crate::linux::function::bind;
use crate::protocol::Sending;
use anyhow::Context;
use bench::{Pulse, Target, VirtualMachine};
use serde_json::Value as Json;
use std::time::{Duration, Instant};

/// Where the board has its function for measuring interrupts.
const ADDRESS: &str = "0000:00:1d.0";
/// After the last interrupt of a burst, for what is still on its way.
const GRACE: Duration = Duration::from_millis(5);

/// The function and what has been made of it.
pub struct Driven {
    pulse: Pulse,
    sending: Sending,
    state: State,
    /// Bursts that were begun, and what was sent and refused before the one that runs.
    begun: u32,
    sent: (u64, u64),
}

enum State {
    Waiting,
    Running(Receiver),
    /// All of a burst are sent.
    Sent(Receiver, Instant),
    Over,
}

/// What the guest says of itself.
#[derive(Clone, Copy)]
struct Receiver {
    target: Target,
    page: u64,
    end: Target,
}

/// Takes the function from the host for a virtual machine that has not run yet.
pub(crate) fn give(vm: &VirtualMachine) -> anyhow::Result<Pulse> {
    bind(ADDRESS)?;
    Ok(Pulse::give_to(vm, ADDRESS)?)
}

impl Driven {
    /// Takes the function from the host for a virtual machine that has not run yet.
    pub fn new(vm: &VirtualMachine, sending: Sending) -> anyhow::Result<Self> {
        let pulse = give(vm)?;
        Ok(Self { pulse, sending, state: State::Waiting, begun: 0, sent: (0, 0) })
    }

    /// Starts the function when the guest says that it is ready: `line` is one of its console.
    pub fn take(&mut self, line: &str) -> anyhow::Result<()> {
        let record = line.starts_with('{').then(|| serde_json::from_str::<Json>(line).ok());
        let Some(record) = record.flatten() else { return Ok(()) };
        if record["record"].as_str() != Some("device_ready") {
            return Ok(());
        }
        let byte = |key: &str| {
            let number = record[key].as_u64().and_then(|number| u8::try_from(number).ok());
            number.with_context(|| format!("no {key} in the guest's output: {line}"))
        };
        let apic_id = byte("destination")?;
        let page = record["page"].as_u64().with_context(|| format!("no page: {line}"))?;
        let to = |vector| Target { apic_id, vector };
        let receiver = Receiver { target: to(byte("vector")?), page, end: to(byte("end")?) };
        (self.begun, self.sent) = (0, (0, 0));
        let Sending { period_ns, count, .. } = self.sending;
        self.start(receiver, period_ns, count)
    }

    fn start(&mut self, receiver: Receiver, period_ns: u32, count: u32) -> anyhow::Result<()> {
        self.pulse.start(receiver.target, receiver.page, period_ns, count)?;
        self.state = State::Running(receiver);
        Ok(())
    }

    /// Looks whether it has sent everything, and tells the guest then; what was sent, as a record.
    pub fn look(&mut self) -> anyhow::Result<Option<String>> {
        match self.state {
            State::Running(receiver) if !self.pulse.is_running()? => {
                self.state = State::Sent(receiver, Instant::now());
            }
            State::Sent(receiver, at) if at.elapsed() >= GRACE => return self.go_on(receiver),
            _ => {}
        }
        Ok(None)
    }

    /// The next burst, or the end.
    fn go_on(&mut self, receiver: Receiver) -> anyhow::Result<Option<String>> {
        let (sent, refused) = self.pulse.sent()?;
        self.sent.0 += u64::from(sent);
        self.sent.1 += u64::from(refused);
        let bursts = self.sending.bursts;
        if let Some((bursts, period_ns)) =
            bursts.and_then(|bursts| Some((bursts, bursts.period_ns(self.begun)?)))
        {
            self.begun += 1;
            self.start(receiver, period_ns, bursts.count)?;
            return Ok(None);
        }
        self.pulse.tell(receiver.end)?;
        self.state = State::Over;
        let (sent, refused) = self.sent;
        let sent = format!("\"sent\":{sent},\"refused\":{refused}");
        Ok(Some(format!("{{\"record\":\"device_sent\",{sent}}}")))
    }
}
