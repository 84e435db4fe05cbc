//! Where trials run.

use super::chosen::On;
use super::{host, lab};
use ::experiment::place::Place;
use std::sync::atomic::AtomicBool;

/// That the end was asked for.
pub static INTERRUPT: AtomicBool = AtomicBool::new(false);

/// The lab or this host; `options` say which virtual machine and how it is reached.
pub fn place(on: On, options: &host::Options) -> anyhow::Result<Box<dyn Place>> {
    Ok(match on {
        On::Lab => Box::new(lab::Lab::new(&INTERRUPT)),
        On::Host => Box::new(host::Host::new(options, &INTERRUPT)?),
    })
}
