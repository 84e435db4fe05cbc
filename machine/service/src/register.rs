//! Registers by name.

use crate::error::{Code, Refusal};
use crate::request::Number;
use board::debugger::DebugRegisters;
use serde_json::{Map, Value};
use std::collections::BTreeMap;

const GENERAL: [&str; 16] = [
    "rax", "rbx", "rcx", "rdx", "rsi", "rdi", "rbp", "rsp", "r8", "r9", "r10", "r11", "r12", "r13",
    "r14", "r15",
];
const SEGMENTS: [&str; 6] = ["cs", "ss", "ds", "es", "fs", "gs"];
const SYSTEM: [&str; 9] =
    ["cr0", "cr2", "cr3", "cr4", "cr8", "efer", "cs_base", "ss_base", "tr_base"];

/// All of them; those of more than 64 bits as text.
pub fn all(registers: &DebugRegisters) -> Map<String, Value> {
    let mut all = Map::new();
    let mut put = |name: &str, value: u64| all.insert(name.into(), value.into());
    for (name, value) in GENERAL.iter().zip(registers.general) {
        put(name, value);
    }
    put("rip", registers.rip);
    put("rflags", registers.rflags.into());
    for (name, value) in SEGMENTS.iter().zip(registers.segments) {
        put(name, value.into());
    }
    for (name, value) in SYSTEM.iter().zip(registers.system) {
        put(name, value);
    }
    put("fs_base", registers.fs_base);
    put("gs_base", registers.gs_base);
    put("mxcsr", registers.mxcsr.into());
    for (number, value) in registers.xmm.iter().enumerate() {
        all.insert(format!("xmm{number}"), format!("{value:#x}").into());
    }
    for (number, value) in registers.x87.iter().enumerate() {
        let mut bytes = [0; 16];
        bytes[..10].copy_from_slice(value);
        all.insert(format!("st{number}"), format!("{:#x}", u128::from_le_bytes(bytes)).into());
    }
    all
}

/// Those that are named.
pub fn some(registers: &DebugRegisters, names: &[String]) -> Result<Map<String, Value>, Refusal> {
    let mut all = all(registers);
    let mut some = Map::new();
    for name in names {
        if let Some(value) = all.remove(name) {
            some.insert(name.clone(), value);
        } else if !some.contains_key(name) {
            return Err(Refusal::new(Code::Register, format!("no register {name:?}")));
        }
    }
    Ok(some)
}

/// Puts values in; nothing is changed if one cannot be.
pub fn put(
    registers: &mut DebugRegisters,
    values: &BTreeMap<String, Number>,
) -> Result<(), Refusal> {
    for (name, value) in values {
        let narrow = || value.word(name);
        let half = || {
            u32::try_from(value.0).map_err(|_| {
                let text = format!("{name} {:#x}: must have 32 bits at most", value.0);
                Refusal::new(Code::Register, text)
            })
        };
        if let Some(place) = GENERAL.iter().position(|general| general == name) {
            registers.general[place] = narrow()?;
            continue;
        }
        let vector = name.strip_prefix("xmm").and_then(|number| number.parse::<usize>().ok());
        if let Some(vector) = vector.and_then(|number| registers.xmm.get_mut(number)) {
            *vector = value.0;
            continue;
        }
        match name.as_str() {
            "rip" => registers.rip = narrow()?,
            "rflags" => registers.rflags = half()?,
            "mxcsr" => registers.mxcsr = half()?,
            "fs_base" => registers.fs_base = narrow()?,
            "gs_base" => registers.gs_base = narrow()?,
            _ => {
                let text = format!(
                    "{name:?} cannot be set: {}, rip, rflags, fs_base, gs_base, mxcsr and xmm0 to \
                     xmm15 can",
                    GENERAL.join(", ")
                );
                return Err(Refusal::new(Code::Register, text));
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_register_that_can_be_set_is_seen_and_others_are_refused_by_name() {
        let mut registers = DebugRegisters::default();
        for (name, value, is_possible) in [
            ("rax", u128::from(u64::MAX), true),
            ("rax", 1 << 64, false),
            ("r15", 5, true),
            ("rflags", 2, true),
            ("rflags", 1 << 32, false),
            ("xmm15", u128::MAX, true),
            ("xmm16", 0, false),
            ("cr3", 0, false),
            ("cs", 8, false),
            ("nothing", 0, false),
        ] {
            let values = BTreeMap::from([(name.to_owned(), Number(value))]);
            let outcome = put(&mut registers, &values);
            assert_eq!(outcome.is_ok(), is_possible, "{name} {value:#x}");
            if is_possible {
                let seen = some(&registers, &[name.to_owned()]).expect("it is there");
                let seen: Number = serde_json::from_value(seen[name].clone()).expect("a number");
                assert_eq!(seen.0, value, "{name}");
            }
        }
        assert!(some(&registers, &["nothing".into()]).is_err());
        assert_eq!(all(&registers).len(), 16 + 2 + 6 + 9 + 3 + 16 + 8);
    }
}
