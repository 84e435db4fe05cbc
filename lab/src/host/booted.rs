//! Booted hosts, kept: the snapshot of a host that waits for its first step spares the next run the
//! boot.
//!
//! A snapshot is found by all that made it: the machine at power-on, the kernel and its command
//! line, and the initial RAM disk with this very program, the modules and the guests in it.
//! Whatever changes one of them means a new boot. The store is bounded: what was not used for
//! longest goes first. Nothing here is worth ending a run for: what cannot be read is removed, what
//! cannot be written is told and left.

use crate::host::cache;
use crate::host::kernel::Kernel;
use anyhow::{Context, bail};
use board::snapshot::checksum;
use board::{Configuration, Machine};
use report::writer;
use std::fs::File;
use std::io::{BufRead, BufReader, BufWriter, Read, Write};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// Where they are, in the cache.
pub(crate) const FOLDER: &str = "booted";
/// Snapshots that are kept at most, and their bytes together.
const MOST_FILES: usize = 8;
const MOST_BYTES: u64 = 1 << 30;
/// The first line of a file: this, the key, the kernel's release.
const HEAD: &str = "avicenna booted host 1";
/// A first line that is longer is none.
const MOST_HEAD: u64 = 1024;

/// What a snapshot was made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Key(u64);

impl std::fmt::Display for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

impl Key {
    /// `machine` is at power-on. The program is part of `cpio`, and with it the costs of all CPU
    /// models and the form of snapshots.
    pub(crate) fn new(
        machine: &Machine,
        configuration: &Configuration,
        kernel: &Kernel,
        cpio: &[u8],
        command_line: &str,
    ) -> anyhow::Result<Self> {
        let state = machine.state_bytes()?;
        let parts = [
            checksum(&state),
            configuration.digest().0,
            checksum(&kernel.image),
            checksum(cpio),
            checksum(command_line.as_bytes()),
        ];
        Ok(Self(checksum(&parts.map(u64::to_le_bytes).concat())))
    }
}

/// The folder of snapshots.
#[derive(Clone, Debug)]
pub struct Store {
    folder: PathBuf,
}

impl Store {
    /// Beside the kernels that were fetched.
    pub fn open() -> anyhow::Result<Self> {
        Ok(Self { folder: cache::folder(FOLDER)? })
    }

    /// In a folder of the caller's.
    pub fn at(folder: impl Into<PathBuf>) -> Self {
        Self { folder: folder.into() }
    }

    /// Removes all snapshots; how many there were.
    pub fn clear(&self) -> anyhow::Result<usize> {
        let files = self.files();
        for (path, ..) in &files {
            std::fs::remove_file(path)
                .with_context(|| format!("cannot remove {}", path.display()))?;
        }
        Ok(files.len())
    }

    fn path(&self, key: Key) -> PathBuf {
        self.folder.join(format!("{key}.snapshot"))
    }

    /// The host as it was kept, with its kernel's release.
    pub(crate) fn find(
        &self,
        key: Key,
        configuration: &Configuration,
    ) -> Option<(Machine, String)> {
        let path = self.path(key);
        let file = File::open(&path).ok()?;
        match read(&file, &path, key, configuration) {
            Ok(found) => {
                // What was used last is removed last.
                let _ = file.set_modified(SystemTime::now());
                Some(found)
            }
            Err(error) => {
                writer::remark(&format!("avicenna: {error:#}; the host boots again"));
                let _ = std::fs::remove_file(&path);
                None
            }
        }
    }

    /// The same, packed as it is in the file, for several machines.
    pub(crate) fn packed(&self, key: Key) -> Option<(Vec<u8>, String)> {
        let path = self.path(key);
        let read = || {
            let mut input = BufReader::new(File::open(&path)?);
            let release = read_head(&mut input, &path.to_string_lossy(), key)?;
            let mut snapshot = Vec::new();
            input.read_to_end(&mut snapshot)?;
            anyhow::Ok((snapshot, release))
        };
        read().ok()
    }

    /// Keeps a host that waits for its first step.
    pub(crate) fn keep(
        &self,
        key: Key,
        machine: &Machine,
        configuration: &Configuration,
        release: &str,
    ) {
        if let Err(error) = self.write(key, machine, configuration, release) {
            writer::remark(&format!("avicenna: the booted host is not kept: {error:#}"));
        }
        self.shrink(&self.path(key));
    }

    /// Others see the file when it is whole, or not at all.
    fn write(
        &self,
        key: Key,
        machine: &Machine,
        configuration: &Configuration,
        release: &str,
    ) -> anyhow::Result<()> {
        let path = self.path(key);
        let file = tempfile::NamedTempFile::new_in(&self.folder)?;
        let mut output = BufWriter::with_capacity(1 << 20, file);
        writeln!(output, "{HEAD} {key} {release}")?;
        machine.save(&path.to_string_lossy(), &mut output, configuration.digest())?;
        let file = output.into_inner()?;
        file.as_file().sync_all()?;
        file.persist(&path)?;
        Ok(())
    }

    /// Snapshots with their size, the one used last in front.
    fn files(&self) -> Vec<(PathBuf, u64, SystemTime)> {
        let entries = std::fs::read_dir(&self.folder).into_iter().flatten().flatten();
        let mut files: Vec<_> = entries
            .filter(|entry| entry.path().extension().is_some_and(|end| end == "snapshot"))
            .filter_map(|entry| {
                let facts = entry.metadata().ok()?;
                Some((entry.path(), facts.len(), facts.modified().ok()?))
            })
            .collect();
        files.sort_by_key(|(_, _, used)| std::cmp::Reverse(*used));
        files
    }

    /// Removes what is too much, but not `newest`.
    fn shrink(&self, newest: &Path) {
        let mut bytes = 0;
        for (number, (path, size, _)) in self.files().into_iter().enumerate() {
            bytes += size;
            if (number >= MOST_FILES || bytes > MOST_BYTES) && path != newest {
                let _ = std::fs::remove_file(path);
            }
        }
    }
}

fn read(
    file: &File,
    path: &Path,
    key: Key,
    configuration: &Configuration,
) -> anyhow::Result<(Machine, String)> {
    let name = path.to_string_lossy();
    let mut input = BufReader::with_capacity(1 << 20, file);
    let release = read_head(&mut input, &name, key)?;
    let machine = Machine::restore(configuration, &name, input)?;
    Ok((machine, release))
}

/// The kernel's release.
fn read_head(input: &mut impl BufRead, name: &str, key: Key) -> anyhow::Result<String> {
    let mut head = String::new();
    std::io::Read::take(input, MOST_HEAD)
        .read_line(&mut head)
        .with_context(|| format!("cannot read {name}"))?;
    let start = format!("{HEAD} {key} ");
    match head.strip_prefix(&start).and_then(|rest| rest.strip_suffix('\n')) {
        Some(release) => Ok(release.to_owned()),
        None => bail!("{name} does not begin with {start:?}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::Host;
    use cpu::CpuModel;

    fn host(model: &str, cpus: u16) -> Host {
        let model = CpuModel::named(model).expect("a model that comes with the machine");
        Host {
            model,
            costs: None,
            iommu: None,
            has_pulse: false,
            wires: Vec::new(),
            devices: Vec::new(),
            folders: Vec::new(),
            topology: board::topology::Topology::of_cores(cpus).expect("some cores"),
            memory: 64 << 20,
            append: String::new(),
        }
    }

    fn kernel(image: &[u8]) -> Kernel {
        Kernel {
            name: "test".into(),
            image: image.to_vec(),
            modules: Vec::new(),
            lacks: Vec::new(),
        }
    }

    fn key(host: &Host, image: &[u8], cpio: &[u8]) -> Key {
        let machine = host.power_on().expect("a machine");
        let configuration = host.configuration().expect("a configuration");
        Key::new(&machine, &configuration, &kernel(image), cpio, &host.command_line())
            .expect("plain data")
    }

    #[test]
    fn whatever_makes_a_host_is_part_of_its_key() {
        let zen4 = host("zen4", 2);
        let known = key(&zen4, b"kernel", b"files");
        assert_eq!(key(&zen4, b"kernel", b"files"), known);
        let drawn = board::cost::CostProfile::named("zen4").ok().map(|likely| likely.drawn(1));
        for (what, other) in [
            ("kernel", key(&zen4, b"Kernel", b"files")),
            ("initial RAM disk", key(&zen4, b"kernel", b"filed")),
            ("CPU model", key(&host("zen3", 2), b"kernel", b"files")),
            ("processors", key(&host("zen4", 3), b"kernel", b"files")),
            ("memory", key(&Host { memory: 32 << 20, ..zen4.clone() }, b"kernel", b"files")),
            ("costs", key(&Host { costs: drawn, ..zen4.clone() }, b"kernel", b"files")),
            (
                "command line",
                key(&Host { append: "a".into(), ..zen4.clone() }, b"kernel", b"files"),
            ),
        ] {
            assert_ne!(other, known, "{what}");
        }
    }

    #[test]
    fn a_kept_host_is_found_again_and_a_damaged_one_is_removed() {
        let folder = tempfile::tempdir().expect("a writable folder");
        let store = Store::at(folder.path());
        let host = host("zen4", 2);
        let configuration = host.configuration().expect("a configuration");
        let mut machine = host.power_on().expect("a machine");
        machine.memory.ram[12345] = 67;
        let key = Key(1);
        assert!(store.find(key, &configuration).is_none(), "nothing is kept yet");
        store.keep(key, &machine, &configuration, "6.1.0-test");
        let (found, release) = store.find(key, &configuration).expect("what was kept");
        assert_eq!((found.memory.ram[12345], release.as_str()), (67, "6.1.0-test"));
        assert!(store.find(Key(2), &configuration).is_none());
        let (packed, release) = store.packed(key).expect("the same");
        let machine = Machine::restore(&configuration, "memory", &packed[..]);
        assert_eq!(machine.expect("a snapshot").memory.ram[12345], 67);
        assert_eq!((release.as_str(), store.packed(Key(2))), ("6.1.0-test", None));

        let path = store.path(key);
        let mut bytes = std::fs::read(&path).expect("the snapshot");
        let middle = bytes.len() / 2;
        bytes[middle] ^= 1;
        std::fs::write(&path, bytes).expect("a writable folder");
        assert!(store.find(key, &configuration).is_none());
        assert!(!path.exists());
    }

    #[test]
    fn the_store_is_bounded_and_forgets_what_was_not_used_for_longest() {
        let folder = tempfile::tempdir().expect("a writable folder");
        let store = Store::at(folder.path());
        let start = SystemTime::now() - std::time::Duration::from_secs(1000);
        for number in 0..=MOST_FILES as u64 {
            let file = File::create(store.path(Key(number))).expect("a writable folder");
            let used = start + std::time::Duration::from_secs(number);
            file.set_modified(used).expect("a file of ours");
        }
        store.shrink(&store.path(Key(0)));
        assert_eq!(store.files().len(), MOST_FILES + 1, "the newest is never removed");
        store.shrink(&store.path(Key(5)));
        assert!(!store.path(Key(0)).exists() && store.path(Key(1)).exists());
        assert_eq!(store.clear().expect("a writable folder"), MOST_FILES);
        assert!(store.files().is_empty());
    }
}
