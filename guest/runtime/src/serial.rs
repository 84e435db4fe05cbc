//! COM1, a 16550 at port 3F8h: where all output goes, a line at a time.

use crate::instruction::{in8, out8, out8_string};
use crate::lock::Lock;
use core::fmt::Write;
use core::sync::atomic::{AtomicBool, Ordering};

const PORT: u16 = 0x3F8;
const LINE_STATUS: u16 = PORT + 5;
const TRANSMITTER_EMPTY: u8 = 1 << 5;
/// Bytes that the transmitter takes at once when it is empty.
const FIFO: usize = 16;
/// How often an unready port is asked before its bytes are dropped.
const PATIENCE: u32 = 1 << 20;
/// Longer lines are cut.
const LONGEST_LINE: usize = 600;

/// Whether the port takes any number of bytes at once, as one behind a hypervisor may.
static TAKES_STRINGS: AtomicBool = AtomicBool::new(false);

/// From now on lines go out by string instructions, without asking whether the port is ready.
pub(crate) fn use_strings() {
    TAKES_STRINGS.store(true, Ordering::Relaxed);
}

/// 115,200 baud, 8 bits, no parity, FIFOs on, no interrupts.
pub(crate) fn initialize() {
    for (offset, value) in [(1, 0), (3, 0x80), (0, 1), (1, 0), (3, 0x03), (2, 0x07), (4, 0x03)] {
        out8(PORT + offset, value);
    }
}

fn send(bytes: &[u8]) {
    if TAKES_STRINGS.load(Ordering::Relaxed) {
        return out8_string(PORT, bytes);
    }
    for chunk in bytes.chunks(FIFO) {
        let mut patience = PATIENCE;
        while in8(LINE_STATUS) & TRANSMITTER_EMPTY == 0 && patience > 0 {
            patience -= 1;
            core::hint::spin_loop();
        }
        chunk.iter().for_each(|&byte| out8(PORT, byte));
    }
}

/// A line under construction.
pub struct Line {
    bytes: [u8; LONGEST_LINE],
    length: usize,
}

impl Line {
    const fn new() -> Self {
        Self { bytes: [0; LONGEST_LINE], length: 0 }
    }
}

impl Write for Line {
    fn write_str(&mut self, text: &str) -> core::fmt::Result {
        let room = &mut self.bytes[self.length..];
        let length = text.len().min(room.len());
        room[..length].copy_from_slice(&text.as_bytes()[..length]);
        self.length += length;
        Ok(())
    }
}

/// The line is built under the lock too: stacks of interrupts are too small to hold it.
static OUTPUT: Lock<Line> = Lock::new(Line::new());

/// Prints one line; [`crate::print!`] is its usual caller.
pub fn print_line(arguments: core::fmt::Arguments<'_>) {
    OUTPUT.with(|line| {
        line.length = 0;
        // `write_str` cannot fail; a Display that does leaves a shorter line.
        let _ = line.write_fmt(arguments);
        let length = line.length;
        send(&line.bytes[..length]);
        send(b"\r\n");
    });
}

/// Prints one formatted line on the serial port.
#[macro_export]
macro_rules! print {
    ($($argument:tt)*) => { $crate::serial::print_line(format_args!($($argument)*)) };
}
