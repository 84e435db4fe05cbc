//! Cost profiles: what things take on a CPU model. Semantics hold none of these numbers.
//!
//! A profile is a data file in `machine/board/costs`; every figure has a source and says what it
//! rests on. Instruction classes, world switches and mitigations, which a core does by itself, are
//! in core cycles; everything else is in nanoseconds, which carry over between parts of different
//! clocks. A profile may inherit figures by naming another; then it says so, and its
//! [`Provenance`] counts them apart.

mod draw;
mod file;
mod fit;
mod provenance;
mod range;

pub use file::CostError;
pub use fit::{Beside, Fit, Recording};
pub use provenance::Provenance;
pub use range::{Entry, Range};

use crate::topology::Distance;
use arch::time::Picoseconds;
use cpu::decode::Cost;
use cpu::operation::InstructionCosts;
use cpu::{CpuModel, Step, StepCosts};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// What a figure rests on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Basis {
    /// By us, on a part that the profile is about.
    Measured,
    /// By others, of such a part.
    Published,
    /// Computed from published figures as the source shows.
    Derived,
    /// Chosen so that the cells of `fitted_to` come out.
    Fitted,
    /// By us, without evidence; the source says why so.
    Assumed,
}

/// A figure with its source.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Figure {
    /// The likely value, in the unit of its section.
    pub value: f64,
    /// The least that it can be by its source; without it what [`Range`] says of its basis.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub low: Option<f64>,
    /// And the most.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub high: Option<f64>,
    /// How far to trust it.
    pub basis: Basis,
    /// Where it is from, in words.
    pub source: String,
    /// Published results that served to choose the value, and which it therefore does not predict:
    /// workload, APIC mode, measure, setting, as in the lab's list of published figures.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub fitted_to: Vec<String>,
}

macro_rules! sections {
    ($($(#[$section_doc:meta])* $section:ident $name:literal {
        $($(#[$doc:meta])* $figure:ident),* $(,)?
    })*) => {
        $(
            $(#[$section_doc])*
            #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
            #[serde(deny_unknown_fields)]
            pub struct $section {
                $($(#[$doc])* pub $figure: Figure),*
            }

            impl $section {
                /// (section, figure) names beside the figures, in the order of the fields.
                fn figures(&self) -> impl Iterator<Item = ((&'static str, &'static str), &Figure)> {
                    [$((($name, stringify!($figure)), &self.$figure)),*].into_iter()
                }

                fn figure_mut(&mut self, name: &str) -> Option<&mut Figure> {
                    match name {
                        $(stringify!($figure) => Some(&mut self.$figure),)*
                        _ => None,
                    }
                }
            }
        )*
    };
}

/// Sections of a profile whose figures are core cycles, so that they follow the clock; those of the
/// others are nanoseconds.
pub const IN_CORE_CYCLES: [&str; 3] = ["instruction", "world_switch", "mitigation"];

sections! {
    /// Core cycles per instruction class, throughput rather than latency; in the order of [`Cost`],
    /// which ends with ports.
    InstructionFigures "instruction" {
        /// Registers alone, in the integer pipeline.
        simple,
        /// A memory operand is read.
        load,
        /// A memory operand is written.
        store,
        /// Branches, calls and returns.
        branch,
        /// MUL and IMUL.
        multiply,
        /// DIV and IDIV.
        divide,
        /// LOCK, and XCHG with memory.
        locked,
        /// SSE, MMX and the quick ones of x87.
        vector,
        /// Divisions, square roots and the like.
        float_slow,
        /// A string instruction, beside its elements.
        string_setup,
        /// MFENCE and SFENCE.
        fence,
        /// LFENCE.
        load_fence,
        /// PAUSE.
        pause,
        /// Extended state saved or loaded, and what has no class of its own.
        system,
        /// CPUID, MSRs, control registers and their like.
        serializing,
        /// RDTSC and RDTSCP.
        time_stamp,
        /// A near return that the return predictor gets wrong: those of retpolines and of SRSO's
        /// safe return.
        mispredicted_return,
    }
    /// Nanoseconds that events take beside the instructions around them.
    EventFigures "event" {
        /// Through the interrupt table to the handler's first instruction.
        delivery,
        /// IRET.
        iret,
    }
    /// Nanoseconds of accesses to devices.
    DeviceFigures "device" {
        /// IN or OUT.
        port,
        /// A read of device memory, which the processor waits for.
        read,
        /// Writes are posted: how long the processor is held up.
        write,
    }
    /// Nanoseconds of accesses to the processor's own local APIC, the instruction included.
    ApicFigures "apic" {
        /// A read of the APIC page.
        mmio_read,
        /// A write of the APIC page.
        mmio_write,
        /// RDMSR in x2APIC mode.
        msr_read,
        /// WRMSR in x2APIC mode.
        msr_write,
        /// WRMSR of ICR or SELF IPI.
        msr_command,
        /// WRMSR of EOI.
        msr_end_of_interrupt,
    }
    /// Nanoseconds from the write to a local APIC's ICR until the target's APIC has the message.
    MessageFigures "message" {
        /// To the sender.
        itself,
        /// To the other thread of a core.
        same_core,
        /// To a core that shares the third-level cache.
        same_complex,
        /// To another complex of the die.
        same_die,
        /// To another die of the socket.
        same_socket,
        /// Over the link between sockets.
        other_socket,
        /// From a device or an I/O APIC.
        device,
    }
    /// Core cycles of the switches between host and guest, which are microcode; the instruction is
    /// contained in them.
    WorldSwitchFigures "world_switch" {
        /// From VMRUN to the guest's first instruction.
        entry,
        /// From the guest's last instruction to the host's first.
        exit,
        /// VMLOAD or VMSAVE.
        state_move,
    }
    /// Core cycles of what kernels do against speculation beside what other instructions cost.
    MitigationFigures "mitigation" {
        /// A write of the indirect-branch prediction barrier.
        prediction_barrier,
        /// A write of SPEC_CTRL, beyond the instruction's class.
        speculation_control,
        /// VERW where it overwrites the buffers that can be sampled, likewise.
        buffer_clear,
        /// A write-back of the first-level data cache, likewise.
        cache_flush,
    }
    /// Nanoseconds of AVIC's doings.
    AvicFigures "avic" {
        /// The sender's part of an accelerated IPI, for each target.
        send,
        /// At the target, before the event is delivered through the interrupt table.
        deliver,
        /// A read of a register.
        read,
        /// A write of a register, EOI above all.
        write,
        /// The host's write of the doorbell.
        doorbell,
    }
    /// Nanoseconds of APICv's doings.
    ApicvFigures "apicv" {
        /// The sender's part of a virtualized IPI, before its notification leaves.
        send,
        /// Posted-interrupt processing at the target, its EOI aside.
        posted,
        /// Virtual-interrupt delivery, before the event goes through the interrupt table.
        deliver,
        /// A virtualized read of a register.
        read,
        /// A virtualized write of a register, EOI above all.
        write,
    }
    /// Nanoseconds of user interrupts' doings.
    UintrFigures "uintr" {
        /// SENDUIPI: the target's entry, the descriptor, and the command to the own local APIC.
        send,
        /// Processing of a notification, its EOI aside.
        notification,
        /// To the handler's first instruction.
        delivery,
        /// UIRET.
        uiret,
    }
}

/// All figures of one CPU model's profile.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CostProfile {
    /// As in the name of its file.
    pub name: String,
    /// The profile that figures come from which this one does not have.
    pub inherits: Option<String>,
    /// Instructions, by class.
    pub instruction: InstructionFigures,
    /// Exceptions and interrupts.
    pub event: EventFigures,
    /// Accesses to devices.
    pub device: DeviceFigures,
    /// Accesses to the own local APIC.
    pub apic: ApicFigures,
    /// Interrupts on their way.
    pub message: MessageFigures,
    /// Between host and guest, for either vendor.
    pub world_switch: WorldSwitchFigures,
    /// Mitigations of speculative execution.
    pub mitigation: MitigationFigures,
    /// AVIC, of AMD's parts.
    #[serde(default)]
    pub avic: Option<AvicFigures>,
    /// APICv, of Intel's parts.
    #[serde(default)]
    pub apicv: Option<ApicvFigures>,
    /// User interrupts, of those of them that have any.
    #[serde(default)]
    pub uintr: Option<UintrFigures>,
    /// What is known of several figures together, where they were fitted to a host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fit: Option<Fit>,
    /// (section, figure) names of what is inherited.
    #[serde(skip)]
    inherited: BTreeSet<(String, String)>,
    /// The seed by which the figures were drawn from their ranges.
    #[serde(skip)]
    draw: Option<u64>,
}

impl CostProfile {
    /// The profile of that name; a CPU model says which is its.
    pub fn named(name: &str) -> Result<Self, CostError> {
        file::named(name)
    }

    /// A profile of the caller's, in the form of those in `machine/board/costs`: what it does not
    /// have is inherited from the one that it names. `place` is its name for messages.
    pub fn parse(place: &str, text: &str) -> Result<Self, CostError> {
        file::parse(place, text)
    }

    /// In the same form, with all that was inherited and all ranges: what `parse` reads back.
    pub fn to_toml(&self) -> String {
        let mut whole = self.with_own_ranges();
        whole.inherits = None;
        // Its fields are texts and numbers by name.
        toml::to_string(&whole).unwrap_or_default()
    }

    /// All figures, named by section and figure.
    pub fn figures(&self) -> impl Iterator<Item = ((&'static str, &'static str), &Figure)> {
        let machine = self.instruction.figures().chain(self.event.figures());
        let around = self.device.figures().chain(self.apic.figures()).chain(self.message.figures());
        let avic = self.avic.iter().flat_map(AvicFigures::figures);
        let apicv = self.apicv.iter().flat_map(ApicvFigures::figures);
        let virtual_apics = avic.chain(apicv);
        let uintr = self.uintr.iter().flat_map(UintrFigures::figures);
        let switches = self.world_switch.figures().chain(self.mitigation.figures());
        machine.chain(around).chain(switches).chain(virtual_apics).chain(uintr)
    }

    fn is_inherited(&self, section: &str, name: &str) -> bool {
        // Few of them, and seldom asked for.
        self.inherited.iter().any(|one| (one.0.as_str(), one.1.as_str()) == (section, name))
    }

    /// A figure by its names.
    fn figure_mut(&mut self, section: &str, name: &str) -> Option<&mut Figure> {
        match section {
            "instruction" => self.instruction.figure_mut(name),
            "event" => self.event.figure_mut(name),
            "device" => self.device.figure_mut(name),
            "apic" => self.apic.figure_mut(name),
            "message" => self.message.figure_mut(name),
            "world_switch" => self.world_switch.figure_mut(name),
            "mitigation" => self.mitigation.figure_mut(name),
            "avic" => self.avic.as_mut()?.figure_mut(name),
            "apicv" => self.apicv.as_mut()?.figure_mut(name),
            "uintr" => self.uintr.as_mut()?.figure_mut(name),
            _ => None,
        }
    }

    /// Picoseconds per instruction class at the model's core clock.
    pub fn instruction_costs(&self, model: &CpuModel) -> InstructionCosts {
        self.instruction_costs_at(model.core_hertz())
    }

    /// The same at another clock.
    pub fn instruction_costs_at(&self, hertz: u64) -> InstructionCosts {
        let classes = self.instruction.figures().map(|(_, figure)| cycles(figure, hertz));
        let mut all = classes.chain([nanoseconds(&self.device.port)]);
        InstructionCosts(std::array::from_fn(|_| {
            let time = all.next().unwrap_or(Picoseconds::ZERO);
            time.0.clamp(1, u32::MAX.into()) as u32
        }))
    }

    /// How long a message travels.
    pub fn message(&self, distance: Distance) -> Picoseconds {
        nanoseconds(match distance {
            Distance::Itself => &self.message.itself,
            Distance::SameCore => &self.message.same_core,
            Distance::SameComplex => &self.message.same_complex,
            Distance::SameDie => &self.message.same_die,
            Distance::SameSocket => &self.message.same_socket,
            Distance::OtherSocket => &self.message.other_socket,
        })
    }

    /// What steps take.
    pub fn step_costs(&self, model: &CpuModel) -> StepCosts {
        self.step_costs_at(model.core_hertz())
    }

    /// The same at another clock of the core.
    pub fn step_costs_at(&self, hertz: u64) -> StepCosts {
        // RDMSR and WRMSR have a class of their own already.
        let instruction = cycles(&self.instruction.serializing, hertz);
        let beyond = |figure| nanoseconds(figure).saturating_sub(instruction);
        let core = |figure| cycles(figure, hertz);
        // VMRUN, VMRESUME, VMLOAD and VMSAVE are of this class.
        let system = core(&self.instruction.system);
        let avic = |of: fn(&AvicFigures) -> &Figure| {
            self.avic.as_ref().map_or(Picoseconds::ZERO, |own| nanoseconds(of(own)))
        };
        let apicv = |of: fn(&ApicvFigures) -> &Figure| {
            self.apicv.as_ref().map_or(Picoseconds::ZERO, |own| nanoseconds(of(own)))
        };
        let uintr = |of: fn(&UintrFigures) -> &Figure| {
            self.uintr.as_ref().map_or(Picoseconds::ZERO, |own| nanoseconds(of(own)))
        };
        StepCosts::new(|step| match step {
            Step::DeviceRead => nanoseconds(&self.device.read),
            Step::DeviceWrite => nanoseconds(&self.device.write),
            Step::ApicRead => nanoseconds(&self.apic.mmio_read),
            Step::ApicWrite => nanoseconds(&self.apic.mmio_write),
            Step::ApicMsrRead => beyond(&self.apic.msr_read),
            Step::ApicMsrWrite => beyond(&self.apic.msr_write),
            Step::ApicCommand => beyond(&self.apic.msr_command),
            Step::ApicEndOfInterrupt => beyond(&self.apic.msr_end_of_interrupt),
            Step::EventDelivery => nanoseconds(&self.event.delivery),
            Step::EventReturn => nanoseconds(&self.event.iret),
            Step::Entry => core(&self.world_switch.entry).saturating_sub(system),
            Step::Exit => core(&self.world_switch.exit),
            Step::StateMove => core(&self.world_switch.state_move).saturating_sub(system),
            Step::AvicSend => avic(|own| &own.send),
            Step::AvicDeliver => avic(|own| &own.deliver),
            Step::AvicRead => avic(|own| &own.read),
            Step::AvicWrite => avic(|own| &own.write),
            Step::Doorbell => avic(|own| &own.doorbell),
            Step::ApicvSend => apicv(|own| &own.send),
            Step::ApicvPosted => apicv(|own| &own.posted),
            Step::ApicvDeliver => apicv(|own| &own.deliver),
            Step::ApicvRead => apicv(|own| &own.read),
            Step::ApicvWrite => apicv(|own| &own.write),
            Step::UserSend => uintr(|own| &own.send),
            Step::UserNotification => uintr(|own| &own.notification),
            Step::UserDelivery => uintr(|own| &own.delivery),
            Step::UserReturn => uintr(|own| &own.uiret),
            Step::PredictionBarrier => core(&self.mitigation.prediction_barrier),
            Step::SpeculationControl => core(&self.mitigation.speculation_control),
            Step::BufferClear => core(&self.mitigation.buffer_clear),
            Step::CacheFlush => core(&self.mitigation.cache_flush),
        })
    }

    /// How long a message of a device or an I/O APIC travels.
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

fn cycles(figure: &Figure, hertz: u64) -> Picoseconds {
    Picoseconds((figure.value * 1e12 / hertz as f64).round() as u64)
}

// The classes of [`InstructionFigures`], and ports.
const _: () = assert!(Cost::COUNT == 18 && Cost::Port as usize == Cost::COUNT - 1);
