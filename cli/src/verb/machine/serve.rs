//! `avicenna machine serve`: a machine for a fuzzer or a test program, over a socket file or over
//! standard input and output. docs/serve.md is the protocol; `service` answers.

mod peer;

use super::build::{self, Built};
use super::monitor::form::Inspected;
use super::socket::SocketFile;
use crate::sandbox::{self, Sandbox};
use crate::status::{Status, Usage};
use anyhow::{Context, anyhow, bail};
use board::Machine;
use board::inspection::Sheet;
use board::snapshot::ConfigurationDigest;
use change::{Like, Output};
use peer::Peer;
use service::{Description, End, Host, Service};
use std::io::{BufWriter, ErrorKind, IsTerminal};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Between two looks whether a client has come.
const PAUSE: Duration = Duration::from_millis(5);

static INTERRUPT: AtomicBool = AtomicBool::new(false);

#[derive(clap::Args)]
pub struct Arguments {
    #[command(flatten)]
    build: build::Arguments,
    /// Serve at a socket file for this user alone, one client after the other, until one says quit
    #[arg(long, value_name = "FILE", required_unless_present = "stdio")]
    socket: Option<PathBuf>,
    /// Serve one client over standard input and output
    #[arg(long, conflicts_with = "socket")]
    stdio: bool,
    /// The folder that clients may save snapshots in; without it they cannot
    #[arg(long, value_name = "FOLDER")]
    snapshots: Option<PathBuf>,
    #[command(flatten)]
    sandbox: sandbox::Arguments,
}

pub fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let mut sandbox = Sandbox::default();
    if arguments.build.devices.has_channels() {
        return Err(Usage::of(anyhow!(
            "--console: what a service's guest writes there goes nowhere"
        )));
    }
    if arguments.build.devices.has_shares() {
        return Err(Usage::of(anyhow!(
            "--share: a service goes back to marks, which no folder of this computer does"
        )));
    }
    if arguments.stdio && (std::io::stdin().is_terminal() || std::io::stdout().is_terminal()) {
        return Err(Usage::of(anyhow!("--stdio is for programs: neither end can be a terminal")));
    }
    let socket = arguments.socket.as_deref();
    let socket = socket.map(|path| SocketFile::open(path, &mut sandbox)).transpose()?;
    if let Some(folder) = &arguments.snapshots {
        anyhow::ensure!(folder.is_dir(), "{}: no such folder", folder.display());
        sandbox.keeps(folder);
        sandbox.puts(&folder.join("snapshot"));
    }
    arguments.build.name_inputs(&mut sandbox);
    sandbox.raise(&arguments.sandbox);
    let Built { mut machine, configuration } = arguments.build.build()?;
    let digest = configuration.digest();
    let description = Description {
        program: format!("avicenna {}", env!("CARGO_PKG_VERSION")),
        model: configuration.model.name().into(),
        configuration: digest.to_string(),
    };
    let recall = machine.recall.clone();
    if socket.is_some() {
        let _ = ctrlc::set_handler(move || {
            INTERRUPT.store(true, Ordering::Relaxed);
            recall.ring();
        });
    }
    let mut service = Service::new(&mut machine, description);
    let folder = arguments.snapshots.clone();
    let end = match socket {
        Some(socket) => at_socket(&mut service, &socket, digest, folder)?,
        None => {
            let mut files = Files { peer: Peer::standard(), digest, folder };
            let (mut input, mut output) = (Peer::standard(), Peer::standard());
            match service::serve(&mut service, &mut files, &mut input, &mut output) {
                Ok(end) => end,
                // A client that leaves without a word has left.
                Err(error) if error.kind() == ErrorKind::BrokenPipe => End::Closed,
                Err(error) => return Err(error).context("the client cannot be reached"),
            }
        }
    };
    let is_interrupted = end == End::Closed && INTERRUPT.load(Ordering::Relaxed);
    Ok(if is_interrupted { Status::Interrupted } else { Status::Clean }.into())
}

/// One client after the other.
fn at_socket(
    service: &mut Service<'_>,
    socket: &SocketFile,
    digest: ConfigurationDigest,
    folder: Option<PathBuf>,
) -> anyhow::Result<End> {
    while !INTERRUPT.load(Ordering::Relaxed) {
        let stream = match socket.accept() {
            Ok(stream) => stream,
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                std::thread::sleep(PAUSE);
                continue;
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Err(error) => return Err(error).context("no client could come"),
        };
        let peer = || Peer::socket(&stream, &INTERRUPT).context("the client cannot be reached");
        let mut files = Files { peer: peer()?, digest, folder: folder.clone() };
        // What breaks with a client is its own; the next finds the machine as it was left.
        if let Ok(End::Quit) = service::serve(service, &mut files, &mut peer()?, &mut peer()?) {
            return Ok(End::Quit);
        }
    }
    Ok(End::Closed)
}

/// What the service asks of this program.
struct Files {
    peer: Peer,
    digest: ConfigurationDigest,
    folder: Option<PathBuf>,
}

impl Host for Files {
    fn is_over(&mut self) -> bool {
        self.peer.is_gone()
    }

    fn save(&mut self, machine: &Machine, file: &str) -> Result<String, String> {
        self.write(machine, file).map_err(|error| format!("{error:#}"))
    }

    fn show(&self, sheets: &[Sheet]) -> serde_json::Value {
        serde_json::json!(Inspected::of(sheets))
    }
}

impl Files {
    fn write(&self, machine: &Machine, file: &str) -> anyhow::Result<String> {
        let Some(folder) = &self.folder else {
            bail!("this service saves nothing: --snapshots FOLDER was not given")
        };
        let path = folder.join(file);
        let name = path.display().to_string();
        let mut output = BufWriter::new(Output::to(&path)?);
        machine.save(&name, &mut output, self.digest)?;
        let output = output.into_inner().map_err(|error| error.into_error());
        output.with_context(|| format!("cannot write {name}"))?.finish(Like::Umask)?;
        Ok(name)
    }
}
