//! Real inputs with a few bytes changed: readers answer or name what is wrong, and never panic.
//! Same seed, same inputs.

use crate::fixture::Host;
use facts::{Inputs, acpi, archive, snapshot};
use rules::capability::check;
use std::fs;
use std::io::Write;
use std::path::Path;

const STAMP: snapshot::Stamp<'_> = snapshot::Stamp { tool: "test", host: None, time: None };

/// SplitMix64.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut value = self.0;
        value = (value ^ value >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        value = (value ^ value >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        value ^ value >> 31
    }

    fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound.max(1) as u64) as usize
    }

    /// One to four changes: a byte, a word of ones or zeros, a cut, a piece doubled or taken out.
    fn mutated(&mut self, bytes: &[u8]) -> Vec<u8> {
        let mut bytes = bytes.to_vec();
        for _ in 0..=self.below(4) {
            let at = self.below(bytes.len());
            let piece = at..(at + 1 + self.below(64)).min(bytes.len());
            match self.below(6) {
                0 if !bytes.is_empty() => bytes[at] = self.next() as u8,
                1 if !bytes.is_empty() => bytes[at] ^= 1 << self.below(8),
                2 => bytes.iter_mut().skip(at).take(4).for_each(|byte| *byte = 0xFF),
                3 => bytes.iter_mut().skip(at).take(4).for_each(|byte| *byte = 0),
                4 => {
                    bytes.drain(piece.start.min(bytes.len())..piece.end);
                }
                _ if self.below(4) == 0 => bytes.truncate(at),
                _ => {
                    let doubled = bytes[piece.start.min(bytes.len())..piece.end].to_vec();
                    bytes.splice(at..at, doubled);
                }
            }
        }
        bytes
    }
}

/// Every decision that rests on facts.
fn judge(inputs: &Inputs) {
    let facts = facts::facts(inputs);
    let report = check(&facts);
    let machines: Vec<_> = facts.vms.get().into_iter().flatten().collect();
    let why = rules::why::why(&facts, &report, &machines, |_| Err("not looked".into()));
    assert_eq!(why.machines.len(), machines.len());
    let _ = rules::enable::plan(&facts, &report);
}

fn hosts() -> [Host; 2] {
    let virtual_machine: &[(&str, Option<&str>)] = &[
        ("proc/4711/cmdline", Some("/usr/bin/qemu-system-x86_64\0-name\0guest=web\0-accel\0kvm\0")),
        (
            "run/libvirt/qemu/web.xml",
            Some("<domstatus><domain type='kvm'><name>web</name></domain></domstatus>"),
        ),
        ("etc/modprobe.d/kvm.conf", Some("options kvm_amd avic=0 nested=1\n")),
        (
            "proc/interrupts",
            Some("           CPU0\n PIN:   7   Posted-interrupt notification event\n"),
        ),
    ];
    [Host::amd().with(virtual_machine), Host::intel().with(virtual_machine)]
}

#[test]
fn mutated_firmware_tables_are_read_or_refused() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/acpi");
    let mut random = Random(1);
    let (mut read, mut refused) = (0, 0);
    let mut names: Vec<_> =
        fs::read_dir(folder).unwrap().map(|file| file.unwrap().path()).collect();
    names.sort();
    for path in names.iter().filter(|path| path.extension().is_some_and(|ending| ending == "aml")) {
        let table = fs::read(path).unwrap();
        for _ in 0..3000 {
            let bytes = random.mutated(&table);
            let is_read = acpi::ivrs(&bytes).is_ok()
                || acpi::dmar(&bytes).is_ok()
                || acpi::madt(&bytes).is_ok();
            *(if is_read { &mut read } else { &mut refused }) += 1;
        }
    }
    assert!(read > 1000 && refused > 1000, "{read} read, {refused} refused: too few of one kind");
}

#[test]
fn mutated_files_of_a_host_are_judged() {
    let mut random = Random(2);
    for host in hosts() {
        let whole = host.inputs();
        let files: Vec<(String, Vec<u8>)> = whole
            .files()
            .filter_map(|(path, _)| Some((path.to_owned(), whole.bytes(path).get()?.to_vec())))
            .collect();
        for _ in 0..600 {
            let mut inputs = whole.clone();
            for _ in 0..=random.below(3) {
                let (path, bytes) = &files[random.below(files.len())];
                inputs.insert(path.clone(), random.mutated(bytes));
            }
            judge(&inputs);
        }
    }
}

#[test]
fn mutated_snapshots_are_read_as_far_as_they_go() {
    let mut random = Random(3);
    for host in hosts() {
        let mut packed = vec![];
        snapshot::write(&host.inputs(), &STAMP, &mut packed).unwrap();
        let plain = zstd::decode_all(&packed[..]).unwrap();
        let mut with_something = 0;
        for round in 0..600 {
            let (bytes, packing) = match round % 3 {
                0 => (random.mutated(&packed), archive::Packing::Zstd),
                1 => (random.mutated(&plain), archive::Packing::Tar),
                // Damage below intact packing.
                _ => {
                    let packed = zstd::encode_all(&random.mutated(&plain)[..], 1).unwrap();
                    (packed, archive::Packing::Zstd)
                }
            };
            let mut inputs = Inputs::new("mutated");
            if archive::read_into(&bytes[..], packing, &mut inputs).is_ok() {
                snapshot::apply_manifest(&mut inputs);
                with_something += usize::from(inputs.files().next().is_some());
                judge(&inputs);
            }
        }
        assert!(with_something > 100, "only {with_something} gave anything");
    }
}

#[test]
fn bomb_with_a_line_of_a_gigabyte_is_cut_and_redacted_as_a_whole() {
    let mut encoder = zstd::stream::write::Encoder::new(vec![], 1).unwrap();
    let size: u64 = 1 << 30;
    let mut header = tar::Header::new_gnu();
    header.set_path("proc/cmdline").unwrap();
    header.set_size(size);
    header.set_cksum();
    encoder.write_all(header.as_bytes()).unwrap();
    for _ in 0..size >> 20 {
        encoder.write_all(&[b'x'; 1 << 20]).unwrap();
    }
    let bytes = encoder.finish().unwrap();
    assert!(bytes.len() < 1 << 20);
    let mut inputs = Inputs::new("long");
    archive::read_into(&bytes[..], archive::Packing::Zstd, &mut inputs).unwrap();
    let kept = inputs.bytes("proc/cmdline").get().map(|bytes| bytes.len());
    assert_eq!(kept, Some(facts::inputs::FILE_LIMIT));
    judge(&inputs);
    let mut packed = vec![];
    snapshot::write(&inputs, &STAMP, &mut packed).unwrap();
    assert!(packed.len() < 1 << 16, "{} bytes", packed.len());
}
