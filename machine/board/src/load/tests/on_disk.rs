//! What is read from a file where it is loaded is what would have been read before.

use super::*;

/// A file in which from some byte on nothing is there to be read any more.
struct Disk {
    bytes: Vec<u8>,
    left: usize,
}

impl ReadAt for Disk {
    fn read_at(&self, offset: u64, into: &mut [u8]) -> std::io::Result<()> {
        let end = offset as usize + into.len();
        let found = self.bytes[..self.left].get(offset as usize..end);
        into.copy_from_slice(found.ok_or(std::io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }
}

/// Loads a kernel, whose initial RAM disk is the same file.
fn load_twice(machine: &mut Machine, kernel: Source) -> Result<String, LoadError> {
    let request = BootRequest {
        kernel,
        command_line: "",
        initrd: Some(kernel),
        modules: &[],
        memory_map: &machine.firmware.memory_map,
        rsdp: None,
    };
    load(&mut machine.memory, &request).map(|state| format!("{state:?}"))
}

#[test]
fn a_file_is_loaded_as_its_bytes_are() {
    for bytes in corpus() {
        let [mut one, mut other] = [(); 2].map(|()| Machine::new(32 * MIB));
        let disk = Disk { left: bytes.len(), bytes: bytes.clone() };
        let from_disk = Source::on_disk("kernel", &disk, bytes.len() as u64);
        let expected = load_twice(&mut one, Source::of("kernel", &bytes));
        assert_eq!(load_twice(&mut other, from_disk), expected);
        assert!(expected.is_ok() && one.memory.ram == other.memory.ram, "{expected:?}");
    }
}

#[test]
fn a_file_that_has_become_shorter_is_refused_wherever_it_ends() {
    for bytes in corpus() {
        let mut machine = Machine::new(32 * MIB);
        let length = bytes.len() as u64;
        for left in (0..bytes.len()).step_by(61) {
            let disk = Disk { left, bytes: bytes.clone() };
            let refused = load_twice(&mut machine, Source::on_disk("kernel", &disk, length));
            let error = refused.expect_err("it is not whole");
            assert!(matches!(error, LoadError::Read { .. }), "{left} of {length}: {error}");
        }
    }
}
