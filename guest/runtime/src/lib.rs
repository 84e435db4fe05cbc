//! A program on bare x86-64: Multiboot entry, long mode, all processors, interrupts, a serial port.
//!
//! The program is compiled for the host's own target (its `core` is the one that is installed),
//! with no operating system below: [`boot`] enables what `core` is compiled for, [`descriptor`]
//! keeps interrupts off the red zone, [`memory`] has the functions that a C library would have.
//!
//! Left out: anything above 4 GiB of memory, user mode, devices other than the serial port and the
//! I/O APIC.
#![warn(missing_docs)]
#![no_std]

pub mod acpi;
pub mod apic;
pub mod boot;
pub mod clock;
pub mod descriptor;
mod fw_cfg;
pub mod instruction;
pub mod interrupt;
pub mod io_apic;
pub mod job;
pub mod lock;
pub mod memory;
pub mod multiboot;
pub mod power;
pub mod processor;
pub mod serial;
pub mod start;
pub mod vector;
pub mod window;

pub use multiboot::BootInformation;
pub use power::Status;

/// Names the function that the first processor runs once all have started.
#[macro_export]
macro_rules! entry {
    ($main:path) => {
        #[expect(
            unsafe_code,
            reason = "the runtime calls it by this name, which is defined here only"
        )]
        #[unsafe(no_mangle)]
        fn guest_main(boot: &$crate::BootInformation) -> $crate::Status {
            $main(boot)
        }
    };
}
