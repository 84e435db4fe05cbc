//! VMRUN: from the host into the guest. [APM2 "VMRUN Instruction"]

use super::avic::{Avic, AvicCapabilities};
use super::check::{Illegal, Supported, check};
use super::save_area;
use super::state::{Guest, Host, NestedPaging, PauseFilter};
use crate::costs::Step;
use crate::guest::Running;
use crate::state::Attention;
use crate::svm::region::write_vmcb;
use crate::width::{RAX, RSP};
use crate::{Activity, Bus, Cpu};
use arch::address::SystemPhysical;
use arch::control::{Cr0, Cr4, Efer, rflags};
use arch::cpuid::Feature;
use arch::paging::entry;
use arch::segment::SegmentRegister;
use arch::svm::ExitCode;
use arch::svm::avic::PAGE_BITS;
use arch::svm::vmcb::{SIZE, TlbControl, Vmcb, control, save};
use bus::{ControlBlock, Happening, VmExit};

impl Cpu {
    /// What the model's AVIC can do.
    pub fn avic_capabilities(&self) -> AvicCapabilities {
        AvicCapabilities {
            avic: self.model.has(Feature::Avic),
            x2avic: self.model.has(Feature::X2avic),
            x2avic_extended: self.model.has(Feature::X2avicExt),
            extended_lvt_change: self.model.has(Feature::ExtLvtAvicAccessChange),
            physical_address_bits: self.model.physical_bits(),
            behaviour: self.guest.svm.behaviour.avic,
        }
    }
}

/// Enters the guest of the VMCB at `at`. The host continues at `next_rip` after the exit.
pub(super) fn enter_guest(cpu: &mut Cpu, bus: &mut Bus<'_>, at: SystemPhysical, next_rip: u64) {
    let Ok(bytes) = bus.memory.slice(at, SIZE).map(<[u8]>::to_vec) else {
        // Not memory: every field reads as ones, which no check survives.
        let refusal = Happening::EntryRefused { vmcb: at, rule: Illegal::NoMemory };
        bus.platform.record(cpu.visit(), refusal);
        cpu.registers.ip = next_rip;
        cpu.guest.svm.global_interrupts = false;
        return;
    };
    let behaviour = cpu.guest.svm.behaviour;
    let honours = behaviour.honours_clean_bits && cpu.model.has(Feature::VmcbClean);
    let bytes = if honours {
        cpu.guest.svm.cache.effective(at, bytes, behaviour.avic_enable_clean_bit)
    } else {
        bytes
    };
    let Some(vmcb) = Vmcb::new(bytes) else { return };
    let supported = Supported {
        cr4: cpu.model.cr4_permitted(),
        efer: cpu.model.efer_permitted(),
        physical_bits: cpu.model.physical_bits(),
        nested_paging: cpu.model.has(Feature::Npt),
        flush_by_asid: cpu.model.has(Feature::FlushByAsid),
        ignores_reserved_tlb_control: behaviour.ignores_reserved_tlb_control,
        virtual_nmi: cpu.model.has(Feature::Vnmi),
        host_pages: cpu.control.cr0().contains(Cr0::PAGING),
        avic: cpu.avic_capabilities(),
    };
    if let Err(rule) = check(&vmcb, &supported) {
        return refuse_guest(cpu, bus, at, next_rip, rule);
    }
    if !has_legal_pdptes(cpu, bus, &vmcb) {
        return refuse_guest(cpu, bus, at, next_rip, Illegal::PageDirectoryPointers);
    }
    let host = save_host(cpu, next_rip);
    let guest = load_controls(cpu, at, &vmcb, host);
    apply_tlb_control(cpu, TlbControl::from_bits(vmcb.get(control::TLB_CONTROL)), guest.asid);
    let nested_root = guest.nested.map(|nested| nested.root);
    let has_virtual_apic = guest.avic.is_some();
    cpu.guest.running = Running::Svm(Box::new(guest));
    load_guest(cpu, bus, &vmcb);
    cpu.guest.svm.global_interrupts = true;
    let injected = vmcb.get(control::EVENTINJ).into_bits();
    let entry = Happening::VmEntry {
        block: ControlBlock::Vmcb(at),
        nested_root,
        has_virtual_apic,
        injected,
        ip: cpu.registers.ip,
    };
    bus.platform.record(cpu.visit(), entry);
    cpu.let_others_look();
    cpu.clock.take(Step::Entry);
    cpu.pending.raise(
        Attention::GUEST_BOUNDARY
            | Attention::VIRTUAL_INTERRUPT
            | Attention::VIRTUAL_NMI
            | Attention::INTERRUPT,
    );
}

/// Without nested paging VMRUN loads the page-directory pointers of a PAE guest, and refuses
/// reserved bits in them; with it, they are left to the guest's walks.
fn has_legal_pdptes(cpu: &Cpu, bus: &Bus<'_>, vmcb: &Vmcb<Vec<u8>>) -> bool {
    let cr0 = Cr0::from_bits_retain(vmcb.get(save::CR0));
    let cr4 = Cr4::from_bits_retain(vmcb.get(save::CR4));
    let is_long = vmcb.get(save::EFER) & Efer::LONG_MODE_ENABLE.bits() != 0;
    let is_pae = cr0.contains(Cr0::PAGING) && cr4.contains(Cr4::PAE) && !is_long;
    let is_nested =
        vmcb.get(control::NESTED_CONTROL).nested_paging() && cpu.model.has(Feature::Npt);
    if !is_pae || is_nested {
        return true;
    }
    let reserved = cpu.model.pdpte_reserved();
    let root = SystemPhysical(vmcb.get(save::CR3) & 0xFFFF_FFE0);
    (0..4).all(|index| {
        let pointer = bus.memory.read_u64(root.offset(8 * index)).unwrap_or(0);
        pointer & entry::PRESENT == 0 || pointer & reserved == 0
    })
}

/// VMEXIT_INVALID: the guest never ran. [APM2 "Canonicalization and Consistency Checks"]
fn refuse_guest(
    cpu: &mut Cpu,
    bus: &mut Bus<'_>,
    at: SystemPhysical,
    next_rip: u64,
    rule: Illegal,
) {
    write_vmcb(bus, at, |vmcb| {
        vmcb.set(control::EXITCODE, ExitCode::Invalid.into_bits());
        vmcb.set(control::EXITINFO1, 0);
        vmcb.set(control::EXITINFO2, 0);
        let event = vmcb.get(control::EVENTINJ);
        vmcb.set(control::EVENTINJ, event.with_is_valid(false));
    });
    bus.platform.record(cpu.visit(), Happening::EntryRefused { vmcb: at, rule });
    let exit = VmExit {
        block: ControlBlock::Vmcb(at),
        code: ExitCode::Invalid.into_bits(),
        qualification: 0,
        address: 0,
        event: 0,
        delivering: 0,
        instruction: 0,
        ip: cpu.registers.ip,
    };
    bus.platform.record(cpu.visit(), Happening::VmExit(exit));
    cpu.registers.ip = next_rip;
    cpu.guest.svm.global_interrupts = false;
    cpu.debug.reset_dr7();
}

fn save_host(cpu: &Cpu, next_rip: u64) -> Host {
    use SegmentRegister::{Cs, Ds, Es, Ss};
    Host {
        segments: [Es, Cs, Ss, Ds].map(|register| cpu.registers.segment(register)),
        gdtr: cpu.control.gdtr,
        idtr: cpu.control.idtr,
        cr0: cpu.control.cr0().bits(),
        cr3: cpu.control.cr3,
        cr4: cpu.control.cr4().bits(),
        efer: cpu.control.efer().bits(),
        flags: cpu.registers.flags.bits() & !rflags::RF,
        rip: next_rip,
        rsp: cpu.registers.gpr[RSP],
        rax: cpu.registers.gpr[RAX],
        pat: cpu.control.msr.pat,
        recording: None,
    }
}

fn load_controls(cpu: &Cpu, at: SystemPhysical, vmcb: &Vmcb<Vec<u8>>, host: Host) -> Guest {
    let has = |feature| cpu.model.has(feature);
    let page = |bits: u64| SystemPhysical(bits & PAGE_BITS);
    let nested = vmcb.get(control::NESTED_CONTROL).nested_paging() && has(Feature::Npt);
    let avic = Avic::load(vmcb, &cpu.avic_capabilities()).unwrap_or(None);
    let mut interrupts = vmcb.get(control::INTERRUPT_CONTROL);
    // Bits of features that the model lacks are ignored.
    interrupts.set_virtual_gif_enabled(interrupts.virtual_gif_enabled() && has(Feature::Vgif));
    interrupts.set_virtual_nmi_enabled(interrupts.virtual_nmi_enabled() && has(Feature::Vnmi));
    let mut extensions = vmcb.get(control::VIRTUALIZATION_EXTENSIONS);
    extensions.set_last_branch_records(extensions.last_branch_records() && has(Feature::Lbrv));
    extensions.set_virtual_vmload_vmsave(
        extensions.virtual_vmload_vmsave() && has(Feature::VirtualVmsaveVmload),
    );
    Guest {
        vmcb: at,
        intercepts: vmcb.get(control::INTERCEPTS),
        io_map: page(vmcb.get(control::IOPM_BASE_PA)),
        msr_map: page(vmcb.get(control::MSRPM_BASE_PA)),
        asid: vmcb.get(control::GUEST_ASID),
        nested: nested.then(|| NestedPaging {
            root: page(vmcb.get(control::N_CR3)),
            no_execute: cpu.control.efer().contains(Efer::NO_EXECUTE),
            reports_fetches: cpu.control.efer().contains(Efer::NO_EXECUTE)
                || cpu.control.cr4().contains(Cr4::SMEP),
            grants: (true, true),
        }),
        tsc_offset: vmcb.get(control::TSC_OFFSET),
        interrupts,
        avic,
        extensions,
        pause: load_pause_filter(cpu, vmcb),
        host,
        injection: Some(vmcb.get(control::EVENTINJ)).filter(|event| event.is_valid()),
        injection_next_rip: vmcb.get(control::N_RIP),
        exit: None,
        ipi: None,
        ipi_is_paid: false,
    }
}

fn load_pause_filter(cpu: &Cpu, vmcb: &Vmcb<Vec<u8>>) -> Option<PauseFilter> {
    let initial = vmcb.get(control::PAUSE_FILTER_COUNT);
    let has_threshold = cpu.model.has(Feature::PauseFilterThreshold);
    cpu.model.has(Feature::PauseFilter).then(|| PauseFilter {
        initial,
        threshold: if has_threshold { vmcb.get(control::PAUSE_FILTER_THRESHOLD) } else { 0 },
        left: initial,
        last: 0,
    })
}

fn apply_tlb_control(cpu: &mut Cpu, request: TlbControl, asid: u32) {
    match request {
        TlbControl::Nothing | TlbControl::Reserved(_) => {}
        TlbControl::FlushAll => cpu.translation.tlb.flush_all(),
        TlbControl::FlushAsid | TlbControl::FlushAsidNonGlobal => {
            cpu.translation.tlb.flush_asid(asid)
        }
    }
}

/// The part of the save area that VMRUN loads; the rest is VMLOAD's.
fn load_guest(cpu: &mut Cpu, bus: &mut Bus<'_>, vmcb: &Vmcb<Vec<u8>>) {
    save_area::load_guest(cpu, vmcb);
    if vmcb.get(control::NESTED_CONTROL).nested_paging() {
        save_area::load_nested(cpu, vmcb);
    }
    load_branch_records(cpu, vmcb);
    let shadow = vmcb.get(control::INTERRUPT_STATE).interrupt_shadow();
    cpu.pending.set(Attention::SHADOW, shadow);
    cpu.pending.set_activity(Activity::Running);
    refresh_after_switch(cpu, bus);
}

/// Under LBR virtualization the guest has recording registers of its own; without, it shares
/// the host's. [APM2 "LBR Virtualization"]
fn load_branch_records(cpu: &mut Cpu, vmcb: &Vmcb<Vec<u8>>) {
    let Some(guest) = cpu.guest.running.svm_mut() else { return };
    if guest.extensions.last_branch_records() {
        guest.host.recording = Some((cpu.control.msr.debug_ctl, cpu.control.msr.branch_records));
        save_area::load_branch_records(cpu, vmcb);
    }
}

/// What follows from control and segment registers that were loaded together.
pub(super) fn refresh_after_switch(cpu: &mut Cpu, bus: &mut Bus<'_>) {
    let asid = cpu.guest.running.svm().map_or(0, |guest| guest.asid);
    cpu.translation.tlb.select(asid, cpu.control.context_identifier());
    if cpu.control.has_pae_paging() {
        cpu.reload_pdptes(bus);
    }
    cpu.update_breakpoints();
    cpu.update_access_mode();
}
