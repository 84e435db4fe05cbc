//! File work, in a Linux guest with a disk: the patterns of iozone's series, records of 64 KB.
//!
//! What goes past the page cache (`O_DIRECT`) is a request and an interrupt of the disk for each
//! record; `fread` and `fwrite` go through it, as with iozone, and hardly interrupt.

use super::figure::{Figure, rate};
use super::kind::{Conditions, Workload};
use crate::linux::console::mark;
use crate::linux::module::Modules;
use crate::linux::place::GUEST_COMMAND_LINE;
use crate::linux::together::wait_for_others;
use crate::plan::{LinuxGuest, Needs};
use crate::protocol::{Step, WINDOW_BEGINS, WINDOW_ENDS};
use anyhow::Context;
use bench::Configuration;
use serde_json::Value as Json;
use std::fs::File;
use std::io::{Read, Write};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::time::{Duration, Instant};

/// Of the guest's disk.
const DISK: u64 = 8 << 20;
const RECORD: usize = 64 << 10;
/// Of the disk.
const RECORDS: u64 = DISK / RECORD as u64;
/// Of each series that goes past the page cache, so that it takes more than a scheduler's slice.
const PASSES: u64 = 4;
/// What `O_DIRECT` asks of a buffer's address.
const ALIGNMENT: usize = 4096;
const DEVICE: &str = "/dev/vda";
/// For the kernel to have found it.
const PATIENCE: Duration = Duration::from_secs(10);
/// Whatever the guest's kernel has not built in.
const MODULES: [&str; 6] = [
    "virtio",
    "virtio_ring",
    "virtio_pci_legacy_dev",
    "virtio_pci_modern_dev",
    "virtio_pci",
    "virtio_blk",
];

pub(super) struct FileWork;

impl Workload for FileWork {
    fn name(&self) -> &'static str {
        "file"
    }

    fn summary(&self) -> &'static str {
        "reads and writes of a disk in a Linux guest, as iozone has them"
    }

    fn needs(&self) -> Needs {
        let linux = LinuxGuest { modules: &MODULES, ..LinuxGuest::default() };
        Needs { modules: &["virtio_blk"], linux: Some(linux), ..Needs::default() }
    }

    fn steps(&self, conditions: &Conditions<'_>) -> Vec<Step> {
        let words = format!("{GUEST_COMMAND_LINE}{}", self.name());
        let step = conditions.step(self.name(), "x2APIC", true, conditions.linux(&words));
        vec![Step { configuration: Configuration { disk: DISK, ..step.configuration }, ..step }]
    }

    fn work(&self, _words: &str) -> anyhow::Result<()> {
        Modules::load_all()?;
        let began = Instant::now();
        while !std::path::Path::new(DEVICE).exists() {
            anyhow::ensure!(began.elapsed() < PATIENCE, "there is no {DEVICE}");
            std::thread::sleep(Duration::from_millis(1));
        }
        let open = |flags: rustix::fs::OFlags| {
            let mut options = File::options();
            options.read(true).write(true).custom_flags(flags.bits() as i32);
            options.open(DEVICE).context(DEVICE)
        };
        let (direct, cached) =
            (open(rustix::fs::OFlags::DIRECT)?, open(rustix::fs::OFlags::empty())?);
        wait_for_others()?;
        mark(WINDOW_BEGINS);
        let done = series(&direct, cached);
        mark(WINDOW_ENDS);
        for (name, seconds) in done? {
            let kilobytes = DISK >> 10;
            say!(
                "{{\"record\":\"file\",\"test\":\"{name}\",\"kilobytes\":{kilobytes},\
                 \"seconds\":{seconds:.6},\"kb_per_second\":{:.0}}}",
                kilobytes as f64 / seconds
            );
        }
        Ok(())
    }

    fn headline(&self) -> (&'static str, &'static str) {
        ("random_read", "random reads")
    }

    fn figure(&self, record: &Json) -> Option<Figure> {
        rate(record, "file", record["test"].as_str()?, "kilobytes", "KB/s")
    }
}

/// All series, and what each took.
fn series(direct: &File, mut cached: File) -> anyhow::Result<Vec<(&'static str, f64)>> {
    let mut memory = vec![0x5A; RECORD + ALIGNMENT];
    let start = memory.as_ptr().align_offset(ALIGNMENT);
    let buffer = &mut memory[start..start + RECORD];
    let mut done = Vec::new();
    let mut timed = |name, passes: u64, work: &mut dyn FnMut(u64) -> std::io::Result<()>| {
        let began = Instant::now();
        (0..passes).try_for_each(|_| (0..RECORDS).try_for_each(&mut *work))?;
        done.push((name, began.elapsed().as_secs_f64() / passes as f64));
        std::io::Result::Ok(())
    };
    let at = |record: u64| record * RECORD as u64;
    timed("pwrite", PASSES, &mut |record| direct.write_all_at(buffer, at(record)))?;
    timed("pread", PASSES, &mut |record| direct.read_exact_at(buffer, at(record)))?;
    timed("random_write", PASSES, &mut |turn| direct.write_all_at(buffer, at(scattered(turn))))?;
    timed("random_read", PASSES, &mut |turn| direct.read_exact_at(buffer, at(scattered(turn))))?;
    timed("fwrite", 1, &mut |_| cached.write_all(buffer))?;
    cached.sync_all()?;
    let mut cached = File::open(DEVICE)?;
    timed("fread", 1, &mut |_| cached.read_exact(buffer))?;
    Ok(done)
}

/// Each record once, far from the one before: the step and the number have no divisor in common.
fn scattered(turn: u64) -> u64 {
    const STEP: u64 = 37;
    turn * STEP % RECORDS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scattered_records_are_all_there_once() {
        let mut all: Vec<u64> = (0..RECORDS).map(scattered).collect();
        assert!(all.windows(2).all(|pair| pair[0].abs_diff(pair[1]) > 1), "{all:?}");
        all.sort_unstable();
        assert_eq!(all, (0..RECORDS).collect::<Vec<_>>());
    }
}
