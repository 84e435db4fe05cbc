//! What kind of image a file is.

use super::elf::{self, Elf};
use super::error::LoadError;
use super::source::Source;
use super::{multiboot, multiboot2, pvh};

/// The ways to start an image, and what else may lie in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Format {
    /// A Linux kernel with its setup header.
    BzImage,
    /// An image with a Multiboot 1 header at file offset `header`.
    Multiboot {
        /// A multiple of 4, within the first 8 KiB.
        header: u64,
    },
    /// An image with a Multiboot 2 header at file offset `header`.
    Multiboot2 {
        /// A multiple of 8, within the first 32 KiB.
        header: u64,
    },
    /// An ELF image with a PVH entry point.
    ElfPvh,
    /// Nothing that can be started, described for readers.
    Other(String),
}

/// Decides from the bytes alone. A bzImage is often a PE image too, and Xen carries headers of both
/// Multiboots and a PVH note, so the order matters.
pub fn detect(source: Source) -> Result<Format, LoadError> {
    let head = source.head(multiboot2::SEARCHED as u64)?;
    Ok(of_head(&head).unwrap_or_else(|| of_whole(source, &head)))
}

/// What headers at the start of a file say.
fn of_head(bytes: &[u8]) -> Option<Format> {
    if bytes.get(0x1FE..0x200) == Some(&[0x55, 0xAA]) && bytes.get(0x202..0x206) == Some(b"HdrS") {
        return Some(Format::BzImage);
    }
    if let Some(header) = multiboot::find_header(bytes) {
        return Some(Format::Multiboot { header });
    }
    multiboot2::find_header(bytes).map(|header| Format::Multiboot2 { header })
}

/// What tables anywhere in it say.
fn of_whole(source: Source, head: &[u8]) -> Format {
    let source = source.called("this file");
    if let Ok(elf) = Elf::parse(source)
        && pvh::entry(source, &elf).is_ok_and(|entry| entry.is_some())
    {
        return Format::ElfPvh;
    }
    Format::Other(describe(source, head))
}

/// What a file without a way in looks like.
fn describe(source: Source, bytes: &[u8]) -> String {
    const MAGIC: &[(&[u8], &str)] = &[
        (
            b"MZ",
            "a PE image (EFI or Windows), for which this machine has no firmware: boot what it was \
             linked from or wraps, an ELF file or a bzImage",
        ),
        (&[0x1F, 0x8B], "gzip data"),
        (&[0xFD, b'7', b'z', b'X', b'Z', 0], "xz data"),
        (&[0x28, 0xB5, 0x2F, 0xFD], "zstd data"),
        (&[0x02, 0x21, 0x4C, 0x18], "lz4 data"),
        (b"BZh", "bzip2 data"),
        (b"070701", "a cpio archive (an initial RAM disk?)"),
        (b"070702", "a cpio archive (an initial RAM disk?)"),
        (b"QFI\xFB", "a qcow2 disk image"),
        (b"!<arch>\n", "an ar archive or Debian package"),
        (b"#!", "a script"),
    ];
    if bytes.is_empty() {
        return "an empty file".into();
    }
    if bytes.starts_with(elf::MAGIC) {
        return describe_elf(source, bytes);
    }
    if let Some((_, name)) = MAGIC.iter().find(|(magic, _)| bytes.starts_with(magic)) {
        return (*name).into();
    }
    let has_boot_signature = bytes.get(0x1FE..0x200) == Some(&[0x55, 0xAA]);
    let start: Vec<_> = bytes.iter().take(8).map(|byte| format!("{byte:02x}")).collect();
    let kind = if has_boot_signature { "a boot sector or disk image" } else { "unknown contents" };
    format!("{kind} that starts with {}", start.join(" "))
}

fn describe_elf(source: Source, bytes: &[u8]) -> String {
    let machine = bytes.get(18..20).map_or(0, |bytes| u16::from_le_bytes([bytes[0], bytes[1]]));
    let class = match bytes.get(4) {
        Some(1) => "ELF32",
        Some(2) => "ELF64",
        _ => "ELF of unknown class",
    };
    let machine = match machine {
        elf::MACHINE_386 => "i386".into(),
        elf::MACHINE_X86_64 => "x86-64".into(),
        40 => "ARM".into(),
        183 => "AArch64".into(),
        243 => "RISC-V".into(),
        other => format!("machine {other}"),
    };
    match Elf::parse(source) {
        Ok(_) => format!("{class} for {machine} without Multiboot headers and PVH note"),
        Err(error) => format!("{class} for {machine} that cannot be read ({error})"),
    }
}
