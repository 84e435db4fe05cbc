//! VMX's instructions. [SDM3 "VMX Instruction Reference"]

use super::check::is_legal_ept_pointer;
use super::state::Exit;
use super::vmcs::write_vmcs;
use super::vmcs::{SHADOW, SIZE, Vmcs};
use crate::execute::binding::Binding;
use crate::execute::stack;
use crate::memory::Access;
use crate::operation::Op;
use crate::operation::decode::CodeSize;
use crate::vmx::entry;
use crate::vmx::intercept;
use crate::{Bus, Cpu, Stop};
use arch::address::SystemPhysical;
use arch::control::{Cr4, rflags};
use arch::cpuid::Feature;
use arch::vmx::capability::{CR0_FIXED0, EptVpid};
use arch::vmx::ept::{InveptType, InvvpidType};
use arch::vmx::field::{Field, Group, Part, TABLE, exit};
use arch::vmx::{ExitReason, InstructionError};
use iced_x86::{Instruction, Mnemonic};

pub(crate) fn bind(i: &Instruction, _: CodeSize) -> Option<Binding> {
    let handler = match i.mnemonic() {
        Mnemonic::Vmxon => vmxon,
        Mnemonic::Vmxoff => vmxoff,
        Mnemonic::Vmclear => vmclear,
        Mnemonic::Vmptrld => vmptrld,
        Mnemonic::Vmptrst => vmptrst,
        Mnemonic::Vmread => vmread,
        Mnemonic::Vmwrite => vmwrite,
        Mnemonic::Vmlaunch => vmlaunch,
        Mnemonic::Vmresume => vmresume,
        Mnemonic::Vmcall => vmcall,
        Mnemonic::Vmfunc => super::function::vmfunc,
        Mnemonic::Invept => invept,
        Mnemonic::Invvpid => invvpid,
        _ => return None,
    };
    Binding::alone(handler)
}

/// Why an instruction fails, which software finds in its flags. [SDM3 "Conventions"]
enum Fail {
    /// There is no current VMCS to hold the error.
    Invalid,
    Valid(InstructionError),
}

/// #UD outside VMX operation and in virtual-8086 or compatibility mode; the exit of a guest; #GP
/// outside CPL 0.
fn prologue(cpu: &mut Cpu, op: &Op, reason: ExitReason) -> Result<(), Stop> {
    let is_defined = cpu.guest.vmx.vmxon.is_some() && is_vmx_mode(cpu, op);
    if !is_defined {
        return Err(Stop::INVALID_OPCODE);
    }
    if cpu.guest.running.vmx().is_some() {
        return Err(intercept::exit_of_operand(cpu, op, reason));
    }
    cpu.registers.needs_cpl0()
}

/// Protected mode, and not compatibility mode.
fn is_vmx_mode(cpu: &Cpu, op: &Op) -> bool {
    cpu.is_protected() && (op.has(Op::LONG) || !cpu.control.is_long_mode())
}

/// VMsucceed, VMfailInvalid, VMfailValid.
fn conclude(cpu: &mut Cpu, bus: &mut Bus<'_>, result: Result<(), Fail>) {
    let flags = match result {
        Ok(()) => 0,
        Err(Fail::Invalid) => rflags::CF,
        Err(Fail::Valid(error)) => match cpu.guest.vmx.vmcs {
            None => rflags::CF,
            Some(at) => {
                let number = error.into_bits().into();
                write_vmcs(bus, at, |vmcs| vmcs.set(exit::INSTRUCTION_ERROR, number));
                rflags::ZF
            }
        },
    };
    stack::write_flags(cpu, flags, rflags::STATUS);
}

/// The pointer that is the memory operand of VMXON, VMCLEAR and VMPTRLD.
fn vmcs_pointer(cpu: &mut Cpu, bus: &mut Bus<'_>, op: &Op) -> Result<u64, Stop> {
    operand(cpu, bus, op, 0, 8)
}

/// `size` bytes of the memory operand, from the offset `from`.
fn operand(cpu: &mut Cpu, bus: &mut Bus<'_>, op: &Op, from: u64, size: usize) -> Result<u64, Stop> {
    let at = cpu.registers.effective_address(op).wrapping_add(from) & op.address_mask();
    let linear = cpu.operand_at(op, at, size, Access::Read)?;
    let place = cpu.locate_linear(bus, linear, size, Access::Read, op.segment)?;
    Ok(cpu.read_place(bus, place))
}

fn store_operand(
    cpu: &mut Cpu,
    bus: &mut Bus<'_>,
    op: &Op,
    size: usize,
    value: u64,
) -> Result<(), Stop> {
    let linear = cpu.operand(op, size, Access::Write)?;
    let place = cpu.locate_linear(bus, linear, size, Access::Write, op.segment)?;
    cpu.write_place(bus, place, value);
    Ok(())
}

fn is_region(cpu: &Cpu, address: u64) -> bool {
    address & 0xFFF == 0 && address >> cpu.model.physical_bits() == 0
}

fn revision(cpu: &Cpu) -> u32 {
    cpu.guest.vmx.capabilities.map_or(0, |capabilities| capabilities.basic.revision())
}

/// [SDM3 "VMXON"]
fn vmxon(cpu: &mut Cpu, bus: &mut Bus<'_>, op: &Op) -> Result<(), Stop> {
    let can = cpu.model.has(Feature::Vmx) && cpu.guest.vmx.capabilities.is_some();
    if !can || !cpu.control.cr4().contains(Cr4::VMXE) || !is_vmx_mode(cpu, op) {
        return Err(Stop::INVALID_OPCODE);
    }
    if cpu.guest.running.vmx().is_some() {
        return Err(intercept::exit_of_operand(cpu, op, ExitReason::Vmxon));
    }
    cpu.registers.needs_cpl0()?;
    if cpu.guest.vmx.vmxon.is_some() {
        conclude(cpu, bus, Err(Fail::Valid(InstructionError::VmxonInRoot)));
        return Ok(());
    }
    let control = cpu.guest.vmx.feature_control;
    let is_fixed = cpu.control.cr0().bits() & CR0_FIXED0 == CR0_FIXED0;
    if !is_fixed || !control.is_locked() || !control.vmx_outside_smx() {
        return Err(Stop::GENERAL_PROTECTION);
    }
    let pointer = vmcs_pointer(cpu, bus, op)?;
    let header = bus.memory.read_u32(SystemPhysical(pointer)).unwrap_or(!0);
    let result = if is_region(cpu, pointer) && header == revision(cpu) {
        cpu.guest.vmx.vmxon = Some(SystemPhysical(pointer));
        cpu.guest.vmx.vmcs = None;
        Ok(())
    } else {
        Err(Fail::Invalid)
    };
    conclude(cpu, bus, result);
    Err(Stop::END_BLOCK)
}

/// [SDM3 "VMXOFF"]
fn vmxoff(cpu: &mut Cpu, bus: &mut Bus<'_>, op: &Op) -> Result<(), Stop> {
    prologue(cpu, op, ExitReason::Vmxoff)?;
    cpu.guest.vmx.vmxon = None;
    cpu.guest.vmx.vmcs = None;
    conclude(cpu, bus, Ok(()));
    Err(Stop::END_BLOCK)
}

/// [SDM3 "VMCLEAR"]
fn vmclear(cpu: &mut Cpu, bus: &mut Bus<'_>, op: &Op) -> Result<(), Stop> {
    prologue(cpu, op, ExitReason::Vmclear)?;
    let pointer = vmcs_pointer(cpu, bus, op)?;
    let at = SystemPhysical(pointer);
    let result = if !is_region(cpu, pointer) {
        Err(Fail::Valid(InstructionError::VmclearAddress))
    } else if cpu.guest.vmx.vmxon == Some(at) {
        Err(Fail::Valid(InstructionError::VmclearOfVmxonRegion))
    } else {
        write_vmcs(bus, at, |vmcs| vmcs.set_launched(false));
        cpu.guest.vmx.vmcs.take_if(|current| *current == at);
        Ok(())
    };
    conclude(cpu, bus, result);
    Ok(())
}

/// [SDM3 "VMPTRLD"]
fn vmptrld(cpu: &mut Cpu, bus: &mut Bus<'_>, op: &Op) -> Result<(), Stop> {
    prologue(cpu, op, ExitReason::Vmptrld)?;
    let pointer = vmcs_pointer(cpu, bus, op)?;
    let at = SystemPhysical(pointer);
    let result = if !is_region(cpu, pointer) {
        Err(Fail::Valid(InstructionError::VmptrldAddress))
    } else if cpu.guest.vmx.vmxon == Some(at) {
        Err(Fail::Valid(InstructionError::VmptrldOfVmxonRegion))
    } else if !has_revision(cpu, bus, at) {
        Err(Fail::Valid(InstructionError::VmptrldRevision))
    } else {
        cpu.guest.vmx.vmcs = Some(at);
        Ok(())
    };
    conclude(cpu, bus, result);
    Ok(())
}

/// A shadow VMCS has the revision only where VMCS shadowing exists.
fn has_revision(cpu: &Cpu, bus: &Bus<'_>, at: SystemPhysical) -> bool {
    use arch::vmx::SecondaryControls;
    let header = bus.memory.read_u32(at).unwrap_or(!0);
    let can_shadow = cpu
        .guest
        .vmx
        .capabilities
        .is_some_and(|can| can.secondary.contains(SecondaryControls::VMCS_SHADOWING));
    header & !SHADOW == revision(cpu) && (can_shadow || header & SHADOW == 0)
}

/// [SDM3 "VMPTRST"]
fn vmptrst(cpu: &mut Cpu, bus: &mut Bus<'_>, op: &Op) -> Result<(), Stop> {
    prologue(cpu, op, ExitReason::Vmptrst)?;
    let pointer = cpu.guest.vmx.vmcs.map_or(u64::MAX, |at| at.0);
    store_operand(cpu, bus, op, 8, pointer)?;
    conclude(cpu, bus, Ok(()));
    cpu.pending.after_store()
}

/// The VMCS that VMREAD or VMWRITE of `encoding` is about: the current one, or the shadow VMCS of a
/// guest whose bitmap lets the access through; `None` where there is no such VMCS. Otherwise the
/// guest leaves. [SDM3 "VMREAD—Read Field from Virtual-Machine Control Structure"]
fn accessed_vmcs(
    cpu: &mut Cpu,
    bus: &Bus<'_>,
    op: &Op,
    encoding: u64,
    reason: ExitReason,
) -> Result<Option<SystemPhysical>, Stop> {
    let shadowing = cpu.guest.running.vmx().and_then(|guest| guest.shadowing);
    let is_write = reason == ExitReason::Vmwrite;
    match shadowing {
        Some(shadowing)
            if is_vmx_mode(cpu, op) && !shadowing.exits(bus.memory, encoding, is_write) =>
        {
            cpu.registers.needs_cpl0()?;
            Ok(shadowing.vmcs)
        }
        _ => {
            prologue(cpu, op, reason)?;
            Ok(cpu.guest.vmx.vmcs)
        }
    }
}

/// The field of VMREAD or VMWRITE in a VMCS.
fn named_field(
    cpu: &Cpu,
    bus: &Bus<'_>,
    vmcs: Option<SystemPhysical>,
    encoding: u64,
) -> Result<(SystemPhysical, Field, Part), Fail> {
    let at = vmcs.ok_or(Fail::Invalid)?;
    let unsupported = || Fail::Valid(InstructionError::UnsupportedField);
    let (field, part) = Field::decode(encoding).ok_or_else(unsupported)?;
    let row = field.number().and_then(|number| TABLE.get(number)).ok_or_else(unsupported)?;
    let exists = cpu.guest.vmx.capabilities.is_some_and(|can| can.satisfies(row.requirement));
    let is_memory = bus.memory.offset(at).is_some();
    if exists && is_memory { Ok((at, field, part)) } else { Err(unsupported()) }
}

/// Registers and memory operands of VMREAD and VMWRITE have 64 bits in 64-bit mode, else 32.
const fn operand_mask(op: &Op) -> u64 {
    if op.flags & Op::LONG != 0 { u64::MAX } else { 0xFFFF_FFFF }
}

const fn operand_bytes(op: &Op) -> usize {
    if op.flags & Op::LONG != 0 { 8 } else { 4 }
}

/// [SDM3 "VMREAD"]
fn vmread(cpu: &mut Cpu, bus: &mut Bus<'_>, op: &Op) -> Result<(), Stop> {
    let encoding = cpu.registers.gpr[op.b as usize] & operand_mask(op);
    let vmcs = accessed_vmcs(cpu, bus, op, encoding, ExitReason::Vmread)?;
    let read = named_field(cpu, bus, vmcs, encoding).map(|(at, field, part)| {
        let bytes = bus.memory.slice(at, SIZE).ok().and_then(Vmcs::new);
        bytes.map_or(0, |vmcs| vmcs.read(field, part))
    });
    let result = match read {
        Err(fail) => Err(fail),
        Ok(value) if !op.has(Op::MEMORY) => {
            cpu.registers.gpr[op.a as usize] = value & operand_mask(op);
            Ok(())
        }
        Ok(value) => store_operand(cpu, bus, op, operand_bytes(op), value).map(Ok)?,
    };
    conclude(cpu, bus, result);
    cpu.pending.after_store()
}

/// [SDM3 "VMWRITE"]
fn vmwrite(cpu: &mut Cpu, bus: &mut Bus<'_>, op: &Op) -> Result<(), Stop> {
    let encoding = cpu.registers.gpr[op.a as usize] & operand_mask(op);
    let vmcs = accessed_vmcs(cpu, bus, op, encoding, ExitReason::Vmwrite)?;
    let value = if !op.has(Op::MEMORY) {
        cpu.registers.gpr[op.b as usize] & operand_mask(op)
    } else {
        operand(cpu, bus, op, 0, operand_bytes(op))?
    };
    let result = named_field(cpu, bus, vmcs, encoding).and_then(|(at, field, part)| {
        let writes_all =
            cpu.guest.vmx.capabilities.is_some_and(|can| can.misc.writes_read_only_fields());
        if field.group() == Group::ReadOnly && !writes_all {
            return Err(Fail::Valid(InstructionError::ReadOnlyField));
        }
        write_vmcs(bus, at, |vmcs| vmcs.write(field, part, value));
        Ok(())
    });
    conclude(cpu, bus, result);
    Ok(())
}

fn vmlaunch(cpu: &mut Cpu, bus: &mut Bus<'_>, op: &Op) -> Result<(), Stop> {
    prologue(cpu, op, ExitReason::Vmlaunch)?;
    enter(cpu, bus, op, true)
}

fn vmresume(cpu: &mut Cpu, bus: &mut Bus<'_>, op: &Op) -> Result<(), Stop> {
    prologue(cpu, op, ExitReason::Vmresume)?;
    enter(cpu, bus, op, false)
}

/// The checks of the instruction itself; the rest is the entry's. [SDM3 "Basic VM-Entry Checks"]
fn enter(cpu: &mut Cpu, bus: &mut Bus<'_>, op: &Op, launches: bool) -> Result<(), Stop> {
    let refused = match cpu.guest.vmx.vmcs {
        None => Fail::Invalid,
        Some(at) => {
            let bytes = bus.memory.slice(at, SIZE).ok().and_then(Vmcs::new);
            let state = bytes.map(|vmcs| (vmcs.header(), vmcs.is_launched()));
            match state {
                Some((header, _)) if header & SHADOW != 0 => Fail::Invalid,
                _ if cpu.pending.is_in_stack_shadow() => {
                    Fail::Valid(InstructionError::EntryWhileMovSsBlocks)
                }
                Some((_, true)) if launches => Fail::Valid(InstructionError::VmlaunchOfNonClear),
                Some((_, false)) if !launches => {
                    Fail::Valid(InstructionError::VmresumeOfNonLaunched)
                }
                None => Fail::Invalid,
                Some(_) => {
                    let next = cpu.registers.next_ip(op);
                    match entry::enter(cpu, bus, at, next, launches) {
                        Ok(()) => return Err(Stop::BRANCH),
                        Err(error) => Fail::Valid(error),
                    }
                }
            }
        }
    };
    conclude(cpu, bus, Err(refused));
    Ok(())
}

/// Without a dual-monitor treatment of SMIs VMCALL in root operation has nowhere to go.
fn vmcall(cpu: &mut Cpu, bus: &mut Bus<'_>, op: &Op) -> Result<(), Stop> {
    if cpu.guest.running.vmx().is_some() {
        return Err(intercept::exit_of_instruction(cpu, op, Exit::new(ExitReason::Vmcall)));
    }
    prologue(cpu, op, ExitReason::Vmcall)?;
    conclude(cpu, bus, Err(Fail::Valid(InstructionError::VmcallInRoot)));
    Ok(())
}

/// The type in the register and the descriptor in memory.
fn invalidation(cpu: &mut Cpu, bus: &mut Bus<'_>, op: &Op) -> Result<(u64, u64, u64), Stop> {
    let low = operand(cpu, bus, op, 0, 8)?;
    let high = operand(cpu, bus, op, 8, 8)?;
    Ok((cpu.registers.gpr[op.a as usize] & operand_mask(op), low, high))
}

fn can_invalidate(cpu: &Cpu, what: EptVpid) -> bool {
    cpu.guest.vmx.capabilities.is_some_and(|can| can.ept_vpid.contains(what))
}

/// [SDM3 "INVEPT"]
fn invept(cpu: &mut Cpu, bus: &mut Bus<'_>, op: &Op) -> Result<(), Stop> {
    if !can_invalidate(cpu, EptVpid::INVEPT) {
        return Err(Stop::INVALID_OPCODE);
    }
    prologue(cpu, op, ExitReason::Invept)?;
    let (kind, pointer, _) = invalidation(cpu, bus, op)?;
    let is_legal = match InveptType::from_operand(kind) {
        Some(InveptType::SingleContext) => {
            can_invalidate(cpu, EptVpid::INVEPT_SINGLE)
                && entry::with_vmx_checks(cpu, bus, |checks| is_legal_ept_pointer(pointer, checks))
        }
        Some(InveptType::AllContexts) => can_invalidate(cpu, EptVpid::INVEPT_ALL),
        None => false,
    };
    let result = if is_legal {
        // Combined mappings of other roots go as well, which no software can tell.
        cpu.translation.tlb.flush_all();
        Ok(())
    } else {
        Err(Fail::Valid(InstructionError::InvalidateOperand))
    };
    conclude(cpu, bus, result);
    Err(Stop::END_BLOCK)
}

/// [SDM3 "INVVPID"]
fn invvpid(cpu: &mut Cpu, bus: &mut Bus<'_>, op: &Op) -> Result<(), Stop> {
    if !can_invalidate(cpu, EptVpid::INVVPID) {
        return Err(Stop::INVALID_OPCODE);
    }
    prologue(cpu, op, ExitReason::Invvpid)?;
    let (kind, descriptor, linear) = invalidation(cpu, bus, op)?;
    let vpid = descriptor as u16;
    let is_canonical = (linear as i64) << 16 >> 16 == linear as i64;
    let offered = |what| can_invalidate(cpu, what);
    let kind = InvvpidType::from_operand(kind);
    let is_legal = descriptor >> 16 == 0
        && match kind {
            Some(InvvpidType::Address) => {
                offered(EptVpid::INVVPID_ADDRESS) && vpid != 0 && is_canonical
            }
            Some(InvvpidType::SingleContext) => offered(EptVpid::INVVPID_SINGLE) && vpid != 0,
            Some(InvvpidType::AllContexts) => offered(EptVpid::INVVPID_ALL),
            Some(InvvpidType::SingleContextExceptGlobals) => {
                offered(EptVpid::INVVPID_SINGLE_EXCEPT_GLOBALS) && vpid != 0
            }
            None => false,
        };
    let result = if is_legal {
        match kind {
            Some(InvvpidType::Address) => cpu.translation.tlb.flush_page(linear),
            Some(InvvpidType::AllContexts) => cpu.translation.tlb.flush_all(),
            _ => cpu.translation.tlb.flush_asid(vpid.into()),
        }
        Ok(())
    } else {
        Err(Fail::Valid(InstructionError::InvalidateOperand))
    };
    conclude(cpu, bus, result);
    Err(Stop::END_BLOCK)
}
