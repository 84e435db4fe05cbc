//! `--share FOLDER[=PATH THERE][,writable]`: folders of this machine that the emulated host mounts.

use crate::sandbox::Sandbox;
use crate::status::Usage;
use crate::verb::machine::share::{Share, raise_limit};
use board::shared_folder::Access;
use lab::drive::session::Session;
use lab::host::Host;
use lab::watch::Watch;
use std::path::{Path, PathBuf};

#[derive(Clone, clap::Args)]
// The verbs that take these in have a group of this name.
#[group(skip)]
pub(super) struct Arguments {
    /// A folder of this machine that the host mounts by 9P, at the same path or at another. It is
    /// not copied, and what is written to a writable one is written here
    #[arg(long = "share", value_name = "FOLDER[=PATH THERE][,writable]", value_parser = parse)]
    shares: Vec<Wanted>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Wanted {
    folder: PathBuf,
    there: String,
    access: Access,
}

fn parse(text: &str) -> Result<Wanted, String> {
    let (rest, access) = match text.strip_suffix(",writable") {
        Some(rest) => (rest, Access::Writable),
        None => (text.strip_suffix(",readonly").unwrap_or(text), Access::ReadOnly),
    };
    let (folder, there) = match rest.split_once('=') {
        Some((folder, there)) => (folder, Some(there)),
        None => (rest, None),
    };
    let folder = Path::new(folder).canonicalize().map_err(|error| format!("{folder}: {error}"))?;
    if !folder.is_dir() {
        return Err(format!("{}: not a folder; --root brings files", folder.display()));
    }
    let there = there.map_or_else(|| folder.to_string_lossy().into_owned(), str::to_owned);
    match there.strip_prefix('/') {
        Some(rest) if !rest.is_empty() => Ok(Wanted { folder, there, access }),
        _ => Err(format!("{there:?}: the path there begins with / and is not the root")),
    }
}

impl Arguments {
    fn shares(&self) -> impl Iterator<Item = (Share, &str)> {
        self.shares.iter().enumerate().map(|(number, wanted)| {
            let Wanted { folder, there, access } = wanted;
            (Share::new(format!("share{number}"), folder.clone(), *access), there.as_str())
        })
    }

    /// Gives the host a device for each.
    pub(super) fn add_to(&self, host: &mut Host) -> anyhow::Result<()> {
        for (share, _) in self.shares() {
            host.folders.push(share.device()?);
        }
        if !self.shares.is_empty() {
            raise_limit();
        }
        device::registry::check_places(&host.functions())
            .map_err(|why| Usage::of(anyhow::anyhow!("--share, --device: {why}")))
    }

    pub(super) fn name_inputs(&self, sandbox: &mut Sandbox) {
        self.shares().for_each(|(share, _)| share.name_input(sandbox));
    }

    /// Has the host mount them.
    pub(super) fn mount(&self, session: &mut Session, watch: &mut Watch<'_>) -> anyhow::Result<()> {
        for (share, there) in self.shares() {
            session.mount(share.tag(), there, watch)?;
        }
        Ok(())
    }

    /// Where a path of the host is on this machine, if it is in one of them.
    pub(super) fn here(&self, path: &str) -> Option<PathBuf> {
        let here = |wanted: &Wanted| {
            let rest = Path::new(path).strip_prefix(&wanted.there).ok()?;
            Some(wanted.folder.join(rest)).filter(|file| file.is_file())
        };
        self.shares.iter().rev().find_map(here)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_shared_at_its_own_path_or_another_and_read_only_unless_said_otherwise() {
        let folder = tempfile::tempdir().expect("a writable folder");
        let path = folder.path().canonicalize().expect("a path");
        let here = path.to_str().expect("a plain name");
        std::fs::write(path.join("file"), "").expect("a writable folder");
        let wanted = |there: &str, access| {
            Ok(Wanted { folder: path.clone(), there: there.to_owned(), access })
        };
        for (text, expected) in [
            (here.to_owned(), wanted(here, Access::ReadOnly)),
            (
                format!("{here}/../{}", path.file_name().unwrap_or_default().to_string_lossy()),
                wanted(here, Access::ReadOnly),
            ),
            (format!("{here}=/there,writable"), wanted("/there", Access::Writable)),
            (format!("{here},readonly"), wanted(here, Access::ReadOnly)),
        ] {
            assert_eq!(parse(&text), expected, "{text}");
        }
        for (text, complaint) in [
            (format!("{here}/file"), "not a folder"),
            (format!("{here}/none"), "No such file"),
            (format!("{here}=there"), "begins with /"),
            (format!("{here}=/"), "begins with /"),
        ] {
            let error = parse(&text).expect_err(&text);
            assert!(error.contains(complaint), "{text}: {error}");
        }
    }

    #[test]
    fn a_program_in_a_shared_folder_is_found_where_it_is_here() {
        let folder = tempfile::tempdir().expect("a writable folder");
        let file = folder.path().canonicalize().expect("a path").join("prog");
        std::fs::write(&file, "").expect("a writable folder");
        let text = format!("{}=/there", folder.path().display());
        let arguments = Arguments { shares: vec![parse(&text).expect("a folder")] };
        assert_eq!(arguments.here("/there/prog"), Some(file));
        assert_eq!(arguments.here("/there/none"), None);
        assert_eq!(arguments.here("/thereby/prog"), None);
    }
}
