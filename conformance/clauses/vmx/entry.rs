//! VM entries and what they refuse. [SDM3 "VM Entries"]

use crate::lab::*;
use arch::address::SystemPhysical;
use arch::control::rflags;
use arch::vmx::consistency::Broken;
use arch::vmx::control::{EntryControls, PinControls, PrimaryControls, SecondaryControls};
use arch::vmx::field::{Field, control, guest, host};
use arch::vmx::{ExitReason, InstructionError};
use bus::Happening;
use iced_x86::code_asm::*;

#[test]
fn the_guest_runs_and_its_state_is_saved() {
    let mut lab = Lab::new(|a| {
        a.mov(eax, 0x1234_5678).unwrap();
        a.push(eax).unwrap();
        a.hlt().unwrap();
    });
    assert_eq!(lab.run(), ExitReason::Hlt);
    assert_eq!(lab.get(guest::RIP), GUEST_CODE + 6);
    assert_eq!(lab.get(guest::RSP), GUEST_STACK - 4);
    assert_eq!(lab.read(GUEST + GUEST_STACK - 4) as u32, 0x1234_5678);
    assert_eq!(lab.cpu.registers.gpr[0], 0x1234_5678, "general registers are shared");
    assert_eq!(lab.get(guest::CS_ACCESS_RIGHTS), 0xC09B);
    assert_eq!(lab.get(guest::LDTR_ACCESS_RIGHTS) >> 16, 1, "LDTR stays unusable");
    assert_eq!(lab.skip_and_resume(), ExitReason::EptViolation, "zeros, then the unmapped page");
}

#[test]
fn the_host_is_loaded_from_its_area() {
    let mut lab = Lab::new(|a| a.hlt().unwrap());
    lab.set(host::FS_BASE, 0x1234_5000);
    lab.set(host::FS_SELECTOR, 0);
    lab.set(host::RSP, 0x3_0800);
    lab.run();
    let cpu = &lab.cpu;
    assert!(cpu.is_64_bit() && !cpu.registers.flags.has(rflags::IF));
    assert_eq!(cpu.registers.gpr[4], 0x3_0800);
    assert_eq!(cpu.registers.bases()[4], 0x1234_5000);
    assert_eq!(cpu.control.gdtr.limit, 0xFFFF);
    assert_eq!((cpu.control.tr.selector, cpu.control.tr.limit), (0x18, 0x67));
    assert_eq!(cpu.debug.dr7(), 0x400);
}

#[test]
fn bad_controls_are_error_7_and_a_bad_host_error_8() {
    use InstructionError::{EntryControls as Controls, EntryHostState as Host};
    let rows: [(&str, Field, u64, InstructionError); 16] = [
        ("pin required", control::PIN, 0, Controls),
        ("pin reserved", control::PIN, 1 << 31 | 0x16, Controls),
        ("CR3 targets", control::CR3_TARGET_COUNT, 5, Controls),
        ("EPT memory type", control::EPT_POINTER, EXTENDED_TABLES | 3 << 3 | 1, Controls),
        ("EPT levels", control::EPT_POINTER, EXTENDED_TABLES | 2 << 3 | 6, Controls),
        ("EPT reserved", control::EPT_POINTER, EXTENDED_TABLES | 0x81E, Controls),
        ("exit required", control::EXIT, 0, Controls),
        ("entry to SMM", control::ENTRY, 0x11FB | 1 << 10, Controls),
        ("event type", control::ENTRY_INTERRUPTION_INFO, 1 << 31 | 1 << 8, Controls),
        ("NMI vector", control::ENTRY_INTERRUPTION_INFO, 1 << 31 | 2 << 8 | 3, Controls),
        ("error code", control::ENTRY_INTERRUPTION_INFO, 1 << 31 | 3 << 8 | 13, Controls),
        ("CR0", host::CR0, 0x8000_0001, Host),
        ("CR4", host::CR4, 0x20, Host),
        ("CS", host::CS_SELECTOR, 0, Host),
        ("TR's RPL", host::TR_SELECTOR, 0x1B, Host),
        ("RIP", host::RIP, 1 << 47, Host),
    ];
    for (name, field, value, error) in rows {
        let mut lab = Lab::new(|a| a.hlt().unwrap());
        lab.set(field, value);
        lab.run_host();
        assert_eq!(lab.failure(), Some(error), "{name}");
    }
}

#[test]
fn a_refused_entry_is_recorded_with_the_rule_that_the_vmcs_breaks() {
    for (field, value, rule) in [
        (control::CR3_TARGET_COUNT, 5, Broken::Cr3TargetCountSupported),
        (host::RIP, 1 << 47, Broken::HostRipCanonical),
        (guest::VMCS_LINK_POINTER, 0x123, Broken::VmcsLinkPointerPage),
        (guest::CS_ACCESS_RIGHTS, 0xC091, Broken::GuestCsTypePrivilegeCode),
    ] {
        let mut lab = Lab::new(|a| a.hlt().unwrap());
        lab.set(field, value);
        lab.run_host();
        let refusal = Happening::VmxEntryRefused { vmcs: SystemPhysical(VMCS), rule };
        assert_eq!(lab.platform.happenings[0], refusal);
    }
}

#[test]
fn controls_that_need_each_other_are_checked_together() {
    type Change = fn(&mut Lab);
    let rows: [(&str, Change); 6] = [
        ("virtual NMIs without NMI exiting", |lab| lab.pin(PinControls::VIRTUAL_NMIS)),
        ("an NMI window without virtual NMIs", |lab| {
            lab.primary(PrimaryControls::NMI_WINDOW_EXITING);
        }),
        ("unrestricted guest without EPT", |lab| {
            lab.clear_bits(control::SECONDARY, SecondaryControls::EPT.bits());
        }),
        ("VPID 0", |lab| lab.secondary(SecondaryControls::VPID)),
        ("MSR bitmaps that are not a page", |lab| {
            lab.primary(PrimaryControls::MSR_BITMAPS);
            lab.set(control::MSR_BITMAPS, MSR_BITMAPS + 8);
        }),
        ("an MSR area that is not aligned", |lab| {
            lab.set(control::EXIT_MSR_LOAD_ADDRESS, MSR_AREA + 8);
            lab.set(control::EXIT_MSR_LOAD_COUNT, 1);
        }),
    ];
    for (name, change) in rows {
        let mut lab = Lab::new(|a| a.hlt().unwrap());
        change(&mut lab);
        lab.run_host();
        assert_eq!(lab.failure(), Some(InstructionError::EntryControls), "{name}");
    }
}

#[test]
fn a_bad_guest_is_an_exit_that_leaves_the_guest_area_alone() {
    let rows: [(&str, Field, u64, u64); 12] = [
        ("CR0.NE", guest::CR0, 1, 0),
        ("CR4.VMXE", guest::CR4, 0, 0),
        ("RFLAGS bit 1", guest::RFLAGS, 0, 0),
        ("RFLAGS reserved", guest::RFLAGS, 1 << 15 | 2, 0),
        ("CS type", guest::CS_ACCESS_RIGHTS, 0xC091, 0),
        ("SS type", guest::SS_ACCESS_RIGHTS, 0xC099, 0),
        ("TR unusable", guest::TR_ACCESS_RIGHTS, 1 << 16, 0),
        ("granularity", guest::DS_LIMIT, 0xFFFF_F000, 0),
        ("activity", guest::ACTIVITY, 2, 0),
        ("STI and MOV SS", guest::INTERRUPTIBILITY, 3, 0),
        ("pending debug", guest::PENDING_DEBUG, 1 << 4, 0),
        ("link pointer", guest::VMCS_LINK_POINTER, 0x123, 4),
    ];
    for (name, field, value, qualification) in rows {
        let mut lab = Lab::new(|a| a.hlt().unwrap());
        lab.set(field, value);
        lab.set_bits(control::ENTRY_INTERRUPTION_INFO, 0u64);
        assert_eq!(lab.run(), ExitReason::InvalidGuestState, "{name}");
        assert!(lab.reason().is_entry_failure(), "{name}");
        assert_eq!(lab.qualification(), qualification, "{name}");
        assert_eq!(lab.get(field), value, "{name}");
        assert_eq!(lab.get(guest::RIP), GUEST_CODE, "{name}");
    }
}

#[test]
fn an_nmi_is_not_injected_while_sti_blocks() {
    let mut lab = Lab::new(|a| a.hlt().unwrap());
    lab.set(guest::RFLAGS, rflags::FIXED | rflags::IF);
    lab.set(guest::INTERRUPTIBILITY, 1);
    lab.set(control::ENTRY_INTERRUPTION_INFO, 1 << 31 | 2 << 8 | 2);
    assert_eq!(lab.run(), ExitReason::InvalidGuestState);
    assert_eq!(lab.qualification(), 3);
    let event = lab.get(control::ENTRY_INTERRUPTION_INFO);
    assert_eq!(event >> 31, 1, "the valid bit stays");
}

#[test]
fn msrs_are_loaded_in_order_and_one_that_fails_is_counted() {
    let mut lab = Lab::new(|a| a.hlt().unwrap());
    lab.write(MSR_AREA, 0xC000_0103);
    lab.write(MSR_AREA + 8, 0x55);
    lab.write(MSR_AREA + 16, 0x802);
    lab.set(control::ENTRY_MSR_LOAD_ADDRESS, MSR_AREA);
    lab.set(control::ENTRY_MSR_LOAD_COUNT, 1);
    assert_eq!(lab.run(), ExitReason::Hlt);
    assert_eq!(lab.cpu.control.msr.tsc_aux, 0x55);
    lab.set(control::ENTRY_MSR_LOAD_COUNT, 2);
    assert_eq!(lab.resume(), ExitReason::MsrLoading);
    assert!(lab.reason().is_entry_failure());
    assert_eq!(lab.qualification(), 2);
}

#[test]
fn a_list_of_msrs_beyond_the_recommended_size_fails_at_the_first_entry_beyond() {
    // The list lies in memory that nothing else uses; 512 entries are recommended.
    const LIST: u64 = 0x80_0000;
    let mut lab = Lab::new(|a| a.hlt().unwrap());
    for entry in 0..513 {
        lab.write(LIST + 16 * entry, 0xC000_0103);
        lab.write(LIST + 16 * entry + 8, entry);
    }
    lab.set(control::ENTRY_MSR_LOAD_ADDRESS, LIST);
    lab.set(control::ENTRY_MSR_LOAD_COUNT, 512);
    assert_eq!(lab.run(), ExitReason::Hlt);
    assert_eq!(lab.cpu.control.msr.tsc_aux, 511);
    lab.set(control::ENTRY_MSR_LOAD_COUNT, 0xFFFF);
    assert_eq!(lab.resume(), ExitReason::MsrLoading);
    assert_eq!(lab.qualification(), 513);
}

#[test]
fn an_unrestricted_guest_starts_in_real_mode() {
    let mut lab = Lab::new(|_| ());
    // MOV AX, CS; HLT in 16 bits.
    lab.write(GUEST + GUEST_CODE, 0x00F4_C88C);
    lab.set(guest::CR0, 0x20);
    lab.set(guest::CS_SELECTOR, 0x800);
    lab.set(guest::CS_BASE, 0x8000);
    lab.set(guest::CS_LIMIT, 0xFFFF);
    lab.set(guest::CS_ACCESS_RIGHTS, 0x9B);
    lab.set(guest::RIP, 0);
    assert_eq!(lab.run(), ExitReason::Hlt);
    assert_eq!(lab.cpu.registers.gpr[0] as u16, 0x800);
}

#[test]
fn a_long_mode_guest_needs_paging() {
    let mut lab = Lab::new(|a| a.hlt().unwrap());
    lab.set_bits(control::ENTRY, EntryControls::IA32E_MODE_GUEST.bits());
    assert_eq!(lab.run(), ExitReason::InvalidGuestState);
}

#[test]
fn a_guest_that_waits_for_a_sipi_leaves_with_its_vector_and_for_nothing_else() {
    use interrupt::local_apic::Acceptance;
    let mut lab = Lab::new(|a| a.nop().unwrap());
    lab.set(guest::ACTIVITY, 3);
    lab.pin(PinControls::NMI_EXITING | PinControls::PREEMPTION_TIMER);
    assert_eq!(lab.run_until_stop(), cpu::RunEnd::Idle);
    lab.cpu.accepted(Acceptance::Nmi);
    lab.cpu.accepted(Acceptance::Init);
    assert_eq!(lab.run_until_stop(), cpu::RunEnd::Idle);
    assert!(lab.cpu.is_guest(), "NMI, INIT and the timer do not count");
    lab.cpu.accepted(Acceptance::Startup(0x9A));
    // The NMI that waited is the host's, which has no interrupt table.
    assert_eq!(lab.run_until_stop(), cpu::RunEnd::Shutdown);
    assert_eq!(lab.reason().basic(), ExitReason::Sipi);
    assert_eq!(lab.qualification(), 0x9A);
    assert_eq!(lab.get(guest::ACTIVITY), 3);
    assert_eq!(lab.get(guest::RIP), GUEST_CODE);
}
