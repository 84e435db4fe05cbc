//! What QEMU's options ask for, and the options of `machine run` that say the same.

use super::character::{self, Character};
use super::flash::Flash;
use super::option::{self, Meaning, Row};
use super::place::{self, Place};
use super::{VERSION, device};
use std::path::{Path, PathBuf};

/// Words of a command line at most, and bytes of one.
const MOST_WORDS: usize = 4096;
const LONGEST: usize = 64 << 10;
/// QEMU's own.
const USUAL_MEMORY: u64 = 128 << 20;

/// What is to be told instead of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Question {
    Help,
    Version,
    Devices,
    Models,
}

/// A variable of the environment.
type Variable<'a> = &'a dyn Fn(&str) -> Option<String>;

/// What was asked for.
#[derive(Clone, Debug, Default)]
pub(super) struct Request {
    question: Option<Question>,
    kernel: Option<PathBuf>,
    /// A BIOS image, or UEFI firmware.
    firmware: Option<PathBuf>,
    /// UEFI firmware in flash memory.
    pub(super) flash: Flash,
    /// A disk of this format is to keep what is written.
    pub(super) writes_qcow2: bool,
    initrd: Option<PathBuf>,
    append: String,
    processors: Option<u16>,
    memory: Option<u64>,
    /// As `--cpu` takes it.
    pub(super) model: Option<String>,
    /// The model for `max` and `host`, where the environment names one.
    pub(super) best: Option<String>,
    /// Options of `machine run` for devices.
    pub(super) devices: Vec<String>,
    /// Disks by their names: what `-device virtio-blk-pci,drive=` refers to.
    pub(super) drives: Vec<(String, String)>,
    /// Folders by their names, as what `-device virtio-9p-pci,fsdev=` refers to.
    pub(super) folders: Vec<(String, String)>,
    /// The file that the serial port writes to.
    pub(super) serial: Option<String>,
    pub(super) has_network: bool,
    /// The serial port was put at the terminal by name, with or without others.
    pub(super) shares_terminal: bool,
    /// Character devices by their names.
    pub(super) characters: Vec<(String, Character)>,
    gdb: Option<String>,
    monitor: Option<Place>,
    protocol: Option<Place>,
    is_stopped: bool,
    is_snapshot: bool,
    /// A reset is the end.
    pub(super) ends_at_reset: bool,
    /// What has no effect, in the words of the command line.
    pub(super) ignored: Vec<String>,
}

impl Request {
    /// Reads a command line.
    pub fn parse(words: &[String], variable: Variable<'_>) -> Result<Self, String> {
        let mut request = Self { best: variable("AVICENNA_CPU"), ..Self::default() };
        if words.len() > MOST_WORDS || words.iter().any(|word| word.len() > LONGEST) {
            return Err(format!(
                "more than {MOST_WORDS} words, or one of more than {LONGEST} bytes"
            ));
        }
        let mut options = options(words)?;
        // What others refer to by name may stand behind them.
        options.sort_by_key(|(_, row, _)| !matches!(row.name, "chardev" | "fsdev"));
        for (word, row, value) in options {
            match &row.meaning {
                Meaning::Does(set) => {
                    set(&mut request, value).map_err(|why| format!("{word} {value}: {why}"))?;
                }
                Meaning::Holds => {}
                Meaning::Ignored => request.ignore(format!("{word} {value}").trim_end()),
                Meaning::Refused(why) => return Err(format!("{word} {value}: {why}")),
            }
        }
        request.settle_terminal();
        if request.kernel.is_some() && request.flash.code().is_some() {
            request.ignore("firmware in flash beside -kernel: the kernel is entered without it");
        }
        Ok(request)
    }

    /// Where the serial port and the monitor take turns at the terminal, QEMU begins with the
    /// serial port; here it keeps it.
    fn settle_terminal(&mut self) {
        let is_there = |place: &mut Place| place.socket.is_none();
        if self.shares_terminal && self.monitor.take_if(is_there).is_some() {
            self.ignore("-mon at a terminal that the serial port has");
        }
    }

    pub fn ignore(&mut self, what: &str) {
        if !self.ignored.iter().any(|known| known == what) {
            self.ignored.push(what.to_owned());
        }
    }

    pub fn ask(&mut self, question: Question) -> Result<(), String> {
        self.question = Some(question);
        Ok(())
    }

    /// What is to be told instead of a run.
    pub fn answer(&self) -> Option<String> {
        Some(match self.question? {
            Question::Help => format!("{VERSION}\n{}", option::help()),
            Question::Version => VERSION.to_owned(),
            Question::Devices => device::list(),
            Question::Models => super::processor::list(),
        })
    }

    pub fn set_kernel(&mut self, text: &str) -> Result<(), String> {
        self.kernel = Some(text.into());
        Ok(())
    }

    pub fn set_firmware(&mut self, text: &str) -> Result<(), String> {
        self.firmware = Some(text.into());
        Ok(())
    }

    pub fn set_initrd(&mut self, text: &str) -> Result<(), String> {
        self.initrd = Some(text.into());
        Ok(())
    }

    pub fn set_append(&mut self, text: &str) -> Result<(), String> {
        text.clone_into(&mut self.append);
        Ok(())
    }

    /// `N`, or `cpus=N` among other words, which say how they are arranged.
    pub fn set_processors(&mut self, text: &str) -> Result<(), String> {
        for part in text.split(',') {
            let (key, number) = part.split_once('=').unwrap_or(("cpus", part));
            let number: u16 = number
                .parse()
                .ok()
                .filter(|number| (1..=512).contains(number))
                .ok_or("must be 1 to 512 SMP CPUs")?;
            match key {
                "cpus" => self.processors = Some(number),
                "maxcpus" => {}
                "sockets" | "dies" | "clusters" | "modules" | "cores" | "threads" => {
                    self.ignore(&format!("-smp {part}"));
                }
                _ => return Err(format!("{key}: no such word")),
            }
        }
        Ok(())
    }

    /// A number of MiB, or one with a suffix.
    pub fn set_memory(&mut self, text: &str) -> Result<(), String> {
        let first = text.split(',').next().unwrap_or_default();
        let size = first.strip_prefix("size=").unwrap_or(first);
        let digits = size.trim_end_matches(|c: char| c.is_ascii_alphabetic());
        let shift = match size[digits.len()..].to_ascii_lowercase().as_str() {
            "" | "m" => 20,
            "k" => 10,
            "g" => 30,
            "t" => 40,
            other => return Err(format!("{other}: must be a number with K, M, G or T")),
        };
        let number: u64 = digits.parse().map_err(|_| "must be a number with K, M, G or T")?;
        let bytes = number.checked_mul(1 << shift).filter(|bytes| *bytes > 0);
        self.memory = Some(bytes.ok_or("must be more than nothing and less than 16 EiB")?);
        Ok(())
    }

    /// `tcp:HOST:PORT`, `tcp::PORT` for this machine alone, or `unix:PATH`.
    pub fn set_gdb(&mut self, text: &str) -> Result<(), String> {
        let mut words = text.split(',');
        let place = words.next().unwrap_or_default();
        let address = match (place.strip_prefix("tcp:"), place.strip_prefix("unix:")) {
            (Some(address), _) => address.to_owned(),
            (_, Some(path)) if path.starts_with(['/', '.']) => path.to_owned(),
            (_, Some(path)) => format!("./{path}"),
            _ => return Err("must be tcp::PORT or unix:PATH".into()),
        };
        self.gdb = Some(address);
        Ok(())
    }

    pub fn set_monitor(&mut self, text: &str) -> Result<(), String> {
        match text {
            "none" | "null" => Ok(()),
            _ => self.take_monitor(Place::parse(text)?),
        }
    }

    pub fn add_character(&mut self, text: &str) -> Result<(), String> {
        let named = character::parse(&self.characters, text)?;
        self.characters.push(named);
        Ok(())
    }

    /// The monitor or the protocol at a character device.
    pub fn set_named_monitor(&mut self, text: &str) -> Result<(), String> {
        match character::monitor(&self.characters, text)? {
            (Character::Nothing, _) => Ok(()),
            (Character::File(_), _) => Err("nobody could answer by a file".into()),
            (Character::At(place), true) => self.take_protocol(place),
            (Character::At(place), false) => self.take_monitor(place),
        }
    }

    fn take_monitor(&mut self, place: Place) -> Result<(), String> {
        set(&mut self.monitor, place)
    }

    pub fn set_protocol(&mut self, text: &str) -> Result<(), String> {
        self.take_protocol(Place::parse(text)?)
    }

    fn take_protocol(&mut self, place: Place) -> Result<(), String> {
        if place.socket.is_none() {
            return Err("the protocol is at a socket file alone: unix:PATH,server=on".into());
        }
        set(&mut self.protocol, place)
    }

    pub fn set_stopped(&mut self) -> Result<(), String> {
        self.is_stopped = true;
        Ok(())
    }

    pub fn set_ends_at_reset(&mut self) -> Result<(), String> {
        self.ends_at_reset = true;
        Ok(())
    }

    pub fn set_snapshot(&mut self) -> Result<(), String> {
        self.is_snapshot = true;
        Ok(())
    }

    /// What runs first: a kernel, or without one a BIOS for what is on a disk.
    fn begin(&self) -> Result<[String; 2], String> {
        if let Some(kernel) = &self.kernel {
            readable(kernel)
                .map_err(|why| format!("could not load kernel '{}': {why}", kernel.display()))?;
            return Ok(["--kernel".into(), kernel.display().to_string()]);
        }
        for (name, is_given) in
            [("-append", !self.append.is_empty()), ("-initrd", self.initrd.is_some())]
        {
            if is_given {
                return Err(format!("{name} only allowed with -kernel option"));
            }
        }
        match self.flash.code().map(Path::new).or(self.firmware.as_deref()) {
            Some(firmware) => {
                let firmware = found(firmware);
                readable(&firmware).map_err(|why| {
                    format!("could not load BIOS '{}': {why}", firmware.display())
                })?;
                Ok(["--firmware".into(), firmware.display().to_string()])
            }
            None if !self.drives.is_empty() => Ok(["--firmware".into(), "seabios".into()]),
            None => Err("-kernel is missing, and there is no -drive to boot from".into()),
        }
    }

    /// Options of `machine run` for firmware, where that begins.
    fn of_firmware(&self) -> Vec<String> {
        if self.kernel.is_some() {
            return Vec::new();
        }
        let variables = self.flash.variables(self.is_snapshot);
        let variables = variables.map(|file| ["--firmware-variables".into(), file]);
        let ends = self.ends_at_reset.then(|| "--no-reboot".to_owned());
        variables.into_iter().flatten().chain(ends).collect()
    }

    /// Options of `machine run` for who looks on.
    pub fn watchers(&self) -> Vec<String> {
        place::words(self.monitor.as_ref(), self.protocol.as_ref())
    }

    /// The same as options of `machine run`.
    pub fn words(&self) -> Result<Vec<String>, String> {
        let begin = self.begin()?;
        if self.writes_qcow2 && !self.is_snapshot {
            let why = "-drive format=qcow2: what is written stays in memory: it needs -snapshot, \
                       or snapshot=on or readonly=on";
            return Err(why.into());
        }
        let has_monitor = self.monitor.is_some() || self.protocol.is_some();
        if self.is_stopped && self.gdb.is_none() && !has_monitor {
            let why = "-S: nobody could let the machine go on: it needs -gdb, -qmp or -monitor";
            return Err(why.into());
        }
        if self.gdb.is_some() && has_monitor {
            return Err("-gdb: a debugger looks on alone, without -qmp and -monitor".into());
        }
        let mut words = vec!["--quiet".to_owned()];
        words.extend(begin);
        let mut option = |name: &str, value: String| words.extend([name.to_owned(), value]);
        option("--cpu", self.model.clone().unwrap_or_else(|| super::processor::USUAL.to_owned()));
        option("--cpus", self.processors.unwrap_or(1).to_string());
        option("--memory", format!("{}", self.memory.unwrap_or(USUAL_MEMORY)));
        if !self.append.is_empty() {
            option("--append", self.append.clone());
        }
        if let Some(initrd) = &self.initrd {
            readable(initrd)
                .map_err(|why| format!("could not load initrd '{}': {why}", initrd.display()))?;
            option("--initrd", initrd.display().to_string());
        }
        if let Some(address) = &self.gdb {
            option("--gdb", address.clone());
        }
        if let Some(file) = &self.serial {
            option("--serial", file.clone());
        }
        if self.has_network {
            option("--net", "answer".to_owned());
        }
        words.extend(self.of_firmware());
        words.extend(self.watchers());
        if self.is_stopped && has_monitor {
            words.push("--stopped".into());
        }
        words.extend(self.devices.iter().cloned());
        for (_, disk) in &self.drives {
            // -snapshot keeps writes in memory, as our disks do unless told otherwise.
            let disk = match self.is_snapshot {
                true => disk.trim_end_matches(",write-through"),
                false => disk,
            };
            words.extend(["--disk".to_owned(), disk.to_owned()]);
        }
        Ok(words)
    }
}

/// The words of a command line, their rows and values.
fn options(words: &[String]) -> Result<Vec<(&str, &'static Row, &str)>, String> {
    let mut words = words.iter().map(String::as_str);
    let mut options = Vec::new();
    while let Some(word) = words.next() {
        let Some(row) = option::find(word) else {
            return Err(match word.starts_with('-') {
                true => format!("{word}: invalid option"),
                false => format!("{word}: a disk without -drive: there is no IDE"),
            });
        };
        let value = match row.takes_value {
            true => words.next().ok_or_else(|| format!("{word}: requires an argument"))?,
            false => "",
        };
        options.push((word, row, value));
    }
    Ok(options)
}

fn set(slot: &mut Option<Place>, place: Place) -> Result<(), String> {
    if slot.is_some() {
        return Err("there can be one".into());
    }
    *slot = Some(place);
    Ok(())
}

/// Firmware by its name alone is where QEMU's package has it.
fn found(firmware: &Path) -> PathBuf {
    const FOLDERS: [&str; 3] = ["/usr/share/qemu", "/usr/share/seabios", "/usr/share/ovmf"];
    let is_name = firmware.components().count() == 1 && !firmware.exists();
    let mut places = FOLDERS.iter().map(|folder| Path::new(folder).join(firmware));
    let place = places.find(|place| is_name && place.exists());
    place.unwrap_or_else(|| firmware.to_owned())
}

fn readable(path: &Path) -> std::io::Result<()> {
    std::fs::File::open(path).map(drop)
}

#[cfg(test)]
mod characters;
#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Request, String> {
        let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        Request::parse(&words, &|_| None)
    }

    fn words(line: &str) -> String {
        let own = std::env::current_exe().expect("this test");
        let line = format!("-kernel {} {line}", own.display());
        let words = parse(&line).and_then(|request| request.words());
        let words = words.unwrap_or_else(|why| panic!("{line}: {why}")).join(" ");
        words.replace(&own.display().to_string(), "KERNEL")
    }

    #[test]
    fn what_a_test_suite_s_runner_says_becomes_options_of_ours() {
        let line = "--no-reboot -nodefaults -global kvm-pit.lost_tick_policy=discard -device pc-testdev \
                    -device isa-debug-exit,iobase=0xf4,iosize=0x4 -display none -serial stdio \
                    -device pci-testdev -machine accel=tcg -smp 2 -m 4g -cpu max,+svm";
        assert_eq!(
            words(line),
            "--quiet --kernel KERNEL --cpu zen4,+svm --cpus 2 --memory 4294967296"
        );
        let ignored = parse(line).expect("known options").ignored;
        assert_eq!(ignored, ["-global kvm-pit.lost_tick_policy=discard"]);
        let ignored = parse("-kernel k -pflash code").expect("both").ignored;
        assert!(ignored.iter().any(|what| what.starts_with("firmware in flash")), "{ignored:?}");
    }

    #[test]
    fn sizes_and_numbers_are_as_qemu_reads_them() {
        for (line, expected) in [
            ("", "--cpus 1 --memory 134217728"),
            ("-m 2048", "--cpus 1 --memory 2147483648"),
            ("-m size=1G,slots=2", "--cpus 1 --memory 1073741824"),
            ("-smp 4,sockets=1", "--cpus 4 --memory 134217728"),
            ("-smp cpus=3", "--cpus 3 --memory 134217728"),
            ("-gdb tcp::1234", "--cpus 1 --memory 134217728 --gdb :1234"),
            ("-s -S", "--cpus 1 --memory 134217728 --gdb :1234"),
            ("-qmp unix:q,server=on,wait=off -S", "--cpus 1 --memory 134217728 --qmp q --stopped"),
            (
                "-drive if=virtio,format=raw,file=a.img",
                "--cpus 1 --memory 134217728 --disk a.img,write-through",
            ),
            (
                "-drive if=none,id=x,format=raw,file=a.img -device virtio-blk-pci,drive=x -snapshot",
                "--cpus 1 --memory 134217728 --disk a.img",
            ),
        ] {
            assert!(words(line).ends_with(expected), "{line}: {}", words(line));
        }
    }

    #[test]
    fn without_a_kernel_a_bios_boots_a_disk() {
        let words = |line: &str| parse(line).and_then(|request| request.words());
        let drive = "-drive if=virtio,format=qcow2,file=a.img";
        let booted = words(&format!("{drive} -snapshot")).expect("a disk");
        assert_eq!(booted[1..3], ["--firmware", "seabios"]);
        assert_eq!(booted[booted.len() - 2..], ["--disk", "a.img"]);
        let own = std::env::current_exe().expect("this test").display().to_string();
        assert_eq!(words(&format!("-bios {own}")).expect("a file")[1..3], ["--firmware", &own]);
        let code = format!("-drive if=pflash,format=raw,unit=0,readonly=on,file={own}");
        for (line, variables) in [
            ("-drive if=pflash,unit=1,format=raw,file=v", Some("v,write-through")),
            ("-drive if=pflash,format=raw,file=v -snapshot", Some("v")),
            ("-drive if=pflash,unit=1,readonly=on,file=v", Some("v")),
            ("-drive if=virtio,format=raw,file=a.img", None),
        ] {
            let words = words(&format!("{code} {line} -no-reboot")).expect("flash");
            assert_eq!(words[1..3], ["--firmware", &own], "{line}");
            let at = words.iter().position(|word| word == "--firmware-variables");
            assert_eq!(at.map(|at| words[at + 1].as_str()), variables, "{line}");
            assert!(words.iter().any(|word| word == "--no-reboot"), "{line}");
        }
        for (line, why) in [
            ("", "-kernel is missing"),
            ("-bios _NO_FILE_", "could not load BIOS '_NO_FILE_'"),
            (drive, "it needs -snapshot"),
            ("-drive if=virtio,format=raw,file=a -append x", "-append only allowed with -kernel"),
            ("-drive if=virtio,format=raw,file=a -initrd x", "-initrd only allowed with -kernel"),
        ] {
            let error = words(line).expect_err(line);
            assert!(error.contains(why), "{line}: {error}");
        }
    }

    #[test]
    fn what_cannot_be_honoured_is_refused_with_its_reason() {
        for (line, why) in [
            ("-nosuch", "invalid option"),
            ("-smp", "requires an argument"),
            ("-smp 0", "1 to 512"),
            ("-smp 99999999999", "1 to 512"),
            ("-m 5x", "K, M, G or T"),
            ("-m \u{e9}", "K, M, G or T"),
            ("-m 99999999999t", "16 EiB"),
            ("-device edu", "edu"),
            ("-device isa-debug-exit,iobase=0x501", "F4h"),
            ("-drive file=a.vmdk,if=virtio,format=vmdk", "raw or qcow2"),
            ("-drive if=pflash,format=raw,unit=2,file=x", "unit=2: must be 0 or 1"),
            ("-drive if=pflash,format=raw,unit=y,file=x", "unit=y: must be 0 or 1"),
            ("-drive if=pflash,format=qcow2,file=x", "has to be raw"),
            ("-pflash a -pflash b -pflash c", "unit=1: there is a file in it"),
            ("-qmp tcp:localhost:4444,server=on", "unix:PATH"),
            ("-qmp stdio", "a socket file alone"),
            ("-qmp unix:a,server=on -qmp unix:b,server=on", "there can be one"),
            ("disk.img", "-drive"),
            ("-cpu nosuch", "nosuch"),
        ] {
            let error = parse(line).expect_err(line);
            assert!(error.contains(why), "{line}: {error}");
        }
        let error = parse("-kernel _NO_FILE_").expect("an option").words().expect_err("no file");
        assert!(error.starts_with("could not load kernel '_NO_FILE_'"), "{error}");
    }

    #[test]
    fn no_command_line_is_too_strange_to_be_answered() {
        let pieces = [
            "-m",
            "-smp",
            "-cpu",
            "-device",
            "-drive",
            "-gdb",
            "-machine",
            "-netdev",
            "-nic",
            "-serial",
            "-monitor",
            "-accel",
            "",
            ",",
            "=",
            ",,",
            "a=,=b",
            "\u{1F600}",
            "unix:",
            "tcp:",
            "max,+,-,=",
            "1,2,3",
            "file=",
            "id=",
        ];
        for first in pieces {
            for second in pieces {
                let words = [first.to_owned(), second.to_owned()];
                let _ = Request::parse(&words, &|_| None).map(|request| request.words());
            }
        }
    }
}
