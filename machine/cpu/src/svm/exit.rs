//! #VMEXIT: from the guest back to the host. [APM2 "#VMEXIT"]

use super::region::write_vmcb;
use super::save_area;
use super::state::{Exit, Guest};
use crate::costs::Step;
use crate::execute::stack;
use crate::guest::Running;
use crate::state::Attention;
use crate::svm::boundary;
use crate::svm::entry;
use crate::system::branch_record;
use crate::system::descriptor;
use crate::width::{RAX, RCX, RDX, RSP};
use crate::{Activity, Bus, Cpu};
use arch::control::{Cr0, debug, rflags};
use arch::cpuid::Feature;
use arch::exception::PAGE_FAULT;
use arch::paging::fault;
use arch::segment::SegmentRegister;
use arch::svm::ExitCode;
use arch::svm::exit::NestedPageFaultInfo;
use arch::svm::vmcb::{FetchedBytes, InterruptState, SIZE, control};
use bus::{ControlBlock, Happening, VmExit};

/// Leaves the guest for the reason that it holds. `cpu.ip` is what the VMCB shall hold as rIP.
pub(crate) fn leave(cpu: &mut Cpu, bus: &mut Bus<'_>) {
    let Some(guest) = cpu.guest.running.svm_mut() else { return };
    let Some(exit) = guest.exit.take() else { return };
    let guest = guest.clone();
    let at = guest.vmcb;
    store_guest(cpu, bus, &guest, exit);
    cpu.guest.running = Running::Bare;
    if cpu.guest.svm.behaviour.honours_clean_bits
        && let Ok(bytes) = bus.memory.slice(at, SIZE)
    {
        cpu.guest.svm.cache.remember(at, bytes);
    }
    load_host(cpu, bus, &guest);
    cpu.guest.svm.global_interrupts = false;
}

fn store_guest(cpu: &mut Cpu, bus: &mut Bus<'_>, guest: &Guest, exit: Exit) {
    // [APM2 "Interrupt Shadows"]: that of the instruction at rIP, unless an event has ended it.
    let shadow = cpu.pending.has(Attention::SHADOW)
        || cpu.pending.is_in_shadow() && cpu.pending.delivering().is_none();
    let delivering = cpu.pending.take_delivering().map(boundary::injection_of);
    let mut interrupts = guest.interrupts;
    if let Some(avic) = &guest.avic {
        interrupts.set_task_priority(avic.task_priority);
    }
    cpu.clock.take(Step::Exit);
    bus.platform.record(
        cpu.visit(),
        Happening::VmExit(VmExit {
            block: ControlBlock::Vmcb(guest.vmcb),
            code: exit.code.into_bits(),
            qualification: exit.info[0],
            address: exit.info[1],
            event: 0,
            delivering: delivering.unwrap_or_default().into_bits(),
            instruction: 0,
            ip: cpu.registers.ip,
        }),
    );
    if exit.code == ExitCode::Msr {
        record_msr(cpu, bus, exit.info[0] != 0);
    }
    let fetched = fetched_bytes(cpu, bus, exit);
    write_vmcb(bus, guest.vmcb, |vmcb| {
        vmcb.set(control::EXITCODE, exit.code.into_bits());
        vmcb.set(control::EXITINFO1, exit.info[0]);
        vmcb.set(control::EXITINFO2, exit.info[1]);
        vmcb.set(control::EXITINTINFO, delivering.unwrap_or_default());
        // V_INTR_VECTOR, priorities and enables are the hypervisor's; the processor writes what
        // it changes.
        let before = vmcb.get(control::INTERRUPT_CONTROL);
        let after = before
            .with_task_priority(interrupts.task_priority())
            .with_is_interrupt_pending(interrupts.is_interrupt_pending())
            .with_virtual_gif(interrupts.virtual_gif())
            .with_is_nmi_pending(interrupts.is_nmi_pending())
            .with_is_nmi_masked(interrupts.is_nmi_masked());
        vmcb.set(control::INTERRUPT_CONTROL, after);
        let state_bits = InterruptState::new().with_interrupt_shadow(shadow);
        vmcb.set(control::INTERRUPT_STATE, state_bits);
        // The hypervisor sets V; the processor clears it once the event has been injected.
        let event = vmcb.get(control::EVENTINJ);
        vmcb.set(control::EVENTINJ, event.with_is_valid(false));
        vmcb.set(control::N_RIP, exit.next_rip);
        vmcb.set(control::FETCHED_BYTES, fetched);
        save_area::store_guest(cpu, vmcb);
        if vmcb.get(control::NESTED_CONTROL).nested_paging() {
            save_area::store_nested(cpu, vmcb);
        }
        if guest.host.recording.is_some() {
            save_area::store_branch_records(cpu, vmcb);
        }
    });
}

/// Says which register a guest stopped for: the VMCB does not.
fn record_msr(cpu: &Cpu, bus: &mut Bus<'_>, is_write: bool) {
    let [low, high] = [RAX, RDX].map(|register| cpu.registers.gpr[register] & 0xFFFF_FFFF);
    let value = if is_write { high << 32 | low } else { 0 };
    let index = cpu.registers.gpr[RCX] as u32;
    bus.platform.record(cpu.visit(), Happening::MsrAccess { index, is_write, value });
}

/// The bytes at rIP, for a data access that faulted: as many of fifteen as can be fetched.
/// [APM2 "Nested and Intercepted #PF"]
fn fetched_bytes(cpu: &mut Cpu, bus: &mut Bus<'_>, exit: Exit) -> FetchedBytes {
    let mut fetched = FetchedBytes::default();
    let is_data_fault = match exit.code {
        ExitCode::NestedPageFault => !NestedPageFaultInfo::from_bits(exit.info[0]).is_fetch(),
        ExitCode::Exception(PAGE_FAULT) => exit.info[0] & u64::from(fault::FETCH) == 0,
        _ => false,
    };
    if !is_data_fault || !cpu.model.has(Feature::DecodeAssists) {
        return fetched;
    }
    let address = cpu.pending.fault_address();
    let linear = cpu.registers.code_base().wrapping_add(cpu.registers.ip);
    for at in 0..fetched.bytes.len() {
        let here = linear.wrapping_add(at as u64);
        let Ok(Some(page)) = cpu.locate_fetch(bus, here) else { break };
        let Some(byte) = bus.memory.ram.get((page + (here & 0xFFF)) as usize) else { break };
        fetched.bytes[at] = *byte;
        fetched.count += 1;
    }
    cpu.pending.set_fault_address(address);
    fetched
}

fn load_host(cpu: &mut Cpu, bus: &mut Bus<'_>, guest: &Guest) {
    let host = &guest.host;
    let (cr0, cr4, efer) = host.control();
    cpu.control.set_cr0(cr0 | Cr0::PROTECTION_ENABLE);
    cpu.control.set_cr4(cr4);
    cpu.control.set_efer(efer);
    cpu.control.cr3 = host.cr3;
    cpu.control.gdtr = host.gdtr;
    cpu.control.idtr = host.idtr;
    // Breakpoints of the guest do not fire in the host, which loads its own.
    cpu.debug.reset_dr7();
    stack::write_flags(cpu, host.flags & !rflags::VM, u64::MAX);
    for (register, index) in
        [(SegmentRegister::Es, 0), (SegmentRegister::Ss, 2), (SegmentRegister::Ds, 3)]
    {
        cpu.registers.set_segment(register, host.segments[index]);
    }
    cpu.registers.set_segment(SegmentRegister::Cs, host.segments[1]);
    descriptor::set_cpl(cpu, 0);
    cpu.registers.gpr[RSP] = host.rsp;
    cpu.registers.gpr[RAX] = host.rax;
    cpu.registers.ip = host.rip;
    cpu.control.msr.pat = host.pat;
    if let Some((debug_ctl, records)) = host.recording {
        cpu.control.msr.branch_records = records;
        branch_record::write_debug_control(cpu, debug_ctl);
    }
    cpu.pending.clear(
        Attention::SHADOW
            | Attention::GUEST_BOUNDARY
            | Attention::DEBUG_TRAP
            | Attention::VIRTUAL_INTERRUPT
            | Attention::VIRTUAL_NMI,
    );
    cpu.debug.set_pending(0);
    // VMRUN completes now, and with it the host's single step.
    if host.flags & rflags::TF != 0 {
        cpu.debug.set_pending(debug::DR6_SINGLE_STEP);
        cpu.pending.raise(Attention::DEBUG_TRAP);
    }
    cpu.pending.set_activity(Activity::Running);
    entry::refresh_after_switch(cpu, bus);
}
