//! The second wall around a guest: what this process may still ask of the system. The first is the
//! emulator's own code; a guest that broke out of it finds a process that opens only the files that
//! its command line names (Landlock), and that starts no program, reaches no network and inspects
//! no other process (seccomp).
//!
//! Left open: Landlock does not hide names, sizes and times of files, and where the kernel can put
//! it around one thread only, threads that ran before have seccomp's wall alone.

mod calls;

use change::Output;
use landlock::{
    ABI, Access, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible, PathBeneath, PathFd,
    RestrictSelfAttr, Ruleset, RulesetAttr, RulesetCreatedAttr, RulesetStatus, Scope,
};
use std::path::{Path, PathBuf};

/// What is refused unless a rule allows it, as far as the kernel knows it.
const FILES: ABI = ABI::V5;
const NETWORK: ABI = ABI::V4;
const SCOPE: ABI = ABI::V6;

#[derive(Clone, clap::Args)]
// The verbs that take these in have a group of this name.
#[group(skip)]
pub struct Arguments {
    /// Leave out the sandbox, Landlock and seccomp: a guest that breaks out of the emulator can
    /// then do all that its user can, with any file, program and network
    #[arg(long)]
    no_sandbox: bool,
}

impl Arguments {
    /// As they were given, for another process of this program.
    pub fn words(&self) -> &'static [&'static str] {
        if self.no_sandbox { &["--no-sandbox"] } else { &[] }
    }
}

/// What a process needs once the wall is up. What it has open already needs no rule.
#[derive(Debug, Default)]
pub struct Sandbox {
    rules: Vec<(PathBuf, BitFlags<AccessFs>)>,
}

impl Sandbox {
    /// A file that is read.
    pub fn reads(&mut self, path: impl Into<PathBuf>) {
        self.rules.push((path.into(), AccessFs::ReadFile.into()));
    }

    /// A file that is changed where it is.
    pub fn changes(&mut self, path: impl Into<PathBuf>) {
        self.rules.push((path.into(), AccessFs::ReadFile | AccessFs::WriteFile));
    }

    /// Opens where a result goes. It is open from now on; that it gets a name in its folder in the
    /// end, and that what stands there is looked at and replaced, is allowed.
    pub fn output(&mut self, path: &Path) -> Result<Output, change::Error> {
        let output = Output::to(path)?;
        if matches!(output, Output::Draft(_)) {
            self.puts(path);
        }
        Ok(output)
    }

    /// The same of a file that is opened elsewhere.
    pub fn puts(&mut self, path: &Path) {
        self.put(path, AccessFs::MakeReg | AccessFs::RemoveFile);
        // The mode of new files, which no system call tells without changing it.
        self.reads("/proc/self/status");
    }

    fn put(&mut self, path: &Path, access: BitFlags<AccessFs>) {
        self.reads(path);
        // A link of the user's own is followed, so its target's folder counts as well.
        let real = path.canonicalize().unwrap_or_else(|_| path.to_owned());
        for path in [path, &real] {
            let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
            self.rules.push((folder.unwrap_or(Path::new(".")).to_owned(), access));
        }
    }

    /// A folder of our own, with all that is in it.
    pub fn keeps(&mut self, folder: impl Into<PathBuf>) {
        self.rules.push((folder.into(), kept()));
    }

    /// A folder that is read, with all that is in it.
    pub fn shows(&mut self, folder: impl Into<PathBuf>) {
        self.rules.push((folder.into(), AccessFs::ReadFile | AccessFs::ReadDir));
    }

    /// A folder that a guest may change, with all that is in it.
    pub fn shares(&mut self, folder: impl Into<PathBuf>) {
        let made = AccessFs::MakeDir | AccessFs::MakeSym | AccessFs::RemoveDir | AccessFs::Refer;
        self.rules.push((folder.into(), kept() | made));
    }

    /// A name that is taken away from a folder in the end.
    pub fn removes(&mut self, path: &Path) {
        self.put(path, AccessFs::RemoveFile.into());
    }

    /// Puts up the wall, for the rest of this process's life. What the kernel has not got of it is
    /// said, and the rest serves.
    pub fn raise(&self, arguments: &Arguments) {
        if arguments.no_sandbox {
            return;
        }
        let files = self.close_files();
        let calls = calls::close();
        match (files, calls) {
            (Ok(()), Ok(())) => {}
            (Err(files), Ok(())) => {
                remark!("avicenna: no wall around files: {files}; all others stand");
            }
            (Ok(()), Err(calls)) => {
                remark!("avicenna: no wall around system calls: {calls}; that around files stands");
            }
            (Err(files), Err(calls)) => {
                remark!("avicenna: no wall around the machine but its own: {files}; {calls}");
            }
        }
    }

    fn close_files(&self) -> Result<(), String> {
        let said = |error: landlock::RulesetError| error.to_string();
        let mut ruleset = Ruleset::default()
            .set_compatibility(CompatLevel::BestEffort)
            .handle_access(AccessFs::from_all(FILES))
            .and_then(|ruleset| ruleset.handle_access(AccessNet::from_all(NETWORK)))
            .and_then(|ruleset| ruleset.scope(Scope::from_all(SCOPE)))
            .and_then(|ruleset| ruleset.create())
            .map_err(said)?;
        for (path, access) in &self.rules {
            // What is not there is missed when it is opened. Pipes take no rule and need none.
            let Ok(place) = PathFd::new(path) else { continue };
            let access = if path.is_dir() { *access } else { *access & of_file() };
            let _ = (&mut ruleset).add_rule(PathBeneath::new(place, access));
        }
        let ruleset = ruleset.all_threads(true).map_err(said)?;
        match ruleset.restrict_self().map_err(said)?.ruleset {
            RulesetStatus::NotEnforced => Err("this kernel has no Landlock".into()),
            RulesetStatus::PartiallyEnforced | RulesetStatus::FullyEnforced => Ok(()),
        }
    }
}

fn of_file() -> BitFlags<AccessFs> {
    AccessFs::ReadFile | AccessFs::WriteFile | AccessFs::Truncate
}

/// What is done in a folder of our own.
fn kept() -> BitFlags<AccessFs> {
    of_file() | AccessFs::ReadDir | AccessFs::MakeReg | AccessFs::RemoveFile
}

#[cfg(test)]
mod tests;
