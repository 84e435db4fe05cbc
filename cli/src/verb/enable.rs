//! `avicenna enable`: a plan for this host; with `--apply`, the plan carried out, recorded and
//! verified.

mod witness;

use super::format::Format;
use super::source::{self, Source};
use crate::status::Status;
use crate::terminal::{ask, clean, look, print, print_json};
use anyhow::bail;
use change::{Done, Host, Record};
use facts::Inputs;
use facts::folder::LEAVES;
use facts::inputs::Content;
use facts::wanted::PROGRAM_LIST;
use report::enable::is_included;
use rules::capability;
use rules::enable::{self, Action, Expected, Step};
use rules::{Answer, Needs};
use std::io::{self, BufRead, IsTerminal};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::{SystemTime, UNIX_EPOCH};

/// No configuration that a step writes has more.
const MOST_BYTES: u64 = 64 << 20;

#[derive(clap::Args)]
#[command(after_help = "Prints a plan and changes nothing, unless --apply is given.\n\
                  Exit status: 0 done, or nothing that a step would change; 1 there is something to do, 2 usage,\n\
                  3 could not tell.")]
pub struct Arguments {
    #[command(flatten)]
    source: Source,
    /// Carry the plan out: asks, backs up, records (see rollback), verifies
    #[arg(long)]
    apply: bool,
    /// Do not ask
    #[arg(long, requires = "apply")]
    yes: bool,
    /// With --root, run the folder's own programs inside it (chroot, as root) instead of naming
    /// them
    #[arg(long, requires = "apply")]
    chroot: bool,
    /// Take an optional step into the plan, by its identifier; `all` takes all of them
    #[arg(long, value_name = "STEP")]
    include: Vec<String>,
    /// How to print; the form of json is docs/schema/enable-1.json
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

pub fn run(arguments: Arguments) -> anyhow::Result<ExitCode> {
    let root = arguments.source.root.as_deref();
    let inputs = facts::with_initial_disk(arguments.source.inputs()?, root);
    let facts = facts::facts(&inputs);
    let report = capability::check(&facts);
    let plan = enable::plan(&facts, &report);
    let unread = unread(&inputs);
    for line in &unread {
        remark!("avicenna: {line}: what it says is not in the plan");
    }
    if arguments.format == Format::Json {
        print_json(&plan)?;
    } else {
        print(&report::enable::text(&plan, &arguments.include, look()));
    }
    let steps: Vec<Step> = plan
        .steps
        .iter()
        .filter(|step| !step.is_optional || is_included(&arguments.include, step))
        .cloned()
        .collect();
    if facts.incomplete.is_some() {
        return Ok(source::status(&facts, Answer::Unknown));
    }
    if arguments.apply {
        let status = apply(&arguments, &steps, &plan.expects)?;
        // What was not read may contradict what was written.
        return Ok(if unread.is_empty() { status } else { Status::CannotTell.into() });
    }
    let is_open =
        !unread.is_empty() || report.answers.iter().any(|row| row.answer == Answer::Unknown);
    Ok(match (steps.is_empty(), is_open) {
        (false, _) => Status::Findings.into(),
        // What is not known may want a step.
        (true, true) if plan.blocked.is_empty() => Status::CannotTell.into(),
        (true, _) => ExitCode::SUCCESS,
    })
}

/// What a plan rests on, with all that is below.
const GROUNDS: [&str; 12] = [
    "proc/cmdline",
    "proc/cpuinfo",
    "proc/sys/kernel/osrelease",
    "sys/module",
    "sys/class/iommu",
    "etc",
    "boot",
    "efi",
    "run/modprobe.d",
    "usr",
    "lib/modprobe.d",
    PROGRAM_LIST,
];

/// What a plan rests on and could not be read, or whose existence could not be asked. A link out of
/// a copy of a host is none of the copy's files.
fn unread(inputs: &Inputs) -> Vec<String> {
    let is_below = |path: &str, folder: &str| {
        path.strip_prefix(folder).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    let is_ground =
        |path: &str| GROUNDS.iter().any(|ground| is_below(path, ground) || is_below(ground, path));
    let files = inputs.files().filter(|(path, _)| is_ground(path));
    let unread = files.filter_map(|(path, content)| match content {
        Content::Unreadable(why) if why != LEAVES => Some(format!("/{}: {why}", clean(path))),
        Content::Unreadable(_) | Content::Bytes(_) => None,
    });
    unread.collect()
}

fn apply(arguments: &Arguments, steps: &[Step], expects: &[Expected]) -> anyhow::Result<ExitCode> {
    let root = root(arguments.source.root.as_deref())?;
    if !steps.iter().any(|step| !matches!(step.action, Action::Tell { .. })) {
        say!("nothing to apply");
        return Ok(ExitCode::SUCCESS);
    }
    if !arguments.yes && !confirmed("Apply?")? {
        bail!("not applied");
    }
    let host = Host::at(&root)?;
    let time = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |passed| passed.as_secs());
    let mut programs = Programs { root: &root, is_entered: arguments.chroot, left: vec![] };
    let record = host.apply(steps, time, &mut |command| programs.run(command))?;
    match &record {
        Some(record) => {
            say!("applied and recorded as {}; avicenna rollback takes it back", record.number);
            record.told.iter().for_each(|line| say!("{}", clean(line)));
        }
        None => say!("everything was done already"),
    }
    for command in &programs.left {
        say!("run on the host itself: {}", clean(&command.join(" ")));
    }
    // Others are asked on this host alone: what lies in a copy of one is not run.
    if root == Path::new("/") && record.is_some() {
        match witness::agree(steps, expects) {
            Ok(lines) => lines.iter().for_each(|line| say!("{}", clean(line))),
            Err(why) => bail!("{why}; avicenna rollback takes back what was done"),
        }
    }
    verify(arguments, record.as_ref(), expects, &root)
}

/// Reads the host again: no chosen step may be left that would write a file. What needs a reload or
/// a reboot is named.
fn verify(
    arguments: &Arguments,
    record: Option<&Record>,
    expects: &[Expected],
    root: &Path,
) -> anyhow::Result<ExitCode> {
    let facts = arguments.source.facts()?;
    let again = enable::plan(&facts, &capability::check(&facts));
    let chosen: Vec<&Step> = again
        .steps
        .iter()
        .filter(|step| !step.is_optional || is_included(&arguments.include, step))
        .collect();
    for done in record.iter().flat_map(|record| &record.done) {
        if let Done::Write { path, after, .. } = done {
            let target = root.join(path.trim_start_matches('/'));
            let found = source::text(&target, MOST_BYTES, "more than a configuration has")?;
            let is_wanted_otherwise = chosen.iter().any(
                |step| matches!(&step.action, Action::Write { path: other, .. } if other == path),
            );
            if &found != after || is_wanted_otherwise {
                bail!("{path} does not hold what was to be written; avicenna rollback restores it");
            }
            say!("verified: {}", clean(path));
        }
    }
    // What modprobe makes of all files together, ours or not.
    for expected in expects {
        let Expected { module, option, value } = expected;
        if let Some((found, place)) = expected.contradicted(&facts) {
            bail!(
                "{module} would still be given {option}={found} by {place}; avicenna rollback takes back what was done"
            );
        }
        say!("verified: modprobe gives {module} {option}={value}");
    }
    let mut needs: Vec<String> = chosen.iter().map(|step| step.needs.to_string()).collect();
    needs.extend(definitions_changed(record).then(|| Needs::VmRestart.to_string()));
    needs.sort_unstable();
    needs.dedup();
    if needs.is_empty() {
        say!("verified: in effect");
    } else {
        say!("takes effect after: {}", needs.join("; "));
    }
    Ok(ExitCode::SUCCESS)
}

/// Whether a virtual machine's definition was changed: it is read again when the machine starts.
fn definitions_changed(record: Option<&Record>) -> bool {
    let done = record.into_iter().flat_map(|record| &record.done);
    let mut paths = done.filter_map(|done| match done {
        Done::Write { path, .. } => Some(path),
        Done::Run { .. } => None,
    });
    paths.any(|path| path.starts_with("/etc/libvirt/") || path.starts_with("/etc/pve/"))
}

/// The folder to change: this host's, or a copy of one.
pub fn root(given: Option<&Path>) -> anyhow::Result<PathBuf> {
    match given {
        None => Ok("/".into()),
        Some(path) if path.is_dir() => Ok(path.into()),
        Some(path) => bail!("{}: a recorded host cannot be changed, only a folder", path.display()),
    }
}

pub fn confirmed(question: &str) -> anyhow::Result<bool> {
    if !io::stdin().is_terminal() {
        bail!("standard input is not a terminal: pass --yes to skip the question");
    }
    ask(&format!("{question} [y/N] "));
    let mut answer = String::new();
    io::stdin().lock().read_line(&mut answer)?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}

/// The programs of the host that is changed.
pub struct Programs<'r> {
    pub root: &'r Path,
    /// A copy of a host is entered (chroot) to run its own programs.
    pub is_entered: bool,
    /// For a copy that is not entered nothing runs: what is left for the operator.
    pub left: Vec<Vec<String>>,
}

impl Programs<'_> {
    pub fn run(&mut self, command: &[String]) -> Result<(), String> {
        let is_copy = self.root != Path::new("/");
        if is_copy && !self.is_entered {
            self.left.push(command.to_vec());
            return Ok(());
        }
        let (program, arguments) = command.split_first().ok_or("no program")?;
        remark!("running {}", clean(&command.join(" ")));
        let mut process = match is_copy {
            true => Command::new("chroot"),
            false => Command::new(program),
        };
        if is_copy {
            process.arg(self.root).arg(program);
        }
        let status = process.args(arguments).status().map_err(|error| error.to_string())?;
        if status.success() { Ok(()) } else { Err(status.to_string()) }
    }
}
