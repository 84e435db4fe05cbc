//! How VMX instructions and VM exits fail. [SDM3 "VM Instruction Error Numbers"]

use serde::{Deserialize, Serialize};

macro_rules! codes {
    ($(#[$doc:meta])* $type:ident { $($(#[$row:meta])* $name:ident = $value:literal,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
        pub enum $type {
            $(
                #[doc = concat!("Number ", stringify!($value), ".")]
                $(#[$row])*
                $name,
            )*
            /// A number that the manual does not list.
            Unknown(u32),
        }

        impl $type {
            /// Every code that the manual names.
            pub const ALL: &[Self] = &[$(Self::$name),*];

            /// Decodes the 32 bits of the field.
            pub const fn from_bits(bits: u32) -> Self {
                match bits {
                    $($value => Self::$name,)*
                    other => Self::Unknown(other),
                }
            }

            /// The 32 bits of the field.
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
        /// VMCALL in VMX root operation, which has no SMM monitor to call.
        VmcallInRoot = 1,
        /// VMCLEAR with an address that is misaligned or too wide.
        VmclearAddress = 2,
        /// VMCLEAR with the VMXON pointer.
        VmclearOfVmxonRegion = 3,
        /// VMLAUNCH with a VMCS that is not clear.
        VmlaunchOfNonClear = 4,
        /// VMRESUME with a VMCS that is not launched.
        VmresumeOfNonLaunched = 5,
        /// VMRESUME of a VMCS that was launched before VMXOFF and VMXON.
        VmresumeAfterVmxoff = 6,
        /// VM entry with invalid control fields.
        EntryControls = 7,
        /// VM entry with invalid host-state fields.
        EntryHostState = 8,
        /// VMPTRLD with an address that is misaligned or too wide.
        VmptrldAddress = 9,
        /// VMPTRLD with the VMXON pointer.
        VmptrldOfVmxonRegion = 10,
        /// VMPTRLD of a region that has another revision, or a shadow where none can be.
        VmptrldRevision = 11,
        /// VMREAD or VMWRITE of a field that the processor does not have.
        UnsupportedField = 12,
        /// VMWRITE to a read-only field.
        ReadOnlyField = 13,
        /// VMXON in VMX root operation.
        VmxonInRoot = 15,
        /// VM entry from SMM with an invalid executive-VMCS pointer.
        EntryExecutivePointer = 16,
        /// VM entry from SMM with an executive VMCS that is not launched.
        EntryExecutiveNotLaunched = 17,
        /// VM entry from SMM whose executive-VMCS pointer is not the VMXON pointer.
        EntryExecutiveNotVmxon = 18,
        /// VMCALL to the SMM monitor with a VMCS that is not clear.
        VmcallNonClear = 19,
        /// VMCALL to the SMM monitor with invalid VM-exit control fields.
        VmcallExitControls = 20,
        /// VMCALL to the SMM monitor whose MSEG has another revision.
        VmcallMsegRevision = 22,
        /// VMXOFF under dual-monitor treatment of SMIs.
        VmxoffUnderDualMonitor = 23,
        /// VMCALL to the SMM monitor whose MSEG asks for features that do not exist.
        VmcallSmmFeatures = 24,
        /// VM entry from SMM with invalid control fields of the executive VMCS.
        EntryExecutiveControls = 25,
        /// VM entry while MOV to SS or POP SS blocks events.
        EntryWhileMovSsBlocks = 26,
        /// INVEPT or INVVPID with a type or descriptor that is not supported.
        InvalidateOperand = 28,
    }
}

codes! {
    /// The VMX-abort indicator, the second dword of the VMCS region. [SDM3 "VMX Aborts"]
    AbortCode {
        /// The guest's MSRs could not be stored.
        SavingMsrs = 1,
        /// The host's page-directory pointers have reserved bits.
        HostPdptes = 2,
        /// The current VMCS does not hold what the processor left there.
        CorruptVmcs = 3,
        /// The host's MSRs could not be loaded.
        LoadingMsrs = 4,
        /// A machine check during the exit.
        MachineCheck = 5,
        /// The guest was in IA-32e mode and "host address-space size" is 0.
        AddressSpaceSize = 6,
    }
}

impl AbortCode {
    /// What the exit could not do, in words that follow "VMX abort N:".
    pub const fn text(self) -> &'static str {
        match self {
            Self::SavingMsrs => "the guest's MSRs could not be stored",
            Self::HostPdptes => "the host's page-directory pointers have reserved bits",
            Self::CorruptVmcs => "the current VMCS is corrupt",
            Self::LoadingMsrs => "the host's MSRs could not be loaded",
            Self::MachineCheck => "a machine check came during the exit",
            Self::AddressSpaceSize => {
                "the guest was in IA-32e mode and the host address-space size is 32 bits"
            }
            Self::Unknown(_) => "the manual does not list this code",
        }
    }
}

/// Where the VMX-abort indicator lies in the VMCS region.
pub const ABORT_INDICATOR_OFFSET: u64 = 4;
