//! Entries of submission and completion queues. [NVME "Submission Queue Entry - Command Format"]
//! [NVME "Completion Queue Entry"]

use super::status::Status;
use super::{COMPLETION_SIZE, SUBMISSION_SIZE};
use serde::{Deserialize, Serialize};

/// Opcodes of the admin queue. [NVME "Admin Command Set"]
pub mod admin {
    /// Deletes the I/O submission queue that dword 10 names.
    pub const DELETE_SUBMISSION_QUEUE: u8 = 0x00;
    /// Makes one; dword 11 names its completion queue.
    pub const CREATE_SUBMISSION_QUEUE: u8 = 0x01;
    /// Reads one of the [`super::super::identify::log`] pages.
    pub const GET_LOG_PAGE: u8 = 0x02;
    /// Deletes an I/O completion queue that no submission queue uses.
    pub const DELETE_COMPLETION_QUEUE: u8 = 0x04;
    /// Makes one, with an interrupt vector.
    pub const CREATE_COMPLETION_QUEUE: u8 = 0x05;
    /// Reads one of the [`super::super::identify::structure`]s.
    pub const IDENTIFY: u8 = 0x06;
    /// Asks for a command not to be done.
    pub const ABORT: u8 = 0x08;
    /// Sets a feature.
    pub const SET_FEATURES: u8 = 0x09;
    /// Reads a feature.
    pub const GET_FEATURES: u8 = 0x0A;
    /// Completes when there is something to tell.
    pub const ASYNCHRONOUS_EVENT_REQUEST: u8 = 0x0C;
}

/// Opcodes of I/O queues. [NVME "NVM Command Set"]
pub mod io {
    /// What was written is to survive a loss of power.
    pub const FLUSH: u8 = 0x00;
    /// To the namespace.
    pub const WRITE: u8 = 0x01;
    /// From the namespace.
    pub const READ: u8 = 0x02;
    /// Zeroes, without data.
    pub const WRITE_ZEROES: u8 = 0x08;
    /// Hints about ranges, and that some need not be kept.
    pub const DATASET_MANAGEMENT: u8 = 0x09;
}

/// A command as it lies in a submission queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Submission {
    /// Which command.
    pub opcode: u8,
    /// `[9:8]` FUSE and `[15:14]` PSDT of dword 0, in their places of its second byte.
    pub flags: u8,
    /// CID: the driver's name for the command.
    pub identifier: u16,
    /// NSID
    pub namespace: u32,
    /// MPTR
    pub metadata: u64,
    /// PRP1
    pub prp1: u64,
    /// PRP2
    pub prp2: u64,
    /// Dwords 10 to 15.
    pub arguments: [u32; 6],
}

/// [`Submission::flags`]: one of two commands that are to be done as one.
pub const IS_FUSED: u8 = 0x03;
/// [`Submission::flags`]: data is described by scatter-gather lists.
pub const HAS_SCATTER_GATHER: u8 = 0xC0;

impl Submission {
    /// Takes an entry apart.
    pub fn from_bytes(bytes: &[u8; SUBMISSION_SIZE as usize]) -> Self {
        let dword = |at: usize| bytes[at * 4..].first_chunk().map_or(0, |b| u32::from_le_bytes(*b));
        let qword = |at: usize| u64::from(dword(at + 1)) << 32 | u64::from(dword(at));
        Self {
            opcode: bytes[0],
            flags: bytes[1],
            identifier: (dword(0) >> 16) as u16,
            namespace: dword(1),
            metadata: qword(4),
            prp1: qword(6),
            prp2: qword(8),
            arguments: core::array::from_fn(|index| dword(10 + index)),
        }
    }

    /// The entry for a command. Dwords 2 and 3, which nothing uses, are zero.
    pub fn to_bytes(&self) -> [u8; SUBMISSION_SIZE as usize] {
        let mut bytes = [0; SUBMISSION_SIZE as usize];
        (bytes[0], bytes[1]) = (self.opcode, self.flags);
        bytes[2..4].copy_from_slice(&self.identifier.to_le_bytes());
        bytes[4..8].copy_from_slice(&self.namespace.to_le_bytes());
        for (at, value) in [(16, self.metadata), (24, self.prp1), (32, self.prp2)] {
            bytes[at..at + 8].copy_from_slice(&value.to_le_bytes());
        }
        for (place, value) in bytes[40..].chunks_exact_mut(4).zip(self.arguments) {
            place.copy_from_slice(&value.to_le_bytes());
        }
        bytes
    }

    /// Dword 10 to 15; zero for others.
    pub fn dword(&self, number: usize) -> u32 {
        number.checked_sub(10).and_then(|at| self.arguments.get(at)).copied().unwrap_or(0)
    }

    /// SLBA of commands that have one: dwords 10 and 11.
    pub fn first_block(&self) -> u64 {
        u64::from(self.dword(11)) << 32 | u64::from(self.dword(10))
    }

    /// NLB of commands that have one, 1 to 65,536: dword 12, which holds one less.
    pub fn blocks(&self) -> u64 {
        u64::from(self.dword(12) as u16) + 1
    }

    /// FUA: bit 30 of dword 12.
    pub fn forces_unit_access(&self) -> bool {
        self.dword(12) & 1 << 30 != 0
    }
}

/// What the controller writes to a completion queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Completion {
    /// Dword 0, by command.
    pub result: u32,
    /// SQHD: how far the submission queue has been read.
    pub head: u16,
    /// SQID: which queue the command was in.
    pub queue: u16,
    /// CID
    pub identifier: u16,
    /// P: changes each time that the controller comes around the queue.
    pub phase: bool,
    /// How it ended.
    pub status: Status,
}

impl Completion {
    /// The entry.
    pub fn to_bytes(self) -> [u8; COMPLETION_SIZE as usize] {
        let status = u32::from(self.status.into_bits()) << 1 | u32::from(self.phase);
        let dwords = [
            self.result,
            0,
            u32::from(self.queue) << 16 | u32::from(self.head),
            status << 16 | u32::from(self.identifier),
        ];
        let mut bytes = [0; COMPLETION_SIZE as usize];
        for (place, dword) in bytes.chunks_exact_mut(4).zip(dwords) {
            place.copy_from_slice(&dword.to_le_bytes());
        }
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_of_a_command_are_where_the_format_says() {
        let bytes: [u8; 64] = core::array::from_fn(|at| at as u8);
        let command = Submission::from_bytes(&bytes);
        assert_eq!((command.opcode, command.flags, command.identifier), (0, 1, 0x0302));
        assert_eq!(command.namespace, 0x0706_0504);
        assert_eq!(command.metadata, 0x1716_1514_1312_1110);
        assert_eq!(command.prp1, 0x1F1E_1D1C_1B1A_1918);
        assert_eq!(command.prp2, 0x2726_2524_2322_2120);
        assert_eq!(command.dword(10), 0x2B2A_2928);
        assert_eq!(command.dword(15), 0x3F3E_3D3C);
        assert_eq!((command.dword(9), command.dword(16)), (0, 0));
        assert_eq!(command.first_block(), 0x2F2E_2D2C_2B2A_2928);
        assert_eq!(command.blocks(), 0x3131);
        let mut expected = bytes;
        expected[8..16].fill(0);
        assert_eq!(command.to_bytes(), expected);
    }

    #[test]
    fn a_completion_has_phase_and_status_in_its_last_half_word() {
        let completion = Completion {
            result: 0x1122_3344,
            head: 0x5566,
            queue: 0x7788,
            identifier: 0x99AA,
            phase: true,
            status: Status::from_bits(0x4102),
        };
        let bytes = completion.to_bytes();
        assert_eq!(bytes[..4], [0x44, 0x33, 0x22, 0x11]);
        assert_eq!(bytes[8..], [0x66, 0x55, 0x88, 0x77, 0xAA, 0x99, 0x05, 0x82]);
    }
}
