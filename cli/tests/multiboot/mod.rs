//! A program for the bare machine, as a Multiboot image.

/// Nothing but code at 10_0020h, and HLT behind it.
pub fn image(code: &[u8]) -> Vec<u8> {
    let (magic, flags, load) = (0x1BAD_B002u32, 0x1_0000u32, 0x10_0000u32);
    let check = 0u32.wrapping_sub(magic).wrapping_sub(flags);
    let head = [magic, flags, check, load, load, 0, 0, load + 0x20];
    let mut image: Vec<u8> = head.into_iter().flat_map(u32::to_le_bytes).collect();
    image.extend(code);
    image.resize(0x200, 0xF4);
    image
}
