//! Every form over all registers, sizes and kinds of address, read back by iced-x86's decoder.

use super::*;
use iced_x86::{
    Decoder, DecoderOptions, Instruction, InstructionInfoFactory, Mnemonic, OpAccess, OpKind,
};
use proptest::prelude::*;

/// The one instruction that `emit` makes.
fn decoded(emit: impl FnOnce(&mut Encoder)) -> Instruction {
    let mut encoder = Encoder::default();
    emit(&mut encoder);
    let counted = [Register::RAX, Register::RCX, Register::RDX].map(|one| encoder.changes(one));
    let bytes = encoder.finish();
    let mut decoder = Decoder::new(64, &bytes, DecoderOptions::NONE);
    let instruction = decoder.decode();
    assert!(!instruction.is_invalid(), "{bytes:02x?} is not an instruction");
    assert_eq!(instruction.len(), bytes.len(), "{bytes:02x?} is longer than its instruction");
    let mut factory = InstructionInfoFactory::new();
    for used in factory.info(&instruction).used_registers().iter().filter(|one| {
        let reads = [OpAccess::Read, OpAccess::CondRead, OpAccess::NoMemAccess, OpAccess::None];
        one.register().is_gpr() && !reads.contains(&one.access())
    }) {
        let count = counted.get(used.register().full_register().number());
        assert!(
            count.is_none_or(|count| *count > Some(0)),
            "{bytes:02x?} writes a register, which is not counted"
        );
    }
    instruction
}

fn register() -> impl Strategy<Value = Register> {
    (0u8..16).prop_map(Register)
}

fn size() -> impl Strategy<Value = Size> {
    prop_oneof![Just(Size::Byte), Just(Size::Word), Just(Size::Double), Just(Size::Quad)]
}

fn wide() -> impl Strategy<Value = Size> {
    prop_oneof![Just(Size::Word), Just(Size::Double), Just(Size::Quad)]
}

fn displacement() -> impl Strategy<Value = i32> {
    prop_oneof![Just(0), -128i32..128, any::<i32>()]
}

fn memory() -> impl Strategy<Value = Memory> {
    let index = prop::option::of(register().prop_filter("RSP is not an index", |r| r.0 != 4));
    (prop::option::of(register()), index, 0u8..4, displacement()).prop_map(
        |(base, index, scale, displacement)| Memory {
            base,
            index,
            scale: if index.is_some() { scale } else { 0 },
            displacement,
        },
    )
}

fn operand() -> impl Strategy<Value = Operand> {
    prop_oneof![register().prop_map(Operand::Register), memory().prop_map(Operand::Memory)]
}

fn is_register(i: &Instruction, n: u32, size: Size, register: Register) -> bool {
    use iced_x86::Register as R;
    let first = match size {
        Size::Byte => {
            // AL CL DL BL, then (with REX) SPL BPL SIL DIL, R8L ...: the last eight follow AH to
            // BH.
            let number = register.0 as u32;
            let first = if number < 4 { R::AL as u32 } else { R::SPL as u32 - 4 };
            return i.op_kind(n) == OpKind::Register && i.op_register(n) as u32 == first + number;
        }
        Size::Word => R::AX,
        Size::Double => R::EAX,
        Size::Quad => R::RAX,
    };
    i.op_kind(n) == OpKind::Register && i.op_register(n) as u32 == first as u32 + register.0 as u32
}

fn is_memory(i: &Instruction, n: u32, memory: Memory) -> bool {
    use iced_x86::Register as R;
    let number = |register: R| {
        (register != R::None).then(|| Register((register as u32 - R::RAX as u32) as u8))
    };
    i.op_kind(n) == OpKind::Memory
        && number(i.memory_base()) == memory.base
        && number(i.memory_index()) == memory.index
        && i.memory_index_scale() == 1 << memory.scale
        && i.memory_displacement64() == memory.displacement as i64 as u64
}

fn is_operand(i: &Instruction, n: u32, size: Size, operand: Operand) -> bool {
    match operand {
        Operand::Register(register) => is_register(i, n, size, register),
        Operand::Memory(memory) => {
            is_memory(i, n, memory) && i.memory_size().size() == size.bytes() as usize
        }
    }
}

fn truncated(value: i32, size: Size) -> u64 {
    value as i64 as u64 & u64::MAX >> (64 - size.bits())
}

fn immediate(i: &Instruction, n: u32, size: Size) -> u64 {
    i.immediate(n) & u64::MAX >> (64 - size.bits())
}

const ARITHMETIC: [(Arithmetic, Mnemonic); 8] = [
    (Arithmetic::Add, Mnemonic::Add),
    (Arithmetic::Or, Mnemonic::Or),
    (Arithmetic::Adc, Mnemonic::Adc),
    (Arithmetic::Sbb, Mnemonic::Sbb),
    (Arithmetic::And, Mnemonic::And),
    (Arithmetic::Sub, Mnemonic::Sub),
    (Arithmetic::Xor, Mnemonic::Xor),
    (Arithmetic::Cmp, Mnemonic::Cmp),
];

const SHIFTS: [(Shift, Mnemonic); 5] = [
    (Shift::Rol, Mnemonic::Rol),
    (Shift::Ror, Mnemonic::Ror),
    (Shift::Shl, Mnemonic::Shl),
    (Shift::Shr, Mnemonic::Shr),
    (Shift::Sar, Mnemonic::Sar),
];

const UNARY: [(Unary, Mnemonic); 8] = [
    (Unary::Not, Mnemonic::Not),
    (Unary::Neg, Mnemonic::Neg),
    (Unary::Mul, Mnemonic::Mul),
    (Unary::ImulWide, Mnemonic::Imul),
    (Unary::Div, Mnemonic::Div),
    (Unary::Idiv, Mnemonic::Idiv),
    (Unary::Inc, Mnemonic::Inc),
    (Unary::Dec, Mnemonic::Dec),
];

const BIT_TESTS: [(BitTest, Mnemonic); 4] = [
    (BitTest::Bt, Mnemonic::Bt),
    (BitTest::Bts, Mnemonic::Bts),
    (BitTest::Btr, Mnemonic::Btr),
    (BitTest::Btc, Mnemonic::Btc),
];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn arithmetic((op, name) in prop::sample::select(&ARITHMETIC[..]), s in size(),
                  to in operand(), from in register(), m in memory(), value in displacement()) {
        let i = decoded(|e| e.arithmetic(op, s, to, from));
        prop_assert_eq!(i.mnemonic(), name);
        prop_assert!(is_operand(&i, 0, s, to) && is_register(&i, 1, s, from));
        let i = decoded(|e| e.arithmetic_load(op, s, from, m));
        prop_assert_eq!(i.mnemonic(), name);
        prop_assert!(is_register(&i, 0, s, from) && is_operand(&i, 1, s, m.into()));
        let i = decoded(|e| e.arithmetic_value(op, s, to, value));
        prop_assert_eq!(i.mnemonic(), name);
        prop_assert!(is_operand(&i, 0, s, to));
        prop_assert_eq!(immediate(&i, 1, s), truncated(value, s));
    }

    #[test]
    fn test_and_moves(s in size(), to in operand(), from in register(), m in memory(),
                      value in displacement(), whole in any::<u64>()) {
        for (name, i) in [
            (Mnemonic::Test, decoded(|e| e.test(s, to, from))),
            (Mnemonic::Mov, decoded(|e| e.mov(s, to, from))),
        ] {
            prop_assert_eq!(i.mnemonic(), name);
            prop_assert!(is_operand(&i, 0, s, to) && is_register(&i, 1, s, from));
        }
        for (name, i) in [
            (Mnemonic::Test, decoded(|e| e.test_value(s, to, value))),
            (Mnemonic::Mov, decoded(|e| e.store_value(s, to, value))),
        ] {
            prop_assert_eq!(i.mnemonic(), name);
            prop_assert!(is_operand(&i, 0, s, to));
            prop_assert_eq!(immediate(&i, 1, s), truncated(value, s));
        }
        let i = decoded(|e| e.load(s, from, m));
        prop_assert_eq!(i.mnemonic(), Mnemonic::Mov);
        prop_assert!(is_register(&i, 0, s, from) && is_operand(&i, 1, s, m.into()));
        for value in [whole, whole >> 32, value as i64 as u64] {
            let i = decoded(|e| e.set(from, value));
            prop_assert_eq!(i.mnemonic(), Mnemonic::Mov);
            let s = if i.op_register(0).size() == 4 { Size::Double } else { Size::Quad };
            prop_assert!(is_register(&i, 0, s, from));
            prop_assert_eq!(i.immediate(1), value);
        }
    }

    #[test]
    fn addresses_and_extensions(s in wide(), to in register(), m in memory(), from in operand()) {
        let i = decoded(|e| e.lea(s, to, m));
        prop_assert_eq!(i.mnemonic(), Mnemonic::Lea);
        prop_assert!(is_register(&i, 0, s, to) && is_memory(&i, 1, m));
        for (extend, narrow, name) in [
            (Extend::Zero, Size::Byte, Mnemonic::Movzx),
            (Extend::Zero, Size::Word, Mnemonic::Movzx),
            (Extend::Sign, Size::Byte, Mnemonic::Movsx),
            (Extend::Sign, Size::Word, Mnemonic::Movsx),
            (Extend::Sign, Size::Double, Mnemonic::Movsxd),
            (Extend::Zero, Size::Double, Mnemonic::Mov),
        ] {
            let i = decoded(|e| e.extend(extend, (s, to), (narrow, from)));
            let wide = if name == Mnemonic::Mov { Size::Double } else { s };
            prop_assert_eq!(i.mnemonic(), name);
            prop_assert!(is_register(&i, 0, wide, to));
            // MOVSXD to 16 bits reads 16 on Intel's processors; it is never used.
            if (narrow, s) != (Size::Double, Size::Word) {
                prop_assert!(is_operand(&i, 1, narrow, from));
            }
        }
    }

    #[test]
    fn one_operand((op, name) in prop::sample::select(&UNARY[..]), s in size(), of in operand(),
                   (shift, shift_name) in prop::sample::select(&SHIFTS[..]), count in any::<u8>(),
                   (condition, register) in (0u8..16, register())) {
        let i = decoded(|e| e.unary(op, s, of));
        prop_assert_eq!(i.mnemonic(), name);
        prop_assert!(is_operand(&i, 0, s, of));
        let i = decoded(|e| e.shift(shift, s, of, count));
        prop_assert_eq!((i.mnemonic(), i.immediate8()), (shift_name, count));
        prop_assert!(is_operand(&i, 0, s, of));
        let i = decoded(|e| e.shift_by_cl(shift, s, of));
        prop_assert_eq!((i.mnemonic(), i.op_register(1)), (shift_name, iced_x86::Register::CL));
        prop_assert!(is_operand(&i, 0, s, of));
        let i = decoded(|e| e.set_if(Condition(condition), of));
        prop_assert_eq!(i.condition_code(), condition_code(condition));
        prop_assert!(is_operand(&i, 0, Size::Byte, of));
        for s in [Size::Double, Size::Quad] {
            let i = decoded(|e| e.bswap(s, register));
            prop_assert_eq!(i.mnemonic(), Mnemonic::Bswap);
            prop_assert!(is_register(&i, 0, s, register));
        }
        for (name, i) in [
            (Mnemonic::Push, decoded(|e| e.push(register))),
            (Mnemonic::Pop, decoded(|e| e.pop(register))),
            (Mnemonic::Jmp, decoded(|e| e.jump_to(register))),
        ] {
            prop_assert_eq!(i.mnemonic(), name);
            prop_assert!(is_register(&i, 0, Size::Quad, register));
        }
    }

    #[test]
    fn products_bits_and_conditional_moves(s in wide(), to in register(), from in operand(),
                                           value in displacement(), bit in 0u8..64,
                                           condition in 0u8..16, other in register()) {
        let i = decoded(|e| e.imul(s, to, from));
        prop_assert_eq!((i.mnemonic(), i.op_count()), (Mnemonic::Imul, 2));
        prop_assert!(is_register(&i, 0, s, to) && is_operand(&i, 1, s, from));
        let i = decoded(|e| e.imul_value(s, to, from, value));
        prop_assert_eq!((i.mnemonic(), i.op_count()), (Mnemonic::Imul, 3));
        prop_assert!(is_register(&i, 0, s, to) && is_operand(&i, 1, s, from));
        prop_assert_eq!(immediate(&i, 2, s), truncated(value, s));
        for (test, name) in BIT_TESTS {
            let i = decoded(|e| e.bit_test(test, s, from, bit));
            prop_assert_eq!((i.mnemonic(), i.immediate8()), (name, bit));
            prop_assert!(is_operand(&i, 0, s, from));
            let i = decoded(|e| e.bit_test_by(test, s, to, other));
            prop_assert_eq!(i.mnemonic(), name);
            prop_assert!(is_register(&i, 0, s, to) && is_register(&i, 1, s, other));
        }
        let i = decoded(|e| e.move_if(Condition(condition), s, to, from));
        prop_assert_eq!(i.condition_code(), condition_code(condition));
        prop_assert!(is_register(&i, 0, s, to) && is_operand(&i, 1, s, from));
    }

    #[test]
    fn exchanges_and_additions(s in size(), m in memory(), from in register()) {
        let i = decoded(|e| e.exchange_add(s, m, from));
        prop_assert_eq!(i.mnemonic(), Mnemonic::Xadd);
        prop_assert!(is_operand(&i, 0, s, m.into()) && is_register(&i, 1, s, from));
    }

    #[test]
    fn jumps_through_memory(m in memory()) {
        for (name, i) in [
            (Mnemonic::Jmp, decoded(|e| e.jump_through(m))),
            (Mnemonic::Call, decoded(|e| e.call_through(m))),
        ] {
            prop_assert_eq!(i.mnemonic(), name);
            prop_assert!(is_memory(&i, 0, m));
        }
    }

    #[test]
    fn operations_on_ah((op, name) in prop::sample::select(&ARITHMETIC[..]), low in 0u8..4,
                        value in any::<u8>()) {
        use iced_x86::Register::AH;
        let low = Register(low);
        let i = decoded(|e| e.arithmetic_to_ah(op, low));
        prop_assert_eq!((i.mnemonic(), i.op_register(0)), (name, AH));
        prop_assert!(is_register(&i, 1, Size::Byte, low));
        let i = decoded(|e| e.arithmetic_value_to_ah(op, value));
        prop_assert_eq!((i.mnemonic(), i.op_register(0), i.immediate8()), (name, AH, value));
    }
}

fn condition_code(number: u8) -> iced_x86::ConditionCode {
    use iced_x86::ConditionCode::*;
    [o, no, b, ae, e, ne, be, a, s, ns, p, np, l, ge, le, g][number as usize]
}

#[test]
fn instructions_without_operands() {
    for (name, i) in [
        (Mnemonic::Lahf, decoded(Encoder::lahf)),
        (Mnemonic::Sahf, decoded(Encoder::sahf)),
        (Mnemonic::Cdq, decoded(|e| e.spread_sign(Size::Double))),
        (Mnemonic::Cqo, decoded(|e| e.spread_sign(Size::Quad))),
        (Mnemonic::Cwd, decoded(|e| e.spread_sign(Size::Word))),
        (Mnemonic::Ret, decoded(Encoder::ret)),
    ] {
        assert_eq!(i.mnemonic(), name);
    }
}

#[test]
fn labels_are_reached_forwards_and_backwards() {
    let mut e = Encoder::default();
    let (back, forward) = (e.label(), e.label());
    e.ret();
    e.place(back);
    e.jump_if(Condition::CARRY, forward);
    e.jump(back);
    e.place(forward);
    e.ret();
    let bytes = e.finish();
    let decoder = Decoder::with_ip(64, &bytes, 0, DecoderOptions::NONE);
    let targets: Vec<u64> = decoder.into_iter().map(|i| i.near_branch_target()).collect();
    assert_eq!(targets, [0, 12, 1, 0]);
}

#[test]
fn open_distances_stand_at_the_end_of_their_instructions() {
    for (name, emit) in [
        (Mnemonic::Jmp, Encoder::jump_away as fn(&mut Encoder) -> usize),
        (Mnemonic::Call, Encoder::call_away),
        (Mnemonic::Jmp, Encoder::jump_through_away),
    ] {
        let mut at = 0;
        let i = decoded(|e| at = emit(e));
        assert_eq!((i.mnemonic(), i.len()), (name, at + 4));
    }
}

proptest! {
    #[test]
    fn vectors(m in memory(), register in register(), value in any::<u8>()) {
        use iced_x86::Register as R;
        let (zero, one) = (Vector::Xmm0, Vector::Xmm1);
        let i = decoded(|e| e.vector_load(one, m));
        prop_assert!(i.mnemonic() == Mnemonic::Movups && i.op_register(0) == R::XMM1);
        prop_assert!(is_memory(&i, 1, m));
        let i = decoded(|e| e.vector_store(m, zero));
        prop_assert!(i.mnemonic() == Mnemonic::Movups && i.op_register(1) == R::XMM0);
        prop_assert!(is_memory(&i, 0, m));
        for (opcode, is_prefixed, name) in
            [(0xEF, true, Mnemonic::Pxor), (0x57, false, Mnemonic::Xorps)]
        {
            let i = decoded(|e| e.vector(VectorOperation { opcode, is_prefixed }, zero, one));
            prop_assert_eq!(i.mnemonic(), name);
            prop_assert_eq!((i.op_register(0), i.op_register(1)), (R::XMM0, R::XMM1));
        }
        let shuffle = VectorOperation { opcode: 0x70, is_prefixed: true };
        let i = decoded(|e| e.vector_value(shuffle, zero, one, value));
        prop_assert_eq!((i.mnemonic(), i.immediate8()), (Mnemonic::Pshufd, value));
        let i = decoded(|e| e.vector_shift(0x73, 3, zero, value));
        prop_assert_eq!((i.mnemonic(), i.immediate8()), (Mnemonic::Psrldq, value));
        prop_assert_eq!(i.op_register(0), R::XMM0);
        let i = decoded(|e| e.vector_mask(register, one));
        prop_assert!(i.mnemonic() == Mnemonic::Pmovmskb && i.op_register(1) == R::XMM1);
        prop_assert!(is_register(&i, 0, Size::Double, register));
    }
}
