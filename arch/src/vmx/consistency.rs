//! The rules that VM entry checks a VMCS against. [SDM3 "VM Entries"]
//!
//! A processor says whether controls, host state or guest state break one, not which; the numbers
//! here are ours.

use core::fmt::{Display, Formatter, Result};
use serde::{Deserialize, Serialize};

macro_rules! rules {
    ($($number:literal $name:ident $text:literal,)*) => {
        /// The rule that a VMCS breaks: VM entry fails.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
        pub enum Broken {
            $(#[doc = $text] $name = $number,)*
        }

        impl Broken {
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

            /// What is demanded.
            pub const fn text(self) -> &'static str {
                match self {
                    $(Self::$name => $text,)*
                }
            }
        }
    };
}

impl Display for Broken {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        f.write_str(self.text())
    }
}

rules! {
    0 PinBasedControlsSupported "pin-based controls are supported",
    1 PrimaryControlsSupported "primary controls are supported",
    2 SecondaryControlsSupported "secondary controls are supported",
    3 TertiaryControlsSupported "tertiary controls are supported",
    4 Cr3TargetCountSupported "the CR3-target count is supported",
    5 IoBitmapAPage "I/O bitmap A is a page",
    6 IoBitmapBPage "I/O bitmap B is a page",
    7 MsrBitmapsPage "the MSR bitmaps are a page",
    8 VmreadBitmapPage "the VMREAD bitmap is a page",
    9 VmwriteBitmapPage "the VMWRITE bitmap is a page",
    10 VeInformationAreaPage "the #VE information area is a page",
    11 TscMultiplierNotZero "the TSC multiplier is not zero",
    12 VirtualNmisNeedNmiExiting "virtual NMIs need NMI exiting",
    13 NmiWindowExitingNeedsVirtualNmis "NMI-window exiting needs virtual NMIs",
    14 VirtualApicAddressPage "the virtual-APIC address is a page",
    15 TprThresholdFourBits "the TPR threshold has four bits",
    16 TprThresholdNotAboveVtpr "the TPR threshold is not above VTPR",
    17 ApicVirtualizationNeedsTprShadow "APIC virtualization needs the TPR shadow",
    18 IpiVirtualizationNeedsTprShadow "IPI virtualization needs the TPR shadow",
    19 ApicAccessAddressPage "the APIC-access address is a page",
    20 X2apicModeWithoutApicAccesses "x2APIC mode and APIC accesses are not virtualized together",
    21 VirtualInterruptDeliveryNeedsExternalInterruptExiting "virtual-interrupt delivery needs external-interrupt exiting",
    22 PostedInterruptsNeedVirtualInterruptDelivery "posted interrupts need virtual-interrupt delivery",
    23 PostedInterruptsNeedAcknowledgementExit "posted interrupts need acknowledgement on exit",
    24 NotificationVectorEightBits "the notification vector has eight bits",
    25 PostedInterruptDescriptorAligned64Bytes "the posted-interrupt descriptor is aligned to 64 bytes",
    26 PidPointerTablePhysicalMemoryAligned8Bytes "the PID-pointer table is physical memory aligned to 8 bytes",
    27 VpidNotZero "a VPID is not zero",
    28 EptPointerLegal "the EPT pointer is legal",
    29 EptControlsNeedEpt "controls of EPT need EPT",
    30 PageModificationLogPage "the page-modification log is a page",
    31 VmFunctionsSupported "the VM functions are supported",
    32 EptpSwitchingNeedsEpt "EPTP switching needs EPT",
    33 EptpListPage "the EPTP list is a page",
    34 ExitControlsSupported "exit controls are supported",
    35 SavingPreemptionTimerNeedsTimer "saving the preemption timer needs the timer",
    36 VmExitMsrStoreAreaLegal "the VM-exit MSR-store area is legal",
    37 VmExitMsrLoadAreaLegal "the VM-exit MSR-load area is legal",
    38 EntryControlsSupported "entry controls are supported",
    39 EntryToSmmFromSmm "entries to SMM come from SMM",
    40 VmEntryMsrLoadAreaLegal "the VM-entry MSR-load area is legal",
    41 ReservedBitsInjectedEventZero "reserved bits of the injected event are zero",
    42 TypeVectorInjectedEventGoTogether "type and vector of the injected event go together",
    43 InjectedInstructionLegalLength "the injected instruction has a legal length",
    44 ErrorCodeGoesWithException "an error code is injected where the exception has one",
    45 ErrorCodeSixteenBits "the error code has sixteen bits",
    46 HostCr0FixedBits "host CR0 has its fixed bits",
    47 HostCr4FixedBits "host CR4 has its fixed bits",
    48 HostCr3Physical "host CR3 is physical",
    49 HostSysenterEspCanonical "host SYSENTER_ESP is canonical",
    50 HostSysenterEipCanonical "host SYSENTER_EIP is canonical",
    51 HostPatLegalMemoryTypes "host PAT has legal memory types",
    52 HostEferNoReservedBit "host EFER has no reserved bit",
    53 HostEferAgreesHostAddressSpace "host EFER agrees with the host's address space",
    54 HostSelectorsGdtPrivilege0 "host selectors are of the GDT and privilege 0",
    55 HostCsNotNull "host CS is not null",
    56 HostTrNotNull "host TR is not null",
    57 Ss32BitHostNotNull "SS of a 32-bit host is not null",
    58 HostFsBaseCanonical "host FS base is canonical",
    59 HostGsBaseCanonical "host GS base is canonical",
    60 HostGdtrBaseCanonical "host GDTR base is canonical",
    61 HostIdtrBaseCanonical "host IDTR base is canonical",
    62 HostTrBaseCanonical "host TR base is canonical",
    63 HostAddressSpaceIsPresent "the host's address space is the present one",
    64 Host64BitPae "a 64-bit host has PAE",
    65 HostRipCanonical "host RIP is canonical",
    66 Host32BitNoIa32eGuest "a 32-bit host has no IA-32e guest",
    67 Host32BitNoPcids "a 32-bit host has no PCIDs",
    68 Rip32BitHost32Bits "RIP of a 32-bit host has 32 bits",
    69 GuestCr0FixedBits "guest CR0 has its fixed bits",
    70 GuestCr4FixedBits "guest CR4 has its fixed bits",
    71 GuestPagingNeedsProtection "guest paging needs protection",
    72 Ia32eGuestPagingPae "an IA-32e guest has paging and PAE",
    73 PcidsNeedIa32eGuest "PCIDs need an IA-32e guest",
    74 GuestCr3Physical "guest CR3 is physical",
    75 GuestSysenterEspCanonical "guest SYSENTER_ESP is canonical",
    76 GuestSysenterEipCanonical "guest SYSENTER_EIP is canonical",
    77 GuestDebugctlNoReservedBit "guest DEBUGCTL has no reserved bit",
    78 GuestDr7Is32Bits "guest DR7 has 32 bits",
    79 GuestPatLegalMemoryTypes "guest PAT has legal memory types",
    80 GuestEferNoReservedBit "guest EFER has no reserved bit",
    81 GuestEferLmaIa32eControl "guest EFER.LMA is the IA-32e control",
    82 GuestEferLmaUnderPaging "guest EFER.LMA is LME under paging",
    83 UpperBitsGuestRipIdentical "the upper bits of guest RIP are identical",
    84 GuestRip32BitsOutside64BitMode "guest RIP has 32 bits outside 64-bit mode",
    85 GuestRflagsNoReservedBit "guest RFLAGS has no reserved bit",
    86 GuestRflagsFixedBit "guest RFLAGS has its fixed bit",
    87 Virtual8086ModeProtectedMode "virtual-8086 mode is of protected mode",
    88 InjectedInterruptNeedsIf "an injected interrupt needs IF",
    89 GuestActivityStateSupported "the guest's activity state is supported",
    90 HaltedGuestPrivilege0 "a halted guest has privilege 0",
    91 GuestInterruptShadowActive "a guest in an interrupt shadow is active",
    92 ActivityStateTakesInjectedEvent "the activity state takes the injected event",
    93 InterruptibilityStateNoReservedBit "the interruptibility state has no reserved bit",
    94 StiAndMovSsNotTogether "STI and MOV SS do not block together",
    95 BlockingStiNeedsIf "blocking by STI needs IF",
    96 SmisBlockedInSmm "SMIs are blocked in SMM alone",
    97 EnclaveInterruptionNeedsSgx "an enclave interruption needs SGX",
    98 NoInterruptInjectedIntoShadow "no interrupt is injected into a shadow",
    99 NoNmiInjectedWhileMovSsBlocks "no NMI is injected while MOV SS blocks",
    100 NoNmiInjectedWhileStiBlocks "no NMI is injected while STI blocks",
    101 NoNmiInjectedWhileVirtualNmisBlocked "no NMI is injected while virtual NMIs are blocked",
    102 PendingDebugExceptionsNoReservedBit "pending debug exceptions have no reserved bit",
    103 PendingDebugExceptionsOutsideTransactions "pending debug exceptions outside transactions",
    104 PendingSingleStepAgreesTf "a pending single step agrees with TF",
    105 VmcsLinkPointerPage "the VMCS link pointer is a page",
    106 LinkedVmcsRevision "the linked VMCS has the revision",
    107 LinkedVmcsShadowUnderShadowing "the linked VMCS is a shadow under shadowing",
    108 VmcsDoesNotLinkItself "a VMCS does not link to itself",
    109 GuestPdptesNoReservedBit "guest PDPTEs have no reserved bit",
    110 GuestTrInGdt "guest TR is of the GDT",
    111 GuestLdtrInGdt "guest LDTR is of the GDT",
    112 GuestSsRplIsCsRpl "guest SS.RPL is CS.RPL",
    113 GuestTrBaseCanonical "guest TR base is canonical",
    114 GuestFsBaseCanonical "guest FS base is canonical",
    115 GuestGsBaseCanonical "guest GS base is canonical",
    116 GuestLdtrBaseCanonical "guest LDTR base is canonical",
    117 GuestCsBase32Bits "guest CS base has 32 bits",
    118 BasesGuestSsDsEs32Bits "bases of guest SS, DS and ES have 32 bits",
    119 Virtual8086BaseFollowsSelector "a virtual-8086 base follows the selector",
    120 Virtual8086LimitFfffh "a virtual-8086 limit is FFFFh",
    121 Virtual8086AccessRightsF3h "virtual-8086 access rights are F3h",
    122 GuestSegmentCodeOrData "a guest segment is code or data",
    123 GuestSegmentPresent "a guest segment is present",
    124 GuestAccessRightsNoReservedBit "guest access rights have no reserved bit",
    125 GuestSegmentLimitFitsGranularity "a guest segment's limit fits its granularity",
    126 GuestCsTypePrivilegeCode "guest CS has a type and privilege of code",
    127 Code64BitWithoutD "64-bit code has D = 0",
    128 GuestSsDplIsRpl "guest SS.DPL is SS.RPL",
    129 GuestSsDpl0RealMode "guest SS.DPL is 0 in real mode",
    130 GuestSsWritableData "guest SS is writable data",
    131 GuestDataSegmentAccessed "a guest data segment is accessed",
    132 CodeGuestDataSegmentReadable "code in a guest data segment is readable",
    133 GuestDataSegmentDplNotBelowRpl "a guest data segment's DPL is not below its RPL",
    134 GuestTrUsable "guest TR is usable",
    135 GuestTrBusyTss "guest TR is a busy TSS",
    136 GuestLdtrIsLdt "guest LDTR is an LDT",
    137 GuestSystemSegmentPresent "a guest system segment is present",
    138 GuestTableBasesCanonical "guest table bases are canonical",
    139 GuestTableLimitsSixteenBits "guest table limits have sixteen bits",
    140 GuestUinvEightBits "guest UINV has eight bits",
}
