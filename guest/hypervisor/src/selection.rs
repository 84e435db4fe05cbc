//! What the command line asks for:
//! `avic=off|on|both vcpus=N memory=MIB slice=CYCLES workaround=1235`, and `guest.KEY=VALUE` for the guest's own.

use crate::vcpu::MOST_VCPUS;
use runtime::{BootInformation, processor};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Acceleration {
    /// Interrupts are injected by software.
    Off,
    /// By AVIC, and x2AVIC where there is that.
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
    avic: &'a str,
    pub vcpus: usize,
    /// Bytes of the guest's RAM.
    pub memory: u64,
    /// Erratum 1235 of AMD: IsRunning is never set, so that no sender can misread it.
    pub hides_running: bool,
    /// How long a virtual processor runs before others that are ready.
    pub slice: u64,
}

impl<'a> Selection<'a> {
    pub fn read(boot: &'a BootInformation) -> Self {
        let vcpus = boot.number("vcpus", processor::count() as u64) as usize;
        Self {
            boot,
            avic: boot.option("avic").unwrap_or("both"),
            vcpus: vcpus.clamp(1, MOST_VCPUS),
            memory: boot.number("memory", 32).clamp(16, 1024) << 20,
            hides_running: boot.option("workaround") == Some("1235"),
            slice: boot.number("slice", 1_000_000).clamp(10_000, 1 << 40),
        }
    }

    pub fn wants(&self, acceleration: Acceleration) -> bool {
        self.avic == "both" || self.avic == acceleration.name()
    }

    /// The words of the guest's command line.
    pub fn guest_words(&self) -> impl Iterator<Item = &'a str> {
        self.boot
            .command_line()
            .split_ascii_whitespace()
            .filter_map(|word| word.strip_prefix(GUEST_PREFIX))
    }
}
