//! The host-state area. [SDM3 "Checks on Host Control Registers, MSRs, and SSP"]

use super::{Broken, Controls, Processor, require};
use crate::vmx::vmcs::Vmcs;
use arch::control::{Cr4, Efer};
use arch::memory_type::is_legal_pat;
use arch::vmx::capability::{CR0_FIXED0, CR0_FIXED1, CR4_FIXED0};
use arch::vmx::control::ExitControls;
use arch::vmx::field::host;

/// TI and RPL.
const TABLE_AND_PRIVILEGE: u64 = 7;

/// Errors of these are VMfailValid with number 8.
pub fn check_host<B: AsRef<[u8]>>(
    vmcs: &Vmcs<B>,
    controls: &Controls,
    processor: &Processor<'_>,
) -> Result<(), Broken> {
    check_registers(vmcs, controls, processor)?;
    check_segments(vmcs, controls, processor)?;
    check_address_space(vmcs, controls, processor)
}

fn check_registers<B: AsRef<[u8]>>(
    vmcs: &Vmcs<B>,
    controls: &Controls,
    processor: &Processor<'_>,
) -> Result<(), Broken> {
    let cr0 = vmcs.get(host::CR0);
    let cr4 = vmcs.get(host::CR4);
    require(is_fixed(cr0, CR0_FIXED0, CR0_FIXED1), Broken::HostCr0FixedBits)?;
    let cr4_fixed1 = processor.cr4_permitted | CR4_FIXED0;
    require(is_fixed(cr4, CR4_FIXED0, cr4_fixed1), Broken::HostCr4FixedBits)?;
    require(processor.is_physical(vmcs.get(host::CR3)), Broken::HostCr3Physical)?;
    for (field, rule) in [
        (host::SYSENTER_ESP, Broken::HostSysenterEspCanonical),
        (host::SYSENTER_EIP, Broken::HostSysenterEipCanonical),
    ] {
        require(processor.is_canonical(vmcs.get(field)), rule)?;
    }
    if controls.exit.contains(ExitControls::LOAD_PAT) {
        require(is_legal_pat(vmcs.get(host::PAT)), Broken::HostPatLegalMemoryTypes)?;
    }
    if controls.exit.contains(ExitControls::LOAD_EFER) {
        let efer = vmcs.get(host::EFER);
        let long = (Efer::LONG_MODE_ENABLE | Efer::LONG_MODE_ACTIVE).bits();
        let is_64_bit = controls.exit.contains(ExitControls::HOST_ADDRESS_SPACE_SIZE);
        let expected = if is_64_bit { long } else { 0 };
        require(efer & !processor.efer_permitted == 0, Broken::HostEferNoReservedBit)?;
        require(efer & long == expected, Broken::HostEferAgreesHostAddressSpace)?;
    }
    Ok(())
}

/// Bits of `fixed0` are 1, those outside `fixed1` are 0.
pub(super) fn is_fixed(value: u64, fixed0: u64, fixed1: u64) -> bool {
    value & fixed0 == fixed0 && value & !fixed1 == 0
}

fn check_segments<B: AsRef<[u8]>>(
    vmcs: &Vmcs<B>,
    controls: &Controls,
    processor: &Processor<'_>,
) -> Result<(), Broken> {
    let selectors = [
        host::ES_SELECTOR,
        host::CS_SELECTOR,
        host::SS_SELECTOR,
        host::DS_SELECTOR,
        host::FS_SELECTOR,
        host::GS_SELECTOR,
        host::TR_SELECTOR,
    ];
    let is_plain = selectors.iter().all(|field| vmcs.get(*field) & TABLE_AND_PRIVILEGE == 0);
    require(is_plain, Broken::HostSelectorsGdtPrivilege0)?;
    require(vmcs.get(host::CS_SELECTOR) != 0, Broken::HostCsNotNull)?;
    require(vmcs.get(host::TR_SELECTOR) != 0, Broken::HostTrNotNull)?;
    let is_64_bit = controls.exit.contains(ExitControls::HOST_ADDRESS_SPACE_SIZE);
    require(is_64_bit || vmcs.get(host::SS_SELECTOR) != 0, Broken::Ss32BitHostNotNull)?;
    for (field, rule) in [
        (host::FS_BASE, Broken::HostFsBaseCanonical),
        (host::GS_BASE, Broken::HostGsBaseCanonical),
        (host::GDTR_BASE, Broken::HostGdtrBaseCanonical),
        (host::IDTR_BASE, Broken::HostIdtrBaseCanonical),
        (host::TR_BASE, Broken::HostTrBaseCanonical),
    ] {
        require(processor.is_canonical(vmcs.get(field)), rule)?;
    }
    Ok(())
}

/// [SDM3 "Checks Related to Address-Space Size"]
fn check_address_space<B: AsRef<[u8]>>(
    vmcs: &Vmcs<B>,
    controls: &Controls,
    processor: &Processor<'_>,
) -> Result<(), Broken> {
    let is_64_bit = controls.exit.contains(ExitControls::HOST_ADDRESS_SPACE_SIZE);
    let cr4 = Cr4::from_bits_retain(vmcs.get(host::CR4));
    let rip = vmcs.get(host::RIP);
    require(is_64_bit == processor.is_long_mode, Broken::HostAddressSpaceIsPresent)?;
    if is_64_bit {
        require(cr4.contains(Cr4::PAE), Broken::Host64BitPae)?;
        return require(processor.is_canonical(rip), Broken::HostRipCanonical);
    }
    require(!controls.is_long_mode_guest(), Broken::Host32BitNoIa32eGuest)?;
    require(!cr4.contains(Cr4::PCIDE), Broken::Host32BitNoPcids)?;
    require(rip >> 32 == 0, Broken::Rip32BitHost32Bits)
}
