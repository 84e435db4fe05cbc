//! What this processor's VMX can do. [SDM3 "VMX Capability Reporting Facility"]

use arch::vmx::capability::{Allowed, Basic, EptVpid, Misc};
use arch::vmx::control::{
    EntryControls, ExitControls, PinControls, PrimaryControls, SecondaryControls, TertiaryControls,
};
use arch::vmx::msr::{self, FeatureControl};
use core::fmt::{Display, Formatter};
use runtime::instruction::{cpuid, cpuid_if_present, read_msr};

const ECX_1_VMX: u32 = 1 << 5;
const EDX_7_UINTR: u32 = 1 << 5;
/// IA32_FEATURE_CONTROL.
pub const FEATURE_CONTROL: u32 = 0x3A;

#[derive(Clone, Copy, Debug)]
pub struct Features {
    /// What VMXON and VMCS regions begin with.
    pub revision: u32,
    pub pin: Allowed,
    pub primary: Allowed,
    pub secondary: Allowed,
    pub exit: Allowed,
    pub entry: Allowed,
    /// APIC-register virtualization and virtual-interrupt delivery.
    pub apicv: bool,
    /// An interrupt reaches a guest that runs without an exit of its processor.
    pub posted_interrupts: bool,
    pub ipi_virtualization: bool,
    /// The processor has them, and exchanges their notification vector at entries and exits.
    pub user_interrupts: bool,
}

impl Display for Features {
    fn fmt(&self, f: &mut Formatter<'_>) -> core::fmt::Result {
        write!(
            f,
            "\"apicv\":{},\"posted_interrupts\":{},\"ipi_virtualization\":{},\"user_interrupts\":{}",
            self.apicv, self.posted_interrupts, self.ipi_virtualization, self.user_interrupts
        )
    }
}

/// Whether the processor has VMX at all.
pub fn is_enumerated() -> bool {
    cpuid(1, 0).ecx & ECX_1_VMX != 0
}

/// Whether a control vector may have these bits.
fn allows(vector: Allowed, bits: u32) -> bool {
    vector.allowed & bits == bits
}

impl Features {
    /// Refuses where VMX, EPT or unrestricted guests are missing, or firmware switched VMX off.
    pub fn read() -> Result<Self, &'static str> {
        if !is_enumerated() {
            return Err("CPUID 1 ECX bit 5 is clear");
        }
        let control = FeatureControl::from_bits(read_msr(FEATURE_CONTROL));
        if control.is_locked() && !control.vmx_outside_smx() {
            return Err("IA32_FEATURE_CONTROL is locked without VMX outside SMX");
        }
        let basic = Basic::from_bits(read_msr(msr::BASIC));
        if !basic.has_true_controls() {
            return Err("IA32_VMX_BASIC bit 55 is clear: CR3 accesses exit always");
        }
        let vector = |number| Allowed::from_msr(read_msr(number));
        let primary = vector(msr::TRUE_PRIMARY_CONTROLS);
        let needed = PrimaryControls::SECONDARY_CONTROLS
            | PrimaryControls::TPR_SHADOW
            | PrimaryControls::MSR_BITMAPS;
        if !allows(primary, needed.bits()) {
            return Err("secondary controls, the TPR shadow or MSR bitmaps are missing");
        }
        let secondary = vector(msr::SECONDARY_CONTROLS);
        let needed = SecondaryControls::EPT | SecondaryControls::UNRESTRICTED_GUEST;
        if !allows(secondary, needed.bits()) {
            return Err("EPT or unrestricted guests are missing");
        }
        let ept = EptVpid::from_bits_retain(read_msr(msr::EPT_VPID));
        let needed = EptVpid::FOUR_LEVELS
            | EptVpid::WRITE_BACK_TABLES
            | EptVpid::PAGES_2M
            | EptVpid::INVEPT
            | EptVpid::INVEPT_ALL;
        if !ept.contains(needed) || !Misc::from_bits(read_msr(msr::MISC)).stores_long_mode() {
            return Err("four levels, 2 MiB pages or INVEPT of all, of EPT, are missing");
        }
        let (exit, entry) = (vector(msr::TRUE_EXIT_CONTROLS), vector(msr::TRUE_ENTRY_CONTROLS));
        if !allows(exit, exit_controls().bits()) || !allows(entry, entry_controls().bits()) {
            return Err("EFER or PAT cannot be exchanged at exits and entries");
        }
        let pin = vector(msr::TRUE_PIN_CONTROLS);
        let apicv = allows(secondary, apicv_controls().bits());
        let posted_interrupts = apicv && allows(pin, PinControls::POSTED_INTERRUPTS.bits());
        Ok(Self {
            revision: basic.revision(),
            pin,
            primary,
            secondary,
            exit,
            entry,
            apicv,
            posted_interrupts,
            ipi_virtualization: posted_interrupts && has_ipi_virtualization(primary),
            user_interrupts: cpuid_if_present(7, 0).edx & EDX_7_UINTR != 0
                && allows(exit, ExitControls::CLEAR_UINV.bits())
                && allows(entry, EntryControls::LOAD_UINV.bits()),
        })
    }
}

fn has_ipi_virtualization(primary: Allowed) -> bool {
    allows(primary, PrimaryControls::TERTIARY_CONTROLS.bits())
        && TertiaryControls::from_bits_retain(read_msr(msr::TERTIARY_CONTROLS))
            .contains(TertiaryControls::IPI_VIRTUALIZATION)
}

/// APICv's secondary controls in either mode of the guest's APIC.
fn apicv_controls() -> SecondaryControls {
    SecondaryControls::APIC_REGISTER_VIRTUALIZATION
        | SecondaryControls::VIRTUAL_INTERRUPT_DELIVERY
        | SecondaryControls::VIRTUALIZE_APIC_ACCESSES
        | SecondaryControls::VIRTUALIZE_X2APIC_MODE
}

pub fn exit_controls() -> ExitControls {
    ExitControls::HOST_ADDRESS_SPACE_SIZE
        | ExitControls::ACKNOWLEDGE_INTERRUPT
        | ExitControls::SAVE_PAT
        | ExitControls::LOAD_PAT
        | ExitControls::SAVE_EFER
        | ExitControls::LOAD_EFER
}

pub fn entry_controls() -> EntryControls {
    EntryControls::LOAD_PAT | EntryControls::LOAD_EFER
}
