//! The trampoline: FXRSTOR, the instruction, FXSAVE; a fault lands behind the instruction.

use crate::image::Image;
use iced_x86::code_asm::{
    AsmRegisterYmm, CodeAssembler, ptr, qword_ptr, r12, r13, r14, r15, rax, rbp, rbx, rcx, rdi,
    rdx, rsi, rsp, xmmword_ptr, ymm0, ymm1, ymm2, ymm3, ymm4, ymm5, ymm6, ymm7, ymm8, ymm9, ymm10,
    ymm11, ymm12, ymm13, ymm14, ymm15,
};
use iced_x86::{BlockEncoderOptions, IcedError};
use std::ffi::c_void;
use std::mem::offset_of;
use std::sync::Once;

/// Bytes of memory that an instruction may use.
pub const MEMORY: usize = 1024;

/// What an instruction starts from and leaves behind. RSI points to `memory`.
#[derive(Clone, Debug, PartialEq, Eq)]
#[repr(C, align(64))]
pub struct Block {
    pub image: Image,
    pub memory: [u8; MEMORY],
    /// The high halves of the YMM registers, where the host has AVX.
    pub high: [[u8; 16]; 16],
    pub rax: u64,
    pub rcx: u64,
    pub rdx: u64,
    pub flags: u64,
    default_mxcsr: u64,
    landing: u64,
    caught: u64,
}

/// The fault an instruction ended with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// It completed.
    None,
    FloatingPoint,
    Segmentation,
    Illegal,
}

impl Default for Block {
    fn default() -> Block {
        Block {
            image: Image::initial(),
            memory: [0; MEMORY],
            high: [[0; 16]; 16],
            rax: 0,
            rcx: 0,
            rdx: 0,
            flags: 0x202,
            default_mxcsr: 0x1F80,
            landing: 0,
            caught: 0,
        }
    }
}

/// An instruction, assembled into executable memory.
#[derive(Debug)]
pub struct Native {
    page: *mut c_void,
    landing: u64,
}

const PAGE: usize = 4096;

const YMM: [AsmRegisterYmm; 16] = [
    ymm0, ymm1, ymm2, ymm3, ymm4, ymm5, ymm6, ymm7, ymm8, ymm9, ymm10, ymm11, ymm12, ymm13, ymm14,
    ymm15,
];

/// Whether the host has high halves to start from and to compare.
pub fn has_avx() -> bool {
    std::is_x86_feature_detected!("avx")
}

impl Native {
    /// Assembles an instruction that may use RSI (memory), RAX, RCX and RDX.
    pub fn new(instruction: impl FnOnce(&mut CodeAssembler) -> Result<(), IcedError>) -> Native {
        install_handlers();
        // SAFETY: an anonymous private mapping has no precondition; the result is checked.
        let page = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                PAGE,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
                -1,
                0,
            )
        };
        assert_ne!(page, libc::MAP_FAILED, "no memory for code");
        let (code, landing) = trampoline(instruction, page as u64).expect("assembles");
        assert!(code.len() <= PAGE, "trampoline fits a page");
        // SAFETY: the page is ours, writable and large enough; it becomes executable afterwards.
        unsafe {
            std::ptr::copy_nonoverlapping(code.as_ptr(), page.cast(), code.len());
            assert_eq!(libc::mprotect(page, PAGE, libc::PROT_READ | libc::PROT_EXEC), 0);
        }
        Native { page, landing }
    }

    /// The same from an instruction's encoding.
    pub fn from_bytes(bytes: &[u8]) -> Native {
        Native::new(|a| a.db(bytes))
    }

    /// Runs the instruction from the block's state and writes back what it left.
    pub fn run(&self, block: &mut Block) -> Signal {
        block.landing = self.landing;
        block.caught = 0;
        // SAFETY: the page holds a function with this signature; it saves the callee-saved
        // registers, restores the default floating-point state and touches only the block.
        unsafe {
            let function: extern "sysv64" fn(*mut Block) = std::mem::transmute(self.page);
            function(block);
        }
        match block.caught as i32 {
            0 => Signal::None,
            libc::SIGFPE => Signal::FloatingPoint,
            libc::SIGILL => Signal::Illegal,
            _ => Signal::Segmentation,
        }
    }
}

impl Drop for Native {
    fn drop(&mut self) {
        // SAFETY: the page was mapped by `new` and nothing runs in it any more.
        unsafe { libc::munmap(self.page, PAGE) };
    }
}

fn trampoline(
    instruction: impl FnOnce(&mut CodeAssembler) -> Result<(), IcedError>,
    address: u64,
) -> Result<(Vec<u8>, u64), IcedError> {
    let mut a = CodeAssembler::new(64)?;
    let saved = [rbx, rbp, r12, r13, r14, r15];
    for register in saved {
        a.push(register)?;
    }
    a.mov(r12, rdi)?;
    a.mov(rbp, rsp)?;
    a.fxrstor64(ptr(r12))?;
    if has_avx() {
        for (index, register) in YMM.into_iter().enumerate() {
            let at = xmmword_ptr(r12 + offset_of!(Block, high) + 16 * index);
            a.vinsertf128(register, register, at, 1)?;
        }
    }
    a.push(qword_ptr(r12 + offset_of!(Block, flags)))?;
    a.popfq()?;
    a.mov(rax, qword_ptr(r12 + offset_of!(Block, rax)))?;
    a.mov(rcx, qword_ptr(r12 + offset_of!(Block, rcx)))?;
    a.mov(rdx, qword_ptr(r12 + offset_of!(Block, rdx)))?;
    a.lea(rsi, ptr(r12 + offset_of!(Block, memory)))?;
    instruction(&mut a)?;
    let mut landing = a.create_label();
    a.set_label(&mut landing)?;
    a.mov(rsp, rbp)?;
    a.pushfq()?;
    a.pop(qword_ptr(r12 + offset_of!(Block, flags)))?;
    a.mov(qword_ptr(r12 + offset_of!(Block, rax)), rax)?;
    a.mov(qword_ptr(r12 + offset_of!(Block, rcx)), rcx)?;
    a.mov(qword_ptr(r12 + offset_of!(Block, rdx)), rdx)?;
    a.fxsave64(ptr(r12))?;
    if has_avx() {
        for (index, register) in YMM.into_iter().enumerate() {
            a.vextractf128(xmmword_ptr(r12 + offset_of!(Block, high) + 16 * index), register, 1)?;
        }
        a.vzeroupper()?;
    }
    a.fninit()?;
    a.ldmxcsr(ptr(r12 + offset_of!(Block, default_mxcsr)))?;
    a.cld()?;
    for register in saved.into_iter().rev() {
        a.pop(register)?;
    }
    a.ret()?;
    let options = BlockEncoderOptions::RETURN_NEW_INSTRUCTION_OFFSETS;
    let result = a.assemble_options(address, options)?;
    let landing = result.label_ip(&landing)?;
    Ok((result.inner.code_buffer, landing))
}

fn install_handlers() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        for signal in [libc::SIGFPE, libc::SIGILL, libc::SIGSEGV, libc::SIGBUS] {
            // SAFETY: the handler is async-signal-safe: it only edits the interrupted context.
            unsafe {
                let mut action: libc::sigaction = std::mem::zeroed();
                action.sa_sigaction = land as *const () as usize;
                action.sa_flags = libc::SA_SIGINFO;
                assert_eq!(libc::sigaction(signal, &action, std::ptr::null_mut()), 0);
            }
        }
    });
}

/// Continues behind the instruction that faulted. R12 holds the block while one runs.
extern "C" fn land(signal: i32, _: *mut libc::siginfo_t, context: *mut c_void) {
    // SAFETY: the kernel passes a valid context; faults only come from trampolines, whose R12
    // points to the block they were called with.
    unsafe {
        let context = &mut *context.cast::<libc::ucontext_t>();
        let registers = &mut context.uc_mcontext.gregs;
        let block = &mut *(registers[libc::REG_R12 as usize] as *mut Block);
        block.caught = signal as u64;
        registers[libc::REG_RIP as usize] = block.landing as i64;
    }
}
