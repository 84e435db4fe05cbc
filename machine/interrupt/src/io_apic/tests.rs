use super::*;
use arch::apic::DestinationMode;
use arch::msi::DestinationWidth;

const SELECT: u16 = 0x00;
const WINDOW: u16 = 0x10;
const EOI: u16 = 0x40;

fn io_apic() -> IoApic {
    IoApic::new(IoApicModel { version: 0x20, pins: 24, requester: RequesterId(0x00A0) })
}

fn read(apic: &mut IoApic, index: u16) -> u32 {
    apic.write_mmio(SELECT, 4, u64::from(index), &mut Vec::new());
    apic.read_mmio(WINDOW, 4) as u32
}

fn write(apic: &mut IoApic, index: u16, value: u32) -> Vec<Effect> {
    let mut out = Vec::new();
    apic.write_mmio(SELECT, 4, u64::from(index), &mut out);
    apic.write_mmio(WINDOW, 4, u64::from(value), &mut out);
    out
}

fn set_entry(apic: &mut IoApic, pin: u16, entry: u64) -> Vec<Effect> {
    let mut out = write(apic, 0x11 + 2 * pin, (entry >> 32) as u32);
    out.extend(write(apic, 0x10 + 2 * pin, entry as u32));
    out
}

fn line(apic: &mut IoApic, pin: u8, asserted: bool) -> usize {
    let mut out = Vec::new();
    apic.set_line(pin, asserted, &mut out);
    out.len()
}

fn end(apic: &mut IoApic, vector: u8) -> usize {
    let mut out = Vec::new();
    apic.end_of_interrupt(Vector(vector), &mut out);
    out.len()
}

const EDGE: u64 = 0x31;
const LEVEL: u64 = 0x8031;
const MASKED: u64 = 1 << 16;
const REMOTE_IRR: u32 = 1 << 14;

#[test]
fn reset_values() {
    let mut apic = io_apic();
    for (index, value) in
        [(0, 0), (1, 0x0017_0020), (2, 0), (0x10, 0x0001_0000), (0x11, 0), (0x3F, 0), (0x40, 0)]
    {
        assert_eq!(read(&mut apic, index), value, "index {index:#x}");
    }
    assert_eq!(read(&mut apic, 0x3E), 0x0001_0000);
}

#[test]
fn every_pin_count_shows_and_is_reachable() {
    for pins in 1..=MAX_PINS {
        let mut apic = IoApic::new(IoApicModel { pins, ..io_apic().model });
        assert_eq!(read(&mut apic, 1) >> 16, u32::from(pins) - 1);
        let last = u16::from(pins) - 1;
        assert_eq!(set_entry(&mut apic, last, EDGE), []);
        assert_eq!(line(&mut apic, pins - 1, true), 1);
        assert_eq!(line(&mut apic, pins, true), 0);
        assert_eq!(read(&mut apic, 0x10 + 2 * u16::from(pins)), 0);
    }
}

#[test]
fn only_writable_bits_change() {
    let mut apic = io_apic();
    for (index, written, read_back) in [
        (0, 0xFFFF_FFFF, 0x0F00_0000),
        (2, 0, 0x0F00_0000),
        (1, 0xFFFF_FFFF, 0x0017_0020),
        (0x10, 0xFFFF_FFFF, 0x0001_AFFF),
        (0x11, 0xFFFF_FFFF, 0xFFFF_0000),
    ] {
        write(&mut apic, index, written);
        assert_eq!(read(&mut apic, index), read_back, "index {index:#x}");
    }
}

#[test]
fn message_carries_every_field() {
    let base = |address: u64, data: u32| MessageSignalled { address: Device(address), data };
    for (why, entry, expected) in [
        ("fixed edge", 5 << 56 | EDGE, base(0xFEE0_5000, 0x4031)),
        ("level", 5 << 56 | LEVEL, base(0xFEE0_5000, 0xC031)),
        ("logical", 5 << 56 | 1 << 11 | EDGE, base(0xFEE0_5004, 0x4031)),
        ("lowest priority", 5 << 56 | 0x931, base(0xFEE0_500C, 0x4131)),
        ("NMI", 5 << 56 | 0x400, base(0xFEE0_5000, 0x4400)),
        ("ExtINT", 0x700, base(0xFEE0_0000, 0x4700)),
        ("extended destination", 0x05FE << 48 | EDGE, base(0xFEE0_5FE0, 0x4031)),
        ("remapping handle", 0x0203 << 48 | 0x831, base(0xFEE0_2034, 0x4031)),
        ("handle keeps clear of the hint", 0x0203 << 48 | 0x131, base(0xFEE0_2030, 0x4131)),
    ] {
        let mut apic = io_apic();
        set_entry(&mut apic, 3, entry);
        let mut out = Vec::new();
        apic.set_line(3, true, &mut out);
        assert_eq!(out, [Effect::MessageSignalled(expected)], "{why}");
    }
}

#[test]
fn unremapped_message_means_what_the_entry_says() {
    let mut apic = io_apic();
    set_entry(&mut apic, 3, 0x0F << 56 | 1 << 11 | LEVEL);
    let mut out = Vec::new();
    apic.set_line(3, true, &mut out);
    let [Effect::MessageSignalled(message)] = out[..] else { panic!("{out:?}") };
    let interrupt = message.interrupt(DestinationWidth::Eight).unwrap();
    assert_eq!(interrupt.destination, 0x0F);
    assert_eq!(interrupt.destination_mode, DestinationMode::Logical);
    assert_eq!(interrupt.delivery_mode, DeliveryMode::Fixed);
    assert_eq!(interrupt.vector, Vector(0x31));
    assert!(interrupt.is_level && interrupt.is_asserted && !interrupt.is_x2apic);
}

#[test]
fn edge_sends_once_per_rising_edge() {
    let mut apic = io_apic();
    set_entry(&mut apic, 3, EDGE);
    for (asserted, sent) in [(true, 1), (true, 0), (false, 0), (true, 1), (false, 0)] {
        assert_eq!(line(&mut apic, 3, asserted), sent);
        assert_eq!(read(&mut apic, 0x16) & REMOTE_IRR, 0);
    }
}

#[test]
fn edge_at_a_masked_pin_is_lost() {
    let mut apic = io_apic();
    set_entry(&mut apic, 3, MASKED | EDGE);
    assert_eq!(line(&mut apic, 3, true), 0);
    assert_eq!(set_entry(&mut apic, 3, EDGE), []);
    assert_eq!(line(&mut apic, 3, false), 0);
    assert_eq!(line(&mut apic, 3, true), 1);
}

#[test]
fn level_sends_once_until_end_of_interrupt() {
    let mut apic = io_apic();
    set_entry(&mut apic, 3, LEVEL);
    assert_eq!(line(&mut apic, 3, true), 1);
    assert_eq!(read(&mut apic, 0x16) & REMOTE_IRR, REMOTE_IRR);
    assert_eq!(line(&mut apic, 3, false), 0);
    assert_eq!(line(&mut apic, 3, true), 0);
    assert_eq!(end(&mut apic, 0x30), 0, "another vector");
    assert_eq!(end(&mut apic, 0x31), 1, "still asserted");
    assert_eq!(line(&mut apic, 3, false), 0);
    assert_eq!(end(&mut apic, 0x31), 0, "no longer asserted");
    assert_eq!(read(&mut apic, 0x16) & REMOTE_IRR, 0);
}

#[test]
fn level_at_a_masked_pin_waits_for_the_mask() {
    let mut apic = io_apic();
    set_entry(&mut apic, 3, MASKED | LEVEL);
    assert_eq!(line(&mut apic, 3, true), 0);
    assert_eq!(set_entry(&mut apic, 3, LEVEL).len(), 1);
    assert_eq!(set_entry(&mut apic, 3, MASKED | LEVEL), []);
    assert_eq!(end(&mut apic, 0x31), 0);
    assert_eq!(set_entry(&mut apic, 3, LEVEL).len(), 1);
}

#[test]
fn making_an_entry_edge_triggered_clears_remote_irr() {
    let mut apic = io_apic();
    set_entry(&mut apic, 3, LEVEL);
    line(&mut apic, 3, true);
    assert_eq!(set_entry(&mut apic, 3, MASKED | EDGE), []);
    assert_eq!(read(&mut apic, 0x16) & REMOTE_IRR, 0);
    assert_eq!(set_entry(&mut apic, 3, LEVEL).len(), 1);
}

#[test]
fn pins_that_share_a_vector_end_together() {
    let mut apic = io_apic();
    for pin in [3, 4] {
        set_entry(&mut apic, pin, LEVEL);
        assert_eq!(line(&mut apic, pin as u8, true), 1);
    }
    assert_eq!(end(&mut apic, 0x31), 2);
}

#[test]
fn eoi_register_exists_from_version_20h() {
    for (version, sent) in [(0x11, 0), (0x20, 1)] {
        let mut apic = IoApic::new(IoApicModel { version, ..io_apic().model });
        set_entry(&mut apic, 3, LEVEL);
        line(&mut apic, 3, true);
        let mut out = Vec::new();
        apic.write_mmio(EOI, 4, 0x31, &mut out);
        assert_eq!(out.len(), sent, "version {version:#x}");
    }
}

#[test]
fn message_that_nobody_took_can_be_sent_again() {
    let mut apic = io_apic();
    set_entry(&mut apic, 3, LEVEL);
    let mut out = Vec::new();
    apic.set_line(3, true, &mut out);
    let [Effect::MessageSignalled(message)] = out[..] else { panic!("{out:?}") };
    apic.not_accepted(MessageSignalled { data: message.data + 1, ..message });
    assert_eq!(line(&mut apic, 3, true), 0);
    apic.not_accepted(message);
    assert_eq!(line(&mut apic, 3, true), 1);
}

#[test]
fn no_access_panics() {
    let mut apic = IoApic::new(IoApicModel { pins: 0, ..io_apic().model });
    let mut out = Vec::new();
    for offset in 0..0x1000 {
        for size in [1, 2, 4, 8] {
            for value in [0, u64::MAX, 0xFFFF, 0x1EF] {
                apic.write_mmio(offset, size, value, &mut out);
                apic.read_mmio(offset, size);
            }
        }
    }
    for pin in 0..=255 {
        apic.set_line(pin, true, &mut out);
        apic.end_of_interrupt(Vector(pin), &mut out);
    }
}
