use super::*;
use std::io::{self, Read, Write};

fn tar_of(files: &[(&str, &[u8])]) -> Vec<u8> {
    let mut builder = tar::Builder::new(vec![]);
    for (path, bytes) in files {
        let mut header = tar::Header::new_gnu();
        header.set_size(bytes.len() as u64);
        header.set_mode(0o644);
        // Written by hand: the builder itself refuses paths that climb.
        header.as_gnu_mut().unwrap().name[..path.len()].copy_from_slice(path.as_bytes());
        header.set_cksum();
        builder.append(&header, *bytes).unwrap();
    }
    builder.into_inner().unwrap()
}

fn read(bytes: &[u8]) -> Inputs {
    let mut inputs = Inputs::new("test");
    let packing = Packing::detect(bytes).expect("known packing");
    read_into(bytes, packing, &mut inputs).unwrap();
    inputs
}

#[test]
fn every_packing_gives_the_same_files() {
    let plain = tar_of(&[("proc/cmdline", b"quiet"), ("home/joe/diary", b"no")]);
    let gzip = {
        let mut encoder = flate2::write::GzEncoder::new(vec![], flate2::Compression::fast());
        encoder.write_all(&plain).unwrap();
        encoder.finish().unwrap()
    };
    let xz = {
        let mut encoder = liblzma::write::XzEncoder::new(vec![], 1);
        encoder.write_all(&plain).unwrap();
        encoder.finish().unwrap()
    };
    let zstd = zstd::encode_all(&plain[..], 1).unwrap();
    for bytes in [plain, gzip, xz, zstd] {
        let inputs = read(&bytes);
        assert_eq!(inputs.files().map(|(path, _)| path).collect::<Vec<_>>(), ["proc/cmdline"]);
    }
}

#[test]
fn top_folder_of_a_sosreport_goes_and_climbing_paths_are_refused() {
    let inputs = read(&tar_of(&[
        ("sosreport-host-2026/proc/cmdline", b"a"),
        ("./proc/version", b"b"),
        ("../proc/cpuinfo", b"evil"),
        ("sosreport/../../proc/interrupts", b"evil"),
        ("/etc/os-release", b"c"),
    ]));
    let paths: Vec<_> = inputs.files().map(|(path, _)| path).collect();
    assert_eq!(paths, ["etc/os-release", "proc/cmdline", "proc/version"]);
}

#[test]
fn folders_that_appear_count_as_searched() {
    let inputs = read(&tar_of(&[("sys/module/kvm/parameters/halt_poll_ns", b"1")]));
    assert!(inputs.bytes("sys/module/kvm_amd/parameters/avic").is_absent());
    assert!(inputs.bytes("sys/class/iommu/ivhd0/amd-iommu/features").is_unknown());
}

#[test]
fn truncated_archive_gives_what_came_before_and_says_so() {
    let whole = tar_of(&[("proc/cmdline", b"quiet"), ("proc/version", &[b'x'; 4000])]);
    let packed = zstd::encode_all(&whole[..], 1).unwrap();
    let cut_plain = read(&whole[..1600]);
    assert_eq!(cut_plain.text("proc/cmdline").get().map(String::as_str), Some("quiet"));
    assert!(cut_plain.bytes("avicenna/archive").is_unknown());
    let mut inputs = Inputs::new("test");
    let outcome = read_into(&packed[..packed.len() - 8], Packing::Zstd, &mut inputs);
    assert!(outcome.is_err() || inputs.files().next().is_some());
}

#[test]
fn links_and_devices_are_not_followed() {
    let mut builder = tar::Builder::new(vec![]);
    for kind in
        [tar::EntryType::Symlink, tar::EntryType::Link, tar::EntryType::Char, tar::EntryType::Fifo]
    {
        let mut header = tar::Header::new_gnu();
        header.set_path("proc/cpuinfo").unwrap();
        header.set_entry_type(kind);
        header.set_link_name("/etc/shadow").unwrap();
        header.set_size(0);
        header.set_cksum();
        builder.append(&header, &[][..]).unwrap();
    }
    let inputs = read(&builder.into_inner().unwrap());
    assert_eq!(inputs.files().count(), 0);
}

proptest::proptest! {
    #[test]
    fn any_bytes_are_read_without_a_panic(
        body in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..2000),
        packing in 0..4usize,
    ) {
        let packing = [Packing::Zstd, Packing::Gzip, Packing::Xz, Packing::Tar][packing];
        let mut inputs = Inputs::new("fuzz");
        let _ = read_into(&body[..], packing, &mut inputs);
    }
}

#[test]
fn archive_that_is_cut_off_anywhere_says_so_and_proves_nothing_by_silence() {
    let whole = tar_of(&[
        ("proc/cmdline", b"quiet"),
        ("proc/7/cmdline", b"bash\0"),
        ("proc/9/cmdline", b"qemu-system-x86_64\0-enable-kvm\0"),
    ]);
    let inputs = read(&whole);
    assert_eq!(inputs.incomplete(), None);
    assert!(inputs.was_searched(PROCESSES));
    // Between files, inside a heading, inside a file.
    for length in [1024, 2048, 1300, 2600, 2048 + 512 + 10] {
        let inputs = read(&whole[..length]);
        assert!(inputs.incomplete().is_some(), "{length}");
        assert!(!inputs.was_searched(PROCESSES), "{length}");
        assert!(inputs.bytes("proc/17/cmdline").is_unknown(), "{length}");
    }
    let packed = zstd::encode_all(&whole[..], 1).unwrap();
    let cut = &packed[..packed.len() - 8];
    let mut inputs = Inputs::new("test");
    let outcome = read_into(cut, Packing::Zstd, &mut inputs);
    // With nothing before the cut it is an error.
    assert!(outcome.is_err() || inputs.incomplete().is_some());
}

/// A member that describes the next, with so many bytes.
fn described(kind: u8, bytes: &[u8]) -> Vec<u8> {
    let mut header = tar::Header::new_gnu();
    header.set_entry_type(tar::EntryType::new(kind));
    header.set_size(bytes.len() as u64);
    header.set_cksum();
    let mut all = header.as_bytes().to_vec();
    all.extend_from_slice(bytes);
    all.resize(all.len().next_multiple_of(512), 0);
    all
}

#[test]
fn long_names_of_both_kinds_are_read() {
    let plain = tar_of(&[("x", b"quiet")]);
    for description in [
        described(b'L', b"proc/cmdline\0"),
        described(b'x', b"21 path=proc/cmdline\n"),
        [described(b'g', b"9 a=bcd\n\n"), described(b'L', b"proc/cmdline\0")].concat(),
    ] {
        let inputs = read(&[description, plain.clone()].concat());
        assert_eq!(inputs.files().map(|(path, _)| path).collect::<Vec<_>>(), ["proc/cmdline"]);
        assert_eq!(inputs.incomplete(), None);
    }
}

#[test]
fn extended_headers_that_nobody_needs_are_refused_before_they_are_read() {
    let plain = tar_of(&[("proc/cmdline", b"quiet")]);
    let without_end = &plain[..1024];
    for kind in [b'L', b'K', b'x', b'g'] {
        let mut header = tar::Header::new_gnu();
        header.set_entry_type(tar::EntryType::new(kind));
        header.set_size(8 << 30);
        header.set_cksum();
        let zeros = io::repeat(0).take(8 << 30);
        let bytes = [without_end, header.as_bytes()].concat();
        let mut inputs = Inputs::new("test");
        read_into(bytes.chain(zeros), Packing::Tar, &mut inputs).unwrap();
        let why = inputs.incomplete().expect("the archive is refused").to_owned();
        assert!(why.contains("an extended header of 8589934592 bytes"), "{why}");
        assert_eq!(inputs.len(), 1, "what came before is kept");
    }
    // What is said twice is not believed: the reader would lose its place.
    let bytes = [described(b'x', b"12 size=999\n"), plain].concat();
    let mut inputs = Inputs::new("test");
    let _ = read_into(&bytes[..], Packing::Tar, &mut inputs);
    assert!(inputs.is_empty());
}
