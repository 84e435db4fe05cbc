//! Options of a trace.dat that say something about the host or its clock.

use crate::sink::Origin;
use crate::tracing_data::Cursor;

mod id {
    pub const UNAME: u16 = 5;
    pub const OFFSET: u16 = 7;
    pub const CPU_COUNT: u16 = 8;
    pub const VERSION: u16 = 9;
    pub const TSC_TO_NS: u16 = 14;
}

/// How time stamps become nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Clock {
    is_tsc: bool,
    multiplier: u32,
    shift: u32,
    offset: u64,
    /// Added to every stamp.
    added: i64,
}

impl Clock {
    pub fn name(&mut self, name: &str) {
        self.is_tsc = matches!(name, "x86-tsc" | "tsc2nsec");
    }

    pub fn to_ns(self, stamp: u64) -> u64 {
        let ns = if self.is_tsc && self.multiplier != 0 {
            let product = u128::from(stamp) * u128::from(self.multiplier);
            ((product >> self.shift.min(127)) as u64).wrapping_sub(self.offset)
        } else {
            stamp
        };
        ns.saturating_add_signed(self.added)
    }
}

/// Takes one option; those that say nothing here are read past.
pub fn apply_option(number: u16, bytes: &[u8], origin: &mut Origin, clock: &mut Clock) {
    let text = || {
        let text = bytes.split(|byte| *byte == 0).next().unwrap_or_default();
        String::from_utf8_lossy(text).trim().to_owned()
    };
    match number {
        // "Linux HOST RELEASE VERSION MACHINE"
        id::UNAME => {
            let text = text();
            let mut words = text.split_whitespace().skip(1);
            origin.host_name = words.next().map(str::to_owned);
            origin.kernel_release = words.next().map(str::to_owned);
        }
        id::OFFSET => {
            let text = text();
            let digits = text.trim_start_matches("0x");
            let parsed = match digits.len() == text.len() {
                true => text.parse().ok(),
                false => i64::from_str_radix(digits, 16).ok(),
            };
            clock.added = parsed.unwrap_or(0);
        }
        id::CPU_COUNT => origin.host_cpus = Cursor::new(bytes, "option").u32().ok(),
        id::VERSION => origin.recorder = Some(format!("trace-cmd {}", text())),
        id::TSC_TO_NS => {
            let mut cursor = Cursor::new(bytes, "option");
            clock.multiplier = cursor.u32().unwrap_or(0);
            clock.shift = cursor.u32().unwrap_or(0);
            clock.offset = cursor.u64().unwrap_or(0);
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tsc_is_scaled_and_any_clock_is_shifted() {
        let mut clock = Clock::default();
        clock.name("x86-tsc");
        let mut bytes = 1u32.to_le_bytes().to_vec();
        bytes.extend(1u32.to_le_bytes());
        bytes.extend(10u64.to_le_bytes());
        apply_option(id::TSC_TO_NS, &bytes, &mut Origin::default(), &mut clock);
        assert_eq!(clock.to_ns(100), 40);
        apply_option(id::OFFSET, b"-5\0", &mut Origin::default(), &mut clock);
        assert_eq!(clock.to_ns(100), 35);
        clock.name("local");
        assert_eq!(clock.to_ns(100), 95);
    }

    #[test]
    fn uname_gives_host_and_release() {
        let mut origin = Origin::default();
        apply_option(
            id::UNAME,
            b"Linux h 6.1.0-56-amd64 #1 x86_64\0",
            &mut origin,
            &mut Clock::default(),
        );
        assert_eq!(origin.kernel_release.as_deref(), Some("6.1.0-56-amd64"));
    }
}
