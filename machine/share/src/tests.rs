//! A guest that says what it likes, and what of it reaches the folder.

use super::*;
use crate::message::{Writer, kind};
use proptest::prelude::*;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::sync::atomic::{AtomicBool, Ordering};
use tempfile::TempDir;

const ROOT: u32 = 0;
const NONE: u32 = u32::MAX;

/// A folder beside one that is nobody's business.
struct Rig {
    host: TempDir,
    share: Share,
}

impl Rig {
    fn new(access: Access) -> Self {
        let host = tempfile::tempdir().expect("a writable folder");
        let at = |name: &str| host.path().join(name);
        for folder in ["outside", "shared", "shared/folder"] {
            fs::create_dir(at(folder)).expect("a writable folder");
        }
        for (file, text) in
            [("outside/secret", "secret"), ("shared/file", "hello"), ("shared/folder/inner", "in")]
        {
            fs::write(at(file), text).expect("a writable folder");
        }
        symlink(at("outside"), at("shared/absolute")).expect("a link");
        symlink("../outside", at("shared/relative")).expect("a link");
        symlink("folder", at("shared/harmless")).expect("a link");
        let mut share = Share::open(&at("shared"), access).expect("a folder");
        let answer = ask(&mut share, kind::ATTACH, |body| {
            body.put_u32(ROOT);
            body.put_u32(NONE);
            body.put_text(b"root");
            body.put_text(b"");
        });
        assert_eq!(answer.expect("the root")[0], 0x80, "a folder");
        Self { host, share }
    }

    fn ask(&mut self, kind: u8, fill: impl FnOnce(&mut Vec<u8>)) -> Result<Vec<u8>, Errno> {
        ask(&mut self.share, kind, fill)
    }

    /// Walks from the root to a new fid, and says how many names led somewhere.
    fn walk(&mut self, to: u32, names: &[&str]) -> Result<u16, Errno> {
        let answer = self.ask(kind::WALK, |body| {
            body.put_u32(ROOT);
            body.put_u32(to);
            body.extend((names.len() as u16).to_le_bytes());
            names.iter().for_each(|name| body.put_text(name.as_bytes()));
        })?;
        Ok(u16::from_le_bytes([answer[0], answer[1]]))
    }

    fn open(&mut self, number: u32, flags: u32) -> Result<Vec<u8>, Errno> {
        self.ask(kind::LOPEN, |body| {
            body.put_u32(number);
            body.put_u32(flags);
        })
    }

    fn read(&mut self, number: u32, count: u32) -> Result<Vec<u8>, Errno> {
        let answer = self.ask(kind::READ, |body| {
            body.put_u32(number);
            body.put_u64(0);
            body.put_u32(count);
        })?;
        Ok(answer[4..].to_vec())
    }

    fn clunk(&mut self, number: u32) {
        self.ask(kind::CLUNK, |body| body.put_u32(number)).expect("it was there");
    }

    /// The names of a folder that is open, read a few at a time.
    fn names(&mut self, number: u32) -> Vec<String> {
        let (mut names, mut offset) = (Vec::new(), 0u64);
        loop {
            let answer = self.ask(kind::READDIR, |body| {
                body.put_u32(number);
                body.put_u64(offset);
                body.put_u32(80);
            });
            let answer = answer.expect("an open folder");
            let mut entries = Reader(&answer[4..]);
            if entries.0.is_empty() {
                names.sort();
                return names;
            }
            while !entries.0.is_empty() {
                entries.bytes(13).expect("a qid");
                offset = entries.u64().expect("an offset");
                entries.u8().expect("a type");
                let name = entries.text().expect("a name");
                names.push(String::from_utf8_lossy(name).into_owned());
            }
        }
    }
}

/// Asks for something; the answer without its header.
fn ask(share: &mut Share, kind: u8, fill: impl FnOnce(&mut Vec<u8>)) -> Result<Vec<u8>, Errno> {
    let mut message = vec![0; HEADER_SIZE];
    fill(&mut message);
    message::Header { length: message.len(), kind, tag: 7 }.put(&mut message);
    let answer = share.answer(&message, LONGEST_MESSAGE);
    let header = message::Header::of(&answer).expect("an answer");
    assert_eq!((header.length, header.tag), (answer.len(), 7));
    let body = answer[HEADER_SIZE..].to_vec();
    if header.kind == kind + 1 {
        return Ok(body);
    }
    assert_eq!(header.kind, kind::ERROR + 1);
    let code = u32::from_le_bytes(body.try_into().expect("a number"));
    Err(Errno::from_raw_os_error(code as i32))
}

#[test]
fn a_session_begins_with_its_version_and_forgets_what_was_open() {
    let mut rig = Rig::new(Access::ReadOnly);
    for (size, version, expected) in [
        (8192, "9P2000.L", Ok((8192, "9P2000.L"))),
        (u32::MAX, "9P2000.L", Ok((LONGEST_MESSAGE as u32, "9P2000.L"))),
        (8192, "9P2000", Ok((8192, "unknown"))),
        (100, "9P2000.L", Err(Errno::INVAL)),
    ] {
        let answer = rig.ask(kind::VERSION, |body| {
            body.put_u32(size);
            body.put_text(version.as_bytes());
        });
        let expected = expected.map(|(size, version)| {
            let mut body = Vec::new();
            body.put_u32(size);
            body.put_text(version.as_bytes());
            body
        });
        assert_eq!(answer, expected, "{size} {version}");
    }
    assert_eq!(rig.walk(1, &[]), Err(Errno::BADF));
}

#[test]
fn files_are_read_and_folders_listed() {
    let mut rig = Rig::new(Access::ReadOnly);
    assert_eq!(rig.walk(1, &["file"]), Ok(1));
    rig.open(1, 0).expect("a file");
    assert_eq!(rig.read(1, 100), Ok(b"hello".to_vec()));
    assert_eq!(rig.read(1, 2), Ok(b"he".to_vec()));
    assert_eq!(rig.walk(2, &[]), Ok(0));
    rig.open(2, 0).expect("a folder");
    let names = [".", "..", "absolute", "file", "folder", "harmless", "relative"];
    assert_eq!(rig.names(2), names);
    assert_eq!(rig.names(2), names, "and from the beginning");
    assert_eq!(rig.read(2, 10), Err(Errno::ISDIR));
    assert_eq!(rig.walk(3, &["folder", "none"]), Ok(1), "as far as names lead");
    assert_eq!(rig.read(3, 10), Err(Errno::BADF));
    assert_eq!(rig.walk(3, &["none"]), Err(Errno::NOENT));
    // A copy of the machine has the same open, and closes it for itself.
    let mut copy = rig.share.clone();
    rig.clunk(1);
    let read = ask(&mut copy, kind::READ, |body| {
        body.put_u32(1);
        body.put_u64(1);
        body.put_u32(2);
    });
    assert_eq!(read, Ok(b"\x02\0\0\0el".to_vec()));
}

#[test]
fn attributes_are_the_host_s_but_for_what_reading_moves() {
    let mut rig = Rig::new(Access::ReadOnly);
    rig.walk(1, &["file"]).expect("a file");
    let file = fs::metadata(rig.host.path().join("shared/file")).expect("a file");
    let answer = rig.ask(kind::GETATTR, |body| {
        body.put_u32(1);
        body.put_u64(u64::MAX);
    });
    let answer = answer.expect("attributes");
    let word = |at: usize| u64::from_le_bytes(answer[at..at + 8].try_into().expect("eight bytes"));
    assert_eq!(word(13), file.ino(), "path of the qid");
    assert_eq!(word(21) as u32, file.mode());
    assert_eq!((word(49), word(73), word(89)), (5, file.mtime() as u64, file.mtime() as u64));
    assert_eq!(answer.len(), 8 + 13 + 12 + 15 * 8);
    let size = rig.ask(kind::STATFS, |body| body.put_u32(1)).expect("sizes");
    assert_eq!(size[16..32], [0; 16], "free space comes and goes");
}

#[test]
fn no_name_and_no_link_leads_out() {
    let mut rig = Rig::new(Access::Writable);
    for names in [
        &["..", "outside", "secret"][..],
        &["folder", "..", "..", "outside"],
        &["absolute", "secret"],
        &["relative", "secret"],
        &["harmless", "inner"],
    ] {
        let led = rig.walk(9, names);
        assert!(led != Ok(names.len() as u16), "{names:?}: {led:?}");
    }
    for name in ["", ".", "/", "../outside", "/etc", "folder/inner", "a\0b"] {
        assert_eq!(rig.walk(9, &[name]), Err(Errno::NOENT), "{name:?}");
    }
    assert_eq!(rig.walk(1, &["..", "..", "folder", "..", "file"]), Ok(5), "the way up ends here");
    assert_eq!(rig.walk(2, &["absolute"]), Ok(1), "a link itself");
    assert_eq!(rig.open(2, 0), Err(Errno::LOOP));
    let target = rig.ask(kind::READLINK, |body| body.put_u32(2)).expect("a link");
    assert!(target.ends_with(b"/outside"), "the guest follows it, in its own folders");
    for name in ["../x", "..", "/tmp/x", ""] {
        let made = rig.ask(kind::MKDIR, |body| {
            body.put_u32(ROOT);
            body.put_text(name.as_bytes());
            body.put_u32(0o777);
            body.put_u32(0);
        });
        assert_eq!(made, Err(Errno::INVAL), "{name:?}");
        // A link where a folder should be is none.
        let made = rig.ask(kind::MKDIR, |body| {
            body.put_u32(2);
            body.put_text(b"x");
            body.put_u32(0o777);
            body.put_u32(0);
        });
        assert!(made.is_err());
    }
    let outside = fs::read_dir(rig.host.path().join("outside")).expect("a folder");
    assert_eq!(outside.count(), 1);
}

#[test]
fn a_folder_that_becomes_a_link_while_it_is_walked_leads_nowhere() {
    let mut rig = Rig::new(Access::Writable);
    let shared = rig.host.path().join("shared");
    fs::write(shared.join("folder/secret"), "inside").expect("a writable folder");
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                let _ = fs::rename(shared.join("folder"), shared.join("away"));
                let _ = symlink("../outside", shared.join("folder"));
                let _ = fs::remove_file(shared.join("folder"));
                let _ = fs::rename(shared.join("away"), shared.join("folder"));
            }
        });
        let mut seen = 0;
        for _ in 0..20_000 {
            if rig.walk(1, &["folder", "secret"]) != Ok(2) {
                continue;
            }
            if rig.open(1, 0).is_ok() {
                assert_eq!(rig.read(1, 10), Ok(b"inside".to_vec()));
                seen += 1;
            }
            rig.clunk(1);
        }
        is_over.store(true, Ordering::Relaxed);
        assert!(seen > 0, "it was there now and then");
    });
}

#[test]
fn a_folder_that_is_moved_out_is_gone() {
    let mut rig = Rig::new(Access::Writable);
    rig.walk(1, &["folder"]).expect("a folder");
    let (shared, outside) = (rig.host.path().join("shared"), rig.host.path().join("outside"));
    fs::rename(shared.join("folder"), outside.join("folder")).expect("one file system");
    let walked = rig.ask(kind::WALK, |body| {
        body.put_u32(1);
        body.put_u32(2);
        body.extend([1, 0]);
        body.put_text(b"inner");
    });
    assert_eq!(walked, Err(Errno::NOENT));
}

#[test]
fn a_read_only_share_refuses_every_change() {
    let mut rig = Rig::new(Access::ReadOnly);
    rig.walk(1, &["file"]).expect("a file");
    let named = |kind: u8, rest: usize| {
        move |rig: &mut Rig| {
            rig.ask(kind, |body| {
                body.put_u32(ROOT);
                body.put_text(b"new");
                body.extend(vec![0; rest]);
            })
        }
    };
    for kind in [kind::LCREATE, kind::MKDIR, kind::SYMLINK, kind::UNLINKAT, kind::RENAMEAT] {
        assert_eq!(named(kind, 12)(&mut rig), Err(Errno::ROFS), "{kind}");
    }
    for kind in [kind::WRITE, kind::SETATTR, kind::RENAME, kind::LINK] {
        let asked = rig.ask(kind, |body| {
            body.put_u32(1);
            body.extend([0; 60]);
        });
        assert_eq!(asked, Err(Errno::ROFS), "{kind}");
    }
    for flags in [1, 2, 0o1000] {
        assert_eq!(rig.open(1, flags), Err(Errno::ROFS), "{flags:o}");
    }
    assert_eq!(rig.ask(kind::REMOVE, |body| body.put_u32(1)), Err(Errno::ROFS));
    let file = fs::read(rig.host.path().join("shared/file")).expect("still there");
    assert_eq!(file, b"hello");
}

#[test]
fn a_writable_share_does_what_a_guest_says() {
    let mut rig = Rig::new(Access::Writable);
    let shared = rig.host.path().join("shared");
    rig.walk(1, &["folder"]).expect("a folder");
    rig.walk(2, &["folder"]).expect("a folder");
    let created = rig.ask(kind::LCREATE, |body| {
        body.put_u32(2);
        body.put_text(b"new");
        [2, 0o104_755, NONE].into_iter().for_each(|word| body.put_u32(word));
    });
    created.expect("a new file");
    let written = rig.ask(kind::WRITE, |body| {
        body.put_u32(2);
        body.put_u64(2);
        body.put_u32(3);
        body.extend(b"abc");
    });
    assert_eq!(written, Ok(vec![3, 0, 0, 0]));
    let new = shared.join("folder/new");
    assert_eq!(fs::read(&new).expect("a file"), b"\0\0abc");
    let mode = fs::metadata(&new).expect("a file").permissions().mode();
    assert_eq!(mode & 0o6000, 0, "nobody becomes its owner by it");
    let renamed = rig.ask(kind::RENAMEAT, |body| {
        body.put_u32(ROOT);
        body.put_text(b"folder");
        body.put_u32(ROOT);
        body.put_text(b"renamed");
    });
    renamed.expect("a new name");
    // Fids go with what they stand for.
    let set = rig.ask(kind::SETATTR, |body| {
        body.put_u32(2);
        [1 | 8 | 1 << 5 | 1 << 8, 0o600, 0, 0].into_iter().for_each(|word| body.put_u32(word));
        [1, 0, 0, 1_000_000, 5].into_iter().for_each(|word| body.put_u64(word));
    });
    set.expect("a file");
    let new = fs::metadata(shared.join("renamed/new")).expect("a file");
    assert_eq!((new.len(), new.mode() & 0o7777, new.mtime()), (1, 0o600, 1_000_000));
    let made = rig.ask(kind::SYMLINK, |body| {
        body.put_u32(1);
        body.put_text(b"link");
        body.put_text(b"new");
        body.put_u32(NONE);
    });
    assert_eq!(made.expect("a link")[0], 2);
    let removed = rig.ask(kind::UNLINKAT, |body| {
        body.put_u32(1);
        body.put_text(b"new");
        body.put_u32(0);
    });
    removed.expect("a file");
    assert!(!shared.join("renamed/new").exists());
    assert_eq!(rig.read(2, 1), Ok(vec![0]), "what is open is there without a name");
}

#[test]
fn what_is_neither_file_nor_folder_is_shown_and_not_opened() {
    let mut rig = Rig::new(Access::Writable);
    let pipe = rig.host.path().join("shared/pipe");
    let made = std::process::Command::new("mkfifo").arg(&pipe).status();
    assert!(made.is_ok_and(|status| status.success()), "mkfifo");
    rig.walk(1, &["pipe"]).expect("it is shown");
    assert_eq!(rig.open(1, 0), Err(Errno::ACCESS));
}

#[test]
fn fids_and_answers_have_bounds() {
    let mut rig = Rig::new(Access::ReadOnly);
    let full = (1..=fid::MOST_FIDS as u32).find(|number| rig.walk(*number, &[]).is_err());
    assert_eq!(full, Some(fid::MOST_FIDS as u32));
    assert_eq!(rig.walk(fid::MOST_FIDS as u32, &[]), Err(Errno::MFILE));
    assert_eq!(rig.walk(1, &["file"]), Err(Errno::BADF), "a number that is in use");
    let many = ["folder"; 17];
    assert_eq!(rig.walk(1, &many), Err(Errno::INVAL));
    rig.open(1, 0).expect("a folder");
    let mut message = vec![0; HEADER_SIZE];
    message.put_u32(1);
    message::Header { length: message.len(), kind: kind::GETATTR, tag: 1 }.put(&mut message);
    assert_eq!(rig.share.answer(&message, 0), []);
    assert_eq!(rig.share.answer(&message, 20)[4], kind::ERROR + 1, "an error has room");
    assert_eq!(rig.share.answer(&message[..6], 100), []);
    message.resize(LONGEST_MESSAGE + 1, 0);
    message::Header { length: message.len(), kind: kind::GETATTR, tag: 1 }.put(&mut message);
    assert_eq!(rig.share.answer(&message, 1000)[4], kind::ERROR + 1, "longer than any message");
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_message_is_answered_with_more_than_there_is_room_for(
        messages in prop::collection::vec(
            (prop::sample::select((0u8..128).step_by(2).collect::<Vec<_>>()), 0u32..4, 0u32..4,
                prop::collection::vec(any::<u8>(), 0..80), 0usize..2000, any::<bool>()),
            1..40
        ),
        writable in any::<bool>(),
    ) {
        let access = if writable { Access::Writable } else { Access::ReadOnly };
        let mut rig = Rig::new(access);
        for (kind, first, second, rest, room, is_honest) in messages {
            let mut message = vec![0; HEADER_SIZE];
            message.put_u32(first);
            message.put_u32(second);
            message.extend(rest);
            let length = if is_honest { message.len() } else { first as usize * 0x1234_5678 };
            message::Header { length, kind, tag: 1 }.put(&mut message);
            let answer = rig.share.answer(&message, room);
            prop_assert!(answer.len() <= room);
        }
        let secret = fs::read(rig.host.path().join("outside/secret"));
        prop_assert_eq!(secret.expect("still there"), b"secret");
    }
}
