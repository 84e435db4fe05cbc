//! What a processor's VMX can do: the capability MSRs 480h–492h.
//! [SDM3 "VMX Capability Reporting Facility"]

use super::control::{
    ExitControls, PrimaryControls, SecondaryControls, TertiaryControls, VmFunctions,
};
use super::field::TABLE;
use super::msr;
use super::requirement::Requirement;
use bitfield_struct::bitfield;
use bitflags::bitflags;
use serde::{Deserialize, Serialize};

/// IA32_VMX_BASIC (480h). [SDM3 "Basic VMX Information"]
#[bitfield(u64)]
#[derive(PartialEq, Eq, Serialize, Deserialize)]
pub struct Basic {
    /// \[30:0\]
    #[bits(31)]
    pub revision: u32,
    __: bool,
    /// \[44:32\] bytes of a VMXON or VMCS region, at most 4096.
    #[bits(13)]
    pub region_size: u16,
    #[bits(3)]
    __: u8,
    /// \[48\] addresses of structures are limited to 32 bits.
    pub has_32_bit_addresses: bool,
    /// \[49\] dual-monitor treatment of SMIs.
    pub has_dual_monitor: bool,
    /// \[53:50\] 0 uncacheable, 6 write-back.
    #[bits(4)]
    pub memory_type: u8,
    /// \[54\] exits of INS and OUTS report instruction information.
    pub reports_string_io: bool,
    /// \[55\] the TRUE capability MSRs exist.
    pub has_true_controls: bool,
    /// \[56\] any exception may be injected with or without an error code.
    pub has_free_error_codes: bool,
    #[bits(7)]
    __: u8,
}

/// IA32_VMX_MISC (485h). [SDM3 "Miscellaneous Data"]
#[bitfield(u64)]
#[derive(PartialEq, Eq, Serialize, Deserialize)]
pub struct Misc {
    /// \[4:0\] the preemption timer counts when this bit of the TSC changes.
    #[bits(5)]
    pub timer_rate: u8,
    /// \[5\] exits store EFER.LMA into the "IA-32e mode guest" control.
    pub stores_long_mode: bool,
    /// \[6\]
    pub has_hlt_activity: bool,
    /// \[7\]
    pub has_shutdown_activity: bool,
    /// \[8\]
    pub has_wait_for_sipi_activity: bool,
    #[bits(5)]
    __: u8,
    /// \[14\]
    pub allows_processor_trace: bool,
    /// \[15\]
    pub reads_smbase_in_smm: bool,
    /// \[24:16\]
    #[bits(9)]
    pub cr3_targets: u16,
    /// \[27:25\] n: at most (n + 1) · 512 MSRs in a list are recommended.
    #[bits(3)]
    pub msr_list_size: u8,
    /// \[28\]
    pub can_block_smi_after_vmxoff: bool,
    /// \[29\] VMWRITE writes read-only fields too.
    pub writes_read_only_fields: bool,
    /// \[30\] software events may be injected with an instruction length of 0.
    pub injects_zero_length: bool,
    __: bool,
    /// \[63:32\]
    pub mseg_revision: u32,
}

bitflags! {
    /// IA32_VMX_EPT_VPID_CAP (48Ch). [SDM3 "VPID and EPT Capabilities"]
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
    pub struct EptVpid: u64 {
        /// Entries may allow fetches alone.
        const EXECUTE_ONLY = 1 << 0;
        /// Walks of four levels.
        const FOUR_LEVELS = 1 << 6;
        /// Walks of five levels.
        const FIVE_LEVELS = 1 << 7;
        /// An EPT pointer may give its tables the uncacheable type.
        const UNCACHEABLE_TABLES = 1 << 8;
        /// An EPT pointer may give its tables the write-back type.
        const WRITE_BACK_TABLES = 1 << 14;
        /// Leaves of 2 MiB.
        const PAGES_2M = 1 << 16;
        /// Leaves of 1 GiB.
        const PAGES_1G = 1 << 17;
        /// The instruction, with the types of bits 26:25.
        const INVEPT = 1 << 20;
        /// Accessed and dirty flags.
        const ACCESSED_AND_DIRTY = 1 << 21;
        /// Bits 11:9 of the exit qualification of EPT violations.
        const ADVANCED_VIOLATION = 1 << 22;
        /// An EPT pointer may enforce supervisor shadow-stack pages.
        const SHADOW_STACK = 1 << 23;
        /// The translations of one EPT pointer.
        const INVEPT_SINGLE = 1 << 25;
        /// The translations of all EPT pointers.
        const INVEPT_ALL = 1 << 26;
        /// The instruction, with the types of bits 43:40.
        const INVVPID = 1 << 32;
        /// The translations of one linear address of one VPID.
        const INVVPID_ADDRESS = 1 << 40;
        /// The translations of one VPID.
        const INVVPID_SINGLE = 1 << 41;
        /// The translations of all VPIDs but 0.
        const INVVPID_ALL = 1 << 42;
        /// The translations of one VPID, without those of global pages.
        const INVVPID_SINGLE_EXCEPT_GLOBALS = 1 << 43;
        /// 53:48: HLAT prefix sizes.
        const HLAT_PREFIX = 0x3F << 48;

        const _ = !0;
    }
}

/// Which settings of a 32-bit control vector a VM entry accepts.
/// [SDM3 "Allowed Settings of VM-Execution Controls"]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Allowed {
    /// Low half of a capability MSR: bits that must be 1.
    pub required: u32,
    /// High half: bits that may be 1.
    pub allowed: u32,
}

impl Allowed {
    /// Low half and high half of a capability MSR.
    pub const fn from_msr(value: u64) -> Self {
        Self { required: value as u32, allowed: (value >> 32) as u32 }
    }

    /// The capability MSR.
    pub const fn into_msr(self) -> u64 {
        (self.allowed as u64) << 32 | self.required as u64
    }

    /// Whether a VM entry takes the vector `bits`.
    pub const fn accepts(self, bits: u32) -> bool {
        bits & self.required == self.required && bits & !self.allowed == 0
    }

    /// The MSR for software that does not know the TRUE ones: the default-1 class is required.
    const fn with_default(self, default_1: u32) -> Self {
        Self { required: self.required | default_1, allowed: self.allowed }
    }

    /// What both have. `required` stays: such bits are reserved ones that read 1 everywhere.
    const fn common(self, other: u32) -> Self {
        Self { required: self.required, allowed: self.allowed & other | self.required }
    }
}

/// The default-1 classes. [SDM3 "Reserved Controls and Default Settings"]
mod default_1 {
    pub const PIN: u32 = 0x0000_0016;
    pub const PRIMARY: u32 = 0x0401_E172;
    pub const EXIT: u32 = 0x0003_6DFF;
    pub const ENTRY: u32 = 0x0000_11FF;
}

/// Values of the capability MSRs, of a dump for instance: 480h, 48Dh, 48Eh, 48Fh, 490h, 485h, 48Bh,
/// 48Ch and 492h. The first three vectors are those of the TRUE MSRs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "each is the value of the MSR of that name")]
pub struct CapabilityMsrs {
    pub basic: u64,
    pub pin: u64,
    pub primary: u64,
    pub exit: u64,
    pub entry: u64,
    pub misc: u64,
    pub secondary: u64,
    pub ept_vpid: u64,
    pub tertiary: u64,
}

/// All capabilities of one processor. 32-bit vectors are those of the TRUE MSRs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct VmxCapabilities {
    /// IA32_VMX_BASIC.
    pub basic: Basic,
    /// Of the pin-based controls.
    pub pin: Allowed,
    /// Of the primary processor-based controls.
    pub primary: Allowed,
    /// Those that may be 1; any may be 0.
    pub secondary: SecondaryControls,
    /// Those that may be 1; any may be 0.
    pub tertiary: TertiaryControls,
    /// Of the primary VM-exit controls.
    pub exit: Allowed,
    /// The secondary VM-exit controls that may be 1; any may be 0.
    pub secondary_exit: u64,
    /// Of the VM-entry controls.
    pub entry: Allowed,
    /// IA32_VMX_MISC.
    pub misc: Misc,
    /// IA32_VMX_EPT_VPID_CAP.
    pub ept_vpid: EptVpid,
    /// The VM functions that may be enabled.
    pub functions: VmFunctions,
}

/// CR0 bits that VMX operation fixes to 1: PE, NE and PG.
pub const CR0_FIXED0: u64 = 0x8000_0021;
/// CR0 bits that may be 1 in VMX operation.
pub const CR0_FIXED1: u64 = 0xFFFF_FFFF;
/// VMXE.
pub const CR4_FIXED0: u64 = 0x2000;

impl VmxCapabilities {
    /// What the MSRs say. Which VM functions there are is not in dumps: every part with VM
    /// functions has EPTP switching, the only one that exists.
    pub const fn from_msrs(msrs: CapabilityMsrs) -> Self {
        let secondary = SecondaryControls::from_bits_retain((msrs.secondary >> 32) as u32);
        let functions = if secondary.contains(SecondaryControls::VM_FUNCTIONS) {
            VmFunctions::EPTP_SWITCHING
        } else {
            VmFunctions::empty()
        };
        Self {
            basic: Basic::from_bits(msrs.basic),
            pin: Allowed::from_msr(msrs.pin),
            primary: Allowed::from_msr(msrs.primary),
            secondary,
            tertiary: TertiaryControls::from_bits_retain(msrs.tertiary),
            exit: Allowed::from_msr(msrs.exit),
            secondary_exit: 0,
            entry: Allowed::from_msr(msrs.entry),
            misc: Misc::from_bits(msrs.misc),
            ept_vpid: EptVpid::from_bits_retain(msrs.ept_vpid),
            functions,
        }
    }

    /// Whether a field of that requirement exists on this processor.
    pub const fn satisfies(&self, requirement: Requirement) -> bool {
        match requirement {
            Requirement::Always => true,
            Requirement::Pin(bits) => self.pin.allowed & bits.bits() != 0,
            Requirement::Primary(bits) => self.primary.allowed & bits.bits() != 0,
            Requirement::Secondary(bits) => self.secondary.intersects(bits),
            Requirement::Tertiary(bits) => self.tertiary.intersects(bits),
            Requirement::Exit(bits) => self.exit.allowed & bits.bits() != 0,
            Requirement::Entry(bits) => self.entry.allowed & bits.bits() != 0,
            Requirement::EntryOrExit(entry, exit) => {
                self.entry.allowed & entry.bits() != 0 || self.exit.allowed & exit.bits() != 0
            }
            Requirement::SecondaryExit(bits) => self.secondary_exit & bits != 0,
            Requirement::EptpSwitching => self.functions.contains(VmFunctions::EPTP_SWITCHING),
            Requirement::Cr3Targets(count) => self.misc.cr3_targets() >= count,
        }
    }

    /// IA32_VMX_VMCS_ENUM: the highest index of any field that exists, in bits 9:1.
    pub fn vmcs_enumeration(&self) -> u64 {
        let rows = TABLE.iter().filter(|row| self.satisfies(row.requirement));
        rows.map(|row| row.field.index() as u64).max().unwrap_or(0) << 1
    }

    /// The value of a capability MSR; `None` for numbers that do not exist on such a processor.
    /// `cr4_permitted` are the bits that CR4 can hold.
    pub fn msr(&self, number: u32, cr4_permitted: u64) -> Option<u64> {
        let has_true = self.basic.has_true_controls();
        let primary = |bits: PrimaryControls| self.primary.allowed & bits.bits() != 0;
        let has_secondary = primary(PrimaryControls::SECONDARY_CONTROLS);
        let paging = SecondaryControls::EPT | SecondaryControls::VPID;
        Some(match number {
            msr::BASIC => self.basic.into_bits(),
            msr::PIN_CONTROLS => self.pin.with_default(default_1::PIN).into_msr(),
            msr::PRIMARY_CONTROLS => self.primary.with_default(default_1::PRIMARY).into_msr(),
            msr::EXIT_CONTROLS => self.exit.with_default(default_1::EXIT).into_msr(),
            msr::ENTRY_CONTROLS => self.entry.with_default(default_1::ENTRY).into_msr(),
            msr::MISC => self.misc.into_bits(),
            msr::CR0_FIXED0 => CR0_FIXED0,
            msr::CR0_FIXED1 => CR0_FIXED1,
            msr::CR4_FIXED0 => CR4_FIXED0,
            msr::CR4_FIXED1 => cr4_permitted | CR4_FIXED0,
            msr::VMCS_ENUM => self.vmcs_enumeration(),
            msr::SECONDARY_CONTROLS if has_secondary => (self.secondary.bits() as u64) << 32,
            msr::EPT_VPID if self.secondary.intersects(paging) => self.ept_vpid.bits(),
            msr::TRUE_PIN_CONTROLS if has_true => self.pin.into_msr(),
            msr::TRUE_PRIMARY_CONTROLS if has_true => self.primary.into_msr(),
            msr::TRUE_EXIT_CONTROLS if has_true => self.exit.into_msr(),
            msr::TRUE_ENTRY_CONTROLS if has_true => self.entry.into_msr(),
            msr::VM_FUNCTIONS if self.secondary.contains(SecondaryControls::VM_FUNCTIONS) => {
                self.functions.bits()
            }
            msr::TERTIARY_CONTROLS if primary(PrimaryControls::TERTIARY_CONTROLS) => {
                self.tertiary.bits()
            }
            msr::SECONDARY_EXIT_CONTROLS
                if self.exit.allowed & ExitControls::SECONDARY_CONTROLS.bits() != 0 =>
            {
                self.secondary_exit
            }
            _ => return None,
        })
    }

    /// What both have: a part's capabilities as far as `implemented` goes.
    pub const fn common(&self, implemented: &Self) -> Self {
        let mine = self.misc;
        let theirs = implemented.misc;
        Self {
            basic: self
                .basic
                .with_has_dual_monitor(
                    self.basic.has_dual_monitor() && implemented.basic.has_dual_monitor(),
                )
                .with_has_free_error_codes(
                    self.basic.has_free_error_codes() && implemented.basic.has_free_error_codes(),
                ),
            pin: self.pin.common(implemented.pin.allowed),
            primary: self.primary.common(implemented.primary.allowed),
            secondary: self.secondary.intersection(implemented.secondary),
            tertiary: self.tertiary.intersection(implemented.tertiary),
            exit: self.exit.common(implemented.exit.allowed),
            secondary_exit: self.secondary_exit & implemented.secondary_exit,
            entry: self.entry.common(implemented.entry.allowed),
            misc: mine
                .with_has_hlt_activity(mine.has_hlt_activity() && theirs.has_hlt_activity())
                .with_has_shutdown_activity(
                    mine.has_shutdown_activity() && theirs.has_shutdown_activity(),
                )
                .with_has_wait_for_sipi_activity(
                    mine.has_wait_for_sipi_activity() && theirs.has_wait_for_sipi_activity(),
                )
                .with_allows_processor_trace(
                    mine.allows_processor_trace() && theirs.allows_processor_trace(),
                )
                .with_reads_smbase_in_smm(
                    mine.reads_smbase_in_smm() && theirs.reads_smbase_in_smm(),
                )
                .with_can_block_smi_after_vmxoff(
                    mine.can_block_smi_after_vmxoff() && theirs.can_block_smi_after_vmxoff(),
                )
                .with_writes_read_only_fields(
                    mine.writes_read_only_fields() && theirs.writes_read_only_fields(),
                )
                .with_injects_zero_length(
                    mine.injects_zero_length() && theirs.injects_zero_length(),
                )
                .with_cr3_targets(if mine.cr3_targets() < theirs.cr3_targets() {
                    mine.cr3_targets()
                } else {
                    theirs.cr3_targets()
                }),
            ept_vpid: self.ept_vpid.intersection(implemented.ept_vpid),
            functions: self.functions.intersection(implemented.functions),
        }
    }
}
