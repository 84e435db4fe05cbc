//! A guest's messages to a shared folder, whatever they say: the server does not panic, answers
//! with no more than there is room for, and what lies beside the folder stays as it is. The bytes
//! are messages of 64 bytes at most, each behind its kind and its length.
#![no_main]

use libfuzzer_sys::fuzz_target;
use share::{Access, Share};
use std::fs;
use std::path::PathBuf;
use std::sync::LazyLock;

/// Messages that one input has at most.
const MOST_MESSAGES: usize = 64;

/// The shared folder, beside a file that is nobody's business.
static FOLDER: LazyLock<PathBuf> = LazyLock::new(|| {
    let base = std::env::temp_dir().join(format!("avicenna-fuzz-{}", std::process::id()));
    fs::create_dir_all(base.join("shared/folder")).expect("a writable folder");
    fs::write(base.join("secret"), "secret").expect("a writable folder");
    base
});

fuzz_target!(|input: &[u8]| {
    let shared = FOLDER.join("shared");
    let access = if input.len().is_multiple_of(2) { Access::Writable } else { Access::ReadOnly };
    let mut share = Share::open(&shared, access).expect("a folder");
    let mut rest = input;
    for _ in 0..MOST_MESSAGES {
        let Some(([kind, length], after)) = rest.split_first_chunk() else { break };
        let (body, after) = after.split_at(usize::from(*length % 64).min(after.len()));
        let mut message = (body.len() as u32 + 7).to_le_bytes().to_vec();
        message.extend([*kind, 1, 0]);
        message.extend(body);
        let room = usize::from(*length) * 16;
        assert!(share.answer(&message, room).len() <= room);
        rest = after;
    }
    assert_eq!(fs::read(FOLDER.join("secret")).expect("it is there"), b"secret");
});
