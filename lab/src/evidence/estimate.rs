//! A value with the interval in which it lies by the seeds that it was found from.

use crate::comparison::Spread;

/// A value, or what follows from several.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Estimate {
    pub(super) value: f64,
    /// None where no part of it was found from several seeds.
    pub(super) interval: Option<(f64, f64)>,
}

impl Estimate {
    pub(super) fn exact(value: f64) -> Self {
        Self { value, interval: None }
    }

    pub(super) fn of(value: f64, spread: Option<Spread>) -> Self {
        Self { value, interval: spread.map(|spread| (spread.low, spread.high)) }
    }

    /// By a function that does not turn round within the interval.
    pub(super) fn map(self, function: impl Fn(f64) -> f64) -> Self {
        let sorted = |(low, high): (f64, f64)| {
            let (low, high) = (function(low), function(high));
            (low.min(high), low.max(high))
        };
        Self { value: function(self.value), interval: self.interval.map(sorted) }
    }

    /// From two by a function that rises or falls with each: the interval has all that can be, as
    /// if both were off at once, since nothing says how they hang together.
    pub(super) fn with(self, other: Self, function: impl Fn(f64, f64) -> f64) -> Self {
        let value = function(self.value, other.value);
        if self.interval.is_none() && other.interval.is_none() {
            return Self::exact(value);
        }
        let ends = |one: Self| one.interval.unwrap_or((one.value, one.value));
        let (a, b) = (ends(self), ends(other));
        let corners = [(a.0, b.0), (a.0, b.1), (a.1, b.0), (a.1, b.1)];
        let corners = corners.map(|(first, second)| function(first, second));
        let low = corners.iter().copied().fold(f64::INFINITY, f64::min);
        let high = corners.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        Self { value, interval: Some((low, high)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_follows_from_two_lies_between_the_outermost_corners() {
        let one = Estimate { value: 10.0, interval: Some((9.0, 12.0)) };
        let other = Estimate { value: 5.0, interval: Some((4.0, 6.0)) };
        let difference = one.with(other, |a, b| a - b);
        assert_eq!(difference, Estimate { value: 5.0, interval: Some((3.0, 8.0)) });
        let ratio = one.with(Estimate::exact(2.0), |a, b| a / b);
        assert_eq!(ratio, Estimate { value: 5.0, interval: Some((4.5, 6.0)) });
        assert_eq!(one.map(|value| -value).interval, Some((-12.0, -9.0)));
        assert_eq!(Estimate::exact(1.0).with(Estimate::exact(1.0), |a, b| a + b).interval, None);
    }
}
