//! The arena of hosts that code is not made for: there is none.

use crate::{Absence, Entry, Machine, Slot};
use std::sync::atomic::AtomicU64;
use translate::{Code, Exit};

pub enum Arena {}

impl Arena {
    pub fn new() -> Result<Self, Absence> {
        Err(Absence::Host)
    }

    pub fn publish(&mut self, _: &Code) -> Option<(Entry, Slot)> {
        match *self {}
    }

    pub fn link(&mut self, _: Slot, _: Entry) {
        match *self {}
    }

    pub fn remember(&mut self, _: u64, _: Entry) {
        match *self {}
    }

    pub fn unlink(&mut self) {
        match *self {}
    }

    pub fn unlink_where(&mut self, _: impl Fn(Slot) -> bool, _: impl Fn(u64) -> bool) {
        match *self {}
    }

    pub fn clear(&mut self) {
        match *self {}
    }

    pub fn enter<M: Machine>(&mut self, _: Entry, _: &[AtomicU64], _: &mut M) -> Exit {
        match *self {}
    }
}
