//! Devices as the command line names them: disks over image files, a console with channels to
//! files, network cables that end in a packet source.

use super::platform;
use super::share::{self, Share};
use super::size::parse_bytes;
use crate::sandbox::Sandbox;
use crate::status::Usage;
use crate::verb::source;
use anyhow::{Context, anyhow, bail};
use board::channel::Channel;
use board::{Machine, image_file};
use change::{Like, Output};
use device::Request;
use device::nvme::Drive;
use device::packet_source::{PacketSource, Reaction, Stream};
use device::registry::check_places;
use device::request::Images;
use device::storage::{Disk, MemoryStorage, WriteMode};
use device::virtio::Model;
use device::virtio::block::Block;
use device::virtio::console::{Console, INPUT_LIMIT, MAXIMUM_PORTS};
use device::virtio::network::Network;
use std::cell::RefCell;
use std::error::Error;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

#[derive(clap::Args)]
// The verb that takes these in has a group of this name.
#[group(skip)]
pub struct Arguments {
    /// A disk (virtio-blk) over an image: FILE keeps writes in memory, FILE,readonly refuses them,
    /// FILE,write-through changes the image
    #[arg(long, value_name = "FILE[,readonly]", value_parser = parse_disk)]
    disk: Vec<DiskArgument>,
    /// The same behind an NVM Express controller of its own, with a pair of queues and an MSI-X
    /// vector for each processor; it can be given to a guest
    #[arg(long, value_name = "FILE[,readonly]", value_parser = parse_disk)]
    nvme: Vec<DiskArgument>,
    /// What the guest writes to a virtio-console goes to a file: FILE for hvc0, NAME=FILE for the
    /// port /dev/virtio-ports/NAME; with ,input=FILE the guest reads that file there
    #[arg(long, value_name = "[NAME=]FILE", value_parser = parse_console)]
    console: Vec<ConsoleArgument>,
    /// A network cable (virtio-net) to a peer at 10.0.2.2 that answers ping (answer), sends frames
    /// back (reflect) or counts them (count); with ,rate=N[,length=N][,count=N] it sends N UDP
    /// packets a second to 10.0.2.15
    #[arg(long, value_name = "PEER", value_parser = parse_network)]
    net: Vec<NetworkArgument>,
    /// A folder of this computer (virtio-9p) that the guest mounts by a tag: read-only, or as
    /// TAG=FOLDER,writable what the guest writes is written there
    #[arg(long, value_name = "TAG=FOLDER[,writable]", value_parser = share::parse)]
    share: Vec<Share>,
    /// A device by its name in the registry, with options of its own: help lists them
    #[arg(long, value_name = "NAME[,KEY=VALUE...]", value_parser = parse_device)]
    device: Vec<String>,
}

/// What `--device help` says.
fn known_devices() -> String {
    let row = |(name, takes): &(&str, &str)| match *takes {
        "" => format!("  {name}"),
        takes => format!("  {name}: {takes}"),
    };
    Request::names().iter().map(row).collect::<Vec<_>>().join("\n")
}

/// The words are looked at before any image is opened.
pub fn parse_device(text: &str) -> Result<String, String> {
    if text == "help" {
        return Err(format!("devices and what they take:\n{}", known_devices()));
    }
    Request::parse(text, &Unopened).map(|_| text.to_owned())
}

/// Takes every image for a disk.
struct Unopened;

impl Images for Unopened {
    fn open(&self, _path: &str, mode: WriteMode) -> Result<Disk, String> {
        Ok(Disk::new(Box::new(MemoryStorage::new(Vec::new())), mode))
    }
}

/// Tells the sandbox of every image.
struct Named<'a>(RefCell<&'a mut Sandbox>);

impl Images for Named<'_> {
    fn open(&self, path: &str, mode: WriteMode) -> Result<Disk, String> {
        name_image(&mut self.0.borrow_mut(), Path::new(path), mode);
        Unopened.open(path, mode)
    }
}

fn name_image(sandbox: &mut Sandbox, path: &Path, mode: WriteMode) {
    match mode {
        WriteMode::Through => sandbox.changes(path),
        WriteMode::Overlay | WriteMode::Refused => sandbox.reads(path),
    }
}

/// The images of the host's files.
struct Files;

impl Images for Files {
    fn open(&self, path: &str, mode: WriteMode) -> Result<Disk, String> {
        image_file::open(Path::new(path), mode).map_err(|error| match error.source() {
            Some(source) => format!("{error}: {source}"),
            None => error.to_string(),
        })
    }
}

/// The devices that options name, with the images that they name opened.
pub fn requests(texts: &[String]) -> anyhow::Result<Vec<Request>> {
    let request = |text: &String| {
        let request = Request::parse(text, &Files);
        request.map_err(|why| anyhow!("--device {text}: {why}"))
    };
    texts.iter().map(request).collect()
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct DiskArgument {
    path: PathBuf,
    mode: WriteMode,
}

fn parse_disk(text: &str) -> Result<DiskArgument, String> {
    let (path, mode) = match text.rsplit_once(',') {
        Some((path, "readonly")) => (path, WriteMode::Refused),
        Some((path, "write-through")) => (path, WriteMode::Through),
        _ => (text, WriteMode::Overlay),
    };
    if path.is_empty() { Err("a file name is missing".into()) } else { Ok(disk(path, mode)) }
}

fn disk(path: &str, mode: WriteMode) -> DiskArgument {
    DiskArgument { path: path.into(), mode }
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct ConsoleArgument {
    /// Nothing for port 0.
    name: Option<String>,
    output: PathBuf,
    input: Option<PathBuf>,
}

fn parse_console(text: &str) -> Result<ConsoleArgument, String> {
    let (rest, input) = match text.rsplit_once(",input=") {
        Some((rest, input)) => (rest, Some(PathBuf::from(input))),
        None => (text, None),
    };
    let (name, output) = match rest.split_once('=') {
        Some((name, output)) => (Some(name.to_owned()), output),
        None => (None, rest),
    };
    if output.is_empty() || name.as_ref().is_some_and(String::is_empty) {
        return Err(format!("{text:?} is not FILE or NAME=FILE"));
    }
    Ok(ConsoleArgument { name, output: output.into(), input })
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct NetworkArgument {
    reaction: Reaction,
    stream: Option<Stream>,
}

fn parse_network(text: &str) -> Result<NetworkArgument, String> {
    parse_peer(text).map(|(reaction, stream)| NetworkArgument { reaction, stream })
}

/// What is at the other end of a cable, and the stream that it sends by itself.
pub(super) fn parse_peer(text: &str) -> Result<(Reaction, Option<Stream>), String> {
    let mut words = text.split(',');
    let reaction = match words.next() {
        Some("answer") => Reaction::Answer,
        Some("reflect") => Reaction::Reflect,
        Some("count") => Reaction::Count,
        found => return Err(format!("{found:?} must be answer, reflect or count")),
    };
    let mut stream = Stream { packets_per_second: 0, length: 60, count: None };
    for word in words {
        let number = |value: &str| parse_bytes(value).map_err(|_| format!("{word:?}: no number"));
        match word.split_once('=') {
            Some(("rate", value)) => {
                stream.packets_per_second = number(value)?.try_into().unwrap_or(u32::MAX);
            }
            Some(("length", value)) => {
                stream.length = number(value)?.try_into().unwrap_or(u16::MAX);
            }
            Some(("count", value)) => stream.count = Some(number(value)?),
            _ => return Err(format!("{word:?} must be rate=N, length=N or count=N")),
        }
    }
    let stream = (stream.packets_per_second > 0).then_some(stream);
    Ok((reaction, stream))
}

impl Arguments {
    /// All that is asked for here and in `platform`.
    pub fn functions(&self, platform: &platform::Arguments) -> anyhow::Result<Vec<Request>> {
        let mut functions: Vec<Request> = Vec::new();
        functions.extend(platform.pulse.then_some(device::pulse::Request.into()));
        functions.extend(self.models()?.into_iter().map(Request::from));
        functions.extend(platform.wires(self.nvme.len())?.into_iter().map(Request::from));
        for argument in &self.nvme {
            let disk = image_file::open(&argument.path, argument.mode)?;
            functions.push(Drive(disk).into());
        }
        functions.extend(requests(&self.device)?);
        check_places(&functions).map_err(|why| Usage::of(anyhow!("{why}")))?;
        Ok(functions)
    }

    /// Virtio devices, in the order disks, console, network, folders.
    fn models(&self) -> anyhow::Result<Vec<Model>> {
        let mut models = Vec::new();
        for (number, argument) in self.disk.iter().enumerate() {
            let disk = image_file::open(&argument.path, argument.mode)?;
            models.push(Model::Block(Block { disk, serial: format!("disk{number}") }));
        }
        let names: Vec<String> = self.console.iter().filter_map(|c| c.name.clone()).collect();
        if names.len() >= MAXIMUM_PORTS {
            let (count, most) = (names.len(), MAXIMUM_PORTS - 1);
            return Err(Usage::of(anyhow!("{count} console ports, there can be at most {most}")));
        }
        if let Some(name) =
            (1..names.len()).find_map(|i| names[..i].iter().find(|n| **n == names[i]))
        {
            return Err(Usage::of(anyhow!("console port {name} is given twice")));
        }
        if !self.console.is_empty() {
            models.push(Model::Console(Console::new(&names)));
        }
        for (number, argument) in self.net.iter().enumerate() {
            // Locally administered; the last byte tells devices apart.
            let mac = [0x52, 0x54, 0, 0, 1, number as u8];
            let source = PacketSource::new(mac, argument.reaction, argument.stream);
            models.push(Model::Network(Network::new(mac, source)));
        }
        share::check(&self.share)?;
        for share in &self.share {
            models.push(Model::NineP(share.device()?));
        }
        if models.len() > device::chipset::MAXIMUM_VIRTIO_DEVICES {
            let most = device::chipset::MAXIMUM_VIRTIO_DEVICES;
            let count = models.len();
            return Err(Usage::of(anyhow!("{count} virtio devices, there can be at most {most}")));
        }
        Ok(models)
    }

    /// The files that are read, and images.
    pub fn name_inputs(&self, sandbox: &mut Sandbox) {
        for DiskArgument { path, mode } in self.disk.iter().chain(&self.nvme) {
            name_image(sandbox, path, *mode);
        }
        for input in self.console.iter().filter_map(|argument| argument.input.as_ref()) {
            sandbox.reads(input);
        }
        self.share.iter().for_each(|share| share.name_input(sandbox));
        if self.has_shares() {
            share::raise_limit();
        }
        let named = Named(RefCell::new(sandbox));
        for text in &self.device {
            // What is wrong with it is said when it is made.
            let _ = Request::parse(text, &named);
        }
    }

    /// Whether the guest can mount folders, which no snapshot holds.
    pub fn has_shares(&self) -> bool {
        !self.share.is_empty()
    }

    /// Whether anything is to go between files and the console's ports.
    pub fn has_channels(&self) -> bool {
        !self.console.is_empty()
    }

    /// Opens the files behind the console's ports, of a machine that is yet to be built.
    pub fn open_channels(&self, sandbox: &mut Sandbox) -> anyhow::Result<Channels> {
        let open =
            |argument: &ConsoleArgument| Ok((argument.clone(), sandbox.output(&argument.output)?));
        Ok(Channels(self.console.iter().map(open).collect::<anyhow::Result<_>>()?))
    }

    /// Hands the machine what its programs will read. A restored machine has it already.
    pub fn feed(&self, machine: &mut Machine) -> anyhow::Result<()> {
        for argument in &self.console {
            let Some(input) = &argument.input else { continue };
            let bytes = source::file(input, INPUT_LIMIT as u64, "what a console port takes")?;
            let channel = match &argument.name {
                Some(name) => machine.channel(name),
                None => Some(Channel { console: 0, port: 0 }),
            };
            let taken = channel.map_or(0, |channel| machine.feed_channel(channel, &bytes));
            if taken < bytes.len() {
                let (name, size) = (input.display(), bytes.len());
                bail!("{name}: {size} bytes are too many for a console port, which takes {taken}");
            }
        }
        Ok(())
    }
}

/// Files for the console's ports.
pub struct Channels(Vec<(ConsoleArgument, Output)>);

impl Channels {
    /// The files are there from now on.
    pub fn connect(self, machine: &mut Machine) -> anyhow::Result<ChannelFiles> {
        let mut files = Vec::new();
        for (argument, output) in self.0 {
            let channel = match &argument.name {
                Some(name) => machine.channel(name),
                None => Some(Channel { console: 0, port: 0 }),
            };
            let Some(channel) = channel else { bail!("the machine has no such console port") };
            let file = output.grow(Like::Umask)?;
            files.push(ChannelFile { channel, file, path: argument.output });
        }
        Ok(ChannelFiles(files))
    }
}

struct ChannelFile {
    channel: Channel,
    file: File,
    path: PathBuf,
}

/// Where the console's ports lead.
pub struct ChannelFiles(Vec<ChannelFile>);

impl ChannelFiles {
    /// Writes down what the guest wrote.
    pub fn take(&mut self, machine: &mut Machine) -> anyhow::Result<()> {
        for ChannelFile { channel, file, path } in &mut self.0 {
            let bytes = machine.take_channel(*channel);
            if !bytes.is_empty() {
                file.write_all(&bytes)
                    .with_context(|| format!("cannot write {}", path.display()))?;
            }
        }
        match machine.lost_channel_bytes() {
            0 => Ok(()),
            lost => bail!("{lost} bytes of console ports were lost: they came too fast"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn disks_are_overlays_unless_said_otherwise() {
        for (text, path, mode) in [
            ("a.img", "a.img", WriteMode::Overlay),
            ("a.img,readonly", "a.img", WriteMode::Refused),
            ("a,b.img,write-through", "a,b.img", WriteMode::Through),
            ("a,b.img", "a,b.img", WriteMode::Overlay),
        ] {
            assert_eq!(parse_disk(text), Ok(disk(path, mode)), "{text}");
        }
        assert!(parse_disk(",readonly").is_err() && parse_disk("").is_err());
    }

    #[test]
    fn console_ports_have_a_name_and_files() {
        let argument = |name: Option<&str>, output: &str, input: Option<&str>| ConsoleArgument {
            name: name.map(str::to_owned),
            output: output.into(),
            input: input.map(PathBuf::from),
        };
        for (text, expected) in [
            ("out", argument(None, "out", None)),
            ("results=out", argument(Some("results"), "out", None)),
            ("a=b,input=c", argument(Some("a"), "b", Some("c"))),
        ] {
            assert_eq!(parse_console(text), Ok(expected), "{text}");
        }
        assert!(parse_console("=x").is_err() && parse_console("a=").is_err());
    }

    #[test]
    fn a_cable_ends_in_a_known_kind_of_peer() {
        let stream = Stream { packets_per_second: 1000, length: 60, count: Some(5) };
        for (text, reaction, stream) in [
            ("answer", Reaction::Answer, None),
            ("reflect,length=100", Reaction::Reflect, None),
            ("count,rate=1000,count=5", Reaction::Count, Some(stream)),
        ] {
            assert_eq!(parse_network(text), Ok(NetworkArgument { reaction, stream }), "{text}");
        }
        for text in ["", "nothing", "answer,speed=1", "answer,rate=x"] {
            assert!(parse_network(text).is_err(), "{text}");
        }
    }
}
