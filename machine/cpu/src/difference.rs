//! Where AMD's and Intel's processors differ outside hardware virtualization, MSRs and CPUID: a
//! question each, so that what an instruction does reads without a vendor's name.

use crate::CpuModel;

impl CpuModel {
    /// Whether breakpoints on the instruction behind a load of SS are taken: AMD's processors take
    /// them, Intel's do not. [SDM3 "Masking Exceptions and Interrupts When Switching Stacks"]
    pub(crate) fn breaks_behind_stack_load(&self) -> bool {
        self.is_amd()
    }

    /// Whether SYSCALL and SYSRET exist outside long mode. [APM3 "SYSCALL"] [SDM2 "SYSCALL"]
    pub(crate) fn has_legacy_syscall(&self) -> bool {
        self.is_amd()
    }

    /// Whether SYSENTER and SYSEXIT exist in long mode. [APM3 "SYSENTER"] [SDM2 "SYSENTER"]
    pub(crate) fn has_long_sysenter(&self) -> bool {
        !self.is_amd()
    }

    /// Whether SYSRET checks its target; elsewhere it faults when it is fetched.
    /// [SDM2 "SYSRET"]
    pub(crate) fn checks_sysret_target(&self) -> bool {
        !self.is_amd()
    }

    /// Whether FXSAVE, XSAVE and their kin save the x87 unit's pointers only where an exception is
    /// pending. [APM2 "FXSAVE and FXRSTOR Instructions"]
    pub(crate) fn saves_pointers_of_exceptions_alone(&self) -> bool {
        self.is_amd()
    }

    /// Whether bit 8 of the entries of the highest paging table must be zero.
    pub(crate) fn reserves_global_in_root(&self) -> bool {
        self.is_amd()
    }
}
