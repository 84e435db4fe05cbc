//! What an attacker plants in a folder that is changed: 12 kinds, each against applying, rolling
//! back and repairing one file. Nothing outside the folder changes, nothing hangs, nothing is left
//! behind.

use change::{Error, Host, Like, Output, Place, Root};
use rules::Needs;
use rules::enable::{Action, Step};
use rustix::fs::{CWD, FileType, Mode};
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

const TARGET: &str = "etc/default/grub";
const OLD: &str = "A=1\n";
const NEW: &str = "A=2\n";
const SECRET: &str = "A=1\n# secret of another user\n";

/// A folder with the host, and beside it what must not change.
struct Scene {
    _folder: tempfile::TempDir,
    root: PathBuf,
    outside: PathBuf,
    victim: PathBuf,
}

/// All that is to stay as it is.
type State = (String, u32, u32, u32, u64, Vec<String>);

impl Scene {
    fn new() -> Scene {
        let folder = tempfile::tempdir().unwrap();
        let (root, outside) = (folder.path().join("root"), folder.path().join("outside"));
        fs::create_dir_all(root.join("etc/default")).unwrap();
        fs::create_dir_all(&outside).unwrap();
        let victim = outside.join("grub");
        fs::write(&victim, SECRET).unwrap();
        fs::set_permissions(&victim, fs::Permissions::from_mode(0o600)).unwrap();
        fs::write(root.join(TARGET), OLD).unwrap();
        fs::set_permissions(root.join(TARGET), fs::Permissions::from_mode(0o666)).unwrap();
        Scene { _folder: folder, root, outside, victim }
    }

    fn target(&self) -> PathBuf {
        self.root.join(TARGET)
    }

    fn state(&self) -> State {
        let status = fs::metadata(&self.victim).unwrap();
        let text = fs::read_to_string(&self.victim).unwrap();
        (text, status.mode(), status.uid(), status.gid(), status.ino(), names(&self.outside))
    }

    fn leftovers(&self) -> Vec<PathBuf> {
        let mut folders = vec![self.root.clone()];
        let mut found = vec![];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder).unwrap().flatten() {
                if entry.file_type().unwrap().is_dir() {
                    folders.push(entry.path());
                }
                let name = entry.file_name().into_string().unwrap();
                if name.strip_prefix(".avicenna-").is_some_and(|rest| rest.len() == 24) {
                    found.push(entry.path());
                }
            }
        }
        found
    }
}

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap().flatten();
    let mut names: Vec<String> =
        entries.map(|entry| entry.file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// Goes on swapping while the verb runs.
struct Racer {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Racer {
    fn new(mut swap: impl FnMut() + Send + 'static) -> Racer {
        let stop = Arc::new(AtomicBool::new(false));
        let seen = stop.clone();
        let thread = std::thread::spawn(move || {
            while !seen.load(Ordering::Relaxed) {
                swap();
            }
        });
        Racer { stop, thread: Some(thread) }
    }
}

impl Drop for Racer {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let _ = self.thread.take().unwrap().join();
    }
}

fn node(path: &Path, kind: FileType) -> bool {
    let mode = Mode::from_raw_mode(0o666);
    let device = if kind == FileType::CharacterDevice { rustix::fs::makedev(1, 3) } else { 0 };
    rustix::fs::mknodat(CWD, path, kind, mode, device).is_ok()
}

type Plant = fn(&Scene) -> Option<Vec<Racer>>;

/// Name and how it is planted; `None` where this user or system cannot.
const KINDS: [(&str, Plant); 12] = [
    ("link to a file outside", |scene| {
        fs::remove_file(scene.target()).unwrap();
        symlink(&scene.victim, scene.target()).unwrap();
        Some(vec![])
    }),
    ("link upwards out of the root", |scene| {
        fs::remove_file(scene.target()).unwrap();
        symlink("../../../outside/grub", scene.target()).unwrap();
        Some(vec![])
    }),
    ("link to nothing", |scene| {
        fs::remove_file(scene.target()).unwrap();
        symlink(scene.outside.join("new"), scene.target()).unwrap();
        Some(vec![])
    }),
    ("hard link", |scene| {
        fs::remove_file(scene.target()).unwrap();
        fs::hard_link(&scene.victim, scene.target()).unwrap();
        Some(vec![])
    }),
    ("FIFO", |scene| {
        fs::remove_file(scene.target()).unwrap();
        node(&scene.target(), FileType::Fifo).then(Vec::new)
    }),
    ("device", |scene| {
        fs::remove_file(scene.target()).unwrap();
        node(&scene.target(), FileType::CharacterDevice).then(Vec::new)
    }),
    ("socket", |scene| {
        fs::remove_file(scene.target()).unwrap();
        node(&scene.target(), FileType::Socket).then(Vec::new)
    }),
    ("folder", |scene| {
        fs::remove_file(scene.target()).unwrap();
        fs::create_dir(scene.target()).unwrap();
        Some(vec![])
    }),
    ("link in place of the parent", |scene| {
        fs::rename(scene.root.join("etc/default"), scene.root.join("etc/moved")).unwrap();
        symlink(&scene.outside, scene.root.join("etc/default")).unwrap();
        Some(vec![])
    }),
    ("temporary names of old", |scene| {
        for name in ["grub.avicenna-new", ".grub.avicenna", ".avicenna-new", "grub.new"] {
            symlink(&scene.victim, scene.root.join("etc/default").join(name)).unwrap();
        }
        let records = scene.root.join("var/lib/avicenna/changes");
        if records.is_dir() {
            for number in 1..4 {
                let name = format!("{number:06}.json.avicenna-new");
                symlink(&scene.victim, records.join(name)).unwrap();
            }
        }
        Some(vec![])
    }),
    ("file and link racing", |scene| {
        let (target, victim) = (scene.target(), scene.victim.clone());
        let (link, file) = (scene.root.join("etc/link"), scene.root.join("etc/file"));
        Some(vec![Racer::new(move || {
            let _ = symlink(&victim, &link);
            let _ = fs::rename(&link, &target);
            let _ = fs::write(&file, OLD);
            let _ = fs::rename(&file, &target);
        })])
    }),
    ("parent and link racing", |scene| {
        let parent = scene.root.join("etc/default");
        let (kept, link) = (scene.root.join("etc/kept"), scene.root.join("etc/link"));
        let outside = scene.outside.clone();
        Some(vec![Racer::new(move || {
            let _ = fs::rename(&parent, &kept);
            let _ = symlink(&outside, &link);
            let _ = fs::rename(&link, &parent);
            let _ = fs::remove_file(&parent);
            let _ = fs::rename(&kept, &parent);
        })])
    }),
];

fn step(before: &str, after: &str) -> Step {
    Step {
        id: "s".into(),
        title: "t".into(),
        because: "b".into(),
        action: Action::Write {
            path: format!("/{TARGET}"),
            before: Some(before.into()),
            after: after.into(),
        },
        needs: Needs::Reboot,
        risk: "r".into(),
        is_optional: false,
    }
}

fn apply(root: &Path) -> Result<(), Error> {
    Host::at(root)?.apply(&[step(OLD, NEW)], 1, &mut |_| Ok(())).map(|_| ())
}

fn rollback(root: &Path) -> Result<(), Error> {
    Host::at(root)?.rollback(None, true, &mut |_| Ok(())).map(|_| ())
}

fn repair(root: &Path) -> Result<(), Error> {
    match Root::open(root)?.place(TARGET)? {
        Some(place) => place.replace_text(OLD, NEW).map(|_| ()),
        None => Err(Error::Nothing),
    }
}

/// Fails if it takes longer than anything here may.
fn in_time<T: Send + 'static>(name: &str, run: impl FnOnce() -> T + Send + 'static) -> T {
    let (sender, receiver) = std::sync::mpsc::channel();
    std::thread::spawn(move || sender.send(run()));
    receiver.recv_timeout(Duration::from_secs(20)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

#[test]
fn nothing_that_is_planted_leads_out_hangs_or_leaves_anything() {
    for (name, plant) in KINDS {
        for verb in ["apply", "rollback", "repair"] {
            let is_race = name.contains("racing");
            for _ in 0..if is_race { 20 } else { 1 } {
                let scene = Scene::new();
                if verb == "rollback" {
                    apply(&scene.root).unwrap();
                }
                let Some(racers) = plant(&scene) else {
                    println!("skipped: {name} cannot be made by this user");
                    continue;
                };
                let before = scene.state();
                let root = scene.root.clone();
                let outcome = in_time(&format!("{name}, {verb}"), move || match verb {
                    "apply" => apply(&root),
                    "rollback" => rollback(&root),
                    _ => repair(&root),
                });
                drop(racers);
                assert_eq!(scene.state(), before, "{name}, {verb}: {outcome:?}");
                assert_eq!(scene.leftovers(), [] as [PathBuf; 0], "{name}, {verb}");
                let is_harmless =
                    is_race || ["hard link", "temporary names of old"].contains(&name);
                assert!(outcome.is_err() || is_harmless || verb == "rollback", "{name}, {verb}");
            }
        }
    }
}

#[test]
fn files_that_users_name_are_treated_the_same() {
    for (name, plant) in KINDS.into_iter().filter(|(name, _)| !name.contains("parent")) {
        let scene = Scene::new();
        // Anybody could have put links there.
        let open = fs::Permissions::from_mode(0o777);
        fs::set_permissions(scene.root.join("etc/default"), open).unwrap();
        let Some(racers) = plant(&scene) else { continue };
        let before = scene.state();
        let target = scene.target();
        let outcome = in_time(name, move || {
            let written = Output::write(&target, b"result", Like::Umask).map(|_| ());
            written.and(Place::of(&target).and_then(|place| place.replace_text(OLD, NEW)))
        });
        drop(racers);
        assert_eq!(scene.state(), before, "{name}: {outcome:?}");
        assert_eq!(scene.leftovers(), [] as [PathBuf; 0], "{name}");
    }
}

#[test]
fn link_of_another_user_on_the_way_to_a_file_is_not_followed() {
    let scene = Scene::new();
    let link = scene.root.join("link");
    symlink("etc/default", &link).unwrap();
    let through = link.join("grub");
    Output::write(&through, b"result", Like::Umask).unwrap();
    assert_eq!(fs::read_to_string(scene.target()).unwrap(), "result");
    let by_name = scene.root.join("etc/../link/./grub");
    Output::write(&by_name, OLD.as_bytes(), Like::Umask).unwrap();
    assert_eq!(fs::read_to_string(scene.target()).unwrap(), OLD);
    if std::os::unix::fs::lchown(&link, Some(1000), None).is_err() {
        println!("skipped: only root can plant another's link");
        return;
    }
    let before = scene.state();
    for path in [through, by_name] {
        let outcome = Output::write(&path, b"result", Like::Umask).map(drop);
        assert!(outcome.is_err(), "{path:?}");
        assert!(matches!(Place::of(&path), Err(Error::Link { .. })), "{path:?}");
    }
    assert_eq!(scene.state(), before);
}

#[test]
fn link_that_only_we_could_have_made_is_followed_and_stays() {
    let scene = Scene::new();
    let link = scene.root.join("etc/default/link");
    symlink("grub", &link).unwrap();
    Place::of(&link).unwrap().replace_text(OLD, NEW).unwrap();
    assert!(link.is_symlink());
    assert_eq!(fs::read_to_string(scene.target()).unwrap(), NEW);
    // The same inside a root, absolute as its own programs see it.
    fs::remove_file(&link).unwrap();
    symlink("/etc/default/grub", &link).unwrap();
    let root = Root::open(&scene.root).unwrap();
    root.place("etc/default/link").unwrap().unwrap().replace_text(NEW, OLD).unwrap();
    assert_eq!(fs::read_to_string(scene.target()).unwrap(), OLD);
}

#[test]
fn records_are_private_and_those_of_others_are_not_believed() {
    let scene = Scene::new();
    apply(&scene.root).unwrap();
    let folder = scene.root.join("var/lib/avicenna/changes");
    let record = folder.join("000001.json");
    let mode = |path: &Path| fs::metadata(path).unwrap().mode() & 0o777;
    assert_eq!((mode(&folder), mode(&record)), (0o700, 0o600));
    fs::set_permissions(&record, fs::Permissions::from_mode(0o666)).unwrap();
    assert!(matches!(rollback(&scene.root), Err(Error::Foreign { .. })));
    fs::set_permissions(&record, fs::Permissions::from_mode(0o600)).unwrap();
    if std::os::unix::fs::chown(&record, Some(1000), None).is_ok() {
        assert!(matches!(rollback(&scene.root), Err(Error::Foreign { .. })));
        std::os::unix::fs::chown(&record, Some(0), None).unwrap();
        std::os::unix::fs::chown(&folder, Some(1000), None).unwrap();
        assert!(matches!(rollback(&scene.root), Err(Error::Foreign { .. })));
        std::os::unix::fs::chown(&folder, Some(0), None).unwrap();
    }
    fs::remove_file(&record).unwrap();
    symlink(&scene.victim, &record).unwrap();
    let outcome = rollback(&scene.root);
    assert!(matches!(outcome, Err(Error::Special { .. })), "{outcome:?}");
}

#[test]
fn owner_mode_and_attributes_stay_and_hard_links_are_told() {
    let scene = Scene::new();
    let target = scene.target();
    let is_root = std::os::unix::fs::chown(&target, Some(1000), Some(1001)).is_ok();
    fs::set_permissions(&target, fs::Permissions::from_mode(0o640)).unwrap();
    let flags = rustix::fs::XattrFlags::empty();
    // user::rw-, user:1002:r--, group::r--, mask::r--, other::---
    let acl: Vec<u8> =
        [(1, 6, u32::MAX), (2, 4, 1002), (4, 4, u32::MAX), (16, 4, u32::MAX), (32, 0, u32::MAX)]
            .iter()
            .fold(2u32.to_le_bytes().to_vec(), |mut list, (tag, bits, id): &(u16, u16, u32)| {
                list.extend(tag.to_le_bytes());
                list.extend(bits.to_le_bytes());
                list.extend(id.to_le_bytes());
                list
            });
    let mut set = vec![];
    for (name, value) in [
        ("user.note", b"kept".as_slice()),
        ("system.posix_acl_access", &acl),
        ("security.selinux", b"system_u:object_r:etc_t:s0\0"),
    ] {
        if rustix::fs::setxattr(&target, name, value, flags).is_ok() {
            set.push((name, value.to_vec()));
        } else {
            println!("skipped: {name} cannot be set here");
        }
    }
    let look = |path: &Path| {
        let status = fs::metadata(path).unwrap();
        (status.mode() & 0o7777, status.uid(), status.gid())
    };
    let attribute = |name: &str| {
        let mut value = vec![0; 256];
        let length = rustix::fs::getxattr(&target, name, &mut value[..]).unwrap_or(0);
        value[..length].to_vec()
    };
    let before = look(&target);
    assert!(!is_root || before == (0o640, 1000, 1001), "{before:?}");
    fs::hard_link(&target, scene.root.join("etc/other")).unwrap();
    let record = Host::at(&scene.root).unwrap();
    let record = record.apply(&[step(OLD, NEW)], 1, &mut |_| Ok(())).unwrap().unwrap();
    assert_eq!(
        record.told,
        ["/etc/default/grub has another name (hard link), which keeps the old content"]
    );
    assert_eq!(fs::read_to_string(&target).unwrap(), NEW);
    assert_eq!(look(&target), before);
    set.iter().for_each(|(name, value)| assert_eq!(attribute(name), *value, "{name}"));
    // Restored, even where there is no file to take them from.
    fs::remove_file(&target).unwrap();
    rollback(&scene.root).unwrap();
    assert_eq!(fs::read_to_string(&target).unwrap(), OLD);
    assert_eq!(look(&target), before);
    set.iter().for_each(|(name, value)| assert_eq!(attribute(name), *value, "{name}"));
}

#[test]
fn second_run_is_refused_while_the_first_one_works() {
    let scene = Scene::new();
    let root = scene.root.clone();
    let host = Host::at(&root).unwrap();
    let run = Step {
        action: Action::Run { command: vec!["a".into()], undo: vec!["b".into()], keeps: vec![] },
        ..step(OLD, NEW)
    };
    let mut second = None;
    host.apply(&[run], 1, &mut |_| {
        second = Some((apply(&root), rollback(&root)));
        Ok(())
    })
    .unwrap();
    let (applied, taken_back) = second.unwrap();
    assert!(matches!(applied, Err(Error::Busy { .. })), "{applied:?}");
    assert!(matches!(taken_back, Err(Error::Busy { .. })), "{taken_back:?}");
    assert_eq!(fs::read_to_string(scene.target()).unwrap(), OLD);
    apply(&root).unwrap();
}

const CHILD: &str = "AVICENNA_TEST_KILLED";

#[test]
fn killed_at_any_moment_leaves_old_or_new_and_records_that_take_it_back() {
    if let Some(root) = std::env::var_os(CHILD) {
        let root = PathBuf::from(root);
        loop {
            apply(&root).unwrap();
            rollback(&root).unwrap();
        }
    }
    let scene = Scene::new();
    let mut seed = 0x9e37_79b9_u64;
    for _ in 0..40 {
        let mut child = std::process::Command::new(std::env::current_exe().unwrap())
            .args([
                "--exact",
                "killed_at_any_moment_leaves_old_or_new_and_records_that_take_it_back",
            ])
            .env(CHILD, &scene.root)
            .stdout(std::process::Stdio::null())
            .spawn()
            .unwrap();
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        std::thread::sleep(Duration::from_micros(3_000 + (seed >> 33) % 20_000));
        child.kill().unwrap();
        child.wait().unwrap();
        let text = fs::read_to_string(scene.target()).unwrap();
        assert!([OLD, NEW].contains(&text.as_str()), "{text}");
        let host = Host::at(&scene.root).unwrap();
        for _ in host.records().unwrap() {
            rollback(&scene.root).unwrap();
        }
        assert_eq!(fs::read_to_string(scene.target()).unwrap(), OLD);
    }
    // The next run clears away what the killed ones left.
    apply(&scene.root).unwrap();
    assert_eq!(scene.leftovers(), [] as [PathBuf; 0]);
}
