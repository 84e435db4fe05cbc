//! Where AMD's and Intel's processors differ outside hardware virtualization, MSRs and CPUID: a row
//! each, so that what an instruction does reads without a vendor's name.

use crate::CpuModel;
use crate::operation::Dialect;
use crate::vector::packed_float::Sums;

/// What a vendor's processors do.
pub(crate) struct Differences {
    /// Breakpoints on the instruction behind a load of SS are taken.
    /// [SDM3 "Masking Exceptions and Interrupts When Switching Stacks"]
    pub breaks_behind_stack_load: bool,
    /// SYSCALL and SYSRET exist outside long mode. [APM3 "SYSCALL"] [SDM2 "SYSCALL"]
    pub has_legacy_syscall: bool,
    /// SYSENTER and SYSEXIT exist in long mode. [APM3 "SYSENTER"] [SDM2 "SYSENTER"]
    pub has_long_sysenter: bool,
    /// SYSRET checks its target; elsewhere it faults when it is fetched. [SDM2 "SYSRET"]
    pub checks_sysret_target: bool,
    /// FXSAVE, XSAVE and their kin save the x87 unit's pointers only where an exception is pending.
    /// [APM2 "FXSAVE and FXRSTOR Instructions"]
    pub saves_pointers_of_exceptions_alone: bool,
    /// EXT is set in the error code of an exception that another's delivery raises. AMD's manual
    /// says that EXT is for external sources, and Linux's selftest nested_exceptions_test, made for
    /// real parts, holds its processors to it. [APM2 "Selector-Error Code"] [SDM3 "Error Code"]
    pub counts_exceptions_as_external: bool,
    /// WRMSR of the x2APIC's registers and of its timer's deadline serializes, as of others.
    /// Intel's manual excepts them, AMD's excepts none. [SDM3 "MSR Access in x2APIC Mode"]
    /// [SDM3 "TSC-Deadline Mode"] [APM2 "Serializing Instructions"]
    pub serializes_apic_writes: bool,
    /// In which order DPPS and DPPD add.
    pub dot_products: Sums,
    /// Bit 8 of the entries of the highest paging table must be zero.
    pub reserves_global_in_root: bool,
}

impl CpuModel {
    /// How its vendor's processors differ from others.
    pub(crate) fn differences(&self) -> &'static Differences {
        match self.dialect() {
            Dialect::Amd => &Differences {
                breaks_behind_stack_load: true,
                has_legacy_syscall: true,
                has_long_sysenter: false,
                checks_sysret_target: false,
                saves_pointers_of_exceptions_alone: true,
                counts_exceptions_as_external: false,
                serializes_apic_writes: true,
                dot_products: Sums::Once,
                reserves_global_in_root: true,
            },
            Dialect::Intel => &Differences {
                breaks_behind_stack_load: false,
                has_legacy_syscall: false,
                has_long_sysenter: true,
                checks_sysret_target: true,
                saves_pointers_of_exceptions_alone: false,
                counts_exceptions_as_external: true,
                serializes_apic_writes: false,
                dot_products: Sums::ByLane,
                reserves_global_in_root: false,
            },
        }
    }
}
