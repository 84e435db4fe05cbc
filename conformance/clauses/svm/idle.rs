//! HLT that exits only where nothing waits. [APM2 "Idle HLT Intercept"]

use crate::lab::*;
use arch::address::SystemPhysical;
use arch::svm::avic::PhysicalTablePointer;
use arch::svm::exit::ExitCode;
use arch::svm::intercept::{Vector3, Vector4, Vector5};
use arch::svm::vmcb::{InterruptControl, control, save};
use cpu::svm::IdleHltPending;

/// Where a guest is that opened the window of one instruction before HLT: STI, HLT.
#[derive(Debug, PartialEq, Eq)]
enum End {
    /// Exit before HLT.
    IdleHalt,
    /// The handler of the interrupt that ended HLT was reached.
    Woken,
    /// In the guest, at rest.
    Halted,
}

const HLT_AT: u64 = GUEST_CODE + 1;

fn halt(model: &str, prepare: impl FnOnce(&mut Lab)) -> End {
    let mut lab = Lab::with_model(model, |a| {
        a.sti().unwrap();
        a.hlt().unwrap();
    });
    lab.guest_handler(|a| a.cpuid().unwrap());
    lab.intercept(|i| {
        i.vector3.remove(Vector3::HLT);
        i.vector3 |= Vector3::CPUID;
        i.vector4 |= Vector4::VMRUN;
        i.vector5 |= Vector5::IDLE_HLT;
    });
    prepare(&mut lab);
    lab.run_until_stop();
    if lab.cpu.is_guest() {
        return End::Halted;
    }
    let code = ExitCode::from_bits(lab.get(control::EXITCODE));
    match (code, lab.get(save::RIP)) {
        (ExitCode::IdleHlt, HLT_AT) => End::IdleHalt,
        (ExitCode::Cpuid, GUEST_HANDLER) => End::Woken,
        other => panic!("{other:?}"),
    }
}

fn software(interrupt: bool, priority: u8, task: u8) -> InterruptControl {
    InterruptControl::new()
        .with_masks_interrupts(true)
        .with_is_interrupt_pending(interrupt)
        .with_interrupt_vector(0x35)
        .with_interrupt_priority(priority)
        .with_task_priority(task)
}

/// Vector 35h is requested in the backing page, or none is.
fn avic(lab: &mut Lab, is_requested: bool, task: u8) {
    let interrupts = software(false, 0, task).with_avic_enabled(true);
    lab.set(control::INTERRUPT_CONTROL, interrupts);
    lab.set(control::AVIC_APIC_BAR, APIC);
    lab.set(control::AVIC_BACKING_PAGE, BACKING_PAGE);
    lab.set(control::AVIC_LOGICAL_TABLE, LOGICAL_TABLE);
    let table = PhysicalTablePointer::new().with_table(SystemPhysical(PHYSICAL_TABLE));
    lab.set(control::AVIC_PHYSICAL_TABLE, table.with_max_index(254));
    lab.write(BACKING_PAGE + 0x210, u64::from(is_requested) << 0x15);
}

#[test]
fn hlt_exits_only_where_no_virtual_interrupt_waits() {
    let rows =
        [(false, 0, 0, End::IdleHalt), (true, 3, 0, End::Woken), (true, 3, 4, End::IdleHalt)];
    for (is_requested, priority, task, expected) in rows {
        let end = halt("zen5", |lab| {
            lab.set(control::INTERRUPT_CONTROL, software(is_requested, priority, task));
        });
        assert_eq!(end, expected, "V_IRQ {is_requested}, V_TPR {task}");
        let end = halt("zen5", |lab| avic(lab, is_requested, task));
        assert_eq!(end, expected, "AVIC, IRR {is_requested}, V_TPR {task}");
    }
}

#[test]
fn an_interrupt_below_the_task_priority_may_count_as_pending() {
    for has_avic in [false, true] {
        let end = halt("zen5", |lab| {
            lab.cpu.guest.svm.behaviour.idle_hlt_pending = IdleHltPending::Requested;
            match has_avic {
                true => avic(lab, true, 4),
                false => lab.set(control::INTERRUPT_CONTROL, software(true, 3, 4)),
            }
        });
        assert_eq!(end, End::Halted, "AVIC {has_avic}");
    }
}

#[test]
fn a_pending_virtual_nmi_keeps_hlt_from_exiting() {
    let end = halt("zen5", |lab| {
        let interrupts = software(false, 0, 0).with_virtual_nmi_enabled(true);
        lab.set(
            control::INTERRUPT_CONTROL,
            interrupts.with_is_nmi_pending(true).with_is_nmi_masked(true),
        );
    });
    assert_eq!(end, End::Halted);
}

#[test]
fn the_intercept_of_every_hlt_comes_first() {
    let mut lab = Lab::with_model("zen5", |a| a.hlt().unwrap());
    lab.intercept(|i| i.vector5 |= Vector5::IDLE_HLT);
    assert_eq!(lab.run(), ExitCode::Hlt);
}

#[test]
fn a_part_without_the_feature_ignores_the_bit() {
    assert_eq!(halt("zen4", |_| ()), End::Halted);
}
