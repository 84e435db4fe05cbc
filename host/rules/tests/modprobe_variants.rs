//! Files of modprobe.d are repaired so that modprobe then gives the modules what was meant, or not
//! at all. Where modprobe is not installed our own reader judges alone.

use reading::{ConfigurationFile, Kernel, boolean};
use rules::configuration::Kind;
use rules::configuration::given::by_files;
use rules::inhibit::Vendor;
use rules::lint::Target;
use rules::lint::fix::fixed;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Ways to switch AVIC or nested paging off, among other lines.
const FORMS: [&str; 30] = [
    "options kvm_amd avic=0",
    "options kvm-amd avic=0",
    "options kvm_amd avic=N",
    "options kvm_amd avic=n",
    "options kvm_amd avic=off",
    "options kvm_amd nested=1 avic=0",
    "options kvm_amd avic=0 nested=1",
    "options kvm_amd nested=1 avic=0 sev=0",
    "options kvm_amd \\\n  avic=0",
    "options kvm_amd \\\n  nested=1 \\\n  avic=0",
    "options kvm_amd nested=1 \\\n\tavic=0 \\\n\tsev=0",
    "options\tkvm_amd\tavic=0",
    "options  kvm_amd   avic=0  nested=1",
    "  options kvm_amd avic=0",
    "\toptions kvm-amd nested=0 avic=0",
    "options kvm_amd avic=0 avic=0",
    "options kvm_amd avic=1 avic=0",
    "options kvm_amd avic=0 avic=1 avic=0",
    "options kvm_amd nested=1\noptions kvm_amd avic=0",
    "options kvm_amd avic=0\noptions kvm_amd nested=1",
    "options kvm_amd avic=1\noptions kvm-amd avic=0",
    "options kvm_amd avic=0\nblacklist nouveau",
    "alias amdvirt kvm_amd\noptions kvm_amd avic=0",
    "options kvm_amd avic=0\nsoftdep kvm_amd pre: vfio",
    "options kvm_amd npt=0 avic=1",
    "options kvm_amd npt=0\noptions kvm_amd avic=1",
    "options kvm_amd npt=0 avic=0",
    "options kvm_amd npt=0 \\\n avic=0 \\\n nested=1",
    "options kvm ignore_msrs=1\noptions kvm_amd avic=0",
    "options kvm_amd sev=1 avic=0 sev_es=1",
];

fn surrounded(form: &str) -> Vec<String> {
    let lines = format!("{form}\n");
    vec![
        lines.clone(),
        form.to_owned(),
        lines.replace('\n', "\r\n"),
        format!("\u{feff}# a mark\n{lines}"),
        format!("# AVIC is off\n\n{lines}\n# the end"),
        format!("# off \\\noptions kvm_amd avic=0\n{lines}"),
        format!("options vfio-pci ids=10de:13c0\n{lines}options kvm_intel nested=1\n"),
    ]
}

fn modprobe() -> Option<PathBuf> {
    let folders = std::env::var_os("PATH")?;
    let folders = std::env::split_paths(&folders).chain(["/usr/sbin".into(), "/sbin".into()]);
    folders.map(|folder| folder.join("modprobe")).find(|path| path.is_file())
}

/// What modprobe makes of a file: words of kvm_amd in order, and its other lines.
fn said(program: &Path, folder: &Path, text: &str) -> (Vec<String>, Vec<String>) {
    std::fs::write(folder.join("x.conf"), text).unwrap();
    let output = Command::new(program).arg("-C").arg(folder).arg("-c").output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let (mut words, mut others) = (vec![], vec![]);
    let all = String::from_utf8(output.stdout).unwrap();
    let own = all.lines().filter(|line| {
        ["options ", "alias amd", "blacklist ", "softdep "].iter().any(|key| line.starts_with(key))
    });
    for line in own {
        match line.strip_prefix("options kvm_amd ") {
            Some(rest) => words.extend(rest.split_whitespace().map(str::to_owned)),
            None => others.push(line.trim().to_owned()),
        }
    }
    others.sort();
    (words, others)
}

/// The value of an option among words: the last counts.
fn value(words: &[String], option: &str) -> Option<bool> {
    let mut given = words.iter().filter_map(|word| word.split_once('='));
    given.rfind(|(name, _)| *name == option).and_then(|(_, value)| boolean(value))
}

/// Words of options that no rule is about.
fn kept(words: &[String]) -> Vec<&String> {
    words.iter().filter(|word| !word.starts_with("avic=") && !word.starts_with("npt=")).collect()
}

#[test]
fn options_are_given_as_meant_whatever_way_they_are_written() {
    let folder = tempfile::tempdir().unwrap();
    let program = modprobe();
    let target = Target {
        vendors: vec![Vendor::Amd],
        kernel: Kernel::parse("6.12.10", None),
        ..Target::default()
    };
    let (mut changed, mut same) = (0, 0);
    for form in FORMS {
        for text in surrounded(form) {
            let fixed = fixed("x.conf", &text, Some(Kind::Modprobe), &target).unwrap().text;
            if fixed == text {
                same += 1;
                continue;
            }
            changed += 1;
            let context = format!("{text:?} gave {fixed:?}");
            let file = |text: &str| [ConfigurationFile { path: "x".into(), text: text.into() }];
            for (option, wanted) in [("avic", Some(true)), ("npt", None)] {
                let ours = by_files(&file(&fixed), "kvm_amd", option);
                let ours = ours.and_then(|(value, _)| boolean(value.trim()));
                assert!(ours == wanted || ours == Some(true), "{option}: {ours:?}, {context}");
            }
            let Some(program) = &program else { continue };
            let (old, others) = said(program, folder.path(), &text);
            let (new, others_after) = said(program, folder.path(), &fixed);
            assert_eq!(value(&new, "avic"), Some(true), "{new:?}, {context}");
            assert_ne!(value(&new, "npt"), Some(false), "{new:?}, {context}");
            assert_eq!(kept(&old), kept(&new), "{context}");
            assert_eq!(others, others_after, "{context}");
        }
    }
    let judge = program.map_or("our own reader".to_owned(), |path| path.display().to_string());
    println!("{changed} changed, {same} left alone, judged by {judge}");
    assert!(changed + same >= 200 && changed >= 150, "{changed} changed, {same} left");
}
