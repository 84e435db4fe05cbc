//! A vCPU: what its own physical processor alone touches, and what others may.

use crate::host;
use crate::payload::{BOOT_MAGIC, Entry};
use crate::registers::{RAX, RBX, Registers};
use crate::vapic::target::Target;
use crate::vapic::timer::Timer;
use crate::vendor::{Control, Vendor};
use arch::apic::{ApicBase, Mode};
use core::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use runtime::lock::Lock;
use runtime::processor;

/// Pending requests of others: an INIT, a startup IPI and its vector.
const INIT: u32 = 1 << 31;
const STARTUP: u32 = 1 << 30;
/// [`Vcpu::running`] while it does not; zero, as all of this is at first, so that it needs no room
/// in the image.
const NOWHERE: u32 = 0;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Activity {
    WaitForStartup,
    Running,
    Halted,
}

/// What the physical processor that a virtual one lives on keeps for it.
pub struct Owned<V: Vendor> {
    pub control: V::Control,
    pub registers: Registers,
    pub activity: Activity,
    pub apic_base: ApicBase,
    pub timer: Timer,
    /// The processor stands in for its APIC.
    pub is_accelerated: bool,
}

pub struct Vcpu<V: Vendor> {
    pub target: Target<V::Posted>,
    /// The index of the physical processor it runs on, plus one.
    running: AtomicU32,
    startup: AtomicU32,
    nmi: AtomicBool,
    pub owned: Lock<Owned<V>>,
}

impl<V: Vendor> Vcpu<V> {
    pub const fn new(control: V::Control, posted: V::Posted) -> Self {
        Self {
            target: Target::new(posted),
            running: AtomicU32::new(NOWHERE),
            startup: AtomicU32::new(0),
            nmi: AtomicBool::new(false),
            owned: Lock::new(Owned {
                control,
                registers: Registers::zero(),
                activity: Activity::WaitForStartup,
                apic_base: ApicBase::new(),
                timer: Timer::stopped(),
                is_accelerated: false,
            }),
        }
    }

    pub fn index(&self) -> usize {
        self.target.index()
    }

    /// Its APIC ID.
    pub fn id(&self) -> u32 {
        self.target.id()
    }

    /// The physical processor it lives on.
    pub fn home(&self) -> usize {
        self.index() % processor::count()
    }

    /// As at power-on. Its home does this.
    pub fn power_on(&self, vendor: &V) {
        self.running.store(NOWHERE, Ordering::Relaxed);
        self.startup.store(0, Ordering::Relaxed);
        self.nmi.store(false, Ordering::Relaxed);
        self.owned.with(|owned| {
            owned.apic_base = ApicBase::new()
                .with_is_bootstrap(self.index() == 0)
                .with_is_enabled(true)
                .with_frame(ApicBase::RESET_ADDRESS >> 12);
            self.initialize(vendor, owned, 0);
        });
    }

    /// As after INIT; the startup vector, if it is known already. The APIC stays in its mode.
    fn initialize(&self, vendor: &V, owned: &mut Owned<V>, startup_vector: u8) {
        let mode = owned.apic_base.mode();
        self.target.page.reset(self.id());
        if owned.apic_base.is_x2apic() {
            self.target.page.enter(mode, self.id());
        }
        owned.registers = Registers::reset();
        owned.activity = Activity::WaitForStartup;
        owned.timer.stop();
        self.reset(vendor, owned, startup_vector);
    }

    fn reset(&self, vendor: &V, owned: &mut Owned<V>, startup_vector: u8) {
        let mode = owned.apic_base.mode();
        owned.control.reset(vendor, &self.target, mode, startup_vector);
        owned.is_accelerated = vendor.accelerates(mode);
    }

    /// Makes this the processor that a boot loader started. Its home does this.
    pub fn start_by_multiboot(&self, entry: &Entry) {
        self.owned.with(|owned| {
            owned.control.start_in_protected_mode(entry.rip);
            owned.registers.general[RAX] = u64::from(BOOT_MAGIC);
            owned.registers.general[RBX] = u64::from(entry.information);
            owned.activity = Activity::Running;
        });
    }

    /// The guest put its APIC into another mode.
    pub fn set_apic_base(&self, vendor: &V, owned: &mut Owned<V>, base: ApicBase) {
        let (old, new) = (owned.apic_base.mode(), base.mode());
        owned.apic_base = base;
        if old == new {
            return;
        }
        self.target.page.enter(new, self.id());
        if new == Mode::Disabled {
            owned.timer.stop();
        }
        owned.is_accelerated = vendor.accelerates(new);
        owned.control.set_apic_mode(vendor, &self.target, new);
        self.show_residence(vendor, owned);
    }

    pub fn request_init(&self) {
        self.startup.store(INIT, Ordering::SeqCst);
        self.interrupt();
    }

    pub fn request_startup(&self, vector: u8) {
        // A startup IPI before INIT was acted on follows it; the first of several counts.
        let _ = self.startup.fetch_update(Ordering::SeqCst, Ordering::Relaxed, |pending| {
            (pending & STARTUP == 0).then_some(pending | STARTUP | u32::from(vector))
        });
        self.interrupt();
    }

    pub fn request_nmi(&self) {
        self.nmi.store(true, Ordering::SeqCst);
        self.interrupt();
    }

    pub fn take_nmi(&self) -> bool {
        self.nmi.swap(false, Ordering::SeqCst)
    }

    pub fn has_nmi_request(&self) -> bool {
        self.nmi.load(Ordering::SeqCst)
    }

    pub fn has_startup_request(&self) -> bool {
        self.startup.load(Ordering::SeqCst) != 0
    }

    /// Acts on a pending INIT and startup IPI.
    pub fn take_startup(&self, vendor: &V, owned: &mut Owned<V>) {
        let pending = self.startup.swap(0, Ordering::SeqCst);
        if pending & INIT != 0 {
            self.initialize(vendor, owned, 0);
        }
        if pending & STARTUP != 0 && owned.activity == Activity::WaitForStartup {
            self.reset(vendor, owned, pending as u8);
            owned.activity = Activity::Running;
        }
    }

    /// Requests the timer's interrupt if it is due.
    pub fn expire_timer(&self, vendor: &V, owned: &mut Owned<V>) {
        if let Some(vector) = owned.timer.expire(&self.target.page) {
            vendor.request(&self.target, vector);
        }
    }

    /// Where it runs, whether or not the vendor's tables say so.
    pub fn runs_on(&self) -> Option<usize> {
        let host = self.running.load(Ordering::SeqCst);
        host.checked_sub(1).map(|host| host as usize)
    }

    /// It runs here from now on: senders notify, or kick.
    pub fn enter_residence(&self, vendor: &V, owned: &Owned<V>) {
        self.running.store(host::current() as u32 + 1, Ordering::SeqCst);
        self.show_residence(vendor, owned);
    }

    /// Says to senders that it runs here, where the processor stands in for its APIC.
    fn show_residence(&self, vendor: &V, owned: &Owned<V>) {
        let host = owned.is_accelerated.then(|| processor::current().apic_id());
        vendor.set_running(&self.target, host);
    }

    /// It does not run any more: senders have to wake it.
    pub fn leave_residence(&self, vendor: &V) {
        vendor.set_running(&self.target, None);
        self.running.store(NOWHERE, Ordering::SeqCst);
    }

    /// Has its home look for something to run.
    pub fn nudge(&self) {
        host::nudge(self.home());
    }

    /// Has it leave the guest, or its home look for something to run.
    fn interrupt(&self) {
        match self.runs_on() {
            Some(host) if host != host::current() => host::nudge(host),
            _ => self.nudge(),
        }
    }
}
