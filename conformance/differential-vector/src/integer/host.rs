//! The host's side: a trampoline that loads every register, jumps to the code, and takes every
//! register back, whether the code ran to its end or faulted.

use super::{CODE, CODE_BYTES, FS_BASE, Fault, GS_BASE, State, WINDOW, WINDOW_BYTES};
use std::ffi::c_void;
use std::mem::offset_of;
use std::sync::{Mutex, MutexGuard, Once};

/// Where the trampoline and the code exchange state: absolute addresses, so that no register is
/// needed for it.
const EXCHANGE: u64 = 0x1800_0000;
const TRAMPOLINE: u64 = 0x1800_1000;
/// What belongs to the trampoline: no test may jump there.
pub const RESERVED: std::ops::Range<u64> = EXCHANGE - 0x1000..TRAMPOLINE + 0x2000;
const PAGE: usize = 0x1000;
const ALTERNATE_STACK: usize = 0x1_0000;

#[repr(C)]
struct Exchange {
    gpr: [u64; 16],
    flags: u64,
    entry: u64,
    host_rsp: u64,
    host_fs: u64,
    host_gs: u64,
    fs: u64,
    gs: u64,
    /// The exit half of the trampoline.
    exit: u64,
    running: u64,
    caught: u64,
    vector: u64,
    error: u64,
    address: u64,
    ip: u64,
}

/// The right to run code: one thread at a time, since addresses are fixed.
pub struct Host {
    _turn: MutexGuard<'static, ()>,
    previous_stack: libc::stack_t,
    stack: *mut c_void,
    end: u64,
}

static TURN: Mutex<()> = Mutex::new(());

fn exchange() -> &'static mut Exchange {
    // SAFETY: the page is mapped before the first use and never unmapped; a caller that gets here
    // holds the turn, or is the signal handler of the thread that does.
    unsafe { &mut *(EXCHANGE as *mut Exchange) }
}

impl Host {
    pub fn new() -> Option<Host> {
        const FSGSBASE: u64 = 2;
        // SAFETY: getauxval has no precondition.
        if unsafe { libc::getauxval(libc::AT_HWCAP2) } & FSGSBASE == 0 {
            return None;
        }
        let turn = TURN.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        static ONCE: Once = Once::new();
        ONCE.call_once(|| {
            map(CODE, CODE_BYTES, libc::PROT_READ | libc::PROT_WRITE | libc::PROT_EXEC);
            map(WINDOW, WINDOW_BYTES, libc::PROT_READ | libc::PROT_WRITE);
            map(EXCHANGE, PAGE, libc::PROT_READ | libc::PROT_WRITE);
            map(TRAMPOLINE, PAGE, libc::PROT_READ | libc::PROT_WRITE | libc::PROT_EXEC);
            write_trampoline();
            install_handlers();
        });
        let (stack, previous_stack) = install_stack();
        Some(Host { _turn: turn, previous_stack, stack, end: CODE })
    }

    pub fn window(&mut self) -> &mut [u8] {
        // SAFETY: mapped by `new`, and the turn is held.
        unsafe { std::slice::from_raw_parts_mut(WINDOW as *mut u8, WINDOW_BYTES) }
    }

    /// INT3 everywhere, `code` at `at`, then a jump to the exit.
    pub fn load(&mut self, at: u64, code: &[u8]) {
        // SAFETY: mapped by `new`, and the turn is held.
        let page = unsafe { std::slice::from_raw_parts_mut(CODE as *mut u8, CODE_BYTES) };
        page.fill(0xCC);
        let offset = (at - CODE) as usize;
        page[offset..offset + code.len()].copy_from_slice(code);
        self.end = at + code.len() as u64;
        let leave = offset + code.len();
        page[leave] = 0xE9;
        let relative = exchange().exit.wrapping_sub(self.end + 5) as u32;
        page[leave + 1..leave + 5].copy_from_slice(&relative.to_le_bytes());
    }

    /// Runs from `state.ip` until the end of the code, a fault, or a jump out of it.
    pub fn run(&mut self, state: &mut State) -> Option<Fault> {
        let exchange = exchange();
        exchange.gpr = state.gpr;
        exchange.flags = state.flags;
        exchange.entry = state.ip;
        exchange.caught = 0;
        exchange.running = 1;
        // SAFETY: the trampoline saves what the ABI asks for and restores the bases of FS and GS;
        // the code it runs reaches the window only, by the caller's choice of operands.
        unsafe {
            let function: extern "sysv64" fn() = std::mem::transmute(TRAMPOLINE as *const ());
            function();
        }
        exchange.running = 0;
        state.gpr = exchange.gpr;
        state.flags = exchange.flags;
        if exchange.caught == 0 {
            state.ip = self.end;
            return None;
        }
        const BREAKPOINT: u64 = 3;
        const PAGE_FAULT: u64 = 14;
        let (vector, ip) = (exchange.vector, exchange.ip);
        let is_fetch = vector == PAGE_FAULT && exchange.address == ip;
        if vector == BREAKPOINT {
            state.ip = ip - 1;
            return None;
        }
        let inside = (CODE..CODE + CODE_BYTES as u64).contains(&ip);
        state.ip = ip;
        if is_fetch && !inside {
            // The jump itself completed.
            return None;
        }
        let address = if vector == PAGE_FAULT { exchange.address } else { 0 };
        // Linux calls every fault beyond user space one of protection, to tell nothing of its own.
        const END_OF_USER_SPACE: u64 = 0x7FFF_FFFF_F000;
        let hidden = (address >= END_OF_USER_SPACE) as u32;
        Some(Fault { vector: vector as u8, error: exchange.error as u32 & !hidden, address })
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        // SAFETY: puts back what `install_stack` found, then frees what it mapped.
        unsafe {
            libc::sigaltstack(&self.previous_stack, std::ptr::null_mut());
            libc::munmap(self.stack, ALTERNATE_STACK);
        }
    }
}

fn map(at: u64, bytes: usize, protection: i32) {
    // SAFETY: MAP_FIXED_NOREPLACE takes nothing that is in use.
    let page = unsafe {
        libc::mmap(
            at as *mut c_void,
            bytes,
            protection,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED_NOREPLACE,
            -1,
            0,
        )
    };
    assert_eq!(page as u64, at, "the addresses of the test are free");
}

fn install_stack() -> (*mut c_void, libc::stack_t) {
    // SAFETY: an anonymous mapping, then a stack that lives as long as the `Host`.
    unsafe {
        let stack = libc::mmap(
            std::ptr::null_mut(),
            ALTERNATE_STACK,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
            -1,
            0,
        );
        assert_ne!(stack, libc::MAP_FAILED, "memory for a signal stack");
        let new = libc::stack_t { ss_sp: stack, ss_flags: 0, ss_size: ALTERNATE_STACK };
        let mut previous: libc::stack_t = std::mem::zeroed();
        assert_eq!(libc::sigaltstack(&new, &mut previous), 0);
        (stack, previous)
    }
}

/// MOV between a register and an absolute address.
fn mov(code: &mut Vec<u8>, opcode: u8, register: u8, at: usize) {
    code.extend([0x48 | (register >> 3) << 2, opcode, 0x04 | (register & 7) << 3, 0x25]);
    code.extend((EXCHANGE as u32 + at as u32).to_le_bytes());
}

/// PUSH, POP or JMP of an absolute address.
fn absolute(code: &mut Vec<u8>, opcode: [u8; 2], at: usize) {
    code.extend(opcode);
    code.push(0x25);
    code.extend((EXCHANGE as u32 + at as u32).to_le_bytes());
}

const LOAD: u8 = 0x8B;
const STORE: u8 = 0x89;
const PUSH: [u8; 2] = [0xFF, 0x34];
const JMP: [u8; 2] = [0xFF, 0x24];
const POP: [u8; 2] = [0x8F, 0x04];
/// RDFSBASE, RDGSBASE, WRFSBASE, WRGSBASE of RAX.
const READ_FS: [u8; 5] = [0xF3, 0x48, 0x0F, 0xAE, 0xC0];
const READ_GS: [u8; 5] = [0xF3, 0x48, 0x0F, 0xAE, 0xC8];
const WRITE_FS: [u8; 5] = [0xF3, 0x48, 0x0F, 0xAE, 0xD0];
const WRITE_GS: [u8; 5] = [0xF3, 0x48, 0x0F, 0xAE, 0xD8];
const RSP: u8 = 4;

fn write_trampoline() {
    let gpr = |number: u8| offset_of!(Exchange, gpr) + 8 * number as usize;
    let mut code = vec![0x53, 0x55, 0x41, 0x54, 0x41, 0x55, 0x41, 0x56, 0x41, 0x57];
    code.extend(READ_FS);
    mov(&mut code, STORE, 0, offset_of!(Exchange, host_fs));
    code.extend(READ_GS);
    mov(&mut code, STORE, 0, offset_of!(Exchange, host_gs));
    mov(&mut code, LOAD, 0, offset_of!(Exchange, fs));
    code.extend(WRITE_FS);
    mov(&mut code, LOAD, 0, offset_of!(Exchange, gs));
    code.extend(WRITE_GS);
    mov(&mut code, STORE, RSP, offset_of!(Exchange, host_rsp));
    absolute(&mut code, PUSH, offset_of!(Exchange, flags));
    for number in (0..16).filter(|number| *number != RSP) {
        mov(&mut code, LOAD, number, gpr(number));
    }
    code.push(0x9D); // POPF
    mov(&mut code, LOAD, RSP, gpr(RSP));
    absolute(&mut code, JMP, offset_of!(Exchange, entry));
    exchange().exit = TRAMPOLINE + code.len() as u64;
    (0..16).for_each(|number| mov(&mut code, STORE, number, gpr(number)));
    mov(&mut code, LOAD, RSP, offset_of!(Exchange, host_rsp));
    code.push(0x9C); // PUSHF
    absolute(&mut code, POP, offset_of!(Exchange, flags));
    code.extend([0x68, 0x02, 0x02, 0x00, 0x00, 0x9D]); // PUSH 0x202; POPF
    mov(&mut code, LOAD, 0, offset_of!(Exchange, host_fs));
    code.extend(WRITE_FS);
    mov(&mut code, LOAD, 0, offset_of!(Exchange, host_gs));
    code.extend(WRITE_GS);
    code.extend([0x41, 0x5F, 0x41, 0x5E, 0x41, 0x5D, 0x41, 0x5C, 0x5D, 0x5B, 0xC3]);
    assert!(code.len() <= PAGE);
    exchange().fs = FS_BASE;
    exchange().gs = GS_BASE;
    // SAFETY: the page is ours, writable and large enough.
    unsafe { std::ptr::copy_nonoverlapping(code.as_ptr(), TRAMPOLINE as *mut u8, code.len()) };
}

fn install_handlers() {
    for signal in [libc::SIGFPE, libc::SIGILL, libc::SIGSEGV, libc::SIGBUS, libc::SIGTRAP] {
        // SAFETY: the handler is async-signal-safe: it only edits the interrupted context.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = land as *const () as usize;
            action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
            assert_eq!(libc::sigaction(signal, &action, std::ptr::null_mut()), 0);
        }
    }
}

/// Notes the fault and continues at the trampoline's exit, registers as the fault left them. FS is
/// the test's, so nothing here may use thread-local storage.
extern "C" fn land(signal: i32, _: *mut libc::siginfo_t, context: *mut c_void) {
    // SAFETY: alignment checks stay off in the handler; the kernel passes a valid context.
    unsafe {
        std::arch::asm!("pushfq", "and qword ptr [rsp], {clear}", "popfq", clear = const !0x40000);
        let exchange = &mut *(EXCHANGE as *mut Exchange);
        if exchange.running == 0 {
            // A defect of the test itself: let it end the process.
            libc::signal(signal, libc::SIG_DFL);
            return;
        }
        let registers = &mut (*context.cast::<libc::ucontext_t>()).uc_mcontext.gregs;
        exchange.caught = 1;
        exchange.vector = registers[libc::REG_TRAPNO as usize] as u64;
        exchange.error = registers[libc::REG_ERR as usize] as u64;
        exchange.address = registers[libc::REG_CR2 as usize] as u64;
        exchange.ip = registers[libc::REG_RIP as usize] as u64;
        registers[libc::REG_RIP as usize] = exchange.exit as i64;
        registers[libc::REG_EFL as usize] &= !0x100;
    }
}
