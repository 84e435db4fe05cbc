//! The two streams to a client, and whether it is still there.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Between two looks whether the user wants an end while a client says nothing.
const PAUSE: Duration = Duration::from_millis(200);

/// One client.
pub enum Peer {
    /// Standard input and output.
    Standard,
    /// A connection, and who interrupts it.
    Socket(UnixStream, &'static AtomicBool),
}

impl Peer {
    pub fn standard() -> Self {
        Self::Standard
    }

    pub fn socket(stream: &UnixStream, interrupt: &'static AtomicBool) -> io::Result<Self> {
        stream.set_nonblocking(false)?;
        stream.set_read_timeout(Some(PAUSE))?;
        stream.set_write_timeout(Some(PAUSE))?;
        Ok(Self::Socket(stream.try_clone()?, interrupt))
    }

    /// Whether nobody reads answers any more.
    pub fn is_gone(&self) -> bool {
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        let is_at = |mut peer: PollFd<'_>| {
            let gone = PollFlags::HUP | PollFlags::ERR;
            poll(std::slice::from_mut(&mut peer), Some(&now)).is_ok_and(|found| found > 0)
                && peer.revents().intersects(gone)
        };
        match self {
            Self::Standard => is_at(PollFd::new(&io::stdout(), PollFlags::empty())),
            Self::Socket(stream, interrupt) => {
                interrupt.load(Ordering::Relaxed) || is_at(PollFd::new(stream, PollFlags::empty()))
            }
        }
    }
}

/// Whether a call is to be made again.
fn is_late(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted)
}

impl Read for Peer {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Standard => io::stdin().read(into),
            Self::Socket(stream, interrupt) => loop {
                match stream.read(into) {
                    Err(error) if is_late(&error) => {}
                    outcome => return outcome,
                }
                if interrupt.load(Ordering::Relaxed) {
                    return Ok(0);
                }
            },
        }
    }
}

impl Write for Peer {
    fn write(&mut self, from: &[u8]) -> io::Result<usize> {
        match self {
            Self::Standard => io::stdout().write(from),
            Self::Socket(stream, interrupt) => loop {
                match stream.write(from) {
                    Err(error) if is_late(&error) => {}
                    outcome => return outcome,
                }
                if interrupt.load(Ordering::Relaxed) {
                    return Err(ErrorKind::BrokenPipe.into());
                }
            },
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Standard => io::stdout().flush(),
            Self::Socket(stream, _) => stream.flush(),
        }
    }
}
