//! A value with its place, or why there is none.

use crate::evidence::Evidence;
use serde::Serialize;
use std::fmt::Display;

/// A value, or why there is none.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Reading<T> {
    /// As it was read and decoded.
    Value(T),
    /// Looked for, and not there: the kernel, the CPU or the board does not offer it.
    Absent,
    /// Not known: no permission, not recorded. The text says which.
    Unreadable(String),
    /// Read, and no value of the form that belongs there. The text says what was found.
    NotUnderstood(String),
}

impl<T> Reading<T> {
    /// Another value in place of this one; without one, why there is none.
    fn and_then<U>(self, convert: impl FnOnce(T) -> Reading<U>) -> Reading<U> {
        match self {
            Reading::Value(value) => convert(value),
            Reading::Absent => Reading::Absent,
            Reading::Unreadable(why) => Reading::Unreadable(why),
            Reading::NotUnderstood(what) => Reading::NotUnderstood(what),
        }
    }
}

/// A reading with its place.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Fact<T> {
    /// Path, register, CPUID leaf or table it was looked for in.
    pub place: String,
    /// What was found there.
    pub reading: Reading<T>,
}

impl<T> Fact<T> {
    /// A value that was read.
    pub fn value(place: impl Into<String>, value: T) -> Fact<T> {
        Fact { place: place.into(), reading: Reading::Value(value) }
    }

    /// Looked for, and not there.
    pub fn absent(place: impl Into<String>) -> Fact<T> {
        Fact { place: place.into(), reading: Reading::Absent }
    }

    /// Not known, and why.
    pub fn unreadable(place: impl Into<String>, why: impl Into<String>) -> Fact<T> {
        Fact { place: place.into(), reading: Reading::Unreadable(why.into()) }
    }

    /// The value, if it was read.
    pub fn get(&self) -> Option<&T> {
        match &self.reading {
            Reading::Value(value) => Some(value),
            Reading::Absent | Reading::Unreadable(_) | Reading::NotUnderstood(_) => None,
        }
    }

    /// Known not to be there, which is an answer.
    pub fn is_absent(&self) -> bool {
        matches!(self.reading, Reading::Absent)
    }

    /// Not known, which is not an answer: nothing was read, or nothing that was understood.
    pub fn is_unknown(&self) -> bool {
        matches!(self.reading, Reading::Unreadable(_) | Reading::NotUnderstood(_))
    }

    /// The same place, another value. What cannot be converted was not understood.
    pub fn and_then<U>(self, convert: impl FnOnce(T) -> Result<U, String>) -> Fact<U> {
        let reading = self
            .reading
            .and_then(|value| convert(value).map_or_else(Reading::NotUnderstood, Reading::Value));
        Fact { place: self.place, reading }
    }

    /// The same place, another value that is always there.
    pub fn map<U>(self, convert: impl FnOnce(T) -> U) -> Fact<U> {
        let reading = self.reading.and_then(|value| Reading::Value(convert(value)));
        Fact { place: self.place, reading }
    }

    /// The same place and reason, the value by reference.
    pub fn as_ref(&self) -> Fact<&T> {
        let reading = match &self.reading {
            Reading::Value(value) => Reading::Value(value),
            Reading::Absent => Reading::Absent,
            Reading::Unreadable(why) => Reading::Unreadable(why.clone()),
            Reading::NotUnderstood(what) => Reading::NotUnderstood(what.clone()),
        };
        Fact { place: self.place.clone(), reading }
    }

    /// The fact as evidence; `show` renders the value.
    pub fn evidence<D: Display>(
        &self,
        what: impl Into<String>,
        show: impl FnOnce(&T) -> D,
    ) -> Evidence {
        let value = match &self.reading {
            Reading::Value(value) => show(value).to_string(),
            Reading::Absent => "not there".into(),
            Reading::Unreadable(why) => format!("not known: {why}"),
            Reading::NotUnderstood(what) => format!("not understood: {what}"),
        };
        Evidence::new(what, &self.place, value)
    }
}
