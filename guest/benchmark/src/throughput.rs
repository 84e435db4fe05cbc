//! Many IPIs at once. Each sender waits for the acknowledgement of one before it sends the next, as
//! the kernel's function calls to other processors do; interrupts of several senders to one target
//! may become one, and acknowledge all.

use crate::path::Path;
use crate::patience;
use crate::selection::{Selection, Test};
use core::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use runtime::instruction::time_stamp;
use runtime::interrupt::{self, Frame};
use runtime::processor::{self, Processor};
use runtime::vector::COUNTED_VECTOR;
use runtime::{apic, clock, job, print};

/// Who sends to whom.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Pattern {
    /// Even processors to their odd neighbours.
    Pairs,
    /// Everyone to random others.
    Mesh,
    /// Everyone to the first.
    AllToOne,
    /// The first to all others at once.
    Broadcast,
    /// The same to handlers that take a lock, one after the other.
    LockedBroadcast,
}

impl Pattern {
    const ALL: [Self; 5] =
        [Self::Pairs, Self::Mesh, Self::AllToOne, Self::Broadcast, Self::LockedBroadcast];

    fn name(self) -> &'static str {
        match self {
            Self::Pairs => "ipi_pairs",
            Self::Mesh => "ipi_mesh",
            Self::AllToOne => "ipi_all_to_one",
            Self::Broadcast => "ipi_broadcast",
            Self::LockedBroadcast => "ipi_broadcast_lock",
        }
    }

    fn is_wanted(self, selection: &Selection) -> bool {
        match self {
            Self::LockedBroadcast => selection.names(Test::Lock),
            _ => selection.wants(Test::Throughput),
        }
    }

    /// To all others, by a shorthand.
    fn is_broadcast(self) -> bool {
        matches!(self, Self::Broadcast | Self::LockedBroadcast)
    }

    fn is_sender(self, index: usize) -> bool {
        match self {
            Self::Pairs => index.is_multiple_of(2),
            Self::Mesh => true,
            Self::AllToOne => index != 0,
            Self::Broadcast | Self::LockedBroadcast => index == 0,
        }
    }
}

const PATTERN_SHIFT: u32 = 8;
/// Of handlers that take a lock.
const LOCKED_VECTOR: u8 = 0xE4;

/// What a run shares; reset before each.
static MESSAGES: AtomicU64 = AtomicU64::new(0);
static READY: AtomicUsize = AtomicUsize::new(0);
static SENDERS_LEFT: AtomicUsize = AtomicUsize::new(0);
static FIRST_START: AtomicU64 = AtomicU64::new(0);
static LAST_END: AtomicU64 = AtomicU64::new(0);
static IS_LOST: AtomicBool = AtomicBool::new(false);

/// What the handlers of a locked broadcast take.
static LOCK: AtomicBool = AtomicBool::new(false);

/// The patterns that are wanted; whether every interrupt arrived.
pub fn measure(selection: &Selection, path: Path) -> bool {
    let everyone = processor::all().all(|target| path.to(target).is_some());
    if processor::count() < 2 || !everyone {
        return true;
    }
    Pattern::ALL
        .into_iter()
        .filter(|pattern| pattern.is_wanted(selection))
        .filter(|pattern| !pattern.is_broadcast() || path.is_physical())
        .all(|pattern| run(selection, path, pattern))
}

fn run(selection: &Selection, path: Path, pattern: Pattern) -> bool {
    // Pairs need an even number.
    let cpus = match pattern {
        Pattern::Pairs => processor::count() & !1,
        _ => processor::count(),
    };
    let senders = (0..cpus).filter(|&index| pattern.is_sender(index)).count();
    MESSAGES.store(selection.messages, Ordering::Relaxed);
    READY.store(cpus, Ordering::Relaxed);
    SENDERS_LEFT.store(senders, Ordering::Relaxed);
    FIRST_START.store(u64::MAX, Ordering::Relaxed);
    LAST_END.store(0, Ordering::Relaxed);
    IS_LOST.store(false, Ordering::Relaxed);
    interrupt::set_handler(LOCKED_VECTOR, take_lock);
    let place = Pattern::ALL.iter().position(|other| *other == pattern).unwrap_or(0);
    job::run_on(0..cpus, take_part, path.encode() | place << PATTERN_SHIFT);

    let is_lost = IS_LOST.load(Ordering::Relaxed);
    let cycles =
        LAST_END.load(Ordering::Relaxed).saturating_sub(FIRST_START.load(Ordering::Relaxed));
    let receivers = if pattern.is_broadcast() { cpus as u64 - 1 } else { 1 };
    let messages = selection.messages * senders as u64 * receivers;
    let per_second = clock::kilohertz().map_or(0, |khz| {
        (u128::from(messages) * u128::from(khz) * 1000 / u128::from(cycles.max(1))) as u64
    });
    print!(
        "{{\"record\":\"{}\",\"test\":\"{}\",\"apic\":\"{}\",\"destination\":\"{}\",\
         \"fence\":{},\"cpus\":{cpus},\"senders\":{senders},\"messages\":{messages},\
         \"cycles\":{cycles},\"per_second\":{per_second}}}",
        if is_lost { "lost" } else { "throughput" },
        pattern.name(),
        path.apic(),
        path.destination(),
        path.is_fenced(),
    );
    !is_lost
}

/// One processor's part: start together, send or spin, and stay until all senders are done.
fn take_part(argument: usize) {
    let (path, pattern) = (Path::decode(argument), Pattern::ALL[argument >> PATTERN_SHIFT]);
    READY.fetch_sub(1, Ordering::SeqCst);
    while READY.load(Ordering::Acquire) != 0 {
        core::hint::spin_loop();
    }
    if pattern.is_sender(processor::current().index()) {
        FIRST_START.fetch_min(time_stamp(), Ordering::Relaxed);
        send_all(path, pattern);
        LAST_END.fetch_max(time_stamp(), Ordering::Relaxed);
        SENDERS_LEFT.fetch_sub(1, Ordering::SeqCst);
    }
    while SENDERS_LEFT.load(Ordering::Acquire) != 0 {
        core::hint::spin_loop();
    }
}

fn send_all(path: Path, pattern: Pattern) {
    let own = processor::current().index();
    let mut random = 0x9E37_79B9_7F4A_7C15 ^ (own as u64 + 1);
    for _ in 0..MESSAGES.load(Ordering::Relaxed) {
        let arrived = match pattern {
            Pattern::Broadcast => broadcast(path, COUNTED_VECTOR),
            Pattern::LockedBroadcast => broadcast(path, LOCKED_VECTOR),
            Pattern::Pairs => send(path, processor::get(own + 1)),
            Pattern::AllToOne => send(path, processor::get(0)),
            Pattern::Mesh => {
                random ^= random << 13;
                random ^= random >> 7;
                random ^= random << 17;
                let other = (random % (processor::count() as u64 - 1)) as usize;
                send(path, processor::get(other + usize::from(other >= own)))
            }
        };
        if !arrived || IS_LOST.load(Ordering::Relaxed) {
            return IS_LOST.store(true, Ordering::Relaxed);
        }
    }
}

fn send(path: Path, target: &Processor) -> bool {
    let Some(command) = path.to(target) else { return true };
    let ticket = target.post_request();
    path.send(command);
    patience::wait_while(|| !target.has_served(ticket))
}

/// What a handler of a function call does that works under a lock.
fn take_lock(_: &mut Frame) {
    while LOCK.swap(true, Ordering::Acquire) {
        while LOCK.load(Ordering::Relaxed) {
            core::hint::spin_loop();
        }
    }
    LOCK.store(false, Ordering::Release);
    processor::current().serve();
    apic::end_of_interrupt();
}

fn broadcast(path: Path, vector: u8) -> bool {
    let others = || processor::all().skip(1);
    others().for_each(|target| {
        target.post_request();
    });
    path.send(path.to_others(vector));
    others().all(|target| {
        // Nobody else posts: the last request is ours.
        let ticket = target.requests.posted.load(Ordering::Relaxed);
        patience::wait_while(|| !target.has_served(ticket))
    })
}
