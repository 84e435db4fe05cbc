//! The other side: a client over any two streams, as small as it can be.

use crate::VERSION;
use crate::message::{Message, MessageError};
use serde_json::{Value, json};
use std::io::{self, Read, Write};

/// Why a client has no answer.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The service refused.
    #[error("{code}: {message}")]
    Refused {
        /// The refusal's word.
        code: String,
        /// What is wrong.
        message: String,
    },
    /// The stream ended.
    #[error("the service is gone")]
    Gone,
    /// What came is not a reply.
    #[error("a reply that is none: {0}")]
    Reply(String),
    /// What came is not a message.
    #[error(transparent)]
    Message(#[from] MessageError),
    /// The stream cannot be written.
    #[error(transparent)]
    Stream(#[from] io::Error),
}

/// A connection to a service.
pub struct Client<R, W> {
    input: R,
    output: W,
    /// What the service said of itself and of the machine.
    pub hello: Value,
}

impl<R: Read, W: Write> Client<R, W> {
    /// Greets the service.
    pub fn new(input: R, output: W) -> Result<Self, ClientError> {
        let mut client = Self { input, output, hello: Value::Null };
        client.hello = client.ask(json!({ "do": "hello", "version": VERSION }), &[])?.0;
        Ok(client)
    }

    /// One request with its payload; the reply with its.
    pub fn ask(&mut self, request: Value, payload: &[u8]) -> Result<(Value, Vec<u8>), ClientError> {
        let (reply, payload) = self.exchange(&request, payload)?;
        Ok((accepted(reply)?, payload))
    }

    /// Several requests in one message; the replies up to the first refusal, which is an error.
    pub fn ask_all(
        &mut self,
        requests: Vec<Value>,
        payload: &[u8],
    ) -> Result<(Vec<Value>, Vec<u8>), ClientError> {
        match self.exchange(&Value::Array(requests), payload)? {
            (Value::Array(replies), payload) => {
                let replies: Result<Vec<Value>, _> = replies.into_iter().map(accepted).collect();
                Ok((replies?, payload))
            }
            (reply, _) => Err(ClientError::Reply(accepted(reply)?.to_string())),
        }
    }

    fn exchange(
        &mut self,
        header: &Value,
        payload: &[u8],
    ) -> Result<(Value, Vec<u8>), ClientError> {
        let header = header.to_string().into_bytes();
        Message { header, payload: payload.to_vec() }.write(&mut self.output)?;
        let reply = Message::read_reply(&mut self.input)?.ok_or(ClientError::Gone)?;
        let header = serde_json::from_slice(&reply.header);
        let header = header.map_err(|error| ClientError::Reply(error.to_string()))?;
        Ok((header, reply.payload))
    }
}

fn accepted(reply: Value) -> Result<Value, ClientError> {
    let Some(error) = reply.get("error") else { return Ok(reply) };
    let text = |name: &str| error[name].as_str().unwrap_or_default().to_owned();
    Err(ClientError::Refused { code: text("code"), message: text("message") })
}
