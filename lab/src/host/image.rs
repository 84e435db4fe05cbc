//! What an emulated host starts with: the initial RAM disk.

pub(crate) mod root;

use crate::host::Host;
use crate::host::initramfs::Initramfs;
use crate::host::kernel::Kernel;
use crate::linux::place;
use crate::plan::{LinuxGuest, Needs};
use crate::program::which;
use anyhow::Context;
use rules::feature::Feature;
use rules::inhibit::Vendor;
use std::path::{Path, PathBuf};

/// Files of one `--add` at most, and their bytes together: it goes into RAM.
const MOST_FILES: usize = 20_000;
const MOST_BYTES: u64 = 512 << 20;

/// The common tools that a shell is given, where they are found.
const TOOLS: [&str; 8] = ["sh", "ls", "cat", "dmesg", "grep", "head", "tail", "ps"];
/// Where packages put the list of what a busybox can do, and what most can.
const APPLETS: &str = "sh ash ls cat cp mv rm ln mkdir rmdir touch chmod dmesg grep egrep sed awk head \
     tail sort uniq wc cut tr xargs find ps top kill killall sleep date time vi less more echo printf \
     test expr seq mount umount df du free uname env id hexdump od xxd dd tar gzip gunzip zcat strings \
     lsmod insmod rmmod modprobe lspci taskset nproc watch yes true false which stty clear reset tee";

/// What a host is given besides the kernel and this program.
#[derive(Clone, Copy, Debug, Default)]
pub struct Additions<'a> {
    /// `MODULE.NAME=VALUE` each.
    pub parameters: &'a [String],
    /// Files and folders of this machine, `PATH` or `PATH=PATH THERE` each.
    pub files: &'a [String],
}

impl Additions<'_> {
    /// The built-in hypervisor takes none.
    pub(crate) fn ensure_none(&self) -> anyhow::Result<()> {
        anyhow::ensure!(
            self.parameters.is_empty() && self.files.is_empty(),
            "the built-in hypervisor has no modules and no files: --parameter and --add need a \
             distribution's kernel"
        );
        Ok(())
    }

    /// Whether all parameters are such of the kernel's modules.
    pub(crate) fn check(&self, kernel: &Kernel) -> anyhow::Result<()> {
        self.parameters.iter().try_for_each(|parameter| check_parameter(kernel, parameter))
    }
}

/// The initial RAM disk of a host: this program, what the machine's times rest on, the modules with
/// their parameters, what was added, and what the workload's guests need.
pub fn initramfs(
    kernel: &Kernel,
    on: &Host,
    additions: &Additions<'_>,
    needs: &Needs,
) -> anyhow::Result<Initramfs> {
    let program = std::env::current_exe().context("cannot find this program's own file")?;
    let mut host = Initramfs::default();
    host.add_program("/init", &program)?;
    host.link("/bin/avicenna", "/init");
    let costs = on.costs()?.provenance();
    host.add(place::COSTS, serde_json::to_vec(&costs)?);
    for (index, (name, bytes)) in kernel.modules.iter().enumerate() {
        host.add(format!("{}/{index:02}-{name}", place::MODULES), bytes.clone());
    }
    additions.check(kernel)?;
    let mut parameters = additions.parameters.to_vec();
    for needed in needs.parameters {
        let name = needed.split('=').next().unwrap_or_default();
        if !parameters.iter().any(|one| one.starts_with(name)) {
            parameters.push((*needed).to_owned());
        }
    }
    if !parameters.is_empty() {
        host.add(place::PARAMETERS, parameters.join("\n").into_bytes());
    }
    additions.files.iter().try_for_each(|added| add(&mut host, added))?;
    if let Some(linux) = &needs.linux {
        host.add(place::GUEST_KERNEL, kernel.image.clone());
        host.add(place::GUEST_INITRD, guest(kernel, linux, &program)?.to_cpio());
    }
    if let Some(image) = &needs.image {
        let bytes = std::fs::read(image).with_context(|| image.display().to_string())?;
        host.add(place::GUEST_IMAGE, bytes);
    }
    Ok(host)
}

/// That of a Linux guest.
fn guest(kernel: &Kernel, linux: &LinuxGuest, program: &Path) -> anyhow::Result<Initramfs> {
    let mut guest = Initramfs::default();
    guest.add_program("/init", program)?;
    linux.root.iter().try_for_each(|root| root::add(&mut guest, root))?;
    if let Some(command) = &linux.command {
        add_command(&mut guest, command, linux.root.as_deref())?;
    }
    let is_its = |name: &str| {
        let name = name.strip_suffix(".ko").unwrap_or(name);
        linux.modules.contains(&name)
    };
    let own = kernel.modules.iter().filter(|(name, _)| is_its(name));
    for (index, (name, bytes)) in own.enumerate() {
        guest.add(format!("{}/{index:02}-{name}", place::MODULES), bytes.clone());
    }
    Ok(guest)
}

/// The same with a shell, and what to run there: a verb of this program, what was added or is
/// brought, or a program of this machine. That and its libraries come apart, for after the boot.
/// `shared` is where the program is on this machine if the host mounts its folder: then its
/// libraries come.
pub fn with_command(
    host: &mut Initramfs,
    words: &[String],
    verbs: &[&str],
    (brought, shared): (&Initramfs, Option<&Path>),
) -> anyhow::Result<(Vec<String>, Initramfs)> {
    let first = words.first().context("no command")?;
    let mut program = Initramfs::default();
    if verbs.contains(&first.as_str()) || first.starts_with('-') {
        let own = "/proc/self/exe".to_owned();
        return Ok((std::iter::once(own).chain(words.iter().cloned()).collect(), program));
    }
    if !host.contains(Path::new(first)) && !brought.contains(Path::new(first)) {
        let found = shared.map(Path::to_owned).or_else(|| which(first)).with_context(|| {
            format!(
                "{first:?} is neither a verb of avicenna ({}) nor a program of this machine",
                verbs.join(", ")
            )
        })?;
        // The path that it is called by: a busybox goes by its name.
        let name = if first.contains('/') { first.clone() } else { format!("/usr/bin/{first}") };
        program.add_program(&name, &found)?;
    }
    add_shell(host)?;
    program.subtract(host);
    Ok((words.to_vec(), program))
}

/// Files and folders of this machine that come to a host after its boot, `PATH` or `PATH=PATH
/// THERE` each.
pub fn brought(places: &[String]) -> anyhow::Result<Initramfs> {
    let mut files = Initramfs::default();
    places.iter().try_for_each(|place| add(&mut files, place))?;
    Ok(files)
}

/// The same with a shell of this machine besides, with the common tools that are found here.
pub fn with_shell(host: &mut Initramfs) -> anyhow::Result<()> {
    anyhow::ensure!(add_shell(host)?, "this machine has no shell to take along");
    Ok(())
}

/// A busybox has a line editor and remembers lines; without one, the shell of this machine serves.
fn add_shell(host: &mut Initramfs) -> anyhow::Result<bool> {
    if let Some(busybox) = which("busybox") {
        host.add_program("/bin/busybox", &busybox)?;
        for applet in APPLETS.split_ascii_whitespace() {
            host.link(format!("/bin/{applet}"), "busybox");
        }
        return Ok(true);
    }
    for tool in TOOLS {
        if let Some(program) = which(tool) {
            host.add_program(&format!("/bin/{tool}"), &program)?;
        }
    }
    Ok(which("sh").is_some())
}

/// Adds a file or a folder; programs come with the libraries that they are linked to.
fn add(host: &mut Initramfs, added: &str) -> anyhow::Result<()> {
    let (from, to) = added.split_once('=').unwrap_or((added, added));
    let from = Path::new(from);
    let found = from.canonicalize().with_context(|| from.display().to_string())?;
    let to = if added.contains('=') { PathBuf::from(to) } else { found.clone() };
    if found.is_file() {
        return host.add_program(&to.to_string_lossy(), &found);
    }
    let (mut files, mut bytes) = (0, 0);
    let mut waiting = vec![(found.clone(), to)];
    while let Some((from, to)) = waiting.pop() {
        if let Some(target) = link_to_keep(&found, &from)? {
            host.link(&to, target);
            continue;
        }
        let facts = std::fs::metadata(&from).with_context(|| from.display().to_string())?;
        if facts.is_dir() {
            let entries = std::fs::read_dir(&from);
            for entry in entries.with_context(|| from.display().to_string())?.flatten() {
                waiting.push((entry.path(), to.join(entry.file_name())));
            }
            continue;
        }
        (files, bytes) = (files + 1, bytes + facts.len());
        anyhow::ensure!(
            facts.is_file() && files <= MOST_FILES && bytes <= MOST_BYTES,
            "{added}: only files, at most {MOST_FILES} of {} MB together: they go into the \
             host's RAM",
            MOST_BYTES >> 20
        );
        host.add_program_of_folder(&to.to_string_lossy(), &from)?;
    }
    Ok(())
}

/// Where a link of a folder leads, if it comes as a link: within the folder, or nowhere here, since
/// it may be meant for the folder as a root. Others stand for what they lead to.
fn link_to_keep(folder: &Path, path: &Path) -> anyhow::Result<Option<PathBuf>> {
    let facts = std::fs::symlink_metadata(path).with_context(|| path.display().to_string())?;
    if !facts.is_symlink() {
        return Ok(None);
    }
    let target = std::fs::read_link(path).with_context(|| path.display().to_string())?;
    let stays = target.is_relative()
        && path.starts_with(folder)
        && path.canonicalize().is_ok_and(|end| end.starts_with(folder));
    Ok((stays || !path.exists()).then_some(target))
}

/// Whether a parameter is one of a module of this kernel, and not what the lab itself compares.
fn check_parameter(kernel: &Kernel, parameter: &str) -> anyhow::Result<()> {
    let parts =
        parameter.split_once('.').and_then(|(module, rest)| Some((module, rest.split_once('=')?)));
    let (module, (name, value)) =
        parts.with_context(|| format!("{parameter:?} is not MODULE.NAME=VALUE"))?;
    let modules: Vec<&str> =
        kernel.modules.iter().filter_map(|(file, _)| file.strip_suffix(".ko")).collect();
    anyhow::ensure!(
        modules.contains(&module),
        "{parameter}: the host does not load {module}; it loads {}",
        modules.join(", ")
    );
    let is_word = |text: &str| !text.is_empty() && !text.contains(char::is_whitespace);
    anyhow::ensure!(is_word(name) && is_word(value), "{parameter:?} is not MODULE.NAME=VALUE");
    let known = kernel.parameters_of(module);
    anyhow::ensure!(
        known.iter().any(|known| known == name),
        "{parameter}: module {module} has no parameter {name}; it has {}",
        known.join(", ")
    );
    for base in [Vendor::Amd, Vendor::Intel].map(Feature::of_vendor) {
        let own = base.parameter();
        anyhow::ensure!(
            (module, name) != (own.module, own.name),
            "{parameter}: {base} is what the lab compares: --feature, or --off of lab exec"
        );
    }
    Ok(())
}

/// A program of this machine, or of the guest's root, with its arguments, which the shell's quotes
/// do not reach.
fn add_command(guest: &mut Initramfs, command: &str, root: Option<&Path>) -> anyhow::Result<()> {
    let mut words = command.split_ascii_whitespace();
    let name = words.next().context("an empty command")?;
    let program = match root {
        Some(root) => root::which(root, name)
            .with_context(|| format!("no program {name} in {}", root.display()))?,
        None => {
            let program = which(name);
            let program = program.with_context(|| format!("no program {name} on this machine"))?;
            let path = program.to_string_lossy().into_owned();
            guest.add_program(&path, &program)?;
            path
        }
    };
    let lines: Vec<&str> = std::iter::once(program.as_str()).chain(words).collect();
    guest.add(place::GUEST_COMMAND, lines.join("\n").into_bytes());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_those_that_a_loaded_module_has_and_not_for_avic() {
        let module = |parameters: &[&str]| {
            let one = |name: &&str| format!("parmtype={name}:bool\0parm={name}:What it does\0");
            let all = parameters.iter().map(one).collect::<String>();
            format!("license=GPL\0{all}name=x\0").into_bytes()
        };
        let modules = vec![
            ("kvm.ko".to_owned(), module(&["halt_poll_ns", "a"])),
            ("kvm_amd.ko".to_owned(), module(&["avic", "vgif"])),
        ];
        let kernel = Kernel { name: "test".into(), image: Vec::new(), modules, lacks: Vec::new() };
        for (parameter, complaint) in [
            ("kvm.halt_poll_ns=0", None),
            ("kvm_amd.vgif=0", None),
            ("kvm.nosuch=1", Some("no parameter nosuch; it has a, halt_poll_ns")),
            ("kvm_intel.nested=0", Some("does not load kvm_intel; it loads kvm, kvm_amd")),
            ("kvm_amd.avic=0", Some("--feature")),
            ("kvm.halt_poll_ns", Some("MODULE.NAME=VALUE")),
            ("kvm.=0", Some("MODULE.NAME=VALUE")),
            ("kvm.a=0 b=1", Some("MODULE.NAME=VALUE")),
            ("halt_poll_ns=0", Some("MODULE.NAME=VALUE")),
        ] {
            let error = check_parameter(&kernel, parameter).err().map(|error| error.to_string());
            assert_eq!(error.is_some(), complaint.is_some(), "{parameter}: {error:?}");
            let complaint = complaint.unwrap_or_default();
            let error = error.unwrap_or_default();
            assert!(error.contains(complaint), "{parameter}: {error}");
        }
    }

    #[test]
    fn what_is_added_is_found_where_it_was_or_where_it_is_wanted() {
        let folder = tempfile::tempdir().expect("a writable folder");
        let root = folder.path().canonicalize().expect("a path");
        std::fs::create_dir(root.join("inner")).expect("a writable folder");
        std::fs::write(root.join("inner/file"), "text").expect("a writable folder");
        let mut host = Initramfs::default();
        let inner = root.join("inner").display().to_string();
        add(&mut host, &inner).expect("a folder");
        assert!(host.contains(&root.join("inner/file")));
        add(&mut host, &format!("{inner}=/there")).expect("a folder");
        assert!(host.contains(Path::new("/there/file")));
        let error = add(&mut host, "/no/such/file").expect_err("no such file");
        assert!(format!("{error:#}").contains("/no/such/file"), "{error:#}");
    }

    #[test]
    fn links_within_a_folder_and_to_nowhere_stay_and_others_stand_for_what_they_lead_to() {
        let folder = tempfile::tempdir().expect("a writable folder");
        let root = folder.path().canonicalize().expect("a path").join("root");
        std::fs::create_dir_all(root.join("usr/bin")).expect("a writable folder");
        std::fs::write(root.join("usr/bin/tool"), "text").expect("a writable folder");
        std::fs::write(folder.path().join("outside"), "text").expect("a writable folder");
        for (target, link) in [
            ("usr/bin", "bin"),
            (".", "usr/bin/X11"),
            ("/no/such", "usr/bin/own"),
            ("../outside", "taken"),
        ] {
            std::os::unix::fs::symlink(target, root.join(link)).expect("a link");
        }
        let mut host = Initramfs::default();
        add(&mut host, &format!("{}=/r", root.display())).expect("a folder");
        let link = |(path, to): (&Path, &Path)| format!("{} {}", path.display(), to.display());
        let links: Vec<String> = host.links().map(link).collect();
        assert_eq!(links, ["r/bin usr/bin", "r/usr/bin/X11 .", "r/usr/bin/own /no/such"]);
        let files: Vec<&Path> = host.files().map(|(path, _)| path).collect();
        assert_eq!(files, [Path::new("r/taken"), Path::new("r/usr/bin/tool")]);
    }

    #[test]
    fn a_command_is_a_verb_a_program_or_told_what_would_have_been_one() {
        let mut host = Initramfs::default();
        let words = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
        let none = Initramfs::default();
        let verb =
            with_command(&mut host, &words("check --format json"), &["check"], (&none, None));
        let (verb, brought) = verb.expect("a verb");
        assert_eq!(verb[..2], ["/proc/self/exe", "check"]);
        assert_eq!(brought.files().count(), 0);
        let mut folder = Initramfs::default();
        folder.add("/there/nosuch", Vec::new());
        let own = with_command(&mut host, &words("/there/nosuch -x"), &["check"], (&folder, None));
        assert_eq!(own.expect("a program that is brought").0[0], "/there/nosuch");
        let error =
            with_command(&mut host, &words("nosuch -x"), &["check", "why"], (&folder, None));
        let error = error.expect_err("no such program").to_string();
        assert!(error.contains("nosuch") && error.contains("check, why"), "{error}");
    }
}
