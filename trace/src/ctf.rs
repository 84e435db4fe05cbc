//! Export in the Common Trace Format 1.8, for Trace Compass and babeltrace2: a folder with the
//! description of all events in words and a stream for each processor.
//!
//! Times are picoseconds since power-on. In a stream they never go back, so an event of a device,
//! which may stand a little behind what the first processor did at the time, has that one's time,
//! and its own in a field. [CTF "Event Packet Header", "TSDL"]

use crate::event::{Event, Record, Value};
use crate::symbol::Symbols;
use arch::identity::CpuIndex;
use arch::time::Picoseconds;
use std::collections::BTreeMap;
use std::io::{self, Write};

/// The first word of each packet, which says that it is one and which way round.
const MAGIC: u32 = 0xC1FC_1FC1;

/// What stands before the events' own descriptions.
const BEGINNING: &str = "/* CTF 1.8 */
typealias integer { size = 8; align = 8; signed = false; } := uint8;
typealias integer { size = 32; align = 8; signed = false; } := uint32;
typealias integer { size = 64; align = 8; signed = false; } := uint64;
typealias integer { size = 64; align = 8; signed = false; base = hexadecimal; } := hex64;
trace {
    major = 1;
    minor = 8;
    byte_order = le;
    packet.header := struct { uint32 magic; uint32 stream_id; };
};
env { tracer_name = \"avicenna\"; };
clock { name = machine; freq = 1000000000000; offset = 0; };
typealias integer {
    size = 64; align = 8; signed = false; map = clock.machine.value;
} := time64;
stream {
    id = 0;
    packet.context := struct { uint32 cpu_id; };
    event.header := struct { uint8 id; time64 timestamp; };
};
";

/// Opens the file of a name in the folder.
pub type Open<'a, W> = &'a mut dyn FnMut(&str) -> io::Result<W>;

/// Writes records as they come.
pub struct Export<'a, W: Write> {
    open: Open<'a, W>,
    symbols: Symbols,
    streams: BTreeMap<CpuIndex, Stream<W>>,
}

struct Stream<W> {
    output: W,
    last: Picoseconds,
}

/// The description of the events.
fn metadata() -> String {
    let mut text = String::from(BEGINNING);
    for (kind, label, _) in Event::KINDS {
        let fields: String = Event::columns_of(*kind)
            .iter()
            .map(|field| match field.is_named {
                true => format!(" string _{};", field.name),
                false => format!(" hex64 _{};", field.name),
            })
            .collect();
        text += &format!(
            "event {{ id = {kind}; name = \"{label}\"; stream_id = 0;\n    \
             fields := struct {{ uint64 _at; string _exit; string _symbol;{fields} }};\n}};\n"
        );
    }
    text
}

impl<'a, W: Write> Export<'a, W> {
    /// Writes the description. Code is called as the symbols have it.
    pub fn new(open: Open<'a, W>, symbols: Symbols) -> io::Result<Self> {
        let mut output = open("metadata")?;
        output.write_all(metadata().as_bytes())?;
        output.flush()?;
        Ok(Self { open, symbols, streams: BTreeMap::new() })
    }

    /// In order of time for each processor.
    pub fn push(&mut self, record: &Record) -> io::Result<()> {
        let stream = match self.streams.entry(record.cpu) {
            std::collections::btree_map::Entry::Occupied(known) => known.into_mut(),
            std::collections::btree_map::Entry::Vacant(new) => {
                let mut output = (self.open)(&format!("cpu{}", record.cpu.0))?;
                let id = 0u32;
                for word in [MAGIC, id, record.cpu.0.into()] {
                    output.write_all(&word.to_le_bytes())?;
                }
                new.insert(Stream { output, last: Picoseconds::ZERO })
            }
        };
        stream.last = stream.last.max(record.at);
        let mut bytes = vec![record.event.kind()];
        bytes.extend(stream.last.0.to_le_bytes());
        bytes.extend(record.at.0.to_le_bytes());
        push_text(&mut bytes, record.event.exit_name().unwrap_or_default());
        let symbol = record.event.rip().and_then(|rip| self.symbols.name(rip));
        push_text(&mut bytes, &symbol.unwrap_or_default());
        record.event.values(|_, value| match value {
            Value::Number(number) => bytes.extend(number.to_le_bytes()),
            Value::Name(name) => push_text(&mut bytes, &name),
        });
        stream.output.write_all(&bytes)
    }

    /// Writes what is left.
    pub fn finish(self) -> io::Result<()> {
        self.streams.into_values().try_for_each(|mut stream| stream.output.flush())
    }
}

/// A text ends with a zero byte, which none may hold.
fn push_text(bytes: &mut Vec<u8>, text: &str) {
    bytes.extend(text.bytes().filter(|byte| *byte != 0));
    bytes.push(0);
}

#[cfg(test)]
mod tests {
    use super::*;
    use arch::address::Linear;
    use std::cell::RefCell;
    use std::rc::Rc;

    /// A file of the test's folder.
    struct File(Rc<RefCell<BTreeMap<String, Vec<u8>>>>, String);

    impl Write for File {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.borrow_mut().entry(self.1.clone()).or_default().extend(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn each_processor_has_a_stream_whose_times_never_go_back() {
        let folder = Rc::new(RefCell::new(BTreeMap::new()));
        let mut open = |name: &str| Ok(File(folder.clone(), name.to_owned()));
        let mut symbols = Symbols::default();
        symbols.extend([(0x1000, "idle\0loop".to_owned())]);
        let mut export = Export::new(&mut open, symbols).expect("memory");
        for (at, cpu, event) in [
            (500, 0, Event::Halt { rip: Linear(0x1004) }),
            (400, 0, Event::Line { gsi: 4, is_asserted: true }),
            (450, 3, Event::Wake {}),
        ] {
            let record = Record { at: Picoseconds(at), cpu: CpuIndex(cpu), event };
            export.push(&record).expect("memory");
        }
        export.finish().expect("memory");
        let folder = folder.borrow();
        assert_eq!(folder.keys().collect::<Vec<_>>(), ["cpu0", "cpu3", "metadata"]);

        let header = |cpu: u8| [0xC1, 0x1F, 0xFC, 0xC1, 0, 0, 0, 0, cpu, 0, 0, 0];
        let word = |number: u64| number.to_le_bytes();
        let mut cpu0 = header(0).to_vec();
        cpu0.extend([21].into_iter().chain(word(500)).chain(word(500)));
        cpu0.extend(b"\0idleloop+0x4\0".iter().copied().chain(word(0x1004)));
        cpu0.extend([27].into_iter().chain(word(500)).chain(word(400)));
        cpu0.extend([0, 0].into_iter().chain(word(4)).chain(word(1)));
        assert_eq!(folder["cpu0"], cpu0);
        let mut cpu3 = header(3).to_vec();
        cpu3.extend([22].into_iter().chain(word(450)).chain(word(450)).chain([0, 0]));
        assert_eq!(folder["cpu3"], cpu3);
    }

    #[test]
    fn the_description_has_every_event_and_every_field() {
        let text = metadata();
        assert!(text.starts_with("/* CTF 1.8 */\n"));
        for (kind, label, fields) in Event::KINDS {
            let event = text.split("event { id = ").find(|part| {
                part.starts_with(&format!("{kind}; name = \"{label}\"; stream_id = 0;"))
            });
            let event = event.unwrap_or_else(|| panic!("{label}"));
            assert!(fields.iter().all(|field| event.contains(&format!(" _{field};"))), "{label}");
        }
        let depth = |open, close| text.matches(open).count() == text.matches(close).count();
        assert!(depth('{', '}'));
    }
}
