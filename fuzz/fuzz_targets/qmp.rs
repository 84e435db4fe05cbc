//! What a monitor says, line by line, whatever it is: counters or an error.
#![no_main]

use capture::live::qmp::Monitor;
use libfuzzer_sys::fuzz_target;
use std::io::Cursor;

fuzz_target!(|bytes: &[u8]| {
    let said = Box::new(Cursor::new(bytes.to_vec()));
    if let Ok(mut monitor) = Monitor::over(said, Box::new(std::io::sink())) {
        let _ = monitor.read();
    }
});
