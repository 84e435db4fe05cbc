//! Reads a host into [`Facts`]: live, from a folder, from a snapshot or sosreport, or from a single
//! listing.
//!
//! Reading never changes the host and never fails for what is missing: that is recorded, with the
//! reason. The two steps are kept apart: [`Inputs`] are the raw files, [`facts`] decodes them, so
//! that a live host and its snapshot give the same answers.

#![deny(clippy::print_stdout, clippy::print_stderr)]
#![warn(missing_docs)]

pub mod acpi;
pub mod archive;
pub mod cpuid;
mod decode;
mod error;
pub mod folder;
mod initial_disk;
pub mod inputs;
mod log;
pub mod lscpu;
pub mod processor;
pub mod redact;
pub mod snapshot;
pub mod source;
mod vfio;
pub mod wanted;
pub mod watch;

pub use decode::{facts, pci_address};
pub use error::Error;
pub use inputs::Inputs;
pub use reading::Facts;

use std::io::{Cursor, Read};
use std::path::Path;

/// Reads the machine this runs on.
pub fn live() -> Inputs {
    let mut inputs = Inputs::live();
    let folder = folder::Folder::live();
    folder.read_into(&mut inputs);
    if initial_disk::is_in_doubt(&inputs) {
        initial_disk::read_into(&folder, &mut inputs);
    }
    processor::read_into(&mut inputs);
    processor::read_log_into(&mut inputs);
    inputs
}

/// Reads the initial RAM disk too, for those that are about to change what it was made from.
/// Nothing happens where it was read, or the host is in no folder.
pub fn with_initial_disk(mut inputs: Inputs, root: Option<&Path>) -> Inputs {
    let folder = match root {
        None => Some(folder::Folder::live()),
        Some(root) if root.is_dir() => folder::Folder::copy(root).ok(),
        Some(_) => None,
    };
    if let Some(folder) = folder.filter(|_| inputs.bytes(initial_disk::RECORD).get().is_none()) {
        initial_disk::read_into(&folder, &mut inputs);
    }
    inputs
}

/// Reads a folder, an archive, a CPUID listing, /proc/cpuinfo, lscpu's output, or ACPI tables,
/// binary or as text.
pub fn recorded(path: &Path) -> Result<Inputs, Error> {
    let failed = |cause| Error::Read { path: path.into(), cause };
    if path.is_dir() {
        let mut inputs = Inputs::new(path.display().to_string());
        let failed = |source| failed(source::Error::Open(source));
        let folder = folder::Folder::copy(path).map_err(failed)?;
        folder.read_into(&mut inputs);
        if initial_disk::is_in_doubt(&inputs) {
            initial_disk::read_into(&folder, &mut inputs);
        }
        picked(path, &mut inputs);
        return Ok(complete(inputs));
    }
    streamed(source::open(path).map_err(failed)?, path)
}

/// The same of what is pasted into a stream, which is cited by a name.
pub fn pasted(stream: impl Read, name: &str) -> Result<Inputs, Error> {
    streamed(stream, Path::new(name))
}

/// An archive or a single listing, from what may be read only once.
fn streamed(mut stream: impl Read, path: &Path) -> Result<Inputs, Error> {
    let failed = |error| Error::Read { path: path.into(), cause: source::Error::Read(error) };
    let mut inputs = Inputs::new(path.display().to_string());
    let mut head = vec![];
    (&mut stream).take(source::HEAD).read_to_end(&mut head).map_err(failed)?;
    let packing = archive::Packing::detect(&head);
    let stream = Cursor::new(head).chain(stream);
    let Some(packing) = packing else { return single(path, stream, inputs) };
    archive::read_into(stream, packing, &mut inputs)
        .map_err(|cause| Error::Archive { path: path.into(), cause })?;
    Ok(complete(inputs))
}

/// A single listing, of whatever kind.
fn single(path: &Path, stream: impl Read, mut inputs: Inputs) -> Result<Inputs, Error> {
    let failed = |error| Error::Read { path: path.into(), cause: source::Error::Read(error) };
    let mut bytes = vec![];
    stream.take(inputs::FILE_LIMIT as u64 + 1).read_to_end(&mut bytes).map_err(failed)?;
    let is_cut = bytes.len() > inputs::FILE_LIMIT;
    bytes.truncate(inputs::FILE_LIMIT);
    // What `cat /sys/class/iommu/*/amd-iommu/features` prints: a unit a line.
    let units = decode::iommu_features(&String::from_utf8_lossy(&bytes));
    if !units.is_empty() {
        for (index, value) in units.into_iter().enumerate() {
            let place = format!("sys/class/iommu/ivhd{index}/amd-iommu/features");
            inputs.insert_as(place, path.display().to_string(), value.into_bytes());
        }
        return Ok(complete(inputs));
    }
    let Some(place) = single_file(&bytes) else {
        return Err(refused(path, &bytes, is_cut));
    };
    inputs.insert_as(place, path.display().to_string(), bytes);
    if is_cut {
        inputs
            .mark_incomplete(format!("only the first {} MiB were read", inputs::FILE_LIMIT >> 20));
    }
    Ok(complete(inputs))
}

/// Most files of a folder that are looked at for single answers, and their length.
const PICKED: (usize, u64) = (64, 4096);

/// Single answers that a user has put into a folder of their own: lines of cpuid's or lscpu's
/// output, an IOMMU's features. Two of a kind are of two hosts.
fn picked(folder: &Path, inputs: &mut Inputs) {
    if ["proc/", "sys/", "etc/", "avicenna/"].iter().any(|part| inputs.has_below(part)) {
        return;
    }
    let (mut told, mut units) = (vec![], vec![]);
    for file in source::walk(folder, PICKED.0, 1).files {
        let Ok(text) = source::read_text(&file, PICKED.1) else { continue };
        let name = file.display().to_string();
        let features = decode::iommu_features(&text);
        if !decode::cpu::told(&text).is_empty() {
            told.push((name, text));
        } else if !features.is_empty() {
            units.push((name, features));
        }
    }
    if told.len() > 1 || units.len() > 1 {
        return;
    }
    for (name, text) in told {
        inputs.insert_as(decode::cpu::TOLD, name, text.into_bytes());
    }
    for (name, features) in units {
        for (index, value) in features.into_iter().enumerate() {
            let place = format!("sys/class/iommu/ivhd{index}/amd-iommu/features");
            inputs.insert_as(place, name.clone(), value.into_bytes());
        }
    }
}

/// Whether a single file tells of a host or its processor.
pub fn describes_host(bytes: &[u8]) -> bool {
    single_file(bytes).is_some()
        || !decode::iommu_features(&String::from_utf8_lossy(bytes)).is_empty()
}

/// Which of unknown, too big, empty and decoded a file is.
fn refused(path: &Path, bytes: &[u8], is_cut: bool) -> Error {
    let path = path.into();
    if bytes.is_empty() {
        return Error::Empty { path };
    }
    if cpuid::is_decoded(&String::from_utf8_lossy(bytes)) {
        return Error::Decoded { path };
    }
    let text = String::from_utf8_lossy(bytes).into_owned();
    match is_cut {
        true => Error::TooBig { path, limit: inputs::FILE_LIMIT >> 20, text },
        false => Error::UnknownFormat { path, text },
    }
}

/// Takes in what files say about others: the manifest, and tables that were dumped as text.
fn complete(mut inputs: Inputs) -> Inputs {
    snapshot::apply_manifest(&mut inputs);
    let dumps: Vec<_> = inputs
        .below(DUMP)
        .filter_map(|(_, content)| match content {
            inputs::Content::Bytes(bytes) => {
                Some(acpi::dump::tables(&String::from_utf8_lossy(bytes)))
            }
            inputs::Content::Unreadable(_) => None,
        })
        .collect();
    for (signature, bytes) in dumps.into_iter().flatten() {
        if inputs.bytes(&acpi::place(signature)).get().is_none() {
            // A dump that was given by itself is what its tables are cited by.
            match inputs.name(DUMP).map(str::to_owned) {
                Some(name) => {
                    inputs.insert_as(acpi::place(signature), format!("{name}, {signature}"), bytes);
                }
                None => {
                    inputs.insert(acpi::place(signature), bytes);
                }
            }
        }
    }
    inputs
}

/// Where people put what `acpidump` prints.
const DUMP: &str = "acpidump";

/// Where a single file would stand on a host, by its content.
fn single_file(bytes: &[u8]) -> Option<String> {
    if let Some(signature) =
        acpi::SIGNATURES.iter().find(|signature| bytes.starts_with(signature.as_bytes()))
    {
        return Some(acpi::place(signature));
    }
    let text = String::from_utf8_lossy(bytes);
    if !cpuid::parse(&text).is_empty() {
        return Some("cpuid.txt".into());
    }
    if !acpi::dump::tables(&text).is_empty() {
        return Some(DUMP.into());
    }
    let begins = |key: &str| text.lines().take(200).any(|line| line.trim_start().starts_with(key));
    if begins("processor") && begins("vendor_id") {
        return Some("proc/cpuinfo".into());
    }
    if begins("Vendor ID:") || lscpu::is_json(&text) {
        return Some("sos_commands/processor/lscpu".into());
    }
    if !decode::cpu::told(&text).is_empty() {
        return Some(decode::cpu::TOLD.into());
    }
    if decode::is_process_list(&text) {
        return Some("sos_commands/process/ps_listing".into());
    }
    // journalctl -k writes the time, the host and "kernel:" before each line.
    let is_journal = text
        .lines()
        .take(200)
        .any(|line| line.contains("kernel: ") && line.contains(": Linux version "));
    (begins("[    0.") || begins("Linux version") || is_journal)
        .then(|| "sos_commands/kernel/dmesg".into())
}
