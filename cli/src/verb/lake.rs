//! Results as Parquet below a folder, and whose they are.

#[cfg(feature = "parquet")]
use anyhow::Context as _;
use facts::{Inputs, snapshot};
use report::lake::{Identity, Lake};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

#[derive(clap::Args)]
pub struct Rows {
    /// Write rows as Parquet below this folder, TABLE/dt=DATE/NAME.parquet (docs/fleet.md)
    #[arg(long, value_name = "DIR")]
    pub parquet: Option<PathBuf>,
    /// What the host is called in rows and pages [default: its own name, or that of its file]
    #[arg(long, value_name = "NAME")]
    pub host: Option<String>,
}

/// Microseconds since 1970.
pub fn now_us() -> u64 {
    us(SystemTime::now())
}

fn us(time: SystemTime) -> u64 {
    let passed = time.duration_since(UNIX_EPOCH);
    passed.map_or(0, |passed| u64::try_from(passed.as_micros()).unwrap_or(u64::MAX))
}

/// A microsecond since 1970 as people write it, UTC.
pub fn shown(time_us: u64) -> String {
    let seconds = time_us / 1_000_000;
    let (day, rest) = (seconds / 86_400, seconds % 86_400);
    let (hour, minute, second) = (rest / 3600, rest / 60 % 60, rest % 60);
    format!("{} {hour:02}:{minute:02}:{second:02} UTC", report::lake::date(day))
}

/// This host now.
pub fn of_this_host(kernel: Option<&str>, name: Option<&str>) -> Identity {
    Identity {
        host: name.map_or_else(own_name, str::to_owned),
        time_us: now_us(),
        kernel: kernel.map(str::to_owned),
        seed: None,
    }
}

/// What a file holds that says nothing of a host.
pub fn of_file(path: &Path) -> Identity {
    let time_us = modified(path).unwrap_or_else(now_us);
    Identity { host: file_name(path), time_us, kernel: None, seed: None }
}

/// The name that this host gives itself.
fn own_name() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    match name.trim() {
        "" => "localhost".into(),
        name => name.into(),
    }
}

/// A host: this one, or one that was read from a file.
pub fn of_host(
    inputs: &Inputs,
    path: Option<&Path>,
    kernel: Option<&str>,
    name: Option<&str>,
) -> Identity {
    let Some(path) = path else { return of_this_host(kernel, name) };
    let manifest = snapshot::manifest(inputs);
    let (host, time) = manifest.map_or((None, None), |manifest| (manifest.host, manifest.time));
    let time_us = time.map(|seconds| seconds.saturating_mul(1_000_000));
    Identity {
        host: name.map(str::to_owned).or(host).unwrap_or_else(|| file_name(path)),
        time_us: time_us.or_else(|| modified(path)).unwrap_or_else(now_us),
        kernel: kernel.map(str::to_owned),
        seed: None,
    }
}

/// A recording, which may say whose it is.
pub fn of_recording(origin: &capture::Origin, path: &Path, name: Option<&str>) -> Identity {
    let host = name.map(str::to_owned).or_else(|| origin.host_name.clone());
    Identity {
        host: host.unwrap_or_else(|| file_name(path)),
        time_us: modified(path).unwrap_or_else(now_us),
        kernel: origin.kernel_release.clone(),
        seed: None,
    }
}

/// The last change of a file is when a recording ended.
fn modified(path: &Path) -> Option<u64> {
    Some(us(std::fs::metadata(path).ok()?.modified().ok()?))
}

/// `node-7` of `/somewhere/node-7.tar.zst`.
fn file_name(path: &Path) -> String {
    let path = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let endings = [".tar.zst", ".tar.xz", ".tar.gz", ".tgz", ".tar", ".zst", ".json", ".data"];
    let stem = endings.iter().find_map(|ending| name.strip_suffix(ending));
    match stem.unwrap_or(&name) {
        "" => "unknown".into(),
        stem => stem.to_owned(),
    }
}

/// Writes every table's files whole or not at all; those of the same rows are replaced.
#[cfg(feature = "parquet")]
pub fn write(folder: &Path, lake: Lake) -> anyhow::Result<()> {
    use change::{Like, Root};
    let shown = folder.display();
    std::fs::create_dir_all(folder).with_context(|| format!("cannot make {shown}"))?;
    let root = Root::open(folder)?;
    for part in lake.parts() {
        let bytes = report::lake::parquet(&part.table)?;
        let failed = || format!("cannot write {} below {shown}", part.path);
        let place = root.place_made(&part.path, 0o777).with_context(failed)?;
        place.replace(&bytes, Like::Umask).with_context(failed)?;
    }
    Ok(())
}

#[cfg(not(feature = "parquet"))]
pub fn write(_: &Path, _: Lake) -> anyhow::Result<()> {
    anyhow::bail!("--parquet: this program was built without its feature parquet")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_is_called_after_its_file() {
        for (path, name) in [
            ("/nowhere/node-7.tar.zst", "node-7"),
            ("/nowhere/sosreport-a.tar.xz", "sosreport-a"),
            ("/nowhere/root", "root"),
            ("/nowhere/perf.data", "perf"),
        ] {
            assert_eq!(file_name(Path::new(path)), name);
        }
    }

    #[test]
    fn a_time_is_shown_as_the_day_and_the_time_of_day() {
        assert_eq!(shown(1_795_456_799_999_999), "2026-11-23 17:59:59 UTC");
    }
}
