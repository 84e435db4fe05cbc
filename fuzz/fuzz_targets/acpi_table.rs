//! Firmware tables: IVRS, DMAR, MADT.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let _ = facts::acpi::ivrs(bytes);
    let _ = facts::acpi::dmar(bytes);
    let _ = facts::acpi::madt(bytes);
});
