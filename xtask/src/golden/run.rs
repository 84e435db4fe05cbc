//! One row: the program, called with everything fixed, and what it says.

use super::Outcome;
use super::image::{MARKER, initial_ram_disk};
use super::row::{Row, What};
use anyhow::{Context, Result, anyhow, bail, ensure};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A run that hangs ends here: virtual seconds.
const LIMIT: &str = "60s";
/// Files that are kept while rows run.
const WORK: &str = "target/golden";

/// Why a row has no result.
#[derive(Debug)]
pub enum Failure {
    /// Something that it needs is not to be had on this machine.
    Missing(String),
    Wrong(anyhow::Error),
}

impl From<anyhow::Error> for Failure {
    fn from(error: anyhow::Error) -> Self {
        Self::Wrong(error)
    }
}

/// What rows share.
pub struct Setting {
    program: PathBuf,
    work: PathBuf,
    guests: PathBuf,
    /// By name; none where it cannot be had.
    kernels: BTreeMap<&'static str, Option<PathBuf>>,
}

impl Setting {
    /// Fetches the kernels and builds the guests.
    pub fn prepare(root: &Path, program: &Path, rows: &[&Row]) -> Result<Self> {
        let work = root.join(WORK);
        fs::create_dir_all(&work).with_context(|| work.display().to_string())?;
        fs::write(work.join("initrd"), initial_ram_disk())?;
        let needs_guests =
            |row: &&&Row| !matches!(row.what, What::Boot { .. } | What::Restored { .. });
        if rows.iter().any(|row| needs_guests(&row)) {
            crate::guest::build()?;
        }
        let mut kernels = BTreeMap::new();
        for name in rows.iter().filter_map(|row| row.kernel()) {
            kernels.entry(name).or_insert_with(|| kernel(program, name));
        }
        let guests = root.join("target/guest");
        let program = program.canonicalize().with_context(|| program.display().to_string())?;
        Ok(Self { program, work, guests, kernels })
    }

    pub fn run(&self, row: &Row) -> Result<Outcome, Failure> {
        let made_with = self.made_with(row)?;
        let result = match row.what {
            What::Boot { cpu, kernel, options } => self.boot(cpu, kernel, options)?,
            What::Restored { cpu, kernel } => self.restored(row.name, cpu, kernel)?,
            What::Guest { cpu, image, append } => self.guest(cpu, image, append)?,
            What::BuiltIn { cpu, workload } => {
                let result = self.lab(row.name, cpu, "builtin", workload)?;
                let hash = result["run"]["trace_hash"].as_str().context("no trace hash")?;
                format!("{hash}; {}", exits(&result)?)
            }
            What::Lab { cpu, kernel, workload } => {
                exits(&self.lab(row.name, cpu, kernel, workload)?)?
            }
            What::Clauses { suite } => clauses(row.name, suite)?,
        };
        Ok(Outcome { made_with, result })
    }

    /// What the result rests on besides the program.
    fn made_with(&self, row: &Row) -> Result<String, Failure> {
        let mut parts = Vec::new();
        if let Some(name) = row.kernel() {
            let (release, path) = self.image(name)?;
            parts.push(format!("Linux {release} {}", checksum(&path)?));
        }
        for name in row.guests() {
            let path = self.guests.join(name).with_extension("elf");
            parts.push(format!("{name} {}", checksum(&path)?));
        }
        Ok(parts.join(", "))
    }

    /// A kernel's release and file.
    fn image(&self, name: &str) -> Result<(String, PathBuf), Failure> {
        let folder = self.kernels.get(name).cloned().flatten();
        let folder = folder.ok_or_else(|| Failure::Missing(format!("{name} cannot be fetched")))?;
        image_in(&folder).ok_or_else(|| anyhow!("{}: no vmlinuz", folder.display()).into())
    }

    fn boot(&self, cpu: &str, kernel: &str, options: &[&str]) -> Result<String, Failure> {
        let mut command = self.machine(cpu, kernel)?;
        Ok(end(&said(command.args(options))?)?)
    }

    /// The hash when the first process spoke, and in the end, after going on from the file.
    fn restored(&self, name: &str, cpu: &str, kernel: &str) -> Result<String, Failure> {
        let file = self.work.join(name).with_extension("snapshot");
        let saving = said(
            self.machine(cpu, kernel)?
                .arg("--snapshot-on")
                .arg(format!("console:{MARKER}"))
                .arg(&file),
        )?;
        let at = saving.lines().find_map(|line| {
            let (_, hash) = line.strip_prefix("avicenna: saved ")?.split_once(", hash ")?;
            Some(hash.to_owned())
        });
        let at = at.with_context(|| format!("no snapshot was saved: {saving}"))?;
        let mut restoring = self.machine_of(cpu);
        let after = said(restoring.arg("--restore").arg(&file))?;
        let (whole, after) = (end(&saving)?, end(&after)?);
        fs::remove_file(&file).context("cannot remove the snapshot")?;
        if whole != after {
            return Err(
                anyhow!("restored, the machine ended with {after} instead of {whole}").into()
            );
        }
        Ok(format!("{at}, then {after}"))
    }

    fn guest(&self, cpu: &str, image: &str, append: &str) -> Result<String> {
        let mut command = self.machine_of(cpu);
        // The file's name is the first word of a guest's command line, so that one with a folder
        // in it would be another machine in every checkout.
        command.current_dir(&self.guests).arg("--kernel").arg(format!("{image}.elf"));
        command.args(["--append", append]);
        end(&said(&mut command)?)
    }

    fn machine(&self, cpu: &str, kernel: &str) -> Result<Command, Failure> {
        let mut command = self.machine_of(cpu);
        command.arg("--kernel").arg(self.image(kernel)?.1);
        command.arg("--initrd").arg(self.work.join("initrd"));
        command.args(["--append", "console=ttyS0 quiet panic=-1"]);
        Ok(command)
    }

    fn machine_of(&self, cpu: &str) -> Command {
        let mut command = Command::new(&self.program);
        command.args(["machine", "run", "--cpu", cpu, "--cpus", "2", "--memory", "512M"]);
        command.args(["--until-virtual", LIMIT, "--format", "json"]);
        command
    }

    fn lab(&self, name: &str, cpu: &str, kernel: &str, workload: &str) -> Result<Value> {
        let file = self.work.join(name).with_extension("json");
        let _ = fs::remove_file(&file);
        let mut command = Command::new(&self.program);
        command.args(["lab", "run", "--kernel", kernel, "--cpu", cpu, "--workload", workload]);
        // As many rows run at once as there are processors.
        command.args(["--jobs", "1"]);
        // They change nothing but the time that it takes.
        command.args(["--draws", "0"]);
        let said = said(command.args(["--no-snapshot", "--format", "json", "-o"]).arg(&file))?;
        let text = fs::read_to_string(&file).with_context(|| format!("no result: {said}"))?;
        serde_json::from_str(&text).with_context(|| file.display().to_string())
    }
}

impl Row {
    fn kernel(&self) -> Option<&'static str> {
        match self.what {
            What::Boot { kernel, .. }
            | What::Restored { kernel, .. }
            | What::Lab { kernel, .. } => Some(kernel),
            What::Guest { .. } | What::BuiltIn { .. } | What::Clauses { .. } => None,
        }
    }

    /// The project's own guests that run in it.
    fn guests(&self) -> &'static [&'static str] {
        match self.what {
            What::Boot { .. } | What::Restored { .. } | What::Clauses { .. } => &[],
            What::Guest { image: "benchmark", .. } => &["benchmark"],
            What::Guest { image: "workload", .. } => &["workload"],
            What::Guest { .. } | What::BuiltIn { .. } => &["hypervisor"],
            What::Lab { .. } => &["benchmark"],
        }
    }
}

/// The folder of a distribution's kernel, which the program fetches for its lab.
pub(crate) fn kernel(program: &Path, name: &str) -> Option<PathBuf> {
    let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let cache = cache.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cache")))?;
    let folder = cache.join("avicenna/kernels").join(name);
    if !folder.is_dir() {
        eprintln!("fetching the kernel of {name}");
        let _ = said(Command::new(program).args(["lab", "exec", "--kernel", name, "--", "check"]));
    }
    folder.is_dir().then_some(folder)
}

/// A kernel's release and file in the folder of a package: in `boot`, or beside its modules.
pub(crate) fn image_in(folder: &Path) -> Option<(String, PathBuf)> {
    let name_of = |path: &Path| Some(path.file_name()?.to_str()?.to_owned());
    let in_boot = entries(&folder.join("boot"))
        .into_iter()
        .filter_map(|path| Some((name_of(&path)?.strip_prefix("vmlinuz-")?.to_owned(), path)));
    let beside = entries(&folder.join("usr/lib/modules"))
        .into_iter()
        .filter_map(|path| Some((name_of(&path)?, path.join("vmlinuz"))))
        .filter(|(_, path)| path.exists());
    in_boot.chain(beside).max()
}

fn entries(folder: &Path) -> Vec<PathBuf> {
    fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()).collect()
}

/// What the suite's own comparison prints, whether it holds or not.
fn clauses(name: &str, suite: &str) -> Result<String> {
    let output = crate::cargo::cargo()
        .args(["test", "--locked", "--quiet", "--package", "avicenna-clauses", "--test", suite])
        .args(["random_fields", "--", "--nocapture"])
        .output()
        .context("cannot start cargo")?;
    let text = String::from_utf8_lossy(&output.stdout);
    let start = format!("golden {name} ");
    let found = text.lines().find_map(|line| line.split_once(&start));
    let (_, hash) = found
        .with_context(|| format!("no hash: {text}{}", String::from_utf8_lossy(&output.stderr)))?;
    Ok(hash.trim().to_owned())
}

/// What a command writes to standard error, whatever its exit status: guests end with their own.
fn said(command: &mut Command) -> Result<String> {
    let output = command
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("cannot start {}", command.get_program().display()))?;
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    ensure!(output.status.code().is_some(), "{}: {text}", output.status);
    Ok(text)
}

/// Hash, instructions and how the run ended, of the closing line.
fn end(said: &str) -> Result<String> {
    let line = said.lines().rev().find(|line| line.starts_with('{'));
    let line: Value =
        serde_json::from_str(line.with_context(|| format!("no closing line: {said}"))?)?;
    let hash = line["trace_hash"].as_str().context("no trace hash")?;
    let outcome = line["outcome"].as_str().unwrap_or("not ended");
    Ok(format!("{hash}, {} instructions, {outcome}", line["instructions"]))
}

/// Exits of each comparison's arms, by reason, most frequent first as the lab has them.
fn exits(result: &Value) -> Result<String> {
    let mut texts = Vec::new();
    for comparison in result["comparisons"].as_array().context("no comparisons")? {
        let name = comparison["name"].as_str().context("a comparison without a name")?;
        for arm in ["off", "on"] {
            let mut counts = BTreeMap::new();
            for row in comparison["exits"].as_array().context("a comparison without exits")? {
                let reason = row["name"].as_str().context("a reason without a name")?;
                let count = row[arm]["exits"].as_u64().context("a reason without a count")?;
                counts.insert(reason, count);
            }
            counts.retain(|_, count| *count > 0);
            let counts: Vec<String> =
                counts.iter().map(|(reason, count)| format!("{reason} {count}")).collect();
            texts.push(format!("{name} {arm}: {}", counts.join(", ")));
        }
    }
    if texts.is_empty() {
        bail!("nothing was compared");
    }
    Ok(texts.join("; "))
}

/// Of a file: FNV-1a, which tells versions apart and nothing more.
fn checksum(path: &Path) -> Result<String> {
    let bytes = fs::read(path).with_context(|| path.display().to_string())?;
    let hash = bytes.iter().fold(0xCBF2_9CE4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01B3)
    });
    Ok(format!("{:08x}", hash as u32))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_closing_line_is_hash_instructions_and_outcome() {
        let text = "[    0.3] reboot: Power down\n{\"trace_hash\":\"00ab\",\"instructions\":12,\"outcome\":\"power-off\"}\n";
        assert_eq!(end(text).unwrap(), "00ab, 12 instructions, power-off");
        assert!(end("avicenna: no such model").is_err());
    }

    #[test]
    fn exits_are_counted_by_arm_and_reason_and_none_is_no_result() {
        let result = serde_json::json!({"comparisons": [{"name": "xAPIC", "exits": [
            {"name": "npf", "off": {"exits": 7}, "on": {"exits": 0}},
            {"name": "io", "off": {"exits": 2}, "on": {"exits": 2}},
        ]}]});
        assert_eq!(exits(&result).unwrap(), "xAPIC off: io 2, npf 7; xAPIC on: io 2");
        assert!(exits(&serde_json::json!({"comparisons": []})).is_err());
    }
}
