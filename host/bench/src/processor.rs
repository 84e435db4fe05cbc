//! A vCPU: what CPUID tells it and how it starts.

use crate::configuration::Configuration;
use crate::error::BenchError;
use arch::apic::ApicBase;
use arch::msr;
use board::load::{BootState, EntryMode};
use board::topology::{Level, Topology};
use kvm_bindings::{
    CpuId, KVM_MAX_CPUID_ENTRIES, Msrs, kvm_cpuid_entry2, kvm_msr_entry, kvm_regs, kvm_segment,
};
use kvm_ioctls::{Kvm, VcpuFd};

/// CPUID Fn0000_0001 ECX: x2APIC, TSC deadline timer, there is a hypervisor.
const X2APIC: u32 = 1 << 21;
const TSC_DEADLINE: u32 = 1 << 24;
const HYPERVISOR: u32 = 1 << 31;
/// CPUID Fn4000_0001 EAX, KVM_FEATURE_MSI_EXT_DEST_ID: messages have destinations of 15 bits. KVM
/// leaves it to the router. [LINUX "KVM CPUID bits"]
const EXTENDED_DESTINATIONS: u32 = 1 << 15;

/// IA32_MISC_ENABLE.
const FAST_STRINGS: u64 = 1 << 0;

/// What every processor's CPUID starts from.
pub(crate) fn supported_cpuid(kvm: &Kvm) -> Result<CpuId, BenchError> {
    kvm.get_supported_cpuid(KVM_MAX_CPUID_ENTRIES)
        .map_err(|error| BenchError::kvm("KVM_GET_SUPPORTED_CPUID", error))
}

/// Gives a processor its CPUID: the host's features and the virtual machine's own topology.
pub(crate) fn set_cpuid(
    vcpu: &VcpuFd,
    supported: &CpuId,
    configuration: &Configuration,
    topology: &Topology,
    apic_id: u32,
) -> Result<(), BenchError> {
    let mut cpuid = supported.clone();
    for entry in cpuid.as_mut_slice() {
        adapt(entry, configuration, topology, apic_id);
    }
    vcpu.set_cpuid2(&cpuid).map_err(|error| BenchError::kvm("KVM_SET_CPUID2", error))
}

/// [SDM2 "CPUID—CPU Identification"] [APM3 "CPUID Fn8000_001E"]
fn adapt(
    entry: &mut kvm_cpuid_entry2,
    configuration: &Configuration,
    topology: &Topology,
    apic_id: u32,
) {
    let package = topology.cpus_per(Level::Socket) as u32;
    match (entry.function, entry.index) {
        (1, _) => {
            let logical = package.min(0xFF);
            entry.ebx = entry.ebx & 0x0000_FFFF | logical << 16 | apic_id << 24;
            entry.ecx |= TSC_DEADLINE | HYPERVISOR;
            entry.ecx &= if configuration.has_x2apic { !0 } else { !X2APIC };
        }
        (0xB, level) => {
            let (bits, cpus, kind) = match level {
                0 => (topology.shift(Level::Core), 1 << topology.shift(Level::Core), 1),
                1 => (topology.shift(Level::Socket), package, 2),
                _ => (0, 0, 0),
            };
            entry.eax = bits;
            entry.ebx = cpus;
            entry.ecx = level | kind << 8;
            entry.edx = apic_id;
        }
        (0x4000_0001, _) if configuration.has_wide_ids() => entry.eax |= EXTENDED_DESTINATIONS,
        (0x8000_0008, _) => {
            let bits = topology.shift(Level::Socket);
            entry.ecx = bits << 12 | (package - 1).min(0xFF);
        }
        (0x8000_001E, _) => {
            entry.eax = apic_id;
            entry.ebx = apic_id;
            entry.ecx = 0;
        }
        _ => {}
    }
}

/// Puts a processor's APIC into x2APIC mode, as firmware does where an identifier does not fit into
/// an xAPIC's. [X2APIC "x2APIC Initialization"]
pub(crate) fn enter_x2apic(vcpu: &VcpuFd) -> Result<(), BenchError> {
    let mut special = vcpu.get_sregs().map_err(|error| BenchError::kvm("KVM_GET_SREGS", error))?;
    let base = ApicBase::from_bits(special.apic_base).with_is_enabled(true).with_is_x2apic(true);
    special.apic_base = base.into_bits();
    vcpu.set_sregs(&special).map_err(|error| BenchError::kvm("KVM_SET_SREGS", error))
}

/// Leaves string instructions fast, as firmware does. Linux takes back the feature of fast long
/// strings where they are not, and up to 6.1 moves memory wrongly if that of short ones is left.
/// [SDM4 "IA32_MISC_ENABLE"]
pub(crate) fn enable_fast_strings(vcpu: &VcpuFd) -> Result<(), BenchError> {
    let request = "KVM_GET_MSRS";
    let asked = kvm_msr_entry { index: msr::MISC_ENABLE, ..Default::default() };
    let mut msrs = Msrs::from_entries(&[asked]).map_err(|_| refused(request))?;
    match vcpu.get_msrs(&mut msrs).map_err(|error| BenchError::kvm(request, error))? {
        1 => {}
        _ => return Err(refused(request)),
    }
    let value = msrs.as_slice()[0].data | FAST_STRINGS;
    write_msr(vcpu, "KVM_SET_MSRS", msr::MISC_ENABLE, value)
}

pub(crate) fn write_msr(
    vcpu: &VcpuFd,
    request: &'static str,
    index: u32,
    data: u64,
) -> Result<(), BenchError> {
    let entry = kvm_msr_entry { index, data, ..Default::default() };
    let msrs = Msrs::from_entries(&[entry]).map_err(|_| refused(request))?;
    // KVM stops at the first register that it refuses, and says how many it took.
    match vcpu.set_msrs(&msrs).map_err(|error| BenchError::kvm(request, error))? {
        1 => Ok(()),
        _ => Err(refused(request)),
    }
}

fn refused(request: &'static str) -> BenchError {
    BenchError::kvm(request, kvm_ioctls::Error::new(libc::EINVAL))
}

/// Puts the bootstrap processor at the kernel's first instruction.
pub(crate) fn start(vcpu: &VcpuFd, boot: &BootState) -> Result<(), BenchError> {
    let mut special = vcpu.get_sregs().map_err(|error| BenchError::kvm("KVM_GET_SREGS", error))?;
    let is_long = boot.mode == EntryMode::Long64;
    let code = flat(boot.code_selector, 0xB, is_long);
    let data = flat(boot.data_selector, 0x3, false);
    special.cs = code;
    for segment in
        [&mut special.ds, &mut special.es, &mut special.fs, &mut special.gs, &mut special.ss]
    {
        *segment = data;
    }
    special.tr = kvm_segment {
        selector: boot.task_selector,
        limit: 0x67,
        type_: 0xB,
        present: 1,
        ..kvm_segment::default()
    };
    special.gdt.base = boot.gdt.0;
    special.gdt.limit = boot.gdt_limit;
    // Protection enable and extension type.
    special.cr0 = 0x11;
    if let (true, Some(tables)) = (is_long, boot.cr3) {
        special.cr4 = 1 << 5;
        special.cr3 = tables.0;
        special.efer = 1 << 8 | 1 << 10;
        special.cr0 |= 1 << 31;
    }
    vcpu.set_sregs(&special).map_err(|error| BenchError::kvm("KVM_SET_SREGS", error))?;
    let registers = kvm_regs {
        rip: boot.entry,
        rax: boot.registers.rax,
        rbx: boot.registers.rbx,
        rsi: boot.registers.rsi,
        rsp: boot.registers.rsp,
        rflags: 2,
        ..kvm_regs::default()
    };
    vcpu.set_regs(&registers).map_err(|error| BenchError::kvm("KVM_SET_REGS", error))
}

/// A segment of 4 GiB at 0, present, ring 0.
fn flat(selector: u16, type_: u8, is_long: bool) -> kvm_segment {
    kvm_segment {
        base: 0,
        limit: 0xFFFF_FFFF,
        selector,
        type_,
        present: 1,
        dpl: 0,
        db: u8::from(!is_long),
        s: 1,
        l: u8::from(is_long),
        g: 1,
        ..kvm_segment::default()
    }
}
