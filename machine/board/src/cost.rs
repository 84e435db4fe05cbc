//! Cost profiles: what things take on a CPU model. Semantics hold none of these numbers.
//!
//! A profile is a data file; every figure has a source and is marked measured, published or
//! assumed. Instruction classes are in core cycles, messages in nanoseconds.

use crate::topology::Distance;
use arch::time::Picoseconds;
use cpu::CpuModel;
use cpu::cache::InstructionCosts;
use cpu::decode::Cost;
use cpu::svm::SvmCosts;
use serde::{Deserialize, Serialize};

/// Where a figure comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Basis {
    Measured,
    Published,
    Assumed,
}

/// A figure with its source.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Figure {
    pub value: f64,
    pub basis: Basis,
    pub source: String,
}

/// Core cycles per instruction class, throughput rather than latency.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InstructionFigures {
    pub simple: Figure,
    pub load: Figure,
    pub store: Figure,
    pub branch: Figure,
    pub multiply: Figure,
    pub divide: Figure,
    pub locked: Figure,
    pub vector: Figure,
    pub float_slow: Figure,
    pub string_setup: Figure,
    pub fence: Figure,
    pub pause: Figure,
    pub system: Figure,
    pub serializing: Figure,
    pub port: Figure,
    /// An access to a device's memory, beside the instruction that makes it.
    pub memory_mapped: Figure,
}

/// Nanoseconds from the write to a local APIC's ICR until the target takes the interrupt.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MessageFigures {
    pub itself: Figure,
    pub same_core: Figure,
    pub same_complex: Figure,
    pub same_die: Figure,
    pub same_socket: Figure,
    pub other_socket: Figure,
    /// From a device or an I/O APIC.
    pub device: Figure,
}

/// What hardware virtualization takes, in core cycles.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct VirtualizationFigures {
    pub entry: Figure,
    pub exit: Figure,
    pub avic_send: Figure,
    pub avic_deliver: Figure,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CostProfile {
    pub name: String,
    pub instruction: InstructionFigures,
    pub message: MessageFigures,
    pub virtualization: VirtualizationFigures,
}

#[derive(Debug, thiserror::Error)]
pub enum CostError {
    #[error("cost profile: {0}")]
    Syntax(String),
    #[error("cost profile {profile}: {figure} is {value}, must be at least 0 and finite")]
    Value { profile: String, figure: &'static str, value: f64 },
}

const FILES: &[(&str, &str)] =
    &[("zen4", include_str!("../costs/zen4.toml")), ("zen2", include_str!("../costs/zen2.toml"))];

impl CostProfile {
    /// The profile of a CPU model; models without their own share that of Zen 4.
    pub fn of_model(name: &str) -> Result<Self, CostError> {
        let own = FILES.iter().find(|(known, _)| *known == name);
        let (_, text) = own.unwrap_or(&FILES[0]);
        Self::parse(text)
    }

    pub fn parse(text: &str) -> Result<Self, CostError> {
        let profile: Self = toml::from_str(text).map_err(|e| CostError::Syntax(e.to_string()))?;
        for (figure, number) in profile.figures() {
            if !number.value.is_finite() || number.value < 0.0 {
                return Err(CostError::Value {
                    profile: profile.name.clone(),
                    figure,
                    value: number.value,
                });
            }
        }
        Ok(profile)
    }

    /// All figures by name, in the order of [`Cost`] and then of distance.
    pub fn figures(&self) -> [(&'static str, &Figure); 27] {
        let i = &self.instruction;
        let m = &self.message;
        let v = &self.virtualization;
        [
            ("simple", &i.simple),
            ("load", &i.load),
            ("store", &i.store),
            ("branch", &i.branch),
            ("multiply", &i.multiply),
            ("divide", &i.divide),
            ("locked", &i.locked),
            ("vector", &i.vector),
            ("float_slow", &i.float_slow),
            ("string_setup", &i.string_setup),
            ("fence", &i.fence),
            ("pause", &i.pause),
            ("system", &i.system),
            ("serializing", &i.serializing),
            ("port", &i.port),
            ("memory_mapped", &i.memory_mapped),
            ("itself", &m.itself),
            ("same_core", &m.same_core),
            ("same_complex", &m.same_complex),
            ("same_die", &m.same_die),
            ("same_socket", &m.same_socket),
            ("other_socket", &m.other_socket),
            ("device", &m.device),
            ("entry", &v.entry),
            ("exit", &v.exit),
            ("avic_send", &v.avic_send),
            ("avic_deliver", &v.avic_deliver),
        ]
    }

    /// Picoseconds per instruction class at the model's core clock.
    pub fn instruction_costs(&self, model: &CpuModel) -> InstructionCosts {
        let picoseconds_per_cycle = 1e12 / model.core_hertz() as f64;
        let figures = self.figures();
        InstructionCosts(std::array::from_fn(|class| {
            let cycles = figures[class].1.value;
            (cycles * picoseconds_per_cycle).round().clamp(1.0, u32::MAX as f64) as u32
        }))
    }

    /// How long a message travels.
    pub fn message(&self, distance: Distance) -> Picoseconds {
        let figure = match distance {
            Distance::Itself => &self.message.itself,
            Distance::SameCore => &self.message.same_core,
            Distance::SameComplex => &self.message.same_complex,
            Distance::SameDie => &self.message.same_die,
            Distance::SameSocket => &self.message.same_socket,
            Distance::OtherSocket => &self.message.other_socket,
        };
        nanoseconds(figure)
    }

    /// What the steps of SVM take at the model's core clock.
    pub fn svm_costs(&self, model: &CpuModel) -> SvmCosts {
        let cycles = |figure: &Figure| {
            Picoseconds((figure.value * 1e12 / model.core_hertz() as f64).round() as u64)
        };
        SvmCosts {
            entry: cycles(&self.virtualization.entry),
            exit: cycles(&self.virtualization.exit),
            avic_send: cycles(&self.virtualization.avic_send),
            avic_deliver: cycles(&self.virtualization.avic_deliver),
        }
    }

    pub fn device_message(&self) -> Picoseconds {
        nanoseconds(&self.message.device)
    }

    /// The shortest time in which one processor can affect another: how far their clocks may be
    /// apart.
    pub fn shortest_message(&self) -> Picoseconds {
        use Distance::*;
        let distances = [SameCore, SameComplex, SameDie, SameSocket, OtherSocket];
        let shortest = distances.into_iter().map(|distance| self.message(distance)).min();
        shortest.unwrap_or(Picoseconds::ZERO).max(Picoseconds(1))
    }
}

fn nanoseconds(figure: &Figure) -> Picoseconds {
    Picoseconds((figure.value * 1000.0).min(u64::MAX as f64) as u64)
}

const _: () = assert!(Cost::COUNT == 15);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_profile_parses_and_names_a_source_for_every_figure() {
        for (name, _) in FILES {
            let profile = CostProfile::of_model(name).expect(name);
            assert_eq!(profile.name, *name);
            for (figure, number) in profile.figures() {
                assert!(!number.source.is_empty(), "{name} {figure}");
            }
        }
    }
}
