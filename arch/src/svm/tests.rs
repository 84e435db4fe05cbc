//! Independent transcriptions: the values of Linux' `asm/svm.h` and `uapi/asm/svm.h`, typed here as
//! literals.

use super::avic::*;
use super::exit::*;
use super::feature::{SvmFeatures, SvmFeatures2};
use super::intercept::*;
use super::segment::{Segment, SegmentAttributes};
use super::vmcb::{CleanBits, InterruptControl, NestedControl, SIZE, TlbControl, control, save};
use super::*;
use crate::address::SystemPhysical;

#[test]
fn control_area_offsets() {
    let rows = [
        ("INTERCEPTS", control::INTERCEPTS.offset(), 0x000),
        ("PAUSE_FILTER_THRESHOLD", control::PAUSE_FILTER_THRESHOLD.offset(), 60),
        ("PAUSE_FILTER_COUNT", control::PAUSE_FILTER_COUNT.offset(), 62),
        ("IOPM_BASE_PA", control::IOPM_BASE_PA.offset(), 64),
        ("MSRPM_BASE_PA", control::MSRPM_BASE_PA.offset(), 72),
        ("TSC_OFFSET", control::TSC_OFFSET.offset(), 80),
        ("GUEST_ASID", control::GUEST_ASID.offset(), 88),
        ("TLB_CONTROL", control::TLB_CONTROL.offset(), 92),
        ("INTERRUPT_CONTROL", control::INTERRUPT_CONTROL.offset(), 96),
        ("INTERRUPT_STATE", control::INTERRUPT_STATE.offset(), 104),
        ("EXITCODE", control::EXITCODE.offset(), 112),
        ("EXITINFO1", control::EXITINFO1.offset(), 120),
        ("EXITINFO2", control::EXITINFO2.offset(), 128),
        ("EXITINTINFO", control::EXITINTINFO.offset(), 136),
        ("NESTED_CONTROL", control::NESTED_CONTROL.offset(), 144),
        ("AVIC_APIC_BAR", control::AVIC_APIC_BAR.offset(), 152),
        ("EVENTINJ", control::EVENTINJ.offset(), 168),
        ("N_CR3", control::N_CR3.offset(), 176),
        ("VIRTUALIZATION_EXTENSIONS", control::VIRTUALIZATION_EXTENSIONS.offset(), 184),
        ("CLEAN_BITS", control::CLEAN_BITS.offset(), 192),
        ("N_RIP", control::N_RIP.offset(), 200),
        ("FETCHED_BYTES", control::FETCHED_BYTES.offset(), 208),
        ("AVIC_BACKING_PAGE", control::AVIC_BACKING_PAGE.offset(), 224),
        ("AVIC_LOGICAL_TABLE", control::AVIC_LOGICAL_TABLE.offset(), 240),
        ("AVIC_PHYSICAL_TABLE", control::AVIC_PHYSICAL_TABLE.offset(), 248),
        ("BUS_LOCK_THRESHOLD", control::BUS_LOCK_THRESHOLD.offset(), 288),
    ];
    for (name, ours, literal) in rows {
        assert_eq!(ours, literal, "{name}");
    }
}

#[test]
fn save_area_offsets() {
    let rows = [
        ("ES", save::ES.offset(), 1024),
        ("GS", save::GS.offset(), 1104),
        ("GDTR", save::GDTR.offset(), 1120),
        ("TR", save::TR.offset(), 1168),
        ("CPL", save::CPL.offset(), 1227),
        ("EFER", save::EFER.offset(), 1232),
        ("CR4", save::CR4.offset(), 1352),
        ("DR6", save::DR6.offset(), 1384),
        ("RFLAGS", save::RFLAGS.offset(), 1392),
        ("RIP", save::RIP.offset(), 1400),
        ("RSP", save::RSP.offset(), 1496),
        ("RAX", save::RAX.offset(), 1528),
        ("STAR", save::STAR.offset(), 1536),
        ("KERNEL_GS_BASE", save::KERNEL_GS_BASE.offset(), 1568),
        ("SYSENTER_EIP", save::SYSENTER_EIP.offset(), 1592),
        ("CR2", save::CR2.offset(), 1600),
        ("G_PAT", save::G_PAT.offset(), 1640),
        ("LAST_EXCEPTION_TO", save::LAST_EXCEPTION_TO.offset(), 1680),
        ("SPEC_CTRL", save::SPEC_CTRL.offset(), 1760),
    ];
    for (name, ours, literal) in rows {
        assert_eq!(ours, literal, "{name}");
    }
}

#[test]
fn exit_codes() {
    let rows = [
        (ExitCode::ControlRead(8), 0x008),
        (ExitCode::ControlWrite(8), 0x018),
        (ExitCode::DebugRead(7), 0x027),
        (ExitCode::DebugWrite(7), 0x037),
        (ExitCode::Exception(14), 0x04E),
        (ExitCode::Intr, 0x060),
        (ExitCode::VirtualInterrupt, 0x064),
        (ExitCode::Rdtsc, 0x06E),
        (ExitCode::Cpuid, 0x072),
        (ExitCode::Iret, 0x074),
        (ExitCode::Pause, 0x077),
        (ExitCode::Hlt, 0x078),
        (ExitCode::IoPort, 0x07B),
        (ExitCode::Msr, 0x07C),
        (ExitCode::Shutdown, 0x07F),
        (ExitCode::Vmrun, 0x080),
        (ExitCode::Vmmcall, 0x081),
        (ExitCode::Skinit, 0x086),
        (ExitCode::Xsetbv, 0x08D),
        (ExitCode::EferWriteTrap, 0x08F),
        (ExitCode::ControlWriteTrap(0), 0x090),
        (ExitCode::Invpcid, 0x0A2),
        (ExitCode::BusLock, 0x0A5),
        (ExitCode::IdleHlt, 0x0A6),
        (ExitCode::NestedPageFault, 0x400),
        (ExitCode::AvicIncompleteIpi, 0x401),
        (ExitCode::AvicNoAcceleration, 0x402),
        (ExitCode::Vmgexit, 0x403),
        (ExitCode::Invalid, -1i64 as u64),
        (ExitCode::Unknown(0x12345), 0x12345),
    ];
    for (code, literal) in rows {
        assert_eq!(code.into_bits(), literal, "{code:?}");
        assert_eq!(ExitCode::from_bits(literal), code);
    }
}

#[test]
fn every_exit_code_survives_encoding() {
    let negative = (0..8u64).map(|n| u64::MAX - n);
    for bits in (0..0x500).chain(negative) {
        assert_eq!(ExitCode::from_bits(bits).into_bits(), bits);
    }
}

#[test]
fn intercept_bit_n_is_exit_code_base_plus_n() {
    let rows = [
        (ExitCode::Intr, 0x60, Vector3::INTR.bits()),
        (ExitCode::Cr0SelectiveWrite, 0x60, Vector3::CR0_SELECTIVE_WRITE.bits()),
        (ExitCode::TrWrite, 0x60, Vector3::TR_WRITE.bits()),
        (ExitCode::Popf, 0x60, Vector3::POPF.bits()),
        (ExitCode::SoftwareInterrupt, 0x60, Vector3::INT_N.bits()),
        (ExitCode::Hlt, 0x60, Vector3::HLT.bits()),
        (ExitCode::Msr, 0x60, Vector3::MSR.bits()),
        (ExitCode::Shutdown, 0x60, Vector3::SHUTDOWN.bits()),
        (ExitCode::Vmrun, 0x80, Vector4::VMRUN.bits()),
        (ExitCode::Skinit, 0x80, Vector4::SKINIT.bits()),
        (ExitCode::Wbinvd, 0x80, Vector4::WBINVD.bits()),
        (ExitCode::MwaitArmed, 0x80, Vector4::MWAIT_ARMED.bits()),
        (ExitCode::EferWriteTrap, 0x80, Vector4::EFER_WRITE_TRAP.bits()),
        (ExitCode::ControlWriteTrap(0), 0x80, Vector4::CR0_WRITE_TRAP.bits()),
        (ExitCode::Invpcid, 0xA0, Vector5::INVPCID.bits()),
        (ExitCode::IdleHlt, 0xA0, Vector5::IDLE_HLT.bits()),
    ];
    for (code, base, bit) in rows {
        assert_eq!(bit.count_ones(), 1);
        assert_eq!(code.into_bits(), base + u64::from(bit.trailing_zeros()), "{code:?}");
    }
}

#[test]
fn interrupt_control_bits() {
    let rows = [
        ("V_TPR_MASK", InterruptControl::new().with_task_priority(15), 0x0F),
        ("V_IRQ_MASK", InterruptControl::new().with_is_interrupt_pending(true), 1 << 8),
        ("V_GIF_MASK", InterruptControl::new().with_virtual_gif(true), 1 << 9),
        ("V_NMI_PENDING_MASK", InterruptControl::new().with_is_nmi_pending(true), 1 << 11),
        ("V_NMI_BLOCKING_MASK", InterruptControl::new().with_is_nmi_masked(true), 1 << 12),
        ("V_INTR_PRIO_MASK", InterruptControl::new().with_interrupt_priority(15), 0x0F << 16),
        ("V_IGN_TPR_MASK", InterruptControl::new().with_ignores_task_priority(true), 1 << 20),
        ("V_INTR_MASKING_MASK", InterruptControl::new().with_masks_interrupts(true), 1 << 24),
        ("V_GIF_ENABLE_MASK", InterruptControl::new().with_virtual_gif_enabled(true), 1 << 25),
        ("V_NMI_ENABLE_MASK", InterruptControl::new().with_virtual_nmi_enabled(true), 1 << 26),
        ("X2APIC_MODE_MASK", InterruptControl::new().with_x2avic_enabled(true), 1 << 30),
        ("AVIC_ENABLE_MASK", InterruptControl::new().with_avic_enabled(true), 1 << 31),
        ("int_vector", InterruptControl::new().with_interrupt_vector(0xFF), 0xFF << 32),
    ];
    for (name, value, literal) in rows {
        assert_eq!(value.into_bits(), literal, "{name}");
    }
    assert_eq!(NestedControl::new().with_nested_paging(true).into_bits(), 1);
}

#[test]
fn clean_bits() {
    let in_order = [
        CleanBits::INTERCEPTS,
        CleanBits::PERMISSION_MAPS,
        CleanBits::ASID,
        CleanBits::INTERRUPT_CONTROL,
        CleanBits::NESTED_PAGING,
        CleanBits::CONTROL_REGISTERS,
        CleanBits::DEBUG_REGISTERS,
        CleanBits::DESCRIPTOR_TABLES,
        CleanBits::SEGMENTS,
        CleanBits::CR2,
        CleanBits::LAST_BRANCH_RECORDS,
        CleanBits::AVIC,
        CleanBits::CET,
    ];
    for (number, bit) in in_order.into_iter().enumerate() {
        assert_eq!(bit.bits(), 1 << number);
    }
}

#[test]
fn tlb_control_values() {
    assert_eq!(TlbControl::from_bits(0), TlbControl::Nothing);
    assert_eq!(TlbControl::from_bits(1), TlbControl::FlushAll);
    assert_eq!(TlbControl::from_bits(3), TlbControl::FlushAsid);
    assert_eq!(TlbControl::from_bits(7), TlbControl::FlushAsidNonGlobal);
    assert_eq!(TlbControl::from_bits(2), TlbControl::Reserved(2));
}

#[test]
fn event_injection_bits() {
    let page_fault = Injection::new()
        .with_vector(14)
        .with_event_type(EventType::Exception)
        .with_has_error_code(true)
        .with_is_valid(true)
        .with_error_code(0x10);
    assert_eq!(page_fault.into_bits(), 0x10_8000_0B0E);
    for bits in 0..8 {
        assert_eq!(EventType::from_bits(bits).into_bits(), bits);
    }
}

#[test]
fn segment_attributes_are_the_descriptor_s_packed() {
    // A 64-bit code segment: descriptor 00AF_9B00_0000_FFFF.
    let code = SegmentAttributes::from_descriptor_high(0x00AF_9B00);
    assert_eq!(code.into_bits(), 0xA9B);
    assert!(code.is_long() && code.is_present() && code.is_page_granular());
    assert_eq!(code.into_descriptor_high(), 0x00A0_9B00);
}

#[test]
fn fields_are_little_endian_in_place() {
    let mut vmcb = Vmcb::new([0u8; SIZE]).expect("4 KiB");
    let tr = Segment {
        selector: 0x1234,
        attributes: SegmentAttributes::from_bits(0x08B),
        limit: 0x67,
        base: 0xFFFF_8000_0000_0001,
    };
    vmcb.set(save::TR, tr);
    vmcb.set(control::EXITCODE, ExitCode::Invalid.into_bits());
    let intercepts = Intercepts {
        control_registers: 0x0010_0001,
        exceptions: 1 << 14,
        vector4: Vector4::VMRUN,
        ..Default::default()
    };
    vmcb.set(control::INTERCEPTS, intercepts);
    assert_eq!(vmcb.get(save::TR), tr);
    assert_eq!(vmcb.get(control::EXITCODE), u64::MAX);
    let intercepts = vmcb.get(control::INTERCEPTS);
    assert!(intercepts.reads_control(0) && intercepts.writes_control(4));
    assert!(!intercepts.reads_control(4) && !intercepts.writes_control(0));
    assert!(intercepts.exception(14) && !intercepts.exception(46));
    assert!(Vmcb::new([0u8; 4095]).is_none());
}

#[test]
fn exit_information_layouts() {
    let port = IoPortInfo::new().with_is_input(true).with_is_8_bit(true).with_port(0x3F8);
    assert_eq!(port.into_bits(), 0x03F8_0011);
    let fault = NestedPageFaultInfo::new()
        .with_is_write(true)
        .with_is_user(true)
        .with_is_final_translation(true);
    assert_eq!(fault.into_bits(), 0x1_0000_0006);
    assert_eq!(NestedPageFaultInfo::new().with_is_table_walk(true).into_bits(), 1 << 33);
    assert_eq!(MoveControlInfo::new().with_is_move(true).into_bits(), 1 << 63);
    let task = TaskSwitchInfo::new().with_is_iret(true).with_is_far_jump(true);
    assert_eq!(task.with_has_error_code(true).into_bits(), 1 << 36 | 1 << 38 | 1 << 44);
}

#[test]
fn avic_exit_information() {
    let ipi = IncompleteIpi {
        command: 0x0000_00FD,
        destination: 0x0300_0000,
        reason: IncompleteIpiReason::TargetNotRunning,
        index: 3,
    };
    assert_eq!(ipi.into_exit_info(), [0x0300_0000_0000_00FD, 0x1_0000_0003]);
    assert_eq!(IncompleteIpi::from_exit_info(ipi.into_exit_info()), ipi);
    let access = NoAcceleration { offset: 0x0B0, is_write: true, vector: 0x31 };
    assert_eq!(access.into_exit_info(), [0x1_0000_00B0, 0x31]);
    assert_eq!(NoAcceleration::from_exit_info(access.into_exit_info()), access);
}

#[test]
fn avic_table_pointers() {
    let pointer =
        PhysicalTablePointer::new().with_table(SystemPhysical(0x1_2345_6000)).with_max_index(0x1FF);
    assert_eq!(pointer.into_bits(), 0x1_2345_61FF);
    assert_eq!(pointer.table(), SystemPhysical(0x1_2345_6000));
}

/// KVM decides by these offsets alone whether an exit 402h was a trap.
#[test]
fn trapped_registers_are_those_that_kvm_takes_for_traps() {
    let kvm = [
        0x020, 0x0B0, 0x0C0, 0x0D0, 0x0E0, 0x0F0, 0x280, 0x300, 0x320, 0x330, 0x340, 0x350, 0x360,
        0x370, 0x380, 0x3E0,
    ];
    for offset in (0..0x1000).step_by(16) {
        let write = rule(offset, false).write;
        let traps = matches!(
            write,
            WriteRule::Trap | WriteRule::EndOfInterrupt | WriteRule::InterruptCommand
        );
        assert_eq!(traps, kvm.contains(&offset), "{offset:#x} {write:?}");
        if traps {
            assert_eq!(rule(offset, false).read, ReadRule::Accelerated, "{offset:#x}");
        }
    }
}

#[test]
fn the_extended_lvts_follow_the_enumerated_rule() {
    assert_eq!(rule(0x500, false).write, WriteRule::Fault);
    assert_eq!(rule(0x500, true).write, WriteRule::Trap);
    assert_eq!(rule(0x570, true).read, ReadRule::Accelerated);
    assert_eq!(rule(0x580, true).read, ReadRule::Fault);
}

#[test]
fn x2apic_registers_that_do_not_exist() {
    for msr in [0x800, 0x809, 0x80C, 0x80E, 0x82F, 0x831, 0x83A, 0x8FF] {
        assert_eq!(msr_access(msr), None, "{msr:#x}");
    }
    let timer = msr_access(0x832).and_then(|access| access.writable);
    assert_eq!(timer.map(|bits| bits & 1 << 18), Some(0), "TSC-deadline mode");
}

#[test]
fn features() {
    assert_eq!(SvmFeatures::AVIC.bits(), 1 << 13);
    assert_eq!(SvmFeatures::X2AVIC.bits(), 1 << 18);
    assert_eq!(SvmFeatures::VIRTUAL_NMI.bits(), 1 << 25);
    assert_eq!(SvmFeatures2::X2AVIC_EXTENDED.bits(), 1 << 6);
    // A Ryzen 9 9900X.
    let granite_ridge = SvmFeatures::from_bits_retain(0xFEBF_BDFF);
    assert!(
        granite_ridge.contains(SvmFeatures::AVIC | SvmFeatures::X2AVIC | SvmFeatures::IDLE_HLT)
    );
}

#[test]
fn permission_map_bits() {
    let rows = [
        (0x0000_0000, Some(0)),
        (0x0000_0800, Some(0x0200 * 8)),
        (0xC000_0080, Some(0x0820 * 8)),
        (0xC001_1FFF, Some(0x17FF * 8 + 6)),
        (0x0000_2000, None),
        (0x4000_0000, None),
    ];
    for (number, bit) in rows {
        assert_eq!(msr::permission_bit(number), bit, "{number:#x}");
    }
}
