//! In a process of its own, since the wall stays up: this test starts itself.

use super::*;
use board::shared_folder::Access;
use std::fs;
use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixDatagram;
use std::process::Command;

/// The folder of the test, for the process that shuts itself in.
const FOLDER: &str = "AVICENNA_TEST_OF_THE_SANDBOX";
const NAME: &str = "sandbox::tests::what_was_named_is_open_and_nothing_else";

#[test]
fn what_was_named_is_open_and_nothing_else() {
    if let Some(folder) = std::env::var_os(FOLDER) {
        return inside(Path::new(&folder));
    }
    let folder = tempfile::tempdir().expect("a writable folder");
    for name in ["named", "changed", "other", "held"] {
        fs::write(folder.path().join(name), name).expect("a writable folder");
    }
    for name in ["kept", "shown", "shared"] {
        fs::create_dir(folder.path().join(name)).expect("a writable folder");
    }
    fs::write(folder.path().join("shown/file"), "shown").expect("a writable folder");
    fs::create_dir(folder.path().join("results")).expect("a writable folder");
    fs::write(folder.path().join("results/earlier"), "private").expect("a writable folder");
    let own = std::env::current_exe().expect("this test");
    let inside = Command::new(own)
        .args(["--exact", NAME, "--nocapture"])
        .env(FOLDER, folder.path())
        .output()
        .expect("this test starts");
    let said = String::from_utf8_lossy(&inside.stdout).into_owned();
    assert!(inside.status.success(), "{said}\n{}", String::from_utf8_lossy(&inside.stderr));
    said.lines().filter(|line| line.contains("skipped")).for_each(|line| println!("{line}"));
    let result = fs::read(folder.path().join("results/result")).expect("the result");
    assert_eq!(result, b"whole");
    let mode = |name| fs::metadata(folder.path().join(name)).expect("a file").permissions().mode();
    assert_eq!(mode("results/result"), mode("other"), "the result's mode is that of new files");
    let other = fs::read(folder.path().join("other")).expect("a file");
    assert_eq!(other, b"other");
}

fn inside(folder: &Path) {
    let at = |name: &str| folder.join(name);
    let mut sandbox = Sandbox::default();
    sandbox.reads(at("named"));
    sandbox.changes(at("changed"));
    sandbox.keeps(at("kept"));
    sandbox.shows(at("shown"));
    sandbox.shares(at("shared"));
    let mut result = sandbox.output(&at("results/result")).expect("a writable folder");
    let mut held = fs::File::open(at("held")).expect("a file");
    calls_are_closed_after(|| {
        let closed = sandbox.close_files();
        let mut text = String::new();
        held.read_to_string(&mut text).expect("what is open stays open");
        assert_eq!(fs::read(at("named")).expect("named"), b"named");
        fs::write(at("kept/new"), "new").expect("a folder of our own");
        fs::rename(at("kept/new"), at("kept/newer")).expect("a folder of our own");
        fs::remove_file(at("kept/newer")).expect("a folder of our own");
        fs::OpenOptions::new().write(true).open(at("changed")).expect("changed");
        assert_eq!(fs::read_dir(at("shown")).expect("shown").count(), 1);
        assert_eq!(fs::read(at("shown/file")).expect("shown"), b"shown");
        a_guest_changes(&at("shared"));
        result.write_all(b"whole").expect("it is open");
        result.finish(change::Like::Umask).expect("it may be put there");
        match closed {
            Err(why) if why.contains("no Landlock") => println!("skipped: {why}"),
            Err(why) => panic!("{why}"),
            Ok(()) => files_are_refused(&at),
        }
    });
}

/// By messages of 9P: to attach, make a folder and a link, rename the folder, read what is in it.
fn a_guest_changes(folder: &Path) {
    let mut server = board::shared_folder::open(folder, Access::Writable).expect("a folder");
    for (kind, body) in [
        (104, &b"\0\0\0\0\xFF\xFF\xFF\xFF\0\0\0\0\0\0\0\0"[..]),
        (72, b"\0\0\0\0\x03\0old\xFF\x01\0\0\xFF\xFF\xFF\xFF"),
        (16, b"\0\0\0\0\x04\0link\x03\0old\xFF\xFF\xFF\xFF"),
        (74, b"\0\0\0\0\x03\0old\0\0\0\0\x03\0new"),
        (8, b"\0\0\0\0"),
        (12, b"\0\0\0\0\0\0\0\0"),
        (40, b"\0\0\0\0\0\0\0\0\0\0\0\0\xFF\xFF\0\0"),
    ] {
        let mut message = (body.len() as u32 + 7).to_le_bytes().to_vec();
        message.extend([kind, 0, 0]);
        message.extend(body);
        let answer = server.answer(&message, 1 << 16);
        assert_eq!(answer[4], kind + 1, "{answer:?}");
    }
    assert!(folder.join("new").is_dir() && folder.join("link").is_symlink());
}

fn files_are_refused(at: &dyn Fn(&str) -> PathBuf) {
    let refused = |what: &str, outcome: std::io::Result<()>| {
        let kind = outcome.expect_err(what).kind();
        assert_eq!(kind, ErrorKind::PermissionDenied, "{what}");
    };
    refused("another file", fs::read(at("other")).map(drop));
    refused("another file, written", fs::write(at("other"), "x"));
    refused("a new file", fs::write(at("new"), "x"));
    refused("a named file, written", fs::write(at("named"), "x"));
    refused("another file beside a result", fs::read(at("results/earlier")).map(drop));
    refused("a new file in a shown folder", fs::write(at("shown/new"), "x"));
    refused("a shown file, written", fs::write(at("shown/file"), "x"));
    refused("a file of the system", fs::read("/etc/passwd").map(drop));
    refused("a folder", fs::read_dir(at(".")).map(drop));
    refused(
        "memory by its file",
        fs::OpenOptions::new().write(true).open("/proc/self/mem").map(drop),
    );
    refused("a link to another", fs::hard_link(at("other"), at("kept/link")));
    std::os::unix::fs::symlink(at("other"), at("kept/link")).expect_err("a symbolic link");
    let outcome = std::thread::spawn(|| fs::read("/etc/passwd").map(drop)).join();
    refused("a file of the system, by a thread", outcome.expect("it ends"));
}

fn calls_are_closed_after(check: impl FnOnce()) {
    calls::close().expect("seccomp");
    check();
    let refused = |what: &str, outcome: std::io::Result<()>| {
        let kind = outcome.expect_err(what).kind();
        assert_eq!(kind, ErrorKind::Unsupported, "{what}");
    };
    refused("a program", Command::new("/bin/true").spawn().map(drop));
    refused("listening", TcpListener::bind("127.0.0.1:0").map(drop));
    refused("a connection", TcpStream::connect("127.0.0.1:1").map(drop));
    refused("a datagram", UdpSocket::bind("127.0.0.1:0").map(drop));
    refused("a socket", UnixDatagram::unbound().map(drop));
    let mode = fs::Permissions::from_mode(0o777);
    refused("another mode", fs::set_permissions("/", mode));
    let sum = std::thread::spawn(|| 1 + 1).join();
    assert_eq!(sum.expect("threads are allowed"), 2);
}
