//! What a virtual processor's VMCB says. [APM2 "VMCB Layout, Control Area"]

use crate::machine;
use crate::payload::{BOOT_MAGIC, Entry};
use crate::svm::{avic, msr};
use crate::vcpu::{Owned, Vcpu};
use arch::apic::Mode;
use arch::control::{Cr0, Efer, debug, rflags};
use arch::svm::Intercepts;
use arch::svm::intercept::{Vector3, Vector4};
use arch::svm::segment::{Segment, SegmentAttributes};
use arch::svm::vmcb::{InterruptControl, NestedControl, TlbControl, control, save};
use runtime::apic;

/// G_PAT as after reset: write-back, write-through, uncached- and uncached, twice.
const PAT_RESET: u64 = 0x0007_0406_0007_0406;

/// Physical events, what we answer in the processor's place, and what a guest must not do.
fn intercepts() -> Intercepts {
    Intercepts {
        vector3: Vector3::INTR
            | Vector3::NMI
            | Vector3::INIT
            | Vector3::CPUID
            | Vector3::INVD
            | Vector3::HLT
            | Vector3::INVLPGA
            | Vector3::IOIO
            | Vector3::MSR
            | Vector3::TASK_SWITCH
            | Vector3::SHUTDOWN,
        vector4: Vector4::VMRUN
            | Vector4::VMMCALL
            | Vector4::VMLOAD
            | Vector4::VMSAVE
            | Vector4::STGI
            | Vector4::CLGI
            | Vector4::SKINIT
            | Vector4::MONITOR
            | Vector4::MWAIT
            | Vector4::XSETBV,
        ..Intercepts::default()
    }
}

fn segment(selector: u16, base: u64, limit: u32, attributes: u16) -> Segment {
    Segment { selector, attributes: SegmentAttributes::from_bits(attributes), limit, base }
}

/// Control and save area as after INIT, for a processor that starts at a startup vector.
/// [APM2 "Processor Initialization State"]
pub fn reset(vcpu: &Vcpu, owned: &mut Owned, startup_vector: u8) {
    let features = machine::features();
    owned.vmcb.0.fill(0);
    let mut vmcb = owned.vmcb();
    vmcb.set(control::INTERCEPTS, intercepts());
    vmcb.set(control::IOPM_BASE_PA, msr::port_map());
    // Virtual processors do not move: numbers need to differ on one physical processor only.
    let asid = 1 + vcpu.local_index() as u32 % (features.asids - 1);
    vmcb.set(control::GUEST_ASID, asid);
    vmcb.set(control::NESTED_CONTROL, NestedControl::new().with_nested_paging(true));
    vmcb.set(control::N_CR3, machine::nested_root().0);

    let code =
        segment(u16::from(startup_vector) << 8, u64::from(startup_vector) << 12, 0xFFFF, 0x9B);
    vmcb.set(save::CS, code);
    for field in [save::ES, save::SS, save::DS, save::FS, save::GS] {
        vmcb.set(field, segment(0, 0, 0xFFFF, 0x93));
    }
    vmcb.set(save::GDTR, segment(0, 0, 0xFFFF, 0));
    vmcb.set(save::IDTR, segment(0, 0, 0xFFFF, 0));
    vmcb.set(save::LDTR, segment(0, 0, 0xFFFF, 0x82));
    vmcb.set(save::TR, segment(0, 0, 0xFFFF, 0x8B));
    vmcb.set(save::CR0, Cr0::EXTENSION_TYPE.bits());
    vmcb.set(save::EFER, Efer::SVM.bits());
    vmcb.set(save::RFLAGS, rflags::FIXED);
    vmcb.set(save::DR6, debug::DR6_RESET);
    vmcb.set(save::DR7, debug::DR7_RESET);
    vmcb.set(save::G_PAT, PAT_RESET);
    update_acceleration(vcpu, owned);
}

/// The state in which a Multiboot loader leaves a processor: flat 32-bit protected mode.
pub fn start_by_multiboot(owned: &mut Owned, entry: &Entry) {
    let mut vmcb = owned.vmcb();
    vmcb.set(save::CS, segment(0x08, 0, u32::MAX, 0xC9B));
    for field in [save::ES, save::SS, save::DS, save::FS, save::GS] {
        vmcb.set(field, segment(0x10, 0, u32::MAX, 0xC93));
    }
    vmcb.set(save::CR0, (Cr0::PROTECTION_ENABLE | Cr0::EXTENSION_TYPE).bits());
    vmcb.set(save::RIP, u64::from(entry.rip));
    vmcb.set(save::RAX, u64::from(BOOT_MAGIC));
    owned.registers.general[3] = u64::from(entry.information);
}

/// Brings the AVIC fields into step with the mode of the guest's APIC. The translation of the APIC
/// page may be in the TLB, so it is flushed. [APM2 "AVIC Enablement"]
pub fn update_acceleration(vcpu: &Vcpu, owned: &mut Owned) {
    let mode = owned.apic_base.mode();
    let is_accelerated = avic::is_possible(mode);
    let is_x2avic = is_accelerated && mode == Mode::X2Apic;
    owned.is_accelerated = is_accelerated;
    owned.flushes_tlb = true;
    let mut vmcb = owned.vmcb();
    let interrupts = InterruptControl::new()
        .with_masks_interrupts(true)
        .with_avic_enabled(is_accelerated)
        .with_x2avic_enabled(is_x2avic);
    vmcb.set(control::INTERRUPT_CONTROL, interrupts);
    vmcb.set(control::AVIC_APIC_BAR, apic::PAGE);
    vmcb.set(control::AVIC_BACKING_PAGE, vcpu.page.address().0);
    vmcb.set(control::AVIC_LOGICAL_TABLE, avic::logical_table().0);
    vmcb.set(control::AVIC_PHYSICAL_TABLE, avic::physical_table(is_x2avic));
    vmcb.set(control::MSRPM_BASE_PA, msr::permission_map(is_x2avic));
}

/// What TLB_CONTROL says for the next VMRUN.
pub fn set_tlb_control(owned: &mut Owned) {
    let flushes = core::mem::take(&mut owned.flushes_tlb);
    let wanted = match (flushes, machine::features().flush_by_asid) {
        (false, _) => TlbControl::Nothing,
        (true, true) => TlbControl::FlushAsid,
        (true, false) => TlbControl::FlushAll,
    };
    let bits = match wanted {
        TlbControl::FlushAll => 1,
        TlbControl::FlushAsid => 3,
        _ => 0,
    };
    owned.vmcb().set(control::TLB_CONTROL, bits);
}
