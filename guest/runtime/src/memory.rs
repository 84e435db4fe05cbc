//! The memory functions that compiled code calls, and reading what firmware left in memory.

use core::arch::naked_asm;

// The string instructions are what a processor is best at for unknown lengths, and they cannot be
// recognised as calls to the very functions they implement.

/// # Safety
/// As the C function of this name.
#[unsafe(naked)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn memcpy(to: *mut u8, from: *const u8, length: usize) -> *mut u8 {
    naked_asm!("mov rax, rdi", "mov rcx, rdx", "rep movsb", "ret")
}

/// # Safety
/// As the C function of this name.
#[unsafe(naked)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn memmove(to: *mut u8, from: *const u8, length: usize) -> *mut u8 {
    naked_asm!(
        "mov rax, rdi",
        "mov rcx, rdx",
        "mov r8, rdi",
        "sub r8, rsi",
        "cmp r8, rdx",
        "jb 2f",
        "rep movsb",
        "ret",
        "2:",
        "lea rsi, [rsi + rdx - 1]",
        "lea rdi, [rdi + rdx - 1]",
        "std",
        "rep movsb",
        "cld",
        "ret"
    )
}

/// # Safety
/// As the C function of this name.
#[unsafe(naked)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn memset(to: *mut u8, value: i32, length: usize) -> *mut u8 {
    naked_asm!("mov r8, rdi", "mov eax, esi", "mov rcx, rdx", "rep stosb", "mov rax, r8", "ret")
}

/// # Safety
/// As the C function of this name.
#[unsafe(naked)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn memcmp(a: *const u8, b: *const u8, length: usize) -> i32 {
    naked_asm!(
        "xor eax, eax",
        "mov rcx, rdx",
        "test rcx, rcx",
        "jz 2f",
        "repe cmpsb",
        "movzx eax, byte ptr [rdi - 1]",
        "movzx edx, byte ptr [rsi - 1]",
        "sub eax, edx",
        "2:",
        "ret"
    )
}

/// # Safety
/// As the C function of this name.
#[unsafe(naked)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bcmp(a: *const u8, b: *const u8, length: usize) -> i32 {
    naked_asm!("jmp {}", sym memcmp)
}

/// The end of what the page tables map.
const MAPPED_END: u64 = 1 << 32;

/// Where uncached memory starts. See [`crate::boot`].
const DEVICES: u64 = 0xE000_0000;

/// What [`read`] reads: an unsigned integer, low byte first.
pub trait Integer: Copy {}
impl Integer for u8 {}
impl Integer for u16 {}
impl Integer for u32 {}
impl Integer for u64 {}

/// An integer in physical memory that firmware or a loader filled in; `None` where nothing is
/// mapped, and at address zero.
pub fn read<T: Integer>(address: u64) -> Option<T> {
    let end = address.checked_add(size_of::<T>() as u64)?;
    if address == 0 || end > MAPPED_END {
        return None;
    }
    // SAFETY: memory below 4 GiB is mapped to itself, all bit patterns are integers, and reads of
    // RAM or ROM have no effects; Rust objects live at no address that loaders and firmware name.
    Some(unsafe { (address as *const T).read_unaligned() })
}

/// `length` bytes that firmware or a loader filled in and that nobody writes any more.
pub fn bytes(address: u64, length: usize) -> Option<&'static [u8]> {
    let end = address.checked_add(length as u64)?;
    if address == 0 || end > MAPPED_END {
        return None;
    }
    // SAFETY: as in `read`.
    Some(unsafe { core::slice::from_raw_parts(address as *const u8, length) })
}

/// Reads a device's register, or None where nothing is mapped.
#[inline(always)]
pub fn read_device(address: u64) -> Option<u32> {
    if !(DEVICES..=MAPPED_END - 4).contains(&address) {
        return None;
    }
    // SAFETY: mapped, not cached, and no Rust object lives there.
    Some(unsafe { (address as *const u32).read_volatile() })
}

/// Writes a device's register; nothing happens where nothing is mapped.
#[inline(always)]
pub fn write_device(address: u64, value: u32) {
    if (DEVICES..=MAPPED_END - 4).contains(&address) {
        // SAFETY: mapped, not cached, and no Rust object lives there; this program starts no DMA.
        unsafe { (address as *mut u32).write_volatile(value) };
    }
}
