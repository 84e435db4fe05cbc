//! SVM's instructions. [APM3 "System Instruction Reference"] [APM2 "SVM Instruction Set"]

use super::save_area;
use crate::costs::Step;
use crate::execute::binding::Binding;
use crate::memory::Located;
use crate::operation::Op;
use crate::operation::decode::CodeSize;
use crate::svm::entry;
use crate::svm::intercept;
use crate::svm::region::write_vmcb;
use crate::width::{RAX, RCX};
use crate::{Attention, Bus, Cpu, Stop};
use arch::address::SystemPhysical;
use arch::control::Efer;
use arch::cpuid::Feature;
use arch::svm::ExitCode;
use arch::svm::vmcb::{SIZE, Vmcb};
use iced_x86::{Instruction, Mnemonic};

pub(crate) fn bind(i: &Instruction, _: CodeSize) -> Option<Binding> {
    let handler = match i.mnemonic() {
        Mnemonic::Vmrun => vmrun,
        Mnemonic::Vmload => vmload,
        Mnemonic::Vmsave => vmsave,
        Mnemonic::Stgi => stgi,
        Mnemonic::Clgi => clgi,
        Mnemonic::Vmmcall => vmmcall,
        Mnemonic::Invlpga => invlpga,
        Mnemonic::Skinit => skinit,
        _ => return None,
    };
    Binding::alone(handler)
}

/// #UD without EFER.SVME or outside protected mode, #GP outside CPL 0, then the intercept.
fn prologue(cpu: &mut Cpu, op: &Op, code: ExitCode, info: u64) -> Result<(), Stop> {
    if !cpu.model.has(Feature::Svm)
        || !cpu.control.efer().contains(Efer::SVM)
        || !cpu.is_protected()
    {
        return Err(Stop::INVALID_OPCODE);
    }
    cpu.registers.needs_cpl0()?;
    intercept::intercept_with(cpu, op, code, info)
}

/// rAX, of which legacy code uses 32 bits.
fn vmcb_operand(cpu: &Cpu, op: &Op) -> u64 {
    if op.has(Op::LONG) { cpu.registers.gpr[RAX] } else { cpu.registers.gpr[RAX] & 0xFFFF_FFFF }
}

/// A VMCB's address: aligned and within physical memory, or #GP(0).
fn vmcb_address(cpu: &Cpu, op: &Op) -> Result<SystemPhysical, Stop> {
    let address = vmcb_operand(cpu, op);
    if address & 0xFFF != 0 || address >> cpu.model.physical_bits() != 0 {
        return Err(Stop::GENERAL_PROTECTION);
    }
    Ok(SystemPhysical(address))
}

/// The VMCB of VMLOAD and VMSAVE: of a guest that executes them itself, a guest physical
/// address. [APM2 "Virtual VMLOAD and VMSAVE"]
fn state_address(
    cpu: &mut Cpu,
    bus: &mut Bus<'_>,
    op: &Op,
    access: crate::Access,
) -> Result<SystemPhysical, Stop> {
    let address = vmcb_address(cpu, op)?;
    let is_virtual =
        cpu.guest.running.svm().is_some_and(|guest| {
            guest.extensions.virtual_vmload_vmsave() && guest.nested.is_some()
        });
    if !is_virtual {
        return Ok(address);
    }
    match cpu.operand_to_system(bus, address, access)? {
        Located::Memory(at) => Ok(at),
        // No place for a VMCB.
        Located::VirtualApic(_) => Ok(SystemPhysical(u64::MAX)),
    }
}

fn vmrun(cpu: &mut Cpu, bus: &mut Bus<'_>, op: &Op) -> Result<(), Stop> {
    prologue(cpu, op, ExitCode::Vmrun, 0)?;
    let at = vmcb_address(cpu, op)?;
    let next = cpu.registers.next_ip(op);
    entry::enter_guest(cpu, bus, at, next);
    Err(Stop::BRANCH)
}

/// FS, GS, TR and LDTR with their hidden parts, and the MSRs of system calls. Bases become
/// canonical. [APM3 "VMLOAD"]
fn vmload(cpu: &mut Cpu, bus: &mut Bus<'_>, op: &Op) -> Result<(), Stop> {
    prologue(cpu, op, ExitCode::Vmload, 0)?;
    let at = state_address(cpu, bus, op, crate::Access::Read)?;
    cpu.clock.take(Step::StateMove);
    let bytes = bus.memory.slice(at, SIZE).map_or_else(|_| vec![!0; SIZE], <[u8]>::to_vec);
    let Some(vmcb) = Vmcb::new(bytes) else { return Ok(()) };
    save_area::load_additional(cpu, &vmcb);
    Err(Stop::END_BLOCK)
}

/// [APM3 "VMSAVE"]
fn vmsave(cpu: &mut Cpu, bus: &mut Bus<'_>, op: &Op) -> Result<(), Stop> {
    prologue(cpu, op, ExitCode::Vmsave, 0)?;
    let at = state_address(cpu, bus, op, crate::Access::Write)?;
    cpu.clock.take(Step::StateMove);
    write_vmcb(bus, at, |vmcb| save_area::store_additional(cpu, vmcb));
    Ok(())
}

/// Under virtual GIF, V_GIF of the running guest. [APM2 "Virtual GIF"]
fn set_global_interrupts(cpu: &mut Cpu, value: bool) -> Result<(), Stop> {
    match cpu.guest.running.svm_mut().filter(|guest| guest.interrupts.virtual_gif_enabled()) {
        Some(guest) => guest.interrupts.set_virtual_gif(value),
        None => cpu.guest.svm.global_interrupts = value,
    }
    cpu.pending.raise(
        Attention::INTERRUPT
            | Attention::VIRTUAL_INTERRUPT
            | Attention::VIRTUAL_NMI
            | Attention::GUEST_BOUNDARY,
    );
    Err(Stop::END_BLOCK)
}

fn stgi(cpu: &mut Cpu, _: &mut Bus<'_>, op: &Op) -> Result<(), Stop> {
    prologue(cpu, op, ExitCode::Stgi, 0)?;
    set_global_interrupts(cpu, true)
}

fn clgi(cpu: &mut Cpu, _: &mut Bus<'_>, op: &Op) -> Result<(), Stop> {
    prologue(cpu, op, ExitCode::Clgi, 0)?;
    set_global_interrupts(cpu, false)
}

/// #UD unless intercepted, at any privilege. [APM3 "VMMCALL"]
fn vmmcall(cpu: &mut Cpu, _: &mut Bus<'_>, op: &Op) -> Result<(), Stop> {
    intercept::intercept(cpu, op, ExitCode::Vmmcall)?;
    Err(Stop::INVALID_OPCODE)
}

/// Invalidates the page at rAX in the ASID of ECX. [APM3 "INVLPGA"]
fn invlpga(cpu: &mut Cpu, _: &mut Bus<'_>, op: &Op) -> Result<(), Stop> {
    prologue(cpu, op, ExitCode::Invlpga, vmcb_operand(cpu, op))?;
    // The buffer drops the page in every address space, which includes the one named.
    let _asid = cpu.registers.gpr[RCX] as u32;
    cpu.translation.tlb.flush_page(vmcb_operand(cpu, op));
    Err(Stop::END_BLOCK)
}

/// DEVIATION(APM2 "Secure Startup with SKINIT"): there is no TPM to measure into; SKINIT is not
/// enumerated and raises #UD before any intercept.
fn skinit(_: &mut Cpu, _: &mut Bus<'_>, _: &Op) -> Result<(), Stop> {
    Err(Stop::INVALID_OPCODE)
}
