//! VMRUN and #VMEXIT. [APM2 "VMRUN Instruction"] [APM2 "#VMEXIT"]

use crate::lab::*;
use arch::address::SystemPhysical;
use arch::control::{Cr0, Cr4, Efer};
use arch::svm::avic::PhysicalTablePointer;
use arch::svm::consistency::Illegal;
use arch::svm::exit::ExitCode;
use arch::svm::intercept::{Vector3, Vector4};
use arch::svm::vmcb::{CleanBits, InterruptControl, InterruptState, NestedControl, control, save};
use bus::{ControlBlock, Happening, VmExit};
use iced_x86::code_asm::*;

#[test]
fn the_guest_runs_and_its_state_is_saved() {
    let mut lab = Lab::new(|a| {
        a.mov(eax, 0x1234_5678).unwrap();
        a.mov(ebx, 7).unwrap();
        a.push(eax).unwrap();
        a.hlt().unwrap();
    });
    assert_eq!(lab.run(), ExitCode::Hlt);
    assert_eq!(lab.get(save::RAX), 0x1234_5678);
    assert_eq!(lab.get(save::RSP), GUEST_STACK - 4);
    assert_eq!(lab.read(GUEST + GUEST_STACK - 4) as u32, 0x1234_5678);
    assert_eq!(lab.cpu.registers.gpr[3], 7, "registers other than RAX and RSP are shared");
    assert_eq!(lab.get(save::CPL), 0);
    assert_eq!(lab.get(save::CS).selector, 0x08);
    assert_eq!(lab.get(save::CS).attributes.into_bits(), 0xC9B);
}

#[test]
fn the_host_is_as_it_was_with_gif_clear() {
    let mut lab = Lab::new(|a| a.hlt().unwrap());
    lab.cpu.registers.gpr[4] = 0x8_0000;
    let before = (lab.cpu.control.cr0(), lab.cpu.control.cr3, lab.cpu.control.cr4());
    lab.run();
    assert_eq!((lab.cpu.control.cr0(), lab.cpu.control.cr3, lab.cpu.control.cr4()), before);
    assert!(lab.cpu.is_64_bit());
    assert_eq!(lab.cpu.registers.gpr[4], 0x8_0000);
    assert_eq!(lab.cpu.registers.gpr[0], VMCB);
    assert!(!lab.cpu.guest.svm.global_interrupts);
    assert_eq!(lab.cpu.translation.tlb.asid(), 0);
}

#[test]
fn outside_of_64_bit_mode_the_upper_half_of_rip_is_nothing() {
    let mut lab = Lab::new(|a| a.hlt().unwrap());
    lab.set(save::RIP, u64::MAX << 32 | GUEST_CODE);
    assert_eq!(lab.run(), ExitCode::Hlt);
    assert_eq!(lab.get(save::RIP), GUEST_CODE);
}

#[test]
fn rip_is_at_the_intercepted_instruction_and_nrip_after_it() {
    let mut lab = Lab::new(|a| {
        a.nop().unwrap();
        a.cpuid().unwrap();
        a.hlt().unwrap();
    });
    lab.intercept(|i| i.vector3 |= Vector3::CPUID);
    assert_eq!(lab.run(), ExitCode::Cpuid);
    assert_eq!(lab.get(save::RIP), GUEST_CODE + 1);
    assert_eq!(lab.get(control::N_RIP), GUEST_CODE + 3);
    let next = lab.get(control::N_RIP);
    lab.set(save::RIP, next);
    assert_eq!(lab.resume(), ExitCode::Hlt);
}

#[test]
fn illegal_guests_exit_with_invalid_and_never_run() {
    let mut lab = Lab::new(|a| a.hlt().unwrap());
    lab.set(save::EFER, 0);
    assert_eq!(lab.run(), ExitCode::Invalid);
    assert_eq!(lab.get(save::RIP), GUEST_CODE);
    lab.set(save::EFER, Efer::SVM.bits());
    assert_eq!(lab.resume(), ExitCode::Hlt);
}

/// [APM2 "Interrupt Shadows"]: the instruction behind STI, MOV SS and POP SS is in the shadow until
/// it has been executed, and one that exits has not been.
#[test]
fn the_interrupt_shadow_of_an_instruction_that_exits_is_saved() {
    type Code = fn(&mut CodeAssembler);
    let rows: [(&str, Code, ExitCode, bool); 9] = [
        ("STI; CPUID", |a| (a.sti().unwrap(), a.cpuid().unwrap()).1, ExitCode::Cpuid, true),
        ("STI; VMMCALL", |a| (a.sti().unwrap(), a.vmmcall().unwrap()).1, ExitCode::Vmmcall, true),
        (
            "MOV SS; VMMCALL",
            |a| (a.mov(ss, dx).unwrap(), a.vmmcall().unwrap()).1,
            ExitCode::Vmmcall,
            true,
        ),
        (
            "POP SS; VMMCALL",
            |a| (a.push(edx).unwrap(), a.db(&[0x17]).unwrap(), a.vmmcall().unwrap()).2,
            ExitCode::Vmmcall,
            true,
        ),
        ("STI; HLT", |a| (a.sti().unwrap(), a.hlt().unwrap()).1, ExitCode::Hlt, true),
        (
            "STI; a nested page fault",
            |a| (a.sti().unwrap(), a.mov(eax, ptr(GUEST_DATA)).unwrap()).1,
            ExitCode::NestedPageFault,
            true,
        ),
        ("NOP; CPUID", |a| (a.nop().unwrap(), a.cpuid().unwrap()).1, ExitCode::Cpuid, false),
        (
            "STI; NOP; CPUID",
            |a| (a.sti().unwrap(), a.nop().unwrap(), a.cpuid().unwrap()).2,
            ExitCode::Cpuid,
            false,
        ),
        (
            "a second STI has no shadow",
            |a| (a.sti().unwrap(), a.nop().unwrap(), a.sti().unwrap(), a.cpuid().unwrap()).3,
            ExitCode::Cpuid,
            false,
        ),
    ];
    for (rule, code, exit, is_shadowed) in rows {
        let mut lab = Lab::new(code);
        lab.intercept(|i| {
            i.vector3 |= Vector3::CPUID;
            i.vector4 |= Vector4::VMMCALL;
        });
        lab.write(NESTED_TABLES + 0x3000 + 8 * (GUEST_DATA >> 12), 0);
        lab.cpu.registers.gpr[2] = 0x10;
        assert_eq!(lab.run(), exit, "{rule}");
        let state = lab.get(control::INTERRUPT_STATE);
        assert_eq!(state, InterruptState::new().with_interrupt_shadow(is_shadowed), "{rule}");
    }
}

/// A hypervisor that has done what the instruction asks for clears the shadow; one that has not
/// leaves it, and VMRUN takes it up again.
#[test]
fn the_interrupt_shadow_is_restored_and_lasts_for_one_instruction() {
    // Behind STI; CPUID, or behind STI.
    for (keeps, offset) in [(true, 3), (false, 1)] {
        let mut lab = Lab::new(|a| {
            a.sti().unwrap();
            a.cpuid().unwrap();
            a.hlt().unwrap();
        });
        let pending = InterruptControl::new()
            .with_masks_interrupts(true)
            .with_is_interrupt_pending(true)
            .with_interrupt_vector(0x41)
            .with_interrupt_priority(4);
        lab.set(control::INTERRUPT_CONTROL, pending);
        lab.intercept(|i| i.vector3 |= Vector3::CPUID);
        assert_eq!(lab.run(), ExitCode::Cpuid, "the shadow holds the interrupt back");
        lab.intercept(|i| i.vector3.remove(Vector3::CPUID));
        if !keeps {
            lab.set(control::INTERRUPT_STATE, InterruptState::new());
        }
        assert_eq!(lab.resume(), ExitCode::Hlt);
        assert_eq!(lab.get(save::RIP), GUEST_HANDLER);
        let returns_to = lab.read(GUEST + lab.get(save::RSP)) as u32;
        assert_eq!(returns_to, GUEST_CODE as u32 + offset, "the shadow is kept: {keeps}");
    }
}

#[test]
fn clean_fields_are_stale_in_strict_mode_only() {
    for strict in [false, true] {
        let mut lab = Lab::new(|a| {
            a.cpuid().unwrap();
            a.hlt().unwrap();
        });
        lab.cpu.guest.svm.behaviour.honours_clean_bits = strict;
        assert_eq!(lab.run(), ExitCode::Hlt);
        lab.intercept(|i| i.vector3 |= Vector3::CPUID);
        lab.set(save::RIP, GUEST_CODE);
        lab.set(control::CLEAN_BITS, CleanBits::INTERCEPTS);
        let expected = if strict { ExitCode::Hlt } else { ExitCode::Cpuid };
        assert_eq!(lab.resume(), expected, "strict {strict}");
        lab.set(save::RIP, GUEST_CODE);
        lab.set(control::CLEAN_BITS, CleanBits::empty());
        assert_eq!(lab.resume(), ExitCode::Cpuid, "strict {strict}, dirty");
    }
}

#[test]
fn a_real_mode_guest_keeps_its_selectors() {
    let mut lab = Lab::new(|_| ());
    lab.guest_code(16, |a| {
        a.mov(ax, cs).unwrap();
        a.hlt().unwrap();
    });
    lab.set(save::CR0, Cr0::EXTENSION_TYPE.bits());
    let mut code = lab.get(save::CS);
    code.selector = 0x0801;
    code.base = 0x8010;
    code.limit = 0xFFFF;
    code.attributes = code.attributes.with_is_default_big(false).with_is_page_granular(false);
    lab.set(save::CS, code);
    let bytes = lab.read(GUEST + GUEST_CODE);
    lab.write(GUEST + 0x8010, bytes);
    lab.set(save::RIP, 0);
    assert_eq!(lab.run(), ExitCode::Hlt);
    assert_eq!(lab.get(save::RAX) & 0xFFFF, 0x0801);
    assert_eq!(lab.get(save::CS).selector, 0x0801);
}

#[test]
fn entries_and_exits_are_recorded_as_the_vmcb_shows_them() {
    let mut lab = Lab::new(|a| a.cpuid().unwrap());
    lab.intercept(|i| i.vector3 |= Vector3::CPUID);
    lab.run();
    let block = ControlBlock::Vmcb(SystemPhysical(VMCB));
    let nested_root = Some(SystemPhysical(lab.get(control::N_CR3)));
    let entry = Happening::VmEntry {
        block,
        nested_root,
        has_virtual_apic: false,
        injected: 0,
        ip: GUEST_CODE,
    };
    let exit = Happening::VmExit(VmExit {
        block,
        code: 0x72,
        qualification: 0,
        address: 0,
        event: 0,
        delivering: 0,
        instruction: 0,
        ip: GUEST_CODE,
    });
    assert_eq!(lab.platform.happenings[..2], [entry, exit]);
}

#[test]
fn a_refused_entry_is_recorded_with_the_rule_that_the_vmcb_breaks() {
    let mut lab = Lab::new(|a| a.hlt().unwrap());
    lab.set(control::GUEST_ASID, 0);
    assert_eq!(lab.run(), ExitCode::Invalid);
    let vmcb = SystemPhysical(VMCB);
    let refusal = Happening::EntryRefused { vmcb, rule: Illegal::Asid };
    assert_eq!(lab.platform.happenings[0], refusal);
}

#[test]
fn an_exit_for_an_msr_is_recorded_with_its_number_and_what_it_would_write() {
    for is_write in [false, true] {
        let mut lab = Lab::new(|a| {
            // Beyond the permission map: exits always.
            a.mov(ecx, 0x4000_0000).unwrap();
            a.mov(eax, 0x1234_5678).unwrap();
            a.mov(edx, 0x9ABC).unwrap();
            if is_write { a.wrmsr().unwrap() } else { a.rdmsr().unwrap() }
        });
        lab.intercept(|i| i.vector3 |= Vector3::MSR);
        assert_eq!(lab.run(), ExitCode::Msr);
        let value = if is_write { 0x9ABC_1234_5678 } else { 0 };
        let access = Happening::MsrAccess { index: 0x4000_0000, is_write, value };
        assert_eq!(lab.platform.happenings[2], access);
    }
}

#[test]
fn permission_maps_end_below_the_highest_physical_address() {
    const END: u64 = 1 << 48;
    // The rule does not ask whether the intercepts are on.
    // [APM2 "Canonicalization and Consistency Checks"]
    let rows = [
        (control::MSRPM_BASE_PA, END - 0x3000, true),
        (control::MSRPM_BASE_PA, END - 0x2000, false),
        (control::MSRPM_BASE_PA, END - 0x1000, false),
        (control::IOPM_BASE_PA, END - 0x3000, true),
        (control::IOPM_BASE_PA, END - 0x2000, false),
    ];
    for intercept in [Vector3::empty(), Vector3::MSR, Vector3::IOIO] {
        for (map, base, is_legal) in rows {
            let mut lab = Lab::new(|a| a.hlt().unwrap());
            lab.intercept(|i| i.vector3 |= intercept);
            lab.set(control::MSRPM_BASE_PA, 0x1000);
            lab.set(control::IOPM_BASE_PA, 0x1000);
            lab.set(map, base);
            let expected = if is_legal { ExitCode::Hlt } else { ExitCode::Invalid };
            assert_eq!(lab.run(), expected, "{intercept:?} {base:#x}");
        }
    }
}

#[test]
fn x2avic_tables_of_4096_entries_are_legal_where_enumerated() {
    for (model, max_index, is_legal) in [
        ("zen5", 511, true),
        ("zen5", 512, false),
        ("zen5,+x2avic_ext", 4095, true),
        ("zen5,-x2avic", 511, false),
        ("zen5,-x2avic", 255, true),
    ] {
        let mut lab = Lab::with_model(model, |a| a.hlt().unwrap());
        let interrupts = InterruptControl::new()
            .with_masks_interrupts(true)
            .with_avic_enabled(true)
            .with_x2avic_enabled(true);
        lab.set(control::INTERRUPT_CONTROL, interrupts);
        lab.set(control::AVIC_BACKING_PAGE, BACKING_PAGE);
        let table = PhysicalTablePointer::new()
            .with_table(SystemPhysical(PHYSICAL_TABLE))
            .with_max_index(max_index);
        lab.set(control::AVIC_PHYSICAL_TABLE, table);
        let expected = if is_legal { ExitCode::Hlt } else { ExitCode::Invalid };
        assert_eq!(lab.run(), expected, "{model} {max_index}");
    }
}

#[test]
fn reserved_bits_of_pdptes_are_refused_without_nested_paging_only() {
    for (is_nested, is_legal) in [(true, true), (false, false)] {
        let mut lab = Lab::new(|a| a.hlt().unwrap());
        // Both address spaces have the same pointers and directory, and the guest's code.
        for base in [0, GUEST] {
            lab.write(base + 0x9_0000, 0x9_1001);
            lab.write(base + 0x9_0008, 1 << 52 | 1);
            lab.write(base + 0x9_1000, 0x83);
        }
        lab.write(GUEST_CODE, 0xF4);
        lab.set(save::CR0, (Cr0::PROTECTION_ENABLE | Cr0::PAGING).bits());
        lab.set(save::CR4, Cr4::PAE.bits());
        lab.set(save::CR3, 0x9_0000);
        let nested = NestedControl::new().with_nested_paging(is_nested);
        lab.set(control::NESTED_CONTROL, nested);
        let expected = if is_legal { ExitCode::Hlt } else { ExitCode::Invalid };
        assert_eq!(lab.run(), expected, "nested paging {is_nested}");
        if !is_nested {
            lab.write(0x9_0008, 0);
            assert_eq!(lab.resume(), ExitCode::Hlt);
        }
    }
}
