//! Every integer instruction that user code may run in 64-bit mode: all encodings of the opcode
//! maps with random prefixes and operands, from boundary, all-zero, all-one and random registers,
//! with faults of every kind. Registers, RIP, defined flags, memory and faults must agree.
#![cfg(all(target_arch = "x86_64", target_os = "linux"))]

use differential_vector::integer::{
    Form, Opcode, Pair, Undefined, is_amd, is_covered, is_first_fault_undefined, prepare,
    undefined_flags,
};
use differential_vector::operands::Random;
use iced_x86::{Code, Mnemonic};
use std::collections::BTreeMap;

/// Encodings of an opcode that are tried, accepted ones among them, and starts of each.
const ATTEMPTS: usize = 4000;
const FORMS: usize = 250;
const STARTS: usize = 20;

/// Disagreements, one example per instruction code.
#[derive(Default)]
struct Failures(BTreeMap<String, (u64, String)>, u64);

impl Failures {
    fn note(&mut self, form: &Form, start: &str, difference: &str) {
        if !is_amd() && is_others_own(form, difference) {
            self.1 += 1;
            return;
        }
        let code = format!("{:?}", form.instruction.code());
        let (count, _) = self.0.entry(code).or_insert_with(|| {
            let lock = if form.is_undefined { " (LOCK not allowed)" } else { "" };
            (
                0,
                format!(
                    "{:02x?} at {:#x}{lock}{difference}\n    from {start}",
                    form.bytes, form.at
                ),
            )
        });
        *count += 1;
    }

    fn report(self) {
        if self.1 != 0 {
            println!("skipped: {} runs of integer instructions: vendors differ", self.1);
        }
        for (code, (count, example)) in &self.0 {
            println!("{code}: {count} disagree; {example}");
        }
        assert!(self.0.is_empty(), "{} instructions disagree with the host", self.0.len());
    }
}

/// Near branches with 16-bit operands, whose prefix Intel's processors ignore.
fn is_near_with_16_bits(code: Code) -> bool {
    let name = format!("{code:?}");
    name.starts_with("Retnw")
        || name.contains("_rel8_16")
        || name.ends_with("_rel16")
        || matches!(code, Code::Call_rm16 | Code::Jmp_rm16)
}

/// Whether vendors differ here, and the host does it the other way: the alignment check comes
/// before the one for canonical addresses; a call that cannot arrive has pushed; a string
/// instruction with addresses of 32 bits clears the upper halves of its registers although it does
/// nothing, and one that faults leaves the flags; the load of MOVSXD with 16 bits has 16.
fn is_others_own(form: &Form, difference: &str) -> bool {
    use Mnemonic::*;
    let is_string = matches!(
        form.instruction.mnemonic(),
        Cmpsb
            | Cmpsw
            | Cmpsd
            | Cmpsq
            | Lodsb
            | Lodsw
            | Lodsd
            | Lodsq
            | Movsb
            | Movsw
            | Movsd
            | Movsq
            | Scasb
            | Scasw
            | Scasd
            | Scasq
            | Stosb
            | Stosw
            | Stosd
            | Stosq
    );
    let is_misaligned = difference.contains("fault: host Some(Fault { vector: 11,");
    let code = form.instruction.code();
    is_string || is_misaligned || matches!(code, Code::Call_rm64 | Code::Movsxd_r16_rm16)
}

#[test]
fn every_integer_instruction_does_what_the_host_does() {
    let Some(mut pair) = Pair::new("zen5") else { return };
    let mut random = Random(1);
    let mut failures = Failures::default();
    let mut runs = BTreeMap::<String, u64>::new();
    pair.fill(&mut random);
    for opcode in Opcode::all() {
        let forms = (0..ATTEMPTS).filter_map({
            let mut random = Random(random.next_u64());
            move |_| Form::random(opcode, &mut random)
        });
        for form in forms.take(FORMS) {
            pair.load(form.at, &form.bytes);
            for _ in 0..STARTS {
                let Some(start) = prepare(&form, &mut pair, &mut random) else { continue };
                *runs.entry(format!("{:?}", form.instruction.code())).or_default() += 1;
                let undefined = Undefined {
                    flags: undefined_flags(&form, &start),
                    first_fault: is_first_fault_undefined(&form),
                };
                if let Err(difference) = pair.run(&start, 1, undefined) {
                    failures.note(&form, &format!("{start:x?}"), &difference);
                }
            }
        }
    }
    println!("{} runs of {} instruction codes", runs.values().sum::<u64>(), runs.len());
    failures.report();
    let is_missing = |code: &Code| {
        is_covered(code.mnemonic())
            && code.op_code().mode64()
            && !Form::is_left_out(*code)
            && (is_amd() || !is_near_with_16_bits(*code))
            && !runs.contains_key(&format!("{code:?}"))
    };
    let missing: Vec<Code> = Code::values().filter(is_missing).collect();
    assert!(missing.is_empty(), "never run: {missing:?}");
}
