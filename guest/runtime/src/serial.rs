//! COM1, a 16550 at port 3F8h: where all output goes, a line at a time.

use crate::instruction::{in8, out8, out32};
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

/// Port of a device that prints a text from memory; see `device::map::TEST_TEXT`.
const TEXT_PORT: u16 = 0xE8;
/// Whether lines go to that device instead of the serial port.
static IS_BY_MEMORY: AtomicBool = AtomicBool::new(false);

/// From now on a line is one write to a port, for machines that have a device for it.
pub(crate) fn print_by_memory() {
    IS_BY_MEMORY.store(true, Ordering::Relaxed);
}

/// 115,200 baud, 8 bits, no parity, FIFOs on, no interrupts.
pub(crate) fn initialize() {
    for (offset, value) in [(1, 0), (3, 0x80), (0, 1), (1, 0), (3, 0x03), (2, 0x07), (4, 0x03)] {
        out8(PORT + offset, value);
    }
}

fn send(bytes: &[u8]) {
    for chunk in bytes.chunks(FIFO) {
        let mut patience = PATIENCE;
        while in8(LINE_STATUS) & TRANSMITTER_EMPTY == 0 && patience > 0 {
            patience -= 1;
            core::hint::spin_loop();
        }
        chunk.iter().for_each(|&byte| out8(PORT, byte));
    }
}

/// A line under construction. In memory it is what the text device takes once `text_length` is set.
#[repr(C)]
pub struct Line {
    text_length: u32,
    bytes: [u8; LONGEST_LINE + 1],
    length: usize,
}

impl Line {
    const fn new() -> Self {
        Self { text_length: 0, bytes: [0; LONGEST_LINE + 1], length: 0 }
    }
}

impl Line {
    /// The program is mapped where it lies in physical memory, below 4 GiB.
    fn print_by_memory(&mut self) {
        self.bytes[self.length] = b'\n';
        self.text_length = self.length as u32 + 1;
        let address = core::ptr::from_mut(self).expose_provenance() as u32;
        out32(TEXT_PORT, address);
    }
}

impl Write for Line {
    fn write_str(&mut self, text: &str) -> core::fmt::Result {
        let room = &mut self.bytes[self.length..LONGEST_LINE];
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
        if IS_BY_MEMORY.load(Ordering::Relaxed) {
            return line.print_by_memory();
        }
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
