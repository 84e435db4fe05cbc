//! Power-on without a kernel: firmware of others finds a boot loader by itself.

use crate::firmware::{self, File, NotFirmware, Uefi};
use crate::load::Source;
use crate::machine::{Machine, MachineError, allocate};
use arch::segment::{Segment, SegmentRegister};
use device::flash::Flash;

/// Where the segment of a BIOS' first instruction lies in RAM.
const BIOS_SEGMENT: u64 = 0xF_0000;

impl Machine {
    /// Has the bootstrap processor begin with firmware, which looks for a disk to start: a BIOS
    /// image, or UEFI firmware with its variables in front or in `variables`. Answers what it was,
    /// for readers.
    pub fn power_on(
        &mut self,
        image: Source<'_>,
        variables: Option<Source<'_>>,
    ) -> Result<String, MachineError> {
        let refused = |file: &str| {
            let file = file.to_owned();
            |error| MachineError::Firmware { file, error }
        };
        let bytes = image.whole()?;
        let kept = variables.map(|file| file.whole()).transpose()?;
        let parsed = Uefi::parse(&bytes, kept.as_deref());
        let about = |error: &NotFirmware| match (error, variables) {
            (NotFirmware::Variables, Some(file)) => file.name.to_owned(),
            _ => image.name.to_owned(),
        };
        match parsed.map_err(|error| refused(&about(&error))(error))? {
            Some(uefi) => self.power_on_uefi(uefi, image.name),
            None => {
                self.power_on_bios(&bytes).map_err(refused(image.name))?;
                Ok(format!("{}, a BIOS image of {} KiB", image.name, bytes.len() >> 10))
            }
        }
    }

    fn power_on_bios(&mut self, image: &[u8]) -> Result<(), NotFirmware> {
        let tables = self.remapping_tables();
        let options = self.state.firmware_options(&tables);
        let files = firmware::install_image(&mut self.memory, &options, image)?;
        self.tell_firmware(files);
        let registers = &mut self.state.cpus[0].registers;
        let code = registers.segment(SegmentRegister::Cs);
        registers.set_segment(SegmentRegister::Cs, Segment { base: BIOS_SEGMENT, ..code });
        Ok(())
    }

    /// The processor is where it has to be after reset: 16 bytes below 4 GiB.
    fn power_on_uefi(&mut self, uefi: Uefi<'_>, name: &str) -> Result<String, MachineError> {
        let layout = uefi
            .layout(self.memory.layout().ram())
            .map_err(|error| MachineError::Firmware { file: name.to_owned(), error })?;
        // After a reset it is there.
        if self.memory.layout() != layout {
            self.memory = allocate(layout)?;
            self.memory.set_read_only(uefi.code);
        }
        let tables = self.remapping_tables();
        let told = firmware::tell(&self.state.firmware_options(&tables), layout);
        self.tell_firmware(told.files);
        let chipset = &mut self.state.wiring.chipset;
        let (file, offset) = told.window;
        chipset.firmware_configuration.tell_window_at(file, offset);
        let flash = Flash::new(uefi.place_of_variables(), uefi.variables.to_vec());
        chipset.carry_flash(flash, layout.low);
        let (code, variables) = (uefi.code.len() >> 10, uefi.variables.len() >> 10);
        Ok(format!("{name}, UEFI firmware of {code} KiB with {variables} KiB of variables"))
    }

    fn tell_firmware(&mut self, files: Vec<File>) {
        let configuration = &mut self.state.wiring.chipset.firmware_configuration;
        for File { name, content } in files {
            configuration.add_file(name, content);
        }
    }
}
