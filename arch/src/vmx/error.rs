//! How VMX instructions and VM exits fail. [SDM3 "VM Instruction Error Numbers"]

use serde::{Deserialize, Serialize};

macro_rules! codes {
    ($(#[$doc:meta])* $type:ident { $($(#[$row:meta])* $name:ident = $value:literal,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
        pub enum $type {
            $($(#[$row])* $name,)*
            Unknown(u32),
        }

        impl $type {
            /// Every code that the manual names.
            pub const ALL: &[Self] = &[$(Self::$name),*];

            pub const fn from_bits(bits: u32) -> Self {
                match bits {
                    $($value => Self::$name,)*
                    other => Self::Unknown(other),
                }
            }

            pub const fn into_bits(self) -> u32 {
                match self {
                    $(Self::$name => $value,)*
                    Self::Unknown(bits) => bits,
                }
            }
        }
    };
}

codes! {
    /// The VM-instruction error field (4400h) after VMfailValid.
    InstructionError {
        VmcallInRoot = 1,
        VmclearAddress = 2,
        VmclearOfVmxonRegion = 3,
        VmlaunchOfNonClear = 4,
        VmresumeOfNonLaunched = 5,
        VmresumeAfterVmxoff = 6,
        EntryControls = 7,
        EntryHostState = 8,
        VmptrldAddress = 9,
        VmptrldOfVmxonRegion = 10,
        VmptrldRevision = 11,
        UnsupportedField = 12,
        ReadOnlyField = 13,
        VmxonInRoot = 15,
        EntryExecutivePointer = 16,
        EntryExecutiveNotLaunched = 17,
        EntryExecutiveNotVmxon = 18,
        VmcallNonClear = 19,
        VmcallExitControls = 20,
        VmcallMsegRevision = 22,
        VmxoffUnderDualMonitor = 23,
        VmcallSmmFeatures = 24,
        EntryExecutiveControls = 25,
        EntryWhileMovSsBlocks = 26,
        /// INVEPT or INVVPID with a type or descriptor that is not supported.
        InvalidateOperand = 28,
    }
}

codes! {
    /// The VMX-abort indicator, the second dword of the VMCS region. [SDM3 "VMX Aborts"]
    AbortCode {
        SavingMsrs = 1,
        HostPdptes = 2,
        CorruptVmcs = 3,
        LoadingMsrs = 4,
        MachineCheck = 5,
        /// The guest was in IA-32e mode and "host address-space size" is 0.
        AddressSpaceSize = 6,
    }
}

/// Where the VMX-abort indicator lies in the VMCS region.
pub const ABORT_INDICATOR_OFFSET: u64 = 4;
