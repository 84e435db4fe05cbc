//! Whole instructions on the emulated processor against the host: stack faults, tags, pending
//! exceptions, operands in memory, alignment, and which state each instruction touches.
#![cfg(all(target_arch = "x86_64", target_os = "linux"))]

use cpu::float::extended::Extended;
use differential_vector::operands::{Random, control_words, mxcsrs};
use differential_vector::{Block, Emulated, Native, signal};
use iced_x86::IcedError;
use iced_x86::code_asm::*;

type Assemble = fn(&mut CodeAssembler) -> Result<(), IcedError>;

fn encode(assemble: Assemble) -> Vec<u8> {
    let mut assembler = CodeAssembler::new(64).expect("64-bit code");
    assemble(&mut assembler).expect("encodes");
    assembler.assemble(0x1_0000).expect("assembles")
}

/// A random unit: any top, mostly full registers, sometimes an exception pending.
fn random_block(random: &mut Random) -> Block {
    let mut block = Block::default();
    let controls = control_words();
    let control = controls[random.below(controls.len() as u64) as usize];
    block.image.set_control_word(if random.below(2) == 0 { 0x37F } else { control });
    let control = block.image.control_word();
    let mut status = random.next_u64() as u16 & 0x7F00;
    if random.below(4) == 0 {
        status |= random.next_u64() as u16 & 0x7F & (control | 0x40);
    }
    if random.below(16) == 0 {
        status |= random.next_u64() as u16 & 0x3F;
    }
    if status & !control & 0x3F != 0 {
        status |= 0x8080;
    }
    block.image.set_status_word(status);
    let tags = random.next_u64() as u8 | random.next_u64() as u8;
    block.image.set_tags(match random.below(8) {
        0 => 0,
        1 => 0xFF,
        _ => tags,
    });
    for index in 0..8 {
        block.image.set_st(index, random.extended());
        let low = u128::from(random.double());
        block.image.set_xmm(index, u128::from(random.double()) << 64 | low);
    }
    let mxcsrs = mxcsrs();
    let mxcsr = mxcsrs[random.below(mxcsrs.len() as u64) as usize];
    block.image.set_mxcsr(if random.below(2) == 0 { 0x1F80 } else { mxcsr });
    for chunk in block.memory.chunks_mut(8) {
        let value = match random.below(3) {
            0 => random.double(),
            1 => u64::from(random.single()) | u64::from(random.single()) << 32,
            _ => random.runs(),
        };
        chunk.copy_from_slice(&value.to_le_bytes());
    }
    block.rax = random.runs();
    block.rcx = random.runs();
    block.rdx = random.runs();
    block.flags = 0x202 | random.next_u64() & 0x8D5;
    block
}

const STATUS_FLAGS: u64 = 0x8D5;

/// The distance in last places, for results that chips round differently.
fn is_near(a: Extended, b: Extended) -> bool {
    let key =
        |x: Extended| u128::from(x.sign_exponent) << 63 | u128::from(x.significand & !(1 << 63));
    a == b || key(a).abs_diff(key(b)) <= 1
}

/// Whether there is nothing to compare with: SSE4a is AMD's.
fn is_skipped(name: &str) -> bool {
    let begins = |starts: &[&str]| starts.iter().any(|start| name.starts_with(start));
    let lacks = begins(&["extrq", "insertq", "movntss", "movntsd"])
        && !std::is_x86_feature_detected!("sse4a");
    if lacks {
        println!("skipped: {name}: the host has no SSE4a");
    }
    lacks
}

fn check(name: &str, assemble: Assemble, ignored_status: u16, cases: usize) {
    if is_skipped(name) {
        return;
    }
    let bytes = encode(assemble);
    let native = Native::from_bytes(&bytes);
    let mut emulated = Emulated::of_host();
    emulated.load(&bytes);
    let mut random = Random(60 + name.len() as u64);
    for case in 0..cases {
        let before = random_block(&mut random);
        let (mut host, mut ours) = (before.clone(), before.clone());
        let caught = native.run(&mut host);
        let vector = emulated.run(&mut ours);
        let place = || {
            let image = &before.image;
            let stack: Vec<_> = (0..8).map(|index| image.st(index)).collect();
            format!(
                "{name} case {case}: control {:04x} status {:04x} tags {:02x} mxcsr {:05x} \
                 memory {:02x?} rax {:x} xmm0 {:x} xmm1 {:x} stack {stack:x?}",
                image.control_word(),
                image.status_word(),
                image.tags(),
                image.mxcsr(),
                &before.memory[..16],
                before.rax,
                image.xmm(0),
                image.xmm(1),
            )
        };
        assert_eq!(signal(vector), caught, "{}: exception {vector:?}", place());
        let status = |block: &Block| block.image.status_word() & !ignored_status;
        assert_eq!(
            (host.image.control_word(), status(&host), host.image.tags()),
            (ours.image.control_word(), status(&ours), ours.image.tags()),
            "{}: host left, control, status and tags (in decimal)",
            place()
        );
        for index in 0..8 {
            let (theirs, mine) = (host.image.st(index), ours.image.st(index));
            let agrees = if ignored_status == 0 { theirs == mine } else { is_near(theirs, mine) };
            assert!(agrees, "{}: ST{index} host {theirs:x?} model {mine:x?}", place());
            let (theirs, mine) = (host.image.xmm(index), ours.image.xmm(index));
            assert_eq!(theirs, mine, "{}: XMM{index} {theirs:x} {mine:x}", place());
        }
        assert_eq!(host.image.mxcsr(), ours.image.mxcsr(), "{}: MXCSR", place());
        assert_eq!(host.memory[..], ours.memory[..], "{}: memory", place());
        assert_eq!(
            (host.rax, host.rcx, host.rdx, host.flags & STATUS_FLAGS),
            (ours.rax, ours.rcx, ours.rdx, ours.flags & STATUS_FLAGS),
            "{}: registers",
            place()
        );
    }
}

fn check_all(instructions: &[(&str, Assemble)]) {
    for (name, assemble) in instructions {
        check(name, *assemble, 0, 1000);
    }
}

macro_rules! rows {
    ($($name:ident($($operand:expr),*)),* $(,)?) => {
        &[$((stringify!($name($($operand),*)), (|a| a.$name($($operand),*)) as Assemble)),*]
    };
}

#[test]
fn x87_arithmetic() {
    check_all(rows![
        fadd_2(st0, st3),
        fadd_2(st3, st0),
        faddp(st2, st0),
        fadd(dword_ptr(rsi)),
        fadd(qword_ptr(rsi)),
        fiadd(word_ptr(rsi)),
        fiadd(dword_ptr(rsi)),
        fsub_2(st0, st1),
        fsub_2(st1, st0),
        fsubp(st1, st0),
        fsub(dword_ptr(rsi)),
        fisub(word_ptr(rsi)),
        fsubr_2(st0, st1),
        fsubr_2(st4, st0),
        fsubrp(st1, st0),
        fsubr(qword_ptr(rsi)),
        fisubr(dword_ptr(rsi)),
        fmul_2(st0, st7),
        fmulp(st1, st0),
        fmul(qword_ptr(rsi)),
        fimul(word_ptr(rsi)),
        fdiv_2(st0, st1),
        fdiv_2(st1, st0),
        fdivp(st1, st0),
        fdiv(dword_ptr(rsi)),
        fidiv(dword_ptr(rsi)),
        fdivr_2(st0, st1),
        fdivrp(st3, st0),
        fdivr(qword_ptr(rsi)),
        fidivr(word_ptr(rsi)),
        fsqrt(),
        frndint(),
        fscale(),
        fabs(),
        fchs(),
        fxtract(),
        fprem(),
        fprem1(),
    ]);
}

#[test]
fn x87_loads_and_stores() {
    check_all(rows![
        fld(st3),
        fld(dword_ptr(rsi)),
        fld(qword_ptr(rsi)),
        fld(tbyte_ptr(rsi + 3)),
        fild(word_ptr(rsi)),
        fild(dword_ptr(rsi)),
        fild(qword_ptr(rsi)),
        fld1(),
        fldl2t(),
        fldl2e(),
        fldpi(),
        fldlg2(),
        fldln2(),
        fldz(),
        fst(st3),
        fstp(st0),
        fstp(st5),
        fst(dword_ptr(rsi)),
        fst(qword_ptr(rsi)),
        fstp(dword_ptr(rsi)),
        fstp(qword_ptr(rsi)),
        fstp(tbyte_ptr(rsi + 1)),
        fist(word_ptr(rsi)),
        fist(dword_ptr(rsi)),
        fistp(word_ptr(rsi)),
        fistp(dword_ptr(rsi)),
        fistp(qword_ptr(rsi)),
        fisttp(word_ptr(rsi)),
        fisttp(dword_ptr(rsi)),
        fisttp(qword_ptr(rsi)),
        fbstp(tbyte_ptr(rsi)),
        fxch(st0, st2),
        fcmovb(st0, st1),
        fcmove(st0, st2),
        fcmovbe(st0, st3),
        fcmovu(st0, st4),
        fcmovnb(st0, st1),
        fcmovne(st0, st1),
        fcmovnbe(st0, st1),
        fcmovnu(st0, st1),
    ]);
}

#[test]
fn x87_comparisons() {
    check_all(rows![
        fcom_2(st0, st1),
        fcomp_2(st0, st2),
        fcompp(),
        fcom(dword_ptr(rsi)),
        fcomp(qword_ptr(rsi)),
        ficom(word_ptr(rsi)),
        ficomp(dword_ptr(rsi)),
        fucom(st0, st1),
        fucomp(st0, st1),
        fucompp(),
        ftst(),
        fxam(),
        fcomi(st0, st1),
        fcomip(st0, st2),
        fucomi(st0, st1),
        fucomip(st0, st1),
    ]);
}

#[test]
fn x87_control() {
    check_all(rows![
        fnclex(),
        fninit(),
        fldcw(word_ptr(rsi)),
        fnstcw(word_ptr(rsi)),
        fnstsw(word_ptr(rsi)),
        fnstsw(ax),
        ffree(st2),
        fincstp(),
        fdecstp(),
        fnop(),
        wait(),
        frstor(ptr(rsi)),
        fldenv(ptr(rsi)),
    ]);
}

#[test]
fn x87_transcendental() {
    const PRECISION_UNDERFLOW_AND_C1: u16 = 0x230;
    let rows: &[(&str, Assemble)] = rows![fsin(), fcos(), fsincos(), fptan(), fpatan(), fyl2x()];
    for (name, assemble) in rows {
        check(name, *assemble, PRECISION_UNDERFLOW_AND_C1, 1000);
    }
}

#[test]
fn mmx() {
    check_all(rows![
        paddb(mm0, mm1),
        paddusw(mm2, mm3),
        pmaddwd(mm0, qword_ptr(rsi)),
        packsswb(mm0, mm1),
        punpcklbw(mm0, mm1),
        punpckldq(mm0, dword_ptr(rsi)),
        psllw(mm0, mm1),
        psrad(mm0, 5),
        psrlq(mm3, qword_ptr(rsi)),
        pshufw(mm0, mm1, 0x1B),
        palignr(mm0, mm1, 5),
        movd(mm0, eax),
        movd(eax, mm1),
        movq(mm0, mm1),
        movq(mm0, rax),
        movq(rax, mm2),
        movq(mm0, qword_ptr(rsi)),
        movq(qword_ptr(rsi), mm5),
        movntq(qword_ptr(rsi), mm5),
        pmovmskb(eax, mm1),
        pextrw(eax, mm1, 2),
        pinsrw(mm0, eax, 3),
        pinsrw(mm0, word_ptr(rsi), 1),
        emms(),
        movdq2q(mm1, xmm2),
        movq2dq(xmm1, mm3),
        cvtpi2ps(xmm0, mm1),
        cvtpi2pd(xmm0, mm1),
        cvtpi2ps(xmm0, qword_ptr(rsi)),
        cvtpi2pd(xmm0, qword_ptr(rsi)),
        cvtps2pi(mm0, xmm1),
        cvttpd2pi(mm0, xmm1),
        cvtpd2pi(mm0, xmmword_ptr(rsi)),
        psadbw(mm0, mm1),
        pmulhuw(mm0, mm1),
    ]);
}

#[test]
fn sse_moves() {
    check_all(rows![
        movaps(xmm0, xmm1),
        movaps(xmm0, xmmword_ptr(rsi)),
        movaps(xmm0, xmmword_ptr(rsi + 8)),
        movaps(xmmword_ptr(rsi), xmm3),
        movaps(xmmword_ptr(rsi + 4), xmm3),
        movups(xmm0, xmmword_ptr(rsi + 3)),
        movups(xmmword_ptr(rsi + 5), xmm2),
        movss(xmm0, xmm1),
        movss(xmm0, dword_ptr(rsi)),
        movss(dword_ptr(rsi), xmm1),
        movsd_2(xmm0, xmm1),
        movsd_2(xmm0, qword_ptr(rsi)),
        movsd_2(qword_ptr(rsi), xmm1),
        movlps(xmm0, qword_ptr(rsi)),
        movhps(xmm0, qword_ptr(rsi)),
        movlpd(qword_ptr(rsi), xmm0),
        movhpd(qword_ptr(rsi), xmm0),
        movlhps(xmm0, xmm1),
        movhlps(xmm0, xmm1),
        movd(xmm0, eax),
        movd(eax, xmm1),
        movq(xmm0, rax),
        movq(rax, xmm1),
        movq(xmm0, xmm1),
        movq(xmm0, qword_ptr(rsi)),
        movq(qword_ptr(rsi), xmm1),
        movd(xmm0, dword_ptr(rsi)),
        movntdqa(xmm0, xmmword_ptr(rsi)),
        movntdq(xmmword_ptr(rsi), xmm1),
        lddqu(xmm0, xmmword_ptr(rsi + 1)),
        movddup(xmm0, qword_ptr(rsi)),
        movddup(xmm0, xmm1),
        movsldup(xmm0, xmm1),
        movntps(xmmword_ptr(rsi + 16), xmm1),
        movntss(dword_ptr(rsi), xmm1),
        movntsd(qword_ptr(rsi), xmm1),
        movmskps(eax, xmm1),
        movmskpd(eax, xmm1),
        ldmxcsr(dword_ptr(rsi)),
        stmxcsr(dword_ptr(rsi)),
    ]);
}

#[test]
fn sse_integer() {
    check_all(rows![
        paddb(xmm0, xmmword_ptr(rsi)),
        paddb(xmm0, xmmword_ptr(rsi + 1)),
        pshufb(xmm0, xmm1),
        pshufd(xmm0, xmm1, 0x1B),
        pshufd(xmm0, xmmword_ptr(rsi), 0x1B),
        shufps(xmm0, xmm1, 0x72),
        palignr(xmm0, xmm1, 9),
        psllw(xmm0, 3),
        psllw(xmm0, xmm1),
        psrldq(xmm0, 3),
        psrad(xmm0, 9),
        ptest(xmm0, xmm1),
        pblendvb(xmm1, xmm2),
        pmovsxbw(xmm0, qword_ptr(rsi)),
        pmovzxbq(xmm0, word_ptr(rsi)),
        pmovzxwd(xmm0, xmm1),
        pmovmskb(eax, xmm1),
        pextrb(eax, xmm1, 5),
        pextrb(byte_ptr(rsi), xmm1, 5),
        pextrw(eax, xmm1, 5),
        pextrw(word_ptr(rsi), xmm1, 3),
        pextrd(eax, xmm1, 1),
        pextrq(rax, xmm1, 1),
        pextrq(qword_ptr(rsi), xmm1, 1),
        extractps(eax, xmm1, 2),
        extractps(dword_ptr(rsi), xmm1, 2),
        pinsrb(xmm0, eax, 3),
        pinsrb(xmm0, byte_ptr(rsi), 3),
        pinsrw(xmm0, eax, 3),
        pinsrd(xmm0, eax, 2),
        pinsrq(xmm0, rax, 1),
        pinsrq(xmm0, qword_ptr(rsi), 1),
        insertps(xmm0, xmm1, 0xD2),
        insertps(xmm0, dword_ptr(rsi), 0xD2),
        mpsadbw(xmm0, xmm1, 6),
        unpcklps(xmm0, xmm1),
        andnps(xmm0, xmm1),
        xorpd(xmm0, xmm1),
        phminposuw(xmm0, xmm1),
        pcmpistri(xmm0, xmm1, 0x0C),
        pcmpistrm(xmm0, xmmword_ptr(rsi + 1), 0x44),
        pcmpestri(xmm0, xmm1, 0x18),
        pcmpestrm(xmm0, xmm1, 0x48),
        pcmpestri64(xmm0, xmm1, 0x08),
        extrq_3(xmm0, 8, 16),
        insertq_4(xmm0, xmm1, 12, 3),
        crc32(eax, cl),
        crc32(rax, rcx),
        aesenc(xmm0, xmm1),
        aesenc(xmm0, xmmword_ptr(rsi)),
        aeskeygenassist(xmm0, xmm1, 7),
        aesimc(xmm0, xmm1),
        pclmulqdq(xmm0, xmm1, 0x11),
        sha1rnds4(xmm0, xmm1, 2),
        sha256rnds2(xmm1, xmm2),
        sha256msg1(xmm0, xmmword_ptr(rsi)),
    ]);
}

#[test]
fn sse_floating_point() {
    check_all(rows![
        addps(xmm0, xmm1),
        addps(xmm0, xmmword_ptr(rsi)),
        addps(xmm0, xmmword_ptr(rsi + 2)),
        addss(xmm0, xmm1),
        addss(xmm0, dword_ptr(rsi)),
        addpd(xmm0, xmm1),
        addsd(xmm0, qword_ptr(rsi)),
        subsd(xmm0, xmm1),
        mulpd(xmm0, xmm1),
        mulss(xmm0, xmm1),
        divpd(xmm0, xmm1),
        divps(xmm0, xmm1),
        sqrtpd(xmm0, xmm1),
        sqrtss(xmm0, dword_ptr(rsi)),
        minps(xmm0, xmm1),
        maxsd(xmm0, xmm1),
        cmpps(xmm0, xmm1, 2),
        cmpsd_3(xmm0, xmm1, 5),
        cmpss(xmm0, dword_ptr(rsi), 7),
        cmppd(xmm0, xmmword_ptr(rsi), 1),
        comiss(xmm0, xmm1),
        ucomisd(xmm0, qword_ptr(rsi)),
        cvtsi2ss(xmm0, eax),
        cvtsi2sd(xmm0, rax),
        cvtsi2sd(xmm0, dword_ptr(rsi)),
        cvtss2si(eax, xmm1),
        cvttsd2si(rax, xmm1),
        cvtsd2si(eax, qword_ptr(rsi)),
        cvttss2si(rax, dword_ptr(rsi)),
        cvtsd2ss(xmm0, xmm1),
        cvtss2sd(xmm0, dword_ptr(rsi)),
        cvtps2pd(xmm0, qword_ptr(rsi)),
        cvtpd2ps(xmm0, xmm1),
        cvtdq2ps(xmm0, xmm1),
        cvtdq2pd(xmm0, xmm1),
        cvtps2dq(xmm0, xmm1),
        cvttps2dq(xmm0, xmmword_ptr(rsi)),
        cvtpd2dq(xmm0, xmm1),
        cvttpd2dq(xmm0, xmm1),
        roundps(xmm0, xmm1, 4),
        roundsd(xmm0, xmm1, 9),
        dpps(xmm0, xmm1, 0xF1),
        dppd(xmm0, xmmword_ptr(rsi), 0x31),
        haddps(xmm0, xmm1),
        hsubpd(xmm0, xmm1),
        addsubps(xmm0, xmm1),
        addsubpd(xmm0, xmm1),
    ]);
}
