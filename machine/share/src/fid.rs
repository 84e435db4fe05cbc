//! Fids: a guest's own numbers for places, and for what it has opened there.

use crate::place::Place;
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use std::collections::BTreeMap;
use std::sync::Arc;

/// A guest has no more at a time; each may be an open file of this process.
pub const MOST_FIDS: usize = 4096;

#[derive(Clone, Debug)]
pub struct Fid {
    pub place: Place,
    /// Copies of a machine share it: nothing depends on where it was read last.
    pub file: Option<Arc<OwnedFd>>,
}

#[derive(Clone, Debug, Default)]
pub struct Fids(BTreeMap<u32, Fid>);

impl Fids {
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn get(&self, number: u32) -> Result<&Fid, Errno> {
        self.0.get(&number).ok_or(Errno::BADF)
    }

    /// The file that was opened by a number.
    pub fn file(&self, number: u32) -> Result<&Arc<OwnedFd>, Errno> {
        self.get(number)?.file.as_ref().ok_or(Errno::BADF)
    }

    /// Gives a number to a place. One that is in use is replaced only by a walk from itself.
    pub fn put(&mut self, number: u32, place: Place, replaces: bool) -> Result<(), Errno> {
        match self.0.contains_key(&number) {
            true if !replaces => return Err(Errno::BADF),
            false if self.0.len() >= MOST_FIDS => return Err(Errno::MFILE),
            _ => {}
        }
        self.0.insert(number, Fid { place, file: None });
        Ok(())
    }

    pub fn open(&mut self, number: u32, place: Place, file: OwnedFd) -> Result<(), Errno> {
        let fid = self.0.get_mut(&number).ok_or(Errno::BADF)?;
        *fid = Fid { place, file: Some(Arc::new(file)) };
        Ok(())
    }

    pub fn remove(&mut self, number: u32) -> Result<Fid, Errno> {
        self.0.remove(&number).ok_or(Errno::BADF)
    }

    /// Fids follow what was renamed.
    pub fn rename(&mut self, from: &Place, to: &Place) {
        for fid in self.0.values_mut() {
            if let Some(place) = fid.place.moved(from, to) {
                fid.place = place;
            }
        }
    }
}
