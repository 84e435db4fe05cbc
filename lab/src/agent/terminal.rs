//! A pseudo-terminal for a command of the emulated host.

use crate::linux::mounts;
use anyhow::Context;
use rustix::fs::{Mode, OFlags};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};
use std::fs::File;
use std::io::Write;
use std::os::unix::process::CommandExt;
use std::process::Command;

/// What this program is called by where it only gives its terminal to another.
const NAME: &str = "avicenna-terminal";
/// What ends input that is typed.
pub(super) const END_OF_FILE: [u8; 1] = [4];
/// Of a shell's for a program that is not there.
const NOT_FOUND: i32 = 127;

/// Both ends.
pub(super) struct Terminal {
    /// What is typed goes in, and what is to be seen comes out.
    pub(super) controller: File,
    /// What the program has as its input and outputs.
    pub(super) program: File,
}

impl Terminal {
    /// Opens one of so many rows and columns.
    pub(super) fn open((rows, columns): (u16, u16)) -> anyhow::Result<Self> {
        mounts::terminals();
        let what = "cannot open a pseudo-terminal";
        let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
        let controller = openpt(flags).context(what)?;
        grantpt(&controller).and_then(|()| unlockpt(&controller)).context(what)?;
        let name = ptsname(&controller, Vec::new()).context(what)?;
        let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
        let program = rustix::fs::open(name, flags, Mode::empty()).context(what)?;
        let size = Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
        tcsetwinsize(&program, size).context(what)?;
        Ok(Self { controller: File::from(controller), program: File::from(program) })
    }
}

/// Has this program take its terminal as the one that controls it, and become `program` then: only
/// a process of its own can, between its beginning and the program's.
pub(super) fn command(program: &str) -> Command {
    let mut command = Command::new("/proc/self/exe");
    command.arg0(NAME).arg(program);
    command
}

/// Becomes the program that it was called for, if it was called for that.
pub(super) fn hand_over() {
    let mut words = std::env::args_os();
    if words.next().is_none_or(|name| name != NAME) {
        return;
    }
    let Some(program) = words.next() else { return };
    // A leader of a session has no terminal, and can be given one.
    let taken =
        rustix::process::setsid().and_then(|_| rustix::process::ioctl_tiocsctty(std::io::stdin()));
    let why = match taken {
        Ok(()) => Command::new(&program).args(words).exec(),
        Err(error) => error.into(),
    };
    let _ = writeln!(std::io::stderr(), "avicenna: {}: {why}", program.display());
    std::process::exit(NOT_FOUND);
}
