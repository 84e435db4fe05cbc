//! What can be asked: the headers of requests.

use crate::error::{Code, Refusal};
use serde::de::{self, Deserializer, Visitor};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;

/// Requests of one message at most.
pub const MOST_REQUESTS: usize = 4096;

/// A number of up to 128 bits: in JSON, or as text with 0x and hexadecimal digits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Number(pub u128);

impl<'de> Deserialize<'de> for Number {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct OfNumber;
        impl Visitor<'_> for OfNumber {
            type Value = Number;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("a number that is not negative, or \"0x\" and hexadecimal digits")
            }

            fn visit_u64<E: de::Error>(self, value: u64) -> Result<Number, E> {
                Ok(Number(value.into()))
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Number, E> {
                let digits = text.strip_prefix("0x").filter(|digits| !digits.starts_with('+'));
                let value = digits.and_then(|digits| u128::from_str_radix(digits, 16).ok());
                let wrong = || E::invalid_value(de::Unexpected::Str(text), &self);
                value.map(Number).ok_or_else(wrong)
            }
        }
        deserializer.deserialize_any(OfNumber)
    }
}

impl Number {
    /// As 64 bits.
    pub fn word(self, what: &str) -> Result<u64, Refusal> {
        u64::try_from(self.0).map_err(|_| {
            Refusal::new(Code::Limit, format!("{what} {:#x}: must have 64 bits at most", self.0))
        })
    }
}

/// A request. Each is documented in docs/serve.md.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(tag = "do", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Request {
    /// Who is there.
    Hello {
        /// What the client speaks.
        version: u32,
    },
    /// Keep this moment.
    Mark {},
    /// Go back to a moment.
    Restore {
        /// Its number.
        mark: usize,
    },
    /// Forget a moment and those after it.
    Forget {
        /// Its number.
        mark: usize,
    },
    /// Read memory.
    Read {
        /// Physical, or linear where a processor is named.
        at: Number,
        /// How many.
        bytes: usize,
        /// Whose translation.
        cpu: Option<u16>,
    },
    /// Write memory.
    Write {
        /// Physical, or linear where a processor is named.
        at: Number,
        /// So many of the payload.
        bytes: usize,
        /// Whose translation.
        cpu: Option<u16>,
    },
    /// Read registers.
    Registers {
        /// Whose.
        #[serde(default)]
        cpu: u16,
        /// Which; all without.
        names: Option<Vec<String>>,
    },
    /// Write registers.
    SetRegisters {
        /// Whose.
        #[serde(default)]
        cpu: u16,
        /// By name.
        values: BTreeMap<String, Number>,
    },
    /// Let time pass.
    Run(Box<Run>),
    /// What happened since.
    Events {
        /// So many at most, the first ones.
        most: Option<usize>,
    },
    /// Keep from now on what code is executed.
    Cover {},
    /// What code was executed since.
    Coverage {
        /// As a map of so many counters of 8 bits.
        map: Option<usize>,
    },
    /// What a serial port showed since.
    Console {
        /// Which.
        #[serde(default)]
        port: u8,
    },
    /// Type at a serial port.
    Type {
        /// So many of the payload.
        bytes: usize,
        /// Which.
        #[serde(default)]
        port: u8,
    },
    /// The hash of all that happened.
    Hash {},
    /// Where the machine stands.
    Status {},
    /// A part of the machine.
    Info {
        /// As the monitor's `info` names it.
        what: String,
        /// Whose, where each processor has one.
        #[serde(default)]
        cpu: u16,
        /// Where it lies instead.
        at: Option<Number>,
    },
    /// Save the machine.
    Snapshot {
        /// A name without a folder.
        file: String,
    },
    /// End the service.
    Quit {},
}

/// How far to run.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Run {
    /// At most so many instructions of all processors.
    pub instructions: Option<u64>,
    /// At most so much virtual time.
    pub picoseconds: Option<u64>,
    /// Before an instruction at one of these linear addresses.
    pub breakpoints: Vec<Number>,
    /// Behind an access to one of these.
    pub watch: Vec<Watch>,
    /// Behind the instruction that an event comes from.
    pub event: Option<EventWish>,
    /// When every processor is halted.
    pub halted: bool,
}

/// Bytes that are watched.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Watch {
    /// The first, a linear address.
    pub at: Number,
    /// How many.
    pub length: u64,
    /// Which accesses.
    #[serde(default)]
    pub access: Access,
}

/// Which accesses are watched.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Access {
    /// Reads only.
    Read,
    /// Writes only.
    #[default]
    Write,
    /// Both.
    Any,
}

/// An event that a run is to stop at.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(untagged)]
pub enum EventWish {
    /// In the words of the monitor's `until`.
    Text(String),
    /// By its fields.
    Fields(EventGoal),
}

/// An event of the trace.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EventGoal {
    /// As `machine trace` names it.
    pub kind: String,
    /// On which processor; any without.
    pub cpu: Option<u16>,
    /// What its fields are, as in `events`.
    #[serde(default)]
    pub fields: BTreeMap<String, Value>,
}

impl Request {
    /// Bytes of the payload that are its own.
    pub fn payload(&self) -> usize {
        match self {
            Self::Write { bytes, .. } | Self::Type { bytes, .. } => *bytes,
            _ => 0,
        }
    }
}

/// What a header asks: whether it is a list, and each request or why it is none.
pub fn parse(header: &[u8]) -> Result<(bool, Vec<Value>), Refusal> {
    let wrong = |why: String| Refusal::new(Code::Request, why);
    let value: Value = serde_json::from_slice(header)
        .map_err(|error| wrong(format!("the header is not JSON: {error}")))?;
    match value {
        Value::Object(_) => Ok((false, vec![value])),
        Value::Array(list) if list.len() <= MOST_REQUESTS => Ok((true, list)),
        Value::Array(list) => Err(Refusal::new(
            Code::Limit,
            format!("{} requests, must be at most {MOST_REQUESTS}", list.len()),
        )),
        _ => Err(wrong("the header must be an object, or a list of objects".into())),
    }
}

/// One request.
pub fn request(value: Value) -> Result<Request, Refusal> {
    serde_json::from_value(value).map_err(|error| Refusal::new(Code::Request, error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_request_has_the_fields_that_it_needs_and_no_others() {
        let read = |at| Request::Read { at: Number(at), bytes: 8, cpu: None };
        for (value, expected) in [
            (json!({ "do": "mark" }), Some(Request::Mark {})),
            (json!({ "do": "read", "at": 5, "bytes": 8 }), Some(read(5))),
            (json!({ "do": "read", "at": "0xfFFF", "bytes": 8 }), Some(read(0xFFFF))),
            (json!({ "do": "read", "at": u64::MAX, "bytes": 8 }), Some(read(u64::MAX.into()))),
            (json!({ "do": "console" }), Some(Request::Console { port: 0 })),
            (
                json!({ "do": "run", "instructions": 5 }),
                Some(Request::Run(Box::new(Run { instructions: Some(5), ..Run::default() }))),
            ),
            (json!({ "do": "run", "until": 5 }), None),
            (json!({ "do": "mark", "more": 5 }), None),
            (json!({ "do": "read", "at": -5, "bytes": 8 }), None),
            (json!({ "do": "read", "at": "0x+5", "bytes": 8 }), None),
            (json!({ "do": "read", "at": 5 }), None),
            (json!({ "do": "nothing" }), None),
            (json!({}), None),
            (json!(5), None),
        ] {
            assert_eq!(request(value.clone()).ok(), expected, "{value}");
        }
        let said = request(json!({ "do": "nothing" })).expect_err("no such request").message;
        assert!(said.contains("nothing") && said.contains("set-registers"), "{said}");
    }
}
