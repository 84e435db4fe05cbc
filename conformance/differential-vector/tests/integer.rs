//! Every integer instruction that user code may run in 64-bit mode: all encodings of the opcode
//! maps with random prefixes and operands, from boundary, all-zero, all-one and random registers,
//! with faults of every kind. Registers, RIP, defined flags, memory and faults must agree.
#![cfg(all(target_arch = "x86_64", target_os = "linux"))]

use differential_vector::integer::{
    Form, Opcode, Pair, Undefined, is_covered, is_first_fault_undefined, prepare, undefined_flags,
};
use differential_vector::operands::Random;
use iced_x86::Code;
use std::collections::BTreeMap;

/// Encodings of an opcode that are tried, accepted ones among them, and starts of each.
const ATTEMPTS: usize = 4000;
const FORMS: usize = 250;
const STARTS: usize = 20;

/// Disagreements, one example per instruction code.
#[derive(Default)]
struct Failures(BTreeMap<String, (u64, String)>);

impl Failures {
    fn note(&mut self, form: &Form, start: &str, difference: &str) {
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
        for (code, (count, example)) in &self.0 {
            println!("{code}: {count} disagree; {example}");
        }
        assert!(self.0.is_empty(), "{} instructions disagree with the host", self.0.len());
    }
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
            && !runs.contains_key(&format!("{code:?}"))
    };
    let missing: Vec<Code> = Code::values().filter(is_missing).collect();
    assert!(missing.is_empty(), "never run: {missing:?}");
}
