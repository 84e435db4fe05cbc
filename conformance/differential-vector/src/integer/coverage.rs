//! Which instructions are covered, and which of them the host has.

use super::Form;
use iced_x86::{Code, Instruction, Mnemonic, OpKind};
use std::arch::is_x86_feature_detected;

/// Whether the host is AMD's.
pub fn is_amd() -> bool {
    let leaf = std::arch::x86_64::__cpuid(0);
    [leaf.ebx, leaf.edx, leaf.ecx].map(u32::to_le_bytes).concat() == b"AuthenticAMD"
}

/// A near branch with 16-bit operands.
fn is_16(instruction: &Instruction) -> bool {
    use Code::*;
    matches!(instruction.code(), Retnw | Retnw_imm16 | Jmp_rm16 | Call_rm16)
        || instruction.op_count() > 0 && instruction.op_kind(0) == OpKind::NearBranch16
}

/// Whether the host has the instruction; a prefix that it ignores makes another instruction of it.
pub fn is_on_host(instruction: &Instruction) -> bool {
    use Mnemonic::*;
    match instruction.mnemonic() {
        // Intel's processors ignore the operand-size prefix of near branches in 64-bit mode.
        Jmp | Call | Ret | Jo | Jno | Jb | Jae | Je | Jne | Jbe | Ja | Js | Jns | Jp | Jnp | Jl
        | Jge | Jle | Jg | Loop | Loope | Loopne | Jecxz | Jrcxz => is_amd() || !is_16(instruction),
        Andn | Bextr | Blsi | Blsmsk | Blsr | Tzcnt => is_x86_feature_detected!("bmi1"),
        Bzhi | Mulx | Pdep | Pext | Rorx | Sarx | Shlx | Shrx => is_x86_feature_detected!("bmi2"),
        Adcx | Adox => is_x86_feature_detected!("adx"),
        Lzcnt => is_x86_feature_detected!("lzcnt"),
        Movbe => is_x86_feature_detected!("movbe"),
        Crc32 => is_x86_feature_detected!("sse4.2"),
        Popcnt => is_x86_feature_detected!("popcnt"),
        Cmpxchg16b => is_x86_feature_detected!("cmpxchg16b"),
        _ => true,
    }
}

/// Instructions whose outcome in user code depends on registers and memory alone.
#[expect(clippy::match_like_matches_macro, reason = "a match packs the names")]
pub fn is_covered(mnemonic: Mnemonic) -> bool {
    use Mnemonic::*;
    match mnemonic {
        Mov | Movzx | Movsx | Movsxd | Movbe | Movnti | Xchg | Lea | Bswap | Xlatb | Lahf
        | Sahf | Cbw | Cwde | Cdqe | Cwd | Cdq | Cqo | Nop | Endbr64 | Endbr32 | Prefetchnta
        | Prefetcht0 | Prefetcht1 | Prefetcht2 | Prefetchw | Prefetch | Cmovo | Cmovno | Cmovb
        | Cmovae | Cmove | Cmovne | Cmovbe | Cmova | Cmovs | Cmovns | Cmovp | Cmovnp | Cmovl
        | Cmovge | Cmovle | Cmovg | Seto | Setno | Setb | Setae | Sete | Setne | Setbe | Seta
        | Sets | Setns | Setp | Setnp | Setl | Setge | Setle | Setg | Add | Adc | Sub | Sbb
        | And | Or | Xor | Cmp | Test | Inc | Dec | Neg | Not | Xadd | Cmpxchg | Cmpxchg8b
        | Cmpxchg16b | Adcx | Adox | Jo | Jno | Jb | Jae | Je | Jne | Jbe | Ja | Js | Jns | Jp
        | Jnp | Jl | Jge | Jle | Jg | Jmp | Call | Ret | Loop | Loope | Loopne | Jcxz | Jecxz
        | Jrcxz | Pause | Push | Pop | Enter | Leave | Pushf | Pushfq | Popf | Popfq | Shl
        | Sal | Shr | Sar | Rol | Ror | Rcl | Rcr | Shld | Shrd | Shlx | Shrx | Sarx | Rorx
        | Bt | Bts | Btr | Btc | Bsf | Bsr | Tzcnt | Lzcnt | Popcnt | Blsr | Blsi | Blsmsk
        | Andn | Bextr | Bzhi | Pdep | Pext | Crc32 | Mul | Imul | Mulx | Div | Idiv | Movsb
        | Movsw | Movsd | Movsq | Stosb | Stosw | Stosd | Stosq | Lodsb | Lodsw | Lodsd | Lodsq
        | Scasb | Scasw | Scasd | Scasq | Cmpsb | Cmpsw | Cmpsd | Cmpsq | Insb | Insw | Insd
        | Outsb | Outsw | Outsd | In | Out | Clc | Stc | Cmc | Cld | Std | Cli | Sti | Hlt
        | Rdfsbase | Rdgsbase | Ud0 | Ud1 | Ud2 => true,
        _ => false,
    }
}

impl Form {
    /// Codes of covered instructions that the generator leaves alone: they load segment registers
    /// or leave the code segment, move control and debug registers, are other processors' encodings
    /// (XOP, Knights Corner, UD0 with operands), or SSE2 instructions of the same name.
    #[expect(clippy::match_like_matches_macro, reason = "a match packs the names")]
    pub fn is_left_out(code: Code) -> bool {
        use Code::*;
        match code {
            Mov_Sreg_rm16
            | Mov_Sreg_r32m16
            | Mov_Sreg_r64m16
            | Popw_FS
            | Popq_FS
            | Popw_GS
            | Popq_GS
            | Jmp_m1616
            | Jmp_m1632
            | Jmp_m1664
            | Call_m1616
            | Call_m1632
            | Call_m1664
            | Mov_r64_cr
            | Mov_r64_dr
            | Mov_cr_r64
            | Mov_dr_r64
            | XOP_Bextr_r32_rm32_imm32
            | XOP_Bextr_r64_rm64_imm32
            | VEX_KNC_Popcnt_r32_r32
            | VEX_KNC_Popcnt_r64_r64
            | VEX_KNC_Tzcnt_r32_r32
            | VEX_KNC_Tzcnt_r64_r64
            | VEX_KNC_Lzcnt_r32_r32
            | VEX_KNC_Lzcnt_r64_r64
            | Ud0_r16_rm16
            | Ud0_r32_rm32
            | Ud0_r64_rm64
            | Movsd_xmm_xmmm64
            | Movsd_xmmm64_xmm
            | Cmpsd_xmm_xmmm64_imm8 => true,
            _ => false,
        }
    }
}
