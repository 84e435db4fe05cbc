//! VM entries: from the host into the guest. [SDM3 "VM Entries"]

use super::check::{Controls, Processor, check_controls, check_guest, check_host};
use super::guest_area;
use super::state::{Ept, Exit, Guest, Injection, MonitorTrap, PauseLoop, Shadowed, Shadowing};
use super::vmcs::{SIZE, Vmcs};
use crate::costs::Step;
use crate::execute::stack;
use crate::guest::Running;
use crate::state::Attention;
use crate::system::descriptor;
use crate::vmx::apic;
use crate::vmx::exit;
use crate::vmx::host;
use crate::vmx::vmcs::write_vmcs;
use crate::{Activity, Bus, Cpu};
use arch::address::SystemPhysical;
use arch::control::{Cr0, Efer, debug, rflags};
use arch::segment::{Segment, SegmentRegister};
use arch::vmx::capability::CR0_FIXED0;
use arch::vmx::control::{EntryControls, PinControls, PrimaryControls, SecondaryControls};
use arch::vmx::ept::EptPointer;
use arch::vmx::event::{Activity as GuestActivity, Interruptibility, PendingDebug};
use arch::vmx::exit::ExitReasonField;
use arch::vmx::field::{LDTR, SEGMENTS, SegmentFields, TR, control, guest};
use arch::vmx::segment::AccessRights;
use arch::vmx::{ExitReason, InstructionError};
use bus::{ControlBlock, Happening};

type Image = Vmcs<Vec<u8>>;

/// CR0 bits that an entry and an exit leave: ET, CD, NW and those that are reserved.
pub(super) const CR0_KEPT: u64 = 0x7FFA_FFD0;

/// What the checks of a VM entry look at.
pub(super) fn with_vmx_checks<T>(
    cpu: &Cpu,
    bus: &Bus<'_>,
    check: impl FnOnce(&Processor<'_>) -> T,
) -> T {
    let capabilities = cpu.guest.vmx.capabilities.unwrap_or(super::capability::NONE);
    let read_u32 = |at| bus.memory.read_u32(SystemPhysical(at)).unwrap_or(!0);
    let read_u64 = |at| bus.memory.read_u64(SystemPhysical(at)).unwrap_or(!0);
    check(&Processor {
        capabilities: &capabilities,
        physical_bits: cpu.model.physical_bits(),
        linear_bits: cpu.model.linear_bits(),
        cr4_permitted: cpu.model.cr4_permitted().bits(),
        efer_permitted: cpu.model.efer_permitted().bits(),
        is_long_mode: cpu.control.is_long_mode(),
        vmcs: cpu.guest.vmx.vmcs.map_or(u64::MAX, |at| at.0),
        read_u32: &read_u32,
        read_u64: &read_u64,
    })
}

/// CR0 in VMX operation has PE, NE and PG; an unrestricted guest may clear PE and PG.
/// [SDM3 "Restrictions on VMX Operation"]
pub(crate) fn permits_cr0(cpu: &Cpu, value: u64) -> bool {
    if cpu.guest.vmx.vmxon.is_none() {
        return true;
    }
    let guest = cpu.guest.running.vmx();
    let is_free = guest.is_some_and(|guest| guest.controls.is_unrestricted());
    let free = (Cr0::PROTECTION_ENABLE | Cr0::PAGING).bits();
    let fixed = if is_free { CR0_FIXED0 & !free } else { CR0_FIXED0 };
    value & fixed == fixed
}

/// Enters the guest of the VMCS at `at`. `Err` is VMfailValid; a bad guest state is a VM exit,
/// after which the host runs.
pub(super) fn enter(
    cpu: &mut Cpu,
    bus: &mut Bus<'_>,
    at: SystemPhysical,
    next_rip: u64,
    launches: bool,
) -> Result<(), InstructionError> {
    let bytes = bus.memory.slice(at, SIZE).map_or_else(|_| vec![!0; SIZE], <[u8]>::to_vec);
    let Some(vmcs) = Vmcs::new(bytes) else { return Ok(()) };
    let controls = Controls::of(&vmcs);
    let checks = |processor: &Processor<'_>| {
        check_controls(&vmcs, &controls, processor)
            .map_err(|rule| (InstructionError::EntryControls, rule))?;
        check_host(&vmcs, &controls, processor)
            .map_err(|rule| (InstructionError::EntryHostState, rule))?;
        Ok(check_guest(&vmcs, &controls, processor))
    };
    cpu.registers.ip = next_rip;
    let checked = with_vmx_checks(cpu, bus, checks);
    let refused = |rule| Happening::VmxEntryRefused { vmcs: at, rule };
    let checked = checked.map_err(|(error, rule)| {
        bus.platform.record(cpu.visit(), refused(rule));
        error
    })?;
    if let Err(refusal) = checked {
        bus.platform.record(cpu.visit(), refused(refusal.rule));
        let failure = refusal.failure as u64;
        fail_entry(cpu, bus, at, &vmcs, &controls, ExitReason::InvalidGuestState, failure);
        return Ok(());
    }
    let guest = remember(cpu, at, &vmcs, controls);
    load_guest_state(cpu, &vmcs, &controls);
    tag_translations(cpu, guest.vpid, guest.ept);
    cpu.guest.running = Running::Vmx(Box::new(guest));
    finish_switch(cpu, bus, &vmcs, &controls);
    if let Err(entry) = host::load_entry_msrs(cpu, bus, &vmcs) {
        cpu.guest.running = Running::Bare;
        fail_entry(cpu, bus, at, &vmcs, &controls, ExitReason::MsrLoading, entry);
        return Ok(());
    }
    if launches {
        write_vmcs(bus, at, |vmcs| vmcs.set_launched(true));
    }
    apic::apicv_enter(cpu, bus);
    start_guest(cpu, bus, &vmcs, at);
    Ok(())
}

/// The guest did not run: the host is loaded, and the VMCS says why.
fn fail_entry(
    cpu: &mut Cpu,
    bus: &mut Bus<'_>,
    at: SystemPhysical,
    vmcs: &Image,
    controls: &Controls,
    reason: ExitReason,
    qualification: u64,
) {
    let field = ExitReasonField::new().with_basic(reason).with_is_entry_failure(true);
    exit::record_exit(cpu, bus, at, field, &Exit::qualified(reason, qualification), 0);
    exit::store_entry_failure(bus, at, reason, qualification);
    host::load_host_state(cpu, bus, vmcs, controls, false);
}

fn remember(cpu: &Cpu, at: SystemPhysical, vmcs: &Image, controls: Controls) -> Guest {
    let get = |field| vmcs.get(field);
    let page = |field| SystemPhysical(vmcs.get(field));
    let secondary = controls.secondary;
    let has = |bits| secondary.contains(bits);
    let virtual_nmis = controls.pin.contains(PinControls::VIRTUAL_NMIS);
    let state = Interruptibility::from_bits(get(guest::INTERRUPTIBILITY) as u32);
    Guest {
        vmcs: at,
        controls,
        exceptions: get(control::EXCEPTION_BITMAP) as u32,
        page_fault_mask: get(control::PAGE_FAULT_MASK) as u32,
        page_fault_match: get(control::PAGE_FAULT_MATCH) as u32,
        cr0: Shadowed { mask: get(control::CR0_MASK), shadow: get(control::CR0_SHADOW) },
        cr4: Shadowed { mask: get(control::CR4_MASK), shadow: get(control::CR4_SHADOW) },
        cr3_targets: [
            get(control::CR3_TARGET_0),
            get(control::CR3_TARGET_1),
            get(control::CR3_TARGET_2),
            get(control::CR3_TARGET_3),
        ],
        cr3_target_count: get(control::CR3_TARGET_COUNT) as u8,
        io_bitmaps: [page(control::IO_BITMAP_A), page(control::IO_BITMAP_B)],
        msr_bitmaps: page(control::MSR_BITMAPS),
        shadowing: has(SecondaryControls::VMCS_SHADOWING).then(|| Shadowing {
            reads: page(control::VMREAD_BITMAP),
            writes: page(control::VMWRITE_BITMAP),
            vmcs: Some(page(guest::VMCS_LINK_POINTER)).filter(|at| at.0 != u64::MAX),
        }),
        ept_pointers: super::function::ept_pointers(vmcs, &controls),
        exception_area: has(SecondaryControls::EPT_VIOLATION_EXCEPTION)
            .then(|| page(control::EXCEPTION_AREA)),
        tsc_offset: get(control::TSC_OFFSET),
        tsc_multiplier: get(control::TSC_MULTIPLIER),
        vpid: if has(SecondaryControls::VPID) { get(control::VPID) as u16 } else { 0 },
        ept: has(SecondaryControls::EPT).then(|| Ept {
            pointer: EptPointer::from_bits(get(control::EPT_POINTER)),
            log: has(SecondaryControls::PAGE_MODIFICATION_LOGGING)
                .then(|| page(control::PML_ADDRESS)),
            log_index: get(guest::PML_INDEX) as u16,
            separates_users: has(SecondaryControls::MODE_BASED_EXECUTE),
            grants: (true, true),
        }),
        blocks_virtual_nmis: virtual_nmis && state.blocked_by_nmi(),
        timer: timer_end(cpu, vmcs, &controls),
        pause: PauseLoop {
            gap: get(control::PLE_GAP) as u32,
            window: get(control::PLE_WINDOW) as u32,
            ..PauseLoop::default()
        },
        injection: controls.injection.is_valid().then(|| Injection {
            event: controls.injection,
            error_code: get(control::ENTRY_ERROR_CODE) as u32,
            length: get(control::ENTRY_INSTRUCTION_LENGTH) as u32,
        }),
        apicv: super::apic::load(vmcs, &controls, &cpu.model),
        due_after_injection: None,
        monitor_trap: None,
        halted_at: None,
        exit: None,
    }
}

/// [SDM3 "VMX-Preemption Timer"]
fn timer_end(cpu: &Cpu, vmcs: &Image, controls: &Controls) -> Option<u64> {
    let runs = controls.pin.contains(PinControls::PREEMPTION_TIMER);
    runs.then(|| (cpu.clock.tsc() >> timer_rate(cpu)) + vmcs.get(guest::PREEMPTION_TIMER))
}

pub(super) fn timer_rate(cpu: &Cpu) -> u8 {
    cpu.guest.vmx.capabilities.map_or(0, |capabilities| capabilities.misc.timer_rate())
}

/// Without a VPID everything is tagged 0, which the host uses, and dropped on the way. With
/// one, translations made through other tables are dropped.
/// [SDM3 "Caching Translation Information"]
pub(super) fn tag_translations(cpu: &mut Cpu, vpid: u16, ept: Option<Ept>) {
    let root = ept.map_or(u64::MAX, |ept| ept.pointer.root());
    let known = cpu.guest.vmx.roots.insert(vpid, root);
    if vpid == 0 || known != Some(root) {
        cpu.translation.tlb.flush_asid(vpid.into());
    }
}

/// [SDM3 "Loading Guest State"]
fn load_guest_state(cpu: &mut Cpu, vmcs: &Image, controls: &Controls) {
    let get = |field| vmcs.get(field);
    let kept = cpu.control.cr0().bits() & CR0_KEPT;
    cpu.control.set_cr0(Cr0::from_bits_retain(get(guest::CR0) & !CR0_KEPT | kept));
    let has_paging = cpu.control.cr0().contains(Cr0::PAGING);
    if has_paging && !controls.entry.contains(EntryControls::LOAD_EFER) {
        cpu.control.switch_efer(Efer::LONG_MODE_ENABLE, controls.is_long_mode_guest());
    }
    guest_area::load(cpu, vmcs, controls.entry);
    cpu.control.ldtr = segment(vmcs, &SEGMENTS[LDTR]);
    cpu.control.tr = segment(vmcs, &SEGMENTS[TR]);
    for register in SegmentRegister::ALL {
        cpu.registers.set_segment(register, segment(vmcs, &SEGMENTS[register as usize]));
    }
    let flags = get(guest::RFLAGS);
    stack::write_flags(cpu, flags & rflags::ALL | rflags::FIXED, u64::MAX);
    let stack = AccessRights::from_bits(get(guest::SS_ACCESS_RIGHTS) as u32);
    let is_8086 = flags & rflags::VM != 0;
    descriptor::set_cpl(cpu, if is_8086 { 3 } else { stack.privilege() });
}

/// What follows from the registers, and the PDPTEs of a PAE guest.
fn finish_switch(cpu: &mut Cpu, bus: &mut Bus<'_>, vmcs: &Image, controls: &Controls) {
    refresh(cpu);
    if !cpu.control.has_pae_paging() {
        return;
    }
    if controls.secondary.contains(SecondaryControls::EPT) {
        let fields = [guest::PDPTE_0, guest::PDPTE_1, guest::PDPTE_2, guest::PDPTE_3];
        cpu.control.pdpte = fields.map(|field| vmcs.get(field));
    } else {
        cpu.reload_pdptes(bus);
    }
}

/// What follows from control and segment registers that were loaded together.
pub(super) fn refresh(cpu: &mut Cpu) {
    let vpid = cpu.guest.running.vmx().map_or(0, |guest| guest.vpid);
    cpu.translation.tlb.select(vpid.into(), cpu.control.context_identifier());
    cpu.update_breakpoints();
    cpu.update_access_mode();
}

/// Non-register state, and what is due before the first instruction.
fn start_guest(cpu: &mut Cpu, bus: &mut Bus<'_>, vmcs: &Image, at: SystemPhysical) {
    let Some(running) = cpu.guest.running.vmx_mut() else { return };
    let controls = running.controls;
    let injects = running.injection.is_some();
    running.monitor_trap =
        controls.primary.contains(PrimaryControls::MONITOR_TRAP_FLAG).then_some(MonitorTrap::Entry);
    let nested_root = running.ept.map(|ept| SystemPhysical(ept.pointer.root()));
    let has_virtual_apic = running.apicv.is_some_and(|apicv| apicv.controls.delivers_interrupts);
    let state = Interruptibility::from_bits(vmcs.get(guest::INTERRUPTIBILITY) as u32);
    let virtual_nmis = controls.pin.contains(PinControls::VIRTUAL_NMIS);
    cpu.pending.set_blocks_nmis(!virtual_nmis && state.blocked_by_nmi());
    cpu.pending.set(Attention::SHADOW, state.has_shadow());
    cpu.pending.set(Attention::STACK_SHADOW, state.blocked_by_mov_ss());
    cpu.pending.raise(Attention::GUEST_BOUNDARY | Attention::INTERRUPT | Attention::TIMER);
    let told = PrimaryControls::MONITOR_TRAP_FLAG
        | PrimaryControls::INTERRUPT_WINDOW_EXITING
        | PrimaryControls::NMI_WINDOW_EXITING;
    let has_timer = controls.pin.contains(PinControls::PREEMPTION_TIMER);
    cpu.pending.set(Attention::WINDOW, has_timer || controls.primary.intersects(told));
    if controls.primary.contains(PrimaryControls::MONITOR_TRAP_FLAG) {
        cpu.pending.raise(Attention::ONE_INSTRUCTION);
    }
    let pending = PendingDebug::from_bits(vmcs.get(guest::PENDING_DEBUG));
    if pending.is_pending() {
        cpu.debug.set_pending(vmcs.get(guest::PENDING_DEBUG) & (0xF | debug::DR6_SINGLE_STEP));
        cpu.pending.raise(Attention::DEBUG_TRAP);
    }
    let activity = GuestActivity::from_bits(vmcs.get(guest::ACTIVITY) as u32);
    cpu.pending.set_activity(match activity {
        GuestActivity::Hlt if !injects => Activity::Halted,
        GuestActivity::WaitForSipi => Activity::WaitForStartup,
        _ => Activity::Running,
    });
    let injected = vmcs.get(control::ENTRY_INTERRUPTION_INFO);
    let entry = Happening::VmEntry {
        block: ControlBlock::Vmcs(at),
        nested_root,
        has_virtual_apic,
        injected,
        ip: cpu.registers.ip,
    };
    bus.platform.record(cpu.visit(), entry);
    cpu.let_others_look();
    cpu.clock.take(Step::Entry);
}

/// A segment register of the guest; one that is unusable is not present.
fn segment(vmcs: &Image, fields: &SegmentFields) -> Segment {
    let rights = AccessRights::from_bits(vmcs.get(fields.access_rights) as u32);
    let rights = if rights.is_unusable() { rights.with_is_present(false) } else { rights };
    Segment {
        selector: vmcs.get(fields.selector) as u16,
        attributes: rights.attributes(),
        limit: vmcs.get(fields.limit) as u32,
        base: vmcs.get(fields.base),
    }
}
