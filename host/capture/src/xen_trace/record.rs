//! One record of the file, and what it says. [XENTRACE "trace.h"]

use crate::reading::fill;
use std::io::Read;
use trace::exit_reason::Isa;

/// Words behind the first that a record may have, without its time.
const MOST_WORDS: usize = 7;

/// A record: its number, when it was written if it says so, and what else it says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    number: u32,
    /// The time-stamp counter of its CPU.
    pub tsc: Option<u64>,
    words: [u32; MOST_WORDS],
    count: usize,
}

/// What a record says, as far as it matters here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// What follows is of this CPU.
    CpuChange { cpu: u32 },
    /// Records that found no room.
    Lost { records: u32 },
    /// A vCPU is given the CPU.
    Runs { domain: u16, vcpu: u16 },
    /// A vCPU leaves the CPU.
    RunsNot,
    /// A guest is entered.
    Entry,
    /// A guest is left; `isa` where the record is one vendor's.
    Exit { isa: Option<Isa>, reason: u32 },
    /// The handler of RDMSR or WRMSR.
    Msr { is_write: bool, index: u32, value: u64 },
    /// The handler of an access to a port, when its value is known.
    Port { is_write: bool, port: u32 },
    /// Anything else.
    Other,
}

/// Addresses in the record have 64 bits.
const WIDE: u32 = 0x100;
/// Of a guest's guest.
const NESTED: u32 = 0x400;

impl Record {
    fn word(&self, at: usize) -> u32 {
        self.words[..self.count].get(at).copied().unwrap_or(0)
    }

    fn quad(&self, at: usize) -> u64 {
        u64::from(self.word(at)) | u64::from(self.word(at + 1)) << 32
    }

    /// Decodes the number. A record that is shorter than it should be reads as zeros.
    pub fn kind(&self) -> Kind {
        match self.number {
            0x1_f001 => Kind::Lost { records: self.word(0) },
            0x1_f003 => Kind::CpuChange { cpu: self.word(0) },
            0x2_1000..=0x2_1fff => self.run_state(),
            // From whom and to whom, domain and number each.
            0x2_800a => Kind::Runs { domain: self.word(2) as u16, vcpu: self.word(3) as u16 },
            0x2_800f => Kind::Runs { domain: self.word(0) as u16, vcpu: self.word(1) as u16 },
            0x8_1000..=0x8_1fff => match self.number & 0xfff & !(WIDE | NESTED) {
                1 => Kind::Entry,
                2 => Kind::Exit { isa: None, reason: self.word(0) },
                3 => Kind::Exit { isa: Some(Isa::Svm), reason: self.word(0) },
                _ => Kind::Other,
            },
            0x8_200c | 0x8_200d => Kind::Msr {
                is_write: self.number & 1 != 0,
                index: self.word(0),
                value: self.quad(1),
            },
            0x8_2016 => Kind::Port { is_write: false, port: self.word(0) },
            0x8_2216 => Kind::Port { is_write: true, port: self.word(0) },
            _ => Kind::Other,
        }
    }

    /// The vCPU goes from one state, in bits 11:8, to another, in bits 7:4, of which 0 is running;
    /// or goes on running.
    fn run_state(&self) -> Kind {
        const CONTINUES: u32 = 2;
        let (event, before, after) =
            (self.number & 0xf, self.number >> 8 & 0xf, self.number >> 4 & 0xf);
        let runs = Kind::Runs { domain: (self.word(0) >> 16) as u16, vcpu: self.word(0) as u16 };
        match (event, before, after) {
            (CONTINUES, ..) => runs,
            (1, 0, 0) => Kind::Other,
            (1, _, 0) => runs,
            (1, 0, _) => Kind::RunsNot,
            _ => Kind::Other,
        }
    }
}

/// Records of a stream, one after the other.
pub struct Records<R> {
    input: R,
    bytes: u64,
}

impl<R: Read> Records<R> {
    pub fn new(input: R) -> Self {
        Self { input, bytes: 0 }
    }

    /// Bytes read so far.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The next one, nothing at the end, or where the file breaks off.
    pub fn next(&mut self) -> std::io::Result<Result<Option<Record>, String>> {
        let at = self.bytes;
        let Some(first) = self.read_word()? else {
            let is_end = self.bytes == at;
            return Ok(if is_end { Ok(None) } else { Err(cut(at)) });
        };
        let mut record =
            Record { number: first & 0x0fff_ffff, tsc: None, words: [0; MOST_WORDS], count: 0 };
        if first >> 31 != 0 {
            let (Some(low), Some(high)) = (self.read_word()?, self.read_word()?) else {
                return Ok(Err(cut(at)));
            };
            record.tsc = Some(u64::from(low) | u64::from(high) << 32);
        }
        record.count = (first >> 28 & 7) as usize;
        for place in 0..record.count {
            let Some(word) = self.read_word()? else { return Ok(Err(cut(at))) };
            record.words[place] = word;
        }
        Ok(Ok(Some(record)))
    }

    fn read_word(&mut self) -> std::io::Result<Option<u32>> {
        let mut bytes = [0; 4];
        let filled = fill(&mut self.input, &mut bytes)?;
        self.bytes += filled as u64;
        Ok((filled == bytes.len()).then(|| u32::from_le_bytes(bytes)))
    }
}

fn cut(at: u64) -> String {
    format!("the record at offset {at:#x} breaks off")
}
