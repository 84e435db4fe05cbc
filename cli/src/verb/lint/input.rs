//! What to judge: files, standard input, and the configurations inside a host's folder or archive.

use anyhow::Context;
use change::{Place, Root, Told};
use facts::archive::Packing;
use facts::inputs::Content;
use facts::source;
use reading::Kernel;
use reading::cpu::Vendor as CpuVendor;
use rules::configuration::given::{Given, MOST_OPTIONS};
use rules::configuration::{Kind, ModuleOption};
use rules::inhibit::Vendor;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::rc::Rc;

/// One text to judge.
pub struct Input {
    pub name: String,
    pub source: Origin,
    pub text: Result<String, String>,
    /// What its place in a host says it is.
    pub kind: Option<Kind>,
    /// What its host says.
    pub vendors: Vec<Vendor>,
    pub kernel: Option<Kernel>,
    /// Beside what it is judged.
    pub others: Others,
}

/// What else gives options to modules and the kernel. It is read when an input is judged, since
/// that of all inputs together is as many times as much.
pub enum Others {
    Nothing,
    /// The files of a host, of which this is one.
    Host {
        given: Rc<Given>,
        file: String,
        is_of_modprobe: bool,
    },
    /// Files of one folder by their names, and which of them it is.
    Folder {
        files: Rc<Vec<(OsString, Vec<ModuleOption>)>>,
        own: OsString,
    },
}

impl Others {
    /// Whatever else there is.
    pub fn all(&self) -> Vec<ModuleOption> {
        match self {
            Others::Nothing => Vec::new(),
            Others::Host { given, .. } => given.all(),
            Others::Folder { files, own } => options(files, |name| name != own),
        }
    }

    /// What of it counts more than the input.
    pub fn later(&self) -> Vec<ModuleOption> {
        match self {
            Others::Host { given, file, is_of_modprobe: true } => given.after(file),
            Others::Nothing | Others::Host { .. } => Vec::new(),
            Others::Folder { files, own } => options(files, |name| name > own),
        }
    }
}

fn options(
    files: &[(OsString, Vec<ModuleOption>)],
    counts: impl Fn(&OsString) -> bool,
) -> Vec<ModuleOption> {
    let files = files.iter().filter(|(name, _)| counts(name));
    files.flat_map(|(_, options)| options).take(MOST_OPTIONS).cloned().collect()
}

/// Where a text comes from, and so whether it can be repaired.
pub enum Origin {
    StandardInput,
    File(Spot),
    /// Why it cannot be written.
    Fixed(&'static str),
}

/// A file that can be repaired, and how it is reached.
pub enum Spot {
    /// A user named it.
    Named(PathBuf),
    /// It was found in a folder, and is not looked for anywhere else.
    Below(Rc<Root>, String),
}

impl Spot {
    pub fn shown(&self) -> String {
        match self {
            Spot::Named(path) => super::shown(path),
            Spot::Below(root, path) => super::shown(&root.path().join(path)),
        }
    }

    fn place(&self) -> Result<Option<Place>, change::Error> {
        match self {
            Spot::Named(path) => Place::of(path).map(Some),
            Spot::Below(root, path) => root.place(path),
        }
    }

    /// Puts another text in the place of the one that was judged.
    pub fn replace(&self, before: &str, after: &str) -> anyhow::Result<Told> {
        let place = self.place()?.with_context(|| format!("{} is gone", self.shown()))?;
        Ok(place.replace_text(before, after)?)
    }

    fn read(&self) -> Result<Vec<u8>, String> {
        let place = self.place().map_err(|error| error.to_string())?;
        let file = place.map_or(Ok(None), |place| place.open());
        let file = file.map_err(|error| error.to_string())?.ok_or("it is gone")?;
        source::bounded(file, MOST_BYTES).map_err(|error| error.to_string())
    }
}

impl Input {
    fn new(name: String, source: Origin, bytes: Result<Vec<u8>, String>) -> Self {
        let text = bytes.and_then(|bytes| source::text(bytes).map_err(|why| why.to_string()));
        let (text, source) = match text {
            Ok(source::Text { text, is_whole: true }) => (Ok(text), source),
            Ok(source::Text { text, .. }) => (Ok(text), Origin::Fixed("it is not UTF-8 text")),
            Err(why) => (Err(why), source),
        };
        Self {
            name,
            source,
            text,
            kind: None,
            vendors: Vec::new(),
            kernel: None,
            others: Others::Nothing,
        }
    }

    /// Why `--fix` cannot change it.
    pub fn fixed_reason(&self) -> Option<&'static str> {
        match self.source {
            Origin::Fixed(why) => Some(why),
            _ => None,
        }
    }
}

/// No configuration has more.
const MOST_BYTES: u64 = rules::configuration::MAX_BYTES as u64;

const ARCHIVE: &str = "an archive is a record of a host; unpack it, or repair the host's own files";
const RUNNING: &str = "it is what runs, made by the kernel; repair what it was started from";
const RECORDED: &str = "it is a record of what ran, and nothing is started from it";
const PACKAGED: &str = "it belongs to a package; a file of the same name in /etc hides it";
const ENTRY: &str =
    "boot loader entries are made by tools, which make them again; avicenna enable knows which";
const LIVE: &str = "this host's own files are changed by avicenna enable, which can take it back";

/// Why a named file, folder or archive cannot be repaired at all.
pub fn refusal(file: &Path) -> Option<&'static str> {
    let real = file.canonicalize().ok()?;
    if real == Path::new("/") {
        Some(LIVE)
    } else if ["/proc", "/sys"].iter().any(|folder| real.starts_with(folder)) {
        Some(RUNNING)
    } else {
        Packing::of(&real).map(|_| ARCHIVE)
    }
}

/// What the named files hold.
#[derive(Default)]
pub struct Collected {
    pub inputs: Vec<Input>,
    /// What was left out or is missing, in words.
    pub remarks: Vec<String>,
    /// Something could not be read that may have held more.
    pub is_incomplete: bool,
}

/// All inputs behind the named files.
pub fn collect(files: &[PathBuf]) -> anyhow::Result<Collected> {
    let mut found = Collected::default();
    for file in files {
        if file.as_os_str() == "-" {
            let bytes = source::bounded(std::io::stdin(), MOST_BYTES);
            let bytes = bytes.map_err(|error| error.to_string());
            found.inputs.push(Input::new("<stdin>".to_owned(), Origin::StandardInput, bytes));
        } else if file.is_dir() || Packing::of(file).is_some() {
            of_host(file, &mut found)?;
        } else {
            found.inputs.push(of_file(file));
        }
    }
    beside(&mut found.inputs);
    Ok(found)
}

/// More files than a folder of modprobe.d has.
const MODPROBE_LIMIT: usize = 1_000;

/// Files of one folder `modprobe.d` are one input, also if a user names them one by one: each is
/// judged with what the others give, and with what modprobe reads after it.
fn beside(inputs: &mut [Input]) {
    let read = |input: &Input| {
        let path = Path::new(&input.name);
        let folder = path.parent().filter(|folder| folder.ends_with("modprobe.d"))?;
        let text = input.text.as_ref().ok().filter(|_| input.kind.is_none())?;
        let kind = Some(Kind::Modprobe);
        let contents =
            rules::configuration::read(&input.name, text, kind, &Default::default()).ok()?;
        Some((folder.to_owned(), path.file_name()?.to_owned(), contents.options))
    };
    let files: Vec<_> = inputs.iter().map(read).collect();
    if files.iter().flatten().count() > MODPROBE_LIMIT {
        return;
    }
    let places: Vec<_> = files
        .iter()
        .map(|file| file.as_ref().map(|(folder, name, _)| (folder.clone(), name.clone())))
        .collect();
    let mut folders: BTreeMap<PathBuf, Vec<_>> = BTreeMap::new();
    for (folder, name, options) in files.into_iter().flatten() {
        folders.entry(folder).or_default().push((name, options));
    }
    let folders: BTreeMap<_, _> =
        folders.into_iter().map(|(folder, files)| (folder, Rc::new(files))).collect();
    for (input, place) in inputs.iter_mut().zip(places) {
        let Some((folder, own)) = place else { continue };
        input.others = Others::Folder { files: folders[&folder].clone(), own };
    }
}

fn of_file(file: &Path) -> Input {
    let bytes = source::read(file, MOST_BYTES).map_err(|error| error.to_string());
    let source = match refusal(file) {
        Some(why) => Origin::Fixed(why),
        None => Origin::File(Spot::Named(file.to_owned())),
    };
    Input::new(super::shown(file), source, bytes)
}

/// A file that was found in a folder: an ordinary one, that has not become another meanwhile.
fn below(root: Option<&Rc<Root>>, folder: &Path, file: &Path) -> Input {
    let path = file.strip_prefix(folder).ok().and_then(Path::to_str);
    let (Some(root), Some(path)) = (root, path) else {
        let why = "its name is not UTF-8 text, or its folder cannot be opened";
        return Input::new(super::shown(file), Origin::Fixed(why), Err(why.to_owned()));
    };
    let spot = Spot::Below(root.clone(), path.to_owned());
    let bytes = spot.read();
    let source = match refusal(file) {
        Some(why) => Origin::Fixed(why),
        None => Origin::File(spot),
    };
    Input::new(super::shown(file), source, bytes)
}

/// Most entries of a folder of configurations, and how deep they are looked for.
const ENTRIES_LIMIT: usize = 20_000;
const DEPTH_LIMIT: usize = 8;

/// The configurations in a folder that is not a host's: known by what they hold.
fn of_folder(folder: &Path, found: &mut Collected) {
    let source::Walk { files, is_cut } = source::walk(folder, ENTRIES_LIMIT, DEPTH_LIMIT);
    let mut left_out = 0;
    let root = Root::open(folder).ok().map(Rc::new);
    for file in &files {
        let input = below(root.as_ref(), folder, file);
        let is_known =
            input.text.as_ref().is_ok_and(|text| rules::configuration::detect(text).is_some());
        if is_known {
            found.inputs.push(input);
        } else {
            left_out += 1;
        }
    }
    let name = super::shown(folder);
    if left_out > 0 {
        let count = if left_out == 1 { "1 file".to_owned() } else { format!("{left_out} files") };
        found.remarks.push(format!("{name}: {count} not known as configurations, left out"));
    }
    if is_cut {
        found.is_incomplete = true;
        found.remarks.push(format!("{name}: more files or folders than are looked through"));
    }
}

/// The configurations that a recorded host holds, or a folder that is none.
fn of_host(path: &Path, found: &mut Collected) -> anyhow::Result<()> {
    let inputs = facts::recorded(path)?;
    let is_host = ["proc/", "sys/", "etc/", "sos_commands/", "avicenna/"]
        .iter()
        .any(|folder| inputs.has_below(folder));
    if path.is_dir() && !is_host {
        of_folder(path, found);
        return Ok(());
    }
    let root = path.is_dir().then(|| Root::open(path).ok()).flatten().map(Rc::new);
    let facts = facts::facts(&inputs);
    if let Some(why) = &facts.incomplete {
        found.is_incomplete = true;
        found.remarks.push(format!("{}: {why}", super::shown(path)));
    }
    let kernel = facts.running_kernel();
    let mut vendors: Vec<Vendor> =
        facts.cpus.iter().filter_map(|cpu| vendor(cpu.vendor.as_ref()?)).collect();
    vendors.sort();
    vendors.dedup();
    let given = Rc::new(Given::of(&facts));
    if given.is_cut {
        found.is_incomplete = true;
        let (name, most) = (super::shown(path), MOST_OPTIONS);
        found
            .remarks
            .push(format!("{name}: more than {most} options of modules, the rest left out"));
    }
    // modprobe leaves out a file whose name an earlier folder has too.
    let modprobe = facts.modprobe.get().map(Vec::as_slice).unwrap_or_default();
    for (name, content) in inputs.files() {
        let Some(kind) = kind_of(name) else { continue };
        let bytes = match content {
            Content::Bytes(bytes) => Ok(bytes.clone()),
            Content::Unreadable(why) => Err(why.clone()),
        };
        let input = Input::new(
            format!("{}:/{name}", super::shown(path)),
            origin(path, root.as_ref(), name),
            bytes,
        );
        // Most of a host's files of these kinds have nothing to do with virtual machines.
        let is_empty = input.text.as_ref().is_ok_and(|text| text.trim().is_empty());
        let concerns = match (&input.text, kind) {
            (Ok(text), Kind::Modprobe) => {
                let is_hidden = modprobe.iter().all(|file| file.path[1..] != *name);
                !is_hidden && (text.contains("kvm") || text.contains("allow_unsafe_interrupts"))
            }
            // Drop-ins have other settings too.
            (Ok(text), Kind::KernelCommandLine) if name.contains("/grub.d/") => {
                text.contains("GRUB_CMDLINE_LINUX")
            }
            (Ok(text), Kind::ProcessCommandLine) => {
                rules::configuration::read(name, text, Some(kind), &Default::default()).is_ok()
            }
            _ => true,
        };
        if is_empty || !concerns {
            continue;
        }
        found.inputs.push(Input {
            kind: Some(kind),
            vendors: vendors.clone(),
            kernel: kernel.clone(),
            others: Others::Host {
                given: given.clone(),
                file: format!("/{name}"),
                is_of_modprobe: kind == Kind::Modprobe,
            },
            ..input
        });
    }
    Ok(())
}

/// Where a host's file can be repaired.
fn origin(host: &Path, root: Option<&Rc<Root>>, name: &str) -> Origin {
    if let Some(why) = refusal(host) {
        Origin::Fixed(why)
    } else if name.starts_with("boot/") || name.starts_with("efi/") {
        Origin::Fixed(ENTRY)
    } else if name.starts_with("etc/") {
        match root {
            Some(root) => Origin::File(Spot::Below(root.clone(), name.to_owned())),
            None => Origin::Fixed("its folder cannot be opened"),
        }
    } else if name.starts_with("usr/") || name.starts_with("lib/") {
        Origin::Fixed(PACKAGED)
    } else if name.starts_with("proc/") || name.contains("run/") {
        Origin::Fixed(RUNNING)
    } else {
        Origin::Fixed(RECORDED)
    }
}

fn vendor(vendor: &CpuVendor) -> Option<Vendor> {
    match vendor {
        CpuVendor::Amd | CpuVendor::Hygon => Some(Vendor::Amd),
        CpuVendor::Intel | CpuVendor::Zhaoxin => Some(Vendor::Intel),
        CpuVendor::Other(_) => None,
    }
}

/// What a file of a host is, by its place.
fn kind_of(path: &str) -> Option<Kind> {
    let is_in = |folder: &str, extension: &str| {
        path.strip_prefix(folder)
            .is_some_and(|rest| !rest.contains('/') && rest.ends_with(extension))
    };
    const MODPROBE: [&str; 5] = [
        "etc/modprobe.d/",
        "run/modprobe.d/",
        "usr/local/lib/modprobe.d/",
        "usr/lib/modprobe.d/",
        "lib/modprobe.d/",
    ];
    const ENTRIES: [&str; 3] =
        ["boot/loader/entries/", "boot/efi/loader/entries/", "efi/loader/entries/"];
    if ["proc/cmdline", "etc/default/grub", "etc/kernel/cmdline"].contains(&path)
        || is_in("etc/default/grub.d/", ".cfg")
        || ENTRIES.iter().any(|folder| is_in(folder, ".conf"))
    {
        Some(Kind::KernelCommandLine)
    } else if MODPROBE.iter().any(|folder| is_in(folder, ".conf")) {
        Some(Kind::Modprobe)
    } else if ["etc/libvirt/qemu/", "run/libvirt/qemu/", "var/run/libvirt/qemu/"]
        .iter()
        .any(|folder| is_in(folder, ".xml"))
    {
        Some(Kind::LibvirtXml)
    } else if is_in("var/log/libvirt/qemu/", ".log") {
        Some(Kind::LibvirtLog)
    } else if is_in("etc/pve/qemu-server/", ".conf") {
        Some(Kind::Proxmox)
    } else {
        let pid = path.strip_prefix("proc/")?.strip_suffix("/cmdline")?;
        pid.parse::<u32>().ok().map(|_| Kind::ProcessCommandLine)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_a_host_are_known_by_their_place() {
        for (path, expected) in [
            ("proc/cmdline", Some(Kind::KernelCommandLine)),
            ("proc/4711/cmdline", Some(Kind::ProcessCommandLine)),
            ("proc/self/cmdline", None),
            ("etc/modprobe.d/kvm.conf", Some(Kind::Modprobe)),
            ("usr/local/lib/modprobe.d/kvm.conf", Some(Kind::Modprobe)),
            ("etc/default/grub.d/50-cloud.cfg", Some(Kind::KernelCommandLine)),
            ("boot/loader/entries/a.conf", Some(Kind::KernelCommandLine)),
            ("etc/modprobe.d/kvm.conf.bak", None),
            ("etc/libvirt/qemu/a.xml", Some(Kind::LibvirtXml)),
            ("etc/libvirt/qemu/networks/default.xml", None),
            ("var/log/libvirt/qemu/a.log", Some(Kind::LibvirtLog)),
            ("etc/pve/qemu-server/100.conf", Some(Kind::Proxmox)),
            ("etc/passwd", None),
        ] {
            assert_eq!(kind_of(path), expected, "{path}");
        }
    }
}
