//! Firmware of others on the command line: a BIOS image, or UEFI firmware with its variables.
//!
//! Variables are read at the start. What firmware and its guests write to them goes back into the
//! file, if it is asked for, when the run ends.

use crate::sandbox::Sandbox;
use crate::status::Usage;
use crate::verb::source;
use anyhow::{Context, anyhow};
use board::load::Source;
use board::{Configuration, Machine};
use std::fs::File;
use std::io::{Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

/// As Debian and Ubuntu install it, package seabios.
const SEABIOS: &str = "/usr/share/seabios/bios-256k.bin";
/// Code, and variables as firmware has them at first: as Debian and Ubuntu install them, package
/// ovmf. The smaller build comes first: the larger one of Debian 12 maps all of a server's address
/// space by pages of 2 MiB, which takes half a gigabyte and most of its time.
const OVMF: [[&str; 2]; 2] = [
    ["/usr/share/OVMF/OVMF_CODE.fd", "/usr/share/OVMF/OVMF_VARS.fd"],
    ["/usr/share/OVMF/OVMF_CODE_4M.fd", "/usr/share/OVMF/OVMF_VARS_4M.fd"],
];
/// More than any image has, so that one of another kind is told by its size.
const LARGEST: u64 = 64 << 20;
const LIMIT: &str = "the most that is read of firmware";

#[derive(clap::Args)]
// The verbs that take these in have a group of this name.
#[group(skip)]
pub struct Arguments {
    /// Firmware to begin with, which starts what is on a disk: a BIOS image (SeaBIOS'
    /// bios-256k.bin), UEFI firmware (OVMF.fd, OVMF_CODE.fd), or seabios and ovmf for those of the
    /// distribution's packages
    #[arg(long, value_name = "FILE|seabios|ovmf", conflicts_with_all = ["kernel", "initrd", "append", "module"])]
    firmware: Option<PathBuf>,
    /// What UEFI firmware keeps its variables in (a copy of OVMF_VARS.fd): FILE keeps writes in
    /// memory, FILE,write-through changes the file when the run ends
    #[arg(long, value_name = "FILE[,write-through]", requires = "firmware", conflicts_with = "kernel", value_parser = parse_variables)]
    firmware_variables: Option<Variables>,
    /// End the run where software that firmware started asks for a reset
    #[arg(long, requires = "firmware", conflicts_with = "kernel")]
    no_reboot: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Variables {
    path: PathBuf,
    goes_back: bool,
}

fn parse_variables(text: &str) -> Result<Variables, String> {
    let (path, goes_back) = match text.strip_suffix(",write-through") {
        Some(path) => (path, true),
        None => (text, false),
    };
    match path {
        "" => Err("a file name is missing".into()),
        path => Ok(Variables { path: path.into(), goes_back }),
    }
}

impl Arguments {
    /// The files that are read.
    pub fn name_inputs(&self, sandbox: &mut Sandbox) {
        match self.firmware.as_deref().map(Path::as_os_str) {
            Some(name) if name == "seabios" => sandbox.reads(SEABIOS),
            Some(name) if name == "ovmf" => {
                OVMF.as_flattened().iter().for_each(|path| sandbox.reads(path));
            }
            Some(name) => sandbox.reads(name),
            None => {}
        }
        if let Some(variables) = &self.firmware_variables {
            sandbox.reads(&variables.path);
        }
    }

    /// Opens what changes when the run ends.
    pub fn open(&self) -> anyhow::Result<KeptVariables> {
        let Some(variables) = self.firmware_variables.as_ref().filter(|file| file.goes_back) else {
            return Ok(KeptVariables(None));
        };
        let path = &variables.path;
        let file = File::options().read(true).write(true).open(path);
        let file = file.with_context(|| format!("cannot change {}", path.display()))?;
        Ok(KeptVariables(Some((path.clone(), file))))
    }

    /// Whether a reset begins with firmware again.
    pub fn reboots(&self) -> bool {
        self.firmware.is_some() && !self.no_reboot
    }

    /// What firmware there is, if any is asked for.
    pub fn files(&self) -> anyhow::Result<Option<Files>> {
        let Some(named) = &self.firmware else { return Ok(None) };
        let variables =
            self.firmware_variables.as_ref().map(|file| read(&file.path)).transpose()?;
        let (image, variables) = match named.as_os_str() {
            name if name == "seabios" => {
                let image = read(Path::new(SEABIOS));
                (image.context("apt-get install seabios brings it")?, variables)
            }
            name if name == "ovmf" => ovmf(variables)?,
            _ => (read(named)?, variables),
        };
        Ok(Some(Files { image, variables }))
    }
}

/// A file, and its name as given.
struct Named {
    name: String,
    bytes: Vec<u8>,
}

impl Named {
    fn source(&self) -> Source<'_> {
        Source::of(&self.name, &self.bytes)
    }
}

fn read(path: &Path) -> anyhow::Result<Named> {
    Ok(Named { name: path.display().to_string(), bytes: source::file(path, LARGEST, LIMIT)? })
}

/// The package's firmware, that to which the variables belong where they are given.
fn ovmf(given: Option<Named>) -> anyhow::Result<(Named, Option<Named>)> {
    let is_there = |[code, variables]: &&[&str; 2]| {
        Path::new(code).exists()
            && std::fs::metadata(variables).is_ok_and(|file| {
                given.as_ref().is_none_or(|given| given.bytes.len() as u64 == file.len())
            })
    };
    let Some([code, variables]) = OVMF.iter().find(is_there) else {
        return Err(Usage::of(match &given {
            Some(given) if OVMF.iter().any(|[code, _]| Path::new(code).exists()) => anyhow!(
                "{}: {:#x} bytes, must be a copy of {}",
                given.name,
                given.bytes.len(),
                OVMF.map(|[_, variables]| variables).join(" or ")
            ),
            _ => anyhow!("{} is not there: apt-get install ovmf brings it", OVMF[1][0]),
        }));
    };
    let variables = given.map_or_else(|| read(Path::new(variables)), Ok)?;
    Ok((read(Path::new(code))?, Some(variables)))
}

/// Firmware, read.
pub struct Files {
    image: Named,
    variables: Option<Named>,
}

impl Files {
    /// Has a machine begin with it.
    pub fn power_on(&self, machine: &mut Machine) -> anyhow::Result<()> {
        let variables = self.variables.as_ref().map(Named::source);
        machine.power_on(self.image.source(), variables).map(drop).map_err(Usage::of)
    }

    /// Resets a machine, which begins with it again, its variables as they are.
    pub fn reboot(
        mut self,
        machine: &mut Machine,
        configuration: &Configuration,
    ) -> anyhow::Result<()> {
        let variables = machine.flash().filter(|bytes| !bytes.is_empty()).map(<[u8]>::to_vec);
        self.variables =
            variables.map(|bytes| Named { name: "the variables in flash".into(), bytes });
        machine.reset(configuration)?;
        self.power_on(machine)
    }
}

/// Where variables go when the run ends.
pub struct KeptVariables(Option<(PathBuf, File)>);

impl KeptVariables {
    /// Writes them.
    pub fn keep(self, machine: &Machine) -> anyhow::Result<()> {
        let (Some((path, mut file)), Some(bytes)) = (self.0, machine.flash()) else {
            return Ok(());
        };
        let written = file.seek(SeekFrom::Start(0)).and_then(|_| file.write_all(bytes));
        written
            .and_then(|()| file.sync_data())
            .with_context(|| format!("cannot write {}", path.display()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_stay_in_memory_unless_they_are_to_go_back() {
        let file = |path: &str, goes_back| Ok(Variables { path: path.into(), goes_back });
        for (text, expected) in [
            ("a.fd", file("a.fd", false)),
            ("a.fd,write-through", file("a.fd", true)),
            ("a,b.fd", file("a,b.fd", false)),
            (",write-through", Err("a file name is missing".into())),
            ("", Err("a file name is missing".into())),
        ] {
            assert_eq!(parse_variables(text), expected, "{text}");
        }
    }
}
