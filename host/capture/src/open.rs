//! Which kind of recording a file is, and the file made ready for its reader.

use crate::{Error, machine, perf_data, sums, trace_dat, xen_trace};
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Seek, SeekFrom, Write};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

/// A recording's kind with what its reader needs.
pub enum Input {
    /// A finished or unfinished perf.data, and its length.
    PerfFile(File, u64),
    /// What `perf record --threads` leaves.
    PerfDirectory(perf_data::Directory),
    /// perf.data as perf writes it into a pipe.
    PerfPipe(Box<dyn Read + Send>),
    /// A trace.dat of trace-cmd, and its length.
    TraceDat(File, u64),
    /// What ftrace or `trace-cmd report` printed.
    Text(Box<dyn BufRead + Send>),
    /// Text with a table of `perf kvm stat` in it.
    Table(String),
    /// What `avicenna machine run --trace` wrote.
    Machine(Box<dyn Read + Send>),
    /// What `xentrace` wrote.
    Xen(Box<dyn Read + Send>),
    /// What `avicenna exits record` summed up.
    Sums(Box<dyn BufRead + Send>),
}

/// Bytes of text looked at to tell a table from a trace.
const TEXT_HEAD: usize = 64 << 10;
/// Bytes between two looks at whether to stop.
const UNPACKED_AT_ONCE: u64 = 16 << 20;
/// What is unpacked into a file of a packed recording: so much, and so much for each byte of it.
const UNPACKED_START: u64 = 64 << 20;
const UNPACKED_RATIO: u64 = 128;
/// A page with pasted tables.
const LARGEST_PAGE: u64 = 16 << 20;

const GZIP: &[u8] = &[0x1f, 0x8b];
const ZSTD: &[u8] = &[0x28, 0xb5, 0x2f, 0xfd];

/// A recording and what became of its packing.
pub struct Opened {
    /// What to read from.
    pub input: Input,
    broken: Arc<OnceLock<String>>,
}

impl Opened {
    /// What to call on when the input has been read: why unpacking it ended early, if it did.
    /// Everything before that was delivered.
    pub fn breakage(&self) -> impl Fn() -> Option<String> + use<> {
        let broken = Arc::clone(&self.broken);
        move || broken.get().cloned()
    }
}

/// Unpacked bytes, up to where unpacking fails: a recorder that was killed leaves a packed file
/// without its end, of which all except the last moment can be read.
struct UpToBreak<R> {
    input: R,
    broken: Arc<OnceLock<String>>,
}

impl<R: Read> Read for UpToBreak<R> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        match self.input.read(buffer) {
            Err(error) if error.kind() != std::io::ErrorKind::Interrupted => {
                let why = format!("the packed file breaks off ({error}): the rest is left out");
                // Only the first reason counts.
                let _ = self.broken.set(why);
                Ok(0)
            }
            other => other,
        }
    }
}

/// Packed bytes, counted as they are taken.
struct Counted<R> {
    input: R,
    taken: Arc<AtomicU64>,
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let read = self.input.read(buffer)?;
        self.taken.fetch_add(read as u64, Ordering::Relaxed);
        Ok(read)
    }
}

/// Called with the length of a packed file, or zero if it is not known, when it is about to be
/// unpacked; gives the counter of what has been taken of it.
pub type Unpacking<'a> = dyn FnMut(u64) -> Arc<AtomicU64> + 'a;

/// Opens files; readers that jump get packed ones unpacked, which takes as long as it takes.
struct Opener<'a> {
    stop: &'a AtomicBool,
    unpacking: &'a mut Unpacking<'a>,
    length: u64,
    broken: &'a Arc<OnceLock<String>>,
}

/// Opens a file, or standard input for `-`. Raising `stop` ends the unpacking of a packed file, of
/// which there is nothing to report then.
pub fn open<'a>(
    path: &Path,
    stop: &'a AtomicBool,
    unpacking: &'a mut Unpacking<'a>,
) -> Result<Opened, Error> {
    let broken = Arc::default();
    let input = Opener { stop, unpacking, length: 0, broken: &broken }.open(path)?;
    Ok(Opened { input, broken })
}

impl Opener<'_> {
    fn open(mut self, path: &Path) -> Result<Input, Error> {
        let at = |source| Error::File { path: path.to_owned(), source };
        if path.as_os_str() == "-" {
            return self.open_stream(Box::new(std::io::stdin()));
        }
        let mut file = File::open(path).map_err(at)?;
        let metadata = file.metadata().map_err(at)?;
        if metadata.is_dir() {
            return Ok(Input::PerfDirectory(perf_data::Directory::open(path)?));
        }
        if !metadata.is_file() {
            return self.open_stream(Box::new(file));
        }
        self.length = metadata.len();
        let mut head = [0; 16];
        let read = read_head(&mut file, &mut head).map_err(at)?;
        file.seek(SeekFrom::Start(0)).map_err(at)?;
        match kind_of(&head[..read]) {
            Kind::PerfFile => Ok(Input::PerfFile(file, metadata.len())),
            Kind::TraceDat => Ok(Input::TraceDat(file, metadata.len())),
            _ => self.open_stream(Box::new(file)),
        }
    }

    /// Opens what cannot be read at any place; a compressed file may hold a compressed file once.
    fn open_stream(self, mut input: Box<dyn Read + Send>) -> Result<Input, Error> {
        let mut taken = Arc::default();
        for layer in 0..3 {
            let mut head = [0; 16];
            let read = read_head(&mut input, &mut head)?;
            let mut whole: Box<dyn Read + Send> =
                Box::new(std::io::Cursor::new(head[..read].to_vec()).chain(input));
            let kind = kind_of(&head[..read]);
            if layer == 0 && matches!(kind, Kind::Gzip | Kind::Zstd) {
                taken = (self.unpacking)(self.length);
                whole = Box::new(Counted { input: whole, taken: Arc::clone(&taken) });
            }
            let broken = Arc::clone(self.broken);
            match kind {
                Kind::PerfPipe => return Ok(Input::PerfPipe(whole)),
                Kind::PerfFile => {
                    let (file, length) = self.unpacked_file(whole, &taken)?;
                    return Ok(Input::PerfFile(file, length));
                }
                Kind::TraceDat => {
                    let (file, length) = self.unpacked_file(whole, &taken)?;
                    return Ok(Input::TraceDat(file, length));
                }
                Kind::Machine => {
                    return Ok(Input::Machine(Box::new(BufReader::with_capacity(1 << 18, whole))));
                }
                Kind::Xen => {
                    return Ok(Input::Xen(Box::new(BufReader::with_capacity(1 << 18, whole))));
                }
                Kind::Gzip => {
                    let unpacked = flate2::read::MultiGzDecoder::new(whole);
                    input = Box::new(UpToBreak { input: unpacked, broken });
                }
                Kind::Zstd => {
                    let unpacked = zstd::stream::read::Decoder::new(whole)?;
                    input = Box::new(UpToBreak { input: unpacked, broken });
                }
                Kind::Text => return open_text(whole),
            }
        }
        Err(Error::Unsupported("compressed more than twice".into()))
    }

    /// Readers that jump need a file: what was compressed is unpacked into one without a name.
    fn unpacked_file(&self, mut input: impl Read, taken: &AtomicU64) -> Result<(File, u64), Error> {
        let mut file = tempfile::tempfile()?;
        let mut length = 0;
        loop {
            if self.stop.load(Ordering::Relaxed) {
                return Err(Error::Stopped);
            }
            match std::io::copy(&mut (&mut input).take(UNPACKED_AT_ONCE), &mut file)? {
                0 => break,
                written => length += written,
            }
            let packed = taken.load(Ordering::Relaxed);
            if length > UNPACKED_START.saturating_add(packed.saturating_mul(UNPACKED_RATIO)) {
                let why = format!("{packed} packed bytes that hold more than {length}");
                return Err(Error::Unsupported(why));
            }
        }
        file.flush()?;
        file.seek(SeekFrom::Start(0))?;
        Ok((file, length))
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    PerfFile,
    PerfPipe,
    TraceDat,
    Machine,
    Xen,
    Gzip,
    Zstd,
    Text,
}

fn kind_of(head: &[u8]) -> Kind {
    if head.starts_with(perf_data::MAGIC) {
        let size = head.get(8..16).and_then(|size| size.try_into().ok()).map(u64::from_le_bytes);
        return if size == Some(16) { Kind::PerfPipe } else { Kind::PerfFile };
    }
    match head {
        head if head.starts_with(trace_dat::MAGIC) => Kind::TraceDat,
        head if head.starts_with(machine::MAGIC) => Kind::Machine,
        head if head.starts_with(xen_trace::MAGIC) => Kind::Xen,
        head if head.starts_with(GZIP) => Kind::Gzip,
        head if head.starts_with(ZSTD) => Kind::Zstd,
        _ => Kind::Text,
    }
}

fn read_head(input: &mut impl Read, head: &mut [u8]) -> std::io::Result<usize> {
    let mut filled = 0;
    while filled < head.len() {
        match input.read(&mut head[filled..])? {
            0 => break,
            read => filled += read,
        }
    }
    Ok(filled)
}

/// What a file is that is surely no recording, by its beginning.
fn no_recording(head: &[u8]) -> Option<&'static str> {
    const ESCAPE: u8 = 0x1b;
    let is_odd = |byte: &&u8| matches!(byte, 0..=8 | 14..=31) && **byte != ESCAPE;
    if head.is_empty() {
        return Some("it is empty");
    }
    if head.iter().filter(is_odd).count() > head.len() / 50 {
        return Some(
            "it is neither perf.data, trace.dat, xentrace, a trace of the machine nor text",
        );
    }
    let is_report = head.starts_with(b"{") && contains(head, b"\"tool\": \"avicenna ");
    let is_page = contains(head, b"content=\"avicenna ");
    (is_report || is_page).then_some("it is a report; give the recording that it was made of")
}

fn contains(bytes: &[u8], wanted: &[u8]) -> bool {
    bytes.windows(wanted.len()).any(|window| window == wanted)
}

fn open_text(mut input: impl Read + Send + 'static) -> Result<Input, Error> {
    let mut head = vec![0; TEXT_HEAD];
    let read = read_head(&mut input, &mut head)?;
    head.truncate(read);
    if let Some(what) = no_recording(&head) {
        return Err(Error::UnknownFormat(what.into()));
    }
    let text = String::from_utf8_lossy(&head);
    let is_table = text.contains("Samples%") && text.contains("Avg time");
    let whole = std::io::Cursor::new(head.clone()).chain(input);
    if is_table {
        let mut bytes = Vec::new();
        whole.take(LARGEST_PAGE).read_to_end(&mut bytes)?;
        return Ok(Input::Table(String::from_utf8_lossy(&bytes).into_owned()));
    }
    if head.starts_with(sums::MAGIC) {
        return Ok(Input::Sums(Box::new(BufReader::new(whole))));
    }
    Ok(Input::Text(Box::new(BufReader::with_capacity(1 << 18, whole))))
}
