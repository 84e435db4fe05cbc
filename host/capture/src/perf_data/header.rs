//! The header of a perf.data file, its attributes and its features.

use super::MAGIC;
use super::attribute::{Attribute, TYPE_TRACEPOINT};
use super::layout::Layouts;
use crate::Error;
use crate::sink::Origin;
use crate::tracing_data::{Cursor, TracingData};
use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt;

/// Numbers of the features that are read. [PERF "HEADER_…"]
pub mod feature {
    pub const TRACING_DATA: u32 = 1;
    pub const HOST_NAME: u32 = 3;
    pub const KERNEL_RELEASE: u32 = 4;
    pub const PERF_VERSION: u32 = 5;
    pub const CPU_COUNT: u32 = 7;
    pub const CPU_DESCRIPTION: u32 = 8;
    pub const CPU_ID: u32 = 9;
    pub const COMMAND: u32 = 11;
    pub const EVENT_DESCRIPTION: u32 = 12;
    pub const DIRECTORY: u32 = 24;
    pub const COMPRESSED: u32 = 27;
    /// Bits in the header's map.
    pub const COUNT: u32 = 256;
}

/// Size of the header of a file.
const FILE_HEADER: u64 = 104;
const MOST_ATTRIBUTES: u64 = 4096;
/// Identifiers of one event: one per CPU or thread.
const MOST_IDS: u64 = 1 << 16;
/// The largest feature, the event descriptions of a whole kernel, is a few megabytes.
const LARGEST_FEATURE: u64 = 64 << 20;
/// Bytes of records that are looked at before all are read.
const FIRST_RECORDS: u64 = 64 << 10;

/// Everything in front of and behind the records.
#[derive(Debug)]
pub struct Header {
    /// How samples of each event are laid out.
    pub layouts: Layouts,
    /// Where it was made.
    pub origin: Origin,
    /// Where the records lie.
    pub data: Range<u64>,
    /// Whether records are packed with zstd.
    pub is_compressed: bool,
    /// Most records lie in other files.
    pub is_of_directory: bool,
}

impl Header {
    /// Reads the header of a recording in one file; `length` is the file's.
    pub fn read(file: &File, length: u64) -> Result<Self, Error> {
        let header = Self::read_of_directory(file, length)?;
        if header.is_of_directory {
            return Err(Error::Unsupported(
                "the file is the header of a recording of perf record --threads: give the \
                 directory it lies in"
                    .into(),
            ));
        }
        Ok(header)
    }

    /// Reads the header of a recording in one file or in several.
    pub fn read_of_directory(file: &File, length: u64) -> Result<Self, Error> {
        let bytes = read_at(file, 0..FILE_HEADER.min(length), length)?;
        let mut cursor = Cursor::new(&bytes, "perf.data header");
        if cursor.take(8)? != MAGIC {
            return Err(Error::UnknownFormat("the magic number of perf.data is missing".into()));
        }
        cursor.u64()?;
        let attribute_size = cursor.u64()?;
        let attribute_section = section(&mut cursor)?;
        let data = section(&mut cursor)?;
        cursor.take(16)?;
        let features: [u64; 4] = [cursor.u64()?, cursor.u64()?, cursor.u64()?, cursor.u64()?];
        let mut origin = Origin { format: "perf.data".into(), bytes: length, ..Origin::default() };
        let mut attributes = read_attributes(file, attribute_section, attribute_size, length)?;
        let is_unfinished = data.start == data.end;
        let data = if is_unfinished {
            origin.warnings.push(
                "the recording was not finished: its header was never completed, so everything \
                 up to its end is analysed"
                    .into(),
            );
            data.start.min(length)..length
        } else {
            if data.end > length {
                origin.warnings.push(format!(
                    "the file breaks off: {} of {} bytes of records are missing",
                    data.end - length,
                    data.end - data.start
                ));
            }
            data.start.min(length)..data.end.min(length)
        };
        let mut collected = Features::default();
        if !is_unfinished && data.end < length {
            let has = |number: u32| features[(number / 64) as usize] >> (number % 64) & 1 != 0;
            let present: Vec<u32> = (0..feature::COUNT).filter(|number| has(*number)).collect();
            read_features(file, data.end, length, &present, &mut collected, &mut origin)?;
        }
        for (attribute, (_, name)) in attributes.iter_mut().zip(&collected.names) {
            attribute.name = Some(name.clone());
        }
        let (mut layouts, warnings) = Layouts::new(&attributes, collected.formats.as_ref())?;
        origin.warnings.extend(warnings);
        let first = data.start..data.end.min(data.start.saturating_add(FIRST_RECORDS));
        let first = read_at(file, first, length)?;
        layouts.learn(&first);
        if collected.formats.is_none() {
            layouts.check_assumption(&first)?;
        }
        origin.inhibit_print_format = collected.inhibit_print_format();
        origin.events = collected.event_names(&attributes);
        let Features { is_compressed, is_directory, .. } = collected;
        Ok(Self { layouts, origin, data, is_compressed, is_of_directory: is_directory })
    }
}

fn section(cursor: &mut Cursor<'_>) -> Result<Range<u64>, Error> {
    let (start, size) = (cursor.u64()?, cursor.u64()?);
    let end = start
        .checked_add(size)
        .ok_or_else(|| cursor.error(format!("a section of {size} bytes at {start:#x}")))?;
    Ok(start..end)
}

fn read_at(file: &File, range: Range<u64>, length: u64) -> Result<Vec<u8>, Error> {
    let size = range.end.saturating_sub(range.start);
    if range.end > length || size > LARGEST_FEATURE {
        return Err(Error::malformed(
            "section of perf.data",
            range.start,
            format!("its {size} bytes do not fit the file's {length}"),
        ));
    }
    let mut bytes = vec![0; size as usize];
    file.read_exact_at(&mut bytes, range.start)?;
    Ok(bytes)
}

fn read_attributes(
    file: &File,
    section: Range<u64>,
    stride: u64,
    length: u64,
) -> Result<Vec<Attribute>, Error> {
    let bytes = read_at(file, section.clone(), length)?;
    let stride = usize::try_from(stride).unwrap_or(0);
    if !(64..=1 << 16).contains(&stride) || bytes.len() as u64 / stride as u64 > MOST_ATTRIBUTES {
        return Err(Error::malformed(
            "event attributes",
            section.start,
            format!("{} bytes in steps of {stride}", bytes.len()),
        ));
    }
    let mut attributes = Vec::new();
    for entry in bytes.chunks_exact(stride) {
        let (mut attribute, _) = Attribute::parse(entry)?;
        // The section of identifiers closes the entry, whatever the attribute's own size.
        let mut cursor = Cursor::new(&entry[stride - 16..], "event identifiers");
        let ids = self::section(&mut cursor)?;
        if (ids.end - ids.start) / 8 > MOST_IDS {
            return Err(cursor.error("more identifiers than CPUs can be"));
        }
        let words = read_at(file, ids, length)?;
        attribute.ids = words
            .chunks_exact(8)
            .filter_map(|word| Some(u64::from_le_bytes(word.try_into().ok()?)))
            .collect();
        attributes.push(attribute);
    }
    Ok(attributes)
}

/// What the features say beside the origin.
#[derive(Debug, Default)]
pub struct Features {
    pub formats: Option<TracingData>,
    /// Attributes with their names, in order.
    pub names: Vec<(Attribute, String)>,
    pub is_compressed: bool,
    pub is_directory: bool,
}

impl Features {
    pub fn inhibit_print_format(&self) -> Option<String> {
        let events = &self.formats.as_ref()?.events;
        let event = events.iter().find(|event| event.name == "kvm_apicv_inhibit_changed")?;
        Some(event.print_format.clone())
    }

    /// Tracepoints that were recorded, as far as they can be named.
    pub fn event_names(&self, attributes: &[Attribute]) -> Vec<String> {
        let named = |attribute: &Attribute| {
            let formats = self.formats.as_ref();
            let format = formats.and_then(|all| all.event(attribute.config as u32));
            match format {
                Some(format) if attribute.kind == TYPE_TRACEPOINT => Some(format.name.clone()),
                _ => attribute.name.clone().map(|name| name.trim_start_matches("kvm:").to_owned()),
            }
        };
        attributes.iter().filter_map(named).collect()
    }

    /// Takes one feature's bytes; a feature that cannot be read is a warning, no more.
    pub fn take(&mut self, number: u32, bytes: &[u8], origin: &mut Origin) {
        let text = || {
            let mut cursor = Cursor::new(bytes, "feature");
            let length = cursor.u32().ok()?;
            let text = cursor.take(u64::from(length)).ok()?;
            let text = text.split(|byte| *byte == 0).next().unwrap_or_default();
            Some(String::from_utf8_lossy(text).into_owned())
        };
        match number {
            feature::TRACING_DATA => match TracingData::parse(bytes) {
                Ok(formats) => self.formats = Some(formats),
                Err(error) => origin.warnings.push(error.to_string()),
            },
            feature::HOST_NAME => origin.host_name = text(),
            feature::KERNEL_RELEASE => origin.kernel_release = text(),
            feature::PERF_VERSION => origin.recorder = text().map(|text| format!("perf {text}")),
            feature::CPU_DESCRIPTION => origin.cpu_description = text(),
            feature::CPU_ID => origin.cpu = text(),
            feature::CPU_COUNT => origin.host_cpus = Cursor::new(bytes, "feature").u32().ok(),
            feature::COMMAND => origin.command = command(bytes).ok(),
            feature::EVENT_DESCRIPTION => match event_names(bytes) {
                Ok(names) => self.names = names,
                Err(error) => origin.warnings.push(error.to_string()),
            },
            feature::COMPRESSED => self.is_compressed = true,
            feature::DIRECTORY => self.is_directory = true,
            _ => {}
        }
    }
}

fn read_features(
    file: &File,
    table: u64,
    length: u64,
    present: &[u32],
    features: &mut Features,
    origin: &mut Origin,
) -> Result<(), Error> {
    let end = table + present.len() as u64 * 16;
    let bytes = match read_at(file, table..end, length) {
        Ok(bytes) => bytes,
        Err(error) => {
            origin.warnings.push(error.to_string());
            return Ok(());
        }
    };
    let mut cursor = Cursor::new(&bytes, "feature table");
    for number in present {
        let range = section(&mut cursor)?;
        match read_at(file, range, length) {
            Ok(bytes) => features.take(*number, &bytes, origin),
            Err(error) => origin.warnings.push(error.to_string()),
        }
    }
    Ok(())
}

fn command(bytes: &[u8]) -> Result<String, Error> {
    let mut cursor = Cursor::new(bytes, "command line");
    let mut words = Vec::new();
    for _ in 0..cursor.u32()?.min(4096) {
        let length = cursor.u32()?;
        let word = cursor.take(u64::from(length))?;
        let word = word.split(|byte| *byte == 0).next().unwrap_or_default();
        words.push(String::from_utf8_lossy(word).into_owned());
    }
    Ok(words.join(" "))
}

fn event_names(bytes: &[u8]) -> Result<Vec<(Attribute, String)>, Error> {
    let mut cursor = Cursor::new(bytes, "event description");
    let (events, stride) = (cursor.u32()?, cursor.u32()?);
    let mut names = Vec::new();
    for _ in 0..events.min(MOST_ATTRIBUTES as u32) {
        let (mut attribute, _) = Attribute::parse(cursor.take(u64::from(stride))?)?;
        let ids = cursor.u32()?;
        let length = cursor.u32()?;
        let name = cursor.take(u64::from(length))?;
        let name = name.split(|byte| *byte == 0).next().unwrap_or_default();
        for _ in 0..ids {
            attribute.ids.push(cursor.u64()?);
        }
        names.push((attribute, String::from_utf8_lossy(name).into_owned()));
    }
    Ok(names)
}
