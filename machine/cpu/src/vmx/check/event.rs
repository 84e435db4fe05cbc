//! The event that an entry injects. [SDM3 "VM-Entry Control Fields"]

use super::{Broken, Controls, Processor, require};
use crate::vmx::vmcs::Vmcs;
use arch::control::Cr0;
use arch::exception;
use arch::vmx::control::PrimaryControls;
use arch::vmx::field::{control, guest};
use arch::vmx::{InterruptionInfo, InterruptionType};

/// The longest instruction.
const LONGEST: u64 = 15;

pub fn check_injection<B: AsRef<[u8]>>(
    vmcs: &Vmcs<B>,
    controls: &Controls,
    processor: &Processor<'_>,
) -> Result<(), Broken> {
    let event = controls.injection;
    if !event.is_valid() {
        return Ok(());
    }
    let reserved = event.into_bits() & InterruptionInfo::ENTRY_RESERVED;
    require(reserved == 0, Broken::ReservedBitsInjectedEventZero)?;
    let vector = event.vector();
    let is_legal = match event.kind() {
        InterruptionType::Reserved => false,
        InterruptionType::Nmi => vector == exception::NMI,
        InterruptionType::HardwareException => vector < 32,
        InterruptionType::Other => vector == 0 && has_monitor_trap(processor),
        _ => true,
    };
    require(is_legal, Broken::TypeVectorInjectedEventGoTogether)?;
    check_error_code(vmcs, controls, processor)?;
    if event.kind().is_software() {
        let length = vmcs.get(control::ENTRY_INSTRUCTION_LENGTH);
        let can_be_zero = processor.capabilities.misc.injects_zero_length();
        let is_legal = length <= LONGEST && (length != 0 || can_be_zero);
        require(is_legal, Broken::InjectedInstructionLegalLength)?;
    }
    Ok(())
}

fn has_monitor_trap(processor: &Processor<'_>) -> bool {
    processor.capabilities.primary.allowed & PrimaryControls::MONITOR_TRAP_FLAG.bits() != 0
}

/// Vectors that push an error code in protected mode.
const fn pushes_error_code(vector: u8) -> bool {
    matches!(vector, 8 | 10..=14 | 17)
}

fn check_error_code<B: AsRef<[u8]>>(
    vmcs: &Vmcs<B>,
    controls: &Controls,
    processor: &Processor<'_>,
) -> Result<(), Broken> {
    let event = controls.injection;
    let is_protected = vmcs.get(guest::CR0) & Cr0::PROTECTION_ENABLE.bits() != 0;
    let is_exception = event.kind() == InterruptionType::HardwareException;
    let has_mode = is_protected || !controls.is_unrestricted();
    let must = is_exception && has_mode && pushes_error_code(event.vector());
    let is_free =
        processor.capabilities.basic.has_free_error_codes() && is_exception && is_protected;
    let is_legal = is_free || event.has_error_code() == must;
    require(is_legal, Broken::ErrorCodeGoesWithException)?;
    let code = vmcs.get(control::ENTRY_ERROR_CODE);
    require(!event.has_error_code() || code >> 16 == 0, Broken::ErrorCodeSixteenBits)
}
