//! [APM2 "APIC Registers"] [SDM3 "Local APIC Register Address Map"]
//! [SDM3 "x2APIC Register Availability"]

use crate::subject::*;
use arch::apic::{LocalVector, Register};
use interrupt::{LocalApic, Refused};

/// Every register of the page, in both extended forms.
fn registers() -> Vec<Register> {
    (0..0x1000).step_by(16).filter_map(Register::at).collect()
}

/// What an access to an MSR may do.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Access {
    None,
    Read,
    /// The bits that may be one in a write.
    Write(u64),
    ReadWrite(u64),
}

/// The rules of the MSRs that both manuals have.
fn common(msr: u32) -> Access {
    use Access::*;
    match msr {
        0x802 | 0x803 | 0x80A | 0x80D | 0x810..=0x827 | 0x839 => Read,
        0x808 => ReadWrite(0xFF),
        0x80B => Write(0),
        0x828 => ReadWrite(0),
        0x833 | 0x834 => ReadWrite(0x157FF),
        0x835 | 0x836 => ReadWrite(0x1F7FF),
        0x837 => ReadWrite(0x150FF),
        0x838 => ReadWrite(0xFFFF_FFFF),
        0x83E => ReadWrite(0xB),
        0x83F => Write(0xFF),
        _ => None,
    }
}

fn amd_access(msr: u32) -> Access {
    use Access::*;
    match msr {
        0x80F => ReadWrite(0x3FF),
        0x830 => ReadWrite(0xFFFF_FFFF_000C_CFFF),
        0x832 => ReadWrite(0x350FF),
        0x840 => Read,
        0x841 => ReadWrite(7),
        0x842 => Write(0xFF),
        0x848..=0x84F => ReadWrite(0xFFFF_FFFF),
        0x850..=0x853 => ReadWrite(0x157FF),
        _ => common(msr),
    }
}

fn intel_access(msr: u32) -> Access {
    use Access::*;
    match msr {
        0x80F => ReadWrite(0x13FF),
        0x82F => ReadWrite(0x157FF),
        0x830 => ReadWrite(0xFFFF_FFFF_000C_DFFF),
        0x832 => ReadWrite(0x750FF),
        _ => common(msr),
    }
}

fn check_all_msrs(model: &interrupt::LocalApicModel, access: fn(u32) -> Access) {
    for msr in 0x7FF..=0x900 {
        let (readable, writable) = match access(msr) {
            Access::None => (false, None),
            Access::Read => (true, None),
            Access::Write(bits) => (false, Some(bits)),
            Access::ReadWrite(bits) => (true, Some(bits)),
        };
        let mut apic = x2apic(model.clone());
        assert_eq!(apic.read_msr(msr, NOW).is_ok(), readable, "read {msr:x}");
        for value in (0..64).map(|bit| 1 << bit).chain([0]) {
            let mut apic = x2apic(model.clone());
            let before = apic.clone();
            let result = apic.write_msr(msr, value, NOW, &mut Vec::new());
            let legal = writable.is_some_and(|bits| value & !bits == 0);
            assert_eq!(result.is_ok(), legal, "write {value:x} to {msr:x}");
            assert!(legal || apic == before, "a refused write changes nothing");
        }
    }
}

#[test]
fn every_bit_of_every_msr_on_amd() {
    check_all_msrs(&amd(3), amd_access);
}

#[test]
fn every_bit_of_every_msr_on_intel() {
    check_all_msrs(&intel(3), intel_access);
}

#[test]
fn switches_where_manuals_and_parts_differ() {
    let mut model = amd(3);
    model.eoi_is_readable = true;
    model.command_status_is_reserved = false;
    model.supports_tsc_deadline = true;
    model.supports_eoi_broadcast_suppression = true;
    check_all_msrs(&model, |msr| match msr {
        0x80B => Access::ReadWrite(0),
        0x80F => Access::ReadWrite(0x13FF),
        0x830 => Access::ReadWrite(0xFFFF_FFFF_000C_DFFF),
        0x832 => Access::ReadWrite(0x750FF),
        _ => amd_access(msr),
    });
}

#[test]
fn reset_values_of_the_whole_page() {
    let expected = |register, is_amd: bool| match register {
        Register::Id => 0x0300_0000,
        Register::Version if is_amd => 0x8005_0010,
        Register::Version => 0x0106_0015,
        Register::DestinationFormat => 0xFFFF_FFFF,
        Register::SpuriousVector => 0xFF,
        Register::LocalVector(LocalVector::CorrectedMachineCheck) if is_amd => 0,
        Register::LocalVector(_) => 0x0001_0000,
        Register::ExtendedFeature if is_amd => 0x0004_0007,
        Register::InterruptEnable(_) if is_amd => 0xFFFF_FFFF,
        Register::ExtendedLocalVector(_) if is_amd => 0x0001_0000,
        _ => 0,
    };
    for (model, is_amd) in [(amd(3), true), (intel(3), false)] {
        let mut apic = LocalApic::new(model);
        for register in registers() {
            assert_eq!(read(&mut apic, register), expected(register, is_amd), "{register:?}");
        }
    }
}

#[test]
fn what_sticks_after_all_ones_and_all_zeros_in_xapic_mode() {
    for (register, ones, zeros) in [
        (Register::Id, 0xFF00_0000, 0),
        (Register::Version, 0x8005_0010, 0x8005_0010),
        (Register::TaskPriority, 0xFF, 0),
        (Register::ProcessorPriority, 0, 0),
        (Register::LogicalDestination, 0xFF00_0000, 0),
        (Register::DestinationFormat, 0xFFFF_FFFF, 0x0FFF_FFFF),
        (Register::SpuriousVector, 0x3FF, 0),
        (Register::InService(3), 0, 0),
        (Register::TriggerMode(3), 0, 0),
        (Register::Request(3), 0, 0),
        (Register::CommandHigh, 0xFF00_0000, 0),
        (Register::LocalVector(LocalVector::Timer), 0x0003_00FF, 0),
        (Register::LocalVector(LocalVector::Thermal), 0x0001_07FF, 0),
        (Register::LocalVector(LocalVector::Performance), 0x0001_07FF, 0),
        (Register::LocalVector(LocalVector::Lint0), 0x0001_A7FF, 0),
        (Register::LocalVector(LocalVector::Lint1), 0x0001_A7FF, 0),
        (Register::LocalVector(LocalVector::Error), 0x0001_00FF, 0),
        (Register::InitialCount, 0xFFFF_FFFF, 0),
        (Register::DivideConfiguration, 0xB, 0),
        (Register::ExtendedFeature, 0x0004_0007, 0x0004_0007),
        (Register::ExtendedControl, 7, 0),
        (Register::InterruptEnable(5), 0xFFFF_FFFF, 0),
        (Register::ExtendedLocalVector(2), 0x0001_07FF, 0),
    ] {
        for (written, expected) in [(u32::MAX, ones), (0, zeros)] {
            let mut apic = xapic(amd(3));
            write(&mut apic, register, written);
            assert_eq!(read(&mut apic, register), expected, "{register:?} after {written:x}");
        }
    }
}

#[test]
fn identifier_is_read_only_where_the_model_says_so() {
    for (mut model, is_writable) in [(amd(3), true), (amd(3), false)] {
        model.id_is_writable = is_writable;
        let mut apic = xapic(model);
        write(&mut apic, Register::Id, 0x0700_0000);
        assert_eq!(apic.id().0, if is_writable { 7 } else { 3 });
    }
}

#[test]
fn narrow_and_unaligned_reads_stay_in_the_first_dword_of_sixteen_bytes() {
    let mut apic = xapic(amd(0xA5));
    for (offset, size, value) in [
        (0x20, 4, 0xA500_0000),
        (0x20, 8, 0xA500_0000),
        (0x22, 2, 0xA500),
        (0x23, 1, 0xA5),
        (0x23, 4, 0xA5),
        (0x24, 4, 0),
        (0x2F, 1, 0),
    ] {
        assert_eq!(apic.read_mmio(offset, size, NOW), value, "{size} at {offset:x}");
    }
}

#[test]
fn only_aligned_dword_writes_count() {
    for offset in 0x80..0x90 {
        for size in [1, 2, 4, 8] {
            let mut apic = xapic(amd(3));
            apic.write_mmio(offset, size, 0x40, NOW, &mut Vec::new());
            let counts = offset == 0x80 && size == 4;
            assert_eq!(apic.task_priority(), if counts { 0x40 } else { 0 });
        }
    }
}

#[test]
fn self_ipi_is_not_on_the_page() {
    let mut apic = xapic(intel(3));
    let mut out = Vec::new();
    apic.write_mmio(0x3F0, 4, 0x41, NOW, &mut out);
    assert_eq!(out, []);
}

#[test]
fn command_is_one_register_of_64_bits_in_x2apic_mode() {
    let mut apic = x2apic(intel(3));
    let value = 0x1234_5678_0004_4841;
    apic.write_msr(0x830, value, NOW, &mut Vec::new()).unwrap();
    assert_eq!(apic.read_msr(0x830, NOW), Ok(value));
    assert_eq!(apic.read_msr(0x831, NOW), Err(Refused));
}
