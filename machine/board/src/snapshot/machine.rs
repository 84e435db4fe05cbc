//! Saving and restoring a whole [`Machine`].
//!
//! The lines of memory that hold decoded code or are monitored are stored too: a write to one ends
//! its block, and that a restored machine must do as well, or the two would run apart.

use super::{ConfigurationDigest, SnapshotError, SnapshotReader, save};
use crate::machine::{Configuration, Machine, MachineError, State};
use bus::GuestMemory;
use device::pci::PciDevice;
use serde::{Deserialize, Serialize};
use std::io::{Read, Write};
use trace::TraceHash;

/// Why a machine cannot be restored.
#[derive(Debug, thiserror::Error)]
pub enum RestoreError {
    /// The configuration gives no machine.
    #[error(transparent)]
    Machine(#[from] MachineError),
    /// The file cannot be read, or does not fit the configuration.
    #[error(transparent)]
    Snapshot(#[from] SnapshotError),
}

#[derive(Serialize)]
struct Saved<'a> {
    state: &'a State,
    watched: Vec<(u64, u64)>,
    generations: Vec<(u64, u32)>,
}

#[derive(Deserialize)]
struct Restored {
    state: State,
    /// Pages, each with a bit per line of 64 bytes.
    watched: Vec<(u64, u64)>,
    /// Pages, each with the count of its writes to watched lines.
    generations: Vec<(u64, u32)>,
}

impl Configuration {
    /// What two configurations must share for one to go on where the other was.
    pub fn digest(&self) -> ConfigurationDigest {
        let mut hash = TraceHash::default();
        let mut text = |text: &str| {
            hash.word(text.len() as u64);
            text.bytes().for_each(|byte| hash.word(byte.into()));
        };
        text(&format!("{:?}", self.model));
        text(&format!("{:?} {:#x}", self.topology, self.memory));
        if let Some(costs) = &self.costs {
            text(&costs.to_toml());
        }
        if let Some(iommu) = &self.iommu {
            text(&format!("iommu {iommu:?}"));
        }
        device::registry::in_order(&self.functions).iter().for_each(|one| text(&one.digest()));
        ConfigurationDigest(hash.value())
    }
}

impl Machine {
    /// Writes a snapshot. `file` is the name for messages. Output that the host has not taken yet
    /// is not part of it.
    pub fn save(
        &self,
        file: &str,
        output: &mut impl Write,
        configuration: ConfigurationDigest,
    ) -> Result<(), SnapshotError> {
        self.save_to(file, output, configuration)
    }

    /// Compiled once, here: the state is large, and so is the code that reads and writes it.
    fn save_to(
        &self,
        file: &str,
        mut output: &mut dyn Write,
        configuration: ConfigurationDigest,
    ) -> Result<(), SnapshotError> {
        let functions = self.state.wiring.chipset.pci.functions();
        if functions.iter().any(|function| function.device.has_session_elsewhere()) {
            return Err(SnapshotError::Elsewhere { file: file.into() });
        }
        let lines = (0..self.memory.watched_lines.len()).map(|page| self.memory.lines_of(page));
        let watched = by_page(lines);
        let generations = by_page(self.memory.generations.iter().copied());
        let saved = Saved { state: &self.state, watched, generations };
        save(file, &mut output, configuration, &saved, &self.memory)
    }

    /// All state besides RAM as bytes: what machines that were built alike share.
    pub fn state_bytes(&self) -> Result<Vec<u8>, SnapshotError> {
        postcard::to_allocvec(&self.state).map_err(|error| SnapshotError::State {
            file: "the machine's state".into(),
            why: error.to_string(),
        })
    }

    /// A machine as it was when the snapshot was taken, its disks over the configuration's,
    /// its shared folders those of the configuration.
    pub fn restore(
        configuration: &Configuration,
        file: &str,
        mut input: impl Read,
    ) -> Result<Self, RestoreError> {
        Self::restore_from(configuration, file, &mut input)
    }

    fn restore_from(
        configuration: &Configuration,
        file: &str,
        input: &mut dyn Read,
    ) -> Result<Self, RestoreError> {
        let reader = SnapshotReader::new(file, input)?;
        let (restored, memory) = reader.restore::<Restored>(configuration.digest())?;
        let mut machine = Self::new(configuration)?;
        check(file, &machine.state, &restored, &memory)?;
        machine.state = restored.state;
        machine.memory = memory;
        let chipset = &mut machine.state.wiring.chipset;
        chipset.attach_disks(&configuration.functions).map_err(|_| SnapshotError::State {
            file: file.into(),
            why: "a disk has another size than the configuration's".into(),
        })?;
        chipset.attach_folders(&configuration.functions);
        for (page, lines) in restored.watched {
            machine.memory.watched_lines[page as usize] = lines;
        }
        for (page, generation) in restored.generations {
            machine.memory.generations[page as usize] = generation;
        }
        Ok(machine)
    }
}

/// A saved machine that is only looked at, so that what it was built from need not be known.
pub struct SavedMachine {
    /// All except RAM.
    pub state: State,
    /// RAM.
    pub memory: GuestMemory,
}

impl SavedMachine {
    /// Reads a snapshot. `file` is the name for messages.
    pub fn open(file: &str, mut input: impl Read) -> Result<Self, SnapshotError> {
        Self::open_from(file, &mut input)
    }

    fn open_from(file: &str, input: &mut dyn Read) -> Result<Self, SnapshotError> {
        let reader = SnapshotReader::new(file, input)?;
        let own = reader.head().configuration;
        let (restored, memory) = reader.restore::<Restored>(own)?;
        check_places(file, &restored, &memory)?;
        Ok(Self { state: restored.state, memory })
    }
}

/// What is not zero, with its page.
fn by_page<T: Default + PartialEq>(values: impl Iterator<Item = T>) -> Vec<(u64, T)> {
    let pages = values.enumerate().filter(|(_, value)| *value != T::default());
    pages.map(|(page, value)| (page as u64, value)).collect()
}

/// What the parts take for granted of each other.
fn check(
    file: &str,
    fresh: &State,
    restored: &Restored,
    memory: &GuestMemory,
) -> Result<(), SnapshotError> {
    let refuse = |why: String| SnapshotError::State { file: file.into(), why };
    let (found, expected) = (restored.state.cpus.len(), fresh.cpus.len());
    if found != expected || restored.state.inboxes.len() != expected {
        return Err(refuse(format!("{found} processors, must be {expected}")));
    }
    if restored.state.topology != fresh.topology {
        return Err(refuse("another topology than the configuration's".into()));
    }
    let (found, wanted) = (restored.state.stores.len(), fresh.stores.len());
    if found != wanted {
        return Err(refuse(format!("store buffers of {found} processors, must be {wanted}")));
    }
    let turn = restored.state.turn.map_or(0, |turn| usize::from(turn.cpu.0));
    if turn >= expected {
        return Err(refuse(format!("the turn of processor {turn}, must be below {expected}")));
    }
    check_places(file, restored, memory)
}

/// What leads into RAM.
fn check_places(
    file: &str,
    restored: &Restored,
    memory: &GuestMemory,
) -> Result<(), SnapshotError> {
    let refuse = |why: String| SnapshotError::State { file: file.into(), why };
    for (number, cpu) in restored.state.cpus.iter().enumerate() {
        cpu.translation
            .check(memory.ram.len() as u64)
            .map_err(|bad| refuse(format!("processor {number}: {bad}")))?;
    }
    let ram = memory.ram.len() as u64;
    if let Some(number) = restored.state.stores.iter().position(|buffer| !buffer.fits(ram)) {
        return Err(refuse(format!("processor {number}: a store that waits lies outside of RAM")));
    }
    let pages = memory.watched_lines.len() as u64;
    let watched = restored.watched.iter().map(|(page, _)| *page);
    let named = watched.chain(restored.generations.iter().map(|(page, _)| *page));
    match named.max().filter(|page| *page >= pages) {
        Some(page) => Err(refuse(format!("watched page {page:#x}, must be below {pages:#x}"))),
        None => Ok(()),
    }
}
