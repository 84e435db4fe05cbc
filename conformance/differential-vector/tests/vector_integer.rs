//! Integer SSE and MMX instructions on random and boundary lanes.
#![cfg(all(target_arch = "x86_64", target_os = "linux"))]

use cpu::float::extended::Extended;
use cpu::vector::{
    aes, carryless, crc, extract, integer, mmx, multiply, sha, shift, shuffle, string,
};
use differential_vector::operands::Random;
use differential_vector::{Block, Native};
use iced_x86::IcedError;
use iced_x86::code_asm::*;

type Shift = fn(u128, u64) -> u128;
type Extraction = fn(u128, u8) -> u64;
type Insertion = fn(u128, u64, u8) -> u128;
type Mask = fn(u128) -> u32;
type Assemble = fn(&mut CodeAssembler) -> Result<(), IcedError>;

const CASES: usize = 3000;

/// Lanes of extremes and of arbitrary values, mixed.
fn operand(random: &mut Random) -> u128 {
    match random.below(5) {
        0 => random.next_u128(),
        1 => u128::from(random.runs()) << 64 | u128::from(random.runs()),
        2 => u128::from_le_bytes(std::array::from_fn(|_| {
            [0, 1, 0x7F, 0x80, 0x81, 0xFF, 0xFE, 0x40][random.below(8) as usize]
        })),
        3 => (0..8).fold(0, |value, _| {
            value << 16
                | [0u128, 1, 0x7FFF, 0x8000, 0x8001, 0xFFFF, 0xFF, 0xFF80][random.below(8) as usize]
        }),
        _ => (0..4).fold(0, |value, _| {
            value << 32
                | [0u128, 1, 0x7FFF_FFFF, 0x8000_0000, 0xFFFF_FFFF, 0x1_0000]
                    [random.below(6) as usize]
        }),
    }
}

/// XMM0 after the instruction, for XMM0 = a, XMM1 = b and XMM2 = c.
fn check(name: &str, assemble: Assemble, model: impl Fn(u128, u128, u128) -> u128) {
    let native = Native::new(assemble);
    let mut random = Random(40);
    for _ in 0..CASES {
        let [a, b, c] = std::array::from_fn(|_| operand(&mut random));
        let mut block = Block::default();
        for (index, value) in [a, b, c].into_iter().enumerate() {
            block.image.set_xmm(index, value);
        }
        native.run(&mut block);
        let (host, ours) = (block.image.xmm(0), model(a, b, c));
        assert_eq!(
            host, ours,
            "{name} {a:#034x} {b:#034x} {c:#034x}: host {host:#x} model {ours:#x}"
        );
    }
}

macro_rules! binary {
    ($($module:ident::$name:ident),* $(,)?) => {
        $(check(stringify!($name), |a| a.$name(xmm0, xmm1), |a, b, _| $module::$name(a, b));)*
    };
}

#[test]
fn lane_arithmetic_agrees() {
    use integer as i;
    binary!(
        i::paddb,
        i::paddw,
        i::paddd,
        i::paddq,
        i::psubb,
        i::psubw,
        i::psubd,
        i::psubq,
        i::paddsb,
        i::paddsw,
        i::paddusb,
        i::paddusw,
        i::psubsb,
        i::psubsw,
        i::psubusb,
        i::psubusw,
        i::pavgb,
        i::pavgw,
        i::pminub,
        i::pminsb,
        i::pminuw,
        i::pminsw,
        i::pminud,
        i::pminsd,
        i::pmaxub,
        i::pmaxsb,
        i::pmaxuw,
        i::pmaxsw,
        i::pmaxud,
        i::pmaxsd,
        i::pcmpeqb,
        i::pcmpeqw,
        i::pcmpeqd,
        i::pcmpeqq,
        i::pcmpgtb,
        i::pcmpgtw,
        i::pcmpgtd,
        i::pcmpgtq,
        i::psignb,
        i::psignw,
        i::psignd,
        i::pabsb,
        i::pabsw,
        i::pabsd,
        i::pand,
        i::pandn,
        i::por,
        i::pxor,
        i::phaddw,
        i::phaddd,
        i::phaddsw,
        i::phsubw,
        i::phsubd,
        i::phsubsw,
        i::phminposuw,
    );
}

#[test]
fn multiplication_agrees() {
    use multiply as m;
    binary!(
        m::pmullw,
        m::pmulhw,
        m::pmulhuw,
        m::pmulld,
        m::pmuludq,
        m::pmuldq,
        m::pmulhrsw,
        m::pmaddwd,
        m::pmaddubsw,
        m::psadbw,
    );
}

#[test]
fn lane_movement_agrees() {
    use shuffle as s;
    binary!(
        s::pshufb,
        s::punpcklbw,
        s::punpcklwd,
        s::punpckldq,
        s::punpcklqdq,
        s::punpckhbw,
        s::punpckhwd,
        s::punpckhdq,
        s::punpckhqdq,
        s::packsswb,
        s::packuswb,
        s::packssdw,
        s::packusdw,
        s::pmovsxbw,
        s::pmovsxbd,
        s::pmovsxbq,
        s::pmovsxwd,
        s::pmovsxwq,
        s::pmovsxdq,
        s::pmovzxbw,
        s::pmovzxbd,
        s::pmovzxbq,
        s::pmovzxwd,
        s::pmovzxwq,
        s::pmovzxdq,
        s::movddup,
        s::movsldup,
        s::movshdup,
    );
    // The implicit mask is XMM0, the destination too.
    check("pblendvb", |a| a.pblendvb(xmm0, xmm1), |a, b, _| s::pblendvb(a, b, a));
    check("blendvps", |a| a.blendvps(xmm0, xmm1), |a, b, _| s::blendvps(a, b, a));
    check("blendvpd", |a| a.blendvpd(xmm0, xmm1), |a, b, _| s::blendvpd(a, b, a));
}

/// Every immediate of instructions that take one.
macro_rules! immediates {
    ($name:ident, $mnemonic:ident, $model:expr) => {
        for immediate in 0..=255u32 {
            let native = Native::new(|a: &mut CodeAssembler| a.$mnemonic(xmm0, xmm1, immediate));
            let mut random = Random(41 + u64::from(immediate));
            for _ in 0..30 {
                let (a, b) = (operand(&mut random), operand(&mut random));
                let mut block = Block::default();
                block.image.set_xmm(0, a);
                block.image.set_xmm(1, b);
                native.run(&mut block);
                let model: fn(u128, u128, u8) -> u128 = $model;
                let (host, ours) = (block.image.xmm(0), model(a, b, immediate as u8));
                assert_eq!(host, ours, "{} {immediate:#x} {a:#034x} {b:#034x}", stringify!($name));
            }
        }
    };
}

#[test]
fn immediate_forms_agree() {
    immediates!(pshufd, pshufd, |_, b, i| shuffle::pshufd(b, i));
    immediates!(pshuflw, pshuflw, |_, b, i| shuffle::pshuflw(b, i));
    immediates!(pshufhw, pshufhw, |_, b, i| shuffle::pshufhw(b, i));
    immediates!(shufps, shufps, shuffle::shufps);
    immediates!(shufpd, shufpd, shuffle::shufpd);
    immediates!(palignr, palignr, shuffle::palignr);
    immediates!(pblendw, pblendw, shuffle::pblendw);
    immediates!(blendps, blendps, shuffle::blendps);
    immediates!(blendpd, blendpd, shuffle::blendpd);
    immediates!(mpsadbw, mpsadbw, multiply::mpsadbw);
    immediates!(insertps, insertps, |a, b, i| {
        shuffle::insertps(a, extract::pextrd(b, i >> 6), i)
    });
}

/// Instructions outside SSE4.2, which the rest of this file takes for granted.
fn has_ciphers() -> bool {
    let has_all = std::is_x86_feature_detected!("aes")
        && std::is_x86_feature_detected!("pclmulqdq")
        && std::is_x86_feature_detected!("sha");
    if !has_all {
        println!("skipped: the host lacks AES, PCLMULQDQ or SHA instructions");
    }
    has_all
}

#[test]
fn ciphers_and_hashes_agree() {
    if !has_ciphers() {
        return;
    }
    immediates!(pclmulqdq, pclmulqdq, carryless::pclmulqdq);
    immediates!(sha1rnds4, sha1rnds4, sha::sha1rnds4);
    immediates!(aeskeygenassist, aeskeygenassist, |_, b, i| aes::aeskeygenassist(b, i));
    binary!(
        aes::aesenc,
        aes::aesenclast,
        aes::aesdec,
        aes::aesdeclast,
        aes::aesimc,
        sha::sha1nexte,
        sha::sha1msg1,
        sha::sha1msg2,
        sha::sha256msg1,
        sha::sha256msg2,
    );
    check(
        "sha256rnds2",
        |a| a.sha256rnds2(xmm2, xmm1).and_then(|()| a.movdqa(xmm0, xmm2)),
        |a, b, c| sha::sha256rnds2(c, b, a),
    );
}

#[test]
fn shifts_agree() {
    let cases: [(&str, Assemble, Shift); 8] = [
        ("psllw", |a| a.psllw(xmm0, xmm1), shift::psllw),
        ("pslld", |a| a.pslld(xmm0, xmm1), shift::pslld),
        ("psllq", |a| a.psllq(xmm0, xmm1), shift::psllq),
        ("psrlw", |a| a.psrlw(xmm0, xmm1), shift::psrlw),
        ("psrld", |a| a.psrld(xmm0, xmm1), shift::psrld),
        ("psrlq", |a| a.psrlq(xmm0, xmm1), shift::psrlq),
        ("psraw", |a| a.psraw(xmm0, xmm1), shift::psraw),
        ("psrad", |a| a.psrad(xmm0, xmm1), shift::psrad),
    ];
    let mut random = Random(42);
    for (name, assemble, model) in cases {
        let native = Native::new(assemble);
        for count in (0..70).chain([255, 256, 1 << 31, 1 << 32, 1 << 63, u64::MAX]) {
            let a = operand(&mut random);
            let mut block = Block::default();
            block.image.set_xmm(0, a);
            block.image.set_xmm(1, u128::from(random.next_u64()) << 64 | u128::from(count));
            native.run(&mut block);
            assert_eq!(block.image.xmm(0), model(a, count), "{name} {a:#x} by {count:#x}");
        }
    }
    for count in 0..=255 {
        let left = Native::new(|a| a.pslldq(xmm0, count));
        let right = Native::new(|a| a.psrldq(xmm0, count));
        for (native, model) in [(left, shift::pslldq as Shift), (right, shift::psrldq)] {
            let a = operand(&mut random);
            let mut block = Block::default();
            block.image.set_xmm(0, a);
            native.run(&mut block);
            assert_eq!(block.image.xmm(0), model(a, count as u64), "{a:#x} by {count} bytes");
        }
    }
}

/// MM0 after the instruction, for MM0 = a and MM1 = b.
fn check_mmx(name: &str, assemble: Assemble, model: impl Fn(u64, u64) -> u64) {
    let native = Native::new(assemble);
    let mut random = Random(43);
    for _ in 0..CASES {
        let (a, b) = (operand(&mut random) as u64, operand(&mut random) as u64);
        let mut block = Block::default();
        block.image.set_tags(0xFF);
        block.image.set_st(0, Extended { significand: a, sign_exponent: 0xFFFF });
        block.image.set_st(1, Extended { significand: b, sign_exponent: 0xFFFF });
        native.run(&mut block);
        let expected = Extended { significand: model(a, b), sign_exponent: 0xFFFF };
        assert_eq!(block.image.st(0), expected, "{name} {a:#x} {b:#x}");
    }
}

macro_rules! mmx_lanes {
    ($($module:ident::$name:ident),* $(,)?) => {
        $(check_mmx(stringify!($name), |a| a.$name(mm0, mm1), |a, b| {
            $module::$name(a.into(), b.into()) as u64
        });)*
    };
}

macro_rules! mmx_whole {
    ($($name:ident),* $(,)?) => {
        $(check_mmx(stringify!($name), |a| a.$name(mm0, mm1), mmx::$name);)*
    };
}

#[test]
fn mmx_forms_agree() {
    use {integer as i, multiply as m};
    mmx_lanes!(
        i::paddb,
        i::paddw,
        i::paddd,
        i::paddq,
        i::psubb,
        i::psubw,
        i::psubd,
        i::psubq,
        i::paddsb,
        i::paddsw,
        i::paddusb,
        i::paddusw,
        i::psubsb,
        i::psubsw,
        i::psubusb,
        i::psubusw,
        i::pavgb,
        i::pavgw,
        i::pminub,
        i::pminsw,
        i::pmaxub,
        i::pmaxsw,
        i::pcmpeqb,
        i::pcmpeqw,
        i::pcmpeqd,
        i::pcmpgtb,
        i::pcmpgtw,
        i::pcmpgtd,
        i::psignb,
        i::psignw,
        i::psignd,
        i::pabsb,
        i::pabsw,
        i::pabsd,
        i::pand,
        i::por,
        i::pxor,
        i::pandn,
        m::pmullw,
        m::pmulhw,
        m::pmulhuw,
        m::pmuludq,
        m::pmulhrsw,
        m::pmaddwd,
        m::pmaddubsw,
    );
    mmx_whole!(
        packsswb, packuswb, packssdw, punpcklbw, punpcklwd, punpckldq, punpckhbw, punpckhwd,
        punpckhdq, pshufb, phaddw, phaddd, phaddsw, phsubw, phsubd, phsubsw, psadbw,
    );
    check_mmx("palignr", |a| a.palignr(mm0, mm1, 3), |a, b| mmx::palignr(a, b, 3));
    check_mmx("palignr", |a| a.palignr(mm0, mm1, 11), |a, b| mmx::palignr(a, b, 11));
    check_mmx("palignr", |a| a.palignr(mm0, mm1, 16), |a, b| mmx::palignr(a, b, 16));
    check_mmx("pshufw", |a| a.pshufw(mm0, mm1, 0x4B), |_, b| mmx::pshufw(b, 0x4B));
}

/// CF, PF, AF, ZF, SF and OF.
const STATUS_FLAGS: u64 = 0x8D5;

fn string_flags(comparison: &string::Comparison) -> u64 {
    u64::from(comparison.has_any())
        | u64::from(comparison.is_second_short) << 6
        | u64::from(comparison.is_first_short) << 7
        | u64::from(comparison.has_first()) << 11
}

/// Few distinct elements, so that strings match, and zeros, so that they end.
fn text(random: &mut Random) -> u128 {
    let alphabet = [0, b'a', b'b', b'c', 0x80, 0xFF, b'a', b'b'];
    let from = random.below(2);
    u128::from_le_bytes(std::array::from_fn(|_| alphabet[(from + random.below(8 - from)) as usize]))
}

#[test]
fn string_comparisons_agree_for_every_immediate() {
    let mut random = Random(44);
    for immediate in 0..128u32 {
        let natives = [
            Native::new(|a| a.pcmpistri(xmm1, xmm2, immediate)),
            Native::new(|a| a.pcmpistrm(xmm1, xmm2, immediate)),
            Native::new(|a| a.pcmpestri(xmm1, xmm2, immediate)),
            Native::new(|a| a.pcmpestrm(xmm1, xmm2, immediate)),
            Native::new(|a| a.pcmpestri64(xmm1, xmm2, immediate)),
        ];
        let byte = immediate as u8;
        for case in 0..600 {
            let (a, b) = (text(&mut random), text(&mut random));
            let length = |random: &mut Random| match random.below(8) {
                0 => random.next_u64() as i64,
                1 => i64::from(i32::MIN),
                _ => random.below(40) as i64 - 20,
            };
            let lengths = (length(&mut random), length(&mut random));
            for (form, native) in natives.iter().enumerate() {
                let mut block = Block::default();
                block.image.set_xmm(1, a);
                block.image.set_xmm(2, b);
                (block.rax, block.rdx) = (lengths.0 as u64, lengths.1 as u64);
                native.run(&mut block);
                let narrow = |length: i64| i64::from(length as i32);
                let comparison = match form {
                    0 | 1 => string::implicit(a, b, byte),
                    2 | 3 => string::explicit(a, b, (narrow(lengths.0), narrow(lengths.1)), byte),
                    _ => string::explicit(a, b, lengths, byte),
                };
                let place =
                    format!("form {form} {byte:#x} {a:#034x} {b:#034x} {lengths:?} case {case}");
                assert_eq!(block.flags & STATUS_FLAGS, string_flags(&comparison), "{place}: flags");
                match form {
                    1 | 3 => assert_eq!(block.image.xmm(0), comparison.mask(byte), "{place}"),
                    _ => assert_eq!(block.rcx, u64::from(comparison.index(byte)), "{place}"),
                }
            }
        }
    }
}

#[test]
fn masks_tests_checksums_and_bit_fields_agree() {
    let masks: [(Assemble, Mask); 3] = [
        (|a| a.pmovmskb(eax, xmm0), integer::pmovmskb),
        (|a| a.movmskps(eax, xmm0), integer::movmskps),
        (|a| a.movmskpd(eax, xmm0), integer::movmskpd),
    ];
    let mut random = Random(45);
    for (assemble, model) in masks {
        let native = Native::new(assemble);
        for _ in 0..CASES {
            let a = operand(&mut random);
            let mut block = Block::default();
            block.image.set_xmm(0, a);
            native.run(&mut block);
            assert_eq!(block.rax, model(a).into(), "{a:#x}");
        }
    }
    let (ptest, crc_byte, crc_quad) = (
        Native::new(|a| a.ptest(xmm0, xmm1)),
        Native::new(|a| a.crc32(eax, cl)),
        Native::new(|a| a.crc32(rax, rcx)),
    );
    let (extrq, insertq) =
        (Native::new(|a| a.extrq(xmm0, xmm1)), Native::new(|a| a.insertq(xmm0, xmm1)));
    for case in 0..CASES {
        let (a, mut b) = (operand(&mut random), operand(&mut random));
        if case % 3 == 0 {
            b &= a;
        }
        let mut block = Block::default();
        block.image.set_xmm(0, a);
        block.image.set_xmm(1, b);
        ptest.run(&mut block);
        let (is_zero, is_carry) = integer::ptest(a, b);
        let expected = u64::from(is_carry) | u64::from(is_zero) << 6;
        assert_eq!(block.flags & STATUS_FLAGS, expected, "ptest {a:#x} {b:#x}");
        let (initial, data) = (random.next_u64(), random.next_u64());
        for (native, length) in [(&crc_byte, 1), (&crc_quad, 8)] {
            let mut block = Block::default();
            (block.rax, block.rcx) = (initial, data);
            native.run(&mut block);
            let expected = crc::crc32c(initial as u32, &data.to_le_bytes()[..length]);
            assert_eq!(block.rax, expected.into(), "crc32 {initial:#x} {data:#x}");
        }
        if std::is_x86_feature_detected!("sse4a") {
            // A field must not reach beyond bit 63: that is undefined.
            let length = random.below(64) as u8;
            let index = if length == 0 { 0 } else { random.below(65 - u64::from(length)) as u8 };
            let control = u128::from(length) | u128::from(index) << 8;
            let mut block = Block::default();
            block.image.set_xmm(0, a);
            block.image.set_xmm(1, control);
            extrq.run(&mut block);
            let expected = extract::extrq(a, length, index) as u64;
            assert_eq!(block.image.xmm(0) as u64, expected, "extrq {a:#x} {length} {index}");
            block.image.set_xmm(0, a);
            block.image.set_xmm(1, control << 64 | u128::from(b as u64));
            insertq.run(&mut block);
            let expected = extract::insertq(a, b, length, index) as u64;
            assert_eq!(block.image.xmm(0) as u64, expected, "insertq {a:#x} {length} {index}");
        } else if case == 0 {
            println!("skipped: the host has no SSE4a");
        }
    }
}

#[test]
fn lane_extraction_and_insertion_agree() {
    let mut random = Random(46);
    for lane in 0..=255u32 {
        let extractions: [(Native, Extraction); 4] = [
            (Native::new(|a| a.pextrb(eax, xmm0, lane)), |a, i| extract::pextrb(a, i).into()),
            (Native::new(|a| a.pextrw(eax, xmm0, lane)), |a, i| extract::pextrw(a, i).into()),
            (Native::new(|a| a.pextrd(eax, xmm0, lane)), |a, i| extract::pextrd(a, i).into()),
            (Native::new(|a| a.pextrq(rax, xmm0, lane)), extract::pextrq),
        ];
        let insertions: [(Native, Insertion); 4] = [
            (Native::new(|a| a.pinsrb(xmm0, eax, lane)), |a, v, i| extract::pinsrb(a, v as u8, i)),
            (Native::new(|a| a.pinsrw(xmm0, eax, lane)), |a, v, i| extract::pinsrw(a, v as u16, i)),
            (Native::new(|a| a.pinsrd(xmm0, eax, lane)), |a, v, i| extract::pinsrd(a, v as u32, i)),
            (Native::new(|a| a.pinsrq(xmm0, rax, lane)), extract::pinsrq),
        ];
        for _ in 0..4 {
            let (a, value) = (operand(&mut random), random.next_u64());
            for (form, (native, model)) in extractions.iter().enumerate() {
                let mut block = Block::default();
                block.image.set_xmm(0, a);
                native.run(&mut block);
                assert_eq!(block.rax, model(a, lane as u8), "extraction {form} lane {lane} {a:#x}");
            }
            for (form, (native, model)) in insertions.iter().enumerate() {
                let mut block = Block::default();
                block.image.set_xmm(0, a);
                block.rax = value;
                native.run(&mut block);
                let expected = model(a, value, lane as u8);
                assert_eq!(block.image.xmm(0), expected, "insertion {form} lane {lane} {a:#x}");
            }
        }
    }
}
