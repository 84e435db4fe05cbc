//! Everything that `lint` reads; the first byte chooses the format, as does detection.
#![no_main]

use libfuzzer_sys::fuzz_target;
use rules::configuration::{self, Hints, Kind};
use rules::lint::{Target, fix::fixed};

fuzz_target!(|bytes: &[u8]| {
    let Some((first, rest)) = bytes.split_first() else { return };
    let Ok(text) = std::str::from_utf8(rest) else { return };
    let _ = configuration::read("fuzz", text, None, &Hints::default());
    let kind = Kind::ALL[usize::from(*first) % Kind::ALL.len()];
    if let Ok(once) = fixed("fuzz", text, Some(kind), &Target::default()) {
        let twice = fixed("fuzz", &once.text, Some(kind), &Target::default());
        assert_eq!(twice.map(|twice| twice.text).ok().as_ref(), Some(&once.text), "one more fix");
    }
});
