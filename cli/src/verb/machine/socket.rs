//! Socket files for this user alone, and what comes over them without anybody waiting.

use crate::sandbox::Sandbox;
use anyhow::Context;
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

/// Others than its owner can neither read nor write a socket file.
const OWN: u32 = 0o177;
/// Bytes that are taken at one look.
const AT_ONCE: usize = 64 << 10;
/// A peer that leaves more than this unread is left.
const MOST_UNREAD: usize = 8 << 20;

/// A file at which connections come in; it goes with this value.
pub struct SocketFile {
    listener: UnixListener,
    path: PathBuf,
}

impl SocketFile {
    /// A file that a run before has left, at which nobody listens, is replaced.
    pub fn open(path: &Path, sandbox: &mut Sandbox) -> anyhow::Result<Self> {
        let cannot = || format!("cannot listen at {}", path.display());
        let is_left = UnixStream::connect(path)
            .is_err_and(|error| error.kind() == ErrorKind::ConnectionRefused);
        if is_left {
            std::fs::remove_file(path).with_context(cannot)?;
        }
        // The mode that a socket file is made with.
        let before = rustix::process::umask(rustix::fs::Mode::from_raw_mode(OWN));
        let listener = UnixListener::bind(path);
        rustix::process::umask(before);
        let listener = listener.with_context(cannot)?;
        listener.set_nonblocking(true)?;
        sandbox.removes(path);
        Ok(Self { listener, path: path.to_owned() })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The next that comes; [`ErrorKind::WouldBlock`] if nobody does.
    pub fn accept(&self) -> io::Result<UnixStream> {
        Ok(self.listener.accept()?.0)
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

/// A connection that is looked at from time to time.
pub struct Connection {
    stream: UnixStream,
    unsent: Vec<u8>,
    /// Nothing more comes.
    pub is_ended: bool,
    /// Nothing arrives there any more.
    pub is_lost: bool,
}

impl Connection {
    /// With the next that has come, if one has.
    pub fn of_next(file: &SocketFile) -> Option<Self> {
        let stream = file.accept().ok()?;
        stream.set_nonblocking(true).ok()?;
        Some(Self { stream, unsent: Vec::new(), is_ended: false, is_lost: false })
    }

    /// What has come since the last look.
    pub fn receive(&mut self) -> Vec<u8> {
        let mut bytes = Vec::new();
        while bytes.len() < AT_ONCE && !self.is_ended {
            let mut chunk = [0; 4096];
            match self.stream.read(&mut chunk) {
                Ok(0) => self.is_ended = true,
                Ok(length) => bytes.extend(&chunk[..length]),
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => (self.is_ended, self.is_lost) = (true, true),
            }
        }
        bytes
    }

    pub fn send(&mut self, bytes: &[u8]) {
        self.unsent.extend(bytes);
        self.flush();
        self.is_lost |= self.unsent.len() > MOST_UNREAD;
    }

    /// Hands on what the peer takes.
    pub fn flush(&mut self) {
        while !self.unsent.is_empty() && !self.is_lost {
            match self.stream.write(&self.unsent) {
                Ok(length @ 1..) => drop(self.unsent.drain(..length)),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Ok(0) | Err(_) => self.is_lost = true,
            }
        }
    }

    /// Whether there is nothing to be done with it any more.
    pub fn is_over(&self) -> bool {
        self.is_lost || self.is_ended && self.unsent.is_empty()
    }
}
