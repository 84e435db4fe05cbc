//! AVIC in the memory and MSR paths of a running guest.
//! [APM2 "Advanced Virtual Interrupt Controller"]

use crate::lab::*;
use arch::address::SystemPhysical;
use arch::control::rflags;
use arch::identity::{ApicId, Vector};
use arch::svm::avic::{PhysicalEntry, PhysicalTablePointer};
use arch::svm::event::{EventType, Injection};
use arch::svm::exit::ExitCode;
use arch::svm::intercept::Vector3;
use arch::svm::segment::{Segment as Saved, SegmentAttributes};
use arch::svm::vmcb::{InterruptControl, InterruptState, control, save};
use bus::{ControlBlock, Effect, Happening};
use cpu::{Attention, RunEnd};
use iced_x86::code_asm::*;

fn lab(is_x2: bool, code: impl FnOnce(&mut CodeAssembler)) -> Lab {
    let mut lab = Lab::new(code);
    let interrupts = InterruptControl::new()
        .with_masks_interrupts(true)
        .with_avic_enabled(true)
        .with_x2avic_enabled(is_x2);
    lab.set(control::INTERRUPT_CONTROL, interrupts);
    lab.set(control::AVIC_APIC_BAR, APIC);
    lab.set(control::AVIC_BACKING_PAGE, BACKING_PAGE);
    lab.set(control::AVIC_LOGICAL_TABLE, LOGICAL_TABLE);
    let table = PhysicalTablePointer::new()
        .with_table(SystemPhysical(PHYSICAL_TABLE))
        .with_max_index(if is_x2 { 511 } else { 254 });
    lab.set(control::AVIC_PHYSICAL_TABLE, table);
    lab.set(save::RFLAGS, 2);
    lab
}

fn set_entry(lab: &mut Lab, index: u64, page: u64, core: Option<u16>) {
    let entry = PhysicalEntry::new()
        .with_is_valid(true)
        .with_is_running(core.is_some())
        .with_host_apic_id(core.unwrap_or(0))
        .with_backing_page(SystemPhysical(page));
    lab.write(PHYSICAL_TABLE + 8 * index, entry.into_bits());
}

fn register(lab: &Lab, offset: u64) -> u32 {
    lab.read(BACKING_PAGE + offset) as u32
}

fn store(a: &mut CodeAssembler, offset: u64, value: u32) {
    a.mov(dword_ptr(APIC + offset), value).unwrap();
}

const OTHER: u64 = 0x3_3000;

#[test]
fn accelerated_accesses_use_the_backing_page_and_not_the_mapped_one() {
    let mut lab = lab(false, |a| {
        store(a, 0x310, 0x0300_0000);
        a.mov(ebx, dword_ptr(APIC + 0x30)).unwrap();
        a.hlt().unwrap();
    });
    lab.write(BACKING_PAGE + 0x30, 0x8005_0010);
    assert_eq!(lab.run(), ExitCode::Hlt);
    assert_eq!(register(&lab, 0x310), 0x0300_0000);
    assert_eq!(lab.cpu.registers.gpr[3], 0x8005_0010);
    assert_eq!(lab.read(0x3_4310), 0, "the page that the nested tables map");
}

#[test]
fn the_apic_page_must_be_mapped_with_the_right_access() {
    for (entry, code) in [(0, 0x1_0000_0006), (0x3_4000 | 5, 0x1_0000_0007)] {
        let mut lab = lab(false, |a| store(a, 0x310, 0));
        lab.write(NESTED_TABLES + 0x5000, entry);
        assert_eq!(lab.run(), ExitCode::NestedPageFault);
        assert_eq!(lab.exit_info(), [code, APIC + 0x310]);
    }
}

#[test]
fn without_avic_or_under_x2avic_the_page_is_memory() {
    for is_x2 in [false, true] {
        let mut lab = lab(is_x2, |a| {
            store(a, 0x310, 0x77);
            a.hlt().unwrap();
        });
        if !is_x2 {
            let interrupts = lab.get(control::INTERRUPT_CONTROL).with_avic_enabled(false);
            lab.set(control::INTERRUPT_CONTROL, interrupts);
        }
        assert_eq!(lab.run(), ExitCode::Hlt);
        assert_eq!(lab.read(0x3_4310) as u32, 0x77);
        assert_eq!(register(&lab, 0x310), 0);
    }
}

#[test]
fn a_trap_exits_after_the_store_with_rip_behind_it() {
    let mut lab = lab(false, |a| {
        store(a, 0xF0, 0x1FF);
        a.hlt().unwrap();
    });
    assert_eq!(lab.run(), ExitCode::AvicNoAcceleration);
    assert_eq!(lab.exit_info(), [0x1_0000_00F0, 0]);
    assert_eq!(register(&lab, 0xF0), 0x1FF);
    assert_eq!(lab.get(save::RIP), GUEST_CODE + 10, "behind the store, before HLT");
    assert_eq!(lab.get(control::N_RIP), 0);
    assert_eq!(lab.resume(), ExitCode::Hlt);
}

#[test]
fn a_fault_exits_before_the_access_with_rip_at_it() {
    type Code = fn(&mut CodeAssembler);
    let rows: [(Code, u64); 3] = [
        (|a| a.mov(ebx, dword_ptr(APIC + 0x390)).unwrap(), 0x390),
        (|a| store(a, 0x30, 1), 0x1_0000_0030),
        (|a| a.mov(byte_ptr(APIC + 0x80), bl).unwrap(), 0x1_0000_0080),
    ];
    for (code, info) in rows {
        let mut lab = lab(false, |a| {
            a.nop().unwrap();
            code(a);
            a.hlt().unwrap();
        });
        lab.cpu.registers.gpr[3] = 0x99;
        assert_eq!(lab.run(), ExitCode::AvicNoAcceleration);
        assert_eq!(lab.exit_info(), [info, 0]);
        assert_eq!(lab.get(save::RIP), GUEST_CODE + 1);
        assert_eq!(lab.cpu.registers.gpr[3], 0x99);
        assert_eq!(register(&lab, 0x30), 0);
    }
}

#[test]
fn an_ipi_to_a_running_target_rings_its_core() {
    let mut lab = lab(false, |a| {
        store(a, 0x310, 0x0300_0000);
        store(a, 0x300, 0x40FD);
        a.hlt().unwrap();
    });
    set_entry(&mut lab, 3, OTHER, Some(9));
    assert_eq!(lab.run(), ExitCode::Hlt);
    assert_eq!(lab.platform.effects, [Effect::Doorbell { target: ApicId(9) }]);
    assert_eq!(lab.read(OTHER + 0x270) as u32, 1 << 29);
}

#[test]
fn an_ipi_to_a_target_that_is_not_running_exits_after_the_store() {
    let mut lab = lab(false, |a| {
        store(a, 0x310, 0x0300_0000);
        store(a, 0x300, 0x40FD);
        a.hlt().unwrap();
    });
    set_entry(&mut lab, 3, OTHER, None);
    assert_eq!(lab.run(), ExitCode::AvicIncompleteIpi);
    assert_eq!(lab.exit_info(), [0x0300_0000_0000_40FD, 0x1_0000_0003]);
    assert_eq!(lab.get(save::RIP), GUEST_CODE + 20);
    assert_eq!(lab.read(OTHER + 0x270) as u32, 1 << 29);
    assert_eq!(register(&lab, 0x300), 0x40FD);
}

#[test]
fn an_ipi_in_steps_yields_between_them() {
    let mut lab = lab(false, |a| {
        store(a, 0x310, 0x0300_0000);
        store(a, 0x300, 0x40FD);
        a.mov(dword_ptr(GUEST_DATA), 1).unwrap();
        a.hlt().unwrap();
    });
    lab.cpu.guest.svm.behaviour.sends_ipis_in_steps = true;
    set_entry(&mut lab, 3, OTHER, Some(9));
    assert_eq!(lab.run_turn(), RunEnd::Yield);
    assert_eq!(register(&lab, 0x300), 0x40FD, "the command is written");
    assert_eq!(lab.read(OTHER + 0x270) as u32, 0, "and nobody interrupted yet");
    assert_eq!(lab.platform.effects, []);
    assert_eq!(lab.run(), ExitCode::Hlt);
    assert_eq!(lab.platform.effects, [Effect::Doorbell { target: ApicId(9) }]);
    assert_eq!(lab.read(OTHER + 0x270) as u32, 1 << 29);
    assert_eq!(lab.read(GUEST + GUEST_DATA) as u32, 1);
}

#[test]
fn a_self_ipi_is_taken_without_an_exit() {
    let mut lab = lab(false, |a| {
        a.sti().unwrap();
        store(a, 0x300, 0x4_4041);
        a.nop().unwrap();
        a.hlt().unwrap();
    });
    assert_eq!(lab.run(), ExitCode::Hlt);
    assert_eq!(lab.get(save::RIP), GUEST_HANDLER);
    assert_eq!(register(&lab, 0x100 + 0x20), 1 << 1, "in service");
    assert_eq!(register(&lab, 0x200 + 0x20), 0);
    assert_eq!(register(&lab, 0xA0), 0x40, "PPR");
}

#[test]
fn what_happens_without_an_exit_is_recorded_in_its_order() {
    let mut lab = lab(false, |a| {
        a.sti().unwrap();
        store(a, 0x300, 0x4_4041);
        a.nop().unwrap();
        a.hlt().unwrap();
    });
    lab.guest_handler(|a| {
        store(a, 0xB0, 0);
        a.iretd().unwrap();
    });
    assert_eq!(lab.run(), ExitCode::Hlt);
    let (block, vector) = (ControlBlock::Vmcb(SystemPhysical(VMCB)), Vector(0x41));
    let behind_store = GUEST_CODE + 11;
    assert_eq!(
        lab.platform.happenings[1..6],
        [
            Happening::VirtualIpi { block, icr: 0x4_4041 },
            Happening::Posted { place: SystemPhysical(BACKING_PAGE), vector },
            Happening::VirtualAccept { block, vector },
            Happening::VirtualInterrupt { block, vector, ip: behind_store },
            Happening::VirtualEndOfInterrupt { block, vector },
        ],
        "behind the entry"
    );
}

#[test]
fn a_pending_request_is_taken_at_vmrun() {
    let mut lab = lab(false, |a| a.hlt().unwrap());
    lab.set(save::RFLAGS, 2 | rflags::IF);
    lab.write(BACKING_PAGE + 0x220, 1 << 1);
    assert_eq!(lab.run(), ExitCode::Hlt);
    assert_eq!(lab.get(save::RIP), GUEST_HANDLER);
}

#[test]
fn v_irq_is_ignored_under_avic() {
    let mut lab = lab(false, |a| a.hlt().unwrap());
    lab.set(save::RFLAGS, 2 | rflags::IF);
    let interrupts = lab
        .get(control::INTERRUPT_CONTROL)
        .with_is_interrupt_pending(true)
        .with_interrupt_priority(15)
        .with_interrupt_vector(0x41);
    lab.set(control::INTERRUPT_CONTROL, interrupts);
    lab.intercept(|i| i.vector3 |= Vector3::VINTR);
    assert_eq!(lab.run(), ExitCode::Hlt);
    assert_eq!(lab.get(save::RIP), GUEST_CODE);
}

#[test]
fn eoi_and_a_lower_tpr_let_the_next_one_in() {
    let mut lab = lab(false, |a| {
        a.sti().unwrap();
        a.nop().unwrap();
        store(a, 0x80, 0);
        a.nop().unwrap();
        a.hlt().unwrap();
    });
    lab.guest_handler(|a| {
        a.inc(ebx).unwrap();
        store(a, 0xB0, 0);
        a.iretd().unwrap();
    });
    lab.cpu.registers.gpr[3] = 0;
    lab.write(BACKING_PAGE + 0x220, 1 << 1);
    lab.write(BACKING_PAGE + 0x210, 1 << 1);
    let interrupts = lab.get(control::INTERRUPT_CONTROL).with_task_priority(8);
    lab.set(control::INTERRUPT_CONTROL, interrupts);
    lab.write(BACKING_PAGE + 0x80, 0x80);
    assert_eq!(lab.run(), ExitCode::Hlt);
    assert_eq!(lab.cpu.registers.gpr[3], 2, "both, after TPR was lowered");
    assert_eq!((register(&lab, 0x110), register(&lab, 0x120)), (0, 0));
    assert_eq!(lab.get(control::INTERRUPT_CONTROL).task_priority(), 0);
}

#[test]
fn a_level_triggered_eoi_traps_with_its_vector() {
    let mut lab = lab(false, |a| {
        a.sti().unwrap();
        a.nop().unwrap();
        a.hlt().unwrap();
    });
    lab.guest_handler(|a| {
        store(a, 0xB0, 0);
        a.iretd().unwrap();
    });
    lab.write(BACKING_PAGE + 0x220, 1 << 1);
    lab.write(BACKING_PAGE + 0x1A0, 1 << 1);
    assert_eq!(lab.run(), ExitCode::AvicNoAcceleration);
    assert_eq!(lab.exit_info(), [0x1_0000_00B0, 0x41]);
    assert_eq!(register(&lab, 0x120), 1 << 1, "still in service");
    assert_eq!(lab.get(save::RIP), GUEST_HANDLER + 10);
}

#[test]
fn an_exit_while_an_avic_interrupt_is_delivered_reports_it_in_service() {
    let mut lab = lab(false, |a| a.hlt().unwrap());
    lab.set(save::RFLAGS, 2 | rflags::IF);
    lab.write(BACKING_PAGE + 0x220, 1 << 1);
    lab.write(NESTED_TABLES + 0x3000 + 8 * ((GUEST_STACK - 4) >> 12), 0);
    assert_eq!(lab.run(), ExitCode::NestedPageFault);
    let event = lab.get(control::EXITINTINFO);
    assert!(event.is_valid());
    assert_eq!((event.event_type(), event.vector()), (EventType::Interrupt, 0x41));
    assert_eq!(register(&lab, 0x120), 1 << 1);
}

#[test]
fn an_exit_while_an_avic_interrupt_is_delivered_may_take_it_back() {
    let mut lab = lab(false, |a| a.hlt().unwrap());
    lab.cpu.guest.svm.behaviour.avic.takes_undelivered_back = true;
    lab.set(save::RFLAGS, 2 | rflags::IF);
    lab.write(BACKING_PAGE + 0x220, 1 << 1);
    lab.write(NESTED_TABLES + 0x3000 + 8 * ((GUEST_STACK - 4) >> 12), 0);
    assert_eq!(lab.run(), ExitCode::NestedPageFault);
    assert!(!lab.get(control::EXITINTINFO).is_valid());
    assert_eq!((register(&lab, 0x120), register(&lab, 0x220)), (0, 1 << 1));
    assert_eq!(register(&lab, 0xA0), 0, "processor priority");
}

#[test]
fn a_doorbell_wakes_a_halted_guest() {
    let mut lab = lab(false, |a| {
        a.sti().unwrap();
        a.hlt().unwrap();
    });
    lab.intercept(|i| i.vector3.remove(Vector3::HLT));
    lab.guest_handler(|a| a.vmmcall().unwrap());
    lab.intercept(|i| i.vector4 |= arch::svm::intercept::Vector4::VMMCALL);
    assert_eq!(lab.run_until_stop(), RunEnd::Idle);
    assert!(lab.cpu.is_guest());
    lab.cpu.receive_doorbell();
    assert_eq!(lab.run_until_stop(), RunEnd::Idle, "nothing is requested");
    assert!(lab.cpu.is_guest());
    lab.write(BACKING_PAGE + 0x220, 1 << 1);
    lab.cpu.receive_doorbell();
    assert_eq!(lab.run(), ExitCode::Vmmcall);
    assert_eq!(register(&lab, 0x120), 1 << 1);
}

#[test]
fn an_injected_event_comes_before_an_avic_interrupt() {
    let mut lab = lab(false, |a| a.hlt().unwrap());
    lab.set(save::RFLAGS, 2 | rflags::IF);
    lab.write(BACKING_PAGE + 0x220, 1 << 1);
    let event = Injection::new().with_vector(6).with_event_type(EventType::Exception);
    lab.set(control::EVENTINJ, event.with_is_valid(true));
    assert_eq!(lab.run(), ExitCode::Hlt);
    assert_eq!(lab.read(GUEST + lab.get(save::RSP)) as u32, GUEST_CODE as u32, "one frame");
    assert_eq!(register(&lab, 0x220), 1 << 1, "IF is clear in the handler: still requested");
}

#[test]
fn an_avic_interrupt_waits_for_if_shadow_and_virtual_gif() {
    let masks = InterruptControl::new().with_masks_interrupts(true).with_avic_enabled(true);
    let gif = masks.with_virtual_gif_enabled(true);
    let rows = [
        (rflags::IF, false, masks, true),
        (0, false, masks, false),
        (rflags::IF, true, masks, false),
        (rflags::IF, false, gif, false),
        (rflags::IF, false, gif.with_virtual_gif(true), true),
    ];
    for (flags, shadow, interrupts, is_taken) in rows {
        let mut lab = lab(false, |a| a.hlt().unwrap());
        lab.set(control::INTERRUPT_CONTROL, interrupts);
        lab.set(control::INTERRUPT_STATE, InterruptState::new().with_interrupt_shadow(shadow));
        lab.set(save::RFLAGS, 2 | flags);
        lab.write(BACKING_PAGE + 0x220, 1 << 1);
        assert_eq!(lab.run(), ExitCode::Hlt);
        let in_handler = lab.get(save::RIP) == GUEST_HANDLER;
        assert_eq!(in_handler, is_taken, "{flags:#x} {shadow} {interrupts:?}");
    }
}

#[test]
fn cr8_under_avic_is_v_tpr_and_writes_reach_the_page() {
    let mut lab = lab(false, |_| ());
    lab.make_guest_long();
    lab.guest_code(64, |a| {
        a.mov(rbx, cr8).unwrap();
        a.mov(rax, 6u64).unwrap();
        a.mov(cr8, rax).unwrap();
        a.hlt().unwrap();
    });
    let interrupts = lab.get(control::INTERRUPT_CONTROL).with_task_priority(3);
    lab.set(control::INTERRUPT_CONTROL, interrupts);
    lab.write(BACKING_PAGE + 0x80, 0x95);
    assert_eq!(lab.run(), ExitCode::Hlt);
    assert_eq!(lab.cpu.registers.gpr[3], 3, "V_TPR, whatever the page says");
    assert_eq!(register(&lab, 0x80), 0x60);
    assert_eq!(lab.get(control::INTERRUPT_CONTROL).task_priority(), 6);
}

#[test]
fn vmrun_takes_v_tpr_from_the_vmcb_and_leaves_the_page_alone() {
    for (v_tpr, page, is_taken) in [(5, 0, false), (0, 0xF0, true)] {
        let mut lab = lab(false, |a| a.hlt().unwrap());
        lab.set(save::RFLAGS, 2 | rflags::IF);
        let interrupts = lab.get(control::INTERRUPT_CONTROL).with_task_priority(v_tpr);
        lab.set(control::INTERRUPT_CONTROL, interrupts);
        lab.write(BACKING_PAGE + 0x80, page);
        lab.write(BACKING_PAGE + 0x220, 1 << 1);
        lab.run();
        assert_eq!(lab.get(save::RIP) == GUEST_HANDLER, is_taken, "{v_tpr} {page:#x}");
        assert_eq!(u64::from(register(&lab, 0x80)), page);
    }
}

#[test]
fn an_nmi_that_is_intercepted_exits_before_an_avic_interrupt_is_taken() {
    let mut lab = lab(false, |a| a.hlt().unwrap());
    lab.set(save::RFLAGS, 2 | rflags::IF);
    lab.write(BACKING_PAGE + 0x220, 1 << 1);
    lab.cpu.pending.raise(Attention::NMI);
    lab.cpu.guest.svm.global_interrupts = false;
    assert_eq!(lab.run(), ExitCode::Nmi);
    assert_eq!(register(&lab, 0x220), 1 << 1, "still requested");
    assert_eq!(register(&lab, 0x120), 0);
}

#[test]
fn a_privilege_fault_comes_before_the_msr_map_and_x2avic() {
    let mut lab = lab(true, |a| {
        a.mov(ecx, 0x808).unwrap();
        a.rdmsr().unwrap();
    });
    let user = |selector, attributes| Saved {
        selector,
        attributes: SegmentAttributes::from_bits(attributes),
        limit: 0xFFFF_FFFF,
        base: 0,
    };
    lab.set(save::CS, user(0x1B, 0xCFB));
    lab.set(save::SS, user(0x23, 0xCF3));
    lab.set(save::CPL, 3);
    lab.intercept(|i| {
        i.vector3 |= Vector3::MSR;
        i.exceptions = 1 << 13;
    });
    lab.memory.write(SystemPhysical(MSR_MAP), &[0xFF; 0x2000]).unwrap();
    assert_eq!(lab.run(), ExitCode::Exception(13));
}

#[test]
fn erratum_1235_lets_others_run_between_is_running_and_the_request() {
    let code: fn(&mut CodeAssembler) = |a| {
        store(a, 0x310, 0x0300_0000);
        store(a, 0x300, 0x40FD);
        a.hlt().unwrap();
    };
    // The target is taken off its core in between: its doorbell goes to a core that it has left.
    let mut lab = lab(false, code);
    lab.cpu.guest.svm.behaviour.avic.erratum_1235 = true;
    set_entry(&mut lab, 3, OTHER, Some(9));
    assert_eq!(lab.run_turn(), RunEnd::Yield);
    assert_eq!(lab.read(OTHER + 0x270) as u32, 0, "not visible yet");
    set_entry(&mut lab, 3, OTHER, None);
    assert_eq!(lab.run(), ExitCode::Hlt, "no exit 401h");
    assert_eq!(lab.platform.effects, [Effect::Doorbell { target: ApicId(9) }]);
    assert_eq!(lab.read(OTHER + 0x270) as u32, 1 << 29);
    // One that was not running when it was looked at is found out.
    let mut lab = self::lab(false, code);
    lab.cpu.guest.svm.behaviour.avic.erratum_1235 = true;
    set_entry(&mut lab, 3, OTHER, None);
    assert_eq!(lab.run(), ExitCode::AvicIncompleteIpi);
}

fn write_msr(a: &mut CodeAssembler, number: u32, value: u64) {
    a.mov(ecx, number).unwrap();
    a.mov(eax, value as u32).unwrap();
    a.mov(edx, (value >> 32) as u32).unwrap();
    a.wrmsr().unwrap();
}

#[test]
fn x2avic_serves_msrs_from_the_backing_page() {
    let mut lab = lab(true, |a| {
        write_msr(a, 0x808, 0x50);
        write_msr(a, 0x830, 0x0000_0003_0000_40FD);
        a.mov(ecx, 0x802).unwrap();
        a.rdmsr().unwrap();
        a.mov(ebx, eax).unwrap();
        a.hlt().unwrap();
    });
    lab.write(BACKING_PAGE + 0x20, 0x17);
    set_entry(&mut lab, 3, OTHER, Some(0x123));
    assert_eq!(lab.run(), ExitCode::Hlt);
    assert_eq!(lab.cpu.registers.gpr[3], 0x17);
    assert_eq!((register(&lab, 0x300), register(&lab, 0x310)), (0x40FD, 3));
    assert_eq!(register(&lab, 0x80), 0x50);
    assert_eq!(lab.get(control::INTERRUPT_CONTROL).task_priority(), 5);
    assert_eq!(lab.platform.effects, [Effect::Doorbell { target: ApicId(0x123) }]);
}

#[test]
fn x2avic_traps_come_after_wrmsr_and_faults_before_rdmsr() {
    let mut trap = lab(true, |a| {
        write_msr(a, 0x80F, 0x1FF);
        a.hlt().unwrap();
    });
    assert_eq!(trap.run(), ExitCode::AvicNoAcceleration);
    assert_eq!(trap.exit_info(), [0x1_0000_00F0, 0]);
    assert_eq!(trap.get(save::RIP), GUEST_CODE + 17);
    let mut fault = lab(true, |a| {
        a.mov(ecx, 0x839).unwrap();
        a.rdmsr().unwrap();
        a.hlt().unwrap();
    });
    assert_eq!(fault.run(), ExitCode::AvicNoAcceleration);
    assert_eq!(fault.exit_info(), [0x390, 0]);
    assert_eq!(fault.get(save::RIP), GUEST_CODE + 5);
}

#[test]
fn the_msr_map_comes_before_x2avic() {
    let mut lab = lab(true, |a| write_msr(a, 0x808, 0x50));
    lab.intercept(|i| i.vector3 |= Vector3::MSR);
    let bit = arch::svm::msr::permission_bit(0x808).unwrap() + 1;
    let byte = SystemPhysical(MSR_MAP + u64::from(bit / 8));
    lab.memory.write(byte, &[1 << (bit % 8)]).unwrap();
    assert_eq!(lab.run(), ExitCode::Msr);
    assert_eq!(register(&lab, 0x80), 0);
}

#[test]
fn x2avic_refuses_what_x2apic_mode_refuses() {
    for (number, value) in [(0x808, 0x100), (0x80E, 0), (0x802, 0), (0x832, 1 << 18)] {
        let mut lab = lab(true, |a| write_msr(a, number, value));
        lab.intercept(|i| i.exceptions = 1 << 13);
        assert_eq!(lab.run(), ExitCode::Exception(13), "{number:#x}");
    }
}
