//! One debugger's visit, from its connection to its leaving.

use super::target::{Session, stop_reason};
use super::{Debuggee, Stop};
use gdbstub::common::Signal;
use gdbstub::conn::ConnectionExt;
use gdbstub::stub::run_blocking::{BlockingEventLoop, Event, WaitForStopReasonError};
use gdbstub::stub::{DisconnectReason, GdbStub, MultiThreadStopReason};
use std::convert::Infallible;
use std::marker::PhantomData;

/// How a visit ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// The machine is to go on alone.
    Detached,
    /// The machine ended by itself.
    Off {
        /// As the program would exit with it.
        status: u8,
    },
    /// The debugger ended the run.
    Killed,
}

/// The connection to the debugger failed, or what came over it is not the protocol.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("debugger connection: {0}")]
pub struct DebugError(String);

/// Speaks with a debugger until it leaves. The machine stands still when it comes.
pub fn serve<D: Debuggee, C: ConnectionExt>(
    debuggee: &mut D,
    connection: C,
) -> Result<Ending, DebugError>
where
    C::Error: std::fmt::Debug + std::fmt::Display,
{
    let mut session =
        Session { debuggee, stepping: None, continued: None, is_locked: false, backwards: None };
    let stub = GdbStub::new(connection);
    match stub.run_blocking::<EventLoop<D, C>>(&mut session) {
        Ok(DisconnectReason::TargetExited(status)) => Ok(Ending::Off { status }),
        Ok(DisconnectReason::TargetTerminated(_) | DisconnectReason::Kill) => Ok(Ending::Killed),
        Ok(DisconnectReason::Disconnect) => Ok(Ending::Detached),
        Err(error) => Err(DebugError(error.to_string())),
    }
}

/// Runs the machine in short stretches and looks for the debugger's bytes between them.
struct EventLoop<'a, D, C>(PhantomData<(&'a D, C)>);

/// Steps done before the connection is looked at again.
const STEPS_AT_ONCE: u32 = 1000;

impl<'a, D: Debuggee, C: ConnectionExt> BlockingEventLoop for EventLoop<'a, D, C> {
    type Target = Session<'a, D>;
    type Connection = C;
    type StopReason = MultiThreadStopReason<u64>;

    fn wait_for_stop_reason(
        session: &mut Session<'a, D>,
        connection: &mut C,
    ) -> Result<Event<Self::StopReason>, WaitForStopReasonError<Infallible, C::Error>> {
        loop {
            if let Some(stop) = advance(session) {
                let words = session.debuggee.take_words();
                tell(&words, connection).map_err(WaitForStopReasonError::Connection)?;
                return Ok(Event::TargetStopped(stop_reason(stop)));
            }
            let has_data = connection.peek().map_err(WaitForStopReasonError::Connection)?;
            if has_data.is_some() {
                let byte = connection.read().map_err(WaitForStopReasonError::Connection)?;
                return Ok(Event::IncomingData(byte));
            }
        }
    }

    fn on_interrupt(session: &mut Session<'a, D>) -> Result<Option<Self::StopReason>, Infallible> {
        session.backwards = None;
        Ok(Some(MultiThreadStopReason::Signal(Signal::SIGINT)))
    }
}

/// Has the debugger print lines of text. [GDB "Stop Reply Packets"]
fn tell<C: ConnectionExt>(text: &str, connection: &mut C) -> Result<(), C::Error> {
    for line in text.lines() {
        let packet = line
            .bytes()
            .chain(*b"\n")
            .fold(String::from("O"), |packet, byte| packet + &format!("{byte:02x}"));
        let sum = packet.bytes().fold(0u8, |sum, byte| sum.wrapping_add(byte));
        connection.write_all(format!("${packet}#{sum:02x}").as_bytes())?;
    }
    connection.flush()
}

/// Steps or runs for a while.
fn advance<D: Debuggee>(session: &mut Session<D>) -> Option<Stop> {
    if let Some(how) = session.backwards {
        let stop = session.debuggee.run_back(how);
        session.backwards = session.backwards.filter(|_| stop.is_none());
        return stop;
    }
    let Some(stepping) = session.stepping.clone() else {
        return session.debuggee.run(session.only());
    };
    let others = session.others();
    (0..STEPS_AT_ONCE).find_map(|_| {
        let stop = session.debuggee.step(stepping.cpu, others);
        (!session.is_in_range(stop)).then_some(stop)
    })
}
