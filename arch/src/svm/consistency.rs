//! The rules that VMRUN checks a VMCB against. [APM2 "Canonicalization and Consistency Checks"]
//!
//! A processor does not say which one a VMCB breaks; the numbers here are ours.

use serde::{Deserialize, Serialize};

macro_rules! rules {
    ($($(#[$doc:meta])* $number:literal $name:ident,)*) => {
        /// The rule that a VMCB breaks: VMRUN exits with VMEXIT_INVALID.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
        pub enum Illegal {
            $($(#[$doc])* $name = $number,)*
        }

        impl Illegal {
            /// What stands for the rule in a trace.
            pub const fn number(self) -> u8 {
                self as u8
            }

            /// `None` for a number that no rule has.
            pub const fn from_number(number: u8) -> Option<Self> {
                match number {
                    $($number => Some(Self::$name),)*
                    _ => None,
                }
            }
        }
    };
}

rules! {
    /// EFER.SVME is clear.
    0 SvmDisabled,
    /// CR0.NW is set and CR0.CD is not.
    1 CacheModes,
    /// Bits 63:32.
    2 ReservedCr0,
    /// Bits from the physical address width up.
    3 ReservedCr3,
    /// Bits that the processor does not define.
    4 ReservedCr4,
    /// Bits that the processor does not define.
    5 ReservedEfer,
    /// Bits 63:32 of DR6 or DR7.
    6 ReservedDebug,
    /// EFER.LME and CR0.PG are set, CR4.PAE is not.
    7 LongModeWithoutPae,
    /// EFER.LME and CR0.PG are set, CR0.PE is not.
    8 LongModeWithoutProtection,
    /// CS.L and CS.D are both set.
    9 LongAndDefaultBig,
    /// The intercept of VMRUN is clear.
    10 VmrunNotIntercepted,
    /// A permission map ends beyond the physical addresses, whether its intercept is on or not.
    11 PermissionMap,
    /// EVENTINJ names an event that does not exist.
    12 Event,
    /// The guest's ASID is 0.
    13 Asid,
    /// V_NMI_ENABLE is set, the intercept of NMIs is not.
    14 VirtualNmiWithoutIntercept,
    /// NP_ENABLE is set while the host's CR0.PG is clear.
    15 NestedPagingInUnpagedHost,
    /// CR4.CET is set, CR0.WP is not.
    16 ShadowStackWithoutWriteProtect,
    /// A pointer or an index of AVIC.
    17 Avic,
    /// Reserved bits in the page-directory pointers that CR3 of a PAE guest names.
    18 PageDirectoryPointers,
    /// The VMCB is not in memory.
    19 NoMemory,
    /// With nested paging: bits of nCR3 from the physical address width up. [APM2 "Nested Paging
    /// and VMRUN/#VMEXIT"]
    20 ReservedNestedCr3,
    /// With nested paging: a field of G_PAT that is not a memory type. [as above]
    21 GuestPat,
    /// TLB_CONTROL has an encoding that is reserved. [APM2 "TLB Flush"]
    22 TlbControl,
}
