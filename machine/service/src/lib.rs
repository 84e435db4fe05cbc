//! A machine behind requests and replies: fuzzers and test programs mark a state, write an input,
//! run, look at what came of it, and go back. docs/serve.md is the protocol.
//!
//! [`message`] says where a message ends, [`request`] what can be asked, [`Service`] answers, and
//! [`serve`] does so over any two streams. [`client`] is the other side. What files there are, and
//! how parts are shown, is the [`Host`]'s.

#![deny(clippy::print_stdout, clippy::print_stderr)]
#![warn(missing_docs)]

mod answer;
pub mod client;
mod collected;
mod coverage;
mod error;
mod goal;
mod memory;
pub mod message;
mod register;
pub mod request;
mod run;
mod session;

pub use answer::{Description, Next, Service};
pub use error::{Code, Refusal};
pub use session::{End, serve};

use board::Machine;
use board::inspection::Sheet;
use serde_json::Value;

/// The protocol's version.
pub const VERSION: u32 = 1;

/// What a service asks of the program around it.
pub trait Host {
    /// Whether the run under way is to end: nobody waits for it any more.
    fn is_over(&mut self) -> bool;

    /// Saves the machine in a file of this name; its path.
    fn save(&mut self, machine: &Machine, file: &str) -> Result<String, String>;

    /// The published form of what was looked at.
    fn show(&self, sheets: &[Sheet]) -> Value;
}
