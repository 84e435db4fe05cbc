//! A vCPU's VMCB. [APM2 "VMCB Layout, Control Area"]

use crate::registers::{RAX, RSP, Registers};
use crate::svm::entry::{self, Page};
use crate::svm::exit;
use crate::svm::tables::Svm;
use crate::vapic::target::Target;
use crate::vendor::{Control, Event, Exit, Fetch, Report};
use arch::address::Linear;
use arch::apic::Mode;
use arch::control::{Cr0, Efer, debug, rflags};
use arch::svm::intercept::{Vector3, Vector4};
use arch::svm::segment::{Segment, SegmentAttributes};
use arch::svm::vmcb::{InterruptControl, NestedControl, TlbControl, control, save};
use arch::svm::{EventType, ExitCode, Injection, Intercepts, Vmcb};
use runtime::{apic, processor};

/// G_PAT as after reset: write-back, write-through, uncached- and uncached, twice.
const PAT_RESET: u64 = 0x0007_0406_0007_0406;

/// Lengths of intercepted instructions, where the processor does not save the next one's address.
const CPUID_LENGTH: u64 = 2;
const MSR_LENGTH: u64 = 2;
const HLT_LENGTH: u64 = 1;
const VMMCALL_LENGTH: u64 = 3;

/// The VMCB, and what is decided between two entries.
pub struct Block {
    page: Page,
    /// What VMRUN must bring first.
    interrupted: Injection,
    flushes_tlb: bool,
}

/// Physical events, what we answer in the processor's place, and what a guest must not do.
fn intercepts() -> Intercepts {
    Intercepts {
        vector3: Vector3::INTR
            | Vector3::NMI
            | Vector3::INIT
            | Vector3::CPUID
            | Vector3::INVD
            | Vector3::HLT
            | Vector3::INVLPGA
            | Vector3::IOIO
            | Vector3::MSR
            | Vector3::TASK_SWITCH
            | Vector3::SHUTDOWN,
        vector4: Vector4::VMRUN
            | Vector4::VMMCALL
            | Vector4::VMLOAD
            | Vector4::VMSAVE
            | Vector4::STGI
            | Vector4::CLGI
            | Vector4::SKINIT
            | Vector4::MONITOR
            | Vector4::MWAIT
            | Vector4::XSETBV,
        ..Intercepts::default()
    }
}

fn segment(selector: u16, base: u64, limit: u32, attributes: u16) -> Segment {
    Segment { selector, attributes: SegmentAttributes::from_bits(attributes), limit, base }
}

impl Block {
    pub const fn new() -> Self {
        Self { page: Page([0; 4096]), interrupted: Injection::new(), flushes_tlb: false }
    }

    fn vmcb(&self) -> Vmcb<&[u8]> {
        Vmcb::new(&self.page.0[..]).expect("a page is as long as a VMCB")
    }

    fn vmcb_mut(&mut self) -> Vmcb<&mut [u8]> {
        Vmcb::new(&mut self.page.0[..]).expect("a page is as long as a VMCB")
    }

    fn code(&self) -> ExitCode {
        ExitCode::from_bits(self.vmcb().get(control::EXITCODE))
    }

    fn information(&self) -> [u64; 2] {
        let vmcb = self.vmcb();
        [vmcb.get(control::EXITINFO1), vmcb.get(control::EXITINFO2)]
    }

    /// Where the instruction that exited ends.
    fn next_rip(&self, has_next_rip: bool) -> u64 {
        let vmcb = self.vmcb();
        let rip = vmcb.get(save::RIP);
        match self.code() {
            // Of these, every processor saves it.
            ExitCode::IoPort => vmcb.get(control::EXITINFO2),
            _ if has_next_rip => vmcb.get(control::N_RIP),
            ExitCode::Cpuid => rip + CPUID_LENGTH,
            ExitCode::Msr => rip + MSR_LENGTH,
            ExitCode::Vmmcall => rip + VMMCALL_LENGTH,
            _ => rip + HLT_LENGTH,
        }
    }

    /// Goes on at another instruction, to which an interrupt shadow does not reach.
    fn continue_at(&mut self, rip: u64) {
        let mut vmcb = self.vmcb_mut();
        vmcb.set(save::RIP, rip);
        let state = vmcb.get(control::INTERRUPT_STATE).with_interrupt_shadow(false);
        vmcb.set(control::INTERRUPT_STATE, state);
    }

    /// The save area as after INIT. [APM2 "Processor Initialization State"]
    fn reset_state(&mut self, startup_vector: u8) {
        let mut vmcb = self.vmcb_mut();
        let (selector, base) = (u16::from(startup_vector) << 8, u64::from(startup_vector) << 12);
        vmcb.set(save::CS, segment(selector, base, 0xFFFF, 0x9B));
        for field in [save::ES, save::SS, save::DS, save::FS, save::GS] {
            vmcb.set(field, segment(0, 0, 0xFFFF, 0x93));
        }
        vmcb.set(save::GDTR, segment(0, 0, 0xFFFF, 0));
        vmcb.set(save::IDTR, segment(0, 0, 0xFFFF, 0));
        vmcb.set(save::LDTR, segment(0, 0, 0xFFFF, 0x82));
        vmcb.set(save::TR, segment(0, 0, 0xFFFF, 0x8B));
        vmcb.set(save::CR0, Cr0::EXTENSION_TYPE.bits());
        vmcb.set(save::EFER, Efer::SVM.bits());
        vmcb.set(save::RFLAGS, rflags::FIXED);
        vmcb.set(save::DR6, debug::DR6_RESET);
        vmcb.set(save::DR7, debug::DR7_RESET);
        vmcb.set(save::G_PAT, PAT_RESET);
    }

    fn set_tlb_control(&mut self, can_flush_one: bool) {
        let flushes = core::mem::take(&mut self.flushes_tlb);
        let wanted = match (flushes, can_flush_one) {
            (false, _) => TlbControl::Nothing,
            (true, true) => TlbControl::FlushAsid,
            (true, false) => TlbControl::FlushAll,
        };
        self.vmcb_mut().set(control::TLB_CONTROL, wanted.into_bits());
    }
}

impl Control<Svm> for Block {
    fn reset(&mut self, svm: &Svm, target: &Target<()>, mode: Mode, startup_vector: u8) {
        self.page.0.fill(0);
        self.interrupted = Injection::new();
        // vCPUs do not move: numbers need to differ on one physical processor only.
        let local_index = target.id() / processor::count() as u32;
        let mut vmcb = self.vmcb_mut();
        vmcb.set(control::INTERCEPTS, intercepts());
        vmcb.set(control::IOPM_BASE_PA, svm.tables.permissions.ports());
        vmcb.set(control::GUEST_ASID, 1 + local_index % (svm.features.asids - 1));
        vmcb.set(control::NESTED_CONTROL, NestedControl::new().with_nested_paging(true));
        vmcb.set(control::N_CR3, svm.tables.nested.root().0);
        self.reset_state(startup_vector);
        self.set_apic_mode(svm, target, mode);
    }

    fn start_in_protected_mode(&mut self, rip: u32) {
        let mut vmcb = self.vmcb_mut();
        vmcb.set(save::CS, segment(0x08, 0, u32::MAX, 0xC9B));
        for field in [save::ES, save::SS, save::DS, save::FS, save::GS] {
            vmcb.set(field, segment(0x10, 0, u32::MAX, 0xC93));
        }
        vmcb.set(save::CR0, (Cr0::PROTECTION_ENABLE | Cr0::EXTENSION_TYPE).bits());
        vmcb.set(save::RIP, u64::from(rip));
    }

    /// The translation of the APIC page may be in the TLB, so it is flushed.
    /// [APM2 "AVIC Enablement"]
    fn set_apic_mode(&mut self, svm: &Svm, target: &Target<()>, mode: Mode) {
        self.flushes_tlb = true;
        let mut vmcb = self.vmcb_mut();
        let interrupts = InterruptControl::new()
            .with_masks_interrupts(true)
            .with_avic_enabled(svm.accelerates(mode))
            .with_x2avic_enabled(svm.is_x2avic(mode));
        vmcb.set(control::INTERRUPT_CONTROL, interrupts);
        vmcb.set(control::AVIC_APIC_BAR, apic::PAGE);
        vmcb.set(control::AVIC_BACKING_PAGE, target.page.address().0);
        vmcb.set(control::AVIC_LOGICAL_TABLE, svm.tables.avic.logical_table().0);
        vmcb.set(control::AVIC_PHYSICAL_TABLE, svm.physical_table(mode));
        vmcb.set(control::MSRPM_BASE_PA, svm.tables.permissions.msrs(svm.is_x2avic(mode)));
    }

    fn make_current(&mut self, _svm: &Svm, has_company: bool) {
        // Another one's translations may carry the same number.
        self.flushes_tlb |= has_company;
    }

    fn run(&mut self, svm: &Svm, registers: &mut Registers) {
        self.set_tlb_control(svm.features.flush_by_asid);
        let mut vmcb = self.vmcb_mut();
        vmcb.set(save::RAX, registers.general[RAX]);
        vmcb.set(save::RSP, registers.general[RSP]);
        entry::run(&mut self.page, registers);
        let vmcb = self.vmcb();
        registers.general[RAX] = vmcb.get(save::RAX);
        registers.general[RSP] = vmcb.get(save::RSP);
        self.interrupted = vmcb.get(control::EXITINTINFO);
    }

    fn reason(&self) -> u64 {
        self.vmcb().get(control::EXITCODE)
    }

    fn exit(&self) -> Exit {
        exit::decode(self.code(), self.information())
    }

    fn report(&self) -> Report {
        let vmcb = self.vmcb();
        Report {
            code: vmcb.get(control::EXITCODE),
            information: self.information(),
            rip: vmcb.get(save::RIP),
            cr0: vmcb.get(save::CR0),
            efer: vmcb.get(save::EFER),
        }
    }

    fn skip(&mut self, svm: &Svm) {
        let rip = self.next_rip(svm.features.next_rip);
        self.continue_at(rip);
    }

    fn advance(&mut self, length: u8) {
        let rip = self.vmcb().get(save::RIP);
        self.continue_at(rip + u64::from(length));
    }

    fn fetch(&self, svm: &Svm) -> Fetch {
        let vmcb = self.vmcb();
        let (code, fetched) = (vmcb.get(save::CS), vmcb.get(control::FETCHED_BYTES));
        let has_bytes = svm.features.decode_assists && fetched.count != 0;
        Fetch {
            rip: Linear(code.base.wrapping_add(vmcb.get(save::RIP))),
            is_64_bit: code.attributes.is_long(),
            cr0: vmcb.get(save::CR0),
            cr3: vmcb.get(save::CR3),
            efer: vmcb.get(save::EFER),
            bytes: has_bytes.then_some(fetched.bytes),
        }
    }

    /// The guest does not see that it is one.
    fn efer(&self) -> Efer {
        Efer::from_bits_retain(self.vmcb().get(save::EFER)) - Efer::SVM
    }

    /// SVME stays set, as VMRUN demands.
    fn set_efer(&mut self, value: Efer) {
        self.vmcb_mut().set(save::EFER, (value | Efer::SVM).bits());
    }

    fn enables_interrupts(&self) -> bool {
        self.vmcb().get(save::RFLAGS) & rflags::IF != 0
    }

    fn accepts_interrupts(&self) -> bool {
        let vmcb = self.vmcb();
        self.enables_interrupts()
            && !vmcb.get(control::INTERRUPT_STATE).interrupt_shadow()
            && !vmcb.get(control::EVENTINJ).is_valid()
    }

    fn load_apic(&mut self, target: &Target<()>) {
        let class = target.page.task_priority() >> 4;
        let mut vmcb = self.vmcb_mut();
        let interrupts = vmcb.get(control::INTERRUPT_CONTROL).with_task_priority(class);
        vmcb.set(control::INTERRUPT_CONTROL, interrupts);
    }

    /// With AVIC the processor has written the page itself.
    fn store_apic(&mut self, target: &Target<()>) {
        let interrupts = self.vmcb().get(control::INTERRUPT_CONTROL);
        let class = interrupts.task_priority();
        if !interrupts.avic_enabled() && class != target.page.task_priority() >> 4 {
            target.page.set_task_priority(class << 4);
        }
    }

    fn inject(&mut self, event: Event) {
        self.vmcb_mut().set(control::EVENTINJ, injection(event));
    }

    fn raise(&mut self, vector: u8, error_code: Option<u32>) {
        self.interrupted = injection(Event::Exception { vector, error_code });
    }

    fn has_unfinished_event(&self) -> bool {
        self.interrupted.is_valid()
    }

    fn resume_event(&mut self) -> bool {
        let interrupted = core::mem::take(&mut self.interrupted);
        if interrupted.is_valid() {
            self.vmcb_mut().set(control::EVENTINJ, interrupted);
        }
        interrupted.is_valid()
    }

    /// A virtual interrupt of the same priority, and its intercept, say when `vector` could have
    /// been taken. [APM2 "Virtual Interrupts"]
    fn request_window(&mut self, vector: Option<u8>, _task_priority: u8) {
        let mut vmcb = self.vmcb_mut();
        let mut intercepts = vmcb.get(control::INTERCEPTS);
        intercepts.vector3.set(Vector3::VINTR, vector.is_some());
        vmcb.set(control::INTERCEPTS, intercepts);
        let interrupts = vmcb
            .get(control::INTERRUPT_CONTROL)
            .with_is_interrupt_pending(vector.is_some())
            .with_interrupt_priority(vector.unwrap_or(0) >> 4)
            .with_interrupt_vector(0);
        vmcb.set(control::INTERRUPT_CONTROL, interrupts);
    }
}

/// How EVENTINJ puts an event. [APM2 "Event Injection"]
fn injection(event: Event) -> Injection {
    let (vector, kind, error_code) = match event {
        Event::Interrupt(vector) => (vector, EventType::Interrupt, None),
        Event::Nmi => (0, EventType::Nmi, None),
        Event::Exception { vector, error_code } => (vector, EventType::Exception, error_code),
    };
    Injection::new()
        .with_vector(vector)
        .with_event_type(kind)
        .with_has_error_code(error_code.is_some())
        .with_error_code(error_code.unwrap_or(0))
        .with_is_valid(true)
}
