//! Standard input for a command on the emulated host.

use lab::drive::session::Typed;
use std::io::Read;
use std::sync::mpsc::{Receiver, TryRecvError, sync_channel};

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
