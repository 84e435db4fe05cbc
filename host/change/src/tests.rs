use super::*;
use rules::Needs;
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

/// A folder of its own for each test, gone at the end.
struct Root(PathBuf);

impl Root {
    fn new(name: &str) -> Root {
        let path =
            std::env::temp_dir().join(format!("avicenna-change-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(path.join("etc/modprobe.d")).unwrap();
        Root(path)
    }

    fn put(&self, path: &str, text: &str, mode: u32) {
        let path = self.0.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
    }

    /// Written by a process of its own: a child that another test starts while this one has the
    /// file open for writing would keep it open, and nobody could execute it.
    fn put_program(&self, path: &str, text: &str) {
        let source = format!("{path}.text");
        self.put(&source, text, 0o644);
        let mut install = std::process::Command::new("install");
        let install = install.args(["-m", "755"]).args([self.0.join(source), self.0.join(path)]);
        assert!(install.status().unwrap().success());
    }

    /// Every file outside the records, with mode and content.
    fn state(&self) -> BTreeMap<PathBuf, (u32, String)> {
        let mut state = BTreeMap::new();
        let mut folders = vec![self.0.clone()];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                if path.ends_with("var") {
                    continue;
                }
                if path.is_dir() {
                    folders.push(path);
                } else {
                    let mode = fs::metadata(&path).unwrap().permissions().mode();
                    state.insert(path.clone(), (mode, fs::read_to_string(&path).unwrap()));
                }
            }
        }
        state
    }
}

impl Drop for Root {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn step(action: Action) -> Step {
    Step {
        id: "s".into(),
        title: "t".into(),
        because: "b".into(),
        action,
        needs: Needs::Reboot,
        risk: "r".into(),
        is_optional: false,
    }
}

fn write(path: &str, before: Option<&str>, after: &str) -> Step {
    step(Action::Write { path: path.into(), before: before.map(String::from), after: after.into() })
}

fn run(command: &[&str], undo: &[&str]) -> Step {
    let words = |list: &[&str]| list.iter().map(|word| word.to_string()).collect();
    step(Action::Run { command: words(command), undo: words(undo), keeps: vec![] })
}

fn nothing(_: &[String]) -> Result<(), String> {
    Ok(())
}

#[test]
fn rollback_restores_content_mode_and_absence_exactly() {
    let root = Root::new("exact");
    root.put("etc/default/grub", "A=1\n", 0o600);
    let before = root.state();
    let host = Host::at(&root.0).unwrap();
    let steps = [
        write("/etc/modprobe.d/avicenna.conf", None, "options kvm_amd avic=1\n"),
        write("/etc/default/grub", Some("A=1\n"), "A=2\n"),
    ];
    let record = host.apply(&steps, 7, &mut nothing).unwrap().unwrap();
    assert_eq!((record.number, record.done.len()), (1, 2));
    let after = root.state();
    assert_eq!(after[&root.0.join("etc/default/grub")].1, "A=2\n");
    assert_eq!(after[&root.0.join("etc/default/grub")].0 & 0o777, 0o600);
    assert_eq!(after.len(), 2, "no temporary file stays");
    host.rollback(None, false, &mut nothing).unwrap();
    assert_eq!(root.state(), before);
    assert!(matches!(host.rollback(None, false, &mut nothing), Err(Error::Nothing)));
}

#[test]
fn applying_twice_changes_nothing_and_records_nothing() {
    let root = Root::new("twice");
    let host = Host::at(&root.0).unwrap();
    let steps = [
        write("/etc/modprobe.d/avicenna.conf", None, "x\n"),
        run(&["update-grub"], &["update-grub"]),
    ];
    let mut commands = 0;
    let mut count = |_: &[String]| {
        commands += 1;
        Ok(())
    };
    assert!(host.apply(&steps, 1, &mut count).unwrap().is_some());
    assert_eq!(host.apply(&steps, 2, &mut count).unwrap(), None);
    assert_eq!(commands, 1);
    assert_eq!(host.records().unwrap().len(), 1);
}

#[test]
fn file_that_changed_since_the_plan_is_left_alone() {
    let root = Root::new("stale");
    root.put("etc/default/grub", "edited\n", 0o644);
    let host = Host::at(&root.0).unwrap();
    let outcome =
        host.apply(&[write("/etc/default/grub", Some("A=1\n"), "A=2\n")], 1, &mut nothing);
    assert!(matches!(outcome, Err(Error::Changed { .. })));
    assert_eq!(root.state()[&root.0.join("etc/default/grub")].1, "edited\n");
}

#[test]
fn file_that_was_edited_after_the_change_is_not_rolled_back_unless_forced() {
    let root = Root::new("edited");
    let host = Host::at(&root.0).unwrap();
    host.apply(&[write("/etc/modprobe.d/avicenna.conf", None, "x\n")], 1, &mut nothing).unwrap();
    root.put("etc/modprobe.d/avicenna.conf", "mine\n", 0o644);
    assert!(matches!(host.rollback(None, false, &mut nothing), Err(Error::Edited { .. })));
    assert_eq!(root.state().len(), 1);
    host.rollback(None, true, &mut nothing).unwrap();
    assert!(root.state().is_empty());
}

#[test]
fn change_that_failed_half_way_can_be_taken_back() {
    let root = Root::new("half");
    root.put("etc/default/grub", "A=1\n", 0o644);
    let before = root.state();
    let host = Host::at(&root.0).unwrap();
    let steps = [
        write("/etc/default/grub", Some("A=1\n"), "A=2\n"),
        run(&["update-grub"], &["update-grub"]),
    ];
    let outcome = host.apply(&steps, 1, &mut |_| Err("no space left".into()));
    let said = outcome.unwrap_err().to_string();
    assert_eq!(
        said,
        "'update-grub' failed: no space left; avicenna rollback takes back what was done before it"
    );
    let mut undone = vec![];
    host.rollback(None, false, &mut |command| {
        undone.push(command.join(" "));
        Ok(())
    })
    .unwrap();
    assert_eq!(root.state(), before);
    assert_eq!(undone, ["update-grub"]);
}

/// A `virsh` as far as `define` goes: libvirt parses the file and writes it again in its own form.
const VIRSH: &str = "#!/bin/sh\n[ \"$1\" = define ] || exit 64\n\
    sed -e 's/  */ /g' -e \"s/policy='discard'/policy='discard' /\" \"$ROOT$2\" > \"$ROOT$2.new\" &&\n\
    mv \"$ROOT$2.new\" \"$ROOT$2\" && echo \"$2\" >> \"$ROOT/defined\"\n";

#[test]
fn domain_that_libvirt_writes_in_its_own_form_is_no_edit_and_is_restored_exactly() {
    let root = Root::new("virsh");
    let domain = "/etc/libvirt/qemu/web.xml";
    let old = "<domain>\n  <clock offset='utc'/>\n</domain>\n";
    let new = "<domain>\n  <clock offset='utc'>\n    <timer name='pit' tickpolicy='discard'/>\n  \
               </clock>\n</domain>\n";
    root.put(&domain[1..], old, 0o600);
    let before = root.state();
    root.put_program("bin/virsh", VIRSH);
    let mut virsh = |words: &[String]| {
        let output = std::process::Command::new(root.0.join("bin").join(&words[0]))
            .args(&words[1..])
            .env("ROOT", &root.0)
            .output()
            .map_err(|error| error.to_string())?;
        if output.status.success() { Ok(()) } else { Err(format!("{output:?}")) }
    };
    let host = Host::at(&root.0).unwrap();
    let define = ["virsh", "define", domain];
    let steps = [write(domain, Some(old), new), run(&define, &define)];
    host.apply(&steps, 1, &mut virsh).unwrap().unwrap();
    let text = fs::read_to_string(root.0.join(&domain[1..])).unwrap();
    assert_ne!(text, new, "the stub wrote its own form");
    assert!(text.contains("tickpolicy='discard'"), "{text}");
    host.rollback(None, false, &mut virsh).unwrap();
    assert_eq!(fs::read_to_string(root.0.join("defined")).unwrap().lines().count(), 2);
    fs::remove_file(root.0.join("defined")).unwrap();
    fs::remove_dir_all(root.0.join("bin")).unwrap();
    assert_eq!(root.state(), before);
}

#[test]
fn rollback_runs_opposites_newest_first() {
    let root = Root::new("order");
    let host = Host::at(&root.0).unwrap();
    let steps = [run(&["a"], &["undo-a"]), run(&["b"], &["undo-b"])];
    host.apply(&steps, 1, &mut nothing).unwrap();
    let mut undone = vec![];
    host.rollback(Some(1), false, &mut |command| {
        undone.push(command.join(" "));
        Ok(())
    })
    .unwrap();
    assert_eq!(undone, ["undo-b", "undo-a"]);
}

#[test]
fn paths_and_links_may_not_leave_the_root() {
    let root = Root::new("escape");
    let outside = Root::new("outside");
    std::os::unix::fs::symlink(&outside.0, root.0.join("etc/link")).unwrap();
    let host = Host::at(&root.0).unwrap();
    for path in ["/etc/link/etc/x", "/../x", "/etc/../../x"] {
        let outcome = host.apply(&[write(path, None, "x")], 1, &mut nothing);
        assert!(matches!(outcome, Err(Error::Outside { .. })), "{path}");
    }
    assert!(outside.state().is_empty());
}

#[test]
fn damaged_record_is_named() {
    let root = Root::new("damaged");
    root.put("var/lib/avicenna/changes/000001.json", "{", 0o644);
    let host = Host::at(&root.0).unwrap();
    assert!(matches!(host.records(), Err(Error::Record { .. })));
}

/// A `grubby` as far as it matters: words are appended, and taken out wherever they are.
const GRUBBY: &str = "#!/bin/sh\nfor entry in \"$ROOT\"/boot/loader/entries/*.conf; do\n\
    case $1 in --remove-args=*) sed -i \"s/ ${1#*=}//\" \"$entry\";;\n\
    --args=*) sed -i \"s/^options.*/& ${1#*=}/\" \"$entry\";; esac\ndone\n";

#[test]
fn what_a_program_wrote_is_restored_unless_another_process_wrote_there() {
    for has_new_kernel in [false, true] {
        let root = Root::new(&format!("grubby-{has_new_kernel}"));
        root.put("boot/loader/entries/a.conf", "options root=x amd_iommu=off quiet\n", 0o600);
        let before = root.state();
        root.put_program("bin/grubby", GRUBBY);
        let mut ran = 0;
        let mut grubby = |words: &[String]| {
            ran += 1;
            let output = std::process::Command::new(root.0.join("bin/grubby"))
                .args(&words[1..])
                .env("ROOT", &root.0)
                .output()
                .map_err(|error| error.to_string())?;
            if output.status.success() { Ok(()) } else { Err(format!("{output:?}")) }
        };
        let words = |words: [&str; 2]| words.map(String::from).to_vec();
        let steps = [step(Action::Run {
            command: words(["grubby", "--remove-args=amd_iommu=off"]),
            undo: words(["grubby", "--args=amd_iommu=off"]),
            keeps: vec!["/boot/loader/entries/*.conf".into(), "/etc/kernel/cmdline".into()],
        })];
        let host = Host::at(&root.0).unwrap();
        host.apply(&steps, 1, &mut grubby).unwrap().unwrap();
        let entry = root.0.join("boot/loader/entries/a.conf");
        assert_eq!(fs::read_to_string(&entry).unwrap(), "options root=x quiet\n");
        if has_new_kernel {
            fs::write(&entry, "options root=x quiet new\n").unwrap();
        }
        host.rollback(None, false, &mut grubby).unwrap();
        fs::remove_dir_all(root.0.join("bin")).unwrap();
        if has_new_kernel {
            assert_eq!(ran, 2, "the opposite runs");
            assert_eq!(
                fs::read_to_string(&entry).unwrap(),
                "options root=x quiet new amd_iommu=off\n"
            );
        } else {
            assert_eq!((ran, root.state()), (1, before), "to the byte, words in their order");
        }
    }
}
