//! The state save area: a row for each field, with what the processor loads from it and stores
//! there. [APM2 "VMCB Layout, State Save Area"]

use crate::Cpu;
use crate::execute::stack;
use crate::state::TableRegister;
use crate::system::{branch_record, descriptor};
use crate::width::{RAX, RSP};
use arch::control::{Cr0, Cr4, Efer, rflags};
use arch::msr::AMD_SYSENTER_BITS;
use arch::segment::SegmentRegister::{Cs, Ds, Es, Fs, Gs, Ss};
use arch::segment::{Attributes, Segment};
use arch::svm::segment::{Segment as SavedSegment, SegmentAttributes};
use arch::svm::vmcb::{Vmcb, save};

/// A pair of functions, made from rows `FIELD: what loads it, what is stored`. Rows are loaded from
/// top to bottom.
macro_rules! fields {
    (
        $(#[$load_doc:meta])* $load:ident;
        $(#[$store_doc:meta])* $store:ident;
        $($field:ident: |$cpu:ident, $value:ident| $loads:expr, |$from:ident| $stored:expr;)*
    ) => {
        $(#[$load_doc])*
        pub(super) fn $load(cpu: &mut Cpu, vmcb: &Vmcb<Vec<u8>>) {
            $({
                let ($cpu, $value) = (&mut *cpu, vmcb.get(save::$field));
                $loads;
            })*
        }

        $(#[$store_doc])*
        pub(super) fn $store(cpu: &Cpu, vmcb: &mut Vmcb<&mut [u8]>) {
            $({
                let $from = cpu;
                vmcb.set(save::$field, $stored);
            })*
        }
    };
}

fields! {
    /// What VMRUN loads.
    load_guest;
    /// What #VMEXIT stores.
    store_guest;
    CR0: |cpu, bits| cpu.control.set_cr0(Cr0::from_bits_retain(bits) | Cr0::EXTENSION_TYPE),
        |cpu| cpu.control.cr0().bits();
    CR4: |cpu, bits| cpu.control.set_cr4(Cr4::from_bits_retain(bits)),
        |cpu| cpu.control.cr4().bits();
    EFER: |cpu, bits| cpu.control.set_efer(Efer::from_bits_retain(bits)),
        |cpu| cpu.control.efer().bits();
    CR3: |cpu, root| cpu.control.cr3 = root, |cpu| cpu.control.cr3;
    CR2: |cpu, linear| cpu.control.cr2 = linear, |cpu| cpu.control.cr2;
    DR6: |cpu, bits| cpu.debug.load_dr6(bits), |cpu| cpu.debug.dr6();
    DR7: |cpu, bits| cpu.debug.load_dr7(bits), |cpu| cpu.debug.dr7();
    GDTR: |cpu, it| cpu.control.gdtr = table(it), |cpu| saved_table(cpu.control.gdtr);
    IDTR: |cpu, it| cpu.control.idtr = table(it), |cpu| saved_table(cpu.control.idtr);
    ES: |cpu, it| cpu.registers.set_segment(Es, segment(it)), |cpu| saved(cpu.registers.segment(Es));
    CS: |cpu, it| cpu.registers.set_segment(Cs, segment(it)), |cpu| saved(cpu.registers.segment(Cs));
    SS: |cpu, it| cpu.registers.set_segment(Ss, segment(it)), |cpu| saved(cpu.registers.segment(Ss));
    DS: |cpu, it| cpu.registers.set_segment(Ds, segment(it)), |cpu| saved(cpu.registers.segment(Ds));
    RFLAGS: |cpu, bits| stack::write_flags(cpu, bits & rflags::ALL | rflags::FIXED, u64::MAX),
        |cpu| cpu.registers.flags.bits();
    CPL: |cpu, cpl| load_cpl(cpu, cpl), |cpu| cpu.registers.cpl();
    RSP: |cpu, value| cpu.registers.gpr[RSP] = value, |cpu| cpu.registers.gpr[RSP];
    RAX: |cpu, value| cpu.registers.gpr[RAX] = value, |cpu| cpu.registers.gpr[RAX];
    RIP: |cpu, value| cpu.registers.ip = value, |cpu| cpu.registers.ip;
}

fields! {
    /// What VMRUN loads besides under nested paging. [APM2 "Nested Paging and VMRUN/#VMEXIT"]
    load_nested;
    /// What #VMEXIT stores besides under nested paging.
    store_nested;
    G_PAT: |cpu, types| cpu.control.msr.pat = types, |cpu| cpu.control.msr.pat;
}

fields! {
    /// What VMRUN loads besides under LBR virtualization. [APM2 "LBR Virtualization"]
    load_branch_records;
    /// What #VMEXIT stores besides under LBR virtualization.
    store_branch_records;
    DBGCTL: |cpu, bits| branch_record::write_debug_control(cpu, bits),
        |cpu| cpu.control.msr.debug_ctl;
    BR_FROM: |cpu, ip| cpu.control.msr.branch_records.branch_from = ip,
        |cpu| cpu.control.msr.branch_records.branch_from;
    BR_TO: |cpu, ip| cpu.control.msr.branch_records.branch_to = ip,
        |cpu| cpu.control.msr.branch_records.branch_to;
    LAST_EXCEPTION_FROM: |cpu, ip| cpu.control.msr.branch_records.exception_from = ip,
        |cpu| cpu.control.msr.branch_records.exception_from;
    LAST_EXCEPTION_TO: |cpu, ip| cpu.control.msr.branch_records.exception_to = ip,
        |cpu| cpu.control.msr.branch_records.exception_to;
}

fields! {
    /// What VMLOAD loads: bases become canonical. [APM3 "VMLOAD"]
    load_additional;
    /// What VMSAVE stores. [APM3 "VMSAVE"]
    store_additional;
    FS: |cpu, it| cpu.registers.set_segment(Fs, canonical(it)), |cpu| saved(cpu.registers.segment(Fs));
    GS: |cpu, it| cpu.registers.set_segment(Gs, canonical(it)), |cpu| saved(cpu.registers.segment(Gs));
    LDTR: |cpu, it| cpu.control.ldtr = canonical(it), |cpu| saved(cpu.control.ldtr);
    TR: |cpu, it| cpu.control.tr = canonical(it), |cpu| saved(cpu.control.tr);
    KERNEL_GS_BASE: |cpu, base| cpu.control.syscall.kernel_gs_base = canonical_base(base),
        |cpu| cpu.control.syscall.kernel_gs_base;
    STAR: |cpu, bits| cpu.control.syscall.star = bits, |cpu| cpu.control.syscall.star;
    LSTAR: |cpu, ip| cpu.control.syscall.lstar = ip, |cpu| cpu.control.syscall.lstar;
    CSTAR: |cpu, ip| cpu.control.syscall.cstar = ip, |cpu| cpu.control.syscall.cstar;
    SFMASK: |cpu, bits| cpu.control.syscall.sfmask = bits, |cpu| cpu.control.syscall.sfmask;
    SYSENTER_CS: |cpu, bits| cpu.control.syscall.sysenter_cs = bits,
        |cpu| cpu.control.syscall.sysenter_cs;
    SYSENTER_ESP: |cpu, sp| cpu.control.syscall.sysenter_esp = sp & AMD_SYSENTER_BITS,
        |cpu| cpu.control.syscall.sysenter_esp;
    SYSENTER_EIP: |cpu, ip| cpu.control.syscall.sysenter_eip = ip & AMD_SYSENTER_BITS,
        |cpu| cpu.control.syscall.sysenter_eip;
}

/// 0 in real mode, 3 in virtual-8086 mode, else what the field says.
fn load_cpl(cpu: &mut Cpu, cpl: u8) {
    let cpl = match (cpu.control.is_real(), cpu.registers.is_virtual_8086()) {
        (true, _) => 0,
        (false, true) => 3,
        (false, false) => cpl & 3,
    };
    descriptor::set_cpl(cpu, cpl);
}

/// A segment of the save area in the processor's form.
fn segment(saved: SavedSegment) -> Segment {
    Segment {
        selector: saved.selector,
        attributes: Attributes(saved.attributes.into_bits() & 0xFFF),
        limit: saved.limit,
        base: saved.base,
    }
}

fn canonical(saved: SavedSegment) -> Segment {
    Segment { base: canonical_base(saved.base), ..segment(saved) }
}

fn canonical_base(base: u64) -> u64 {
    ((base << 16) as i64 >> 16) as u64
}

/// A segment in the save area's form.
fn saved(segment: Segment) -> SavedSegment {
    SavedSegment {
        selector: segment.selector,
        attributes: SegmentAttributes::from_bits(segment.attributes.0 & 0xFFF),
        limit: segment.limit,
        base: segment.base,
    }
}

/// A descriptor-table register of the save area.
fn table(saved: SavedSegment) -> TableRegister {
    TableRegister { base: saved.base, limit: saved.limit as u16 }
}

fn saved_table(table: TableRegister) -> SavedSegment {
    SavedSegment { limit: table.limit.into(), base: table.base, ..SavedSegment::default() }
}
