use super::*;
use Verdict::*;

const ALL: Evidence =
    Evidence { has_msr: true, has_mmio: true, has_exits: true, has_apic_faults: false };
const EXITS: Evidence = Evidence { has_msr: false, has_mmio: false, ..ALL };
const NONE: Evidence = Evidence { has_exits: false, ..EXITS };
const FAULTS: Evidence = Evidence { has_apic_faults: true, ..ALL };

fn icr(low: u32) -> Detail {
    Detail::Icr(InterruptCommand::from_icr(low, true))
}

#[test]
fn the_verdict_follows_the_register_and_the_vendor() {
    let write = |offset| Detail::Register { offset, is_write: true };
    let read = |offset| Detail::Register { offset, is_write: false };
    let call = |number, is_hyperv| Detail::Hypercall { number, is_hyperv };
    let rows = [
        (Isa::Svm, svm::MSR, write(0xb0), ALL, Avoidable),
        (Isa::Svm, svm::MSR, write(0x380), ALL, NotAvoidable),
        (Isa::Svm, svm::MSR, read(0x390), ALL, NotAvoidable),
        (Isa::Svm, svm::MSR, read(0x20), ALL, Avoidable),
        (Isa::Svm, svm::MSR, Detail::Msr { index: 0x6e0, is_write: true }, ALL, NotAvoidable),
        (Isa::Svm, svm::MSR, Detail::Unknown, ALL, NotAvoidable),
        (Isa::Svm, svm::MSR, Detail::Unknown, NONE, Verdict::Unknown),
        (Isa::Svm, svm::MSR, icr(0xfb), ALL, Avoidable),
        (Isa::Svm, svm::MSR, icr(0xc08fb), ALL, Avoidable),
        (Isa::Svm, svm::MSR, icr(0x400), ALL, NotAvoidable),
        (Isa::Svm, svm::NESTED_PAGE_FAULT, write(0x310), NONE, Avoidable),
        (Isa::Svm, svm::NESTED_PAGE_FAULT, Detail::Unknown, EXITS, NotAvoidable),
        (Isa::Svm, svm::NESTED_PAGE_FAULT, Detail::Unknown, NONE, Verdict::Unknown),
        (Isa::Svm, svm::HLT, Detail::Unknown, ALL, NotAvoidable),
        (Isa::Svm, svm::INTERRUPT, Detail::Unknown, ALL, Verdict::Unknown),
        (Isa::Svm, 0x81, call(10, false), ALL, Avoidable),
        (Isa::Svm, 0x81, call(5, false), ALL, NotAvoidable),
        (Isa::Svm, 0x81, Detail::Unknown, ALL, Verdict::Unknown),
        (Isa::Vmx, 18, call(0x15, true), ALL, Avoidable),
        (Isa::Vmx, 18, call(10, true), ALL, NotAvoidable),
        (Isa::Vmx, vmx::MSR_WRITE, icr(0xfb), ALL, Avoidable),
        (Isa::Vmx, vmx::MSR_WRITE, icr(0x8fb), ALL, NotAvoidable),
        (Isa::Vmx, vmx::MSR_WRITE, icr(0xc00fb), ALL, NotAvoidable),
        (Isa::Vmx, vmx::EPT_VIOLATION, Detail::Unknown, NONE, Verdict::Unknown),
        (Isa::Vmx, vmx::EPT_VIOLATION, Detail::Unknown, ALL, NotAvoidable),
        (Isa::Vmx, vmx::EPT_VIOLATION, Detail::Unknown, FAULTS, Verdict::Unknown),
        (Isa::Vmx, vmx::EPT_VIOLATION, Detail::OtherMmio, FAULTS, NotAvoidable),
        (Isa::Vmx, 0x8000_0000 | vmx::HLT, Detail::Unknown, ALL, NotAvoidable),
        (
            Isa::Vmx,
            vmx::EXTERNAL_INTERRUPT,
            Detail::Vector { vector: Vector(0xec) },
            ALL,
            NotAvoidable,
        ),
    ];
    for (isa, reason, detail, evidence, verdict) in rows {
        let found = judge(isa, reason, detail, evidence);
        assert_eq!(found.verdict, verdict, "{isa:?} {reason:#x} {detail:?}: {}", found.rule);
        assert!(!found.rule.is_empty());
        assert_eq!(found.feature.is_empty(), verdict != Avoidable);
    }
}
