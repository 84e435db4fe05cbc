//! Kinds of what takes time, named as the figure of a cost profile that prices them.

use cpu::Step;
use cpu::decode::Cost;

/// What is counted by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Instructions of a class.
    Instruction(Cost),
    /// What a processor does beside or in place of its instructions.
    Step(Step),
}

impl Kind {
    /// All kinds: instructions first.
    pub fn all() -> impl Iterator<Item = Self> {
        let instructions = Cost::ALL.into_iter().map(Self::Instruction);
        instructions.chain(Step::ALL.into_iter().map(Self::Step))
    }

    /// The kind of that name: a section and a figure, such as `world_switch.exit`.
    pub fn named(name: &str) -> Option<Self> {
        let (section, figure) = name.split_once('.')?;
        Self::all().find(|kind| kind.figure() == (section, figure))
    }

    /// The section and the figure of a profile that say what one of the kind takes; of steps that
    /// are made within an instruction, what they take beyond it.
    pub const fn figure(self) -> (&'static str, &'static str) {
        match self {
            Self::Instruction(class) => of_class(class),
            Self::Step(step) => of_step(step),
        }
    }
}

const fn of_class(class: Cost) -> (&'static str, &'static str) {
    let figure = match class {
        Cost::Simple => "simple",
        Cost::Load => "load",
        Cost::Store => "store",
        Cost::Branch => "branch",
        Cost::Multiply => "multiply",
        Cost::Divide => "divide",
        Cost::Locked => "locked",
        Cost::Vector => "vector",
        Cost::FloatSlow => "float_slow",
        Cost::StringSetup => "string_setup",
        Cost::Fence => "fence",
        Cost::LoadFence => "load_fence",
        Cost::Pause => "pause",
        Cost::System => "system",
        Cost::Serializing => "serializing",
        Cost::TimeStamp => "time_stamp",
        Cost::MispredictedReturn => "mispredicted_return",
        Cost::Port => return ("device", "port"),
    };
    ("instruction", figure)
}

const fn of_step(step: Step) -> (&'static str, &'static str) {
    match step {
        Step::DeviceRead => ("device", "read"),
        Step::DeviceWrite => ("device", "write"),
        Step::ApicRead => ("apic", "mmio_read"),
        Step::ApicWrite => ("apic", "mmio_write"),
        Step::ApicMsrRead => ("apic", "msr_read"),
        Step::ApicMsrWrite => ("apic", "msr_write"),
        Step::ApicCommand => ("apic", "msr_command"),
        Step::ApicEndOfInterrupt => ("apic", "msr_end_of_interrupt"),
        Step::EventDelivery => ("event", "delivery"),
        Step::EventReturn => ("event", "iret"),
        Step::Entry => ("world_switch", "entry"),
        Step::Exit => ("world_switch", "exit"),
        Step::StateMove => ("world_switch", "state_move"),
        Step::AvicSend => ("avic", "send"),
        Step::AvicDeliver => ("avic", "deliver"),
        Step::AvicRead => ("avic", "read"),
        Step::AvicWrite => ("avic", "write"),
        Step::Doorbell => ("avic", "doorbell"),
        Step::ApicvSend => ("apicv", "send"),
        Step::ApicvPosted => ("apicv", "posted"),
        Step::ApicvDeliver => ("apicv", "deliver"),
        Step::ApicvRead => ("apicv", "read"),
        Step::ApicvWrite => ("apicv", "write"),
        Step::UserSend => ("uintr", "send"),
        Step::UserNotification => ("uintr", "notification"),
        Step::UserDelivery => ("uintr", "delivery"),
        Step::UserReturn => ("uintr", "uiret"),
        Step::PredictionBarrier => ("mitigation", "prediction_barrier"),
        Step::SpeculationControl => ("mitigation", "speculation_control"),
        Step::BufferClear => ("mitigation", "buffer_clear"),
        Step::CacheFlush => ("mitigation", "cache_flush"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cost::CostProfile;

    #[test]
    fn the_figure_of_a_kind_changes_its_price_and_that_of_no_other_but_by_the_instruction_around() {
        for model in ["zen4", "sapphire-rapids"] {
            let profile = CostProfile::named(model).expect("a profile that comes with the board");
            let before = profile.prices_at(1_000_000_000);
            let is_there =
                |kind: &Kind| profile.figures().any(|(figure, _)| figure == kind.figure());
            for kind in Kind::all().filter(is_there) {
                let (section, name) = kind.figure();
                let mut dearer = profile.clone();
                let value = profile.figures().find(|(figure, _)| *figure == (section, name));
                let value = value.map_or(0.0, |(_, figure)| figure.value);
                dearer.set(section, name, value + 1000.0).expect("a figure of it");
                let after = dearer.prices_at(1_000_000_000);
                for other in Kind::all() {
                    let is_dearer = after.of(other) > before.of(other);
                    assert_eq!(is_dearer, other == kind, "{kind:?} {other:?}");
                }
                assert_eq!(Kind::named(&format!("{section}.{name}")), Some(kind));
            }
        }
    }
}
