//! Kernels of distributions: fetched by package name on first use, verified, kept.
//!
//! The package manager of Debian and Ubuntu does the work, with lists and sources of our own, so
//! that nothing of the system is changed: `apt-get` checks the distribution's signature and the
//! package's hash.

use crate::cache;
use anyhow::{Context, bail};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Keys that the distribution signs with, as its own package installs them.
const KEYRING: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";
/// The package that names the current kernel.
const META_PACKAGE: &str = "linux-image-amd64";
/// Modules that an emulated host needs, besides those that they depend on.
const MODULES: [&str; 3] = ["virtio_pci", "virtio_console", "kvm-amd"];

/// Where a kernel package has its modules.
const MODULE_FOLDERS: [&str; 2] = ["usr/lib/modules", "lib/modules"];

/// A release of a distribution that kernels are taken from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Distribution {
    /// As on the command line.
    pub name: &'static str,
    suite: &'static str,
    /// Whether there is an archive of security updates besides.
    is_released: bool,
}

pub const DISTRIBUTIONS: [Distribution; 3] = [
    Distribution { name: "debian-12", suite: "bookworm", is_released: true },
    Distribution { name: "debian-13", suite: "trixie", is_released: true },
    Distribution { name: "debian-sid", suite: "sid", is_released: false },
];

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
    /// A distribution's kernel by name, or the kernel in a folder that a kernel package was unpacked
    /// to. `say` is told what takes time.
    pub fn find(name: &str, say: &mut dyn FnMut(&str)) -> anyhow::Result<Self> {
        match DISTRIBUTIONS.iter().find(|distribution| distribution.name == name) {
            Some(distribution) => Self::unpacked(&fetched(*distribution, say)?, name),
            None if Path::new(name).is_dir() => Self::unpacked(Path::new(name), name),
            None => bail!(
                "{name:?} is neither debian-12, debian-13, debian-sid, builtin nor a folder with an unpacked \
                 kernel package (boot/vmlinuz-… and lib/modules/…)"
            ),
        }
    }

    fn unpacked(folder: &Path, name: &str) -> anyhow::Result<Self> {
        let (image, release) = image_in(folder)
            .with_context(|| format!("no boot/vmlinuz-… in {}", folder.display()))?;
        let tree = MODULE_FOLDERS
            .iter()
            .map(|tree| folder.join(tree).join(&release))
            .find(|tree| tree.is_dir())
            .with_context(|| format!("no lib/modules/{release} in {}", folder.display()))?;
        let mut modules = Vec::new();
        for module in MODULES {
            add_module(&tree, module, &mut modules)?;
        }
        if !modules.iter().any(|(name, _)| name == "kvm_amd.ko") {
            bail!("{} has no module kvm-amd", tree.display());
        }
        let image_bytes =
            std::fs::read(&image).with_context(|| format!("cannot read {}", image.display()))?;
        Ok(Self { name: format!("{name}, Linux {release}"), image: image_bytes, modules })
    }
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

/// The folder with a distribution's kernel, fetched if it is not there yet.
fn fetched(distribution: Distribution, say: &mut dyn FnMut(&str)) -> anyhow::Result<PathBuf> {
    let store = cache::folder("kernels")?;
    let folder = store.join(distribution.name);
    if folder.is_dir() {
        return Ok(folder);
    }
    say(&format!("fetching the kernel of {}", distribution.name));
    let work = tempfile::tempdir_in(&store)?;
    let apt = Apt::prepare(work.path(), distribution)?;
    apt.run("apt-get", &["update"])?;
    let text = apt.run("apt-cache", &["depends", META_PACKAGE])?;
    let package = text
        .lines()
        .filter_map(|line| line.trim().strip_prefix("Depends: "))
        .find(|package| package.starts_with("linux-image-"))
        .with_context(|| format!("{META_PACKAGE} of {} names no kernel", distribution.name))?;
    say(&format!("fetching {package}"));
    let text = apt.run("apt-cache", &["depends", package])?;
    let tree = work.path().join("tree");
    for part in parts(package, &text) {
        apt.run("apt-get", &["download", part])?;
        let file = entry(work.path(), |name| name.ends_with(".deb")).context("no package came")?;
        output(Command::new("dpkg-deb").arg("-x").arg(&file).arg(&tree))?;
        std::fs::remove_file(file)?;
    }
    // Another process may have been faster; its folder is as good.
    match std::fs::rename(&tree, &folder) {
        Err(error) if !folder.is_dir() => {
            Err(error).with_context(|| format!("cannot create {}", folder.display()))
        }
        _ => Ok(folder),
    }
}

/// A kernel's package and those of its release that it depends on: newer ones have the image and
/// the modules in packages of their own. `dependencies` is what `apt-cache depends` says.
fn parts<'a>(package: &'a str, dependencies: &'a str) -> Vec<&'a str> {
    let release = package.trim_start_matches("linux-image-");
    let names = dependencies.lines().filter_map(|line| line.trim().split_once("Depends: "));
    let own = names.map(|(_, name)| name).filter(|name| {
        name.strip_suffix(release)
            .is_some_and(|start| ["linux-binary-", "linux-modules-"].contains(&start))
    });
    std::iter::once(package).chain(own).collect()
}

/// `apt` with a state of its own.
struct Apt<'a> {
    folder: &'a Path,
}

impl<'a> Apt<'a> {
    fn prepare(folder: &'a Path, distribution: Distribution) -> anyhow::Result<Self> {
        for part in ["lists/partial", "cache/archives/partial", "empty"] {
            std::fs::create_dir_all(folder.join(part))?;
        }
        std::fs::write(folder.join("status"), "")?;
        let suite = distribution.suite;
        if !Path::new(KEYRING).exists() {
            bail!("{KEYRING} is missing (package debian-archive-keyring): nothing can be verified");
        }
        let signed = format!("deb [arch=amd64 signed-by={KEYRING}] http://deb.debian.org");
        let mut sources = format!("{signed}/debian {suite} main\n");
        if distribution.is_released {
            sources += &format!("{signed}/debian-security {suite}-security main\n");
        }
        std::fs::write(folder.join("sources.list"), sources)?;
        Ok(Self { folder })
    }

    fn run(&self, program: &str, arguments: &[&str]) -> anyhow::Result<String> {
        let at = |part: &str| self.folder.join(part).display().to_string();
        let mut command = Command::new(program);
        for (key, value) in [
            ("Dir::Etc::sourcelist", at("sources.list")),
            ("Dir::Etc::sourceparts", at("empty")),
            ("Dir::State::lists", at("lists")),
            ("Dir::State::status", at("status")),
            ("Dir::Cache", at("cache")),
            ("APT::Architecture", "amd64".into()),
            ("APT::Architectures", "amd64".into()),
            ("APT::Sandbox::User", "root".into()),
        ] {
            command.arg("-o").arg(format!("{key}={value}"));
        }
        output(command.arg("-q").args(arguments).current_dir(self.folder))
    }
}

/// Standard output of a command that must succeed.
fn output(command: &mut Command) -> anyhow::Result<String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command.output().with_context(|| format!("cannot start {name}"))?;
    if !output.status.success() {
        let error = String::from_utf8_lossy(&output.stderr);
        bail!("{name} failed: {}", error.trim().lines().last().unwrap_or("without a word"));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kernel_in_several_packages_is_fetched_whole() {
        let split = "linux-image-7.2.13-amd64\n  PreDepends: linux-base\n |Depends: dracut\n  \
                     Depends: linux-base-7.2.13-amd64\n  Depends: linux-binary-7.2.13-amd64\n  \
                     Depends: linux-modules-7.2.13-amd64\n";
        let all = parts("linux-image-7.2.13-amd64", split);
        let names = ["image", "binary", "modules"].map(|part| format!("linux-{part}-7.2.13-amd64"));
        assert_eq!(all, names);
        assert_eq!(parts("linux-image-6.1-amd64", "  Depends: kmod\n"), ["linux-image-6.1-amd64"]);
    }

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
