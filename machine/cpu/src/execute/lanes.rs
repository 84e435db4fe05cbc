//! Which function does what an instruction of SSE and that of AVX with the same name do to 128
//! bits: tables of both mnemonics, which `sse_integer` and `avx` bind to handlers of theirs.
//!
//! `$row` is a macro that makes a `match` of one column: [`of_sse`] or [`of_avx`].

/// SSE's mnemonics with their functions under one body.
macro_rules! of_sse {
    ($mnemonic:expr, $body:path; $($sse:ident $avx:ident => $function:expr,)*) => {
        match $mnemonic {
            $(iced_x86::Mnemonic::$sse => {
                Some(crate::execute::sse::handler!($body, $function))
            })*
            _ => None,
        }
    };
}
pub(super) use of_sse;

/// AVX's.
macro_rules! of_avx {
    ($mnemonic:expr, $body:path; $($sse:ident $avx:ident => $function:expr,)*) => {
        match $mnemonic {
            $(iced_x86::Mnemonic::$avx => {
                Some(crate::execute::sse::handler!($body, $function))
            })*
            _ => None,
        }
    };
}
pub(super) use of_avx;

/// Integers and bits of two sources.
macro_rules! two_sources {
    ($row:ident, $mnemonic:expr, $body:path) => {
        $row! { $mnemonic, $body;
            Paddb Vpaddb => integer::paddb, Paddw Vpaddw => integer::paddw,
            Paddd Vpaddd => integer::paddd, Paddq Vpaddq => integer::paddq,
            Psubb Vpsubb => integer::psubb, Psubw Vpsubw => integer::psubw,
            Psubd Vpsubd => integer::psubd, Psubq Vpsubq => integer::psubq,
            Paddsb Vpaddsb => integer::paddsb, Paddsw Vpaddsw => integer::paddsw,
            Paddusb Vpaddusb => integer::paddusb, Paddusw Vpaddusw => integer::paddusw,
            Psubsb Vpsubsb => integer::psubsb, Psubsw Vpsubsw => integer::psubsw,
            Psubusb Vpsubusb => integer::psubusb, Psubusw Vpsubusw => integer::psubusw,
            Pavgb Vpavgb => integer::pavgb, Pavgw Vpavgw => integer::pavgw,
            Pminub Vpminub => integer::pminub, Pminsb Vpminsb => integer::pminsb,
            Pminuw Vpminuw => integer::pminuw, Pminsw Vpminsw => integer::pminsw,
            Pminud Vpminud => integer::pminud, Pminsd Vpminsd => integer::pminsd,
            Pmaxub Vpmaxub => integer::pmaxub, Pmaxsb Vpmaxsb => integer::pmaxsb,
            Pmaxuw Vpmaxuw => integer::pmaxuw, Pmaxsw Vpmaxsw => integer::pmaxsw,
            Pmaxud Vpmaxud => integer::pmaxud, Pmaxsd Vpmaxsd => integer::pmaxsd,
            Pcmpeqb Vpcmpeqb => integer::pcmpeqb, Pcmpeqw Vpcmpeqw => integer::pcmpeqw,
            Pcmpeqd Vpcmpeqd => integer::pcmpeqd, Pcmpeqq Vpcmpeqq => integer::pcmpeqq,
            Pcmpgtb Vpcmpgtb => integer::pcmpgtb, Pcmpgtw Vpcmpgtw => integer::pcmpgtw,
            Pcmpgtd Vpcmpgtd => integer::pcmpgtd, Pcmpgtq Vpcmpgtq => integer::pcmpgtq,
            Psignb Vpsignb => integer::psignb, Psignw Vpsignw => integer::psignw,
            Psignd Vpsignd => integer::psignd, Phaddw Vphaddw => integer::phaddw,
            Phaddd Vphaddd => integer::phaddd, Phaddsw Vphaddsw => integer::phaddsw,
            Phsubw Vphsubw => integer::phsubw, Phsubd Vphsubd => integer::phsubd,
            Phsubsw Vphsubsw => integer::phsubsw, Pand Vpand => integer::pand,
            Andps Vandps => integer::pand, Andpd Vandpd => integer::pand,
            Pandn Vpandn => integer::pandn, Andnps Vandnps => integer::pandn,
            Andnpd Vandnpd => integer::pandn, Por Vpor => integer::por, Orps Vorps => integer::por,
            Orpd Vorpd => integer::por, Pxor Vpxor => integer::pxor, Xorps Vxorps => integer::pxor,
            Xorpd Vxorpd => integer::pxor, Pmullw Vpmullw => multiply::pmullw,
            Pmulhw Vpmulhw => multiply::pmulhw, Pmulhuw Vpmulhuw => multiply::pmulhuw,
            Pmulld Vpmulld => multiply::pmulld, Pmuludq Vpmuludq => multiply::pmuludq,
            Pmuldq Vpmuldq => multiply::pmuldq, Pmulhrsw Vpmulhrsw => multiply::pmulhrsw,
            Pmaddwd Vpmaddwd => multiply::pmaddwd, Pmaddubsw Vpmaddubsw => multiply::pmaddubsw,
            Psadbw Vpsadbw => multiply::psadbw, Pshufb Vpshufb => shuffle::pshufb,
            Punpcklbw Vpunpcklbw => shuffle::punpcklbw, Punpcklwd Vpunpcklwd => shuffle::punpcklwd,
            Punpckldq Vpunpckldq => shuffle::punpckldq, Unpcklps Vunpcklps => shuffle::punpckldq,
            Punpcklqdq Vpunpcklqdq => shuffle::punpcklqdq,
            Unpcklpd Vunpcklpd => shuffle::punpcklqdq, Punpckhbw Vpunpckhbw => shuffle::punpckhbw,
            Punpckhwd Vpunpckhwd => shuffle::punpckhwd, Punpckhdq Vpunpckhdq => shuffle::punpckhdq,
            Unpckhps Vunpckhps => shuffle::punpckhdq,
            Punpckhqdq Vpunpckhqdq => shuffle::punpckhqdq,
            Unpckhpd Vunpckhpd => shuffle::punpckhqdq, Packsswb Vpacksswb => shuffle::packsswb,
            Packuswb Vpackuswb => shuffle::packuswb, Packssdw Vpackssdw => shuffle::packssdw,
            Packusdw Vpackusdw => shuffle::packusdw,
        }
    };
}
pub(super) use two_sources;

/// Those of one source, which the functions take as the second operand.
macro_rules! one_source {
    ($row:ident, $mnemonic:expr, $body:path) => {
        $row! { $mnemonic, $body;
            Pabsb Vpabsb => integer::pabsb, Pabsw Vpabsw => integer::pabsw,
            Pabsd Vpabsd => integer::pabsd, Phminposuw Vphminposuw => integer::phminposuw,
            Movsldup Vmovsldup => shuffle::movsldup, Movshdup Vmovshdup => shuffle::movshdup,
        }
    };
}
pub(super) use one_source;

/// Shifts of all lanes by one count.
macro_rules! shifts {
    ($row:ident, $mnemonic:expr, $body:path) => {
        $row! { $mnemonic, $body;
            Psllw Vpsllw => shift::psllw, Pslld Vpslld => shift::pslld,
            Psllq Vpsllq => shift::psllq, Psrlw Vpsrlw => shift::psrlw,
            Psrld Vpsrld => shift::psrld, Psrlq Vpsrlq => shift::psrlq,
            Psraw Vpsraw => shift::psraw, Psrad Vpsrad => shift::psrad,
            Pslldq Vpslldq => shift::pslldq, Psrldq Vpsrldq => shift::psrldq,
        }
    };
}
pub(super) use shifts;

/// Widened from eight bytes.
macro_rules! widenings_of_8 {
    ($row:ident, $mnemonic:expr, $body:path) => {
        $row! { $mnemonic, $body;
            Pmovsxbw Vpmovsxbw => shuffle::pmovsxbw, Pmovsxwd Vpmovsxwd => shuffle::pmovsxwd,
            Pmovsxdq Vpmovsxdq => shuffle::pmovsxdq, Pmovzxbw Vpmovzxbw => shuffle::pmovzxbw,
            Pmovzxwd Vpmovzxwd => shuffle::pmovzxwd, Pmovzxdq Vpmovzxdq => shuffle::pmovzxdq,
        }
    };
}
pub(super) use widenings_of_8;

/// Widened from four bytes.
macro_rules! widenings_of_4 {
    ($row:ident, $mnemonic:expr, $body:path) => {
        $row! { $mnemonic, $body;
            Pmovsxbd Vpmovsxbd => shuffle::pmovsxbd, Pmovsxwq Vpmovsxwq => shuffle::pmovsxwq,
            Pmovzxbd Vpmovzxbd => shuffle::pmovzxbd, Pmovzxwq Vpmovzxwq => shuffle::pmovzxwq,
        }
    };
}
pub(super) use widenings_of_4;

/// Widened from two bytes.
macro_rules! widenings_of_2 {
    ($row:ident, $mnemonic:expr, $body:path) => {
        $row! { $mnemonic, $body;
            Pmovsxbq Vpmovsxbq => shuffle::pmovsxbq, Pmovzxbq Vpmovzxbq => shuffle::pmovzxbq,
        }
    };
}
pub(super) use widenings_of_2;
