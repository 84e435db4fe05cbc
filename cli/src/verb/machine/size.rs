//! Amounts as people write them: 512M, 2G; 10ms, 2s.

use arch::time::Picoseconds;

/// Bytes, with an optional suffix K, M or G.
pub fn parse_bytes(text: &str) -> Result<u64, String> {
    let (digits, unit) = match text.as_bytes().last() {
        Some(b'K' | b'k') => (&text[..text.len() - 1], 1 << 10),
        Some(b'M' | b'm') => (&text[..text.len() - 1], 1 << 20),
        Some(b'G' | b'g') => (&text[..text.len() - 1], 1u64 << 30),
        _ => (text, 1),
    };
    digits
        .parse::<u64>()
        .ok()
        .and_then(|number| number.checked_mul(unit))
        .ok_or_else(|| format!("{text:?} is not a size such as 512M or 2G"))
}

/// Virtual time, with a suffix ns, us, ms, s or m.
pub fn parse_duration(text: &str) -> Result<Picoseconds, String> {
    let split = text.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(text.len());
    let (digits, unit) = text.split_at(split);
    let scale = match unit {
        "ps" => 1.0,
        "ns" => 1e3,
        "us" => 1e6,
        "ms" => 1e9,
        "s" => 1e12,
        "m" | "min" => 60e12,
        _ => return Err(format!("{text:?} is not a time such as 500ms or 10s")),
    };
    match digits.parse::<f64>() {
        Ok(number) if number >= 0.0 && number * scale < 1.8e19 => {
            Ok(Picoseconds((number * scale) as u64))
        }
        _ => Err(format!("{text:?} is not a time such as 500ms or 10s")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_and_durations_as_people_write_them() {
        assert_eq!(parse_bytes("512M"), Ok(512 << 20));
        assert_eq!(parse_bytes("4096"), Ok(4096));
        assert!(parse_bytes("12Q").is_err() && parse_bytes("").is_err());
        assert!(parse_bytes("99999999999G").is_err());
        assert_eq!(parse_duration("1.5ms"), Ok(Picoseconds(1_500_000_000)));
        assert!(parse_duration("3").is_err() && parse_duration("-1s").is_err());
    }
}
