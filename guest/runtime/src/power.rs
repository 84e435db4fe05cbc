//! Ending the program: the debug-exit port of emulators, then ACPI's soft-off, then the shutdown
//! port of Bochs, then HLT. On real hardware the second is the one that works.

use crate::instruction::{halt_forever, in16, out8, out16, out32};
use crate::{acpi, print};
use core::panic::PanicInfo;

/// QEMU's isa-debug-exit; QEMU's own exit status becomes twice the value plus one.
const DEBUG_EXIT: u16 = 0xF4;
const BOCHS_SHUTDOWN: u16 = 0x8900;
/// PM1 control: SLP_EN, and where SLP_TYP lies. [ACPI "PM1 Control Registers"]
const SLEEP_ENABLE: u16 = 1 << 13;
const SLEEP_TYPE_SHIFT: u16 = 10;
const SLEEP_TYPE_MASK: u16 = 7 << SLEEP_TYPE_SHIFT;

/// How the program went: the value for the debug-exit port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Status {
    /// Everything was as it should be.
    Passed = 0,
    /// A check did not hold.
    Failed = 1,
    /// A check of the program's own did not, or an exception came that nobody expected.
    Panicked = 2,
    /// An interrupt that was sent did not come, although nothing held it back.
    Lost = 3,
    /// An interrupt came that nobody had sent.
    Unasked = 4,
}

/// Ends the machine's run.
pub fn off(status: Status) -> ! {
    out32(DEBUG_EXIT, status as u32);
    if let Some(soft_off) = acpi::soft_off() {
        let control = in16(soft_off.port) & !SLEEP_TYPE_MASK;
        out16(soft_off.port, control | soft_off.sleep_type << SLEEP_TYPE_SHIFT | SLEEP_ENABLE);
    }
    b"Shutdown".iter().for_each(|&letter| out8(BOCHS_SHUTDOWN, letter));
    halt_forever()
}

#[panic_handler]
fn panic(information: &PanicInfo<'_>) -> ! {
    let (file, line) = information.location().map_or(("", 0), |place| (place.file(), place.line()));
    print!(
        "{{\"record\":\"panic\",\"message\":\"{}\",\"file\":\"{file}\",\"line\":{line}}}",
        information.message()
    );
    off(Status::Panicked)
}
