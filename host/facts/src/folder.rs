//! Reads the wanted files below a folder: a live host's `/`, or a copy of one.
//!
//! Links may lead anywhere inside the folder and nowhere outside it; only regular files are opened,
//! so that a pipe cannot hang the reader; listings and lengths are bounded.

use crate::inputs::{FILE_LIMIT, Inputs};
use crate::source;
use crate::vfio;
use crate::wanted::{
    HOLDERS, PATTERNS, PROCESSES, PROGRAM_FOLDERS, PROGRAM_LIST, PROGRAMS, VFIO, arguments,
    fixed_folder, is_monitor, is_of_host, is_process, matches,
};
use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// Why a link in a copy of a host is not followed.
pub const LEAVES: &str = "the link leaves the folder";

/// What reading of a process says that is no more.
const ESRCH: i32 = 3;

/// Most entries that are looked at in one folder.
const ENTRIES_LIMIT: usize = 20_000;

/// A root folder, and whether it is this machine's.
pub struct Folder {
    root: PathBuf,
    is_live: bool,
}

impl Folder {
    /// This machine's `/`.
    pub fn live() -> Folder {
        Folder { root: "/".into(), is_live: true }
    }

    /// A copy of another machine's `/`, or of parts of it.
    pub fn copy(root: &Path) -> io::Result<Folder> {
        Ok(Folder { root: root.canonicalize()?, is_live: false })
    }

    /// Reads everything wanted into `inputs`.
    pub fn read_into(&self, inputs: &mut Inputs) {
        for pattern in PATTERNS {
            let folder = fixed_folder(pattern);
            if !folder.is_empty() && is_of_host(pattern) {
                match self.has_folder(folder) {
                    // `proc/cpuinfo` says nothing about what else is in /proc.
                    Ok(true) => {
                        inputs.mark_searched(if pattern.contains('*') { folder } else { pattern });
                    }
                    Ok(false) => {}
                    Err(error) => inputs.insert_unreadable(folder, reason(&error)),
                }
            }
            self.expand("", pattern, inputs);
        }
        self.read_processes(inputs);
        self.read_programs(inputs);
    }

    fn has_folder(&self, folder: &str) -> io::Result<bool> {
        match fs::metadata(self.root.join(folder)) {
            Ok(facts) => Ok(facts.is_dir()),
            Err(error) if is_absence(&error) => Ok(false),
            Err(error) => Err(error),
        }
    }

    fn read_programs(&self, inputs: &mut Inputs) {
        let mut found = vec![];
        for name in PROGRAMS {
            let mut places = PROGRAM_FOLDERS.iter().map(|folder| self.root.join(folder).join(name));
            let there = places.try_fold(false, |there, place| Ok(there || place.try_exists()?));
            match there {
                Ok(true) => found.push(*name),
                Ok(false) => {}
                Err(error) => return inputs.insert_unreadable(PROGRAM_LIST, reason(&error)),
            }
        }
        if !found.is_empty() {
            inputs.insert(PROGRAM_LIST, found.join("\n").into_bytes());
        }
    }

    fn expand(&self, done: &str, rest: &str, inputs: &mut Inputs) {
        let (component, rest) = rest.split_once('/').map_or((rest, None), |(a, b)| (a, Some(b)));
        let join =
            |name: &str| if done.is_empty() { name.to_string() } else { format!("{done}/{name}") };
        let names = if component.contains('*') {
            self.list(done, inputs).into_iter().filter(|name| matches(component, name)).collect()
        } else {
            vec![component.to_string()]
        };
        for name in names {
            let path = join(&name);
            match rest {
                Some(rest) => self.expand(&path, rest, inputs),
                None => self.read(&path, inputs),
            }
        }
    }

    /// The names in a folder, none if there is no such folder. What keeps it from being listed to
    /// its end is kept: what is not in the list may be there.
    fn list(&self, folder: &str, inputs: &mut Inputs) -> Vec<String> {
        let mut names = vec![];
        if let Err(error) = self.list_into(folder, &mut names)
            && !is_absence(&error)
        {
            inputs.insert_unreadable(folder, reason(&error));
        }
        names.sort_unstable();
        names
    }

    fn list_into(&self, folder: &str, names: &mut Vec<String>) -> io::Result<()> {
        for (at, entry) in fs::read_dir(self.root.join(folder))?.enumerate() {
            if at == ENTRIES_LIMIT {
                return Err(io::Error::other(format!("more than {ENTRIES_LIMIT} entries")));
            }
            names.extend(entry?.file_name().into_string());
        }
        Ok(())
    }

    fn read(&self, path: &str, inputs: &mut Inputs) {
        match self.bytes(path) {
            Ok(Some(bytes)) => {
                inputs.insert(path, bytes);
            }
            Ok(None) => {}
            Err(error) if is_absence(&error) => {}
            Err(error) => inputs.insert_unreadable(path, reason(&error)),
        }
    }

    /// Whether it is this machine's.
    pub(crate) fn is_live(&self) -> bool {
        self.is_live
    }

    /// The names in a folder, as far as it can be listed.
    pub(crate) fn names(&self, folder: &str) -> Vec<String> {
        let mut names = vec![];
        // What cannot be listed is told where it is read.
        let _ = self.list_into(folder, &mut names);
        names.sort_unstable();
        names
    }

    /// When a file was changed.
    pub(crate) fn changed(&self, path: &str) -> Option<SystemTime> {
        fs::metadata(self.root.join(path)).ok()?.modified().ok()
    }

    /// A file to be read; `None` for what is not a regular file.
    pub(crate) fn open(&self, path: &str) -> io::Result<Option<File>> {
        let path = self.root.join(path);
        if !self.is_live && !path.canonicalize()?.starts_with(&self.root) {
            return Err(io::Error::other(LEAVES));
        }
        source::open_ordinary(&path)
    }

    /// The file's bytes; `None` for what is not a regular file.
    fn bytes(&self, path: &str) -> io::Result<Option<Vec<u8>>> {
        let Some(mut file) = self.open(path)? else { return Ok(None) };
        let length = file.metadata()?.len();
        if length > FILE_LIMIT as u64 {
            file.seek(SeekFrom::Start(length - FILE_LIMIT as u64))?;
        }
        let mut bytes = vec![];
        file.take(FILE_LIMIT as u64).read_to_end(&mut bytes)?;
        Ok(Some(bytes))
    }

    /// Whether a process has a virtual machine of KVM open: its monitor, whatever it is called.
    /// Known only of processes that may be looked into.
    fn holds_virtual_machine(&self, pid: &str) -> bool {
        let files = fs::read_dir(self.root.join("proc").join(pid).join("fd"));
        files.into_iter().flatten().flatten().take(ENTRIES_LIMIT).any(|file| {
            fs::read_link(file.path()).is_ok_and(|target| target.as_os_str() == "anon_inode:kvm-vm")
        })
    }

    /// Command lines of virtual machine monitors, and nothing of other processes.
    fn read_processes(&self, inputs: &mut Inputs) {
        match self.has_folder("proc") {
            Ok(true) => {}
            Ok(false) => return,
            Err(error) => return inputs.insert_unreadable(PROCESSES, reason(&error)),
        }
        let (mut any, mut holders) = (false, String::new());
        let mut functions: Option<String> = None;
        for pid in self.list("proc", inputs) {
            let path = format!("proc/{pid}/cmdline");
            if !is_process(&path) {
                continue;
            }
            any = true;
            let bytes = match self.bytes(&path) {
                Ok(Some(bytes)) => bytes,
                Ok(None) => continue,
                // It has ended meanwhile.
                Err(error) if is_absence(&error) || error.raw_os_error() == Some(ESRCH) => continue,
                Err(error) => {
                    inputs.insert_unreadable(PROCESSES, reason(&error));
                    continue;
                }
            };
            let arguments = arguments(&bytes);
            let is_monitor = is_monitor(&arguments);
            let is_holder = !is_monitor && self.is_live && self.holds_virtual_machine(&pid);
            if (is_monitor || is_holder)
                && let Some(own) = vfio::functions(&self.root, &pid)
            {
                let functions = functions.get_or_insert_default();
                own.iter().for_each(|address| functions.push_str(&format!("{pid} {address}\n")));
            }
            if is_monitor {
                inputs.insert(path, bytes);
            } else if is_holder {
                // Of a program that is not known, nothing but its name.
                let program = arguments.first().map_or("", String::as_str);
                holders.push_str(&format!("{pid} {}\n", program.replace(char::is_whitespace, "_")));
            }
        }
        if !holders.is_empty() {
            inputs.insert(HOLDERS, holders.into_bytes());
        }
        if let Some(functions) = functions.filter(|_| self.is_live) {
            inputs.insert(VFIO, functions.into_bytes());
        }
        if any {
            inputs.mark_searched(PROCESSES);
        }
    }
}

/// There is no such file; or a pattern's folder is a file here, such as events/kvm/enable.
fn is_absence(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

/// An error in a few words, without the number.
pub fn reason(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::PermissionDenied => "permission denied".into(),
        io::ErrorKind::NotFound => "not there".into(),
        _ => error.to_string(),
    }
}
