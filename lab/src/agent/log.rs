//! The kernel's log.

use rustix::fd::OwnedFd;
use rustix::fs::{Mode, OFlags};

/// The longest record that the kernel gives.
const RECORD: usize = 8192;

/// A reader that knows where it was. Without the device there are no lines.
pub(super) struct Log(Option<OwnedFd>);

impl Log {
    pub(super) fn open() -> Self {
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
        Self(rustix::fs::open("/dev/kmsg", flags, Mode::empty()).ok())
    }

    /// The lines since it was asked last, without waiting for more.
    pub(super) fn take(&mut self) -> Vec<String> {
        let Some(file) = &self.0 else { return Vec::new() };
        let (mut lines, mut record) = (Vec::new(), [0; RECORD]);
        loop {
            // Each read is one record: "priority,number,microseconds,flags;text\n".
            match rustix::io::read(file, &mut record) {
                Ok(0) => break,
                Ok(length) => lines.extend(line(&record[..length])),
                // What was overwritten before it was read is gone; the rest is there.
                Err(rustix::io::Errno::PIPE) => {}
                Err(_) => break,
            }
        }
        lines
    }
}

/// All that the kernel still has.
pub(super) fn all() -> Vec<String> {
    Log::open().take()
}

fn line(record: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(record);
    let (_, message) = text.split_once(';')?;
    Some(message.lines().next().unwrap_or_default().to_owned())
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_record_is_its_first_line_without_what_stands_before_it() {
        for (record, expected) in [
            (&b"4,12,345,-;text; more\n SUBSYSTEM=x\n"[..], Some("text; more")),
            (b"6,1,2,-;\n", Some("")),
            (b"no record\n", None),
        ] {
            assert_eq!(super::line(record).as_deref(), expected);
        }
    }
}
