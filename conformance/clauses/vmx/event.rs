//! Injected events, exceptions, windows and the preemption timer.
//! [SDM3 "Event Injection"] [SDM3 "Other Causes of VM Exits"]

use crate::lab::*;
use arch::control::rflags;
use arch::vmx::ExitReason;
use arch::vmx::control::{ExitControls, PinControls, PrimaryControls, SecondaryControls};
use arch::vmx::field::{control, exit, guest};
use cpu::Attention;
use iced_x86::code_asm::*;

const VALID: u64 = 1 << 31;

#[test]
fn an_injected_event_reaches_its_handler_and_is_not_injected_again() {
    let rows = [
        ("interrupt", VALID | 0x40, rflags::IF, 0),
        ("exception", VALID | 3 << 8 | 1 << 11 | 13, 0, 0),
        ("software interrupt", VALID | 4 << 8 | 0x40, 0, 2),
    ];
    for (name, event, flags, length) in rows {
        let mut lab = Lab::new(|a| a.cpuid().unwrap());
        lab.set(control::ENTRY_INTERRUPTION_INFO, event);
        lab.set(control::ENTRY_ERROR_CODE, 0x77);
        lab.set(control::ENTRY_INSTRUCTION_LENGTH, length);
        lab.set(guest::RFLAGS, rflags::FIXED | flags);
        assert_eq!(lab.run(), ExitReason::Hlt, "{name}");
        assert_eq!(lab.get(guest::RIP), GUEST_HANDLER, "{name}");
        let has_error = event & 1 << 11 != 0;
        let frame = if has_error { 16 } else { 12 };
        assert_eq!(lab.get(guest::RSP), GUEST_STACK - frame, "{name}");
        let top = lab.read(GUEST + GUEST_STACK - frame) as u32;
        let expected = if has_error { 0x77 } else { (GUEST_CODE + length) as u32 };
        assert_eq!(top, expected, "{name}");
        assert_eq!(lab.get(control::ENTRY_INTERRUPTION_INFO) & VALID, 0, "{name}");
    }
}

#[test]
fn an_exception_exits_by_the_bitmap_and_leaves_its_registers() {
    let mut lab = Lab::new(|a| {
        a.ud2().unwrap();
    });
    lab.set(control::EXCEPTION_BITMAP, 1 << 6);
    assert_eq!(lab.run(), ExitReason::ExceptionOrNmi);
    assert_eq!(lab.get(exit::INTERRUPTION_INFO), VALID | 3 << 8 | 6);
    assert_eq!(lab.get(guest::RIP), GUEST_CODE);
    assert_ne!(lab.get(guest::RFLAGS) & rflags::RF, 0, "as on the stack of a fault");
    lab.set(control::EXCEPTION_BITMAP, 0);
    assert_eq!(lab.resume(), ExitReason::Hlt);
    assert_eq!(lab.get(guest::RIP), GUEST_HANDLER);
}

#[test]
fn page_faults_exit_by_their_error_code_as_well() {
    // Bit 14 says what a match does.
    let rows = [
        (1 << 14, 0, 0, true),
        (0, 0, 0, false),
        (1 << 14, 2, 0, false),
        (0, 2, 0, true),
        (1 << 14, 2, 2, true),
    ];
    for (bitmap, mask, matching, expected) in rows {
        let mut lab = Lab::new(|a| {
            a.mov(dword_ptr(0x80_0000), eax).unwrap();
        });
        lab.use_guest_paging();
        lab.set(control::EXCEPTION_BITMAP, bitmap);
        lab.set(control::PAGE_FAULT_MASK, mask);
        lab.set(control::PAGE_FAULT_MATCH, matching);
        let reason = lab.run();
        assert_eq!(reason == ExitReason::ExceptionOrNmi, expected, "{bitmap:#x} {mask} {matching}");
        if expected {
            assert_eq!(lab.qualification(), 0x80_0000);
            assert_eq!(lab.get(exit::INTERRUPTION_INFO), VALID | 1 << 11 | 3 << 8 | 14);
            assert_eq!(lab.get(exit::INTERRUPTION_ERROR_CODE), 2);
            assert_eq!(lab.cpu.control.cr2, 0, "CR2 stays");
        }
    }
}

#[test]
fn a_software_exception_reports_its_length() {
    let mut lab = Lab::new(|a| a.int3().unwrap());
    lab.set(control::EXCEPTION_BITMAP, 1 << 3);
    assert_eq!(lab.run(), ExitReason::ExceptionOrNmi);
    assert_eq!(lab.get(exit::INTERRUPTION_INFO), VALID | 6 << 8 | 3);
    assert_eq!(lab.get(exit::INSTRUCTION_LENGTH), 1);
    assert_eq!(lab.get(guest::RIP), GUEST_CODE);
}

#[test]
fn an_exit_during_delivery_reports_the_original_event() {
    let mut lab = Lab::new(|a| a.int(0x40).unwrap());
    // The table of gates is not mapped.
    lab.write(Lab::extended_entry(GUEST_IDT >> 12), 0);
    assert_eq!(lab.run(), ExitReason::EptViolation);
    assert_eq!(lab.get(exit::IDT_VECTORING_INFO), VALID | 4 << 8 | 0x40);
    assert_eq!(lab.get(exit::INSTRUCTION_LENGTH), 2);
    assert_eq!(lab.get(guest::RIP), GUEST_CODE);
    assert_eq!(lab.get(guest::RSP), GUEST_STACK);
}

#[test]
fn an_exception_during_another_exits_before_the_two_are_combined() {
    for (bitmap, vector, vectoring) in [(1 << 13 | 1 << 8, 13, VALID | 3 << 8), (1 << 8, 8, 0)] {
        let mut lab = Lab::new(|a| {
            a.xor(ecx, ecx).unwrap();
            a.div(ecx).unwrap();
        });
        lab.set(guest::IDTR_LIMIT, 0);
        lab.set(control::EXCEPTION_BITMAP, bitmap);
        assert_eq!(lab.run(), ExitReason::ExceptionOrNmi);
        let interruption = lab.get(exit::INTERRUPTION_INFO);
        assert_eq!(interruption & !(1 << 12), VALID | 1 << 11 | 3 << 8 | vector);
        let vectored = lab.get(exit::IDT_VECTORING_INFO);
        assert_eq!(if vectored & VALID == 0 { 0 } else { vectored }, vectoring);
        let code = if vector == 13 { 3 } else { 0 };
        assert_eq!(lab.get(exit::INTERRUPTION_ERROR_CODE), code);
    }
}

#[test]
fn a_triple_fault_exits() {
    let mut lab = Lab::new(|a| a.ud2().unwrap());
    lab.set(guest::IDTR_LIMIT, 0);
    assert_eq!(lab.run(), ExitReason::TripleFault);
    assert_eq!(lab.get(exit::IDT_VECTORING_INFO) & VALID, 0);
}

#[test]
fn a_window_exits_as_soon_as_interrupts_are_open() {
    let mut lab = Lab::new(|a| {
        a.nop().unwrap();
        a.sti().unwrap();
        a.nop().unwrap();
        a.hlt().unwrap();
    });
    lab.primary(PrimaryControls::INTERRUPT_WINDOW_EXITING);
    assert_eq!(lab.run(), ExitReason::InterruptWindow);
    assert_eq!(lab.get(guest::RIP), GUEST_CODE + 3, "behind the instruction that STI covers");
}

#[test]
fn virtual_nmis_open_a_window_after_iret() {
    let mut lab = Lab::new(|a| {
        a.nop().unwrap();
        a.hlt().unwrap();
    });
    lab.guest_handler(|a| a.iretd().unwrap());
    lab.pin(PinControls::NMI_EXITING | PinControls::VIRTUAL_NMIS);
    lab.primary(PrimaryControls::NMI_WINDOW_EXITING);
    lab.set(control::ENTRY_INTERRUPTION_INFO, VALID | 2 << 8 | 2);
    assert_eq!(lab.run(), ExitReason::NmiWindow);
    assert_eq!(lab.get(guest::RIP), GUEST_CODE);
    assert_eq!(lab.get(guest::INTERRUPTIBILITY), 0);
}

#[test]
fn an_nmi_exits_and_blocks_others_in_the_host() {
    let mut lab = Lab::new(|a| a.hlt().unwrap());
    lab.pin(PinControls::NMI_EXITING);
    lab.cpu.pending.raise(Attention::NMI);
    lab.cpu.pending.set_blocks_nmis(true);
    assert_eq!(lab.run(), ExitReason::ExceptionOrNmi);
    assert_eq!(lab.get(exit::INTERRUPTION_INFO), VALID | 2 << 8 | 2);
    assert!(lab.cpu.pending.blocks_nmis());
    assert_eq!(lab.get(guest::RIP), GUEST_CODE);
}

#[test]
fn the_monitor_trap_flag_exits_after_each_instruction() {
    let mut lab = Lab::new(|a| {
        a.nop().unwrap();
        a.inc(eax).unwrap();
        a.hlt().unwrap();
    });
    lab.primary(PrimaryControls::MONITOR_TRAP_FLAG);
    for next in [1, 2] {
        let reason = if next == 1 { lab.run() } else { lab.resume() };
        assert_eq!(reason, ExitReason::MonitorTrapFlag);
        assert_eq!(lab.get(guest::RIP), GUEST_CODE + next);
    }
    assert_eq!(lab.resume(), ExitReason::Hlt, "the exit of the instruction goes before");
}

#[test]
fn the_preemption_timer_ends_a_guest_and_wakes_it() {
    for (name, halts) in [("in a loop", false), ("in HLT", true)] {
        let mut lab = Lab::new(|a| {
            let mut again = a.create_label();
            a.set_label(&mut again).unwrap();
            if halts { a.hlt() } else { a.nop() }.unwrap();
            a.jmp(again).unwrap();
        });
        lab.pin(PinControls::PREEMPTION_TIMER);
        lab.clear_bits(control::PRIMARY, PrimaryControls::HLT_EXITING.bits());
        lab.set_bits(control::EXIT, ExitControls::SAVE_PREEMPTION_TIMER.bits());
        lab.set(guest::PREEMPTION_TIMER, 10);
        if halts {
            // A board moves the clock of a processor that waits.
            assert_eq!(lab.run_until_stop(), cpu::RunEnd::Idle);
            let deadline = lab.cpu.next_deadline().expect("the timer");
            lab.cpu.clock.move_to(deadline);
        }
        assert_eq!(lab.run(), ExitReason::PreemptionTimer, "{name}");
        assert_eq!(lab.get(guest::PREEMPTION_TIMER), 0, "{name}");
        assert_eq!(lab.get(guest::ACTIVITY), u64::from(halts), "{name}");
    }
}

#[test]
fn a_task_priority_below_its_threshold_at_an_entry_into_hlt_leaves_the_guest_halted() {
    for (activity, saved) in [(0, 0), (1, 1)] {
        let mut lab = Lab::new(|a| a.nop().unwrap());
        lab.primary(PrimaryControls::TPR_SHADOW);
        lab.clear_bits(control::PRIMARY, PrimaryControls::HLT_EXITING.bits());
        lab.secondary(SecondaryControls::VIRTUALIZE_APIC_ACCESSES);
        lab.set(control::VIRTUAL_APIC_ADDRESS, HOST_DATA);
        lab.set(control::APIC_ACCESS_ADDRESS, HOST_DATA + 0x1000);
        lab.set(control::TPR_THRESHOLD, 3);
        lab.set(guest::ACTIVITY, activity);
        assert_eq!(lab.run(), ExitReason::TprBelowThreshold);
        assert_eq!(lab.get(guest::ACTIVITY), saved);
        assert_eq!(lab.get(guest::RIP), GUEST_CODE, "no instruction is executed");
    }
}

#[test]
fn the_monitor_trap_flag_exits_at_the_handler_of_a_fault_that_took_the_instructions_place() {
    let mut lab = Lab::new(|a| {
        a.ud2().unwrap();
    });
    lab.primary(PrimaryControls::MONITOR_TRAP_FLAG);
    assert_eq!(lab.run(), ExitReason::MonitorTrapFlag);
    assert_eq!(lab.get(guest::RIP), GUEST_HANDLER);
    assert_eq!(lab.get(exit::IDT_VECTORING_INFO) & VALID, 0);
}

#[test]
fn the_monitor_trap_flag_exits_at_the_handler_of_a_debug_trap_delivered_on_entry() {
    let mut lab = Lab::new(|a| a.nop().unwrap());
    lab.primary(PrimaryControls::MONITOR_TRAP_FLAG);
    // A breakpoint that was hit, and enabled.
    lab.set(guest::PENDING_DEBUG, 1 << 12 | 1);
    assert_eq!(lab.run(), ExitReason::MonitorTrapFlag);
    assert_eq!(lab.get(guest::RIP), GUEST_HANDLER);
}
