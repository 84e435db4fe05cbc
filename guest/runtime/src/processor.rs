//! What each processor owns: its place in the per-CPU array, its stacks, and the mailbox by which
//! others give it work ([`crate::job`]).

use crate::instruction;
use core::arch::asm;
use core::mem::offset_of;
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};

/// As many as x2AVIC has vCPUs.
pub const MAX_CPUS: usize = 512;
/// Bytes of the stack a processor runs on.
pub const STACK_SIZE: usize = 8192;
/// Bytes of each of the two stacks for interrupts and for exceptions.
pub const INTERRUPT_STACK_SIZE: usize = 4096;

/// What interrupt handlers of this processor write; alone on its cache line.
#[repr(C, align(64))]
pub struct Arrivals {
    /// The time stamp of the last counted interrupt.
    pub time: AtomicU64,
    /// How many have been counted.
    pub count: AtomicU64,
    /// [`Requests::posted`] as the last counted interrupt found it.
    pub served: AtomicU64,
}

/// What other processors write before they interrupt this one; alone on its cache line.
#[repr(C, align(64))]
pub struct Requests {
    /// How many requests were posted.
    pub posted: AtomicU64,
}

/// Work for this processor.
#[repr(C, align(64))]
pub(crate) struct Mailbox {
    /// A `fn(usize)`, valid where `issued` is ahead of `finished`.
    pub job: AtomicUsize,
    pub argument: AtomicUsize,
    pub issued: AtomicU64,
    pub finished: AtomicU64,
}

/// One processor's data; GS points to it.
#[repr(C, align(64))]
pub struct Processor {
    itself: AtomicU64,
    index: AtomicU32,
    apic_id: AtomicU32,
    /// Kept beside the APIC so that handlers need not read an MSR.
    is_x2apic: AtomicU32,
    is_online: AtomicBool,
    /// What its counted interrupts left.
    pub arrivals: Arrivals,
    /// What it is asked for.
    pub requests: Requests,
    pub(crate) mailbox: Mailbox,
}

/// For assembly: where [`Processor`] says whether its APIC is in x2APIC mode.
pub const IS_X2APIC_OFFSET: usize = offset_of!(Processor, is_x2apic);
/// For assembly: where it keeps [`Arrivals::time`].
pub const ARRIVAL_TIME_OFFSET: usize = offset_of!(Processor, arrivals.time);
/// For assembly: where it keeps [`Arrivals::count`].
pub const ARRIVAL_COUNT_OFFSET: usize = offset_of!(Processor, arrivals.count);
/// For assembly: where it keeps [`Arrivals::served`].
pub const ARRIVAL_SERVED_OFFSET: usize = offset_of!(Processor, arrivals.served);
/// For assembly: where it keeps [`Requests::posted`].
pub const REQUESTS_OFFSET: usize = offset_of!(Processor, requests.posted);

static PROCESSORS: [Processor; MAX_CPUS] = [const { Processor::new() }; MAX_CPUS];
/// How many have started.
static ONLINE: AtomicU32 = AtomicU32::new(0);
/// How many there are going to be, once the first one knows.
static EXPECTED: AtomicUsize = AtomicUsize::new(1);

impl Processor {
    const fn new() -> Self {
        Self {
            itself: AtomicU64::new(0),
            index: AtomicU32::new(0),
            apic_id: AtomicU32::new(0),
            is_x2apic: AtomicU32::new(0),
            is_online: AtomicBool::new(false),
            arrivals: Arrivals {
                time: AtomicU64::new(0),
                count: AtomicU64::new(0),
                served: AtomicU64::new(0),
            },
            requests: Requests { posted: AtomicU64::new(0) },
            mailbox: Mailbox {
                job: AtomicUsize::new(0),
                argument: AtomicUsize::new(0),
                issued: AtomicU64::new(0),
                finished: AtomicU64::new(0),
            },
        }
    }

    /// Its number: 0 for the one that booted, the others in the order in which they started.
    pub fn index(&self) -> usize {
        self.index.load(Ordering::Relaxed) as usize
    }

    /// Identifier of its APIC, in the mode that the APIC is in.
    pub fn apic_id(&self) -> u32 {
        self.apic_id.load(Ordering::Relaxed)
    }

    /// Whether its APIC is in x2APIC mode.
    pub fn is_x2apic(&self) -> bool {
        self.is_x2apic.load(Ordering::Relaxed) != 0
    }

    pub(crate) fn set_apic(&self, id: u32, is_x2apic: bool) {
        self.apic_id.store(id, Ordering::Relaxed);
        self.is_x2apic.store(u32::from(is_x2apic), Ordering::Relaxed);
    }

    /// Posts a request: the count that [`Arrivals::served`] reaches once a counted interrupt that
    /// is sent after this has been handled. Interrupts of several senders may become one.
    pub fn post_request(&self) -> u64 {
        self.requests.posted.fetch_add(1, Ordering::SeqCst) + 1
    }

    /// Whether the request with this ticket has been handled.
    pub fn has_served(&self, ticket: u64) -> bool {
        self.arrivals.served.load(Ordering::Acquire) >= ticket
    }

    /// Publishes, on this processor and from the handler of an interrupt, that all requests which
    /// were posted by now are handled.
    pub fn serve(&self) {
        let posted = self.requests.posted.load(Ordering::Acquire);
        self.arrivals.served.store(posted, Ordering::Release);
    }

    /// How many counted interrupts have come.
    pub fn arrival_count(&self) -> u64 {
        self.arrivals.count.load(Ordering::Acquire)
    }

    /// The time stamp at which the last counted interrupt came.
    pub fn arrival_time(&self) -> u64 {
        self.arrivals.time.load(Ordering::Relaxed)
    }
}

/// The processor this runs on.
#[inline(always)]
pub fn current() -> &'static Processor {
    let address: *const Processor;
    // SAFETY: `initialize` points GS to an element of PROCESSORS whose first word is its address.
    unsafe {
        asm!("mov {}, gs:[0]", out(reg) address, options(nostack, readonly, preserves_flags));
        &*address
    }
}

/// Where another interrupt will find this processor's data.
pub(crate) fn initialize(index: usize) {
    let processor = &PROCESSORS[index];
    let address = core::ptr::from_ref(processor) as u64;
    processor.itself.store(address, Ordering::Relaxed);
    processor.index.store(index as u32, Ordering::Relaxed);
    // SAFETY: GS is used by this module alone.
    unsafe { instruction::write_msr(arch::msr::GS_BASE, address) };
}

/// One that is started again is counted already.
pub(crate) fn report_online() {
    if !current().is_online.swap(true, Ordering::SeqCst) {
        ONLINE.fetch_add(1, Ordering::SeqCst);
    }
}

/// How many processors have started; their indices are 0 up to this.
pub fn count() -> usize {
    ONLINE.load(Ordering::SeqCst) as usize
}

/// How many processors were announced; 1 before that is known.
pub fn expected_count() -> usize {
    EXPECTED.load(Ordering::Relaxed)
}

pub(crate) fn expect(count: usize) {
    EXPECTED.store(count, Ordering::Relaxed);
}

/// The processor of an index below [`count`].
pub fn get(index: usize) -> &'static Processor {
    &PROCESSORS[index]
}

/// All processors that have started, the bootstrap processor first.
pub fn all() -> impl ExactSizeIterator<Item = &'static Processor> + Clone {
    PROCESSORS[..count()].iter()
}
