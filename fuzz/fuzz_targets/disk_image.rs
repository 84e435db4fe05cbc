//! A disk's image of any bytes, raw or qcow2: it is refused, or reads of it end.
#![no_main]

use board::image_file;
use device::storage::{SECTOR_SIZE, WriteMode};
use libfuzzer_sys::fuzz_target;

const MOST_READS: u64 = 64;

fuzz_target!(|bytes: &[u8]| {
    let path = std::env::temp_dir().join(format!("avicenna-fuzz-image-{}", std::process::id()));
    std::fs::write(&path, bytes).expect("a temporary file");
    let Ok(mut disk) = image_file::open(&path, WriteMode::Overlay) else { return };
    let step = (disk.sectors() / MOST_READS).max(1);
    let mut sector = [0; SECTOR_SIZE];
    for at in (0..disk.sectors()).step_by(step as usize) {
        let _ = disk.read(at, &mut sector);
    }
    // The overlay reads what it keeps beside a sector, which the image may not have.
    let _ = disk.write(0, &sector);
});
