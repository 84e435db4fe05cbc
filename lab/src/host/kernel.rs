//! The kernel of an emulated host, with the modules that the lab needs of it.

mod module;

use self::module::{Tree, add_module, information, module_bytes};
use crate::host::distribution::{DISTRIBUTIONS, fetched};
use crate::host::package::unpack;
use crate::watch::Watch;
use anyhow::{Context, bail};
use rules::feature::Feature;
use rules::inhibit::Vendor;
use std::path::{Path, PathBuf};

/// Modules that an emulated host needs, besides its vendor's KVM and those that they depend on.
const MODULES: [&str; 2] = ["virtio_pci", "virtio_console"];
/// What VMX can do is in model-specific registers, which this one shows to programs.
const INTEL_MODULES: [&str; 1] = ["msr"];

/// Where a built kernel's release and image are.
const BUILT_RELEASE: &str = "include/config/kernel.release";
const BUILT_IMAGES: [&str; 2] = ["arch/x86/boot/bzImage", "vmlinux"];

/// Where a kernel package has its modules.
const MODULE_FOLDERS: [&str; 2] = ["usr/lib/modules", "lib/modules"];

/// What an emulated host needs of a kernel.
#[derive(Clone, Copy, Debug)]
pub struct Needs<'a> {
    /// Of the processor: its KVM module comes along.
    pub vendor: Vendor,
    /// Modules besides.
    pub modules: &'a [&'a str],
    /// The same, by a user's names, which must be right.
    pub named: &'a [String],
}

/// A kernel that has not what a user named.
#[derive(Debug, thiserror::Error)]
#[error("{}: no module {name}", folder.display())]
pub struct NoModule {
    /// Where its modules are.
    pub folder: PathBuf,
    /// What was named.
    pub name: String,
}

/// A kernel with the modules that the lab needs.
#[derive(Clone, Debug)]
pub struct Kernel {
    /// Where it is from, for readers.
    pub name: String,
    /// The bzImage.
    pub image: Vec<u8>,
    /// Name with `.ko`, contents; in the order of loading.
    pub modules: Vec<(String, Vec<u8>)>,
    /// What it was to have and neither has as a module nor built in.
    pub lacks: Vec<String>,
}

impl Kernel {
    /// A distribution's kernel by name, or one of this machine: a kernel package, a folder that one
    /// was unpacked to, or a kernel's file with its modules where packages put them. The watch is
    /// told what takes time.
    pub fn find(name: &str, needs: Needs<'_>, watch: &mut Watch<'_>) -> anyhow::Result<Self> {
        match DISTRIBUTIONS.iter().find(|distribution| distribution.name == name) {
            Some(distribution) => Self::unpacked(&fetched(*distribution, watch)?, needs, name),
            None if Path::new(name).join(BUILT_RELEASE).is_file() => {
                Self::built(Path::new(name), needs, name)
            }
            None if Path::new(name).is_dir() => Self::unpacked(Path::new(name), needs, name),
            None if Path::new(name).is_file() && name.ends_with(".deb") => {
                let folder = tempfile::tempdir()?;
                unpack(Path::new(name), folder.path(), watch)?;
                Self::unpacked(folder.path(), needs, name)
            }
            None if Path::new(name).is_file() => Self::of_file(Path::new(name), needs, name),
            None => bail!(
                "{name:?} is neither debian-12, debian-13, debian-sid, builtin, a kernel's file, a kernel \
                 package (.deb), a folder that one was unpacked to, nor one in which a kernel was built"
            ),
        }
    }

    /// Takes a module of this machine in place of the kernel's own.
    pub fn replace_module(&mut self, path: &Path) -> anyhow::Result<()> {
        let file = path.file_name().map(|name| name.to_string_lossy().into_owned());
        let stem = file.as_deref().and_then(|name| name.split('.').next()).unwrap_or_default();
        let name = format!("{}.ko", stem.replace('-', "_"));
        let bytes = module_bytes(path)?;
        let known = self.modules.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>();
        let known = known.join(", ");
        let place = self.modules.iter_mut().find(|(known, _)| *known == name);
        let place = place.with_context(|| {
            format!("{}: the host does not load {name}; it loads {known}", path.display())
        })?;
        place.1 = bytes;
        Ok(())
    }

    /// The parameters that one of the modules has, sorted.
    pub(crate) fn parameters_of(&self, module: &str) -> Vec<String> {
        let file = format!("{module}.ko");
        let bytes = self.modules.iter().find(|(name, _)| *name == file).map(|(_, bytes)| bytes);
        let types = bytes.into_iter().flat_map(|bytes| information(bytes, "parmtype"));
        let names = types.filter_map(|text| Some(text.split_once(':')?.0.to_owned()));
        names.collect::<std::collections::BTreeSet<_>>().into_iter().collect()
    }

    /// The kernel in `boot/vmlinuz-RELEASE` or `lib/modules/RELEASE/vmlinuz`.
    fn of_file(image: &Path, needs: Needs<'_>, name: &str) -> anyhow::Result<Self> {
        let image = image.canonicalize().with_context(|| format!("cannot read {name}"))?;
        let (tree, release) = modules_of(&image).with_context(|| {
            format!(
                "{name} has no modules beside it: a kernel's file is boot/vmlinuz-RELEASE with \
                 lib/modules/RELEASE, or lib/modules/RELEASE/vmlinuz"
            )
        })?;
        Self::with_modules(&image, &Tree::Installed(&tree), &release, needs, name)
    }

    /// A kernel where it was built: its image and what of modules was built beside it.
    fn built(root: &Path, needs: Needs<'_>, name: &str) -> anyhow::Result<Self> {
        let release = std::fs::read_to_string(root.join(BUILT_RELEASE));
        let release = release.with_context(|| format!("{name}: cannot read {BUILT_RELEASE}"))?;
        let images = BUILT_IMAGES.map(|image| root.join(image));
        let image = images.iter().find(|image| image.is_file()).with_context(|| {
            format!("{name} has no {}: make bzImage modules", BUILT_IMAGES.join(" and no "))
        })?;
        Self::with_modules(image, &Tree::built(root), release.trim(), needs, name)
    }

    fn unpacked(folder: &Path, needs: Needs<'_>, name: &str) -> anyhow::Result<Self> {
        let (image, release) = image_in(folder).with_context(|| {
            format!(
                "{} has neither boot/vmlinuz-…, which an unpacked package has, nor \
                     {BUILT_RELEASE}, which a folder has in which a kernel was built: make bzImage \
                     modules",
                folder.display()
            )
        })?;
        let tree = modules_in(folder, &release)
            .with_context(|| format!("no lib/modules/{release} in {}", folder.display()))?;
        Self::with_modules(&image, &Tree::Installed(&tree), &release, needs, name)
    }

    fn with_modules(
        image: &Path,
        tree: &Tree<'_>,
        release: &str,
        needs: Needs<'_>,
        name: &str,
    ) -> anyhow::Result<Self> {
        let mut modules = Vec::new();
        let Needs { vendor, modules: besides, named } = needs;
        let own = Feature::of_vendor(vendor).module();
        let of_vendor: &[&str] = if vendor == Vendor::Intel { &INTEL_MODULES } else { &[] };
        let mut lacks = Vec::new();
        for module in MODULES.iter().chain(of_vendor).chain([&own]).chain(besides) {
            if !add_module(tree, module, &mut modules)? && !tree.has_built_in(module) {
                lacks.push((*module).to_owned());
            }
        }
        for module in named {
            if !add_module(tree, module, &mut modules)? && !tree.has_built_in(module) {
                return Err(
                    NoModule { folder: tree.folder().to_owned(), name: module.clone() }.into()
                );
            }
        }
        if !modules.iter().any(|(name, _)| name.strip_suffix(".ko") == Some(own)) {
            bail!(
                "{} has no module {own}: KVM has to be built as modules (CONFIG_KVM=m, \
                 CONFIG_{}=m), since the lab loads them with one parameter and another",
                tree.folder().display(),
                own.to_uppercase()
            );
        }
        let image_bytes =
            std::fs::read(image).with_context(|| format!("cannot read {}", image.display()))?;
        Ok(Self { name: format!("{name}, Linux {release}"), image: image_bytes, modules, lacks })
    }
}

/// The folder of a release's modules, where it was unpacked to `folder`.
pub(super) fn modules_in(folder: &Path, release: &str) -> Option<PathBuf> {
    let trees = MODULE_FOLDERS.iter().map(|tree| folder.join(tree).join(release));
    trees.into_iter().find(|tree| tree.is_dir())
}

/// The folder of a kernel file's modules, and its release.
fn modules_of(image: &Path) -> Option<(PathBuf, String)> {
    let folder = image.parent()?;
    let file = image.file_name()?.to_string_lossy();
    if let Some(release) = file.strip_prefix("vmlinuz-") {
        let tree = modules_in(folder.parent()?, release);
        return tree.map(|tree| (tree, release.to_owned()));
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
}
