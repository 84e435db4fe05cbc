//! Capability MSRs as public dumps of real parts show them.

use crate::vmx::capability::{CapabilityMsrs, VmxCapabilities};

/// Xeon E5 v2, signature 306E4h, with the APICv that the server part has and the desktop part, of
/// which the dump is, has not.
pub const IVY_BRIDGE_EP: VmxCapabilities = VmxCapabilities::from_msrs(CapabilityMsrs {
    basic: 0x00DA_0400_0000_0010,
    pin: 0x0000_00FF_0000_0016,
    primary: 0xFFF9_FFFE_0400_6172,
    exit: 0x007F_FFFF_0003_6DFB,
    entry: 0x0000_FFFF_0000_11FB,
    misc: 0x1004_01E5,
    secondary: 0x0000_0FFF_0000_0000,
    ept_vpid: 0x0000_0F01_0613_4141,
    tertiary: 0,
});

/// Xeon E5-2699 v3, signature 306F2h.
pub const HASWELL_EP: VmxCapabilities = VmxCapabilities::from_msrs(CapabilityMsrs {
    basic: 0x00DA_0400_0000_0012,
    pin: 0x0000_00FF_0000_0016,
    primary: 0xFFF9_FFFE_0400_6172,
    exit: 0x007F_FFFF_0003_6DFB,
    entry: 0x0000_FFFF_0000_11FB,
    misc: 0x3004_81E5,
    secondary: 0x0000_7FFF_0000_0000,
    ept_vpid: 0x0000_0F01_0633_4141,
    tertiary: 0,
});

/// Xeon Platinum 8160, signature 50654h.
pub const SKYLAKE_SP: VmxCapabilities = VmxCapabilities::from_msrs(CapabilityMsrs {
    basic: 0x00DA_0400_0000_0004,
    pin: 0x0000_00FF_0000_0016,
    primary: 0xFFF9_FFFE_0400_6172,
    exit: 0x01FF_FFFF_0003_6DFB,
    entry: 0x0003_FFFF_0000_11FB,
    misc: 0x7004_C1E7,
    secondary: 0x025F_7FFF_0000_0000,
    ept_vpid: 0x0000_0F01_0673_4141,
    tertiary: 0,
});

/// Xeon w7-2475X, signature 806F8h.
pub const SAPPHIRE_RAPIDS: VmxCapabilities = VmxCapabilities::from_msrs(CapabilityMsrs {
    basic: 0x03DA_0500_0000_0013,
    pin: 0x0000_00FF_0000_0016,
    primary: 0xFFFB_FFFE_0400_6172,
    exit: 0xFF7F_FFFF_0003_6DFB,
    entry: 0x007E_FFFF_0000_11FB,
    misc: 0x7004_C1E7,
    secondary: 0xCFFF_3FFF_0000_0000,
    ept_vpid: 0x0001_0F01_06F3_41C1,
    tertiary: 0x10,
});
