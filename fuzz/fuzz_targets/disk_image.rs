//! A disk's image of any bytes, raw or qcow2: it is refused, or reads of it end.
#![no_main]

use board::image_file;
use device::storage::{SECTOR_SIZE, WriteMode};
use libfuzzer_sys::fuzz_target;

const MOST_READS: u64 = 64;
/// Sectors that an overlay keeps together.
const BLOCK_SECTORS: u64 = 8;

fuzz_target!(|bytes: &[u8]| {
    let path = std::env::temp_dir().join(format!("avicenna-fuzz-image-{}", std::process::id()));
    std::fs::write(&path, bytes).expect("a temporary file");
    let Ok(mut disk) = image_file::open(&path, WriteMode::Overlay) else { return };
    let step = (disk.sectors() / MOST_READS).max(1);
    let mut sector = [0; SECTOR_SIZE];
    for at in (0..disk.sectors()).step_by(step as usize) {
        let _ = disk.read(at, &mut sector);
    }
    // The overlay takes a sector if the image has what it keeps beside it.
    let mut beside = vec![0; SECTOR_SIZE * disk.sectors().min(BLOCK_SECTORS) as usize];
    let is_readable = !beside.is_empty() && disk.read(0, &mut beside).is_ok();
    assert_eq!(disk.write(0, &sector).is_ok(), is_readable);
});
