//! Whether the guest goes on: a search of windows in which nobody runs would find nothing, and look
//! like one of a kernel without faults.

use crate::protocol::FromAgent;
use crate::workload::mix::Said;
use arch::time::Picoseconds;
use bench::Outcome;
use serde::Serialize;

/// The guest of the mix is never silent for a tenth of this.
pub const SILENCE: Picoseconds = Picoseconds::from_nanoseconds(20_000_000);
const TENTH: Picoseconds = Picoseconds(SILENCE.0 / 10);
/// Bytes of a message at most; the agent of a host that fails may say anything.
const MOST_BYTES: usize = 1 << 20;

/// The guest's status where an interrupt was sent and is not taken, and where one is that was not.
const LOST: u32 = 3;
const UNASKED: u32 = 4;

/// How the guest ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct End {
    /// In words.
    pub text: String,
    /// Whether that is the hypervisor's fault, and not that of who runs the guest.
    pub is_fault: bool,
}

impl End {
    /// The first line of the words; what the kernel said may follow.
    pub fn first_line(&self) -> &str {
        self.text.lines().next().unwrap_or_default()
    }
}

/// Who listens.
#[derive(Clone, Debug, Default)]
pub(super) struct Ear {
    message: Vec<u8>,
    /// Whether a vCPU entered its guest since the last look.
    is_entered: bool,
    /// Since when no vCPU has been in its guest.
    silent: Option<Picoseconds>,
    end: Option<End>,
    /// How often processors were saved and lines were raised, by what was said since the last look.
    done: (u64, u64),
}

impl Ear {
    pub fn enter(&mut self) {
        self.is_entered = true;
    }

    pub fn look(&mut self, now: Picoseconds, is_inside: bool) {
        if std::mem::take(&mut self.is_entered) || is_inside {
            self.silent = Some(now);
        }
        self.silent.get_or_insert(now);
    }

    /// As if nobody had been in it for as long as the guest of the mix never is silent.
    #[cfg(test)]
    pub fn fall_silent(&mut self, now: Picoseconds) {
        self.silent = Some(Picoseconds(now.0.saturating_sub(TENTH.0)));
    }

    pub fn is_deserted(&self, now: Picoseconds) -> bool {
        self.is_silent_for(SILENCE, now)
    }

    pub fn is_silent(&self, now: Picoseconds) -> bool {
        self.is_silent_for(TENTH, now)
    }

    fn is_silent_for(&self, time: Picoseconds, now: Picoseconds) -> bool {
        self.silent.is_some_and(|since| now.0.saturating_sub(since.0) >= time.0)
    }

    pub fn end(&self) -> Option<&End> {
        self.end.as_ref()
    }

    /// How often processors were saved and restored, and lines were raised, since the last call.
    pub fn take_done(&mut self) -> (u64, u64) {
        std::mem::take(&mut self.done)
    }

    /// Takes in what the agent says; how the guest ended, when that is said.
    pub fn hear(&mut self, bytes: &[u8]) -> Option<End> {
        let mut heard = None;
        for byte in bytes {
            if *byte != b'\n' {
                if self.message.len() < MOST_BYTES {
                    self.message.push(*byte);
                }
                continue;
            }
            let message = std::mem::take(&mut self.message);
            let said: Option<FromAgent> = serde_json::from_slice(&message).ok();
            if let Some(Said { saved, raised, .. }) = said.as_ref().and_then(done) {
                self.done = (self.done.0 + saved, self.done.1 + raised);
            }
            let end = said.as_ref().and_then(self::end);
            if self.end.is_none() && end.is_some() {
                (self.end, heard) = (end.clone(), end);
            }
        }
        heard
    }
}

/// What a message says that the host has done.
fn done(message: &FromAgent) -> Option<Said> {
    let FromAgent::Progress(line) = message else { return None };
    Said::in_line(line)
}

/// What a message says of the guest's end.
fn end(message: &FromAgent) -> Option<End> {
    let (text, is_fault) = match message {
        FromAgent::Finished(result) => match &result.outcome {
            Outcome::Failed(text) => (text.clone(), true),
            Outcome::TripleFault => ("it shut down after a triple fault".to_owned(), true),
            Outcome::DebugExit(LOST) => {
                ("an interrupt that was sent to it never came".to_owned(), true)
            }
            Outcome::DebugExit(UNASKED) => {
                ("an interrupt came that nobody had sent to it".to_owned(), true)
            }
            Outcome::DebugExit(value) => (format!("it gave up with {value}"), true),
            Outcome::PowerOff => ("it switched itself off".to_owned(), true),
            Outcome::Reset => ("it asked for a reset".to_owned(), true),
            Outcome::TimeLimit => ("its time was over".to_owned(), false),
            Outcome::Stopped => ("it was stopped".to_owned(), false),
        },
        FromAgent::Failed(why) => (why.clone(), false),
        _ => return None,
    };
    Some(End { text, is_fault })
}

#[cfg(test)]
mod tests {
    use super::*;

    const MESSAGE: &str = r#"{"finished":{"outcome":OUTCOME,"seconds":1.0,"console":[],"times":[],
        "process_exits":{},"tracepoints":null,"parameters":[],"messages":[]}}"#;

    fn heard(outcome: &str) -> Option<End> {
        let message = MESSAGE.replace("OUTCOME", outcome).replace('\n', "") + "\n";
        let (first, rest) = message.as_bytes().split_at(20);
        let mut ear = Ear::default();
        assert_eq!(ear.hear(first), None, "half of a message");
        let heard = ear.hear(rest);
        assert_eq!(ear.end(), heard.as_ref());
        heard
    }

    #[test]
    fn an_end_is_the_hypervisors_fault_unless_who_runs_the_guest_wanted_it() {
        let fault = |outcome| heard(outcome).expect("an end").is_fault;
        assert!(fault(r#"{"failed":"KVM: internal error 1"}"#));
        assert!(fault(r#""triple-fault""#) && fault(r#"{"debug-exit":2}"#));
        let lost = heard(r#"{"debug-exit":3}"#).expect("an end");
        assert!(lost.is_fault && lost.text.contains("never came"), "{lost:?}");
        let unasked = heard(r#"{"debug-exit":4}"#).expect("an end");
        assert!(unasked.is_fault && unasked.text.contains("nobody had sent"), "{unasked:?}");
        assert!(!fault(r#""stopped""#) && !fault(r#""time-limit""#));
        let mut ear = Ear::default();
        let why = ear.hear(b"{\"failed\":\"no processor is free\"}\n").expect("an end");
        assert_eq!((why.text.as_str(), why.is_fault), ("no processor is free", false));
        assert_eq!(ear.hear(b"nonsense\n{\"progress\":\"a line\"}\n\"standby\"\n"), None);
        assert_eq!(ear.end(), Some(&why), "the first counts");
    }

    #[test]
    fn what_the_host_says_to_have_done_is_counted_once() {
        let mut ear = Ear::default();
        let line =
            r#"{"progress":"{\"record\":\"host\",\"saved\":2,\"raised\":7}"}"#.to_owned() + "\n";
        ear.hear(line.repeat(2).as_bytes());
        ear.hear(b"{\"progress\":\"host\"}\n\"standby\"\n");
        assert_eq!((ear.take_done(), ear.take_done()), ((4, 14), (0, 0)));
        assert_eq!(ear.end(), None);
    }

    #[test]
    fn a_guest_is_deserted_when_nobody_has_been_in_it_for_long() {
        let (millisecond, mut ear) = (1_000_000_000, Ear::default());
        let mut after = |time: u64, enters, is_inside| {
            if enters {
                ear.enter();
            }
            let now = Picoseconds(time * millisecond);
            ear.look(now, is_inside);
            assert!(ear.is_silent(now) || !ear.is_deserted(now));
            ear.is_deserted(now)
        };
        assert!(!after(100, false, false), "the first look");
        assert!(!after(119, false, false));
        assert!(after(120, false, false));
        assert!(!after(121, true, false), "who entered and left again counts");
        assert!(!after(150, false, true), "who has not left since");
        assert!(!after(169, false, false));
        assert!(after(171, false, false));
        assert!(!after(172, true, false) && !after(173, false, false));
        assert!(!ear.is_silent(Picoseconds(173 * millisecond)), "as the mix is now and then");
        assert!(ear.is_silent(Picoseconds(174 * millisecond)));
    }
}
