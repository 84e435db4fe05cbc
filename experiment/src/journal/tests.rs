//! What a journal survives, and what it refuses.

use super::*;

fn head() -> Head {
    Head {
        schema: SCHEMA,
        version: "0".into(),
        plan: "text".into(),
        hash: "hash".into(),
        place: "lab".into(),
        same: None,
        seed: None,
        blocks: None,
        shard: None,
        options: BTreeMap::new(),
        provenance: BTreeMap::new(),
        remarks: Vec::new(),
    }
}

fn entries() -> Vec<Entry> {
    let kept = Kept {
        figures: BTreeMap::from([("a".into(), 1.5), ("b, \"sum\":\"x".into(), 0.1 + 0.2)]),
        ..Kept::default()
    };
    let void = Void { why: "PIT_REINJ".into(), fix: "discard".into(), is_without_effect: true };
    vec![
        Entry::Started { trial: 0, attempt: 0, seed: u64::MAX, setting: Setting::new() },
        Entry::Changed { change: Change { what: "governor".into(), undo: "schedutil".into() } },
        Entry::Ended { trial: 0, attempt: 0, outcome: Outcome::Done, kept: kept.clone() },
        Entry::Ended { trial: 1, attempt: 2, outcome: Outcome::Void(void), kept },
        Entry::Restored,
        Entry::Finished,
    ]
}

/// A journal with all kinds of lines.
fn journal(folder: &Path) -> Vec<u8> {
    let mut journal = Journal::create(folder, head(), || 7).expect("a journal");
    entries().iter().for_each(|entry| journal.write(entry).expect("a line"));
    std::fs::read(folder.join(FILE)).expect("the file")
}

#[test]
fn what_is_written_is_read_again() {
    let folder = tempfile::tempdir().expect("a folder");
    journal(folder.path());
    let read = read(folder.path()).expect("a journal");
    assert_eq!(read[0].entry, Entry::Begun(Box::new(head())));
    assert_eq!(read[1..].iter().map(|one| one.entry.clone()).collect::<Vec<_>>(), entries());
    assert!(read.iter().all(|one| one.time == 7));
}

#[test]
fn lines_follow_the_published_schema() {
    let published = schema::published("experiment-line-1.json");
    let failed = Outcome::Failed { why: "no guest".into() };
    let failed = Entry::Ended { trial: 0, attempt: 0, outcome: failed, kept: Kept::default() };
    let stopped = Entry::Stopped { why: "SIGINT".into() };
    for entry in [Entry::Begun(Box::new(head())), failed, stopped].iter().chain(&entries()) {
        let line = serde_json::to_value(entry).expect("plain data");
        schema::assert_follows(&line, &published, "a line");
    }
}

#[test]
fn cut_off_anywhere_the_whole_lines_before_are_kept_and_it_goes_on() {
    let folder = tempfile::tempdir().expect("a folder");
    let whole = journal(folder.path());
    let first = whole.iter().position(|byte| *byte == b'\n').expect("a line") + 1;
    let path = folder.path().join(FILE);
    for length in (first..whole.len()).step_by(7) {
        std::fs::write(&path, &whole[..length]).expect("a file");
        let lines = whole[..length].iter().filter(|byte| **byte == b'\n').count();
        let (mut journal, read) = Journal::open(folder.path(), || 9).expect("a journal");
        assert_eq!(read.len(), lines, "{length}");
        journal.write(&Entry::Finished).expect("a line");
        drop(journal);
        let read = super::read(folder.path()).expect("a journal");
        assert_eq!((read.len(), &read[lines].entry), (lines + 1, &Entry::Finished));
    }
}

#[test]
fn a_line_that_was_changed_left_out_or_moved_is_refused_by_its_number() {
    let folder = tempfile::tempdir().expect("a folder");
    let whole = String::from_utf8(journal(folder.path())).expect("text");
    let lines: Vec<&str> = whole.lines().collect();
    let mut changed = lines.clone();
    let other = lines[3].replace("1.5", "1.6");
    changed[3] = &other;
    let mut left_out = lines.clone();
    left_out.remove(2);
    let mut moved = lines.clone();
    moved.swap(2, 3);
    for (lines, number) in [(changed, 4), (left_out, 3), (moved, 3)] {
        std::fs::write(folder.path().join(FILE), lines.join("\n") + "\n").expect("a file");
        match read(folder.path()) {
            Err(Error::Damaged { line, .. }) => assert_eq!(line, number),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn a_folder_has_one_journal_and_one_writer() {
    let folder = tempfile::tempdir().expect("a folder");
    let kept = Journal::create(folder.path(), head(), || 0).expect("a journal");
    let twice = Journal::create(folder.path(), head(), || 0);
    assert!(matches!(twice, Err(Error::Exists(_))), "{twice:?}");
    let busy = Journal::open(folder.path(), || 0);
    assert!(matches!(busy, Err(Error::Busy(_))), "{busy:?}");
    drop(kept);
    assert!(Journal::open(folder.path(), || 0).is_ok());
}

#[test]
fn what_is_no_journal_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    for text in ["", "text", "text\n", "{}\n", "{\"sum\":\"00000000\"}\n"] {
        std::fs::write(folder.path().join(FILE), text).expect("a file");
        assert!(matches!(read(folder.path()), Err(Error::Damaged { line: 1, .. })), "{text:?}");
    }
}

#[test]
fn only_an_ordinary_file_of_this_user_s_own_is_gone_on_with() {
    use std::os::unix::fs::{PermissionsExt, symlink};
    let folder = tempfile::tempdir().expect("a folder");
    journal(folder.path());
    let path = folder.path().join(FILE);
    let other = folder.path().join("other");
    let opened = || Journal::open(folder.path(), || 7).map(drop);
    assert!(opened().is_ok());
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o666)).expect("ours");
    assert!(matches!(opened(), Err(Error::Foreign { .. })), "others write it");
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).expect("ours");
    std::fs::hard_link(&path, &other).expect("a name");
    assert!(matches!(opened(), Err(Error::Foreign { .. })), "it has another name");
    std::fs::remove_file(&path).expect("ours");
    symlink(&other, &path).expect("a link");
    assert!(opened().is_err() && read(folder.path()).is_err(), "a link");
    std::fs::remove_file(&path).expect("ours");
    let pipe = rustix::fs::FileType::Fifo;
    rustix::fs::mknodat(rustix::fs::CWD, &path, pipe, rustix::fs::Mode::RUSR, 0).expect("a pipe");
    assert!(opened().is_err() && read(folder.path()).is_err(), "a pipe without a writer");
}
