//! A vCPU's VMCS. [SDM3 "Virtual-Machine Control Structures"]
//!
//! It is current on its home processor while its vCPU runs there, or is reset; what
//! must be known of it at other times is kept beside it.

use crate::host::NOTIFICATION_VECTOR;
use crate::registers::{RSP, Registers};
use crate::vapic::target::Target;
use crate::vendor::{Control, Event, Exit, Fetch, Report};
use crate::vmx::apicv::PostedDescriptor;
use crate::vmx::exit;
use crate::vmx::feature;
use crate::vmx::tables::Vmx;
use crate::vmx::vmcs::{self, Region};
use crate::vmx::{entry, state};
use arch::address::Linear;
use arch::apic::{Mode, Register};
use arch::control::{Cr4, Efer, rflags};
use arch::vmx::apicv::GuestInterruptStatus;
use arch::vmx::capability::Allowed;
use arch::vmx::control::{PinControls, PrimaryControls, SecondaryControls, TertiaryControls};
use arch::vmx::event::Interruptibility;
use arch::vmx::exit::ExitReasonField;
use arch::vmx::field::{control, exit as information, guest};
use arch::vmx::segment::AccessRights;
use arch::vmx::{
    EntryControls, ExitControls, ExitReason, Field, InterruptionInfo, InterruptionType,
};
use runtime::interrupt;

/// An event that an exit interrupted, or that is to be raised.
#[derive(Clone, Copy)]
struct Unfinished {
    info: InterruptionInfo,
    error_code: u32,
    /// Of the instruction that caused it.
    length: u32,
}

/// The VMCS, and what is decided between two entries.
pub struct Block {
    region: Region,
    system_calls: state::MsrArea,
    is_launched: bool,
    /// The last entry was refused.
    was_refused: bool,
    rflags: u64,
    unfinished: Option<Unfinished>,
    mode: Mode,
    is_accelerated: bool,
    has_user_interrupts: bool,
}

/// The bits that a control vector must have beside those that are wanted.
fn vector(wanted: u32, allowed: Allowed) -> u64 {
    u64::from(wanted | allowed.required)
}

fn change(field: Field, bits: u32, is_set: bool) {
    let old = vmcs::read(field) as u32;
    vmcs::write(field, u64::from(if is_set { old | bits } else { old & !bits }));
}

impl Block {
    pub const fn new() -> Self {
        Self {
            region: Region::new(),
            system_calls: state::MsrArea::new(),
            is_launched: false,
            was_refused: false,
            rflags: 0,
            unfinished: None,
            mode: Mode::Disabled,
            is_accelerated: false,
            has_user_interrupts: false,
        }
    }

    /// An empty VMCS, current here.
    fn renew(&mut self, revision: u32) {
        self.region.clear();
        self.region.set_revision(revision);
        self.region.clear();
        self.region.load();
        self.is_launched = false;
    }

    /// Physical events, what we answer in the processor's place, and what a guest must not do.
    fn set_controls(&self, vmx: &Vmx) {
        let features = &vmx.features;
        let primary = PrimaryControls::HLT_EXITING
            | PrimaryControls::MWAIT_EXITING
            | PrimaryControls::MONITOR_EXITING
            | PrimaryControls::RDPMC_EXITING
            | PrimaryControls::UNCONDITIONAL_IO_EXITING
            | PrimaryControls::TPR_SHADOW
            | PrimaryControls::MSR_BITMAPS
            | PrimaryControls::SECONDARY_CONTROLS;
        vmcs::write(control::PRIMARY, vector(primary.bits(), features.primary));
        let (mut exit, mut entry) = (feature::exit_controls(), feature::entry_controls());
        if features.user_interrupts {
            exit |= ExitControls::CLEAR_UINV;
            entry |= EntryControls::LOAD_UINV;
            vmcs::write(guest::UINV, 0);
        }
        vmcs::write(control::EXIT, vector(exit.bits(), features.exit));
        vmcs::write(control::ENTRY, vector(entry.bits(), features.entry));
        let area = self.system_calls.address();
        let fields = [
            (control::EXCEPTION_BITMAP, 0),
            (control::PAGE_FAULT_MASK, 0),
            (control::PAGE_FAULT_MATCH, 0),
            (control::CR3_TARGET_COUNT, 0),
            (control::EXIT_MSR_STORE_ADDRESS, area),
            (control::EXIT_MSR_STORE_COUNT, state::MsrArea::COUNT),
            (control::EXIT_MSR_LOAD_COUNT, 0),
            (control::ENTRY_MSR_LOAD_ADDRESS, area),
            (control::ENTRY_MSR_LOAD_COUNT, state::MsrArea::COUNT),
            (control::ENTRY_INTERRUPTION_INFO, 0),
            (control::TPR_THRESHOLD, 0),
            (control::EPT_POINTER, vmx.tables.ept.pointer()),
        ];
        fields.into_iter().for_each(|(field, value)| vmcs::write(field, value));
    }

    /// Goes on at another instruction, to which no blocking reaches.
    fn continue_at(&mut self, rip: u64) {
        vmcs::write(guest::RIP, rip);
        let blocking = Interruptibility::from_bits(vmcs::read(guest::INTERRUPTIBILITY) as u32)
            .with_blocked_by_sti(false)
            .with_blocked_by_mov_ss(false);
        vmcs::write(guest::INTERRUPTIBILITY, u64::from(blocking.into_bits()));
    }

    /// What must be done at once after an exit, and what will be asked for later.
    fn take_exit(&mut self) {
        self.rflags = vmcs::read(guest::RFLAGS);
        let info = InterruptionInfo::from_bits(vmcs::read(information::IDT_VECTORING_INFO) as u32);
        self.unfinished = info.is_valid().then(|| Unfinished {
            info: info.with_unblocked_nmi_by_iret(false),
            error_code: vmcs::read(information::IDT_VECTORING_ERROR_CODE) as u32,
            length: vmcs::read(information::INSTRUCTION_LENGTH) as u32,
        });
        if self.basic_reason() == ExitReason::ExternalInterrupt {
            // The exit has acknowledged it: nobody else will call its handler.
            let info = vmcs::read(information::INTERRUPTION_INFO) as u32;
            interrupt::handle(InterruptionInfo::from_bits(info).vector());
        }
    }

    fn reason_field(&self) -> ExitReasonField {
        ExitReasonField::from_bits(vmcs::read(information::REASON) as u32)
    }

    fn basic_reason(&self) -> ExitReason {
        self.reason_field().basic()
    }

    fn inject_raw(&mut self, event: Unfinished) {
        vmcs::write(control::ENTRY_INTERRUPTION_INFO, u64::from(event.info.into_bits()));
        vmcs::write(control::ENTRY_ERROR_CODE, u64::from(event.error_code));
        vmcs::write(control::ENTRY_INSTRUCTION_LENGTH, u64::from(event.length));
    }
}

impl Control<Vmx> for Block {
    fn reset(
        &mut self,
        vmx: &Vmx,
        target: &Target<PostedDescriptor>,
        mode: Mode,
        startup_vector: u8,
    ) {
        self.unfinished = None;
        self.rflags = rflags::FIXED;
        self.has_user_interrupts = vmx.features.user_interrupts;
        self.renew(vmx.features.revision);
        self.set_controls(vmx);
        entry::set_host_state();
        state::reset(startup_vector);
        self.system_calls.reset();
        self.set_apic_mode(vmx, target, mode);
    }

    fn start_in_protected_mode(&mut self, rip: u32) {
        self.region.load();
        state::enter_protected_mode(rip);
    }

    /// The translation of the APIC page may be cached, so it is dropped.
    fn set_apic_mode(&mut self, vmx: &Vmx, target: &Target<PostedDescriptor>, mode: Mode) {
        self.mode = mode;
        self.is_accelerated = vmx.accelerates(mode);
        let (features, is_x2apic) = (&vmx.features, mode == Mode::X2Apic);
        let mut pin = PinControls::EXTERNAL_INTERRUPT_EXITING | PinControls::NMI_EXITING;
        let mut secondary = SecondaryControls::EPT | SecondaryControls::UNRESTRICTED_GUEST;
        if self.is_accelerated {
            secondary |= SecondaryControls::APIC_REGISTER_VIRTUALIZATION
                | SecondaryControls::VIRTUAL_INTERRUPT_DELIVERY
                | match is_x2apic {
                    true => SecondaryControls::VIRTUALIZE_X2APIC_MODE,
                    false => SecondaryControls::VIRTUALIZE_APIC_ACCESSES,
                };
            vmcs::write(control::APIC_ACCESS_ADDRESS, vmx.tables.ept.apic_access_page());
            // All interrupts are edge-triggered: nobody has to be told of their end.
            for field in [
                control::EOI_EXIT_BITMAP_0,
                control::EOI_EXIT_BITMAP_1,
                control::EOI_EXIT_BITMAP_2,
                control::EOI_EXIT_BITMAP_3,
            ] {
                vmcs::write(field, 0);
            }
        }
        if self.is_accelerated && features.posted_interrupts {
            pin |= PinControls::POSTED_INTERRUPTS;
            vmcs::write(control::POSTED_INTERRUPT_VECTOR, u64::from(NOTIFICATION_VECTOR));
            vmcs::write(control::POSTED_INTERRUPT_DESCRIPTOR, target.posted.address().0);
        }
        let sends_ipis = self.is_accelerated && features.ipi_virtualization;
        if features.ipi_virtualization {
            let ipi = TertiaryControls::IPI_VIRTUALIZATION.bits();
            vmcs::write(control::TERTIARY, if sends_ipis { ipi } else { 0 });
            vmcs::write(control::PID_POINTER_TABLE, vmx.tables.pointers.address().0);
            vmcs::write(control::LAST_PID_POINTER_INDEX, u64::from(vmx.last_index));
        }
        change(control::PRIMARY, PrimaryControls::TERTIARY_CONTROLS.bits(), sends_ipis);
        vmcs::write(control::PIN, vector(pin.bits(), features.pin));
        vmcs::write(control::SECONDARY, vector(secondary.bits(), features.secondary));
        vmcs::write(control::VIRTUAL_APIC_ADDRESS, target.page.address().0);
        let is_virtual_x2apic = self.is_accelerated && is_x2apic;
        vmcs::write(control::MSR_BITMAPS, vmx.tables.permissions.msrs(is_virtual_x2apic));
        vmcs::invalidate_ept();
    }

    fn make_current(&mut self, _vmx: &Vmx, _has_company: bool) {
        self.region.load();
    }

    fn release(&mut self) {
        self.region.clear();
        self.is_launched = false;
    }

    fn run(&mut self, _vmx: &Vmx, registers: &mut Registers) {
        vmcs::write(guest::RSP, registers.general[RSP]);
        self.was_refused = !entry::run(self.is_launched, registers);
        if self.was_refused {
            return;
        }
        self.is_launched |= !self.reason_field().is_entry_failure();
        registers.general[RSP] = vmcs::read(guest::RSP);
        self.take_exit();
    }

    fn reason(&self) -> u64 {
        u64::from(self.basic_reason().into_bits())
    }

    fn exit(&self) -> Exit {
        match self.was_refused {
            true => Exit::Failed("VMLAUNCH or VMRESUME was refused"),
            false => exit::decode(self.basic_reason()),
        }
    }

    fn report(&self) -> Report {
        let code = match self.was_refused {
            true => information::INSTRUCTION_ERROR,
            false => information::REASON,
        };
        Report {
            code: vmcs::read(code),
            information: [
                vmcs::read(information::QUALIFICATION),
                vmcs::read(information::GUEST_PHYSICAL_ADDRESS),
            ],
            rip: vmcs::read(guest::RIP),
            cr0: vmcs::read(guest::CR0),
            efer: vmcs::read(guest::EFER),
        }
    }

    fn skip(&mut self, _vmx: &Vmx) {
        let length = vmcs::read(information::INSTRUCTION_LENGTH);
        self.continue_at(vmcs::read(guest::RIP).wrapping_add(length));
    }

    fn advance(&mut self, length: u8) {
        self.continue_at(vmcs::read(guest::RIP).wrapping_add(u64::from(length)));
    }

    fn fetch(&self, _vmx: &Vmx) -> Fetch {
        let code = AccessRights::from_bits(vmcs::read(guest::CS_ACCESS_RIGHTS) as u32);
        let efer = vmcs::read(guest::EFER);
        let is_long = efer & Efer::LONG_MODE_ACTIVE.bits() != 0;
        Fetch {
            rip: Linear(vmcs::read(guest::CS_BASE).wrapping_add(vmcs::read(guest::RIP))),
            is_64_bit: is_long && code.is_long(),
            cr0: vmcs::read(guest::CR0),
            cr3: vmcs::read(guest::CR3),
            efer,
            bytes: None,
        }
    }

    fn efer(&self) -> Efer {
        Efer::from_bits_retain(vmcs::read(guest::EFER))
    }

    fn set_efer(&mut self, value: Efer) {
        vmcs::write(guest::EFER, value.bits());
        let is_long = value.contains(Efer::LONG_MODE_ACTIVE);
        change(control::ENTRY, EntryControls::IA32E_MODE_GUEST.bits(), is_long);
    }

    fn enables_interrupts(&self) -> bool {
        self.rflags & rflags::IF != 0
    }

    fn accepts_interrupts(&self) -> bool {
        let blocking = Interruptibility::from_bits(vmcs::read(guest::INTERRUPTIBILITY) as u32);
        self.enables_interrupts() && !blocking.has_shadow()
    }

    /// [SDM3 "User-Interrupt Notification Identification"]
    fn takes_as_notification(&self, vector: u8) -> bool {
        self.has_user_interrupts
            && u64::from(vector) == vmcs::read(guest::UINV)
            && vmcs::read(guest::CR4) & Cr4::UINTR.bits() != 0
            && self.efer().contains(Efer::LONG_MODE_ACTIVE)
    }

    /// TPR is the page's in any case; what has been posted is moved there, and with APICv the
    /// processor is told the highest request and the highest vector in service.
    fn load_apic(&mut self, target: &Target<PostedDescriptor>) {
        target.posted.move_into(&target.page);
        if self.is_accelerated {
            let status = GuestInterruptStatus::new()
                .with_requesting(target.page.highest_request().unwrap_or(0))
                .with_servicing(target.page.in_service());
            vmcs::write(guest::INTERRUPT_STATUS, u64::from(status.into_bits()));
        }
    }

    /// In x2APIC mode a command that the processor left to us is 64 bits at the place of its lower
    /// half: our page has the destination where xAPIC mode has it.
    fn store_apic(&mut self, target: &Target<PostedDescriptor>) {
        let offset = vmcs::read(information::QUALIFICATION) as u16 & 0xFF0;
        let is_command =
            self.basic_reason() == ExitReason::ApicWrite && offset == Register::Command.offset();
        if is_command && self.mode == Mode::X2Apic {
            target.page.spread_command();
        }
    }

    fn inject(&mut self, event: Event) {
        self.inject_raw(unfinished(event));
    }

    fn raise(&mut self, vector: u8, error_code: Option<u32>) {
        self.unfinished = Some(unfinished(Event::Exception { vector, error_code }));
    }

    fn has_unfinished_event(&self) -> bool {
        self.unfinished.is_some()
    }

    fn resume_event(&mut self) -> bool {
        let event = self.unfinished.take();
        event.inspect(|event| self.inject_raw(*event)).is_some()
    }

    /// Where only the task priority holds `vector` back, its threshold says when that falls; else
    /// the interrupt window opens. [SDM3 "TPR Virtualization"]
    fn request_window(&mut self, vector: Option<u8>, task_priority: u8) {
        let class = vector.map_or(0, |vector| vector >> 4);
        let is_held_back = vector.is_some() && class <= task_priority >> 4;
        vmcs::write(control::TPR_THRESHOLD, if is_held_back { u64::from(class) } else { 0 });
        let window = PrimaryControls::INTERRUPT_WINDOW_EXITING.bits();
        change(control::PRIMARY, window, vector.is_some() && !is_held_back);
    }
}

/// How the entry's field puts an event. [SDM3 "VM-Entry Controls for Event Injection"]
fn unfinished(event: Event) -> Unfinished {
    let (kind, vector, error_code) = match event {
        Event::Interrupt(vector) => (InterruptionType::External, vector, None),
        Event::Nmi => (InterruptionType::Nmi, arch::exception::NMI, None),
        Event::Exception { vector, error_code } => {
            (InterruptionType::HardwareException, vector, error_code)
        }
    };
    let info = InterruptionInfo::event(kind, vector, error_code.is_some());
    Unfinished { info, error_code: error_code.unwrap_or(0), length: 0 }
}
