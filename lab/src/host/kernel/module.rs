//! Kernel modules as files: where they are, what they are packed with, what they say of themselves.

use anyhow::Context;
use std::path::{Path, PathBuf};

/// Where a kernel's modules are.
pub(super) enum Tree<'a> {
    /// As they are installed: below `kernel`.
    Installed(&'a Path),
    /// As they were built, in the order of the file `modules.order`.
    Built { root: &'a Path, order: Vec<PathBuf> },
}

impl<'a> Tree<'a> {
    /// The modules of a folder in which a kernel was built.
    pub(super) fn built(root: &'a Path) -> Self {
        let text = std::fs::read_to_string(root.join("modules.order")).unwrap_or_default();
        // Newer kernels list objects, older ones the modules themselves.
        let order = text.lines().map(|line| root.join(line).with_extension("ko")).collect();
        Self::Built { root, order }
    }

    pub(super) fn folder(&self) -> &Path {
        match self {
            Self::Installed(folder) => folder,
            Self::Built { root, .. } => root,
        }
    }

    /// Whether the kernel has a module in itself. [LINUX "Documentation/kbuild/kbuild.rst"]
    pub(super) fn has_built_in(&self, module: &str) -> bool {
        let list = std::fs::read_to_string(self.folder().join("modules.builtin"));
        let wanted = module.replace('-', "_");
        let names = |path: &str| {
            let file = path.rsplit('/').next().unwrap_or_default();
            file.strip_suffix(".ko").unwrap_or(file).replace('-', "_")
        };
        list.unwrap_or_default().lines().any(|path| names(path) == wanted)
    }

    /// The file of a module, whatever it is packed with; names know no difference of - and _.
    fn file_of(&self, module: &str) -> Option<PathBuf> {
        match self {
            Self::Installed(folder) => module_file(folder, module),
            Self::Built { order, .. } => {
                let is_it = |path: &&PathBuf| {
                    let stem =
                        path.file_stem().map(|stem| stem.to_string_lossy().replace('-', "_"));
                    stem.as_deref() == Some(module.replace('-', "_").as_str()) && path.is_file()
                };
                order.iter().find(is_it).cloned()
            }
        }
    }
}

/// Adds a module behind all that it depends on; whether there is one.
pub(super) fn add_module(
    tree: &Tree<'_>,
    module: &str,
    modules: &mut Vec<(String, Vec<u8>)>,
) -> anyhow::Result<bool> {
    let name = format!("{}.ko", module.replace('-', "_"));
    if modules.iter().any(|(known, _)| *known == name) {
        return Ok(true);
    }
    // A part that this kernel has built in has no file.
    let Some(path) = tree.file_of(module) else { return Ok(false) };
    let bytes = module_bytes(&path)?;
    for dependency in dependencies(&bytes) {
        add_module(tree, &dependency, modules)?;
    }
    modules.push((name, bytes));
    Ok(true)
}

/// The values of a key in a module's `.modinfo`, where texts end with a zero byte.
pub(super) fn information<'a>(module: &'a [u8], key: &'a str) -> impl Iterator<Item = String> + 'a {
    let key = format!("\0{key}=");
    let at = places_of(module, key.clone().into_bytes());
    at.map(move |at| {
        let value = module[at + key.len()..].split(|byte| *byte == 0).next().unwrap_or_default();
        String::from_utf8_lossy(value).into_owned()
    })
}

fn places_of(bytes: &[u8], key: Vec<u8>) -> impl Iterator<Item = usize> + '_ {
    let places = (0..bytes.len().saturating_sub(key.len())).filter(|at| bytes[*at] == 0);
    places.filter(move |at| bytes[*at..].starts_with(&key))
}

/// The modules that one depends on.
fn dependencies(module: &[u8]) -> Vec<String> {
    let names = information(module, "depends").next().unwrap_or_default();
    names.split(',').filter(|name| !name.is_empty()).map(str::to_owned).collect()
}

/// The file of a module, whatever it is packed with; names know no difference of - and _.
fn module_file(tree: &Path, module: &str) -> Option<PathBuf> {
    let mut folders = vec![tree.join("kernel")];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).into_iter().flatten().flatten() {
            let name = entry.file_name().to_string_lossy().replace('-', "_");
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                folders.push(entry.path());
            } else if name.split('.').next() == Some(module.replace('-', "_").as_str()) {
                return Some(entry.path());
            }
        }
    }
    None
}

pub(super) fn module_bytes(path: &Path) -> anyhow::Result<Vec<u8>> {
    use std::io::Read;
    let bytes = std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
    let mut unpacked = Vec::new();
    match path.extension().and_then(|extension| extension.to_str()) {
        Some("xz") => liblzma::read::XzDecoder::new(&bytes[..]).read_to_end(&mut unpacked),
        Some("zst") => zstd::Decoder::new(&bytes[..])?.read_to_end(&mut unpacked),
        _ => return Ok(bytes),
    }
    .with_context(|| format!("cannot unpack {}", path.display()))?;
    Ok(unpacked)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modules_come_behind_those_that_they_depend_on() {
        let folder = tempfile::tempdir().expect("a writable folder");
        let kernel = folder.path().join("kernel/drivers");
        std::fs::create_dir_all(&kernel).expect("a writable folder");
        for (name, depends) in [("kvm-amd", "ccp,kvm"), ("kvm", "irqbypass"), ("irqbypass", "")] {
            let text = format!("license=GPL\0depends={depends}\0name={name}\0");
            std::fs::write(kernel.join(format!("{name}.ko")), text).expect("a writable folder");
        }
        let mut modules = Vec::new();
        add_module(&Tree::Installed(folder.path()), "kvm-amd", &mut modules)
            .expect("readable modules");
        let names: Vec<&str> = modules.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["irqbypass.ko", "kvm.ko", "kvm_amd.ko"], "ccp is built in");
    }

    #[test]
    fn a_module_is_there_or_built_in_or_neither() {
        let folder = tempfile::tempdir().expect("a writable folder");
        let (root, kernel) = (folder.path(), folder.path().join("kernel"));
        std::fs::create_dir(&kernel).expect("a writable folder");
        std::fs::write(kernel.join("dmatest.ko"), "name=dmatest\0").expect("a writable folder");
        let list = "kernel/drivers/iommu/iommufd/iommufd.ko\nkernel/lib/crc-t10dif.ko\n";
        std::fs::write(root.join("modules.builtin"), list).expect("a writable folder");
        let tree = Tree::Installed(root);
        for (module, is_file, is_built_in) in [
            ("dmatest", true, false),
            ("iommufd", false, true),
            ("crc_t10dif", false, true),
            ("crc-t10dif", false, true),
            ("dma", false, false),
        ] {
            let found = add_module(&tree, module, &mut Vec::new()).expect("readable modules");
            assert_eq!((found, tree.has_built_in(module)), (is_file, is_built_in), "{module}");
        }
    }

    #[test]
    fn the_modules_of_a_built_kernel_are_where_it_says() {
        let folder = tempfile::tempdir().expect("a writable folder");
        let root = folder.path();
        for (path, depends) in [("arch/x86/kvm/kvm-amd", "kvm"), ("arch/x86/kvm/kvm", "")] {
            let file = root.join(path).with_extension("ko");
            std::fs::create_dir_all(file.parent().expect("a parent")).expect("a writable folder");
            std::fs::write(file, format!("a=b\0depends={depends}\0")).expect("a writable folder");
        }
        let order = "arch/x86/kvm/kvm.o\narch/x86/kvm/kvm-amd.o\ndrivers/virtio/virtio_pci.o\n";
        std::fs::write(root.join("modules.order"), order).expect("a writable folder");
        let mut modules = Vec::new();
        let tree = Tree::built(root);
        for module in ["virtio_pci", "kvm-amd"] {
            add_module(&tree, module, &mut modules).expect("readable modules");
        }
        let names: Vec<&str> = modules.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["kvm.ko", "kvm_amd.ko"], "virtio_pci was not built");
    }
}
