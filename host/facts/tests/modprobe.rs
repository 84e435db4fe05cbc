//! Options of modules as this program reads them, beside what modprobe itself says. Skipped where
//! it is not installed.

use facts::Inputs;
use rules::configuration::given::by_modprobe;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Files of one folder, and what kvm_amd's `avic` ends with.
type Row = (&'static [(&'static str, &'static str)], Option<&'static str>);

const ROWS: &[Row] = &[
    (&[("kvm.conf", "options kvm_amd avic=1\n")], Some("1")),
    (
        &[("a.conf", "options kvm_amd avic=1\n"), ("kvm.conf", "options kvm_amd avic=0\n")],
        Some("0"),
    ),
    (
        &[("z.conf", "options kvm_amd avic=1\n"), ("kvm.conf", "options kvm_amd avic=0\n")],
        Some("1"),
    ),
    (&[("a.conf", "options kvm-amd nested=1 \\\n  avic=0\n")], Some("0")),
    (&[("a.conf", "# off \\\noptions kvm_amd avic=0\n")], None),
    (&[("a.conf", "  options\tkvm_amd  avic=0\n")], Some("0")),
    (&[("a.conf", "options kvm_amd nested=1 # avic=0\n")], Some("0")),
    (&[("a.conf.bak", "options kvm_amd avic=0\n")], None),
    (&[("a.conf", "options kvm_intel avic=0\nalias x kvm_amd\nblacklist kvm_amd\n")], None),
    (&[("a.conf", "options kvm_amd avic=1 avic=0\n")], Some("0")),
];

fn modprobe() -> Option<PathBuf> {
    let folders = std::env::var_os("PATH")?;
    let folders = std::env::split_paths(&folders).chain(["/usr/sbin".into(), "/sbin".into()]);
    folders.map(|folder| folder.join("modprobe")).find(|path| path.is_file())
}

/// The last word for `avic` among what modprobe would give kvm_amd.
fn said_by_modprobe(program: &Path, folder: &Path) -> Option<String> {
    let output = Command::new(program).arg("-C").arg(folder).arg("-c").output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines()
        .filter_map(|line| line.strip_prefix("options kvm_amd "))
        .flat_map(str::split_whitespace)
        .filter_map(|word| word.strip_prefix("avic="))
        .next_back()
        .map(String::from)
}

#[test]
fn options_end_as_modprobe_has_them() {
    let program = modprobe();
    if program.is_none() {
        println!("skipped: the comparison with modprobe, which is not installed");
    }
    for (index, (files, expected)) in ROWS.iter().enumerate() {
        let mut inputs = Inputs::new("test");
        let folder =
            std::env::temp_dir().join(format!("avicenna-modprobe-{index}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        for (name, text) in *files {
            std::fs::write(folder.join(name), text).unwrap();
            inputs.insert(format!("etc/modprobe.d/{name}"), text.as_bytes().to_vec());
        }
        let found = by_modprobe(&facts::facts(&inputs), "kvm_amd", "avic");
        assert_eq!(found.map(|(value, _)| value).as_deref(), *expected, "{files:?}");
        if let Some(program) = &program {
            assert_eq!(said_by_modprobe(program, &folder).as_deref(), *expected, "{files:?}");
        }
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
