use super::super::avic::AvicBehaviour;
use super::*;
use arch::svm::Intercepts;
use arch::svm::segment::{Segment, SegmentAttributes};
use arch::svm::vmcb::{InterruptControl, NestedControl, SIZE};

type Bytes = Vmcb<Vec<u8>>;

fn supported() -> Supported {
    Supported {
        cr4: Cr4::PAE | Cr4::PGE | Cr4::OSFXSR,
        efer: Efer::SYSCALL
            | Efer::LONG_MODE_ENABLE
            | Efer::LONG_MODE_ACTIVE
            | Efer::NO_EXECUTE
            | Efer::SVM,
        physical_bits: 48,
        nested_paging: true,
        flush_by_asid: true,
        ignores_reserved_tlb_control: false,
        virtual_nmi: true,
        host_pages: true,
        avic: AvicCapabilities {
            avic: true,
            x2avic: true,
            x2avic_extended: false,
            extended_lvt_change: false,
            physical_address_bits: 48,
            behaviour: AvicBehaviour::DEFAULT,
        },
    }
}

/// A 64-bit guest that every rule allows.
fn legal() -> Bytes {
    let mut vmcb = Vmcb::new(vec![0; SIZE]).expect("4 KiB");
    let vector4 = Vector4::VMRUN;
    vmcb.set(control::INTERCEPTS, Intercepts { vector4, ..Default::default() });
    vmcb.set(control::GUEST_ASID, 1);
    let long = Efer::SVM | Efer::LONG_MODE_ENABLE | Efer::LONG_MODE_ACTIVE;
    vmcb.set(save::EFER, long.bits());
    vmcb.set(save::CR0, (Cr0::PROTECTION_ENABLE | Cr0::PAGING).bits());
    vmcb.set(save::CR4, Cr4::PAE.bits());
    let code = Segment { attributes: SegmentAttributes::from_bits(0xA9B), ..Default::default() };
    vmcb.set(save::CS, code);
    vmcb
}

fn intercept(vmcb: &mut Bytes, vector3: Vector3) {
    let intercepts = vmcb.get(control::INTERCEPTS);
    vmcb.set(control::INTERCEPTS, Intercepts { vector3, ..intercepts });
}

#[test]
fn a_legal_guest_passes() {
    assert_eq!(check(&legal(), &supported()), Ok(()));
}

#[test]
fn each_broken_rule_is_found() {
    type Row = (Illegal, fn(&mut Bytes));
    let rows: &[Row] = &[
        (Illegal::SvmDisabled, |v| v.set(save::EFER, v.get(save::EFER) & !(1 << 12))),
        (Illegal::CacheModes, |v| v.set(save::CR0, v.get(save::CR0) | 1 << 29)),
        (Illegal::ReservedCr0, |v| v.set(save::CR0, v.get(save::CR0) | 1 << 32)),
        (Illegal::ReservedCr3, |v| v.set(save::CR3, 1 << 48)),
        (Illegal::ReservedCr4, |v| v.set(save::CR4, v.get(save::CR4) | 1 << 31)),
        (Illegal::ReservedCr4, |v| v.set(save::CR4, v.get(save::CR4) | 1 << 20)),
        (Illegal::ReservedEfer, |v| v.set(save::EFER, v.get(save::EFER) | 1 << 63)),
        (Illegal::ReservedDebug, |v| v.set(save::DR6, 1 << 32)),
        (Illegal::ReservedDebug, |v| v.set(save::DR7, 1 << 63)),
        (Illegal::LongModeWithoutPae, |v| v.set(save::CR4, 0)),
        (Illegal::LongModeWithoutProtection, |v| v.set(save::CR0, 1 << 31)),
        (Illegal::LongAndDefaultBig, |v| {
            let attributes = SegmentAttributes::from_bits(0xE9B);
            v.set(save::CS, Segment { attributes, ..Default::default() });
        }),
        (Illegal::VmrunNotIntercepted, |v| v.set(control::INTERCEPTS, Intercepts::default())),
        (Illegal::PermissionMap, |v| {
            intercept(v, Vector3::IOIO);
            v.set(control::IOPM_BASE_PA, (1 << 48) - 0x2000);
        }),
        (Illegal::PermissionMap, |v| {
            intercept(v, Vector3::MSR);
            v.set(control::MSRPM_BASE_PA, (1 << 48) - 0x1000);
        }),
        // The manual's rule does not ask whether they are used.
        (Illegal::PermissionMap, |v| v.set(control::IOPM_BASE_PA, 1 << 48)),
        (Illegal::PermissionMap, |v| v.set(control::MSRPM_BASE_PA, u64::MAX)),
        (Illegal::TlbControl, |v| v.set(control::TLB_CONTROL, 2)),
        (Illegal::ReservedNestedCr3, |v| {
            v.set(control::NESTED_CONTROL, NestedControl::new().with_nested_paging(true));
            v.set(control::N_CR3, 1 << 48);
        }),
        (Illegal::GuestPat, |v| {
            v.set(control::NESTED_CONTROL, NestedControl::new().with_nested_paging(true));
            v.set(save::G_PAT, 0x0007_0406_0007_0402);
        }),
        (Illegal::Asid, |v| v.set(control::GUEST_ASID, 0)),
        (Illegal::VirtualNmiWithoutIntercept, |v| {
            let interrupts = InterruptControl::new().with_virtual_nmi_enabled(true);
            v.set(control::INTERRUPT_CONTROL, interrupts);
        }),
        (Illegal::Avic, |v| {
            let interrupts = InterruptControl::new().with_x2avic_enabled(true);
            v.set(control::INTERRUPT_CONTROL, interrupts);
        }),
    ];
    for (rule, breaks) in rows {
        let mut vmcb = legal();
        breaks(&mut vmcb);
        assert_eq!(check(&vmcb, &supported()), Err(*rule));
    }
}

#[test]
fn nested_paging_needs_a_paging_host() {
    let mut vmcb = legal();
    vmcb.set(control::NESTED_CONTROL, NestedControl::new().with_nested_paging(true));
    let unpaged = Supported { host_pages: false, ..supported() };
    assert_eq!(check(&vmcb, &unpaged), Err(Illegal::NestedPagingInUnpagedHost));
    assert_eq!(check(&vmcb, &supported()), Ok(()));
}

#[test]
fn what_nested_paging_alone_uses_is_not_checked_without_it() {
    let mut vmcb = legal();
    vmcb.set(control::N_CR3, u64::MAX);
    vmcb.set(save::G_PAT, u64::MAX);
    assert_eq!(check(&vmcb, &supported()), Ok(()));
}

#[test]
fn flushes_by_asid_exist_where_the_processor_has_them() {
    let without = Supported { flush_by_asid: false, ..supported() };
    let ignoring = Supported { ignores_reserved_tlb_control: true, ..without };
    for (encoding, with_feature, lacking) in
        [(0, true, true), (1, true, true), (2, false, false), (3, true, false), (7, true, false)]
    {
        let mut vmcb = legal();
        vmcb.set(control::TLB_CONTROL, encoding);
        assert_eq!(check(&vmcb, &supported()).is_ok(), with_feature, "{encoding}");
        assert_eq!(check(&vmcb, &without).is_ok(), lacking, "{encoding}");
        assert_eq!(check(&vmcb, &ignoring), Ok(()), "{encoding}");
    }
}

#[test]
fn long_mode_rules_do_not_bind_a_guest_without_paging() {
    let mut vmcb = legal();
    vmcb.set(save::CR0, 0);
    vmcb.set(save::CR4, 0);
    assert_eq!(check(&vmcb, &supported()), Ok(()));
}

#[test]
fn events_that_cannot_happen_are_illegal() {
    let rows = [
        (EventType::Interrupt, 0xFF, true),
        (EventType::Nmi, 2, true),
        (EventType::Exception, 14, true),
        (EventType::Exception, 2, false),
        (EventType::Exception, 32, false),
        (EventType::Exception, 4, false),
        (EventType::Exception, 5, false),
        (EventType::SoftwareInterrupt, 0x80, true),
        (EventType::Reserved(1), 0, false),
        (EventType::Reserved(5), 0, false),
        (EventType::Reserved(7), 0, false),
    ];
    for (event_type, vector, is_legal) in rows {
        let mut vmcb = legal();
        let event = Injection::new().with_event_type(event_type).with_vector(vector);
        vmcb.set(control::EVENTINJ, event);
        assert_eq!(check(&vmcb, &supported()), Ok(()), "not valid: ignored");
        vmcb.set(control::EVENTINJ, event.with_is_valid(true));
        assert_eq!(check(&vmcb, &supported()).is_ok(), is_legal, "{event_type:?} {vector}");
    }
}
