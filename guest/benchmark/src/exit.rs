//! Operations that a hypervisor usually intercepts, each alone between two time stamps. `nothing`
//! is the cost of the two time stamps; it is contained in every other figure.

use crate::selection::Selection;
use crate::statistics::FIRST;
use arch::apic::Register;
use runtime::instruction::{
    self, UnusedMsr, cpuid, cpuid_if_present, in8, out8, read_msr, time_stamp, write_unused_msr,
};
use runtime::{apic, memory};

const IO_APIC: u64 = 0xFEC0_0000;
/// Power-on self test codes: written by firmware, read by nobody.
const POST_PORT: u16 = 0x80;
const PIT_GATE: u16 = 0x61;
const CPUID_7_EBX_TSC_ADJUST: u32 = 1 << 1;

fn series(selection: &Selection, name: &str, apic: Option<&str>, operation: impl Fn()) {
    for index in 0..selection.warmup + selection.samples {
        if index == selection.warmup {
            FIRST.clear();
        }
        let start = time_stamp();
        operation();
        FIRST.add(time_stamp() - start);
    }
    match apic {
        Some(apic) => FIRST.report(format_args!("\"test\":\"{name}\",\"apic\":\"{apic}\"")),
        None => FIRST.report(format_args!("\"test\":\"{name}\"")),
    }
}

/// What has nothing to do with the APIC's mode.
pub fn measure(selection: &Selection) {
    let run = |name, operation: &dyn Fn()| series(selection, name, None, operation);
    run("nothing", &|| {});
    run("cpuid", &|| {
        core::hint::black_box(cpuid(0, 0));
    });
    run("rdmsr_apic_base", &|| {
        core::hint::black_box(read_msr(arch::msr::APIC_BASE));
    });
    run("wrmsr_kernel_gs_base", &|| write_unused_msr(UnusedMsr::KernelGsBase, 0));
    if cpuid_if_present(7, 0).ebx & CPUID_7_EBX_TSC_ADJUST != 0 {
        let value = read_msr(arch::msr::TSC_ADJUST);
        run("wrmsr_tsc_adjust", &|| write_unused_msr(UnusedMsr::TscAdjust, value));
    }
    run("mmio_read_io_apic", &|| {
        core::hint::black_box(memory::read_device(IO_APIC));
    });
    run("port_read_61h", &|| {
        core::hint::black_box(in8(PIT_GATE));
    });
    run("port_write_80h", &|| out8(POST_PORT, 0));
    run("mov_to_cr8", &|| instruction::set_task_priority_class(0));
}

/// Registers of the APIC that acceleration reads or writes without an exit, or not.
pub fn measure_apic(selection: &Selection, apic: &str) {
    let run = |name, operation: &dyn Fn()| series(selection, name, Some(apic), operation);
    run("apic_read_id", &|| {
        core::hint::black_box(apic::read(Register::Id));
    });
    run("apic_write_task_priority", &|| apic::write(Register::TaskPriority, 0));
    run("apic_read_current_count", &|| {
        core::hint::black_box(apic::read(Register::CurrentCount));
    });
    run("apic_write_initial_count", &|| apic::write(Register::InitialCount, 0));
}
