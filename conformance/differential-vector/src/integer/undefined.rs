//! Flags that the manuals leave undefined. [APM3 "General-Purpose Instruction Reference"]

use super::{Form, RCX, State};
use arch::control::rflags;
use iced_x86::{Mnemonic, OpKind, RflagsBits};

const PLACES: [(u32, u64); 6] = [
    (RflagsBits::CF, rflags::CF),
    (RflagsBits::PF, rflags::PF),
    (RflagsBits::AF, rflags::AF),
    (RflagsBits::ZF, rflags::ZF),
    (RflagsBits::SF, rflags::SF),
    (RflagsBits::OF, rflags::OF),
];

/// The count of a shift or rotation, masked as the processor masks it.
fn count(form: &Form, start: &State) -> u64 {
    let i = &form.instruction;
    let last = i.op_count() - 1;
    let raw = match i.op_kind(last) {
        OpKind::Immediate8 => u64::from(i.immediate8()),
        _ => start.gpr[RCX] & 0xFF,
    };
    let bytes = match i.op_kind(0) {
        OpKind::Memory => i.memory_size().size(),
        _ => i.op0_register().size(),
    };
    raw & if bytes == 8 { 63 } else { 31 }
}

fn is_short_double(form: &Form) -> bool {
    let i = &form.instruction;
    matches!(i.mnemonic(), Mnemonic::Shld | Mnemonic::Shrd) && i.op1_register().size() == 2
}

/// SHLD and SHRD of 16 bits by more leave the result undefined.
pub fn is_result_undefined(form: &Form, start: &State) -> bool {
    is_short_double(form) && count(form, start) > 16
}

/// The flags that an instruction leaves undefined from a state.
pub fn undefined_flags(form: &Form, start: &State) -> u64 {
    use Mnemonic::*;
    let named = form.instruction.rflags_undefined();
    let all = PLACES.iter().filter(|(bit, _)| named & bit != 0).fold(0, |all, (_, at)| all | at);
    match form.instruction.mnemonic() {
        Shl | Sal | Shr | Sar | Shld | Shrd => match count(form, start) {
            0 => 0,
            1 => rflags::AF,
            count if is_short_double(form) && count > 16 => rflags::STATUS,
            _ => all | rflags::AF | rflags::OF,
        },
        Rol | Ror | Rcl | Rcr => match count(form, start) {
            0 | 1 => 0,
            _ => rflags::OF,
        },
        _ => all,
    }
}

/// Whether two operands may both fault, and no manual says which first: CMPS, where Zen 4 reports
/// the second and Zen 5 the first. MOVS reads before it writes on all of them.
pub fn is_first_fault_undefined(form: &Form) -> bool {
    use Mnemonic::*;
    matches!(form.instruction.mnemonic(), Cmpsb | Cmpsw | Cmpsd | Cmpsq)
}
