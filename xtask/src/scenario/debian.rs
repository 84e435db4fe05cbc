//! Packages of a release with all that they depend on, unpacked below `target/scenario`: apt with a
//! state of its own, an empty system that knows one release. Nothing is installed.

// The lab's own, without building the lab for it.
#[path = "../../../lab/src/host/apt.rs"]
mod apt;

use super::machine::{need, tool};
use super::stage::{Stage, Stop};
use anyhow::{Context, Result};
pub(crate) use apt::KEYRING;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Says that a tree is whole, and what is in it.
const VERSIONS: &str = "versions";
/// What guests do not read.
const LEFT_OUT: [&str; 3] = ["usr/share/doc", "usr/share/man", "usr/share/locale"];

/// The tree of packages, unpacked once; another list of packages is another tree.
pub(super) fn tree(
    stage: &Stage<'_>,
    name: &str,
    release: &str,
    packages: &[&str],
) -> Result<PathBuf, Stop> {
    need(&["apt-get", "dpkg-deb"])?;
    if !Path::new(KEYRING).exists() {
        let why = format!("{KEYRING} is missing (package debian-archive-keyring)");
        return Err(Stop::Skipped(why));
    }
    let folder = stage.store.join(format!("packages-{name}-{release}"));
    let (tree, versions) = (folder.join("tree"), folder.join(VERSIONS));
    let wanted = packages.join("\n");
    if fs::read_to_string(&versions).is_ok_and(|text| text == wanted) {
        return Ok(tree);
    }
    if folder.exists() {
        fs::remove_dir_all(&folder)?;
    }
    eprintln!("fetching {} of {release}", packages.join(", "));
    let apt = Apt::prepare(&folder.join("apt"), release, false)?;
    apt.run(&["update"])
        .and_then(|()| apt.run(&[&["--download-only", "-y", "install"], packages].concat()))
        .map_err(|error| Stop::Skipped(format!("packages cannot be had: {error:#}")))?;
    unpack(&apt.folder.join("cache/archives"), &tree)?;
    fs::remove_dir_all(apt.folder.join("cache"))?;
    fs::write(versions, wanted)?;
    Ok(tree)
}

fn unpack(archives: &Path, tree: &Path) -> Result<()> {
    fs::create_dir_all(tree)?;
    for entry in fs::read_dir(archives)?.flatten() {
        let path = entry.path();
        if path.extension().is_some_and(|extension| extension == "deb") {
            tool("dpkg-deb", [Path::new("-x"), &path, tree])?;
        }
    }
    for part in LEFT_OUT {
        let _ = fs::remove_dir_all(tree.join(part));
    }
    // As the package that nobody configures here would do it.
    for folder in ["bin", "lib", "lib64", "sbin"] {
        if !tree.join(folder).exists() {
            std::os::unix::fs::symlink(format!("usr/{folder}"), tree.join(folder))?;
        }
    }
    for folder in ["dev", "etc", "proc", "root", "run", "sys", "tmp"] {
        fs::create_dir_all(tree.join(folder))?;
    }
    fs::write(tree.join("etc/hosts"), "127.0.0.1 localhost\n")?;
    Ok(())
}

/// apt with a state of its own.
pub(crate) struct Apt {
    folder: PathBuf,
}

impl Apt {
    pub(crate) fn prepare(folder: &Path, release: &str, has_security: bool) -> Result<Self> {
        apt::prepare(folder, release, has_security)?;
        let own = [("APT::Install-Recommends", "false".to_owned())];
        let settings = apt::settings(folder).into_iter().chain(own);
        let lines: String =
            settings.map(|(name, value)| format!("{name} \"{value}\";\n")).collect();
        fs::write(folder.join("apt.conf"), lines)?;
        Ok(Self { folder: folder.to_owned() })
    }

    pub(crate) fn run(&self, arguments: &[&str]) -> Result<()> {
        self.output("apt-get", &[&["-qq"], arguments].concat()).map(drop)
    }

    /// What one of apt's programs prints.
    pub(crate) fn output(&self, program: &str, arguments: &[&str]) -> Result<String> {
        let mut command = Command::new(program);
        let command = command.args(arguments).stdin(Stdio::null());
        let output = command.env("APT_CONFIG", self.folder.join("apt.conf")).output();
        let output = output.with_context(|| format!("cannot start {program}"))?;
        let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        anyhow::ensure!(output.status.success(), "{program} {}: {said}", arguments.join(" "));
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }
}

/// A distribution's kernel as its package has it.
pub(super) struct Kernel {
    pub(super) image: PathBuf,
    pub(super) release: String,
    modules: Vec<PathBuf>,
}

impl Kernel {
    /// That of the release, which the program fetches for its lab.
    pub(super) fn of(stage: &Stage<'_>, release: &str) -> Result<Self, Stop> {
        let name = match release {
            "bookworm" => "debian-12",
            "trixie" => "debian-13",
            "sid" => "debian-sid",
            _ => {
                let error = anyhow::anyhow!("{release} is neither bookworm, trixie nor sid");
                return Err(error.into());
            }
        };
        let folder = stage.kernel(name)?;
        let (release, image) = crate::golden::image_in(&folder)
            .with_context(|| format!("{}: no vmlinuz", folder.display()))?;
        let mut modules = Vec::new();
        for start in ["lib/modules", "usr/lib/modules"] {
            files(&folder.join(start), &mut modules);
        }
        modules.sort();
        Ok(Self { image, release, modules })
    }

    /// The modules and what they depend on, unpacked, in the order in which they are loaded, as
    /// NUMBER-NAME.ko. A name that no file has is built in.
    pub(super) fn unpack_modules(&self, names: &[&str], folder: &Path) -> Result<()> {
        fs::create_dir_all(folder)?;
        let mut all = Vec::new();
        names.iter().try_for_each(|name| self.collect(name, &mut all))?;
        for (number, (name, bytes)) in all.iter().enumerate() {
            fs::write(folder.join(format!("{}-{name}.ko", number + 10)), bytes)?;
        }
        Ok(())
    }

    /// The same below a root, where modprobe finds them once depmod has run.
    pub(super) fn install_modules(&self, names: &[&str], root: &Path) -> Result<()> {
        let folder = root.join("usr/lib/modules").join(&self.release);
        fs::create_dir_all(&folder)?;
        let mut all = Vec::new();
        names.iter().try_for_each(|name| self.collect(name, &mut all))?;
        for (name, bytes) in all {
            fs::write(folder.join(format!("{name}.ko")), bytes)?;
        }
        Ok(())
    }

    /// What is to be loaded first comes first.
    fn collect(&self, name: &str, all: &mut Vec<(String, Vec<u8>)>) -> Result<()> {
        let Some(path) = self.module(name) else { return Ok(()) };
        if all.iter().any(|(known, _)| same(known, name)) {
            return Ok(());
        }
        let bytes = unpacked(path)?;
        for needed in depends(&bytes) {
            self.collect(&needed, all)?;
        }
        all.push((stem(path), bytes));
        Ok(())
    }

    /// The file of a module.
    pub(super) fn module(&self, name: &str) -> Option<&Path> {
        self.modules.iter().map(PathBuf::as_path).find(|path| same(&stem(path), name))
    }
}

fn files(folder: &Path, all: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        match entry.file_type() {
            Ok(kind) if kind.is_dir() => files(&path, all),
            Ok(_) if path.to_string_lossy().contains(".ko") => all.push(path),
            _ => {}
        }
    }
}

fn stem(path: &Path) -> String {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    name.split(".ko").next().unwrap_or_default().to_owned()
}

/// Files have dashes where the kernel has underscores.
fn same(one: &str, other: &str) -> bool {
    one.replace('-', "_") == other.replace('-', "_")
}

/// A module's bytes, whatever it is packed with.
pub(super) fn unpacked(path: &Path) -> Result<Vec<u8>> {
    let (program, options) = match path.extension().and_then(|end| end.to_str()) {
        Some("xz") => ("xz", "-dc"),
        Some("zst") => ("zstd", "-dcq"),
        _ => return fs::read(path).with_context(|| path.display().to_string()),
    };
    tool(program, [Path::new(options), path])
}

/// What a module says that it depends on. [LINUX "scripts/mod/modpost.c"]
fn depends(module: &[u8]) -> Vec<String> {
    const START: &[u8] = b"\0depends=";
    let Some(at) = module.windows(START.len()).position(|bytes| bytes == START) else {
        return Vec::new();
    };
    let text = module[at + START.len()..].split(|byte| *byte == 0).next().unwrap_or_default();
    let text = String::from_utf8_lossy(text);
    text.split(',').filter(|name| !name.is_empty()).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_module_names_what_it_depends_on() {
        let rows: [(&[u8], &[&str]); 4] = [
            (b"x\0depends=kvm,ccp\0name=kvm_amd\0", &["kvm", "ccp"]),
            (b"x\0depends=\0name=dummy\0", &[]),
            (b"no such field", &[]),
            (b"\0depends=at_the_end", &["at_the_end"]),
        ];
        for (module, expected) in rows {
            assert_eq!(depends(module), expected);
        }
    }

    #[test]
    fn a_module_is_found_by_either_spelling() {
        assert!(same(&stem(Path::new("/lib/kvm-amd.ko.xz")), "kvm_amd"));
        assert!(!same(&stem(Path::new("/lib/kvm.ko")), "kvm_amd"));
    }
}
