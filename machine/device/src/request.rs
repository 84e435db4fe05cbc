//! How a board's configuration asks for functions on its PCI bus, and how words on a command line
//! become such requests.

use crate::map;
use crate::pci::{Function, PciDevice, Room};
use crate::storage::{Disk, WriteMode};
use arch::pci::FunctionAddress;
use std::ops::RangeInclusive;

/// Where functions of a kind are put.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Places {
    /// One place of its own, which the map names.
    At(FunctionAddress),
    /// The next free device number from `first` on, below `end`.
    Among {
        /// The first device number.
        first: u8,
        /// The device number behind the last.
        end: u8,
    },
}

impl Places {
    /// Where virtio devices are.
    pub const VIRTIO: Self =
        Self::Among { first: map::FIRST_VIRTIO_DEVICE, end: map::SMBUS.device };
    /// Where functions are that real servers have.
    pub const SERVER: Self =
        Self::Among { first: map::FIRST_SERVER_DEVICE, end: map::PULSE.device };

    /// How many functions find a place.
    pub const fn count(self) -> usize {
        match self {
            Self::At(_) => 1,
            Self::Among { first, end } => (end - first) as usize,
        }
    }

    /// All of them, in the order in which they are taken.
    pub fn addresses(self) -> impl Iterator<Item = FunctionAddress> {
        let (first, end, function) = match self {
            Self::At(at) => (at.device, at.device + 1, at.function),
            Self::Among { first, end } => (first, end, 0),
        };
        (first..end).map(move |device| FunctionAddress::new(0, device, function))
    }
}

/// A request for a device: what a row of the registry has.
pub trait PciRequest: Sized + 'static {
    /// What will be behind the functions.
    type Device: PciDevice;

    /// What the command line calls it; a kind that other options bring has no name.
    const NAMES: &'static [Name<Self>];

    /// Where its functions are put.
    fn places(&self) -> Places;

    /// How many functions it makes.
    fn count(&self) -> usize {
        1
    }

    /// The functions, at as many places as they are. `number` is how many functions of the kind
    /// there are before these.
    fn functions(
        &self,
        number: u8,
        at: &[FunctionAddress],
        room: &mut Room,
    ) -> Vec<Function<Self::Device>>;

    /// What a machine must share to go on with this one's state.
    fn digest(&self) -> String;

    /// The disk that it brings along.
    fn disk(&self) -> Option<&Disk> {
        None
    }
}

/// A name on the command line.
pub struct Name<T: 'static> {
    /// It stands in front of the options.
    pub name: &'static str,
    /// The options, for readers.
    pub takes: &'static str,
    /// Makes the request.
    pub ask: fn(&mut Options<'_>) -> Result<T, String>,
}

/// Opens disk images: the host's files are none of the devices' business.
pub trait Images {
    /// The image as a disk, or what to tell the user.
    fn open(&self, path: &str, mode: WriteMode) -> Result<Disk, String>;
}

/// The words behind a device's name, `KEY=VALUE` each, to be taken once.
pub struct Options<'a> {
    words: Vec<(&'a str, &'a str)>,
    images: &'a dyn Images,
}

impl<'a> Options<'a> {
    /// The name in front of the first comma, and what is behind it.
    pub fn split(text: &'a str, images: &'a dyn Images) -> Result<(&'a str, Self), String> {
        let mut words = text.split(',');
        let name = words.next().unwrap_or_default();
        let pair = |word: &'a str| {
            word.split_once('=').ok_or_else(|| format!("{word:?}: must be KEY=VALUE"))
        };
        let words: Vec<_> = words.map(pair).collect::<Result<_, _>>()?;
        if let Some((key, _)) =
            words.iter().enumerate().find_map(|(i, w)| words[..i].iter().find(|o| o.0 == w.0))
        {
            return Err(format!("{key} is given twice"));
        }
        Ok((name, Self { words, images }))
    }

    /// The value of a key, if it is there.
    pub fn take(&mut self, key: &str) -> Option<&'a str> {
        let at = self.words.iter().position(|(name, _)| *name == key)?;
        Some(self.words.remove(at).1)
    }

    /// A number, decimal or hexadecimal behind 0x.
    pub fn number(
        &mut self,
        key: &str,
        range: RangeInclusive<u64>,
        otherwise: u64,
    ) -> Result<u64, String> {
        let Some(value) = self.take(key) else { return Ok(otherwise) };
        let number = match value.strip_prefix("0x") {
            Some(digits) => u64::from_str_radix(digits, 16),
            None => value.parse(),
        };
        number.ok().filter(|number| range.contains(number)).ok_or_else(|| {
            format!("{key}={value}: must be a number from {} to {}", range.start(), range.end())
        })
    }

    /// One of several words, each with its meaning; the first where there is none.
    pub fn word<T: Copy>(&mut self, key: &str, words: &[(&str, T)]) -> Result<T, String> {
        let Some(value) = self.take(key) else { return Ok(words[0].1) };
        let found = words.iter().find(|(word, _)| *word == value);
        found.map(|(_, meaning)| *meaning).ok_or_else(|| {
            let words: Vec<_> = words.iter().map(|(word, _)| *word).collect();
            format!("{key}={value}: must be one of {}", words.join(", "))
        })
    }

    /// A disk over the image `file`, whose writes go where `writes` says.
    pub fn disk(&mut self) -> Result<Disk, String> {
        let modes = [
            ("memory", WriteMode::Overlay),
            ("refused", WriteMode::Refused),
            ("through", WriteMode::Through),
        ];
        let mode = self.word("writes", &modes)?;
        match self.take("file") {
            Some(path) if !path.is_empty() => self.images.open(path, mode),
            _ => Err("file=PATH is missing".to_owned()),
        }
    }

    /// Whatever was not taken is an error.
    pub fn end(self, takes: &str) -> Result<(), String> {
        match self.words.first() {
            None => Ok(()),
            Some((key, _)) if takes.is_empty() => Err(format!("{key}: there are no options")),
            Some((key, _)) => Err(format!("{key}: must be one of {takes}")),
        }
    }
}
