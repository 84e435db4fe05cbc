use super::*;
use crate::bench::Bench;
use bus::Effect;

fn chipset() -> Chipset {
    Chipset::new(&ChipsetConfiguration { cpus: 3, ..ChipsetConfiguration::default() })
}

fn read(chipset: &mut Chipset, bench: &mut Bench, address: u64, size: u8) -> u64 {
    chipset.read(&mut bench.context(), SystemPhysical(address), size)
}

#[test]
fn unclaimed_ports_and_addresses_read_all_ones_of_their_size() {
    let (mut bench, mut chipset) = (Bench::new(), chipset());
    for (size, ones) in [(1, 0xFF), (2, 0xFFFF), (4, 0xFFFF_FFFF)] {
        for port in [0x00, 0x1234, 0x6C, 0x80EE, 0xFF00, 0xFFFF] {
            let value = chipset.port_in(&mut bench.context(), port, size);
            assert_eq!(value, ones, "{size} bytes at {port:#x}");
            chipset.port_out(&mut bench.context(), port, size, u32::MAX);
        }
        for address in [0xDFFF_FFF0, 0xF000_0000, 0xFEC0_0000, 0xFF01_0000, u64::MAX] {
            assert_eq!(read(&mut chipset, &mut bench, address, size), ones.into());
        }
    }
    assert_eq!(read(&mut chipset, &mut bench, 0xD000_0000, 8), u64::MAX);
    assert!(bench.effects().is_empty());
}

#[test]
fn ports_reach_their_devices() {
    for (port, size, value, effect) in [
        (0x3F8, 1, 0x41, Effect::Console { port: 0, byte: 0x41 }),
        (0x2F8, 1, 0x42, Effect::Console { port: 1, byte: 0x42 }),
        (0xE9, 1, 0x43, Effect::Console { port: 0, byte: 0x43 }),
        (0xF4, 1, 0x07, Effect::DebugExit { value: 7 }),
        (0xF4, 4, 0x1234, Effect::DebugExit { value: 0x1234 }),
        (0x604, 2, 0x3400, Effect::PowerOff),
        (0xCF9, 1, 0x06, Effect::Reset),
        (0x64, 1, 0xFE, Effect::Reset),
        (0x92, 1, 0x01, Effect::Reset),
        (0x2017, 1, 1, Effect::Line { gsi: 23, asserted: true }),
        (0x2009, 1, 0, Effect::Line { gsi: 9, asserted: false }),
    ] {
        let (mut bench, mut chipset) = (Bench::new(), chipset());
        chipset.port_out(&mut bench.context(), port, size, value);
        assert_eq!(bench.effects(), [effect], "port {port:#x}");
    }
}

#[test]
fn wide_accesses_to_narrow_devices_reach_successive_ports() {
    let (mut bench, mut chipset) = (Bench::new(), chipset());
    chipset.port_out(&mut bench.context(), 0x70, 2, 0x5A7E);
    chipset.port_out(&mut bench.context(), 0x70, 1, 0x7E);
    assert_eq!(chipset.port_in(&mut bench.context(), 0x71, 1), 0x5A);
    chipset.port_out(&mut bench.context(), 0x3FE, 2, 0x3300);
    assert_eq!(chipset.port_in(&mut bench.context(), 0x3FF, 1), 0x33);
}

#[test]
fn firmware_configuration_answers_as_test_programs_ask() {
    let (mut bench, mut chipset) = (Bench::new(), chipset());
    chipset.port_out(&mut bench.context(), 0x510, 2, 5);
    assert_eq!(chipset.port_in(&mut bench.context(), 0x511, 1), 3);
    assert_eq!(chipset.port_in(&mut bench.context(), 0x511, 1), 0);
}

#[test]
fn test_devices_can_be_left_out() {
    let configuration =
        ChipsetConfiguration { has_test_devices: false, ..ChipsetConfiguration::default() };
    let (mut bench, mut chipset) = (Bench::new(), Chipset::new(&configuration));
    chipset.port_out(&mut bench.context(), 0xE0, 4, 0);
    assert_eq!(chipset.port_in(&mut bench.context(), 0xE0, 4), u32::MAX);
    chipset.port_out(&mut bench.context(), 0x2004, 1, 1);
    assert!(bench.effects().is_empty());
    assert_eq!(read(&mut chipset, &mut bench, map::TEST_RAM.0, 4), 0xFFFF_FFFF);
    assert!(chipset.pci.function(map::PCI_TEST_DEVICE).is_none());
}

#[test]
fn the_bridges_are_where_kernels_look_for_them() {
    let (mut bench, mut chipset) = (Bench::new(), chipset());
    for (device, class) in [(0x00, 0x0600), (0x14, 0x0C05), (0x1F, 0x0601), (0x1E, 0x00FF)] {
        let address = map::ECAM.0 + (device << 15) + 8;
        let found = read(&mut chipset, &mut bench, address, 4) >> 16;
        assert_eq!(found, class, "device {device:#x}");
    }
}

#[test]
fn advancing_to_each_deadline_moves_the_deadline_on() {
    let (mut bench, mut chipset) = (Bench::new(), chipset());
    for (port, value) in [(0x43, 0x34), (0x40, 0x10), (0x40, 0), (0x70, 0x0B), (0x71, 0x72)] {
        chipset.port_out(&mut bench.context(), port, 1, value);
    }
    for _ in 0..1000 {
        let deadline = chipset.next_deadline().expect("a periodic timer runs");
        assert!(deadline > bench.now);
        bench.now = deadline;
        chipset.advance(&mut bench.context());
    }
}

/// A board with flash, whose firmware is told of the window at byte 4 of a file.
fn board_with_flash() -> Chipset {
    let mut chipset = chipset();
    chipset.firmware_configuration.add_file("tables", vec![0; 16]);
    chipset.firmware_configuration.tell_window_at("tables", 4);
    let flash = Flash::new(SystemPhysical(0xFFC0_0000), vec![7; 4096]);
    chipset.carry_flash(flash, 128 << 20);
    chipset
}

fn configuration(chipset: &mut Chipset, bench: &mut Bench, address: u32) -> u32 {
    chipset.port_out(&mut bench.context(), 0xCF8, 4, 0x8000_0000 | address);
    chipset.port_in(&mut bench.context(), 0xCFC, 4)
}

#[test]
fn a_board_with_flash_has_the_bridges_that_firmware_knows() {
    let (mut bench, mut chipset) = (Bench::new(), board_with_flash());
    for (address, expected) in
        [(0x0000, 0x29C0_8086), (0xF800, 0x2918_8086), (0xF840, 0x0601), (0xF844, 0x80)]
    {
        let found = configuration(&mut chipset, &mut bench, address);
        assert_eq!(found, expected, "{address:#x}");
        chipset.port_out(&mut bench.context(), 0xCFC, 4, 0);
        assert_eq!(configuration(&mut chipset, &mut bench, address), expected, "read-only");
    }
    for (index, expected) in [(0x34, 0x00), (0x35, 0x07)] {
        chipset.port_out(&mut bench.context(), 0x70, 1, index);
        assert_eq!(chipset.port_in(&mut bench.context(), 0x71, 1), expected, "{index:#x}");
    }
    assert_eq!(read(&mut chipset, &mut bench, 0xFFC0_0FFC, 4), 0x0707_0707);
    chipset.write(&mut bench.context(), SystemPhysical(0xFFC0_0000), 1, 0x70);
    assert_eq!(read(&mut chipset, &mut bench, 0xFFC0_0000, 1), 0, "its status");
}

#[test]
fn the_window_is_where_the_host_bridge_has_it_and_tables_say_so() {
    let (mut bench, mut chipset) = (Bench::new(), board_with_flash());
    let bridge = 0x29C0_8086;
    assert_eq!(read(&mut chipset, &mut bench, map::ECAM.0, 4), 0xFFFF_FFFF, "not enabled");
    configuration(&mut chipset, &mut bench, 0x60);
    chipset.port_out(&mut bench.context(), 0xCFC, 4, 0xB000_0001);
    let mut at = 0xB000_0000;
    for next in [0xE000_0000, 0xC000_0000] {
        assert_eq!(read(&mut chipset, &mut bench, at, 4), bridge, "{at:#x}");
        chipset.port_out(&mut bench.context(), 0x510, 2, 0x20);
        let mut byte = || chipset.port_in(&mut bench.context(), 0x511, 1) as u8;
        let file: [u8; 16] = std::array::from_fn(|_| byte());
        assert_eq!(file[4..12], at.to_le_bytes(), "{at:#x}");
        chipset.write(&mut bench.context(), SystemPhysical(at + 0x60), 4, next | 1);
        assert_eq!(read(&mut chipset, &mut bench, at, 4), 0xFFFF_FFFF, "{at:#x}");
        at = next;
    }
}

#[test]
fn regions_are_decoded_wherever_firmware_puts_them() {
    let (mut bench, mut chipset) = (Bench::new(), chipset());
    let device = u32::from(map::PCI_TEST_DEVICE.device) << 11;
    let ones = u64::from(u32::MAX);
    for base in [0x8000_0000, 0xB000_0000, 0xF100_0000] {
        assert_eq!(read(&mut chipset, &mut bench, base, 4), ones);
        configuration(&mut chipset, &mut bench, device | 0x04);
        chipset.port_out(&mut bench.context(), 0xCFC, 4, 3);
        configuration(&mut chipset, &mut bench, device | 0x10);
        chipset.port_out(&mut bench.context(), 0xCFC, 4, base as u32);
        assert_ne!(read(&mut chipset, &mut bench, base, 4), ones, "{base:#x}");
    }
    configuration(&mut chipset, &mut bench, device | 0x14);
    chipset.port_out(&mut bench.context(), 0xCFC, 4, 0x6001);
    assert_ne!(chipset.port_in(&mut bench.context(), 0x6000, 4), u32::MAX);
    assert_eq!(chipset.port_in(&mut bench.context(), 0x6100, 4), u32::MAX);
}
