//! Which logical processors share a core, a cache complex, a die and a socket.
//!
//! APIC identifiers are packed fields, one per level, each as wide as its count needs: CPUID
//! leaves Bh, 1Fh, 8000_001Eh and 8000_0026h describe the same widths. [SDM3 "Hierarchical
//! Mapping of Shared Resources"] [APM3 "Extended Topology Enumeration"]

mod text;

pub use text::TopologyError;

use arch::identity::{ApicId, CpuIndex};
use serde::{Deserialize, Serialize};

/// More processors than the board can schedule.
pub const MOST_CPUS: u32 = 1024;

/// How many of each level the level above holds; no field is zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Topology {
    sockets: u16,
    dies: u16,
    complexes: u16,
    cores: u16,
    threads: u16,
}

/// The levels of the hierarchy, innermost first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Level {
    /// A logical processor.
    Thread,
    /// Threads that share execution units.
    Core,
    /// Cores that share a third-level cache.
    #[doc(alias = "CCX")]
    Complex,
    /// Complexes on one piece of silicon, a node of AMD's.
    Die,
    /// A package; a node of memory.
    Socket,
}

/// The coordinates of one logical processor, each relative to the level above.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Location {
    /// From 0.
    pub socket: u16,
    /// In its socket.
    pub die: u16,
    /// In its die.
    pub complex: u16,
    /// In its complex.
    pub core: u16,
    /// In its core.
    pub thread: u16,
}

/// How far a message between two processors travels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Distance {
    /// Sender and target are one processor.
    Itself,
    /// Two threads of a core.
    SameCore,
    /// Two cores that share a third-level cache.
    SameComplex,
    /// Two complexes of a die.
    SameDie,
    /// Two dies of a socket.
    SameSocket,
    /// Over the link between sockets.
    OtherSocket,
}

impl Distance {
    /// Kinds, for tables by kind.
    pub const COUNT: usize = Self::OtherSocket as usize + 1;
}

/// A topology with a level of zero or with too many processors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "topology of {sockets} sockets x {dies} dies x {complexes} complexes x {cores} cores x \
     {threads} threads, must have at least 1 of each and at most {MOST_CPUS} processors"
)]
pub struct BadTopology {
    sockets: u16,
    dies: u16,
    complexes: u16,
    cores: u16,
    threads: u16,
}

impl Topology {
    /// Sockets, dies per socket, complexes per die, cores per complex, threads per core.
    pub fn new(
        sockets: u16,
        dies: u16,
        complexes: u16,
        cores: u16,
        threads: u16,
    ) -> Result<Self, BadTopology> {
        let count = [sockets, dies, complexes, cores, threads]
            .into_iter()
            .try_fold(1u32, |product, count| product.checked_mul(count.into()));
        match count {
            Some(1..=MOST_CPUS) => Ok(Self { sockets, dies, complexes, cores, threads }),
            _ => Err(BadTopology { sockets, dies, complexes, cores, threads }),
        }
    }

    /// One socket with `cores` cores in one complex, without threads.
    pub fn of_cores(cores: u16) -> Result<Self, BadTopology> {
        Self::new(1, 1, 1, cores, 1)
    }

    /// Logical processors of the machine.
    pub fn cpu_count(&self) -> u16 {
        self.sockets * self.cpus_per(Level::Socket)
    }

    /// Sockets of the machine.
    pub fn sockets(&self) -> u16 {
        self.sockets
    }

    /// How many of `level` the level above it holds.
    pub fn count(&self, level: Level) -> u16 {
        match level {
            Level::Thread => self.threads,
            Level::Core => self.cores,
            Level::Complex => self.complexes,
            Level::Die => self.dies,
            Level::Socket => self.sockets,
        }
    }

    /// Logical processors in one of `level`.
    pub fn cpus_per(&self, level: Level) -> u16 {
        let inner = [Level::Thread, Level::Core, Level::Complex, Level::Die];
        inner
            .into_iter()
            .take_while(|inner| *inner < level)
            .map(|inner| self.count(inner))
            .product()
    }

    /// Every processor, by index.
    pub fn cpus(&self) -> impl Iterator<Item = CpuIndex> + use<> {
        (0..self.cpu_count()).map(CpuIndex)
    }

    /// The bits of an APIC identifier that tell apart what lies inside one of `level`: the number
    /// to shift by to get that level's own identifier.
    pub fn shift(&self, level: Level) -> u32 {
        let inner = [Level::Thread, Level::Core, Level::Complex, Level::Die];
        inner
            .into_iter()
            .take_while(|inner| *inner < level)
            .map(|inner| width(self.count(inner)))
            .sum()
    }

    /// Where a processor sits: indices count threads first, then cores, and sockets last.
    pub fn location(&self, cpu: CpuIndex) -> Location {
        let part = |level| cpu.0 / self.cpus_per(level) % self.count(level);
        Location {
            socket: part(Level::Socket),
            die: part(Level::Die),
            complex: part(Level::Complex),
            core: part(Level::Core),
            thread: part(Level::Thread),
        }
    }

    /// A processor's identifier: its coordinates, each in a field of its own.
    pub fn apic_id(&self, cpu: CpuIndex) -> ApicId {
        let at = self.location(cpu);
        let fields = [
            (Level::Thread, at.thread),
            (Level::Core, at.core),
            (Level::Complex, at.complex),
            (Level::Die, at.die),
            (Level::Socket, at.socket),
        ];
        ApicId(fields.into_iter().map(|(level, n)| u32::from(n) << self.shift(level)).sum())
    }

    /// The processor with an APIC identifier, where there is one.
    pub fn cpu(&self, apic_id: ApicId) -> Option<CpuIndex> {
        let levels = [Level::Thread, Level::Core, Level::Complex, Level::Die, Level::Socket];
        let mut index = 0;
        for level in levels {
            let shifted = apic_id.0.checked_shr(self.shift(level)).unwrap_or(0);
            let bits = if level == Level::Socket { 32 } else { width(self.count(level)) };
            let n = if bits == 32 { shifted } else { shifted & ((1 << bits) - 1) };
            if n >= u32::from(self.count(level)) {
                return None;
            }
            index += n * u32::from(self.cpus_per(level));
        }
        Some(CpuIndex(index as u16))
    }

    /// The lowest level that two processors share.
    pub fn distance(&self, from: CpuIndex, to: CpuIndex) -> Distance {
        if from == to {
            return Distance::Itself;
        }
        let (a, b) = (self.location(from), self.location(to));
        if a.socket != b.socket {
            Distance::OtherSocket
        } else if a.die != b.die {
            Distance::SameSocket
        } else if a.complex != b.complex {
            Distance::SameDie
        } else if a.core != b.core {
            Distance::SameComplex
        } else {
            Distance::SameCore
        }
    }
}

/// Bits that hold the values `0..count`.
fn width(count: u16) -> u32 {
    u32::from(count).next_power_of_two().trailing_zeros()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHAPES: &[(u16, u16, u16, u16, u16)] = &[
        (1, 1, 1, 1, 1),
        (1, 1, 1, 8, 1),
        (1, 1, 2, 6, 2),
        (2, 1, 12, 8, 2),
        (2, 3, 3, 5, 2),
        (16, 4, 2, 4, 2),
        (1, 1, 1, 1024, 1),
    ];

    fn shapes() -> impl Iterator<Item = Topology> {
        SHAPES.iter().map(|&(s, d, x, c, t)| Topology::new(s, d, x, c, t).unwrap())
    }

    #[test]
    fn apic_identifiers_are_unique_rising_and_reversible() {
        for topology in shapes() {
            let ids: Vec<_> = topology.cpus().map(|cpu| topology.apic_id(cpu)).collect();
            assert!(ids.is_sorted_by(|a, b| a < b), "{topology:?}");
            for (cpu, id) in topology.cpus().zip(&ids) {
                assert_eq!(topology.cpu(*id), Some(cpu), "{topology:?}");
            }
            let last = ids.last().unwrap().0;
            let holes = (0..last).filter(|id| topology.cpu(ApicId(*id)).is_none()).count();
            assert_eq!(holes as u32 + u32::from(topology.cpu_count()), last + 1);
            assert_eq!(topology.cpu(ApicId(last + 1)), None);
            assert_eq!(topology.cpu(ApicId(u32::MAX)), None);
        }
    }

    #[test]
    fn processors_of_one_level_share_the_identifier_above_its_shift() {
        for topology in shapes() {
            for level in [Level::Core, Level::Complex, Level::Die, Level::Socket] {
                for cpu in topology.cpus() {
                    let group = cpu.0 / topology.cpus_per(level);
                    let first = CpuIndex(group * topology.cpus_per(level));
                    assert_eq!(
                        topology.apic_id(cpu).0 >> topology.shift(level),
                        topology.apic_id(first).0 >> topology.shift(level),
                    );
                }
            }
        }
    }

    #[test]
    fn distance_grows_with_the_level_that_differs() {
        let topology = Topology::new(2, 2, 2, 2, 2).unwrap();
        let rows = [
            (0, Distance::Itself),
            (1, Distance::SameCore),
            (2, Distance::SameComplex),
            (4, Distance::SameDie),
            (8, Distance::SameSocket),
            (16, Distance::OtherSocket),
        ];
        for (cpu, distance) in rows {
            assert_eq!(topology.distance(CpuIndex(0), CpuIndex(cpu)), distance);
            assert_eq!(topology.distance(CpuIndex(cpu), CpuIndex(0)), distance);
        }
    }

    #[test]
    fn empty_levels_and_too_many_processors_are_refused() {
        assert!(Topology::new(0, 1, 1, 1, 1).is_err());
        assert!(Topology::new(1, 1, 1, 1, 0).is_err());
        assert!(Topology::new(2, 1, 1, 1024, 1).is_err());
        assert!(Topology::new(65535, 65535, 65535, 65535, 65535).is_err());
    }
}
