//! Standard input for a command on the emulated host.

use super::stages::INTERRUPT;
use crate::verb::machine::console::{Console, Request};
use board::Recall;
use lab::drive::session::Typed;
use std::io::Read;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, TryRecvError, sync_channel};

/// Rows and columns where standard output has none.
const USUAL_TERMINAL: (u16, u16) = (24, 80);
/// Pieces that wait for the machine, and bytes of one.
const WAITING_PIECES: usize = 64;
const PIECE: usize = 4096;

/// A reader of standard input.
pub(super) struct Keyboard(Receiver<Vec<u8>>);

impl Keyboard {
    pub(super) fn open() -> std::io::Result<Self> {
        let (sender, pieces) = sync_channel(WAITING_PIECES);
        std::thread::Builder::new().spawn(move || {
            let mut piece = [0; PIECE];
            while let Ok(length @ 1..) = std::io::stdin().read(&mut piece) {
                if sender.send(piece[..length].to_vec()).is_err() {
                    break;
                }
            }
        })?;
        Ok(Self(pieces))
    }

    /// What was typed since this was asked last.
    pub(super) fn take(&mut self) -> Typed {
        match self.0.try_recv() {
            Ok(bytes) => Typed::Bytes(bytes),
            Err(TryRecvError::Empty) => Typed::Nothing,
            Err(TryRecvError::Disconnected) => Typed::End,
        }
    }
}

/// The keys of a terminal that is the command's.
pub(super) struct Keys(Console);

impl Keys {
    pub(super) fn open() -> Self {
        Self(Console::open(Recall::default()))
    }

    /// What was typed since this was asked last. Who leaves ends the run.
    pub(super) fn take(&mut self) -> Typed {
        if self.0.poll() == Some(Request::Leave) {
            INTERRUPT.store(true, Ordering::Relaxed);
        }
        let bytes = std::mem::take(self.0.pending());
        match bytes.is_empty() {
            false => Typed::Bytes(bytes),
            true if self.0.has_ended() => Typed::End,
            true => Typed::Nothing,
        }
    }
}

/// Rows and columns of the terminal that standard output is.
pub(super) fn size_of_terminal() -> (u16, u16) {
    match rustix::termios::tcgetwinsize(std::io::stdout()) {
        Ok(size) if size.ws_row > 0 && size.ws_col > 0 => (size.ws_row, size.ws_col),
        _ => USUAL_TERMINAL,
    }
}
