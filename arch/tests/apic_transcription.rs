//! APIC constants against an independent transcription of the manual, the crate `x86`.

use arch::apic::{ApicBase, DeliveryMode, DestinationMode, Icr, LocalVector, Register, Scope};
use x86::apic::xapic::*;
use x86::apic::{self as other, ApicId};
use x86::msr::*;

#[test]
fn offsets_and_msrs_of_every_register() {
    use Register as R;
    let lvt = |entry| R::LocalVector(entry);
    for (register, offset, msr) in [
        (R::Id, XAPIC_ID, IA32_X2APIC_APICID),
        (R::Version, XAPIC_VERSION, IA32_X2APIC_VERSION),
        (R::TaskPriority, XAPIC_TPR, IA32_X2APIC_TPR),
        (R::ProcessorPriority, XAPIC_PPR, IA32_X2APIC_PPR),
        (R::EndOfInterrupt, XAPIC_EOI, IA32_X2APIC_EOI),
        (R::LogicalDestination, XAPIC_LDR, IA32_X2APIC_LDR),
        (R::SpuriousVector, XAPIC_SVR, IA32_X2APIC_SIVR),
        (R::InService(0), XAPIC_ISR0, IA32_X2APIC_ISR0),
        (R::InService(7), XAPIC_ISR7, IA32_X2APIC_ISR7),
        (R::TriggerMode(0), XAPIC_TMR0, IA32_X2APIC_TMR0),
        (R::TriggerMode(7), XAPIC_TMR7, IA32_X2APIC_TMR7),
        (R::Request(0), XAPIC_IRR0, IA32_X2APIC_IRR0),
        (R::Request(7), XAPIC_IRR7, IA32_X2APIC_IRR7),
        (R::ErrorStatus, XAPIC_ESR, IA32_X2APIC_ESR),
        (lvt(LocalVector::CorrectedMachineCheck), XAPIC_LVT_CMCI, IA32_X2APIC_LVT_CMCI),
        (R::Command, XAPIC_ICR0, IA32_X2APIC_ICR),
        (lvt(LocalVector::Timer), XAPIC_LVT_TIMER, IA32_X2APIC_LVT_TIMER),
        (lvt(LocalVector::Thermal), XAPIC_LVT_THERMAL, IA32_X2APIC_LVT_THERMAL),
        (lvt(LocalVector::Performance), XAPIC_LVT_PMI, IA32_X2APIC_LVT_PMI),
        (lvt(LocalVector::Lint0), XAPIC_LVT_LINT0, IA32_X2APIC_LVT_LINT0),
        (lvt(LocalVector::Lint1), XAPIC_LVT_LINT1, IA32_X2APIC_LVT_LINT1),
        (lvt(LocalVector::Error), XAPIC_LVT_ERROR, IA32_X2APIC_LVT_ERROR),
        (R::InitialCount, XAPIC_TIMER_INIT_COUNT, IA32_X2APIC_INIT_COUNT),
        (R::CurrentCount, XAPIC_TIMER_CURRENT_COUNT, IA32_X2APIC_CUR_COUNT),
        (R::DivideConfiguration, XAPIC_TIMER_DIV_CONF, IA32_X2APIC_DIV_CONF),
    ] {
        assert_eq!(u32::from(register.offset()), offset, "{register:?}");
        assert_eq!(register.msr(), Some(msr), "{register:?}");
    }
    assert_eq!(u32::from(R::CommandHigh.offset()), XAPIC_ICR1);
    assert_eq!(R::SelfIpi.msr(), Some(IA32_X2APIC_SELF_IPI));
    assert_eq!(ApicBase::MSR, IA32_APIC_BASE);
}

#[test]
fn interrupt_commands() {
    let command = Icr::new()
        .with_vector(0xA5)
        .with_delivery_mode(DeliveryMode::Init)
        .with_destination_mode(DestinationMode::Logical)
        .with_is_asserted(true)
        .with_is_level(true)
        .with_shorthand(Scope::AllButSelf);
    let build = |is_x2apic, id: ApicId| {
        let new = if is_x2apic { other::Icr::for_x2apic } else { other::Icr::for_xapic };
        new(
            0xA5,
            id,
            other::DestinationShorthand::AllExcludingSelf,
            other::DeliveryMode::Init,
            other::DestinationMode::Logical,
            other::DeliveryStatus::Idle,
            other::Level::Assert,
            other::TriggerMode::Level,
        )
    };
    let xapic = build(false, ApicId::XApic(0x12));
    let x2apic = build(true, ApicId::X2Apic(0x1234_5678));
    for (ours, theirs) in [
        (command.with_destination(0x12 << 24), xapic),
        (command.with_destination(0x1234_5678), x2apic),
    ] {
        assert_eq!((ours.low(), ours.high()), (theirs.lower(), theirs.upper()));
    }
}

#[test]
fn logical_x2apic_identifiers() {
    for id in (0..0x400).chain([0xF_FFFF, 0x1234]) {
        assert_eq!(arch::apic::X2Ldr::of(id).into_bits(), ApicId::X2Apic(id).x2apic_logical_id());
    }
}
