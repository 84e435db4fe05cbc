//! `cargo xtask pins`: the kernels that the lab's names stand for (`lab/kernels.toml`), beside
//! those that the archive has today. Nothing moves them but `--write`.

use crate::scenario::debian::{Apt, KEYRING};
use anyhow::{Context, Result, ensure};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

const FILE: &str = "lab/kernels.toml";
/// The package that names the current kernel.
const META_PACKAGE: &str = "linux-image-amd64";
/// Names, releases, and whether there is an archive of security updates besides.
const RELEASES: [(&str, &str, bool); 3] =
    [("debian-12", "bookworm", true), ("debian-13", "trixie", true), ("debian-sid", "sid", false)];

pub fn run(root: &Path, is_written: bool) -> Result<()> {
    ensure!(Path::new(KEYRING).exists(), "{KEYRING} is missing: nothing can be verified");
    let path = root.join(FILE);
    let text = fs::read_to_string(&path)?;
    let pinned: toml::Table = text.parse().context(FILE)?;
    let mut new = text.split("\n[").next().unwrap_or_default().trim_end().to_owned() + "\n";
    for (name, suite, has_security) in RELEASES {
        let kernel = today(&root.join("target/pins").join(suite), suite, has_security)?;
        let own = pinned.get(name).and_then(|one| one.get("version")).and_then(|one| one.as_str());
        let version = &kernel.version;
        match own {
            Some(own) if own == version => println!("{name}: {own}, as the archive has it"),
            own => println!("{name}: {}, the archive has {version}", own.unwrap_or("none")),
        }
        write!(new, "\n{}", kernel.entry(name))?;
    }
    if is_written {
        fs::write(&path, new)?;
        println!(
            "{FILE} is written; kernels that were fetched earlier stay until they are removed"
        );
    }
    Ok(())
}

/// What the archive has of a kernel.
struct Kernel {
    release: String,
    version: String,
    /// By package.
    sha256: BTreeMap<String, String>,
}

fn today(folder: &Path, suite: &str, has_security: bool) -> Result<Kernel> {
    let apt = Apt::prepare(folder, suite, has_security)?;
    apt.run(&["update"])?;
    let depends = apt.output("apt-cache", &["depends", META_PACKAGE])?;
    let image = dependencies(&depends).find(|name| name.starts_with("linux-image-"));
    let image = image.with_context(|| format!("{META_PACKAGE} of {suite} names no kernel"))?;
    let release = image.trim_start_matches("linux-image-");
    let depends = apt.output("apt-cache", &["depends", image])?;
    let others = ["linux-binary-", "linux-modules-"].map(|start| format!("{start}{release}"));
    let others = dependencies(&depends).filter(|name| others.iter().any(|other| other == name));
    let (mut version, mut sha256) = (String::new(), BTreeMap::new());
    for package in std::iter::once(image).chain(others) {
        let text = apt.output("apt-cache", &["show", "--no-all-versions", package])?;
        let field = |name: &str| {
            let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
            value.with_context(|| format!("{package} has no {name}")).map(str::to_owned)
        };
        version = field("Version")?;
        sha256.insert(package.to_owned(), field("SHA256")?);
    }
    Ok(Kernel { release: release.to_owned(), version, sha256 })
}

/// Of what `apt-cache depends` says.
fn dependencies(text: &str) -> impl Iterator<Item = &str> {
    text.lines().filter_map(|line| line.trim().strip_prefix("Depends: "))
}

impl Kernel {
    fn entry(&self, name: &str) -> String {
        let Self { release, version, sha256 } = self;
        let sums = sha256.iter().map(|(package, sum)| format!("\"{package}\" = \"{sum}\"\n"));
        let sums: String = sums.collect();
        format!(
            "[{name}]\nrelease = \"{release}\"\nversion = \"{version}\"\n\n[{name}.sha256]\n{sums}"
        )
    }
}
