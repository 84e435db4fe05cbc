use super::*;
use device::storage::Storage;
use std::io::Write;

const CLUSTER: u64 = 64 << 10;
const CLUSTERS: u64 = 7;

/// An image of version 3 with a cluster of each kind: never written, plain, marked zero, packed
/// twice into the same host cluster, plain and cut off by the file's end, never written.
fn image(compression: u8) -> Vec<u8> {
    let mut header = vec![0; 112];
    header[..4].copy_from_slice(&MAGIC);
    let mut put32 =
        |at: usize, value: u32| header[at..at + 4].copy_from_slice(&value.to_be_bytes());
    put32(4, 3);
    put32(20, 16);
    put32(36, 1);
    put32(100, 112);
    let mut put64 =
        |at: usize, value: u64| header[at..at + 8].copy_from_slice(&value.to_be_bytes());
    put64(24, CLUSTERS * CLUSTER);
    put64(40, CLUSTER);
    put64(72, if compression == 0 { 0 } else { feature::COMPRESSION });
    header[104] = compression;

    let packed: Vec<Vec<u8>> = (3..5).map(|number| pack(compression, &content(number))).collect();
    let places = [4 * CLUSTER + 1, 4 * CLUSTER + 1 + packed[0].len() as u64];
    let descriptor = |place: usize| {
        let (start, end) = (places[place], places[place] + packed[place].len() as u64);
        let more = (end - 1) / 512 - start / 512;
        IS_COMPRESSED | more << 54 | start
    };
    let used = 1 << 63;
    let table =
        [0, used | 3 * CLUSTER, IS_ZERO, descriptor(0), descriptor(1), used | 5 * CLUSTER, 0];
    let mut bytes = header;
    let mut at = |place: u64, part: &[u8]| {
        bytes.resize(bytes.len().max(place as usize + part.len()), 0);
        bytes[place as usize..place as usize + part.len()].copy_from_slice(part);
    };
    at(CLUSTER, &(used | 2 * CLUSTER).to_be_bytes());
    at(3 * CLUSTER - 1, &[0]);
    at(2 * CLUSTER, &table.map(u64::to_be_bytes).concat());
    at(3 * CLUSTER, &content(1));
    at(places[0], &packed[0]);
    at(places[1], &packed[1]);
    at(5 * CLUSTER, &content(5)[..1024]);
    bytes
}

fn pack(compression: u8, bytes: &[u8]) -> Vec<u8> {
    if compression == 1 {
        return zstd::encode_all(bytes, 0).expect("memory");
    }
    let mut encoder = flate2::write::DeflateEncoder::new(Vec::new(), flate2::Compression::best());
    encoder.write_all(bytes).expect("memory");
    encoder.finish().expect("memory")
}

/// What the disk has in a cluster.
fn content(number: u64) -> Vec<u8> {
    let written = match number {
        1 | 3 | 4 => CLUSTER,
        5 => 1024,
        _ => 0,
    };
    let byte = |at: u64| if at < written { (at / 3 * number) as u8 } else { 0 };
    (0..CLUSTER).map(byte).collect()
}

fn opened(bytes: &[u8]) -> Result<Qcow2, String> {
    let mut path = std::env::temp_dir();
    let unique = std::ptr::from_ref(bytes).addr();
    path.push(format!("avicenna-qcow2-{}-{unique:x}", std::process::id()));
    std::fs::write(&path, bytes).expect("a temporary file");
    let file = File::open(&path).expect("it was just written");
    std::fs::remove_file(&path).expect("it was just written");
    Qcow2::open(Arc::new(file))
}

#[test]
fn clusters_of_every_kind_read_as_what_was_written() {
    let whole: Vec<u8> = (0..CLUSTERS).flat_map(content).collect();
    for compression in [0, 1] {
        let mut image = opened(&image(compression)).expect("an image");
        assert_eq!(image.sectors(), CLUSTERS * CLUSTER / 512);
        for (sector, count) in [(0, 896), (127, 2), (384, 1), (511, 3), (640, 3), (895, 1)] {
            let mut read = vec![0xEE; count * 512];
            image.read_at(sector, &mut read).expect("sectors of the disk");
            let start = sector as usize * 512;
            assert!(read == whole[start..start + read.len()], "{compression}: {sector}, {count}");
        }
        assert!(image.write_at(0, &[0; 512]).is_err());
    }
}

#[test]
fn what_cannot_be_followed_is_refused_by_name() {
    let rows: [(usize, u64, usize, &str); 10] = [
        (8, 0x100, 8, "a backing file"),
        (32, 1, 4, "encryption"),
        (72, 2, 8, "corrupt"),
        (72, 4, 8, "data in another file"),
        (72, 16, 8, "features unknown here"),
        (4, 4, 4, "version 4"),
        (20, 22, 4, "2^22 bytes"),
        (24, 100, 8, "a disk of 100 bytes"),
        (36, 0, 4, "0 first-level entries"),
        (40, 1 << 40, 8, "first-level table cannot be read"),
    ];
    for (at, value, size, expected) in rows {
        let mut bytes = image(0);
        bytes[at..at + size].copy_from_slice(&value.to_be_bytes()[8 - size..]);
        let reason = opened(&bytes).expect_err(expected);
        assert!(reason.contains(expected), "{reason}");
    }
}

#[test]
fn descriptors_that_lead_nowhere_fail_the_read_alone() {
    // Beyond the file's end there are zeroes; what is packed has to be there, and to unpack.
    let rows = [
        (1 << 63 | 1 << 50, true),
        (IS_COMPRESSED | 1 << 50, false),
        (IS_COMPRESSED | 0xFF << 54 | 4 * CLUSTER, false),
        (IS_COMPRESSED | 0x200, false),
    ];
    for (descriptor, is_read) in rows {
        let mut bytes = image(0);
        let at = 2 * CLUSTER as usize + 8;
        bytes[at..at + 8].copy_from_slice(&u64::to_be_bytes(descriptor));
        let mut image = opened(&bytes).expect("an image");
        let mut read = [0xEE; 512];
        assert_eq!(image.read_at(128, &mut read).is_ok(), is_read, "{descriptor:#x}");
        assert!(image.read_at(0, &mut read).is_ok(), "{descriptor:#x}");
        assert_eq!(read, [0; 512]);
    }
}
