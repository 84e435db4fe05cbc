//! VM exits: what the guest leaves in its VMCS. [SDM3 "VM Exits"]

use super::guest_area;
use super::state::{Exit, Guest};
use super::vmcs::{SIZE, Vmcs};
use crate::costs::Step;
use crate::guest::Running;
use crate::state::Attention;
use crate::state::{Event, Origin};
use crate::stop::SoftwareSource;
use crate::vmx::entry;
use crate::vmx::host;
use crate::vmx::vmcs::write_vmcs;
use crate::width::{RAX, RCX, RDX};
use crate::{Bus, Cpu};
use arch::address::SystemPhysical;
use arch::control::{debug, rflags};
use arch::exception;
use arch::segment::{Segment, SegmentRegister};
use arch::vmx::control::{EntryControls, ExitControls, PinControls, SecondaryControls};
use arch::vmx::event::{Activity as GuestActivity, Interruptibility, PendingDebug};
use arch::vmx::exit::ExitReasonField;
use arch::vmx::field::{LDTR, SEGMENTS, SegmentFields, TR, control, exit as fields, guest};
use arch::vmx::segment::AccessRights;
use arch::vmx::{AbortCode, ExitReason, InterruptionInfo, InterruptionType};
use bus::{ControlBlock, Happening, VmExit};

type Image<'a> = Vmcs<&'a mut [u8]>;

/// Leaves the guest for the reason that it holds.
pub(crate) fn leave(cpu: &mut Cpu, bus: &mut Bus<'_>) {
    let Running::Vmx(mut running) = std::mem::take(&mut cpu.guest.running) else { return };
    let Some(mut exit) = running.exit.take() else { return };
    let at = running.vmcs;
    let vectoring = original_event(cpu, &exit);
    if exit.instruction_length == 0 {
        exit.instruction_length = length_at_exit(cpu, bus, &running, &exit, vectoring);
    }
    let reason = ExitReasonField::new().with_basic(exit.reason);
    let original =
        vectoring.map_or(0, |(info, error)| u64::from(info.into_bits()) | u64::from(error) << 32);
    record_exit(cpu, bus, at, reason, &exit, original);
    let snapshot = clone_for_exit(cpu, &running, &exit, vectoring.is_some());
    write_vmcs(bus, at, |vmcs| {
        store_information(vmcs, &exit, vectoring);
        snapshot.store(cpu, vmcs, &running);
        let injected = vmcs.get(control::ENTRY_INTERRUPTION_INFO);
        vmcs.set(control::ENTRY_INTERRUPTION_INFO, injected & 0x7FFF_FFFF);
    });
    let bytes = bus.memory.slice(at, SIZE).map_or_else(|_| vec![0; SIZE], <[u8]>::to_vec);
    let Some(vmcs) = Vmcs::new(bytes) else { return };
    if let Err(entry) = host::store_exit_msrs(cpu, bus, &vmcs) {
        return abort(cpu, bus, at, AbortCode::SavingMsrs, entry);
    }
    let is_nmi = exit.reason == ExitReason::ExceptionOrNmi
        && exit.interruption.kind() == InterruptionType::Nmi;
    if running.vpid == 0 {
        cpu.translation.tlb.flush_asid(0);
    }
    host::load_host_state(cpu, bus, &vmcs, &running.controls, is_nmi);
}

/// The processor cannot go on; `entry` is the one of an MSR list that stopped it, counted from 1,
/// or 0. [SDM3 "VMX Aborts"]
pub(super) fn abort(
    cpu: &mut Cpu,
    bus: &mut Bus<'_>,
    at: SystemPhysical,
    code: AbortCode,
    entry: u64,
) {
    write_vmcs(bus, at, |vmcs| vmcs.set_abort_indicator(code.into_bits()));
    let happening = Happening::VmxAbort { vmcs: at, code, entry: entry as u32 };
    bus.platform.record(cpu.visit(), happening);
    cpu.pending.set_activity(crate::Activity::Shutdown);
}

/// `vectoring` is the event whose delivery the exit interrupted, its error code above.
pub(super) fn record_exit(
    cpu: &mut Cpu,
    bus: &mut Bus<'_>,
    at: SystemPhysical,
    reason: ExitReasonField,
    exit: &Exit,
    vectoring: u64,
) {
    cpu.clock.take(Step::Exit);
    let event = exit.interruption.into_bits();
    let happening = VmExit {
        block: ControlBlock::Vmcs(at),
        code: reason.into_bits().into(),
        qualification: exit.qualification,
        address: exit.physical,
        event: u64::from(event) | u64::from(exit.error_code) << 32,
        delivering: vectoring,
        instruction: u64::from(exit.instruction_length)
            | u64::from(exit.instruction_information) << 32,
        ip: cpu.registers.ip,
    };
    bus.platform.record(cpu.visit(), Happening::VmExit(happening));
    let is_write = exit.reason == ExitReason::Wrmsr;
    if is_write || exit.reason == ExitReason::Rdmsr {
        let index = cpu.registers.gpr[RCX] as u32;
        let [low, high] = [RAX, RDX].map(|register| cpu.registers.gpr[register] & 0xFFFF_FFFF);
        let value = if is_write { high << 32 | low } else { 0 };
        bus.platform.record(cpu.visit(), Happening::MsrAccess { index, is_write, value });
    }
}

/// Only the reason and the qualification; the valid bit of the injected event stays.
pub(super) fn store_entry_failure(
    bus: &mut Bus<'_>,
    at: SystemPhysical,
    reason: ExitReason,
    qualification: u64,
) {
    let reason = ExitReasonField::new().with_basic(reason).with_is_entry_failure(true);
    write_vmcs(bus, at, |vmcs| {
        vmcs.set(fields::REASON, reason.into_bits().into());
        vmcs.set(fields::QUALIFICATION, qualification);
    });
}

/// The event whose delivery the exit interrupted. [SDM3 "Information for VM Exits During Event
/// Delivery"]
fn original_event(cpu: &mut Cpu, exit: &Exit) -> Option<(InterruptionInfo, u32)> {
    let event = cpu.pending.take_delivering()?;
    let is_double_fault = exit.reason == ExitReason::ExceptionOrNmi
        && exit.interruption.kind() == InterruptionType::HardwareException
        && exit.interruption.vector() == exception::DOUBLE_FAULT;
    if is_double_fault || exit.reason == ExitReason::TripleFault {
        return None;
    }
    let error = event.error.filter(|_| !cpu.control.is_real());
    let info = InterruptionInfo::event(kind_of(event), event.vector, error.is_some());
    Some((info, error.unwrap_or(0)))
}

/// That of the instruction whose software event was being delivered, of the one that would switch
/// tasks, or of the one whose access EPT refused: hypervisors skip it by this. [SDM3 "Information
/// for VM Exits Due to Instruction Execution"]
fn length_at_exit(
    cpu: &mut Cpu,
    bus: &mut Bus<'_>,
    running: &Guest,
    exit: &Exit,
    vectoring: Option<(InterruptionInfo, u32)>,
) -> u32 {
    if let Some((info, _)) = vectoring {
        let is_software = info.kind().is_software();
        return if is_software { cpu.pending.software_length() as u32 } else { 0 };
    }
    let is_by_instruction = matches!(
        exit.reason,
        ExitReason::EptViolation
            | ExitReason::EptMisconfiguration
            | ExitReason::ApicAccess
            | ExitReason::TaskSwitch
    );
    if !is_by_instruction {
        return 0;
    }
    // The bytes are fetched as the guest would.
    cpu.guest.running = Running::Vmx(Box::new(running.clone()));
    let length = length_of_instruction(cpu, bus);
    cpu.guest.running = Running::Bare;
    length
}

fn length_of_instruction(cpu: &mut Cpu, bus: &mut Bus<'_>) -> u32 {
    let linear = cpu.registers.code_base().wrapping_add(cpu.registers.ip);
    let mut bytes = Vec::new();
    for at in 0..crate::operation::decode::MAX_LENGTH as u64 {
        let here = linear.wrapping_add(at);
        let Ok(Some(page)) = cpu.locate_fetch(bus, here) else { break };
        let Some(byte) = bus.memory.ram.get((page + (here & 0xFFF)) as usize) else { break };
        bytes.push(*byte);
    }
    let code = &cpu.registers.segment(SegmentRegister::Cs).attributes;
    let bits = match (cpu.is_64_bit(), code.is_big()) {
        (true, _) => 64,
        (false, true) => 32,
        (false, false) => 16,
    };
    let mut decoder = iced_x86::Decoder::new(bits, &bytes, iced_x86::DecoderOptions::NONE);
    let instruction = decoder.decode();
    if instruction.is_invalid() { 0 } else { instruction.len() as u32 }
}

/// Whether the instruction that ran last has completed.
fn is_behind(reason: ExitReason) -> bool {
    reason.is_trap_like() || reason == ExitReason::MonitorTrapFlag
}

fn clone_for_exit(cpu: &Cpu, running: &Guest, exit: &Exit, is_vectoring: bool) -> GuestState {
    // Woken from HLT by what exits now, or put there by the entry that an exit follows at once.
    let is_halted = cpu.pending.activity() == crate::Activity::Halted;
    let was_woken = running.halted_at == Some(cpu.clock.instructions());
    let was_halted = (is_halted || was_woken) && !is_vectoring;
    // That of the instruction at which the guest goes on, unless an event has ended it.
    let is_at = cpu.pending.is_in_shadow() && !is_vectoring && !is_behind(exit.reason);
    let shadow = is_at || cpu.pending.has(Attention::SHADOW);
    let is_stack = match is_at {
        true => cpu.pending.is_in_stack_shadow(),
        false => cpu.pending.has(Attention::STACK_SHADOW),
    };
    let virtual_nmis = running.controls.pin.contains(PinControls::VIRTUAL_NMIS);
    let blocked =
        if virtual_nmis { running.blocks_virtual_nmis } else { cpu.pending.blocks_nmis() };
    let interruptibility = Interruptibility::new()
        .with_blocked_by_sti(shadow && !is_stack)
        .with_blocked_by_mov_ss(shadow && is_stack)
        .with_blocked_by_nmi(blocked);
    let keeps_traps = is_stack || is_behind(exit.reason) || matches!(exit.reason, ExitReason::Init);
    let pending = if keeps_traps { pending_debug(cpu) } else { PendingDebug::new() };
    let rate = entry::timer_rate(cpu);
    let now = cpu.clock.tsc() >> rate;
    let flags = cpu.registers.flags.bits();
    let is_access = matches!(
        exit.reason,
        ExitReason::EptViolation
            | ExitReason::EptMisconfiguration
            | ExitReason::PageModificationLogFull
    );
    let resume = exit.resume_flag.or((is_access && !is_vectoring).then_some(true));
    let flags = match resume {
        Some(true) => flags | rflags::RF,
        Some(false) => flags & !rflags::RF,
        None => flags,
    };
    GuestState {
        activity: match exit.reason {
            ExitReason::Sipi => GuestActivity::WaitForSipi,
            _ if was_halted => GuestActivity::Hlt,
            _ => GuestActivity::Active,
        },
        interruptibility,
        pending,
        timer: running.timer.map_or(0, |end| end.saturating_sub(now)),
        flags,
    }
}

fn pending_debug(cpu: &Cpu) -> PendingDebug {
    let causes = cpu.debug.pending();
    let waits = cpu.pending.has(Attention::DEBUG_TRAP);
    let step = causes & debug::DR6_SINGLE_STEP != 0;
    PendingDebug::new()
        .with_breakpoints(causes as u8 & 0xF)
        .with_has_enabled_breakpoint(waits && causes & 0xF != 0)
        .with_single_step(step)
}

/// What kind of event was being delivered.
fn kind_of(event: Event) -> InterruptionType {
    match event.origin {
        Origin::External if event.vector == exception::NMI => InterruptionType::Nmi,
        Origin::External => InterruptionType::External,
        Origin::Exception => InterruptionType::HardwareException,
        Origin::Software(SoftwareSource::Int) => InterruptionType::SoftwareInterrupt,
        Origin::Software(SoftwareSource::Int1) => InterruptionType::PrivilegedSoftwareException,
        Origin::Software(_) => InterruptionType::SoftwareException,
    }
}

/// [SDM3 "Recording VM-Exit Information and Updating VM-Entry Control Fields"]
fn store_information(
    vmcs: &mut Image<'_>,
    exit: &Exit,
    vectoring: Option<(InterruptionInfo, u32)>,
) {
    let reason = ExitReasonField::new().with_basic(exit.reason);
    let (info, error) = vectoring.unwrap_or((InterruptionInfo::new(), 0));
    vmcs.set(fields::REASON, reason.into_bits().into());
    vmcs.set(fields::QUALIFICATION, exit.qualification);
    vmcs.set(fields::INTERRUPTION_INFO, exit.interruption.into_bits().into());
    vmcs.set(fields::INTERRUPTION_ERROR_CODE, exit.error_code.into());
    vmcs.set(fields::IDT_VECTORING_INFO, info.into_bits().into());
    vmcs.set(fields::IDT_VECTORING_ERROR_CODE, error.into());
    vmcs.set(fields::INSTRUCTION_LENGTH, exit.instruction_length.into());
    vmcs.set(fields::INSTRUCTION_INFORMATION, exit.instruction_information.into());
    vmcs.set(fields::GUEST_LINEAR_ADDRESS, exit.linear);
    vmcs.set(fields::GUEST_PHYSICAL_ADDRESS, exit.physical);
}

/// What an exit saves that no register holds as it is. [SDM3 "Saving Guest State"]
struct GuestState {
    activity: GuestActivity,
    interruptibility: Interruptibility,
    pending: PendingDebug,
    timer: u64,
    flags: u64,
}

impl GuestState {
    fn store(&self, cpu: &Cpu, vmcs: &mut Image<'_>, running: &Guest) {
        let exits = running.controls.exit;
        vmcs.set(guest::CR0, cpu.control.cr0().bits());
        guest_area::save(cpu, vmcs, exits);
        if exits.contains(ExitControls::SAVE_PREEMPTION_TIMER) {
            vmcs.set(guest::PREEMPTION_TIMER, self.timer);
        }
        let entry = EntryControls::from_bits_retain(vmcs.get(control_fields::ENTRY) as u32);
        let mut after = entry;
        after.set(EntryControls::IA32E_MODE_GUEST, cpu.control.is_long_mode());
        vmcs.set(control_fields::ENTRY, after.bits().into());
        if let Some(apicv) = running.apicv.filter(|apicv| apicv.controls.delivers_interrupts) {
            vmcs.set(guest::INTERRUPT_STATUS, apicv.status.into_bits().into());
        }
        store_segments(cpu, vmcs);
        vmcs.set(guest::RFLAGS, self.flags);
        vmcs.set(guest::ACTIVITY, self.activity.into_bits().into());
        vmcs.set(guest::INTERRUPTIBILITY, self.interruptibility.into_bits().into());
        vmcs.set(guest::PENDING_DEBUG, self.pending.into_bits());
        store_ept_state(cpu, vmcs, running);
    }
}

fn store_segments(cpu: &Cpu, vmcs: &mut Image<'_>) {
    for register in SegmentRegister::ALL {
        let is_stack = register == SegmentRegister::Ss;
        let privilege = is_stack.then_some(cpu.registers.cpl());
        let segment = cpu.registers.segment(register);
        store_segment(vmcs, &SEGMENTS[register as usize], &segment, privilege);
    }
    store_segment(vmcs, &SEGMENTS[LDTR], &cpu.control.ldtr, None);
    store_segment(vmcs, &SEGMENTS[TR], &cpu.control.tr, None);
}

fn store_ept_state(cpu: &Cpu, vmcs: &mut Image<'_>, running: &Guest) {
    let Some(ept) = running.ept else { return };
    if running.controls.secondary.contains(SecondaryControls::PAGE_MODIFICATION_LOGGING) {
        vmcs.set(guest::PML_INDEX, ept.log_index.into());
    }
    if cpu.control.has_pae_paging() {
        let pointers = [guest::PDPTE_0, guest::PDPTE_1, guest::PDPTE_2, guest::PDPTE_3];
        for (field, pointer) in pointers.into_iter().zip(cpu.control.pdpte) {
            vmcs.set(field, pointer);
        }
    }
}

use arch::vmx::field::control as control_fields;

/// A register that is not present is unusable. SS.DPL is the privilege level in any case.
fn store_segment(
    vmcs: &mut Image<'_>,
    fields: &SegmentFields,
    segment: &Segment,
    privilege: Option<u8>,
) {
    let rights = AccessRights::from_attributes(segment.attributes);
    let rights = if segment.attributes.is_present() { rights } else { AccessRights::UNUSABLE };
    let rights = privilege.map_or(rights, |level| rights.with_privilege(level));
    vmcs.set(fields.selector, segment.selector.into());
    vmcs.set(fields.base, segment.base);
    vmcs.set(fields.limit, segment.limit.into());
    vmcs.set(fields.access_rights, rights.into_bits().into());
}
