//! One file: read with its mode and owner, replaced in one step, restored.

use crate::Error;
use serde::{Deserialize, Serialize};
use std::fs::{self, File, Permissions};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};

/// A file as it was.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Saved {
    pub text: String,
    pub mode: u32,
    pub user: u32,
    pub group: u32,
}

/// The file; `None` if it does not exist.
pub fn read(path: &Path) -> Result<Option<Saved>, Error> {
    let failed = |source| Error::File { path: path.into(), source };
    let text = match fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(failed(error)),
    };
    let metadata = fs::metadata(path).map_err(failed)?;
    Ok(Some(Saved {
        text,
        mode: metadata.mode() & 0o7777,
        user: metadata.uid(),
        group: metadata.gid(),
    }))
}

/// Replaces a file's content: a new file beside it, on the disk, then renamed over it.
pub fn write(path: &Path, text: &str, like: Option<&Saved>) -> Result<(), Error> {
    let failed = |source| Error::File { path: path.into(), source };
    // A link is followed, so that what it points to changes and the link stays.
    let path = path.canonicalize().unwrap_or_else(|_| path.to_path_buf());
    let folder = path.parent().unwrap_or(Path::new("/"));
    fs::create_dir_all(folder).map_err(failed)?;
    let mut beside = path.clone().into_os_string();
    beside.push(".avicenna-new");
    let beside = PathBuf::from(beside);
    let write = || -> std::io::Result<()> {
        let mut file = File::create(&beside)?;
        file.write_all(text.as_bytes())?;
        file.set_permissions(Permissions::from_mode(like.map_or(0o644, |saved| saved.mode)))?;
        if let Some(saved) = like {
            let current = file.metadata()?;
            if (current.uid(), current.gid()) != (saved.user, saved.group) {
                chown(&beside, Some(saved.user), Some(saved.group))?;
            }
        }
        file.sync_all()?;
        fs::rename(&beside, &path)?;
        File::open(folder)?.sync_all()
    };
    write().map_err(|error| {
        let _ = fs::remove_file(&beside);
        failed(error)
    })
}

/// Makes the file what it was, or nothing.
pub fn restore(path: &Path, before: Option<&Saved>) -> Result<(), Error> {
    match before {
        Some(saved) => write(path, &saved.text, Some(saved)),
        None => match fs::remove_file(path) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                Err(Error::File { path: path.into(), source: error })
            }
            _ => Ok(()),
        },
    }
}
