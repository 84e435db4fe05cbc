//! What the command line asks for:
//! `avic=off|on|both vcpus=N memory=MIB slice=CYCLES workaround=1235 ipiv=off`, and
//! `guest.KEY=VALUE` for the guest's own.

use crate::vapic::target::MOST_VCPUS;
use runtime::{BootInformation, processor};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Acceleration {
    /// Interrupts are injected by software.
    Off,
    /// By the processor.
    On,
}

impl Acceleration {
    pub fn name(self) -> &'static str {
        if self == Self::On { "on" } else { "off" }
    }
}

const GUEST_PREFIX: &str = "guest.";

pub struct Selection<'a> {
    boot: &'a BootInformation,
    pub vcpus: usize,
    /// Bytes of the guest's RAM.
    pub memory: u64,
    /// Erratum 1235 of AMD: IsRunning is never set, so that no sender can misread it.
    pub hides_running: bool,
    /// Without IPI virtualization, where the processor has it.
    pub refuses_ipi_virtualization: bool,
    /// How long a vCPU runs before others that are ready.
    pub slice: u64,
}

impl<'a> Selection<'a> {
    pub fn read(boot: &'a BootInformation) -> Self {
        let vcpus = boot.number("vcpus", processor::count() as u64) as usize;
        Self {
            boot,
            vcpus: vcpus.clamp(1, MOST_VCPUS),
            memory: boot.number("memory", 32).clamp(16, 1024) << 20,
            hides_running: boot.option("workaround") == Some("1235"),
            refuses_ipi_virtualization: boot.option("ipiv") == Some("off"),
            slice: boot.number("slice", 1_000_000).clamp(10_000, 1 << 40),
        }
    }

    /// Whether a run is wanted, by the option that has the name of the interrupt virtualization.
    pub fn wants(&self, name: &str, acceleration: Acceleration) -> bool {
        let wanted = self.boot.option(name).unwrap_or("both");
        wanted == "both" || wanted == acceleration.name()
    }

    /// The words of the guest's command line.
    pub fn guest_words(&self) -> impl Iterator<Item = &'a str> {
        self.boot
            .command_line()
            .split_ascii_whitespace()
            .filter_map(|word| word.strip_prefix(GUEST_PREFIX))
    }
}
