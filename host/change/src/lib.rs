//! Applies steps of a plan below a root folder, records each before it is made, and restores
//! exactly.
//!
//! A record is one JSON file below `var/lib/avicenna/changes`, written before the first change and
//! again after each, so that a host that loses power half-way can be taken back. Files are replaced
//! by rename, with mode, owner and extended attributes kept. A file that was edited since is not
//! overwritten by a rollback, unless forced.
//!
//! Everything that this program writes to a named file goes through [`Place`] and [`Draft`], which
//! are safe in folders that others write to as well.

#![deny(clippy::print_stdout, clippy::print_stderr)]
#![warn(missing_docs)]

mod attributes;
mod draft;
mod error;
mod file;
mod output;
mod place;
mod record;
mod records;
mod saved;
#[cfg(test)]
mod tests;

pub use draft::{Draft, Like, Told};
pub use error::Error;
pub use output::Output;
pub use place::{Place, Root};
pub use record::{Done, Kept, Record, SCHEMA};
pub use records::FOLDER;
pub use saved::Saved;

use records::Records;
use rules::enable::{Action, Step};
use std::collections::BTreeMap;
use std::path::Path;

/// Runs a program of the host; the text says why it failed.
pub type Runner<'r> = dyn FnMut(&[String]) -> Result<(), String> + 'r;

/// A host's root folder.
pub struct Host {
    root: Root,
}

impl Host {
    /// The host whose root folder this is, links resolved.
    pub fn at(root: &Path) -> Result<Host, Error> {
        Ok(Host { root: Root::open(root)? })
    }

    /// Applies steps and records them. `time` is seconds since 1970, for the record alone. Steps
    /// that are done already are left out; `None` if all of them were.
    pub fn apply(
        &self,
        steps: &[Step],
        time: u64,
        run: &mut Runner,
    ) -> Result<Option<Record>, Error> {
        let records = Records::locked(&self.root)?;
        let mut record = Record::new(records.next_number()?, time);
        let mut has_written = false;
        for step in steps {
            match &step.action {
                Action::Write { path, before, after } => {
                    let seen = file::look(&self.root, path)?;
                    let current = seen.as_ref().map(|(file, _)| file);
                    if current.map(|file| file.text.as_str()) == Some(after) {
                        continue;
                    }
                    if current.map(|file| &file.text) != before.as_ref() {
                        return Err(Error::Changed { path: path.clone() });
                    }
                    record.done.push(Done::Write {
                        path: path.clone(),
                        before: current.cloned(),
                        after: after.clone(),
                    });
                    records.save(&record)?;
                    let told = file::write(&self.root, path, after, seen.map(|seen| seen.1))?;
                    has_written = true;
                    if told != Told::default() {
                        record.told.extend(told.sentences(path));
                        records.save(&record)?;
                    }
                }
                // A program that only spreads what a file says has nothing to spread when no file
                // changed.
                Action::Run { command, undo, keeps } if command != undo || has_written => {
                    let before = self.kept(keeps)?;
                    let done =
                        |kept| Done::Run { command: command.clone(), undo: undo.clone(), kept };
                    record.done.push(done(vec![]));
                    records.save(&record)?;
                    run(command)
                        .map_err(|reason| Error::Command { command: command.join(" "), reason })?;
                    if let Some(last) = record.done.last_mut() {
                        *last = done(self.rewritten(before, keeps)?);
                    }
                    self.take_over_rewritten(&mut record)?;
                    records.save(&record)?;
                }
                Action::Run { .. } | Action::Tell { .. } => {}
            }
        }
        Ok((!record.done.is_empty()).then_some(record))
    }

    /// The records that were not rolled back, oldest first.
    pub fn records(&self) -> Result<Vec<Record>, Error> {
        Records::open(&self.root)?.map_or(Ok(vec![]), |records| records.open_ones())
    }

    /// Takes back a record, the newest if none is named: last change first. Nothing is touched if a
    /// file was edited since, unless `force`.
    pub fn rollback(
        &self,
        number: Option<u64>,
        force: bool,
        run: &mut Runner,
    ) -> Result<Record, Error> {
        if self.records()?.is_empty() {
            return Err(number.map_or(Error::Nothing, Error::Unknown));
        }
        let records = Records::locked(&self.root)?;
        let open = records.open_ones()?;
        let mut record = match number {
            Some(number) => open
                .into_iter()
                .find(|record| record.number == number)
                .ok_or(Error::Unknown(number))?,
            None => open.into_iter().next_back().ok_or(Error::Nothing)?,
        };
        if !force {
            self.refuse_if_edited(&record)?;
        }
        // Files first: a program such as update-grub then spreads what they say.
        for done in record.done.iter().rev() {
            if let Done::Write { path, before, .. } = done {
                file::restore(&self.root, path, before.as_ref())?;
            }
        }
        for done in record.done.iter().rev() {
            if let Done::Run { undo, kept, .. } = done
                && !self.restore_kept(kept)?
            {
                run(undo).map_err(|reason| Error::Opposite { command: undo.join(" "), reason })?;
            }
        }
        self.restore_rewritten(&record)?;
        record.is_rolled_back = true;
        records.save(&record)?;
        Ok(record)
    }

    /// The files that a program writes, as they are now. One that is not text is not kept.
    fn kept(&self, patterns: &[String]) -> Result<BTreeMap<String, Option<Saved>>, Error> {
        let mut kept = BTreeMap::new();
        for pattern in patterns {
            for path in self.matching(pattern)? {
                if let Ok(saved) = file::read(&self.root, &path) {
                    kept.insert(path, saved);
                }
            }
        }
        Ok(kept)
    }

    /// Paths that fit a pattern with one star in its last part; a path without a star fits itself,
    /// there or not.
    fn matching(&self, pattern: &str) -> Result<Vec<String>, Error> {
        let Some((folder, name)) = pattern.rsplit_once('/').filter(|_| pattern.contains('*'))
        else {
            return Ok(vec![pattern.to_owned()]);
        };
        let (start, end) = name.split_once('*').unwrap_or((name, ""));
        let names = self.root.names(folder)?;
        Ok(names
            .into_iter()
            .filter(|name| name.starts_with(start) && name.ends_with(end))
            .take(1000)
            .map(|name| format!("{folder}/{name}"))
            .collect())
    }

    /// What a program has made of the files that it writes.
    fn rewritten(
        &self,
        mut before: BTreeMap<String, Option<Saved>>,
        patterns: &[String],
    ) -> Result<Vec<Kept>, Error> {
        let after = self.kept(patterns)?;
        for path in after.keys() {
            before.entry(path.clone()).or_insert(None);
        }
        let changed = |(path, before): (String, Option<Saved>)| {
            let after = after.get(&path).cloned().flatten();
            (before != after).then_some(Kept { path, before, after })
        };
        Ok(before.into_iter().filter_map(changed).collect())
    }

    /// Puts back what a program has written; false, and nothing done, if another process has
    /// written there since.
    fn restore_kept(&self, kept: &[Kept]) -> Result<bool, Error> {
        for one in kept {
            if file::read(&self.root, &one.path)? != one.after {
                return Ok(false);
            }
        }
        for one in kept {
            file::restore(&self.root, &one.path, one.before.as_ref())?;
        }
        Ok(!kept.is_empty())
    }

    /// A program may write the file that it was given in a form of its own (libvirt does, when a
    /// domain is defined): that is then what was made of it, and no later edit.
    fn take_over_rewritten(&self, record: &mut Record) -> Result<(), Error> {
        for done in &mut record.done {
            if let Done::Write { path, after, .. } = done
                && let Some(current) = file::read(&self.root, path)?
            {
                *after = current.text;
            }
        }
        Ok(())
    }

    /// The same on the way back, where the file has to be what it was, to the byte.
    fn restore_rewritten(&self, record: &Record) -> Result<(), Error> {
        for done in record.done.iter().rev() {
            if let Done::Write { path, before, .. } = done
                && file::read(&self.root, path)? != *before
            {
                file::restore(&self.root, path, before.as_ref())?;
            }
        }
        Ok(())
    }

    fn refuse_if_edited(&self, record: &Record) -> Result<(), Error> {
        for done in &record.done {
            let Done::Write { path, before, after } = done else { continue };
            let current = file::read(&self.root, path)?.map(|file| file.text);
            let is_ours = current.as_ref() == Some(after);
            // A change that was recorded and not made, since power went: what was before is there
            // still.
            let is_untouched = current.as_ref() == before.as_ref().map(|file| &file.text);
            if !is_ours && !is_untouched {
                return Err(Error::Edited { path: path.clone(), record: record.number });
            }
        }
        Ok(())
    }
}
