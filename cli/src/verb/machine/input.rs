//! Files for the machine, read with a bound: some, such as /dev/zero, never end.

use anyhow::{Context, bail};
use std::fs::File;
use std::io::Read;
use std::path::Path;

/// A file's bytes, `most` of them; `limit` says what that is.
pub fn read(path: &Path, most: u64, limit: &str) -> anyhow::Result<Vec<u8>> {
    let name = path.display();
    let file = File::open(path).with_context(|| format!("cannot open {name}"))?;
    let mut bytes = Vec::new();
    let read = file.take(most.saturating_add(1)).read_to_end(&mut bytes);
    read.with_context(|| format!("cannot read {name}"))?;
    if bytes.len() as u64 > most {
        bail!("{name} is larger than {} MiB, {limit}", most >> 20);
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_without_an_end_is_refused_and_one_that_just_fits_is_not() {
        let error = read(Path::new("/dev/zero"), 3 << 20, "the limit").expect_err("no end");
        assert_eq!(error.to_string(), "/dev/zero is larger than 3 MiB, the limit");
        let size = std::fs::metadata("Cargo.toml").expect("the manifest is there").len();
        let bytes = read(Path::new("Cargo.toml"), size, "the limit").expect("it fits");
        assert_eq!(bytes.len() as u64, size);
        assert!(read(Path::new("Cargo.toml"), size - 1, "the limit").is_err());
        let error = read(Path::new("/nonexistent"), 1, "").expect_err("no file");
        assert_eq!(error.to_string(), "cannot open /nonexistent");
    }
}
