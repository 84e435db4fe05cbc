//! A flash memory of bytes, in which firmware keeps its variables. [28F008SA "Command Definitions"]
//!
//! Reads give the array, the status or the identifiers, as the last command says. Programming takes
//! ones to zeros and erasing takes a block to ones; both are done at once.
//!
//! DEVIATION(28F008SA "Status Register Definition"): ready is clear until something was programmed
//! or erased, and after the status was cleared. By this OVMF tells the flash of an emulator from
//! RAM and ROM.
//!
//! DEVIATION(28F008SA "Erase Setup/Erase Confirm Commands"): blocks have 4 KiB, as OVMF has them,
//! not 64, and the memory has the size of what is in it. Erasing cannot be suspended.

use arch::address::SystemPhysical;
use bitflags::bitflags;
use serde::{Deserialize, Serialize};

/// What is erased at once.
const BLOCK: usize = 4096;
const ERASED: u8 = 0xFF;
/// Intel, and the part's number.
const IDENTIFIERS: [u8; 2] = [0x89, 0xA2];

/// [28F008SA "Command Definitions"]
mod command {
    pub const PROGRAM: u8 = 0x40;
    pub const PROGRAM_ALTERNATE: u8 = 0x10;
    pub const ERASE: u8 = 0x20;
    pub const ERASE_CONFIRM: u8 = 0xD0;
    pub const CLEAR_STATUS: u8 = 0x50;
    pub const READ_STATUS: u8 = 0x70;
    pub const READ_IDENTIFIERS: u8 = 0x90;
    pub const READ_ARRAY: u8 = 0xFF;
}

bitflags! {
    /// [28F008SA "Status Register Definition"]
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
    struct Status: u8 {
        const PROGRAM_ERROR = 1 << 4;
        const ERASE_ERROR = 1 << 5;
        const READY = 1 << 7;
    }
}

/// What the next access does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
enum Mode {
    Array,
    Status,
    Identifiers,
    /// The next write is data.
    Program,
    /// The next write confirms.
    Erase,
}

/// The memory, its place and what it was told last.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Flash {
    base: SystemPhysical,
    bytes: Vec<u8>,
    mode: Mode,
    status: Status,
}

impl Flash {
    /// A memory at `base` with this content.
    pub fn new(base: SystemPhysical, bytes: Vec<u8>) -> Self {
        Self { base, bytes, mode: Mode::Array, status: Status::empty() }
    }

    /// What is in it.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Where an address lies in it, if it does.
    pub fn offset(&self, address: SystemPhysical) -> Option<usize> {
        let offset = usize::try_from(address.0.checked_sub(self.base.0)?).ok()?;
        (offset < self.bytes.len()).then_some(offset)
    }

    /// Reads `size` bytes at an offset.
    pub fn read(&self, offset: usize, size: u8) -> u64 {
        let byte = |at: usize| match self.mode {
            Mode::Array => self.bytes.get(at).copied().unwrap_or(ERASED),
            Mode::Identifiers => IDENTIFIERS[at & 1],
            Mode::Status | Mode::Program | Mode::Erase => self.status.bits(),
        };
        (0..usize::from(size)).fold(0, |value, i| value | u64::from(byte(offset + i)) << (8 * i))
    }

    /// Writes a command, of which the low byte counts, or what a command asks for.
    pub fn write(&mut self, offset: usize, size: u8, value: u64) {
        match self.mode {
            Mode::Program => self.program(offset, &value.to_le_bytes()[..usize::from(size.min(8))]),
            Mode::Erase => self.erase(offset, value as u8),
            Mode::Array | Mode::Status | Mode::Identifiers => self.take(value as u8),
        }
    }

    fn take(&mut self, command: u8) {
        self.mode = match command {
            command::PROGRAM | command::PROGRAM_ALTERNATE => Mode::Program,
            command::ERASE => Mode::Erase,
            command::READ_STATUS => Mode::Status,
            command::READ_IDENTIFIERS => Mode::Identifiers,
            command::READ_ARRAY => Mode::Array,
            command::CLEAR_STATUS => {
                self.status = Status::empty();
                self.mode
            }
            _ => self.mode,
        };
    }

    fn program(&mut self, offset: usize, data: &[u8]) {
        for (byte, data) in self.bytes.iter_mut().skip(offset).zip(data) {
            *byte &= data;
        }
        self.status |= Status::READY;
        self.mode = Mode::Status;
    }

    /// What does not confirm is an error of the sequence, which both bits say.
    fn erase(&mut self, offset: usize, confirmation: u8) {
        if confirmation == command::ERASE_CONFIRM {
            let start = offset / BLOCK * BLOCK;
            let end = (start + BLOCK).min(self.bytes.len());
            self.bytes[start..end].fill(ERASED);
        } else {
            self.status |= Status::PROGRAM_ERROR | Status::ERASE_ERROR;
        }
        self.status |= Status::READY;
        self.mode = Mode::Status;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BASE: u64 = 0xFFC0_0000;

    fn flash() -> Flash {
        let bytes = (0..3 * BLOCK).map(|at| at as u8 | 0x0F).collect();
        Flash::new(SystemPhysical(BASE), bytes)
    }

    #[test]
    fn an_address_lies_in_it_from_its_base_to_its_end() {
        let flash = flash();
        for (address, expected) in [
            (BASE - 1, None),
            (BASE, Some(0)),
            (BASE + 3 * 4096 - 1, Some(3 * BLOCK - 1)),
            (BASE + 3 * 4096, None),
        ] {
            assert_eq!(flash.offset(SystemPhysical(address)), expected, "{address:#x}");
        }
    }

    #[test]
    fn reads_give_what_the_last_command_says() {
        for (commands, expected) in [
            (&[][..], 0x3F3F_2F2F),
            (&[0x70], 0),
            (&[0x90], 0xA289_A289),
            (&[0x70, 0xFF], 0x3F3F_2F2F),
            (&[0x70, 0x50], 0),
            (&[0x50], 0x3F3F_2F2F),
            (&[0x99], 0x3F3F_2F2F),
            (&[0x20, 0x11], 0xB0B0_B0B0),
            (&[0x20, 0x11, 0x50], 0),
            (&[0x10], 0),
        ] {
            let mut flash = flash();
            flash.bytes[0x100..0x104].copy_from_slice(&[0x2F, 0x2F, 0x3F, 0x3F]);
            commands.iter().for_each(|command| flash.write(0x100, 1, *command));
            assert_eq!(flash.read(0x100, 4), expected, "{commands:x?}");
        }
    }

    #[test]
    fn the_probe_of_ovmf_finds_a_flash() {
        let mut flash = flash();
        let original = flash.read(0, 1);
        flash.write(0, 1, 0x50);
        assert_eq!(flash.read(0, 1), original, "not RAM");
        flash.write(0, 1, 0x70);
        assert_eq!(flash.read(0, 1), 0, "not ROM");
        flash.write(0, 1, 0x10);
        flash.write(0, 1, original);
        flash.write(0, 1, 0x70);
        assert_eq!(flash.read(0, 1) & 0x10, 0, "it can be written");
        flash.write(0, 1, 0xFF);
        assert_eq!(flash.read(0, 1), original);
    }

    #[test]
    fn programming_takes_ones_to_zeros_and_nothing_back() {
        let mut flash = flash();
        for (command, size, data, expected) in [
            (0x40, 1, 0x5A, 0x1F1F_1F1A),
            (0x10, 4, 0xFFFF_00FF, 0x1F1F_001A),
            (0x10, 1, 0xFF, 0x1F1F_001A),
        ] {
            flash.write(0x10, 1, command);
            flash.write(0x10, size, data);
            assert_eq!(flash.read(0x10, 1), 0x80, "ready");
            flash.write(0x10, 1, 0xFF);
            assert_eq!(flash.read(0x10, 4), expected);
        }
        flash.write(3 * BLOCK - 1, 1, 0x10);
        flash.write(3 * BLOCK - 1, 8, 0);
        assert_eq!(flash.bytes().len(), 3 * BLOCK, "what lies behind it is not there");
    }

    #[test]
    fn erasing_takes_the_block_to_ones_and_no_other() {
        let mut flash = flash();
        let before = flash.bytes().to_vec();
        flash.write(BLOCK + 5, 1, 0x20);
        flash.write(BLOCK + 5, 1, 0xD0);
        assert_eq!(flash.bytes()[..BLOCK], before[..BLOCK]);
        assert!(flash.bytes()[BLOCK..2 * BLOCK].iter().all(|byte| *byte == 0xFF));
        assert_eq!(flash.bytes()[2 * BLOCK..], before[2 * BLOCK..]);
    }
}
