//! Who was sent what: an interrupt that was sent and is not taken, although nothing holds it back,
//! is found by the processor that should have taken it.
//!
//! A sender takes a ticket before it sends and hands it in when the command is done. A handler, at
//! its beginning, has served all tickets that were taken by then. So a ticket that was handed in
//! and is not served belongs to an interrupt that is still under way, or lost; two that merge, as
//! those of one vector may, are served together. The host does likewise for what it sends, in
//! memory of the guest that [`FromHost`] is.
//!
//! No ticket is for two interrupts: if more have come than tickets were taken, one came twice, or
//! to a processor that it was not sent to.

use super::functions::{self, Pulses};
use super::{lines, timer};
use core::array;
use core::sync::atomic::{AtomicU64, Ordering};
use runtime::instruction::{self, time_stamp};
use runtime::power::{self, Status};
use runtime::processor::{self, MAX_CPUS, Processor};
use runtime::vector::COUNTED_VECTOR;

/// Vectors that are sent: three of one class and one word of the registers, and one of another,
/// lower class.
pub const VECTORS: [u8; 4] = [COUNTED_VECTOR, 0xE4, 0xEB, 0x75];

/// Rounds of a loop in which a pending interrupt is taken if anybody delivers it: a millisecond's
/// seventh on a core of some gigahertz. It must be longer than another sender may be held up, for
/// whose announcement this one waits: a descriptor that has its notification under way, or a vCPU
/// that is being kicked, is told of once.
pub const PATIENCE: u32 = 1 << 18;

/// Cycles for which nothing was sent to a processor before all that was has come: longer than who
/// posted may be held up, before it announces what others' interrupts wait for as well.
const LONG: u64 = 1 << 20;

/// Ports that nothing is at, by the vector that is lost, and by the one that nobody sent.
const LOST: u16 = 0x0F00;
const UNASKED: u16 = 0x0D00;

/// Few take part; those beyond have no account and are never asked.
pub const MOST: usize = 64;

/// Of one vector to one processor.
struct Account {
    taken: AtomicU64,
    /// The highest that was handed in, and how many were.
    handed_in: AtomicU64,
    done: AtomicU64,
    served: AtomicU64,
    /// What the host sent.
    served_of_host: AtomicU64,
    /// How many interrupts came, and the tickets for those that merged.
    came: AtomicU64,
}

/// Since when nothing was sent to a processor.
struct Calm {
    /// Tickets that were taken and handed in, all in all.
    sum: AtomicU64,
    since: AtomicU64,
}

/// Tickets of the host, who alone writes here.
#[repr(C)]
pub struct Promise {
    /// The last that was taken.
    taken: AtomicU64,
    /// The last whose interrupt KVM has accepted.
    handed_in: AtomicU64,
}

/// All that the host writes into the guest's memory. It is told the address alone.
#[repr(C, align(64))]
pub struct FromHost {
    /// By line of the I/O APIC.
    pub lines: [Promise; lines::COUNT],
    /// By APIC ID, since processors are numbered as they start, and kind. What the runtime counts
    /// has no tickets of the host.
    messages: [[Promise; VECTORS.len()]; MOST],
    /// By APIC ID.
    pub functions: [Pulses; MOST],
}

/// See there.
pub static FROM_HOST: FromHost = FromHost {
    lines: [const { Promise::new() }; lines::COUNT],
    messages: [const { [const { Promise::new() }; VECTORS.len()] }; MOST],
    functions: [const { Pulses::new() }; MOST],
};

impl Promise {
    const fn new() -> Self {
        Self { taken: AtomicU64::new(0), handed_in: AtomicU64::new(0) }
    }

    /// The last ticket that was taken: a handler serves those up to it.
    pub fn taken(&self) -> u64 {
        self.taken.load(Ordering::SeqCst)
    }

    /// The last ticket of which the interrupt is on its way.
    pub fn handed_in(&self) -> u64 {
        self.handed_in.load(Ordering::SeqCst)
    }
}

static ACCOUNTS: [[Account; VECTORS.len()]; MAX_CPUS] =
    [const { [const { Account::new() }; VECTORS.len()] }; MAX_CPUS];

static CALMS: [Calm; MAX_CPUS] =
    [const { Calm { sum: AtomicU64::new(0), since: AtomicU64::new(0) } }; MAX_CPUS];

impl Account {
    const fn new() -> Self {
        Self {
            taken: AtomicU64::new(0),
            handed_in: AtomicU64::new(0),
            done: AtomicU64::new(0),
            served: AtomicU64::new(0),
            served_of_host: AtomicU64::new(0),
            came: AtomicU64::new(0),
        }
    }
}

/// Which interrupt is sent: [`VECTORS`] by index.
#[derive(Clone, Copy)]
pub struct Kind(pub usize);

impl Kind {
    /// Its vector.
    pub fn vector(self) -> u8 {
        VECTORS[self.0]
    }

    fn account(self, target: &Processor) -> &'static Account {
        &ACCOUNTS[target.index()][self.0]
    }

    /// The counted vector's handler is the runtime's, and so is what it has served.
    fn is_counted(self) -> bool {
        self.vector() == COUNTED_VECTOR
    }

    fn take_ticket(self, target: &Processor) -> u64 {
        if self.is_counted() {
            return target.post_request();
        }
        self.account(target).taken.fetch_add(1, Ordering::SeqCst) + 1
    }

    /// Tickets that senders of the guest took for a processor.
    fn taken(self, target: &Processor) -> u64 {
        match self.is_counted() {
            true => target.requests.posted.load(Ordering::SeqCst),
            false => self.account(target).taken.load(Ordering::SeqCst),
        }
    }

    /// What the host promises it, where it does.
    fn of_host(self, target: &Processor) -> Option<&'static Promise> {
        let promises = FROM_HOST.messages.get(target.apic_id() as usize)?;
        (!self.is_counted()).then(|| &promises[self.0])
    }

    fn has_served(self, target: &Processor, ticket: u64) -> bool {
        if self.is_counted() {
            return target.has_served(ticket);
        }
        self.account(target).served.load(Ordering::Acquire) >= ticket
    }
}

/// Sends to those that are chosen, with tickets.
pub fn send(kind: Kind, is_target: impl Fn(&Processor) -> bool, command: impl FnOnce()) {
    let mut tickets: [Option<u64>; MOST] = array::from_fn(|_| None);
    let targets = || processor::all().take(MOST).filter(|target| is_target(target));
    for target in targets() {
        tickets[target.index()] = Some(kind.take_ticket(target));
    }
    command();
    for target in targets() {
        if let Some(ticket) = tickets[target.index()] {
            kind.account(target).handed_in.fetch_max(ticket, Ordering::SeqCst);
            kind.account(target).done.fetch_add(1, Ordering::SeqCst);
        }
    }
}

/// At the beginning of a handler that is not the runtime's. Ends the guest if nobody sent what
/// came.
pub fn serve(own: &Processor, vector: u8) {
    let Some(kind) = VECTORS.iter().position(|one| *one == vector).map(Kind) else { return };
    let account = kind.account(own);
    let taken = kind.taken(own);
    account.served.store(taken, Ordering::Release);
    let of_host = kind.of_host(own).map_or(0, Promise::taken);
    account.served_of_host.store(of_host, Ordering::Release);
    let came = account.came.load(Ordering::Relaxed) + 1;
    account.came.store(came, Ordering::Relaxed);
    if came > taken + of_host && own.index() < MOST {
        give_up(UNASKED, vector, Status::Unasked);
    }
}

/// Ends the guest if an interrupt was sent to this processor and does not come. Nothing may hold
/// interrupts back: they are enabled, the task priority is zero, none is in service.
pub fn audit(own: &Processor) {
    for kind in (0..VECTORS.len()).map(Kind) {
        let account = kind.account(own);
        let sent = account.handed_in.load(Ordering::SeqCst);
        wait_for(kind.vector(), PATIENCE, || kind.has_served(own, sent));
        if let Some(of_host) = kind.of_host(own) {
            let sent = of_host.handed_in();
            let served = || account.served_of_host.load(Ordering::Acquire);
            wait_for(kind.vector(), PATIENCE, || served() >= sent);
        }
    }
    settle(own);
    lines::audit(own);
    functions::audit(own);
    timer::audit(own);
}

/// What was sent to this processor by now is asked for no more.
pub fn forgive(own: &Processor) {
    own.serve();
    for kind in (0..VECTORS.len()).map(Kind) {
        let account = kind.account(own);
        account.served.store(kind.taken(own), Ordering::Release);
        let of_host = kind.of_host(own).map_or(0, Promise::taken);
        account.served_of_host.store(of_host, Ordering::Release);
    }
}

/// Once nothing has been sent for long, who merged has come as well: no ticket is left over.
fn settle(own: &Processor) {
    let kinds = || (0..VECTORS.len()).map(Kind);
    let mut taken = [0; VECTORS.len()];
    let (mut all, mut done) = (0, 0);
    for kind in kinds() {
        let of_host = kind.of_host(own);
        done += kind.account(own).done.load(Ordering::SeqCst);
        done += of_host.map_or(0, Promise::handed_in);
        taken[kind.0] = kind.taken(own) + of_host.map_or(0, Promise::taken);
        all += taken[kind.0];
    }
    let (calm, now) = (&CALMS[own.index()], time_stamp());
    if calm.sum.swap(all + done, Ordering::Relaxed) != all + done {
        calm.since.store(now, Ordering::Relaxed);
    } else if all == done && now - calm.since.load(Ordering::Relaxed) > LONG {
        kinds().for_each(|kind| kind.account(own).came.store(taken[kind.0], Ordering::Relaxed));
    }
}

/// Waits for what a pending interrupt does, and ends the guest if it does not come.
pub fn wait_for(vector: u8, patience: u32, has_come: impl Fn() -> bool) {
    let mut rounds = 0;
    while !has_come() {
        rounds += 1;
        if rounds > patience {
            give_up(LOST, vector, Status::Lost);
        }
    }
}

/// Who looks on knows at once; who runs the guest, when it is over.
fn give_up(ports: u16, vector: u8, status: Status) -> ! {
    instruction::out8(ports | u16::from(vector), 0);
    power::off(status)
}
