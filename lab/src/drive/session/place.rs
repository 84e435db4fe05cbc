//! Where processors are when a limit stops a command.

use super::Session;
use cpu::Activity;

/// Processors that are told of.
const MOST_SHOWN: usize = 8;
/// The kernel's half of addresses.
const KERNEL: u64 = 1 << 63;

/// Where a processor is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    processor: usize,
    address: u64,
    is_guest: bool,
    is_halted: bool,
}

impl Session {
    /// Remembers where processors are now, for [`Session::stopped_at`].
    pub(super) fn remember_places(&mut self) {
        let cpus = self.drive.machine.state.cpus.iter().enumerate().take(MOST_SHOWN);
        let places = cpus.map(|(processor, cpu)| Place {
            processor,
            address: cpu.registers.ip,
            is_guest: cpu.is_guest(),
            is_halted: cpu.pending.activity() != Activity::Running,
        });
        self.places = Some(places.collect());
    }

    /// Where processors were when a command was stopped.
    pub fn stopped_at(&self) -> Option<&[Place]> {
        self.places.as_deref()
    }
}

impl Place {
    /// By the names of the kernel's code, in the form of `/proc/kallsyms`.
    pub fn named(&self, symbols: &str) -> String {
        let Self { processor, address, is_guest, is_halted } = *self;
        let state = if is_halted { "halts" } else { "is" };
        if is_guest {
            return format!("processor {processor} {state} in a guest at {address:#x}");
        }
        let name = (address >= KERNEL).then(|| nearest(symbols, address)).flatten();
        match name {
            Some((name, offset)) => format!("processor {processor} {state} in {name}+{offset:#x}"),
            None => format!("processor {processor} {state} at {address:#x}"),
        }
    }
}

/// The name that begins last at or before an address.
fn nearest(symbols: &str, address: u64) -> Option<(&str, u64)> {
    let known = symbols.lines().filter_map(|line| {
        let mut words = line.split_ascii_whitespace();
        let start = u64::from_str_radix(words.next()?, 16).ok()?;
        Some((words.nth(1)?, address.checked_sub(start)?))
    });
    known.min_by_key(|(_, offset)| *offset)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_in_the_kernel_is_named_by_what_begins_before_it() {
        let symbols = "ffffffff81000000 T first\nffffffff81000100 t second\t[kvm]\nbad line\n";
        let place = |address, is_guest| Place { processor: 1, address, is_guest, is_halted: false };
        for (place, expected) in [
            (place(0xFFFF_FFFF_8100_0104, false), "processor 1 is in second+0x4"),
            (place(0xFFFF_FFFF_8100_00FF, false), "processor 1 is in first+0xff"),
            (place(0x40_1000, false), "processor 1 is at 0x401000"),
            (place(0xFFFF_FFFF_8100_0104, true), "processor 1 is in a guest at 0xffffffff81000104"),
        ] {
            assert_eq!(place.named(symbols), expected);
        }
    }
}
