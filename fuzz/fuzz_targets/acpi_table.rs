//! Firmware tables: IVRS, DMAR, MADT, and their text form.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let _ = facts::acpi::ivrs(bytes);
    let _ = facts::acpi::dmar(bytes);
    let _ = facts::acpi::madt(bytes);
    let _ = facts::acpi::dump::tables(&String::from_utf8_lossy(bytes));
});
