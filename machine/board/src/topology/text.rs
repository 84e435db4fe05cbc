//! A topology as people write it: `sockets=2,dies=1,ccx=2,cores=4,threads=2`, levels that are not
//! named being one.

use super::{BadTopology, Topology};
use std::fmt::{Display, Formatter};
use std::str::FromStr;

/// The names of the levels, outermost first.
const LEVELS: [&str; 5] = ["sockets", "dies", "ccx", "cores", "threads"];

/// Why a text says no topology.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TopologyError {
    /// A part that is not a level with a number.
    #[error("{0:?} must be LEVEL=NUMBER, such as sockets=2; levels are {list}", list = LEVELS.join(", "))]
    Part(String),
    /// A level has two numbers.
    #[error("{0} has two numbers, must have one")]
    Twice(&'static str),
    /// No machine is so.
    #[error(transparent)]
    Impossible(#[from] BadTopology),
}

impl FromStr for Topology {
    type Err = TopologyError;

    fn from_str(text: &str) -> Result<Self, TopologyError> {
        let mut counts = [None; LEVELS.len()];
        for part in text.split(',') {
            let (level, count) = level(part).ok_or_else(|| TopologyError::Part(part.to_owned()))?;
            if counts[level].replace(count).is_some() {
                return Err(TopologyError::Twice(LEVELS[level]));
            }
        }
        let [sockets, dies, complexes, cores, threads] = counts.map(|count| count.unwrap_or(1));
        Ok(Self::new(sockets, dies, complexes, cores, threads)?)
    }
}

/// Which level, by its place among the names, and how many there are.
fn level(part: &str) -> Option<(usize, u16)> {
    let (name, count) = part.split_once('=')?;
    let level = LEVELS.iter().position(|level| *level == name)?;
    Some((level, count.parse().ok()?))
}

impl Display for Topology {
    /// Every level, so that it reads back.
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        let counts = [self.sockets, self.dies, self.complexes, self.cores, self.threads];
        let parts = LEVELS.iter().zip(counts).map(|(level, count)| format!("{level}={count}"));
        f.write_str(&parts.collect::<Vec<_>>().join(","))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_level_that_is_not_named_is_one_and_what_is_shown_reads_back() {
        for (text, shape) in [
            ("sockets=2", (2, 1, 1, 1, 1)),
            ("threads=2,cores=4", (1, 1, 1, 4, 2)),
            ("sockets=2,dies=3,ccx=2,cores=5,threads=2", (2, 3, 2, 5, 2)),
        ] {
            let (sockets, dies, complexes, cores, threads) = shape;
            let expected = Topology::new(sockets, dies, complexes, cores, threads).unwrap();
            assert_eq!(text.parse(), Ok(expected), "{text}");
            assert_eq!(expected.to_string().parse(), Ok(expected), "{text}");
        }
    }

    #[test]
    fn what_is_no_shape_is_refused_with_what_would_be_one() {
        for (text, why) in [
            ("", "levels are sockets, dies, ccx, cores, threads"),
            ("4", "\"4\" must be LEVEL=NUMBER"),
            ("sockets=two", "such as sockets=2"),
            ("sockets=-1", "must be LEVEL=NUMBER"),
            ("sockets=65536", "must be LEVEL=NUMBER"),
            ("nodes=2", "levels are sockets"),
            ("sockets=2,", "\"\" must be"),
            ("cores=2,cores=2", "cores has two numbers"),
            ("cores=0", "at least 1 of each"),
            ("sockets=2,cores=1024", "at most 1024 processors"),
        ] {
            let error = text.parse::<Topology>().expect_err(text).to_string();
            assert!(error.contains(why), "{text}: {error}");
        }
    }
}
