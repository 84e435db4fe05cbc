//! Numbers that TOML has no room for.

use serde::Deserialize;

/// 64 bits in text, since TOML's numbers have 63: "0x0000_00FF_0000_0016".
#[derive(Clone, Copy, Default, Deserialize)]
#[serde(try_from = "String")]
pub(crate) struct Word(pub u64);

impl TryFrom<String> for Word {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let digits = text.strip_prefix("0x").map(|digits| digits.replace('_', ""));
        let value = digits.and_then(|digits| u64::from_str_radix(&digits, 16).ok());
        let wrong = || format!("{text:?} must be 0x and up to 16 hexadecimal digits");
        value.map(Self).ok_or_else(wrong)
    }
}
