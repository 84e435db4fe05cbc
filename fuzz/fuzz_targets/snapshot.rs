//! An archive of a host, packed or not: bytes as they come.
#![no_main]

use facts::Inputs;
use facts::archive::{Packing, read_into};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Some(packing) = Packing::detect(bytes) else { return };
    let mut inputs = Inputs::new("fuzz");
    if read_into(bytes, packing, &mut inputs).is_ok() {
        facts::snapshot::apply_manifest(&mut inputs);
        let facts = facts::facts(&inputs);
        let _ = rules::capability::check(&facts);
    }
});
