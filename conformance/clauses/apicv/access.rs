//! Accesses by memory. [SDM3 "Virtualizing Memory-Mapped APIC Accesses"]

use crate::machine::{
    ACCESS_PAGE, Memory, XAPIC, apicv, control_sets, insert, register, set_register,
};
use arch::address::SystemPhysical;
use arch::vmx::ExitReason;
use arch::vmx::qualification::{ApicAccess, ApicAccessKind};
use interrupt::page::Bank;
use virtual_apic::apicv::{Apicv, ApicvControls, ApicvExit, CommandHalves, Completion};

/// In which of the three settings an access is virtualized: with the TPR shadow alone, with
/// virtual-interrupt delivery, with APIC-register virtualization.
#[derive(Clone, Copy, PartialEq)]
enum Virtualized {
    /// In all three.
    All,
    /// In the latter two.
    Two,
    /// In the last.
    One,
    No,
}

/// The manual's lists, typed again: (first, last, reads, writes).
const TABLE: &[(u16, u16, Virtualized, Virtualized)] = {
    use Virtualized::*;
    &[
        (0x020, 0x020, One, One),
        (0x030, 0x030, One, No),
        (0x080, 0x080, All, All),
        (0x090, 0x090, No, No),
        (0x0A0, 0x0A0, No, No),
        (0x0B0, 0x0B0, Two, Two),
        (0x0C0, 0x0C0, No, No),
        (0x0D0, 0x0D0, One, One),
        (0x0E0, 0x0E0, One, One),
        (0x0F0, 0x0F0, One, One),
        (0x100, 0x170, One, No),
        (0x180, 0x1F0, One, No),
        (0x200, 0x270, One, No),
        (0x280, 0x280, One, One),
        (0x2F0, 0x2F0, No, No),
        (0x300, 0x300, Two, Two),
        (0x310, 0x310, One, One),
        (0x320, 0x370, One, One),
        (0x380, 0x380, One, One),
        (0x390, 0x390, No, No),
        (0x3E0, 0x3E0, One, One),
    ]
};

fn is_virtualized(
    controls: ApicvControls,
    row: impl Fn(&(u16, u16, Virtualized, Virtualized)) -> Virtualized,
    offset: u16,
    size: u8,
) -> bool {
    let at = offset & !15;
    let found = TABLE.iter().find(|&&(first, last, ..)| (first..=last).contains(&at));
    let listed = match found.map_or(Virtualized::No, row) {
        Virtualized::All => true,
        Virtualized::Two => controls.virtualizes_registers || controls.delivers_interrupts,
        Virtualized::One => controls.virtualizes_registers,
        Virtualized::No => false,
    };
    let last_byte = offset + u16::from(size) - 1;
    // With APIC-register virtualization the lists are of ranges, else of offsets.
    let is_in_place = if controls.virtualizes_registers {
        last_byte <= at + 3
    } else {
        offset == at && size <= 4
    };
    controls.uses_tpr_shadow && listed && is_in_place
}

const SIZES: [u8; 4] = [1, 2, 4, 8];

fn exit(kind: ApicAccessKind, offset: u16) -> ApicAccess {
    ApicAccess::new().with_kind(kind).with_offset(offset)
}

/// All offsets at which an access of `size` does not leave the page.
fn offsets(size: u8) -> impl Iterator<Item = u16> {
    0..=0x1000 - u16::from(size)
}

#[test]
fn each_read_follows_the_table_under_every_control() {
    let mut memory = Memory::default();
    for offset in (0..0x400).step_by(16) {
        set_register(&mut memory, offset, 0x8765_4321 ^ u32::from(offset));
    }
    for controls in control_sets() {
        let apicv = apicv(controls);
        for (size, offset) in SIZES.into_iter().flat_map(|n| offsets(n).map(move |at| (n, at))) {
            let outcome = apicv.read_page(&mut memory, offset, size);
            let expected = if is_virtualized(controls, |row| row.2, offset, size) {
                let bytes = register(&memory, offset & !15).to_le_bytes();
                let first = usize::from(offset % 16);
                let mut value = [0; 4];
                value[..usize::from(size)]
                    .copy_from_slice(&bytes[first..first + usize::from(size)]);
                Ok(u32::from_le_bytes(value))
            } else {
                Err(exit(ApicAccessKind::LinearRead, offset))
            };
            assert_eq!(outcome, expected, "{size} bytes at {offset:#x}, {controls:?}");
        }
    }
}

#[test]
fn each_write_follows_the_table_under_every_control() {
    for controls in control_sets().filter(|controls| !controls.virtualizes_ipis) {
        for (size, offset) in SIZES.into_iter().flat_map(|n| offsets(n).map(move |at| (n, at))) {
            let mut memory = Memory::default();
            set_register(&mut memory, offset & 0xFF0, 0x1111_1111);
            let mut apicv = apicv(controls);
            let before = (apicv, memory.clone());
            let outcome = apicv.write_page(&mut memory, offset, size, 0x8765_4321);
            if !is_virtualized(controls, |row| row.3, offset, size) {
                let expected = Err(exit(ApicAccessKind::LinearWrite, offset));
                assert_eq!(outcome, expected, "{size} bytes at {offset:#x}, {controls:?}");
                assert_eq!((apicv, memory), before, "nothing changed");
                continue;
            }
            assert_eq!(outcome, Ok(()), "{size} bytes at {offset:#x}, {controls:?}");
            assert_eq!(apicv.unfinished_write, Some(offset));
            let mut bytes = 0x1111_1111u32.to_le_bytes();
            let (first, size) = (usize::from(offset % 16), usize::from(size));
            bytes[first..first + size].copy_from_slice(&0x8765_4321u32.to_le_bytes()[..size]);
            assert_eq!(register(&memory, offset & 0xFF0), u32::from_le_bytes(bytes));
        }
    }
}

#[test]
fn ipi_virtualization_alone_makes_the_command_writable_and_not_readable() {
    let controls = ApicvControls {
        uses_tpr_shadow: true,
        virtualizes_accesses: true,
        virtualizes_ipis: true,
        ..ApicvControls::default()
    };
    for (halves, low, high) in [
        (CommandHalves::Both, true, true),
        (CommandHalves::Low, true, false),
        (CommandHalves::Neither, false, false),
    ] {
        let mut memory = Memory::default();
        let mut apicv = apicv(controls);
        apicv.behaviour.ipi_virtualization_alone = halves;
        for (offset, is_writable) in [(0x300, low), (0x310, high), (0x280, false), (0x0B0, false)] {
            apicv.unfinished_write = None;
            let outcome = apicv.write_page(&mut memory, offset, 4, 0);
            assert_eq!(outcome.is_ok(), is_writable, "{offset:#x} {halves:?}");
            apicv.unfinished_write = None;
            assert!(apicv.read_page(&mut memory, offset, 4).is_err(), "{offset:#x}");
        }
    }
}

#[test]
fn other_kinds_of_access_are_never_virtualized() {
    use ApicAccessKind::*;
    let mut apicv = apicv(XAPIC);
    for kind in [LinearFetch, LinearDelivery, LinearMonitor] {
        for offset in [0x080, 0x0B0, 0x390] {
            assert_eq!(apicv.refusal(kind, offset, 4), Some(exit(kind, offset)));
        }
    }
    for kind in [PhysicalDelivery, PhysicalInstruction] {
        assert_eq!(apicv.refusal(kind, 0x080, 8), None, "reaches memory");
        apicv.behaviour.physical_access_exits = true;
        assert_eq!(apicv.refusal(kind, 0x080, 8), Some(exit(kind, 0)));
        apicv.behaviour.physical_access_exits = false;
    }
}

#[test]
fn the_page_is_known_by_its_system_physical_address() {
    for (address, covers) in [
        (ACCESS_PAGE - 1, false),
        (ACCESS_PAGE, true),
        (ACCESS_PAGE + 0xFFF, true),
        (ACCESS_PAGE + 0x1000, false),
    ] {
        assert_eq!(apicv(XAPIC).covers(SystemPhysical(address)), covers, "{address:#x}");
    }
    let controls = ApicvControls { virtualizes_accesses: false, ..XAPIC };
    assert!(!apicv(controls).covers(SystemPhysical(ACCESS_PAGE)));
}

#[test]
fn nothing_more_is_virtualized_after_a_virtualized_write_of_the_same_operation() {
    let mut memory = Memory::default();
    let mut apicv = apicv(XAPIC);
    assert_eq!(apicv.write_page(&mut memory, 0x310, 4, 0), Ok(()));
    let read = apicv.read_page(&mut memory, 0x080, 4);
    assert_eq!(read, Err(exit(ApicAccessKind::LinearRead, 0x080)));
    let write = apicv.write_page(&mut memory, 0x080, 4, 0x20);
    assert_eq!(write, Err(exit(ApicAccessKind::LinearWrite, 0x080)));
    assert_eq!(apicv.complete_operation(&mut memory), Completion::Done);
    assert_eq!(apicv.read_page(&mut memory, 0x080, 4), Ok(0));
}

#[test]
fn a_write_is_forgotten_if_its_operation_leaves_the_guest() {
    let mut memory = Memory::default();
    let mut apicv = apicv(XAPIC);
    assert_eq!(apicv.write_page(&mut memory, 0x280, 4, 0), Ok(()));
    apicv.enter(&mut memory);
    assert_eq!(apicv.complete_operation(&mut memory), Completion::Done);
}

fn write(apicv: &mut Apicv, memory: &mut Memory, offset: u16, size: u8, value: u32) -> Completion {
    assert_eq!(apicv.write_page(memory, offset, size, value), Ok(()), "{offset:#x}");
    apicv.complete_operation(memory)
}

#[test]
fn a_register_without_a_virtualization_of_its_own_exits_after_the_write() {
    let rows = [0x020, 0x0D0, 0x0E0, 0x0F0, 0x280, 0x320, 0x370, 0x380, 0x3E0];
    for register_offset in rows {
        for offset in register_offset..register_offset + 4 {
            let mut memory = Memory::default();
            let mut apicv = apicv(XAPIC);
            let completion = write(&mut apicv, &mut memory, offset, 1, 0x55);
            assert_eq!(completion, Completion::Exit(ApicvExit::ApicWrite(offset)));
            assert_eq!(register(&memory, register_offset), 0x55 << (offset % 4 * 8));
        }
    }
    let exit = ApicvExit::ApicWrite(0x3E0);
    assert_eq!((exit.reason(), exit.qualification()), (ExitReason::ApicWrite, 0x3E0));
}

#[test]
fn bytes_beside_the_first_of_tpr_eoi_and_command_exit_after_the_write() {
    for offset in [0x081, 0x082, 0x083, 0x0B1, 0x0B3, 0x301, 0x303] {
        let (mut memory, mut apicv) = (Memory::default(), apicv(XAPIC));
        let completion = write(&mut apicv, &mut memory, offset, 1, 0);
        assert_eq!(completion, Completion::Exit(ApicvExit::ApicWrite(offset)));
    }
}

#[test]
fn the_upper_bytes_of_a_task_priority_are_cleared_before_its_virtualization() {
    for (size, value, kept) in
        [(4, 0xFFFF_FF2A, 0x2A), (2, 0xFF3B, 0x3B), (1, 0x4C, 0x4C), (4, 0x0000_0100, 0)]
    {
        let (mut memory, mut apicv) = (Memory::default(), apicv(XAPIC));
        set_register(&mut memory, 0x080, 0xABCD_EF00);
        assert_eq!(write(&mut apicv, &mut memory, 0x080, size, value), Completion::Done);
        assert_eq!(register(&memory, 0x080), kept);
        assert_eq!(register(&memory, 0x0A0), kept, "PPR follows");
    }
}

#[test]
fn an_eoi_reads_zero_and_ends_the_interrupt_in_service() {
    let (mut memory, mut apicv) = (Memory::default(), apicv(XAPIC));
    insert(&mut memory, Bank::InService, 0x51);
    apicv.status.set_servicing(0x51);
    assert_eq!(write(&mut apicv, &mut memory, 0x0B0, 4, 0xFFFF_FFFF), Completion::Done);
    assert_eq!(register(&memory, 0x0B0), 0);
    assert_eq!(apicv.status.servicing(), 0);
}

#[test]
fn an_eoi_exits_after_the_write_without_virtual_interrupt_delivery() {
    let controls = ApicvControls { delivers_interrupts: false, ..XAPIC };
    let (mut memory, mut apicv) = (Memory::default(), apicv(controls));
    let completion = write(&mut apicv, &mut memory, 0x0B0, 4, 7);
    assert_eq!(completion, Completion::Exit(ApicvExit::ApicWrite(0x0B0)));
    assert_eq!(register(&memory, 0x0B0), 7);
}

#[test]
fn three_bytes_of_the_commands_upper_half_are_cleared_without_an_exit() {
    for (offset, size, value) in [(0x310, 4, 0x1234_5678), (0x313, 1, 0x12), (0x312, 2, 0x1234)] {
        let (mut memory, mut apicv) = (Memory::default(), apicv(XAPIC));
        assert_eq!(write(&mut apicv, &mut memory, offset, size, value), Completion::Done);
        assert_eq!(register(&memory, 0x310), 0x1200_0000);
    }
}
