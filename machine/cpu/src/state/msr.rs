//! Model-specific registers that mostly hold what was written to them.

use super::branch_record::BranchRecords;
use serde::{Deserialize, Serialize};

/// Machine-check banks.
pub(crate) const BANKS: usize = 7;

/// [SDM4 "IA32_MISC_ENABLE"]
pub(crate) mod misc_enable {
    pub const FAST_STRINGS: u64 = 1 << 0;
    /// Branch trace storage and precise event sampling do not exist.
    pub const UNAVAILABLE: u64 = 1 << 11 | 1 << 12;
    pub const MONITOR: u64 = 1 << 18;
    pub const LIMIT_CPUID: u64 = 1 << 22;
    pub const NO_EXECUTE_DISABLE: u64 = 1 << 34;
    /// Thermal control, SpeedStep and xTPR messages can be switched, and nothing follows from it.
    pub const WRITABLE: u64 =
        FAST_STRINGS | 1 << 3 | 1 << 16 | MONITOR | LIMIT_CPUID | 1 << 23 | NO_EXECUTE_DISABLE;
    pub const RESET: u64 = FAST_STRINGS | UNAVAILABLE | MONITOR;
}

/// MSRs that only hold what was written.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MsrState {
    pub tsc_aux: u64,
    pub tsc_adjust: u64,
    pub pat: u64,
    pub mtrr_default: u64,
    pub mtrr_fixed: [u64; 11],
    pub mtrr_variable: [u64; 16],
    pub mcg_status: u64,
    pub mcg_ctl: u64,
    pub machine_check: [[u64; 4]; BANKS],
    pub debug_ctl: u64,
    pub branch_records: BranchRecords,
    pub hwcr: u64,
    pub syscfg: u64,
    pub xss: u64,
    pub spec_ctrl: u64,
    pub ls_cfg: u64,
    pub de_cfg: u64,
    pub microcode: u64,
    pub misc_enable: u64,
    /// PERF_CTL and PERF_CTR by turns. [APM2 "Performance Counter MSRs"]
    ///
    /// DEVIATION(APM2 "Performance Counters"): they keep what is written and do not count.
    pub performance: [u64; 12],
}

impl Default for MsrState {
    fn default() -> Self {
        Self {
            tsc_aux: 0,
            tsc_adjust: 0,
            pat: 0x0007_0406_0007_0406,
            mtrr_default: 0xC06,
            mtrr_fixed: [0x0606_0606_0606_0606; 11],
            mtrr_variable: [0; 16],
            mcg_status: 0,
            mcg_ctl: u64::MAX,
            machine_check: [[0; 4]; BANKS],
            debug_ctl: 0,
            branch_records: BranchRecords::default(),
            hwcr: 1 << 24,
            syscfg: 0,
            xss: 0,
            spec_ctrl: 0,
            ls_cfg: 0,
            de_cfg: 2,
            microcode: 0,
            misc_enable: misc_enable::RESET,
            performance: [0; 12],
        }
    }
}
