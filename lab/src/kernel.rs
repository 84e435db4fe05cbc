//! The kernel of an emulated host, with the modules that the lab needs of it.

use crate::distribution::{DISTRIBUTIONS, fetched, unpack};
use anyhow::{Context, bail};
use std::path::{Path, PathBuf};

/// Modules that an emulated host needs, besides those that they depend on.
const MODULES: [&str; 3] = ["virtio_pci", "virtio_console", "kvm-amd"];

/// Where a kernel package has its modules.
const MODULE_FOLDERS: [&str; 2] = ["usr/lib/modules", "lib/modules"];

/// A kernel with the modules that the lab needs.
#[derive(Clone, Debug)]
pub struct Kernel {
    /// Where it is from, for people.
    pub name: String,
    pub image: Vec<u8>,
    /// Name with `.ko`, contents; in the order of loading.
    pub modules: Vec<(String, Vec<u8>)>,
}

impl Kernel {
    /// A distribution's kernel by name, or one of this machine: a kernel package, a folder that one
    /// was unpacked to, or a kernel's file with its modules where packages put them. `say` is told
    /// what takes time.
    pub fn find(name: &str, say: &mut dyn FnMut(&str)) -> anyhow::Result<Self> {
        match DISTRIBUTIONS.iter().find(|distribution| distribution.name == name) {
            Some(distribution) => Self::unpacked(&fetched(*distribution, say)?, name),
            None if Path::new(name).is_dir() => Self::unpacked(Path::new(name), name),
            None if Path::new(name).is_file() && name.ends_with(".deb") => {
                let folder = tempfile::tempdir()?;
                unpack(Path::new(name), folder.path())?;
                Self::unpacked(folder.path(), name)
            }
            None if Path::new(name).is_file() => Self::of_file(Path::new(name), name),
            None => bail!(
                "{name:?} is neither debian-12, debian-13, debian-sid, builtin, a kernel's file, a kernel \
                 package (.deb) nor a folder that one was unpacked to"
            ),
        }
    }

    /// The kernel in `boot/vmlinuz-RELEASE` or `lib/modules/RELEASE/vmlinuz`.
    fn of_file(image: &Path, name: &str) -> anyhow::Result<Self> {
        let image = image.canonicalize().with_context(|| format!("cannot read {name}"))?;
        let (tree, release) = modules_of(&image).with_context(|| {
            format!(
                "{name} has no modules beside it: a kernel's file is boot/vmlinuz-RELEASE with \
                 lib/modules/RELEASE, or lib/modules/RELEASE/vmlinuz"
            )
        })?;
        Self::with_modules(&image, &tree, &release, name)
    }

    fn unpacked(folder: &Path, name: &str) -> anyhow::Result<Self> {
        let (image, release) = image_in(folder)
            .with_context(|| format!("no boot/vmlinuz-… in {}", folder.display()))?;
        let tree = MODULE_FOLDERS
            .iter()
            .map(|tree| folder.join(tree).join(&release))
            .find(|tree| tree.is_dir())
            .with_context(|| format!("no lib/modules/{release} in {}", folder.display()))?;
        Self::with_modules(&image, &tree, &release, name)
    }

    fn with_modules(image: &Path, tree: &Path, release: &str, name: &str) -> anyhow::Result<Self> {
        let mut modules = Vec::new();
        for module in MODULES {
            add_module(tree, module, &mut modules)?;
        }
        if !modules.iter().any(|(name, _)| name == "kvm_amd.ko") {
            bail!("{} has no module kvm-amd", tree.display());
        }
        let image_bytes =
            std::fs::read(image).with_context(|| format!("cannot read {}", image.display()))?;
        Ok(Self { name: format!("{name}, Linux {release}"), image: image_bytes, modules })
    }
}

/// The folder of a kernel file's modules, and its release.
fn modules_of(image: &Path) -> Option<(PathBuf, String)> {
    let folder = image.parent()?;
    let file = image.file_name()?.to_string_lossy();
    if let Some(release) = file.strip_prefix("vmlinuz-") {
        let root = folder.parent()?;
        let tree = MODULE_FOLDERS.iter().map(|tree| root.join(tree).join(release));
        return tree.into_iter().find(|tree| tree.is_dir()).map(|tree| (tree, release.to_owned()));
    }
    let release = folder.file_name()?.to_string_lossy().into_owned();
    (file == "vmlinuz" && folder.join("kernel").is_dir()).then(|| (folder.to_owned(), release))
}

/// The kernel's file and release: in boot, or where newer packages have it, beside the modules.
fn image_in(folder: &Path) -> Option<(PathBuf, String)> {
    if let Some(image) = entry(&folder.join("boot"), |name| name.starts_with("vmlinuz-")) {
        let name = image.file_name()?.to_string_lossy().into_owned();
        return Some((image, name.trim_start_matches("vmlinuz-").to_owned()));
    }
    MODULE_FOLDERS.iter().find_map(|tree| {
        let release = entry(&folder.join(tree), |_| true)?;
        let name = release.file_name()?.to_string_lossy().into_owned();
        Some(release.join("vmlinuz")).filter(|image| image.is_file()).map(|image| (image, name))
    })
}

fn entry(folder: &Path, wanted: impl Fn(&str) -> bool) -> Option<PathBuf> {
    let entries = std::fs::read_dir(folder).ok()?.flatten();
    let mut paths: Vec<PathBuf> = entries
        .filter(|entry| wanted(&entry.file_name().to_string_lossy()))
        .map(|entry| entry.path())
        .collect();
    paths.sort();
    paths.pop()
}

/// Adds a module behind all that it depends on.
fn add_module(
    tree: &Path,
    module: &str,
    modules: &mut Vec<(String, Vec<u8>)>,
) -> anyhow::Result<()> {
    let name = format!("{}.ko", module.replace('-', "_"));
    if modules.iter().any(|(known, _)| *known == name) {
        return Ok(());
    }
    // A part that this kernel has built in has no file.
    let Some(path) = module_file(tree, module) else { return Ok(()) };
    let bytes = module_bytes(&path)?;
    for dependency in dependencies(&bytes) {
        add_module(tree, &dependency, modules)?;
    }
    modules.push((name, bytes));
    Ok(())
}

/// The names after `depends=` in a module's `.modinfo`, where texts end with a zero byte.
fn dependencies(module: &[u8]) -> Vec<String> {
    const KEY: &[u8] = b"\0depends=";
    let Some(at) = module.windows(KEY.len()).position(|window| window == KEY) else {
        return Vec::new();
    };
    let value = module[at + KEY.len()..].split(|byte| *byte == 0).next().unwrap_or_default();
    let names = String::from_utf8_lossy(value).into_owned();
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

fn module_bytes(path: &Path) -> anyhow::Result<Vec<u8>> {
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
    fn a_kernel_is_found_in_boot_or_beside_its_modules() {
        let folder = tempfile::tempdir().expect("a writable folder");
        assert_eq!(image_in(folder.path()), None);
        let modules = folder.path().join("usr/lib/modules/7.2-amd64");
        std::fs::create_dir_all(&modules).expect("a writable folder");
        assert_eq!(image_in(folder.path()), None);
        std::fs::write(modules.join("vmlinuz"), "").expect("a writable folder");
        let found = image_in(folder.path()).expect("beside the modules");
        assert_eq!(found, (modules.join("vmlinuz"), "7.2-amd64".into()));
        std::fs::create_dir(folder.path().join("boot")).expect("a writable folder");
        let boot = folder.path().join("boot/vmlinuz-6.1-amd64");
        std::fs::write(&boot, "").expect("a writable folder");
        assert_eq!(image_in(folder.path()), Some((boot, "6.1-amd64".into())));
    }

    #[test]
    fn the_modules_of_a_kernel_file_are_where_packages_put_them() {
        let folder = tempfile::tempdir().expect("a writable folder");
        let tree = folder.path().join("lib/modules/6.1-amd64");
        std::fs::create_dir_all(tree.join("kernel")).expect("a writable folder");
        let found = Some((tree.clone(), "6.1-amd64".to_owned()));
        assert_eq!(modules_of(&folder.path().join("boot/vmlinuz-6.1-amd64")), found);
        assert_eq!(modules_of(&tree.join("vmlinuz")), found);
        assert_eq!(modules_of(&folder.path().join("boot/vmlinuz-6.2-amd64")), None);
        assert_eq!(modules_of(&folder.path().join("bzImage")), None);
    }

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
        add_module(folder.path(), "kvm-amd", &mut modules).expect("readable modules");
        let names: Vec<&str> = modules.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["irqbypass.ko", "kvm.ko", "kvm_amd.ko"], "ccp is built in");
    }
}
