//! Commands on the emulated host, with files that come and go after its boot.

use super::{BOOT_LIMIT, Session};
use crate::host::initramfs::Initramfs;
use crate::protocol::{Command, FromAgent, ToAgent};
use crate::watch::{Halt, Watch};
use anyhow::bail;
use arch::time::Picoseconds;
use std::time::{Duration, Instant};

/// Virtual time that a command has to end once it was told to.
const STOP_LIMIT: Picoseconds = Picoseconds::from_milliseconds(10_000);
/// A pause of a host that waits for what a user types.
const LONGEST_PAUSE: Duration = Duration::from_millis(20);

/// What a user typed meanwhile.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Typed {
    /// Nothing so far.
    Nothing,
    /// This.
    Bytes(Vec<u8>),
    /// Nothing more will come.
    End,
}

/// Where a command's standard input is from.
pub type Keyboard<'a> = &'a mut dyn FnMut() -> Typed;

impl Session {
    /// Runs a command on the emulated host for at most `limit`; its exit status as shells count it.
    /// The watch is told what it writes as it does. [`Session::counters`] then has the exits that
    /// the machine performed meanwhile.
    pub fn run(
        &mut self,
        command: &Command,
        limit: Picoseconds,
        watch: &mut Watch<'_>,
    ) -> anyhow::Result<i32> {
        self.run_with(command, limit, &mut || Typed::End, watch)
    }

    /// The same with a standard input. As long as more can come, virtual time does not run ahead of
    /// who types.
    pub fn run_with(
        &mut self,
        command: &Command,
        limit: Picoseconds,
        keyboard: Keyboard<'_>,
        watch: &mut Watch<'_>,
    ) -> anyhow::Result<i32> {
        self.begin_counting();
        self.arm();
        self.send(&ToAgent::Run(command.clone()))?;
        let (began, started) = (self.virtual_time(), Instant::now());
        let limit = self.after(limit);
        let mut is_open = command.takes_input;
        loop {
            while is_open {
                match keyboard() {
                    Typed::Nothing => break,
                    Typed::Bytes(bytes) => self.type_bytes(&bytes)?,
                    Typed::End => {
                        self.send(&ToAgent::Input(0))?;
                        is_open = false;
                    }
                }
            }
            match self.step(limit, watch)? {
                None if is_open => {
                    let ahead = Duration::from_nanos((self.virtual_time().0 - began.0) / 1000);
                    let ahead = ahead.saturating_sub(started.elapsed());
                    std::thread::sleep(ahead.min(LONGEST_PAUSE));
                }
                None => {}
                Some(FromAgent::Wrote(stream, text)) => watch.wrote(stream, &text),
                Some(FromAgent::Left(status)) => {
                    self.drive.drain();
                    return Ok(status);
                }
                Some(FromAgent::Failed(why)) => bail!("{why}"),
                Some(other) => bail!("the agent said {other:?}"),
            }
        }
    }

    fn type_bytes(&mut self, bytes: &[u8]) -> anyhow::Result<()> {
        if bytes.is_empty() {
            return Ok(());
        }
        self.send(&ToAgent::Input(bytes.len() as u64))?;
        self.feed(bytes)
    }

    /// Ends the command that a limit stopped; whether the host can go on.
    pub fn stop(&mut self, watch: &mut Watch<'_>) -> anyhow::Result<bool> {
        self.remember_places();
        self.send(&ToAgent::Stop)?;
        let limit = self.after(STOP_LIMIT);
        loop {
            match self.step(limit, watch) {
                Ok(Some(FromAgent::Left(_))) => return Ok(true),
                Ok(Some(FromAgent::Wrote(stream, text))) => watch.wrote(stream, &text),
                Ok(_) => {}
                Err(error) if matches!(error.downcast_ref(), Some(Halt::Interrupted)) => {
                    return Err(error);
                }
                Err(_) => return Ok(false),
            }
        }
    }

    /// Puts files there. What a booted host is kept by does not include them.
    pub fn put(&mut self, files: &Initramfs, watch: &mut Watch<'_>) -> anyhow::Result<()> {
        for (path, bytes) in files.files() {
            let path = format!("/{}", path.display());
            self.send(&ToAgent::Put(path, bytes.len() as u64))?;
            self.feed_all(bytes, watch)?;
            self.expect_standby(watch)?;
        }
        for (path, target) in files.links() {
            let (path, target) = (format!("/{}", path.display()), target.display().to_string());
            self.send(&ToAgent::Link(path, target))?;
            self.expect_standby(watch)?;
        }
        Ok(())
    }

    /// What a file there contains.
    pub fn get(&mut self, path: &str, watch: &mut Watch<'_>) -> anyhow::Result<Vec<u8>> {
        self.send(&ToAgent::Get(path.to_owned()))?;
        match self.receive(self.after(BOOT_LIMIT), watch)? {
            FromAgent::File(_) => Ok(self.inbox.file()),
            FromAgent::Failed(why) => bail!("{why}"),
            other => bail!("the agent said {other:?}"),
        }
    }

    /// Lines of the kernel's log since this was asked last.
    pub fn log(&mut self, watch: &mut Watch<'_>) -> anyhow::Result<Vec<String>> {
        self.send(&ToAgent::Log)?;
        match self.receive(self.after(BOOT_LIMIT), watch)? {
            FromAgent::Log(lines) => Ok(lines),
            FromAgent::Failed(why) => bail!("{why}"),
            other => bail!("the agent said {other:?}"),
        }
    }

    /// Has vfio-pci drive a function of the host.
    pub fn give(&mut self, address: &str, watch: &mut Watch<'_>) -> anyhow::Result<()> {
        self.send(&ToAgent::Give(address.to_owned()))?;
        self.expect_standby(watch)
    }

    /// Has the host mount the shared folder with this tag.
    pub fn mount(&mut self, tag: &str, place: &str, watch: &mut Watch<'_>) -> anyhow::Result<()> {
        self.send(&ToAgent::Mount(tag.to_owned(), place.to_owned()))?;
        self.expect_standby(watch)
    }

    pub(super) fn expect_standby(&mut self, watch: &mut Watch<'_>) -> anyhow::Result<()> {
        match self.receive(self.after(BOOT_LIMIT), watch)? {
            FromAgent::Standby => Ok(()),
            FromAgent::Failed(why) => bail!("{why}"),
            other => bail!("the agent said {other:?}"),
        }
    }
}
