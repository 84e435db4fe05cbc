//! What the types encode, with literals from the manual and from dumps of real parts.

use super::capability::{EptVpid, VmxCapabilities};
use super::ept::{EptEntry, EptPointer};
use super::error::{AbortCode, InstructionError};
use super::event::{Activity, InterruptionInfo, InterruptionType, PendingDebug};
use super::exit::{ExitReason, ExitReasonField};
use super::field::{self, Field, Group, Part, TABLE, Width, control, guest};
use super::instruction::InstructionInformation;
use super::msr::{self, AreaEntry, bitmap_bit};
use super::qualification::*;
use super::requirement::Requirement;
use super::segment::AccessRights;
use super::*;
use dump::{HASWELL_EP, IVY_BRIDGE_EP, SAPPHIRE_RAPIDS, SKYLAKE_SP};

mod dump;

#[test]
fn an_encoding_says_width_group_and_index() {
    let rows = [
        (control::VPID, Width::Bits16, Group::Control, 0),
        (guest::INTERRUPT_STATUS, Width::Bits16, Group::Guest, 8),
        (control::PID_POINTER_TABLE, Width::Bits64, Group::Control, 0x21),
        (field::exit::GUEST_PHYSICAL_ADDRESS, Width::Bits64, Group::ReadOnly, 0),
        (guest::PREEMPTION_TIMER, Width::Bits32, Group::Guest, 0x17),
        (field::host::RIP, Width::Natural, Group::Host, 11),
    ];
    for (field, width, group, index) in rows {
        assert_eq!((field.width(), field.group(), field.index()), (width, group, index));
    }
}

#[test]
fn every_field_is_found_by_its_encoding_and_nothing_else_is() {
    for (number, row) in TABLE.iter().enumerate() {
        let encoding = row.field.encoding() as u64;
        assert_eq!(row.field.number(), Some(number), "{}", row.name);
        assert_eq!(Field::decode(encoding), Some((row.field, Part::Full)), "{}", row.name);
        let is_64_bit = row.field.width() == Width::Bits64;
        let high = is_64_bit.then_some((row.field, Part::High));
        assert_eq!(Field::decode(encoding | 1), high, "{}", row.name);
        for wrong in [encoding | 0x1000, encoding | 0x8000, encoding | 1 << 32] {
            assert_eq!(Field::decode(wrong), None, "{wrong:#x}");
        }
    }
    let known = (0..=0xFFFFu64).filter(|raw| Field::decode(*raw).is_some()).count();
    let wide = TABLE.iter().filter(|row| row.field.width() == Width::Bits64).count();
    assert_eq!(known, TABLE.len() + wide);
}

#[test]
fn fields_exist_with_their_control() {
    let rows = [
        (IVY_BRIDGE_EP, guest::INTERRUPT_STATUS, true),
        (IVY_BRIDGE_EP, control::EPTP_LIST, false),
        (IVY_BRIDGE_EP, control::VMREAD_BITMAP, false),
        (HASWELL_EP, control::VMREAD_BITMAP, true),
        (HASWELL_EP, guest::PML_INDEX, false),
        (SKYLAKE_SP, guest::PML_INDEX, true),
        (SKYLAKE_SP, control::TSC_MULTIPLIER, true),
        (SKYLAKE_SP, control::TERTIARY, false),
        (SKYLAKE_SP, guest::S_CET, false),
        (SKYLAKE_SP, control::CR3_TARGET_3, true),
        (SAPPHIRE_RAPIDS, control::TERTIARY, true),
        (SAPPHIRE_RAPIDS, control::PID_POINTER_TABLE, true),
        (SAPPHIRE_RAPIDS, control::HLAT_POINTER, false),
        (SAPPHIRE_RAPIDS, guest::S_CET, true),
    ];
    for (part, field, expected) in rows {
        let row = &TABLE[field.number().unwrap()];
        assert_eq!(part.satisfies(row.requirement), expected, "{}", row.name);
    }
}

#[test]
fn capability_msrs_read_as_in_the_dumps() {
    // 482h and 484h, which the capabilities keep only in their TRUE form.
    let rows = [
        (HASWELL_EP, msr::PIN_CONTROLS, 0x0000_00FF_0000_0016),
        (HASWELL_EP, msr::PRIMARY_CONTROLS, 0xFFF9_FFFE_0401_E172),
        (HASWELL_EP, msr::EXIT_CONTROLS, 0x007F_FFFF_0003_6DFF),
        (HASWELL_EP, msr::ENTRY_CONTROLS, 0x0000_FFFF_0000_11FF),
        (SKYLAKE_SP, msr::EXIT_CONTROLS, 0x01FF_FFFF_0003_6DFF),
        (SKYLAKE_SP, msr::ENTRY_CONTROLS, 0x0003_FFFF_0000_11FF),
        (SKYLAKE_SP, msr::SECONDARY_CONTROLS, 0x025F_7FFF_0000_0000),
        (SKYLAKE_SP, msr::CR4_FIXED0, 0x2000),
        (SAPPHIRE_RAPIDS, msr::PRIMARY_CONTROLS, 0xFFFB_FFFE_0401_E172),
        (SAPPHIRE_RAPIDS, msr::TERTIARY_CONTROLS, 0x10),
    ];
    for (part, number, value) in rows {
        assert_eq!(part.msr(number, 0), Some(value), "{number:#x}");
    }
    assert_eq!(SKYLAKE_SP.msr(msr::TERTIARY_CONTROLS, 0), None);
    assert_eq!(IVY_BRIDGE_EP.msr(msr::VM_FUNCTIONS, 0), None);
    assert_eq!(SKYLAKE_SP.msr(msr::CR4_FIXED1, 0x7_67FF), Some(0x7_67FF));
}

#[test]
fn the_highest_index_covers_every_field_that_exists() {
    // Real parts report 2Ah or 2Eh although the preemption timer has index 17h, as this does, and
    // the table of descriptors 21h.
    assert_eq!(HASWELL_EP.vmcs_enumeration(), 0x2E);
    assert_eq!(SKYLAKE_SP.vmcs_enumeration(), 0x32);
    assert!(SAPPHIRE_RAPIDS.vmcs_enumeration() >= 0x42);
}

#[test]
fn a_control_vector_is_accepted_between_its_bounds() {
    let primary = SKYLAKE_SP.primary;
    assert!(primary.accepts(0x0400_6172));
    assert!(!primary.accepts(0x0400_6170), "a required bit is clear");
    assert!(!primary.accepts(0x0400_6172 | 1), "a bit that is not allowed is set");
    assert!(primary.accepts(0x0400_6172 | PrimaryControls::HLT_EXITING.bits()));
}

#[test]
fn nothing_is_offered_that_one_side_lacks() {
    let none = VmxCapabilities {
        secondary: SecondaryControls::EPT,
        ept_vpid: EptVpid::FOUR_LEVELS,
        functions: VmFunctions::empty(),
        misc: SKYLAKE_SP.misc.with_cr3_targets(0).with_has_shutdown_activity(false),
        pin: capability::Allowed { required: 0x16, allowed: 0x1F },
        ..SKYLAKE_SP
    };
    let common = SKYLAKE_SP.common(&none);
    assert_eq!(common.secondary, SecondaryControls::EPT);
    assert_eq!(common.ept_vpid, EptVpid::FOUR_LEVELS);
    assert_eq!(common.misc.cr3_targets(), 0);
    assert!(!common.misc.has_shutdown_activity() && common.misc.has_hlt_activity());
    assert_eq!(common.pin.into_msr(), 0x1F_0000_0016);
    assert!(!common.satisfies(Requirement::Cr3Targets(1)));
    assert_eq!(SKYLAKE_SP.common(&SKYLAKE_SP), SKYLAKE_SP);
}

#[test]
fn exit_reasons() {
    // As in Linux' uapi/asm/vmx.h.
    let rows = [
        (ExitReason::ExceptionOrNmi, 0),
        (ExitReason::TripleFault, 2),
        (ExitReason::InterruptWindow, 7),
        (ExitReason::TaskSwitch, 9),
        (ExitReason::Cpuid, 10),
        (ExitReason::Hlt, 12),
        (ExitReason::Vmcall, 18),
        (ExitReason::Vmxon, 27),
        (ExitReason::ControlRegister, 28),
        (ExitReason::IoInstruction, 30),
        (ExitReason::InvalidGuestState, 33),
        (ExitReason::Mwait, 36),
        (ExitReason::Pause, 40),
        (ExitReason::TprBelowThreshold, 43),
        (ExitReason::ApicAccess, 44),
        (ExitReason::VirtualizedEoi, 45),
        (ExitReason::EptViolation, 48),
        (ExitReason::PreemptionTimer, 52),
        (ExitReason::ApicWrite, 56),
        (ExitReason::PageModificationLogFull, 62),
        (ExitReason::Tpause, 68),
        (ExitReason::InstructionTimeout, 75),
        (ExitReason::WrmsrImmediate, 85),
        (ExitReason::Unknown(35), 35),
    ];
    for (reason, bits) in rows {
        assert_eq!(reason.into_bits(), bits);
        assert_eq!(ExitReason::from_bits(bits), reason);
    }
    for bits in 0..=u16::MAX {
        assert_eq!(ExitReason::from_bits(bits).into_bits(), bits);
    }
    let failure = ExitReasonField::new()
        .with_basic(ExitReason::InvalidGuestState)
        .with_is_entry_failure(true);
    assert_eq!(failure.into_bits(), 0x8000_0021);
}

#[test]
fn errors_and_aborts() {
    let rows = [
        (InstructionError::VmclearAddress, 2),
        (InstructionError::VmlaunchOfNonClear, 4),
        (InstructionError::EntryControls, 7),
        (InstructionError::EntryHostState, 8),
        (InstructionError::VmptrldRevision, 11),
        (InstructionError::UnsupportedField, 12),
        (InstructionError::VmxonInRoot, 15),
        (InstructionError::EntryWhileMovSsBlocks, 26),
        (InstructionError::InvalidateOperand, 28),
    ];
    for (error, bits) in rows {
        assert_eq!(error.into_bits(), bits, "{error:?}");
    }
    for bits in 0..64 {
        assert_eq!(InstructionError::from_bits(bits).into_bits(), bits);
        assert_eq!(AbortCode::from_bits(bits).into_bits(), bits);
    }
}

#[test]
fn events_pack_as_the_manual_draws_them() {
    let page_fault = InterruptionInfo::event(InterruptionType::HardwareException, 14, true);
    assert_eq!(page_fault.into_bits(), 0x8000_0B0E);
    let nmi = InterruptionInfo::event(InterruptionType::Nmi, 2, false);
    assert_eq!(nmi.into_bits(), 0x8000_0202);
    assert_eq!(nmi.with_unblocked_nmi_by_iret(true).into_bits(), 0x8000_1202);
    for bits in 0..8 {
        assert_eq!(InterruptionType::from_bits(bits).into_bits(), bits);
        assert_eq!(Activity::from_bits(bits as u32).into_bits(), bits as u32);
    }
    assert_eq!(PendingDebug::new().with_single_step(true).into_bits(), 0x4000);
    assert_eq!(PendingDebug::RESERVED & 0x1500F, 0);
}

#[test]
fn qualifications_pack_as_the_manual_draws_them() {
    let move_to_cr3 = ControlAccess::new().with_register(3).with_general_register(10);
    assert_eq!(move_to_cr3.into_bits(), 0xA03);
    let lmsw = ControlAccess::new()
        .with_kind(ControlAccessKind::Lmsw)
        .with_is_memory_operand(true)
        .with_machine_status(0x000E);
    assert_eq!(lmsw.into_bits(), 0x000E_0070);
    assert_eq!(DebugAccess::new().with_register(7).with_is_read(true).into_bits(), 0x17);
    let rep_insb = IoInstruction::new()
        .with_is_input(true)
        .with_is_string(true)
        .with_is_repeated(true)
        .with_port(0x1F0);
    assert_eq!(rep_insb.into_bits(), 0x01F0_0038);
    let gate = TaskSwitch::new().with_selector(0x28).with_source(TaskSwitchSource::Gate);
    assert_eq!(gate.into_bits(), 0xC000_0028);
    let walk =
        EptViolation::new().with_is_read(true).with_is_write(true).with_has_linear_address(true);
    assert_eq!(walk.into_bits(), 0x83);
    assert_eq!(EptViolation::new().with_unblocked_nmi_by_iret(true).into_bits(), 1 << 12);
    let write = ApicAccess::new().with_offset(0xB0).with_kind(ApicAccessKind::LinearWrite);
    assert_eq!(write.into_bits(), 0x10B0);
    for bits in 0..16 {
        assert_eq!(ApicAccessKind::from_bits(bits).into_bits(), bits);
    }
    assert_eq!(DebugException::new().with_single_step(true).into_bits(), 1 << 14);
}

#[test]
fn instruction_information_packs_as_the_manual_draws_it() {
    // INVVPID RDX, [RBX + RSI * 4] with DS and 64-bit addresses.
    let info = InstructionInformation::new()
        .with_scale(2)
        .with_address_size(2)
        .with_segment(3)
        .with_index_register(6)
        .with_base_register(3)
        .with_second_register(2);
    assert_eq!(info.into_bits(), 0x2 | 2 << 7 | 3 << 15 | 6 << 18 | 3 << 23 | 2 << 28);
    let register = InstructionInformation::new().with_is_register_operand(true);
    assert_eq!(register.with_first_register(9).into_bits(), 1 << 10 | 9 << 3);
}

#[test]
fn access_rights_carry_descriptor_attributes() {
    // A flat 64-bit code segment and what a null selector leaves.
    let code = AccessRights::from_bits(0xA09B);
    assert!(code.is_long() && code.is_page_granular() && !code.is_unusable());
    assert_eq!(code.attributes().0, 0xA9B);
    assert_eq!(AccessRights::from_attributes(code.attributes()), code);
    assert!(AccessRights::UNUSABLE.is_unusable());
    assert!(AccessRights::from_bits(0x20100).has_reserved_bits());
    assert!(!AccessRights::from_bits(0x1F0FF).has_reserved_bits());
}

#[test]
fn ept_entries_and_pointers() {
    let pointer = EptPointer::from_bits(0x1_2345_605E);
    assert_eq!((pointer.memory_type(), pointer.levels_less_one()), (6, 3));
    assert!(pointer.keeps_accessed_and_dirty() && !pointer.checks_shadow_stack());
    assert_eq!(pointer.root(), 0x1_2345_6000);
    let entry = EptEntry::from_bits(0xB7 | 1 << 63);
    assert!(entry.is_readable() && entry.is_large() && entry.suppresses_exception());
    assert_eq!(entry.memory_type(), 6);
    assert_eq!(EptEntry::reserved_in_leaf(2), 0x1F_F000);
    assert_eq!(EptEntry::reserved_in_table(4), 0xF8);
    assert_eq!(EptEntry::reserved_in_table(3), 0x78);
}

#[test]
fn msr_bitmaps_cover_two_ranges() {
    let rows = [
        (0x10, false, Some(0x10)),
        (0x1FFF, true, Some(0x800 * 8 + 0x1FFF)),
        (0x2000, false, None),
        (0xC000_0080, false, Some(0x400 * 8 + 0x80)),
        (0xC000_0080, true, Some(0xC00 * 8 + 0x80)),
        (0xC001_0000, false, None),
    ];
    for (number, is_write, bit) in rows {
        assert_eq!(bitmap_bit(number, is_write), bit, "{number:#x}");
    }
    let entry = AreaEntry::from_qwords(0x1_0000_0010, 7);
    assert_eq!(entry, AreaEntry { index: 0x10, reserved: 1, value: 7 });
}
