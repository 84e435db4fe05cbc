//! Dates, and how the clock's registers hold and count them.

use serde::{Deserialize, Serialize};

/// Register of the century, where firmware tables say it is.
const CENTURY: usize = crate::map::RTC_CENTURY as usize;
const SECONDS: usize = 0x00;
const MINUTES: usize = 0x02;
const HOURS: usize = 0x04;
const WEEKDAY: usize = 0x06;
const DAY: usize = 0x07;
const MONTH: usize = 0x08;
const YEAR: usize = 0x09;

const AFTERNOON: u8 = 0x80;

/// A moment of the proleptic Gregorian calendar, in UTC.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Date {
    /// Four digits; the century has an NVRAM byte of its own.
    pub year: u16,
    /// 1 to 12.
    pub month: u8,
    /// 1 to 31.
    pub day: u8,
    /// 0 to 23.
    pub hour: u8,
    /// 0 to 59.
    pub minute: u8,
    /// 0 to 59.
    pub second: u8,
}

impl Default for Date {
    fn default() -> Self {
        Self { year: 2026, month: 1, day: 1, hour: 0, minute: 0, second: 0 }
    }
}

/// How the registers hold numbers.
#[derive(Clone, Copy, Debug)]
pub(super) struct Format {
    pub is_binary: bool,
    pub is_24_hour: bool,
}

impl Format {
    fn encode(self, value: u8) -> u8 {
        if self.is_binary { value } else { value / 10 % 10 * 16 + value % 10 }
    }

    fn decode(self, raw: u8) -> u8 {
        if self.is_binary { raw } else { (raw >> 4).wrapping_mul(10).wrapping_add(raw & 15) }
    }

    fn encode_hour(self, hour: u8) -> u8 {
        if self.is_24_hour {
            return self.encode(hour);
        }
        let of_twelve = if hour.is_multiple_of(12) { 12 } else { hour % 12 };
        self.encode(of_twelve) | if hour >= 12 { AFTERNOON } else { 0 }
    }

    fn decode_hour(self, raw: u8) -> u8 {
        if self.is_24_hour {
            return self.decode(raw);
        }
        let of_twelve = self.decode(raw & 0x7F) % 12;
        if raw & AFTERNOON != 0 { of_twelve + 12 } else { of_twelve }
    }
}

impl Date {
    /// The date `seconds` after the start of 1970, up to the year 9999.
    pub fn from_unix(seconds: u64) -> Self {
        let days = (seconds / 86_400).min(2_932_896);
        // Years are counted from March, so that the leap day is the last of its year.
        let era_day = days + 719_468;
        let (era, day) = (era_day / 146_097, era_day % 146_097);
        let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
        let day = day - (365 * year + year / 4 - year / 100);
        let march_month = (5 * day + 2) / 153;
        let month = if march_month < 10 { march_month + 3 } else { march_month - 9 };
        let of_day = seconds % 86_400;
        Self {
            year: (era * 400 + year + u64::from(month <= 2)) as u16,
            month: month as u8,
            day: (day - (153 * march_month + 2) / 5 + 1) as u8,
            hour: (of_day / 3600) as u8,
            minute: (of_day / 60 % 60) as u8,
            second: (of_day % 60) as u8,
        }
    }

    /// 1 for Sunday, as the clock counts.
    fn weekday(self) -> u8 {
        const OFFSET: [u16; 12] = [0, 3, 2, 5, 0, 3, 5, 1, 4, 6, 2, 4];
        let year = self.year.saturating_sub(u16::from(self.month < 3));
        let month = usize::from(self.month.clamp(1, 12) - 1);
        let day = u16::from(self.day);
        ((year + year / 4 - year / 100 + year / 400 + OFFSET[month] + day) % 7) as u8 + 1
    }

    pub(super) fn store(self, bytes: &mut [u8], format: Format) {
        bytes[SECONDS] = format.encode(self.second);
        bytes[MINUTES] = format.encode(self.minute);
        bytes[HOURS] = format.encode_hour(self.hour);
        bytes[WEEKDAY] = format.encode(self.weekday());
        bytes[DAY] = format.encode(self.day);
        bytes[MONTH] = format.encode(self.month);
        bytes[YEAR] = format.encode((self.year % 100) as u8);
        bytes[CENTURY] = format.encode((self.year / 100 % 100) as u8);
    }
}

fn days_in_month(year: u16, month: u8) -> u8 {
    let is_leap = year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    match month {
        2 => 28 + u8::from(is_leap),
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Counts one second. Values that no clock shows wrap at the next carry, as comparisons are by
/// "at least the last".
pub(super) fn tick(bytes: &mut [u8], format: Format) {
    if !carry(bytes, SECONDS, format, 0, 59) || !carry(bytes, MINUTES, format, 0, 59) {
        return;
    }
    let hour = format.decode_hour(bytes[HOURS]);
    bytes[HOURS] = format.encode_hour(if hour >= 23 { 0 } else { hour + 1 });
    if hour < 23 {
        return;
    }
    carry(bytes, WEEKDAY, format, 1, 7);
    let century = u16::from(format.decode(bytes[CENTURY]));
    let year = century * 100 + u16::from(format.decode(bytes[YEAR]));
    let last = days_in_month(year, format.decode(bytes[MONTH]));
    let _ = carry(bytes, DAY, format, 1, last)
        && carry(bytes, MONTH, format, 1, 12)
        && carry(bytes, YEAR, format, 0, 99)
        && carry(bytes, CENTURY, format, 0, 99);
}

/// Adds one to a register; true if it went from `last` back to `first`.
fn carry(bytes: &mut [u8], at: usize, format: Format, first: u8, last: u8) -> bool {
    let value = format.decode(bytes[at]);
    let is_over = value >= last;
    bytes[at] = format.encode(if is_over { first } else { value + 1 });
    is_over
}

#[cfg(test)]
mod tests {
    use super::*;

    fn date(year: u16, month: u8, day: u8, hour: u8, minute: u8, second: u8) -> Date {
        Date { year, month, day, hour, minute, second }
    }

    #[test]
    fn unix_time_becomes_a_date() {
        for (seconds, expected, weekday) in [
            (0, date(1970, 1, 1, 0, 0, 0), 5),
            (951_782_399, date(2000, 2, 28, 23, 59, 59), 2),
            (951_782_400, date(2000, 2, 29, 0, 0, 0), 3),
            (951_868_800, date(2000, 3, 1, 0, 0, 0), 4),
            (1_767_225_600, date(2026, 1, 1, 0, 0, 0), 5),
            (4_107_542_400, date(2100, 3, 1, 0, 0, 0), 2),
        ] {
            let found = Date::from_unix(seconds);
            assert_eq!(found, expected);
            assert_eq!(found.weekday(), weekday, "{expected:?}");
        }
    }

    #[test]
    fn a_second_carries_through_all_registers_in_every_format() {
        for (is_binary, is_24_hour) in [(false, false), (false, true), (true, false), (true, true)]
        {
            let format = Format { is_binary, is_24_hour };
            for (before, after) in [
                (date(2026, 1, 1, 0, 0, 9), date(2026, 1, 1, 0, 0, 10)),
                (date(2026, 1, 1, 11, 59, 59), date(2026, 1, 1, 12, 0, 0)),
                (date(2026, 1, 1, 12, 59, 59), date(2026, 1, 1, 13, 0, 0)),
                (date(2024, 2, 28, 23, 59, 59), date(2024, 2, 29, 0, 0, 0)),
                (date(2023, 2, 28, 23, 59, 59), date(2023, 3, 1, 0, 0, 0)),
                (date(1999, 12, 31, 23, 59, 59), date(2000, 1, 1, 0, 0, 0)),
            ] {
                let (mut found, mut expected) = ([0; 128], [0; 128]);
                before.store(&mut found, format);
                after.store(&mut expected, format);
                tick(&mut found, format);
                assert_eq!(found, expected, "{before:?} {format:?}");
            }
        }
    }

    #[test]
    fn no_register_content_breaks_the_count() {
        for value in 0..=255 {
            for is_binary in [false, true] {
                let mut bytes = [value; 128];
                tick(&mut bytes, Format { is_binary, is_24_hour: value & 1 == 0 });
            }
        }
    }
}
