//! One 8259A.

use serde::{Deserialize, Serialize};

/// The master's input that the slave drives.
pub(super) const CASCADE: u8 = 2;
/// The input whose vector a spurious interrupt gets.
pub(super) const SPURIOUS: u8 = 7;

/// Which initialization command word the data port expects.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
enum Expects {
    Mask,
    VectorBase,
    Cascade,
    Modes,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Chip {
    lines: u8,
    /// IRR
    requests: u8,
    /// ISR
    in_service: u8,
    /// IMR
    masked: u8,
    level_triggered: u8,
    level_capable: u8,
    vector_base: u8,
    /// The input with the highest priority; priorities fall from there, wrapping.
    first: u8,
    expects: Expects,
    is_single: bool,
    needs_modes: bool,
    has_automatic_eoi: bool,
    rotates_on_automatic_eoi: bool,
    is_special_fully_nested: bool,
    is_special_mask: bool,
    is_polled: bool,
    reads_in_service: bool,
}

/// What one 8259A holds, a bit an input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChipRegisters {
    /// IRR
    pub requests: u8,
    /// ISR
    pub in_service: u8,
    /// IMR
    pub masked: u8,
    /// Of the inputs, as the board drives them.
    pub lines: u8,
    /// ELCR
    pub level_triggered: u8,
    /// ICW2: the vector of input 0.
    pub vector_base: u8,
}

impl Chip {
    pub fn registers(&self) -> ChipRegisters {
        ChipRegisters {
            requests: self.requests,
            in_service: self.in_service,
            masked: self.masked,
            lines: self.lines,
            level_triggered: self.level_triggered,
            vector_base: self.vector_base,
        }
    }

    pub fn new(level_capable: u8) -> Self {
        Self {
            lines: 0,
            requests: 0,
            in_service: 0,
            masked: 0,
            level_triggered: 0,
            level_capable,
            vector_base: 0,
            first: 0,
            expects: Expects::Mask,
            is_single: false,
            needs_modes: false,
            has_automatic_eoi: false,
            rotates_on_automatic_eoi: false,
            is_special_fully_nested: false,
            is_special_mask: false,
            is_polled: false,
            reads_in_service: false,
        }
    }

    pub fn set_line(&mut self, input: u8, asserted: bool) {
        let bit = 1 << input;
        let is_rising = asserted && self.lines & bit == 0;
        self.lines = if asserted { self.lines | bit } else { self.lines & !bit };
        if self.level_triggered & bit != 0 {
            self.requests = self.requests & !bit | self.lines & bit;
        } else if is_rising {
            self.requests |= bit;
        }
    }

    /// Makes a request out of a level, whatever the trigger mode.
    pub fn follow(&mut self, input: u8, asserted: bool) {
        let bit = 1 << input;
        self.requests = if asserted { self.requests | bit } else { self.requests & !bit };
    }

    pub fn level_triggered(&self) -> u8 {
        self.level_triggered
    }

    pub fn set_level_triggered(&mut self, value: u8) {
        self.level_triggered = value & self.level_capable;
        let level = self.level_triggered;
        self.requests = self.requests & !level | self.lines & level;
    }

    pub fn vector_of(&self, input: u8) -> u8 {
        self.vector_base | input
    }

    /// The position of the first set input in order of priority.
    fn rank(&self, inputs: u8) -> Option<u8> {
        (inputs != 0).then(|| inputs.rotate_right(u32::from(self.first)).trailing_zeros() as u8)
    }

    fn input_at(&self, rank: u8) -> u8 {
        (rank + self.first) & 7
    }

    /// The request that asserts INTR: above everything in service, except that special mask mode
    /// ignores what is in service and masked, and the special fully nested mode lets the slave
    /// interrupt itself. [8259A "Special Mask Mode"] [8259A "Special Fully Nested Mode"]
    pub fn highest(&self) -> Option<u8> {
        let request = self.rank(self.requests & !self.masked)?;
        let mut blocking = self.in_service;
        if self.is_special_mask {
            blocking &= !self.masked;
        }
        if self.is_special_fully_nested {
            blocking &= !(1 << CASCADE);
        }
        match self.rank(blocking) {
            Some(service) if service <= request => None,
            _ => Some(self.input_at(request)),
        }
    }

    /// An acknowledge cycle: the input that goes into service.
    pub fn acknowledge(&mut self) -> Option<u8> {
        let input = self.highest()?;
        let bit = 1 << input;
        if self.level_triggered & bit == 0 {
            self.requests &= !bit;
        }
        if !self.has_automatic_eoi {
            self.in_service |= bit;
        } else if self.rotates_on_automatic_eoi {
            self.first = (input + 1) & 7;
        }
        Some(input)
    }

    /// A read at A0 = 0 or 1. After a poll command either is an acknowledge.
    /// [8259A "Poll Command"] [8259A "Reading the 8259A Status"]
    pub fn read(&mut self, is_data: bool) -> u8 {
        if self.is_polled {
            self.is_polled = false;
            return self.acknowledge().map_or(0, |input| 0x80 | input);
        }
        match (is_data, self.reads_in_service) {
            (true, _) => self.masked,
            (false, true) => self.in_service,
            (false, false) => self.requests,
        }
    }

    pub fn write(&mut self, is_data: bool, value: u8) {
        if is_data {
            self.write_data(value);
        } else if value & 0x10 != 0 {
            self.start_initialization(value);
        } else if value & 0x08 != 0 {
            self.write_mode_command(value);
        } else {
            self.write_end_command(value);
        }
    }

    /// ICW1. Its level-trigger bit has no effect where there is an ELCR.
    /// [8259A "Initialization Command Words 1 and 2"]
    fn start_initialization(&mut self, value: u8) {
        let lines = self.lines;
        let level_triggered = self.level_triggered;
        let vector_base = self.vector_base;
        *self = Self {
            lines,
            level_triggered,
            vector_base,
            requests: lines & level_triggered,
            expects: Expects::VectorBase,
            is_single: value & 2 != 0,
            needs_modes: value & 1 != 0,
            ..Self::new(self.level_capable)
        };
    }

    fn write_data(&mut self, value: u8) {
        let after_cascade = if self.needs_modes { Expects::Modes } else { Expects::Mask };
        self.expects = match self.expects {
            Expects::Mask => {
                self.masked = value;
                Expects::Mask
            }
            Expects::VectorBase => {
                self.vector_base = value & 0xF8;
                if self.is_single { after_cascade } else { Expects::Cascade }
            }
            // ICW3 says how the chips are wired; on a PC they are wired one way.
            Expects::Cascade => after_cascade,
            Expects::Modes => {
                self.has_automatic_eoi = value & 0x02 != 0;
                self.is_special_fully_nested = value & 0x10 != 0;
                Expects::Mask
            }
        };
    }

    /// OCW3. [8259A "Operation Control Word 3"]
    fn write_mode_command(&mut self, value: u8) {
        if value & 0x04 != 0 {
            self.is_polled = true;
        } else if value & 0x02 != 0 {
            self.reads_in_service = value & 1 != 0;
        }
        if value & 0x40 != 0 {
            self.is_special_mask = value & 0x20 != 0;
        }
    }

    /// OCW2. [8259A "Operation Control Word 2"]
    fn write_end_command(&mut self, value: u8) {
        let named = value & 7;
        let (rotates, is_specific, ends) =
            (value & 0x80 != 0, value & 0x40 != 0, value & 0x20 != 0);
        match (is_specific, ends) {
            (false, false) => self.rotates_on_automatic_eoi = rotates,
            (false, true) => {
                if let Some(rank) = self.rank(self.endable()) {
                    self.end(self.input_at(rank), rotates);
                }
            }
            (true, true) => self.end(named, rotates),
            (true, false) if rotates => self.first = (named + 1) & 7,
            (true, false) => {}
        }
    }

    /// What a non-specific EOI may end: not what special mask mode hides.
    fn endable(&self) -> u8 {
        if self.is_special_mask { self.in_service & !self.masked } else { self.in_service }
    }

    fn end(&mut self, input: u8, rotates: bool) {
        self.in_service &= !(1 << input);
        if rotates {
            self.first = (input + 1) & 7;
        }
    }
}
