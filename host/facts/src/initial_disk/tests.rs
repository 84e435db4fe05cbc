use super::*;
use std::io::Write as _;

const KVM_CONF: (&str, &str) = ("etc/modprobe.d/kvm.conf", "options kvm_amd avic=1\n");
const MODULE: (&str, &str) = ("usr/lib/modules/6.12/kernel/arch/x86/kvm/kvm-amd.ko.xz", "module");

/// An archive of cpio's new form with these files.
fn cpio(files: &[(&str, &str)]) -> Vec<u8> {
    let mut bytes = vec![];
    let member = |bytes: &mut Vec<u8>, name: &str, mode: u32, text: &str| {
        let numbers = [1, mode, 0, 0, 1, 0, text.len() as u32, 0, 0, 0, 0];
        bytes.extend(b"070701");
        for number in numbers.into_iter().chain([name.len() as u32 + 1, 0]) {
            bytes.extend(format!("{number:08X}").bytes());
        }
        for part in [&[name.as_bytes(), b"\0"].concat(), text.as_bytes()] {
            bytes.extend(part);
            bytes.resize(bytes.len().next_multiple_of(4), 0);
        }
    };
    member(&mut bytes, ".", 0o040_755, "");
    for (name, text) in files {
        member(&mut bytes, name, 0o100_644, text);
    }
    member(&mut bytes, "TRAILER!!!", 0, "");
    bytes.resize(bytes.len().next_multiple_of(512), 0);
    bytes
}

fn packed(with: &str, bytes: &[u8]) -> Vec<u8> {
    match with {
        "gzip" => {
            let mut encoder = flate2::write::GzEncoder::new(vec![], flate2::Compression::fast());
            encoder.write_all(bytes).unwrap();
            encoder.finish().unwrap()
        }
        "xz" => {
            let mut encoder = liblzma::write::XzEncoder::new(vec![], 1);
            encoder.write_all(bytes).unwrap();
            encoder.finish().unwrap()
        }
        "zstd" => zstd::encode_all(bytes, 1).unwrap(),
        "lz4" => {
            let mut image = vec![0x02, 0x21, 0x4C, 0x18];
            // Blocks end anywhere.
            for part in bytes.chunks(100) {
                let block = lz4_flex::block::compress(part);
                image.extend((block.len() as u32).to_le_bytes());
                image.extend(block);
            }
            image
        }
        _ => bytes.to_vec(),
    }
}

#[test]
fn files_and_modules_are_found_however_a_disk_is_packed() {
    let early = cpio(&[("kernel/x86/microcode/AuthenticAMD.bin", "microcode")]);
    let main = cpio(&[("./init", "#!/bin/sh\n"), KVM_CONF, MODULE]);
    for packing in ["none", "gzip", "xz", "zstd", "lz4"] {
        let main = packed(packing, &main);
        for image in [main.clone(), [early.clone(), main.clone()].concat(), {
            let zeros = vec![0; 4096];
            [early.clone(), zeros, early.clone(), main.clone()].concat()
        }] {
            let found = found(&image[..]).unwrap();
            assert!(found.modules.contains("kvm_amd"), "{packing}");
            let text = &found.files["kvm.conf"].1;
            assert_eq!(text, KVM_CONF.1.as_bytes(), "{packing}");
        }
    }
    let other = [early, b"BZh91AY&SY".to_vec()].concat();
    let error = found(&other[..]).err().unwrap().to_string();
    assert_eq!(error, "packed with bzip2, which is not read");
}

#[test]
fn disk_that_is_cut_off_or_broken_is_an_error_and_no_answer() {
    let main = cpio(&[KVM_CONF, MODULE]);
    let end = main.iter().rposition(|byte| *byte != 0).unwrap();
    for packing in ["none", "gzip", "xz", "zstd", "lz4"] {
        let whole = packed(packing, &main[..=end]);
        for length in (0..whole.len() - 1).step_by(7) {
            assert!(found(&whole[..length]).map(|found| found.files.len()).unwrap_or(0) < 2);
        }
        for at in (0..whole.len()).step_by(3) {
            let mut broken = whole.clone();
            broken[at] ^= 0xFF;
            let _ = found(&broken[..]);
        }
    }
    assert!(found(&main[..main.len() / 3]).is_err());
}

#[test]
fn of_two_files_with_one_name_that_of_etc_is_in_force() {
    for names in [
        ["usr/lib/modprobe.d/kvm.conf", "etc/modprobe.d/kvm.conf"],
        ["etc/modprobe.d/kvm.conf", "usr/lib/modprobe.d/kvm.conf"],
    ] {
        let image = cpio(&names.map(|name| (name, name)));
        assert_eq!(found(&image[..]).unwrap().files["kvm.conf"].1, b"etc/modprobe.d/kvm.conf");
    }
}

#[test]
fn disk_is_looked_for_where_distributions_have_it() {
    let root = tempfile::tempdir().unwrap();
    let machine = "0123456789abcdef0123456789abcdef";
    for (release, arguments, place) in [
        ("6.12.41+deb13-amd64", "", "boot/initrd.img-6.12.41+deb13-amd64".to_owned()),
        ("5.14.0-503.el9.x86_64", "", "boot/initramfs-5.14.0-503.el9.x86_64.img".to_owned()),
        ("6.4.0-150600-default", "", "boot/initrd-6.4.0-150600-default".to_owned()),
        ("6.9.7-arch1-1", "initrd=\\amd-ucode.img initrd=\\my.img", "boot/my.img".to_owned()),
        ("6.9.7-arch1-1", "", "boot/initramfs-linux.img".to_owned()),
        ("6.6.30-1-lts", "", "boot/initramfs-linux-lts.img".to_owned()),
        ("6.9.3-3-MANJARO", "", "boot/initramfs-6.9-x86_64.img".to_owned()),
        ("6.11.4-301.fc41.x86_64", "", format!("boot/{machine}/6.11.4-301.fc41.x86_64/initrd")),
    ] {
        let file = root.path().join(&place);
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(&file, packed("zstd", &cpio(&[KVM_CONF]))).unwrap();
        let mut inputs = Inputs::new("test");
        inputs.insert("proc/sys/kernel/osrelease", release.into());
        inputs.insert("proc/cmdline", arguments.into());
        read_into(&Folder::copy(root.path()).unwrap(), &mut inputs);
        let text = inputs.text(RECORD).get().cloned().unwrap_or_default();
        assert_eq!(text, format!("initrd /{place}"), "{release}");
        assert!(inputs.bytes(&format!("{FILES}kvm.conf")).get().is_some());
        std::fs::remove_file(file).unwrap();
    }
}

#[test]
fn listing_of_a_disk_tells_modules_and_lengths() {
    let text = "Image: /boot/initramfs-5.14.0.img: 37M\n========\nEarly CPIO image\n\
                drwxr-xr-x   3 root     root            0 Jun  1  2025 .\n\
                -rw-r--r--   1 root     root           23 Jun  1  2025 etc/modprobe.d/kvm.conf\n\
                -rw-r--r--   1 root     root       212300 Jun  1  2025 usr/lib/modules/5.14.0/kernel/arch/x86/kvm/kvm-amd.ko.xz\n";
    let listing = listing(text).unwrap();
    assert_eq!(listing.image, "/boot/initramfs-5.14.0.img");
    assert_eq!(listing.files["etc/modprobe.d/kvm.conf"], 23);
    assert!(listing.modules.contains("kvm_amd"));
}
