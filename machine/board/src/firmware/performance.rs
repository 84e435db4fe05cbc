//! What tables say of P-states: which registers choose them, and what they are. [ACPI "_PCT
//! (Performance Control)"] [ACPI "_PSS (Performance Supported States)"]

use acpi_tables::aml::{BufferData, Name, PackageBuilder};

const MEGAHERTZ: u64 = 1_000_000;
/// Microseconds that a change may take; here it takes none.
const LATENCY: u32 = 10;

/// _PCT and _PSS of processors with these P-states; nothing where there are none.
pub(super) fn objects(p_states: &[u64]) -> Vec<Name> {
    if p_states.is_empty() {
        return Vec::new();
    }
    let mut control = PackageBuilder::new();
    for _ in ["control", "status"] {
        control.add_element(&BufferData::new(fixed_register()));
    }
    let mut states = PackageBuilder::new();
    for (number, hertz) in (0u32..).zip(p_states) {
        let mut state = PackageBuilder::new();
        // Milliwatts are not known, and zero says so.
        for value in [(hertz / MEGAHERTZ) as u32, 0, LATENCY, LATENCY, number, number] {
            state.add_element(&value);
        }
        states.add_element(&state);
    }
    vec![Name::new("_PCT".into(), &control), Name::new("_PSS".into(), &states)]
}

/// A register of the vendor's, as a resource template: one descriptor and the end tag.
fn fixed_register() -> Vec<u8> {
    const GENERIC_REGISTER: u8 = 0x82;
    const FIXED_HARDWARE: u8 = 0x7F;
    let mut template = vec![GENERIC_REGISTER, 12, 0, FIXED_HARDWARE, 0, 0, 0];
    template.extend([0; 8]);
    template.extend([0x79, 0]);
    template
}
