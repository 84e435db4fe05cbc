//! Power-on without a kernel: a BIOS image finds a boot loader by itself.

use crate::firmware::{self, File};
use crate::load::Source;
use crate::machine::{Machine, MachineError};
use arch::segment::{Segment, SegmentRegister};

/// Where the segment of the first instruction lies in RAM.
const BIOS_SEGMENT: u64 = 0xF_0000;

impl Machine {
    /// Has the bootstrap processor begin with a BIOS image, which looks for a disk to start.
    /// Answers what it was, for readers.
    pub fn power_on(&mut self, image: Source<'_>) -> Result<String, MachineError> {
        let tables = self.remapping_tables();
        let options = self.state.firmware_options(&tables);
        let files = firmware::install_image(&mut self.memory, &options, image.bytes)
            .map_err(|error| MachineError::Firmware { file: image.name.to_owned(), error })?;
        let configuration = &mut self.state.wiring.chipset.firmware_configuration;
        for File { name, content } in files {
            configuration.add_file(name, content);
        }
        let registers = &mut self.state.cpus[0].registers;
        let code = registers.segment(SegmentRegister::Cs);
        registers.set_segment(SegmentRegister::Cs, Segment { base: BIOS_SEGMENT, ..code });
        Ok(format!("{}, a BIOS image of {} KiB", image.name, image.bytes.len() >> 10))
    }
}
