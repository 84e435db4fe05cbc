//! One client, from its first message to its last.

use crate::Host;
use crate::answer::{Next, Service};
use crate::error::{Code, Refusal};
use crate::message::{Message, MessageError};
use std::io::{self, Read, Write};

/// How a client left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// Nothing more came; another may.
    Closed,
    /// It ended the service.
    Quit,
}

/// Answers what comes until nothing does. What is not a message ends it, after a reply that says
/// so: where the next one begins is not known.
pub fn serve(
    service: &mut Service<'_>,
    host: &mut dyn Host,
    input: &mut impl Read,
    output: &mut impl Write,
) -> io::Result<End> {
    loop {
        let message = match Message::read(input) {
            Ok(Some(message)) => message,
            Ok(None) | Err(MessageError::Truncated) => return Ok(End::Closed),
            Err(MessageError::Stream(error)) => return Err(error),
            Err(error @ MessageError::TooLong { .. }) => {
                let refusal = Refusal::new(Code::Limit, error.to_string());
                Message::of(&refusal.reply()).write(output)?;
                return Ok(End::Closed);
            }
        };
        let (reply, next) = service.answer(&message, host);
        reply.write(output)?;
        if next == Next::Quit {
            return Ok(End::Quit);
        }
    }
}
