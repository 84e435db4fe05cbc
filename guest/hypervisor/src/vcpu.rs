//! A virtual processor: what its own physical processor alone touches, and what others may.

use crate::machine;
use crate::payload::Entry;
use crate::schedule;
use crate::svm::entry::{Page, Registers};
use crate::svm::{avic, control};
use crate::vapic::page::ApicPage;
use crate::vapic::timer::Timer;
use arch::apic::ApicBase;
use arch::svm::vmcb::save;
use arch::svm::{Injection, Vmcb};
use core::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use runtime::lock::Lock;
use runtime::processor;

/// As many as x2AVIC's table has entries.
pub const MOST_VCPUS: usize = 512;

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
pub struct Owned {
    pub vmcb: Page,
    pub registers: Registers,
    pub activity: Activity,
    pub apic_base: ApicBase,
    pub timer: Timer,
    /// What VMRUN must bring first.
    pub interrupted: Injection,
    /// AVIC is on in the VMCB.
    pub is_accelerated: bool,
    pub flushes_tlb: bool,
}

pub struct Vcpu {
    pub page: ApicPage,
    index: AtomicU32,
    /// The index of the physical processor it runs on, plus one.
    running: AtomicU32,
    startup: AtomicU32,
    nmi: AtomicBool,
    pub owned: Lock<Owned>,
}

static VCPUS: [Vcpu; MOST_VCPUS] = [const {
    Vcpu {
        page: ApicPage::new(),
        index: AtomicU32::new(0),
        running: AtomicU32::new(NOWHERE),
        startup: AtomicU32::new(0),
        nmi: AtomicBool::new(false),
        owned: Lock::new(Owned {
            vmcb: Page([0; 4096]),
            registers: Registers::zero(),
            activity: Activity::WaitForStartup,
            apic_base: ApicBase::new(),
            timer: Timer::stopped(),
            interrupted: Injection::new(),
            is_accelerated: false,
            flushes_tlb: false,
        }),
    }
}; MOST_VCPUS];

pub fn get(index: usize) -> &'static Vcpu {
    &VCPUS[index]
}

impl Owned {
    pub fn vmcb(&mut self) -> Vmcb<&mut [u8]> {
        Vmcb::new(&mut self.vmcb.0[..]).expect("a page is as long as a VMCB")
    }

    /// The general register of a number; two of them are in the VMCB.
    pub fn general(&mut self, number: u8) -> u64 {
        match number {
            0 => self.vmcb().get(save::RAX),
            4 => self.vmcb().get(save::RSP),
            _ => self.registers.general[usize::from(number & 15)],
        }
    }

    pub fn set_general(&mut self, number: u8, value: u64) {
        match number {
            0 => self.vmcb().set(save::RAX, value),
            4 => self.vmcb().set(save::RSP, value),
            _ => self.registers.general[usize::from(number & 15)] = value,
        }
    }
}

impl Vcpu {
    pub fn index(&self) -> usize {
        self.index.load(Ordering::Relaxed) as usize
    }

    /// Its APIC ID.
    pub fn id(&self) -> u32 {
        self.index.load(Ordering::Relaxed)
    }

    /// The physical processor it lives on.
    pub fn home(&self) -> usize {
        self.index() % processor::count()
    }

    /// Its number among those that live there.
    pub fn local_index(&self) -> usize {
        self.index() / processor::count()
    }

    /// As at power-on.
    pub fn power_on(&self, index: usize) {
        self.index.store(index as u32, Ordering::Relaxed);
        self.running.store(NOWHERE, Ordering::Relaxed);
        self.startup.store(0, Ordering::Relaxed);
        self.nmi.store(false, Ordering::Relaxed);
        self.owned.with(|owned| {
            owned.apic_base = ApicBase::new()
                .with_is_bootstrap(index == 0)
                .with_is_enabled(true)
                .with_frame(ApicBase::RESET_ADDRESS >> 12);
            self.initialize(owned, 0);
        });
    }

    /// As after INIT; the startup vector, if it is known already. The APIC stays in its mode.
    fn initialize(&self, owned: &mut Owned, startup_vector: u8) {
        self.page.reset(self.id());
        if owned.apic_base.is_x2apic() {
            crate::vapic::change_mode(self, owned, owned.apic_base.mode());
        }
        owned.registers = Registers::reset();
        owned.activity = Activity::WaitForStartup;
        owned.timer.stop();
        owned.interrupted = Injection::new();
        control::reset(self, owned, startup_vector);
    }

    /// Makes this the processor that a boot loader started.
    pub fn start_by_multiboot(&self, entry: &Entry) {
        self.owned.with(|owned| {
            control::start_by_multiboot(owned, entry);
            owned.activity = Activity::Running;
        });
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
    pub fn take_startup(&self, owned: &mut Owned) {
        let pending = self.startup.swap(0, Ordering::SeqCst);
        if pending & INIT != 0 {
            self.initialize(owned, 0);
        }
        if pending & STARTUP != 0 && owned.activity == Activity::WaitForStartup {
            control::reset(self, owned, pending as u8);
            owned.activity = Activity::Running;
        }
    }

    /// Where it runs, whether or not AVIC knows.
    pub fn runs_on(&self) -> Option<usize> {
        let host = self.running.load(Ordering::SeqCst);
        host.checked_sub(1).map(|host| host as usize)
    }

    /// It runs here from now on: senders ring, or kick.
    pub fn enter_residence(&self, owned: &Owned) {
        let own = processor::current();
        self.running.store(own.index() as u32 + 1, Ordering::SeqCst);
        self.update_residence(owned);
    }

    /// Brings the table of AVIC into step, for a virtual processor that runs here.
    pub fn update_residence(&self, owned: &Owned) {
        let host = owned.is_accelerated.then(|| processor::current().apic_id());
        avic::set_running(self, host);
    }

    /// It does not run any more: senders have to wake it.
    pub fn leave_residence(&self) {
        avic::set_running(self, None);
        self.running.store(NOWHERE, Ordering::SeqCst);
    }

    /// Has its home look for something to run.
    pub fn nudge(&self) {
        schedule::nudge(self.home());
    }

    /// Has it leave the guest, or its home look for something to run.
    fn interrupt(&self) {
        match self.runs_on() {
            Some(host) if host != processor::current().index() => schedule::nudge(host),
            _ => self.nudge(),
        }
    }
}

/// All virtual processors of the machine that live on a physical one.
pub fn living_on(host: usize) -> impl Iterator<Item = &'static Vcpu> + Clone {
    VCPUS[..machine::vcpu_count()].iter().skip(host).step_by(processor::count())
}
