//! What a program needs to run somewhere else: its file without what only debuggers read, and the
//! libraries that it is linked to.

use anyhow::Context;
use object::read::elf::{Dyn as _, FileHeader as _, ProgramHeader as _};
use object::{Endianness, elf};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Where the dynamic linker looks on distributions for x86-64, besides a file's own run path.
const LIBRARY_FOLDERS: [&str; 6] = [
    "/lib/x86_64-linux-gnu",
    "/usr/lib/x86_64-linux-gnu",
    "/lib64",
    "/usr/lib64",
    "/lib",
    "/usr/lib",
];

type Header = elf::FileHeader64<Endianness>;

/// What one file asks for.
struct Needs {
    interpreter: Option<String>,
    libraries: Vec<String>,
    /// Bytes of the file that are loaded.
    loaded: usize,
}

/// A program and everything that it is linked to: path on the target, contents.
pub(crate) fn closure(program: &Path) -> anyhow::Result<BTreeMap<PathBuf, Vec<u8>>> {
    walk(program, true)
}

/// The same without what this machine does not have.
pub(crate) fn closure_of_what_is_here(
    program: &Path,
) -> anyhow::Result<BTreeMap<PathBuf, Vec<u8>>> {
    walk(program, false)
}

fn walk(program: &Path, needs_all: bool) -> anyhow::Result<BTreeMap<PathBuf, Vec<u8>>> {
    let mut files = BTreeMap::new();
    let mut waiting = vec![program.to_owned()];
    while let Some(path) = waiting.pop() {
        if files.contains_key(&path) {
            continue;
        }
        let mut bytes =
            std::fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
        // A script, a module or a file for another machine has no needs that could be seen.
        if let Ok(Some(needs)) = needs(&bytes) {
            let interpreter = needs.interpreter.map(PathBuf::from);
            waiting.extend(interpreter.filter(|path| needs_all || path.exists()));
            for library in &needs.libraries {
                let found = find(library);
                anyhow::ensure!(
                    found.is_some() || !needs_all,
                    "{} needs {library}, which is not installed",
                    path.display()
                );
                waiting.extend(found);
            }
            bytes.truncate(needs.loaded);
        }
        files.insert(path, bytes);
    }
    Ok(files)
}

fn find(library: &str) -> Option<PathBuf> {
    LIBRARY_FOLDERS.iter().map(|folder| Path::new(folder).join(library)).find(|path| path.exists())
}

/// `None` of what is neither a program nor a library: nothing of it would be loaded, yet all
/// counts. [ELF "Program Header", "Dynamic Section"]
fn needs(bytes: &[u8]) -> object::Result<Option<Needs>> {
    let header = Header::parse(bytes)?;
    let endian = header.endian()?;
    if !matches!(header.e_type(endian), elf::ET_EXEC | elf::ET_DYN) {
        return Ok(None);
    }
    let segments = header.program_headers(endian, bytes)?;
    let mut needs = Needs { interpreter: None, libraries: Vec::new(), loaded: 0 };
    for segment in segments {
        let end = segment.p_offset(endian).saturating_add(segment.p_filesz(endian));
        needs.loaded = needs.loaded.max(end.min(bytes.len() as u64) as usize);
        if let Some(path) = segment.interpreter(endian, bytes)? {
            needs.interpreter = Some(String::from_utf8_lossy(path).into_owned());
        }
        if let Some(entries) = segment.dynamic(endian, bytes)? {
            needs.libraries = libraries(entries, segments, endian, bytes)?;
        }
    }
    Ok(Some(needs))
}

/// The names under DT_NEEDED.
fn libraries(
    entries: &[elf::Dyn64<Endianness>],
    segments: &[elf::ProgramHeader64<Endianness>],
    endian: Endianness,
    bytes: &[u8],
) -> object::Result<Vec<String>> {
    let value = |tag: u32| {
        entries.iter().find(|entry| entry.tag32(endian) == Some(tag)).map(|e| e.d_val(endian))
    };
    let (Some(address), Some(size)) = (value(elf::DT_STRTAB), value(elf::DT_STRSZ)) else {
        return Ok(Vec::new());
    };
    let table = segments
        .iter()
        .find_map(|segment| segment.data_range(endian, bytes, address, size).ok().flatten());
    let strings = object::StringTable::new(table.unwrap_or(&[]), 0, size);
    let needed = entries.iter().filter(|entry| entry.tag32(endian) == Some(elf::DT_NEEDED));
    Ok(needed
        .filter_map(|entry| strings.get(entry.val32(endian)?).ok())
        .map(|name| String::from_utf8_lossy(name).into_owned())
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_comes_with_its_interpreter_and_libraries() {
        let own = std::env::current_exe().expect("this test");
        let files = closure(&own).expect("a program that runs here");
        let is_static = files.len() == 1;
        assert!(is_static || files.keys().any(|path| path.to_string_lossy().contains("libc")));
        let size = std::fs::metadata(&own).expect("a file").len();
        assert!((files[&own].len() as u64) < size, "the symbols stay behind");
    }

    #[test]
    fn a_module_is_taken_whole() {
        let mut module = vec![0; 200];
        module[..7].copy_from_slice(b"\x7fELF\x02\x01\x01");
        module[16] = elf::ET_REL as u8;
        module[18] = elf::EM_X86_64 as u8;
        module[20] = 1;
        module[52] = 64;
        let folder = tempfile::tempdir().expect("a writable folder");
        let path = folder.path().join("vfio.ko");
        std::fs::write(&path, &module).expect("a writable folder");
        assert!(matches!(needs(&module), Ok(None)));
        assert_eq!(closure(&path).expect("a file")[&path], module);
    }

    #[test]
    fn what_is_not_elf_has_no_needs() {
        assert!(needs(b"#!/bin/sh\n").is_err());
        assert!(needs(b"\x7fELF\x02\x01\x01").is_err());
    }
}
