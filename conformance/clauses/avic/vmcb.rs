//! What VMRUN makes of AVIC's fields. [APM2 "AVIC Configuration"]

use arch::address::{GuestPhysical, SystemPhysical};
use arch::svm::avic::PhysicalTablePointer;
use arch::svm::vmcb::{InterruptControl, NestedControl, SIZE, Vmcb, control};
use virtual_apic::avic::{
    Avic, AvicBehaviour, AvicCapabilities, AvicMode, BackingPage, IllegalAvic,
};

fn capabilities() -> AvicCapabilities {
    AvicCapabilities {
        avic: true,
        x2avic: true,
        x2avic_extended: false,
        extended_lvt_change: false,
        physical_address_bits: 48,
        behaviour: AvicBehaviour::default(),
    }
}

fn vmcb(avic: bool, x2avic: bool, max_index: u16) -> Vmcb<Vec<u8>> {
    let mut vmcb = Vmcb::new(vec![0; SIZE]).expect("4 KiB");
    let interrupts = InterruptControl::new()
        .with_avic_enabled(avic)
        .with_x2avic_enabled(x2avic)
        .with_task_priority(5);
    vmcb.set(control::INTERRUPT_CONTROL, interrupts);
    vmcb.set(control::AVIC_APIC_BAR, 0xFEE0_0000);
    vmcb.set(control::AVIC_BACKING_PAGE, 0x1000);
    vmcb.set(control::AVIC_LOGICAL_TABLE, 0x2000);
    let table =
        PhysicalTablePointer::new().with_table(SystemPhysical(0x3000)).with_max_index(max_index);
    vmcb.set(control::AVIC_PHYSICAL_TABLE, table);
    vmcb
}

#[test]
fn the_control_area_names_pages_mode_and_priority() {
    let avic = Avic::load(&vmcb(true, false, 254), &capabilities()).unwrap().unwrap();
    assert_eq!(avic.mode, AvicMode::Xapic);
    assert_eq!(avic.apic_bar, GuestPhysical(0xFEE0_0000));
    assert_eq!(avic.backing_page, BackingPage(SystemPhysical(0x1000)));
    assert_eq!(avic.logical_table, SystemPhysical(0x2000));
    assert_eq!(avic.physical_table, SystemPhysical(0x3000));
    assert_eq!((avic.max_index, avic.task_priority), (254, 5));
    let x2 = Avic::load(&vmcb(true, true, 511), &capabilities()).unwrap().unwrap();
    assert_eq!(x2.mode, AvicMode::X2apic);
}

#[test]
fn x2avic_without_avic_is_illegal() {
    let loaded = Avic::load(&vmcb(false, true, 0), &capabilities());
    assert_eq!(loaded, Err(IllegalAvic::X2avicWithoutAvic));
    assert_eq!(Avic::load(&vmcb(false, false, 0), &capabilities()), Ok(None));
}

#[test]
fn max_index_is_bounded_by_mode_and_model() {
    let rows = [
        (false, false, 255, true),
        (false, false, 256, false),
        (true, false, 511, true),
        (true, false, 512, false),
        (true, true, 4095, true),
    ];
    for (is_x2, extended, max_index, is_legal) in rows {
        let capabilities = AvicCapabilities { x2avic_extended: extended, ..capabilities() };
        let loaded = Avic::load(&vmcb(true, is_x2, max_index), &capabilities);
        assert_eq!(loaded.is_ok(), is_legal, "x2 {is_x2} index {max_index}");
    }
}

#[test]
fn pointers_beyond_physical_memory_are_illegal() {
    for field in [control::AVIC_BACKING_PAGE, control::AVIC_LOGICAL_TABLE] {
        let mut vmcb = vmcb(true, false, 254);
        vmcb.set(field, 1 << 48);
        let loaded = Avic::load(&vmcb, &capabilities());
        assert_eq!(loaded, Err(IllegalAvic::PointerBeyondPhysicalMemory));
    }
}

#[test]
fn avic_may_need_nested_paging() {
    for (is_needed, is_nested, is_legal) in
        [(false, false, true), (false, true, true), (true, true, true), (true, false, false)]
    {
        let mut vmcb = vmcb(true, false, 254);
        vmcb.set(control::NESTED_CONTROL, NestedControl::new().with_nested_paging(is_nested));
        let behaviour =
            AvicBehaviour { needs_nested_paging: is_needed, ..AvicBehaviour::default() };
        let loaded = Avic::load(&vmcb, &AvicCapabilities { behaviour, ..capabilities() });
        assert_eq!(loaded.is_ok(), is_legal, "needed {is_needed}, nested {is_nested}");
        if !is_legal {
            assert_eq!(loaded, Err(IllegalAvic::WithoutNestedPaging));
        }
    }
}

#[test]
fn a_model_without_the_feature_ignores_its_bits() {
    let none = AvicCapabilities { avic: false, x2avic: false, ..capabilities() };
    assert_eq!(Avic::load(&vmcb(true, true, 4095), &none), Ok(None));
    let only_avic = AvicCapabilities { x2avic: false, ..capabilities() };
    let avic = Avic::load(&vmcb(true, true, 254), &only_avic).unwrap().unwrap();
    assert_eq!(avic.mode, AvicMode::Xapic);
}
