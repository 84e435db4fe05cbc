//! Events: injected, intercepted, interrupted, virtual. [APM2 "Event Injection"]
//! [APM2 "Virtual Interrupts"] [APM2 "Virtual NMI"]

use crate::lab::*;
use arch::control::rflags;
use arch::svm::event::{EventType, Injection};
use arch::svm::exit::ExitCode;
use arch::svm::intercept::{Vector3, Vector4};
use arch::svm::vmcb::{InterruptControl, InterruptState, control, save};
use cpu::{Attention, RunEnd};
use iced_x86::code_asm::*;

fn event(event_type: EventType, vector: u8) -> Injection {
    Injection::new().with_event_type(event_type).with_vector(vector).with_is_valid(true)
}

fn stacked(lab: &Lab, slot: u64) -> u32 {
    lab.read(GUEST + lab.get(save::RSP) + 4 * slot) as u32
}

#[test]
fn an_injected_event_ignores_if_shadow_and_priority_and_is_injected_once() {
    let mut lab = Lab::new(|a| a.hlt().unwrap());
    lab.set(control::EVENTINJ, event(EventType::Interrupt, 0x41));
    lab.set(control::INTERRUPT_STATE, InterruptState::new().with_interrupt_shadow(true));
    assert_eq!(lab.run(), ExitCode::Hlt);
    assert_eq!(lab.get(save::RIP), GUEST_HANDLER, "in the handler");
    assert_eq!(stacked(&lab, 0), GUEST_CODE as u32, "returns to the first instruction");
    assert!(!lab.get(control::EVENTINJ).is_valid(), "the processor clears V");
    lab.set(save::RIP, GUEST_CODE);
    assert_eq!(lab.resume(), ExitCode::Hlt);
    assert_eq!(lab.get(save::RIP), GUEST_CODE);
}

#[test]
fn an_injected_exception_pushes_its_error_code() {
    let mut lab = Lab::new(|a| a.hlt().unwrap());
    let page_fault = event(EventType::Exception, 14).with_has_error_code(true);
    lab.set(control::EVENTINJ, page_fault.with_error_code(0x17));
    lab.intercept(|i| i.exceptions = 1 << 14);
    assert_eq!(lab.run(), ExitCode::Hlt, "its own intercept does not apply");
    assert_eq!(stacked(&lab, 0), 0x17);
    assert_eq!(stacked(&lab, 1), GUEST_CODE as u32);
}

#[test]
fn an_injected_software_interrupt_returns_to_nrip() {
    let mut lab = Lab::new(|a| {
        a.int(0x80).unwrap();
        a.hlt().unwrap();
    });
    lab.set(control::EVENTINJ, event(EventType::SoftwareInterrupt, 0x80));
    lab.set(control::N_RIP, GUEST_CODE + 2);
    assert_eq!(lab.run(), ExitCode::Hlt);
    assert_eq!(stacked(&lab, 0), GUEST_CODE as u32 + 2);
}

#[test]
fn an_exit_during_delivery_reports_the_event() {
    // The stack's page is not mapped.
    let rows = [
        event(EventType::Interrupt, 0x41),
        event(EventType::Nmi, 2),
        event(EventType::Exception, 14).with_has_error_code(true).with_error_code(2),
        event(EventType::SoftwareInterrupt, 0x80),
    ];
    for injected in rows {
        let mut lab = Lab::new(|a| a.hlt().unwrap());
        lab.set(save::RSP, GUEST_STACK);
        let entry = NESTED_TABLES + 0x3000 + 8 * ((GUEST_STACK - 4) >> 12);
        lab.write(entry, 0);
        lab.set(control::EVENTINJ, injected);
        assert_eq!(lab.run(), ExitCode::NestedPageFault);
        assert_eq!(lab.get(control::EXITINTINFO), injected);
        assert_eq!(lab.get(save::RIP), GUEST_CODE);
        assert_eq!(lab.get(save::RSP), GUEST_STACK);
    }
}

#[test]
fn a_fault_while_delivering_another_event_names_both() {
    let mut lab = Lab::new(|a| a.hlt().unwrap());
    // A descriptor table too short for vector 41h: #GP.
    let mut idtr = lab.get(save::IDTR);
    idtr.limit = 0xFF;
    lab.set(save::IDTR, idtr);
    lab.intercept(|i| i.exceptions = 1 << 13);
    lab.set(control::EVENTINJ, event(EventType::Interrupt, 0x41));
    assert_eq!(lab.run(), ExitCode::Exception(13));
    assert_eq!(lab.exit_info()[0], 0x41 << 3 | 2 | 1);
    assert_eq!(lab.get(control::EXITINTINFO), event(EventType::Interrupt, 0x41));
}

#[test]
fn a_triple_fault_exits_as_shutdown() {
    let mut lab = Lab::new(|a| a.ud2().unwrap());
    let mut idtr = lab.get(save::IDTR);
    idtr.limit = 0;
    lab.set(save::IDTR, idtr);
    assert_eq!(lab.run(), ExitCode::Shutdown);
}

#[test]
fn an_intercepted_page_fault_leaves_cr2_alone() {
    let mut lab = Lab::new(|_| ());
    lab.set(save::CR2, 0x1111);
    lab.use_guest_paging();
    lab.guest_code(32, |a| a.mov(eax, ptr(0x40_0123)).unwrap());
    lab.intercept(|i| i.exceptions = 1 << 14);
    assert_eq!(lab.run(), ExitCode::Exception(14));
    assert_eq!(lab.exit_info(), [0, 0x40_0123]);
    assert_eq!(lab.get(save::CR2), 0x1111);
    let fetched = lab.get(control::FETCHED_BYTES);
    assert_eq!((fetched.count, fetched.bytes[0]), (15, 0xA1), "MOV EAX, moffs");
}

#[test]
fn a_page_fault_that_is_not_intercepted_writes_cr2_which_is_saved() {
    let mut lab = Lab::new(|_| ());
    lab.set(save::CR2, 0x1111);
    lab.use_guest_paging();
    lab.guest_code(32, |a| a.mov(eax, ptr(0x40_0123)).unwrap());
    assert_eq!(lab.run(), ExitCode::Hlt);
    assert_eq!(lab.get(save::RIP), GUEST_HANDLER);
    assert_eq!(lab.get(save::CR2), 0x40_0123);
}

/// [APM2 "Exception Intercepts"]: INT3, INTO and BOUND exit as faults do, with RIP at themselves.
/// INT1 is not among them: its #DB is a trap, as it is without the intercept.
#[test]
fn of_the_intercepted_instructions_that_raise_exceptions_int1_alone_is_behind_itself() {
    type Code = fn(&mut CodeAssembler);
    let rows: [(&str, Code, u8, u64); 4] = [
        ("INT1", |a| a.int1().unwrap(), 1, 1),
        ("INT3", |a| a.int3().unwrap(), 3, 0),
        ("INTO", |a| a.into().unwrap(), 4, 0),
        ("BOUND", |a| a.bound(eax, qword_ptr(GUEST_DATA)).unwrap(), 5, 0),
    ];
    for (name, code, vector, offset) in rows {
        let mut lab = Lab::new(|a| {
            a.nop().unwrap();
            code(a);
            a.hlt().unwrap();
        });
        lab.set(save::RFLAGS, 2 | rflags::OF);
        lab.set(save::RAX, 5);
        lab.intercept(|i| i.exceptions = 1 << vector);
        assert_eq!(lab.run(), ExitCode::Exception(vector), "{name}");
        assert_eq!(lab.get(save::RIP), GUEST_CODE + 1 + offset, "{name}");
        assert!(!lab.get(control::EXITINTINFO).is_valid(), "{name}");
    }
}

#[test]
fn an_intercepted_int3_names_the_instruction_behind_it() {
    let mut lab = Lab::new(|a| a.int3().unwrap());
    lab.intercept(|i| i.exceptions = 1 << 3);
    assert_eq!(lab.run(), ExitCode::Exception(3));
    assert_eq!(lab.get(control::N_RIP), GUEST_CODE + 1);
}

fn virtual_interrupt(vector: u8, priority: u8) -> InterruptControl {
    InterruptControl::new()
        .with_masks_interrupts(true)
        .with_is_interrupt_pending(true)
        .with_interrupt_vector(vector)
        .with_interrupt_priority(priority)
}

#[test]
fn a_virtual_interrupt_waits_for_if_priority_and_shadow() {
    let ignoring = virtual_interrupt(0x41, 1).with_ignores_task_priority(true);
    // The guest's first instruction is HLT: behind a shadow it exits before the interrupt comes.
    let rows = [
        (rflags::IF, false, virtual_interrupt(0x41, 4), true),
        (rflags::IF, true, virtual_interrupt(0x41, 4), false),
        (0, false, virtual_interrupt(0x41, 4), false),
        (rflags::IF, false, virtual_interrupt(0x41, 4).with_task_priority(4), false),
        (rflags::IF, false, virtual_interrupt(0x41, 5).with_task_priority(4), true),
        (rflags::IF, false, ignoring.with_task_priority(4), true),
        (rflags::IF, false, virtual_interrupt(0x41, 4).with_is_interrupt_pending(false), false),
    ];
    for (flags, shadow, interrupts, delivered) in rows {
        let mut lab = Lab::new(|a| a.hlt().unwrap());
        lab.set(save::RFLAGS, flags | 2);
        lab.set(control::INTERRUPT_STATE, InterruptState::new().with_interrupt_shadow(shadow));
        lab.set(control::INTERRUPT_CONTROL, interrupts);
        assert_eq!(lab.run(), ExitCode::Hlt);
        let in_handler = lab.get(save::RIP) == GUEST_HANDLER;
        assert_eq!(in_handler, delivered, "{flags:#x} {shadow} {interrupts:?}");
        let pending = lab.get(control::INTERRUPT_CONTROL).is_interrupt_pending();
        assert_eq!(pending, interrupts.is_interrupt_pending() && !delivered);
    }
}

#[test]
fn the_vintr_intercept_opens_the_interrupt_window() {
    let mut lab = Lab::new(|a| {
        a.nop().unwrap();
        a.sti().unwrap();
        a.nop().unwrap();
        a.hlt().unwrap();
    });
    lab.set(control::INTERRUPT_CONTROL, virtual_interrupt(0, 15));
    lab.intercept(|i| i.vector3 |= Vector3::VINTR);
    assert_eq!(lab.run(), ExitCode::VirtualInterrupt);
    assert_eq!(lab.get(save::RIP), GUEST_CODE + 3, "after the shadow of STI");
    assert!(lab.get(control::INTERRUPT_CONTROL).is_interrupt_pending());
}

#[test]
fn cr8_is_v_tpr_under_interrupt_masking() {
    let mut lab = Lab::new(|_| ());
    lab.make_guest_long();
    lab.guest_code(64, |a| {
        a.mov(rax, 6u64).unwrap();
        a.mov(cr8, rax).unwrap();
        a.mov(rbx, cr8).unwrap();
        a.hlt().unwrap();
    });
    assert_eq!(lab.run(), ExitCode::Hlt);
    assert_eq!(lab.cpu.registers.gpr[3], 6);
    assert_eq!(lab.get(control::INTERRUPT_CONTROL).task_priority(), 6);
    assert_eq!(lab.cpu.apic.task_priority(), 0);
}

#[test]
fn physical_events_exit_and_wait_for_gif() {
    let mut lab = Lab::new(|a| {
        let mut here = a.create_label();
        a.set_label(&mut here).unwrap();
        a.jmp(here).unwrap();
    });
    assert_eq!(lab.run_until_stop(), RunEnd::Instructions);
    assert!(lab.cpu.is_guest());
    lab.cpu.pending.raise(Attention::NMI);
    assert_eq!(lab.run(), ExitCode::Nmi);
    assert!(lab.cpu.pending.has(Attention::NMI), "held while GIF is clear");
    assert_eq!(lab.get(save::RIP), GUEST_CODE);
}

#[test]
fn virtual_gif_holds_virtual_events_and_stgi_frees_them() {
    let mut lab = Lab::new(|a| {
        a.sti().unwrap();
        a.nop().unwrap();
        a.nop().unwrap();
        a.stgi().unwrap();
        a.hlt().unwrap();
    });
    lab.set(save::RFLAGS, 2);
    let interrupts = virtual_interrupt(0x41, 4).with_virtual_gif_enabled(true);
    lab.set(control::INTERRUPT_CONTROL, interrupts);
    lab.run();
    assert_eq!(stacked(&lab, 0), GUEST_CODE as u32 + 6, "after STGI");
    assert!(lab.get(control::INTERRUPT_CONTROL).virtual_gif());
}

#[test]
fn a_virtual_nmi_is_delivered_and_masked_until_iret() {
    let mut lab = Lab::new(|a| {
        a.nop().unwrap();
        a.hlt().unwrap();
    });
    lab.guest_handler(|a| {
        a.cpuid().unwrap();
        a.iretd().unwrap();
    });
    lab.intercept(|i| i.vector3 |= Vector3::CPUID);
    let interrupts = InterruptControl::new()
        .with_masks_interrupts(true)
        .with_virtual_nmi_enabled(true)
        .with_is_nmi_pending(true);
    lab.set(control::INTERRUPT_CONTROL, interrupts);
    assert_eq!(lab.run(), ExitCode::Cpuid);
    let inside = lab.get(control::INTERRUPT_CONTROL);
    assert!(inside.is_nmi_masked() && !inside.is_nmi_pending());
    let stack = lab.get(save::RSP);
    // Another one waits for the IRET.
    lab.set(control::INTERRUPT_CONTROL, inside.with_is_nmi_pending(true));
    let next = lab.get(control::N_RIP);
    lab.set(save::RIP, next);
    assert_eq!(lab.resume(), ExitCode::Cpuid, "the second, after IRET");
    assert_eq!(lab.get(save::RSP), stack, "which has popped the first one's frame");
    assert!(!lab.get(control::INTERRUPT_CONTROL).is_nmi_pending());
    lab.intercept(|i| i.vector3.remove(Vector3::CPUID));
    assert_eq!(lab.resume(), ExitCode::Hlt);
    assert!(!lab.get(control::INTERRUPT_CONTROL).is_nmi_masked());
}

#[test]
fn vmmcall_without_intercept_is_undefined() {
    let mut lab = Lab::new(|a| a.vmmcall().unwrap());
    lab.intercept(|i| {
        i.exceptions = 1 << 6;
        i.vector4.remove(Vector4::VMMCALL);
    });
    assert_eq!(lab.run(), ExitCode::Exception(6));
}

#[test]
fn an_exception_during_another_is_intercepted_before_the_two_are_combined() {
    let (divide, protection, double) = (1 << 0, 1 << 13, 1 << 8);
    for (intercepted, exit, error) in [
        (protection | double, ExitCode::Exception(13), 2),
        (double, ExitCode::Exception(8), 0),
        (0, ExitCode::Shutdown, 0),
        (divide | protection | double, ExitCode::Exception(0), 0),
    ] {
        let mut lab = Lab::new(|a| {
            a.xor(ecx, ecx).unwrap();
            a.div(ecx).unwrap();
        });
        // No gate can be read, so that the delivery of #DE raises #GP.
        let idtr = lab.get(save::IDTR);
        lab.set(save::IDTR, arch::svm::segment::Segment { limit: 0, ..idtr });
        lab.intercept(|i| i.exceptions = intercepted);
        assert_eq!(lab.run(), exit, "{intercepted:#x}");
        if exit == ExitCode::Exception(13) {
            assert_eq!(lab.exit_info()[0], error);
            let interrupted = lab.get(control::EXITINTINFO);
            assert!(interrupted.is_valid() && interrupted.vector() == 0);
        }
    }
}
