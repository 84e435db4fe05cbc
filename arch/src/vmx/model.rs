//! The capabilities of Intel's server parts, as public dumps of their MSRs show them. What a
//! machine offers of them is its own decision.
//!
//! Not in the dumps: which VM functions and tertiary controls there are. Every part with VM
//! functions has EPTP switching, the only one that exists. IPI virtualization is what kernels use
//! of the tertiary controls on Sapphire Rapids.

use super::capability::{Allowed, Basic, EptVpid, Misc, VmxCapabilities};
use super::control::{SecondaryControls, TertiaryControls, VmFunctions};

/// A row: the MSRs 480h, 48Dh, 48Eh, 48Fh, 490h, 485h, 48Bh and 48Ch.
struct Dump {
    basic: u64,
    pin: u64,
    primary: u64,
    exit: u64,
    entry: u64,
    misc: u64,
    secondary: u64,
    ept_vpid: u64,
}

impl Dump {
    const fn capabilities(self, tertiary: TertiaryControls) -> VmxCapabilities {
        let secondary = SecondaryControls::from_bits_retain((self.secondary >> 32) as u32);
        let functions = if secondary.contains(SecondaryControls::VM_FUNCTIONS) {
            VmFunctions::EPTP_SWITCHING
        } else {
            VmFunctions::empty()
        };
        VmxCapabilities {
            basic: Basic::from_bits(self.basic),
            pin: Allowed::from_msr(self.pin),
            primary: Allowed::from_msr(self.primary),
            secondary,
            tertiary,
            exit: Allowed::from_msr(self.exit),
            secondary_exit: 0,
            entry: Allowed::from_msr(self.entry),
            misc: Misc::from_bits(self.misc),
            ept_vpid: EptVpid::from_bits_retain(self.ept_vpid),
            functions,
        }
    }
}

/// Xeon E5 v2, signature 306E4h: the first with APICv. The dump is of the desktop part of the same
/// die, which lacks posted interrupts (pin control 7), APIC-register virtualization and
/// virtual-interrupt delivery (secondary controls 8 and 9); these are added here, since
/// measurements of APICv were published for the server part.
pub const IVY_BRIDGE_EP: VmxCapabilities = Dump {
    basic: 0x00DA_0400_0000_0010,
    pin: 0x0000_00FF_0000_0016,
    primary: 0xFFF9_FFFE_0400_6172,
    exit: 0x007F_FFFF_0003_6DFB,
    entry: 0x0000_FFFF_0000_11FB,
    misc: 0x1004_01E5,
    secondary: 0x0000_0FFF_0000_0000,
    ept_vpid: 0x0000_0F01_0613_4141,
}
.capabilities(TertiaryControls::empty());

/// Xeon E5-2699 v3, signature 306F2h.
pub const HASWELL_EP: VmxCapabilities = Dump {
    basic: 0x00DA_0400_0000_0012,
    pin: 0x0000_00FF_0000_0016,
    primary: 0xFFF9_FFFE_0400_6172,
    exit: 0x007F_FFFF_0003_6DFB,
    entry: 0x0000_FFFF_0000_11FB,
    misc: 0x3004_81E5,
    secondary: 0x0000_7FFF_0000_0000,
    ept_vpid: 0x0000_0F01_0633_4141,
}
.capabilities(TertiaryControls::empty());

/// Xeon Platinum 8160, signature 50654h.
pub const SKYLAKE_SP: VmxCapabilities = Dump {
    basic: 0x00DA_0400_0000_0004,
    pin: 0x0000_00FF_0000_0016,
    primary: 0xFFF9_FFFE_0400_6172,
    exit: 0x01FF_FFFF_0003_6DFB,
    entry: 0x0003_FFFF_0000_11FB,
    misc: 0x7004_C1E7,
    secondary: 0x025F_7FFF_0000_0000,
    ept_vpid: 0x0000_0F01_0673_4141,
}
.capabilities(TertiaryControls::empty());

/// Third-generation Xeon Scalable, signature 606A6h.
pub const ICE_LAKE_SP: VmxCapabilities = Dump {
    basic: 0x00DA_0500_0000_0013,
    pin: 0x0000_00FF_0000_0016,
    primary: 0xFFF9_FFFE_0400_6172,
    exit: 0x037F_FFFF_0003_6DFB,
    entry: 0x0006_FFFF_0000_11FB,
    misc: 0x7004_C1E7,
    secondary: 0x4BDF_FFFF_0000_0000,
    ept_vpid: 0x0000_0F01_0673_41C1,
}
.capabilities(TertiaryControls::empty());

/// Xeon w7-2475X, signature 806F8h.
pub const SAPPHIRE_RAPIDS: VmxCapabilities = Dump {
    basic: 0x03DA_0500_0000_0013,
    pin: 0x0000_00FF_0000_0016,
    primary: 0xFFFB_FFFE_0400_6172,
    exit: 0xFF7F_FFFF_0003_6DFB,
    entry: 0x007E_FFFF_0000_11FB,
    misc: 0x7004_C1E7,
    secondary: 0xCFFF_3FFF_0000_0000,
    ept_vpid: 0x0001_0F01_06F3_41C1,
}
.capabilities(TertiaryControls::IPI_VIRTUALIZATION);

/// The capabilities of the CPU models by their names.
pub const MODELS: &[(&str, VmxCapabilities)] = &[
    ("ivy-bridge-ep", IVY_BRIDGE_EP),
    ("haswell-ep", HASWELL_EP),
    ("skylake-sp", SKYLAKE_SP),
    ("ice-lake-sp", ICE_LAKE_SP),
    ("sapphire-rapids", SAPPHIRE_RAPIDS),
];
