//! What SVM adds to a processor's state.

use super::avic::{Avic, IpiSend};
use super::behaviour::SvmBehaviour;
use super::clean::VmcbCache;
use crate::CpuModel;
use crate::state::BranchRecords;
use crate::state::TableRegister;
use arch::address::SystemPhysical;
use arch::control::{Cr0, Cr4, Efer};
use arch::segment::Segment;
use arch::svm::event::Injection;
use arch::svm::exit::ExitCode;
use arch::svm::intercept::Intercepts;
use arch::svm::msr::{TSC_RATIO_ONE, VmCr};
use arch::svm::vmcb::{InterruptControl, VirtualizationExtensions};
use serde::{Deserialize, Serialize};

/// SVM's registers, and the guest while there is one.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Svm {
    /// VM_CR: whether SVM may be enabled, and whether that is locked.
    pub vm_cr: VmCr,
    /// VM_HSAVE_PA. The host is kept in [`Guest::host`]; the page's layout is the processor's own
    /// affair, and software never looks into it.
    pub host_save: u64,
    /// TSC_RATIO, 8.32 fixed point: what guests' time-stamp counters run by.
    pub tsc_ratio: u64,
    /// GIF: clear, physical interrupts and NMIs wait. [APM2 "Global Interrupt Flag"]
    #[doc(alias = "GIF")]
    pub global_interrupts: bool,
    /// The model's choices where parts differ.
    pub behaviour: SvmBehaviour,
    pub(super) cache: VmcbCache,
}

impl Svm {
    /// The registers at power-on.
    pub fn new(model: &CpuModel) -> Self {
        Self {
            vm_cr: VmCr::new(),
            host_save: 0,
            tsc_ratio: TSC_RATIO_ONE,
            global_interrupts: true,
            behaviour: model.behaviour().svm,
            cache: VmcbCache::default(),
        }
    }

    /// What INIT resets.
    pub(crate) fn initialize(&mut self) {
        self.global_interrupts = true;
    }
}

/// A guest between VMRUN and #VMEXIT.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Guest {
    /// Where VMRUN found the VMCB, and #VMEXIT writes it.
    pub vmcb: SystemPhysical,
    /// What exits.
    pub intercepts: Intercepts,
    /// IOPM_BASE_PA: a bit for each port.
    pub io_map: SystemPhysical,
    /// MSRPM_BASE_PA: two bits for each MSR.
    pub msr_map: SystemPhysical,
    /// GUEST_ASID: what tags its translations; never 0.
    pub asid: u32,
    /// `None` if the guest's page tables give system addresses.
    pub nested: Option<NestedPaging>,
    /// What RDTSC adds after scaling.
    pub tsc_offset: u64,
    /// The dword at 060h: V_TPR, V_IRQ, V_GIF, V_NMI and what enables them.
    pub interrupts: InterruptControl,
    /// `None` unless VMRUN found AVIC enabled.
    pub avic: Option<Avic>,
    /// The dword at 0B8h: branch records, VMLOAD and VMSAVE of the guest's own.
    pub extensions: VirtualizationExtensions,
    /// `None` on models without the filter: every intercepted PAUSE exits.
    pub pause: Option<PauseFilter>,
    /// What #VMEXIT goes back to.
    pub host: Host,
    /// The event to be injected before the first instruction.
    #[doc(alias = "EVENTINJ")]
    pub injection: Option<Injection>,
    /// nRIP of the VMCB: where a software interrupt that is injected returns to.
    pub injection_next_rip: u64,
    /// Why the guest is about to leave.
    pub exit: Option<Exit>,
    /// An accelerated IPI whose steps are not all taken.
    pub ipi: Option<Box<IpiSend>>,
    /// The time of the next target's part has passed.
    pub ipi_is_paid: bool,
}

/// Nested paging as VMRUN found it. [APM2 "Nested Paging"]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NestedPaging {
    /// nCR3
    pub root: SystemPhysical,
    /// The host's EFER.NXE: nested entries may forbid fetches.
    pub no_execute: bool,
    /// EFER.NXE or CR4.SMEP of the host: fault codes tell fetches.
    pub reports_fetches: bool,
    /// What the last nested translation of a final address grants: writes, fetches.
    pub(crate) grants: (bool, bool),
}

/// Why a guest leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Exit {
    /// EXITCODE.
    pub code: ExitCode,
    /// EXITINFO1 and EXITINFO2.
    pub info: [u64; 2],
    /// nRIP, zero where none is reported.
    pub next_rip: u64,
}

/// Counts PAUSEs before one exits. [APM2 "Pause Intercept Filtering"]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct PauseFilter {
    /// PAUSE_FILTER_COUNT.
    pub initial: u16,
    /// PAUSE_FILTER_THRESHOLD, in ticks of the time-stamp counter; zero for none.
    pub threshold: u16,
    /// PAUSEs until one exits.
    pub left: u16,
    /// Time stamp of the last PAUSE.
    pub last: u64,
}

impl PauseFilter {
    /// Counts a PAUSE at time stamp `now`: false if it exits. With a threshold, the count begins
    /// again after a pause longer than that.
    pub fn passes(&mut self, now: u64) -> bool {
        let is_apart = now.wrapping_sub(self.last) > u64::from(self.threshold);
        if self.threshold != 0 && is_apart {
            self.left = self.initial;
        }
        self.last = now;
        let passes = self.left > 0;
        self.left = self.left.saturating_sub(1);
        passes
    }
}

/// The host's state, as VMRUN saves it and #VMEXIT loads it.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Host {
    /// ES, CS, SS and DS; the others are the hypervisor's affair.
    pub segments: [Segment; 4],
    /// The global descriptor table.
    pub gdtr: TableRegister,
    /// The interrupt descriptor table.
    pub idtr: TableRegister,
    /// As VMRUN found it.
    pub cr0: u64,
    /// As VMRUN found it.
    pub cr3: u64,
    /// As VMRUN found it.
    pub cr4: u64,
    /// As VMRUN found it.
    pub efer: u64,
    /// RFLAGS; the host comes back without RFLAGS.VM.
    pub flags: u64,
    /// The instruction behind VMRUN.
    pub rip: u64,
    /// The stack pointer.
    pub rsp: u64,
    /// The address of the VMCB that VMRUN was given.
    pub rax: u64,
    /// The page attribute table.
    pub pat: u64,
    /// DebugCtl and the branch records, where the guest has its own.
    pub recording: Option<(u64, BranchRecords)>,
}

impl Host {
    /// The modes that the host comes back to.
    pub fn control(&self) -> (Cr0, Cr4, Efer) {
        (
            Cr0::from_bits_retain(self.cr0),
            Cr4::from_bits_retain(self.cr4),
            Efer::from_bits_retain(self.efer),
        )
    }
}
