//! #VMEXIT: from the guest back to the host. [APM2 "#VMEXIT"]

use super::region::write_vmcb;
use super::state::{Exit, Guest};
use crate::execute::stack;
use crate::guest::Running;
use crate::state::{Attention, TableRegister};
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
use arch::segment::{Segment, SegmentRegister};
use arch::svm::ExitCode;
use arch::svm::exit::NestedPageFaultInfo;
use arch::svm::segment::{Segment as SavedSegment, SegmentAttributes};
use arch::svm::vmcb::{FetchedBytes, InterruptState, SIZE, Vmcb, control, save};
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
    cpu.clock.spend(cpu.guest.svm.costs.exit);
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
    let state = guest_state(cpu);
    let fetched = fetched_bytes(cpu, bus, exit);
    let recording = (cpu.control.msr.debug_ctl, cpu.control.msr.branch_records);
    let recording = guest.host.recording.map(|_| recording);
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
        state.store(vmcb);
        if let Some((debug_ctl, records)) = recording {
            vmcb.set(save::DBGCTL, debug_ctl);
            vmcb.set(save::BR_FROM, records.branch_from);
            vmcb.set(save::BR_TO, records.branch_to);
            vmcb.set(save::LAST_EXCEPTION_FROM, records.exception_from);
            vmcb.set(save::LAST_EXCEPTION_TO, records.exception_to);
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

fn guest_state(cpu: &Cpu) -> GuestState {
    use SegmentRegister::{Cs, Ds, Es, Ss};
    GuestState {
        segments: [Es, Cs, Ss, Ds].map(|register| saved(cpu.registers.segment(register))),
        gdtr: saved_table(cpu.control.gdtr),
        idtr: saved_table(cpu.control.idtr),
        cpl: cpu.registers.cpl(),
        efer: cpu.control.efer().bits(),
        cr0: cpu.control.cr0().bits(),
        cr2: cpu.control.cr2,
        cr3: cpu.control.cr3,
        cr4: cpu.control.cr4().bits(),
        dr6: cpu.debug.dr6(),
        dr7: cpu.debug.dr7(),
        flags: cpu.registers.flags.bits(),
        rip: cpu.registers.ip,
        rsp: cpu.registers.gpr[RSP],
        rax: cpu.registers.gpr[RAX],
        pat: cpu.control.msr.pat,
    }
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

/// What #VMEXIT writes to the save area.
struct GuestState {
    segments: [SavedSegment; 4],
    gdtr: SavedSegment,
    idtr: SavedSegment,
    cpl: u8,
    efer: u64,
    cr0: u64,
    cr2: u64,
    cr3: u64,
    cr4: u64,
    dr6: u64,
    dr7: u64,
    flags: u64,
    rip: u64,
    rsp: u64,
    rax: u64,
    pat: u64,
}

impl GuestState {
    fn store(&self, vmcb: &mut Vmcb<&mut [u8]>) {
        let [es, cs, ss, ds] = self.segments;
        vmcb.set(save::ES, es);
        vmcb.set(save::CS, cs);
        vmcb.set(save::SS, ss);
        vmcb.set(save::DS, ds);
        vmcb.set(save::GDTR, self.gdtr);
        vmcb.set(save::IDTR, self.idtr);
        vmcb.set(save::CPL, self.cpl);
        vmcb.set(save::EFER, self.efer);
        vmcb.set(save::CR0, self.cr0);
        vmcb.set(save::CR2, self.cr2);
        vmcb.set(save::CR3, self.cr3);
        vmcb.set(save::CR4, self.cr4);
        vmcb.set(save::DR6, self.dr6);
        vmcb.set(save::DR7, self.dr7);
        vmcb.set(save::RFLAGS, self.flags);
        vmcb.set(save::RIP, self.rip);
        vmcb.set(save::RSP, self.rsp);
        vmcb.set(save::RAX, self.rax);
        if vmcb.get(control::NESTED_CONTROL).nested_paging() {
            vmcb.set(save::G_PAT, self.pat);
        }
    }
}

/// A segment in the save area's form.
pub(super) fn saved(segment: Segment) -> SavedSegment {
    SavedSegment {
        selector: segment.selector,
        attributes: SegmentAttributes::from_bits(segment.attributes.0 & 0xFFF),
        limit: segment.limit,
        base: segment.base,
    }
}

fn saved_table(table: TableRegister) -> SavedSegment {
    SavedSegment { limit: table.limit.into(), base: table.base, ..SavedSegment::default() }
}
