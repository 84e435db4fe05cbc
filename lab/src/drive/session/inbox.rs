//! What comes from the agent, taken apart. The agent runs on a machine whose guest may have broken
//! everything there: what it says is bounded.

use crate::protocol::FromAgent;
use anyhow::Context;
use std::collections::VecDeque;

/// The longest message: a kernel's symbols are some megabytes.
const MOST_LINE: usize = 64 << 20;
/// The largest file, as the agent has it.
const MOST_FILE: u64 = 512 << 20;

/// Messages, and the bytes of files behind them.
#[derive(Clone, Debug, Default)]
pub(super) struct Inbox {
    input: Vec<u8>,
    messages: VecDeque<FromAgent>,
    /// Bytes that the last message announced.
    announced: Option<usize>,
    files: VecDeque<Vec<u8>>,
}

impl Inbox {
    /// Takes what has come.
    pub fn take(&mut self, bytes: Vec<u8>) -> anyhow::Result<()> {
        self.input.extend(bytes);
        loop {
            if let Some(size) = self.announced {
                if self.input.len() < size {
                    return Ok(());
                }
                self.files.push_back(self.input.drain(..size).collect());
                self.announced = None;
            }
            let Some(length) = self.input.iter().position(|byte| *byte == b'\n') else {
                anyhow::ensure!(self.input.len() <= MOST_LINE, "the agent's message has no end");
                return Ok(());
            };
            let line: Vec<u8> = self.input.drain(..=length).collect();
            let message = serde_json::from_slice(&line).context("the agent's message")?;
            if let FromAgent::File(size) = message {
                anyhow::ensure!(size <= MOST_FILE, "the agent tells a file of {size} bytes");
                self.announced = Some(size as usize);
            }
            self.messages.push_back(message);
        }
    }

    /// The next message; a file's, when its bytes are there.
    pub fn next(&mut self) -> Option<FromAgent> {
        let is_file = matches!(self.messages.front(), Some(FromAgent::File(_)));
        if is_file && self.files.is_empty() {
            return None;
        }
        self.messages.pop_front()
    }

    /// The next message, if it is one of those that are passed on to users.
    pub fn next_words(&mut self) -> Option<FromAgent> {
        let is_it =
            matches!(self.messages.front(), Some(FromAgent::Wrote(..) | FromAgent::Progress(_)));
        if is_it { self.messages.pop_front() } else { None }
    }

    /// The exit status, if the next message says that a program or a workload has ended.
    pub fn ending(&self) -> Option<u8> {
        self.messages.front().map(|message| match message {
            FromAgent::Left(status) => u8::try_from(*status).unwrap_or(u8::MAX),
            FromAgent::Failed(_) => 1,
            _ => 0,
        })
    }

    /// The bytes of the file whose message was given last.
    pub fn file(&mut self) -> Vec<u8> {
        self.files.pop_front().unwrap_or_default()
    }

    pub fn is_empty(&self) -> bool {
        self.messages.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_given_when_it_is_whole_and_messages_follow_it() {
        let mut inbox = Inbox::default();
        inbox.take(b"{\"file\":3}\na\n".to_vec()).expect("a beginning");
        assert_eq!(inbox.next(), None);
        inbox.take(b"b\"standby\"\n".to_vec()).expect("the rest");
        assert_eq!(inbox.next(), Some(FromAgent::File(3)));
        assert_eq!(inbox.file(), b"a\nb");
        assert_eq!(inbox.next(), Some(FromAgent::Standby));
        assert!(inbox.next().is_none() && inbox.is_empty());
    }

    #[test]
    fn what_no_agent_says_is_an_error_and_not_believed() {
        for bytes in [
            &b"nonsense\n"[..],
            b"\n",
            b"{\"file\":-1}\n",
            b"{\"file\":99999999999999}\n",
            b"\xFF\xFE\n",
            b"{\"wrote\":[\"input\",\"\"]}\n",
        ] {
            assert!(Inbox::default().take(bytes.to_vec()).is_err(), "{bytes:?}");
        }
    }
}
