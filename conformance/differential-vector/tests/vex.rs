//! Every VEX-encoded vector instruction of AVX, AVX2, FMA, F16C, AES and PCLMULQDQ: random
//! encodings with random operands, alignment and MXCSR. All registers, MXCSR, RFLAGS, memory and
//! faults must agree with the host's. An encoding that is never reached fails too.
#![cfg(all(target_arch = "x86_64", target_os = "linux"))]

use differential_vector::integer::is_amd;
use differential_vector::operands::{Random, mxcsrs};
use differential_vector::{Block, Emulated, Native, has_avx, signal};
use iced_x86::{
    Code, CpuidFeature, Decoder, DecoderOptions, EncodingKind, Instruction, Mnemonic, OpKind,
    Register,
};
use std::collections::{BTreeMap, BTreeSet};

/// Encodings that are tried of each instruction, and starts of each encoding.
const FORMS: usize = 12;
const STARTS: usize = 12;
/// Random bytes that are looked at before an instruction counts as never reached.
const ATTEMPTS: usize = 6_000_000;
const STATUS_FLAGS: u64 = 0x8D5;

/// What the tests cover and the host can execute.
fn is_covered(code: Code) -> bool {
    code.encoding() == EncodingKind::VEX
        && !matches!(code.mnemonic(), Mnemonic::Vmaskmovdqu)
        && code.cpuid_features().iter().all(|feature| match feature {
            CpuidFeature::AVX => has_avx(),
            CpuidFeature::AVX2 => std::is_x86_feature_detected!("avx2"),
            CpuidFeature::FMA => std::is_x86_feature_detected!("fma"),
            CpuidFeature::F16C => std::is_x86_feature_detected!("f16c"),
            CpuidFeature::AES => std::is_x86_feature_detected!("aes"),
            CpuidFeature::VAES => std::is_x86_feature_detected!("vaes"),
            CpuidFeature::PCLMULQDQ => std::is_x86_feature_detected!("pclmulqdq"),
            CpuidFeature::VPCLMULQDQ => std::is_x86_feature_detected!("vpclmulqdq"),
            _ => false,
        })
}

/// Results of which parts are free to choose bits.
fn is_approximate(mnemonic: Mnemonic) -> bool {
    matches!(
        mnemonic,
        Mnemonic::Vrcpps | Mnemonic::Vrcpss | Mnemonic::Vrsqrtps | Mnemonic::Vrsqrtss
    )
}

/// Random bytes behind a VEX prefix: registers, or memory by RSI, a displacement and at most an
/// index that is a vector.
fn random_bytes(random: &mut Random) -> Vec<u8> {
    let bits = random.next_u64();
    let map = 1 + (bits & 3) as u8 % 3;
    let vvvv = if bits & 0x70 == 0 { 15 } else { (bits >> 8) as u8 & 15 };
    let last = vvvv << 3 | (bits >> 12) as u8 & 0x87;
    let is_memory = bits >> 20 & 1 != 0;
    let extensions = (bits >> 24) as u8 & 0xE0 | if is_memory { 0x20 } else { 0 };
    let mut bytes = vec![0xC4, extensions | map, last];
    if map == 1 && bits >> 40 & 1 != 0 {
        bytes = vec![0xC5, last & 0x7F | extensions & 0x80];
    }
    let register = (bits >> 44) as u8 & 0x38;
    bytes.push((bits >> 32) as u8);
    match (is_memory, bits >> 41 & 1) {
        (true, 0) => bytes.extend([0x46 | register, (bits >> 52) as u8 & 0x3F]),
        (true, _) => {
            let sib = (bits >> 56) as u8 & 0xF8 | 6;
            bytes.extend([0x84 | register, sib, (bits >> 48) as u8, 1, 0, 0]);
        }
        _ => bytes.push(0xC0 | register | (bits >> 52) as u8 & 7),
    }
    bytes.push(random.next_u64() as u8);
    bytes
}

/// The instruction, if it is one that both sides can execute from a [`Block`].
fn decoded(bytes: &[u8]) -> Option<Instruction> {
    let instruction = Decoder::new(64, bytes, DecoderOptions::NONE).decode();
    let code = instruction.code();
    if code == Code::INVALID || !is_covered(code) {
        return None;
    }
    let is_usable = |register: Register| {
        !register.is_gpr()
            || matches!(register.full_register(), Register::RAX | Register::RCX | Register::RDX)
    };
    let registers = (0..instruction.op_count())
        .filter(|operand| instruction.op_kind(*operand) == OpKind::Register)
        .all(|operand| is_usable(instruction.op_register(operand)));
    let index = instruction.memory_index();
    (registers && (index == Register::None || index.is_vector_register())).then_some(instruction)
}

/// A register or memory of the kinds that matter to integers, to floating point and to masks.
fn vector(random: &mut Random) -> u128 {
    let mut value = 0;
    let kind = random.below(4);
    for lane in 0..4 {
        let lane_value = match kind {
            0 => random.runs() as u32,
            1 => random.single(),
            2 => (random.double() >> (32 * (lane & 1))) as u32,
            _ => random.next_u64() as u32,
        };
        value |= u128::from(lane_value) << (32 * lane);
    }
    match kind {
        2 => u128::from(random.double()) << 64 | u128::from(random.double()),
        _ => value,
    }
}

/// Small distances in every lane, from which a gather stays in the block's memory.
fn indices(random: &mut Random, is_dwords: bool) -> u128 {
    let bits = if is_dwords { 32 } else { 64 };
    (0..128 / bits).fold(0, |value, lane| {
        let index = random.below(33) as i64 - 16;
        value | (index as u128 & (u128::MAX >> (128 - bits))) << (lane * bits)
    })
}

fn start(random: &mut Random, instruction: &Instruction) -> Block {
    let mut block = Block::default();
    for register in 0..16 {
        block.image.set_xmm(register, vector(random));
        block.high[register] = vector(random).to_le_bytes();
    }
    for piece in block.memory.chunks_exact_mut(16) {
        piece.copy_from_slice(&vector(random).to_le_bytes());
    }
    if instruction.is_vsib() {
        let register = instruction.memory_index().number();
        let is_dwords = instruction.is_vsib32();
        block.image.set_xmm(register, indices(random, is_dwords));
        block.high[register] = indices(random, is_dwords).to_le_bytes();
    }
    let all = mxcsrs();
    let mxcsr = all[random.below(all.len() as u64) as usize];
    block.image.set_mxcsr(if random.below(3) == 0 { 0x1F80 } else { mxcsr });
    if matches!(instruction.mnemonic(), Mnemonic::Vldmxcsr) && random.below(2) == 0 {
        // Most random values have reserved bits.
        block.memory.chunks_exact_mut(2).skip(1).step_by(2).for_each(|upper| upper.fill(0));
    }
    (block.rax, block.rcx, block.rdx) = (random.runs(), random.runs(), random.runs());
    block.flags = 0x202 | random.next_u64() & STATUS_FLAGS;
    block
}

/// Where AMD's parts may take another of several NaN, both being one is enough.
fn are_both_nan(a: u128, b: u128, is_double: bool) -> bool {
    let (bits, exponent) = if is_double { (64, 0x7FFu128 << 52) } else { (32, 0xFF << 23) };
    (0..128 / bits).all(|lane| {
        let lane_of = |value: u128| value >> (lane * bits) & (u128::MAX >> (128 - bits));
        let is_nan = |value: u128| value & exponent == exponent;
        lane_of(a) == lane_of(b) || is_nan(lane_of(a)) && is_nan(lane_of(b))
    })
}

fn difference(instruction: &Instruction, host: &Block, ours: &Block) -> Option<String> {
    let is_fused = instruction.cpuid_features() == [CpuidFeature::FMA] && is_amd();
    let is_double = format!("{:?}", instruction.mnemonic()).ends_with('d');
    let agree = |a: u128, b: u128| a == b || is_fused && are_both_nan(a, b, is_double);
    for register in 0..16 {
        let (a, b) = (host.image.xmm(register), ours.image.xmm(register));
        let (c, d) = (host.high[register], ours.high[register]).map_each(u128::from_le_bytes);
        if !agree(a, b) || !agree(c, d) {
            return Some(format!("YMM{register} {c:032x}{a:032x}, here {d:032x}{b:032x}"));
        }
    }
    let rest = |block: &Block| {
        let registers = [block.rax, block.rcx, block.rdx, block.flags & STATUS_FLAGS];
        (registers, block.image.mxcsr(), block.memory)
    };
    let (a, b) = (rest(host), rest(ours));
    if a.0 != b.0 || a.1 != b.1 {
        return Some(format!("{:x?} {:x}, here {:x?} {:x}", a.0, a.1, b.0, b.1));
    }
    (a.2 != b.2).then(|| "memory".to_owned())
}

/// Both of a pair.
trait MapEach<A, B> {
    fn map_each(self, function: fn(A) -> B) -> (B, B);
}

impl<A, B> MapEach<A, B> for (A, A) {
    fn map_each(self, function: fn(A) -> B) -> (B, B) {
        (function(self.0), function(self.1))
    }
}

/// All starts of one encoding; the first disagreement.
fn compare(bytes: &[u8], instruction: &Instruction, random: &mut Random) -> Option<String> {
    let bytes = &bytes[..instruction.len()];
    let native = Native::from_bytes(bytes);
    let mut emulated = Emulated::of_host();
    emulated.load(bytes);
    (0..STARTS * scale()).find_map(|_| {
        let before = start(random, instruction);
        let (mut host, mut ours) = (before.clone(), before.clone());
        let caught = native.run(&mut host);
        let vector = emulated.run(&mut ours);
        let said = if signal(vector) != caught {
            Some(format!("host {caught:?}, here {vector:?}"))
        } else if is_approximate(instruction.mnemonic()) {
            None
        } else {
            difference(instruction, &host, &ours)
        };
        let said = said?;
        let operands: Vec<String> = (0..instruction.op_count())
            .map(|operand| match instruction.op_register(operand) {
                register if register.is_vector_register() => {
                    let number = register.number();
                    let high = u128::from_le_bytes(before.high[number]);
                    format!("{register:?} {high:032x}{:032x}", before.image.xmm(number))
                }
                register => format!("{register:?}"),
            })
            .collect();
        let mxcsr = before.image.mxcsr();
        Some(format!("{bytes:02x?} {said}\n    from {operands:x?}, MXCSR {mxcsr:x}"))
    })
}

/// How many times the usual number of starts, for a thorough run.
fn scale() -> usize {
    std::env::var("VEX_SCALE").ok().and_then(|scale| scale.parse().ok()).unwrap_or(1)
}

#[test]
fn vector_instructions_agree_with_the_host() {
    if !has_avx() {
        println!("skipped: the host has no AVX");
        return;
    }
    let wanted: BTreeSet<u32> =
        Code::values().filter(|code| is_covered(*code)).map(|code| code as u32).collect();
    let mut random = Random(7);
    let mut forms: BTreeMap<u32, usize> = BTreeMap::new();
    let mut failures: BTreeMap<u32, String> = BTreeMap::new();
    for _ in 0..ATTEMPTS {
        let bytes = random_bytes(&mut random);
        let Some(instruction) = decoded(&bytes) else { continue };
        let code = instruction.code() as u32;
        let count = forms.entry(code).or_default();
        if *count == FORMS || failures.contains_key(&code) {
            continue;
        }
        *count += 1;
        if let Some(said) = compare(&bytes, &instruction, &mut random) {
            failures.insert(code, format!("{:?}: {said}", instruction.code()));
        }
    }
    let never: Vec<Code> = Code::values()
        .filter(|code| wanted.contains(&(*code as u32)) && !forms.contains_key(&(*code as u32)))
        .collect();
    println!("{} instructions, {} forms", forms.len(), forms.values().sum::<usize>());
    failures.values().for_each(|said| println!("{said}"));
    assert!(never.is_empty(), "never reached: {never:?}");
    assert!(failures.is_empty(), "{} of {} disagree", failures.len(), forms.len());
}
