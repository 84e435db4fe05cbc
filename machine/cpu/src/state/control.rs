//! What an operating system sets: control registers, descriptor tables, MSRs.

use super::governor::GovernorState;
use super::msr::MsrState;
use super::uintr::UserInterrupts;
use arch::control::{Cr0, Cr4, Efer};
use arch::segment::{Attributes, Segment};
use serde::{Deserialize, Serialize};

/// A descriptor-table register.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct TableRegister {
    pub base: u64,
    pub limit: u16,
}

/// SYSCALL's and SYSENTER's MSRs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct SystemCall {
    pub star: u64,
    pub lstar: u64,
    pub cstar: u64,
    pub sfmask: u64,
    pub kernel_gs_base: u64,
    pub sysenter_cs: u64,
    pub sysenter_esp: u64,
    pub sysenter_eip: u64,
}

/// System registers. Those that may hold any value, from which nothing else here follows, are plain
/// fields.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Control {
    /// Modes; bits that the model does not know stay clear.
    cr0: Cr0,
    /// The linear address of the last page fault that was delivered.
    pub cr2: u64,
    /// The root of the page tables and, with PCIDE, the PCID.
    pub cr3: u64,
    /// Extensions in use, of those that the model has.
    cr4: Cr4,
    /// XCR0: state components that XSAVE manages.
    pub xcr0: u64,
    /// Extended features; LMA is set if LME and CR0.PG are.
    efer: Efer,
    /// The page-directory pointers that a load of CR3 read, under PAE paging.
    pub pdpte: [u64; 4],
    /// Protection keys' rights for user pages, two bits a key.
    pub pkru: u32,
    /// The global descriptor table.
    pub gdtr: TableRegister,
    /// The interrupt descriptor table, in real mode the vector table.
    pub idtr: TableRegister,
    /// The local descriptor table with its hidden part.
    pub ldtr: Segment,
    /// The task register with its hidden part.
    pub tr: Segment,
    /// Where fast system calls enter.
    pub syscall: SystemCall,
    /// MSRs that mostly hold what was written.
    pub msr: MsrState,
    /// What software asks of the core's clock.
    pub governor: GovernorState,
    /// User interrupts.
    pub uintr: UserInterrupts,
}

impl Default for Control {
    fn default() -> Self {
        Self {
            cr0: Cr0::empty(),
            cr2: 0,
            cr3: 0,
            cr4: Cr4::empty(),
            xcr0: 1,
            efer: Efer::empty(),
            pdpte: [0; 4],
            pkru: 0,
            gdtr: TableRegister::default(),
            idtr: TableRegister::default(),
            ldtr: Segment::default(),
            tr: Segment::default(),
            syscall: SystemCall::default(),
            msr: Default::default(),
            governor: GovernorState::default(),
            uintr: UserInterrupts::default(),
        }
    }
}

impl Control {
    /// What INIT resets; MSRs stay. [APM2 "Processor Initialization State"]
    pub(crate) fn initialize(&mut self) {
        let keep = Cr0::CACHE_DISABLE | Cr0::NOT_WRITETHROUGH;
        self.cr0 = self.cr0 & keep | Cr0::EXTENSION_TYPE;
        self.cr2 = 0;
        self.cr3 = 0;
        self.cr4 = Cr4::empty();
        self.efer = Efer::empty();
        self.ldtr = Segment { attributes: Attributes(0x82), limit: 0xFFFF, ..Segment::default() };
        self.tr = Segment { attributes: Attributes(0x8B), limit: 0xFFFF, ..Segment::default() };
        self.gdtr = TableRegister { base: 0, limit: 0xFFFF };
        self.idtr = TableRegister { base: 0, limit: 0xFFFF };
    }

    /// Modes; bits that the model does not know stay clear.
    #[inline(always)]
    pub fn cr0(&self) -> Cr0 {
        self.cr0
    }

    /// Changes CR0, and EFER.LMA with it.
    pub fn set_cr0(&mut self, value: Cr0) {
        self.cr0 = value;
        self.set_efer(self.efer);
    }

    /// Sets or clears some of its bits.
    pub fn switch_cr0(&mut self, bits: Cr0, is_on: bool) {
        let mut value = self.cr0;
        value.set(bits, is_on);
        self.set_cr0(value);
    }

    /// Extensions in use, of those that the model has.
    #[inline(always)]
    pub fn cr4(&self) -> Cr4 {
        self.cr4
    }

    /// Changes CR4.
    pub fn set_cr4(&mut self, value: Cr4) {
        self.cr4 = value;
    }

    /// Sets or clears some of its bits.
    pub fn switch_cr4(&mut self, bits: Cr4, is_on: bool) {
        self.cr4.set(bits, is_on);
    }

    /// Extended features, LMA as it follows from LME and paging.
    #[inline(always)]
    pub fn efer(&self) -> Efer {
        self.efer
    }

    /// Changes EFER but for LMA, which follows.
    pub fn set_efer(&mut self, value: Efer) {
        self.efer = value;
        let is_long = value.contains(Efer::LONG_MODE_ENABLE) && self.cr0.contains(Cr0::PAGING);
        self.efer.set(Efer::LONG_MODE_ACTIVE, is_long);
    }

    /// Sets or clears some of its bits.
    pub fn switch_efer(&mut self, bits: Efer, is_on: bool) {
        let mut value = self.efer;
        value.set(bits, is_on);
        self.set_efer(value);
    }

    /// Tables of three levels whose root is in `pdpte`.
    pub(crate) fn has_pae_paging(&self) -> bool {
        self.cr0.contains(Cr0::PAGING) && self.cr4.contains(Cr4::PAE) && !self.is_long_mode()
    }

    /// The process-context identifier that tags translations.
    pub(crate) fn context_identifier(&self) -> u16 {
        if self.cr4.contains(Cr4::PCIDE) { self.cr3 as u16 & 0xFFF } else { 0 }
    }

    /// CR0.PE is clear.
    pub fn is_real(&self) -> bool {
        !self.cr0.contains(Cr0::PROTECTION_ENABLE)
    }

    /// EFER.LMA.
    #[inline(always)]
    pub fn is_long_mode(&self) -> bool {
        self.efer.contains(Efer::LONG_MODE_ACTIVE)
    }
}
