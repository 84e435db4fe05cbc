//! The host-state area. [SDM3 "Checks on Host Control Registers, MSRs, and SSP"]

use super::{Broken, Controls, Processor, is_legal_pat, require};
use crate::vmx::vmcs::Vmcs;
use arch::control::{Cr4, Efer};
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
    require(is_fixed(cr0, CR0_FIXED0, CR0_FIXED1), "host CR0 has its fixed bits")?;
    let cr4_fixed1 = processor.cr4_permitted | CR4_FIXED0;
    require(is_fixed(cr4, CR4_FIXED0, cr4_fixed1), "host CR4 has its fixed bits")?;
    require(processor.is_physical(vmcs.get(host::CR3)), "host CR3 is physical")?;
    for (field, rule) in [
        (host::SYSENTER_ESP, "host SYSENTER_ESP is canonical"),
        (host::SYSENTER_EIP, "host SYSENTER_EIP is canonical"),
    ] {
        require(processor.is_canonical(vmcs.get(field)), rule)?;
    }
    if controls.exit.contains(ExitControls::LOAD_PAT) {
        require(is_legal_pat(vmcs.get(host::PAT)), "host PAT has legal memory types")?;
    }
    if controls.exit.contains(ExitControls::LOAD_EFER) {
        let efer = vmcs.get(host::EFER);
        let long = (Efer::LONG_MODE_ENABLE | Efer::LONG_MODE_ACTIVE).bits();
        let is_64_bit = controls.exit.contains(ExitControls::HOST_ADDRESS_SPACE_SIZE);
        let expected = if is_64_bit { long } else { 0 };
        require(efer & !processor.efer_permitted == 0, "host EFER has no reserved bit")?;
        require(efer & long == expected, "host EFER agrees with the host's address space")?;
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
    require(is_plain, "host selectors are of the GDT and privilege 0")?;
    require(vmcs.get(host::CS_SELECTOR) != 0, "host CS is not null")?;
    require(vmcs.get(host::TR_SELECTOR) != 0, "host TR is not null")?;
    let is_64_bit = controls.exit.contains(ExitControls::HOST_ADDRESS_SPACE_SIZE);
    require(is_64_bit || vmcs.get(host::SS_SELECTOR) != 0, "SS of a 32-bit host is not null")?;
    for (field, rule) in [
        (host::FS_BASE, "host FS base is canonical"),
        (host::GS_BASE, "host GS base is canonical"),
        (host::GDTR_BASE, "host GDTR base is canonical"),
        (host::IDTR_BASE, "host IDTR base is canonical"),
        (host::TR_BASE, "host TR base is canonical"),
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
    require(is_64_bit == processor.is_long_mode, "the host's address space is the present one")?;
    if is_64_bit {
        require(cr4.contains(Cr4::PAE), "a 64-bit host has PAE")?;
        return require(processor.is_canonical(rip), "host RIP is canonical");
    }
    require(!controls.is_long_mode_guest(), "a 32-bit host has no IA-32e guest")?;
    require(!cr4.contains(Cr4::PCIDE), "a 32-bit host has no PCIDs")?;
    require(rip >> 32 == 0, "RIP of a 32-bit host has 32 bits")
}
