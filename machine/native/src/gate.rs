//! The way into code, out of it, and from it to a handler and back.

use crate::mapping::Mapping;
use crate::{After, Filled, Ground, Machine, Replaced, Version, Windows};
use std::any::Any;
use std::mem::offset_of;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::ptr::{from_mut, from_ref};
use std::sync::atomic::AtomicU64;
use translate::{Exit, Frame, JUMPS, TRANSLATIONS, WIDEST, Wanted};

/// Where to go: addresses of code that is mapped as long as the mapping lives.
pub struct Way<'a> {
    /// Borrowed so that nobody writes code while it runs.
    pub mapping: &'a mut Mapping,
    pub kept: &'a mut Kept,
    pub enter: u64,
    pub code: u64,
    /// Of runs, for blocks that count. They stay where they are until code is left.
    pub counters: &'a [AtomicU64],
}

/// Whether LAHF and SAHF exist in 64-bit mode, which the first such processors lacked.
pub fn host_has_lahf() -> bool {
    const EXTENDED: u32 = 0x8000_0001;
    const LAHF_SAHF: u32 = 1 << 0;
    std::arch::x86_64::__cpuid(EXTENDED - 1).eax >= EXTENDED
        && std::arch::x86_64::__cpuid(EXTENDED).ecx & LAHF_SAHF != 0
}

/// What was prefetched of code that has been written over is fetched again.
/// [SDM3 "Handling Self- and Cross-Modifying Code"]
pub fn serialize() {
    std::arch::x86_64::__cpuid(0);
}

/// What stays from one entry to the next: where accesses were found last among it.
#[derive(Default)]
#[repr(C)]
pub struct Kept {
    frame: Frame,
    /// What [`Ground::version`] was when what was found was right.
    version: Option<Version>,
    /// Where what the windows show lies.
    lent: Lent,
    /// The address of the session that runs.
    session: u64,
}

const _: () = assert!(offset_of!(Kept, frame) == 0, "code knows what is kept as its frame");

/// Addresses and lengths of RAM, of the watched lines and of the TLB.
#[derive(Default)]
struct Lent([u64; 6]);

impl Lent {
    #[inline(always)]
    fn of(ground: &Ground<'_>) -> Self {
        let Ground { ram, watched, tlb, .. } = ground;
        let of = |address: usize, length: usize| [address as u64, length as u64];
        let [ram, watched, tlb] = [
            of(ram.as_ptr().addr(), ram.len()),
            of(watched.as_ptr().addr(), watched.len()),
            of(tlb.as_ptr().addr(), tlb.len()),
        ];
        Self([ram[0], ram[1], watched[0], watched[1], tlb[0], tlb[1]])
    }
}

/// Whether the words are the same, without a call.
#[inline(always)]
fn are_same<const N: usize>(one: &[u64; N], other: &[u64; N]) -> bool {
    one.iter().zip(other).fold(0, |differ, (one, other)| differ | (one ^ other)) == 0
}

/// Whom a handler's call finds.
struct Session<M> {
    machine: *mut M,
    /// What a handler has thrown.
    panic: Option<Box<dyn Any + Send>>,
}

/// Runs code until it is left.
pub fn enter<M: Machine>(way: Way<'_>, jumps: &[[u64; 2]; JUMPS], machine: &mut M) -> Exit {
    let Way { mapping, kept, enter, code, counters } = way;
    let mut session = Session { machine, panic: None };
    let session: *mut Session<M> = from_mut(&mut session);
    kept.session = session.expose_provenance() as u64;
    // They can be written through a shared reference.
    kept.frame.windows.counters = counters.as_ptr().expose_provenance() as u64;
    kept.frame.windows.jumps = from_ref(jumps).expose_provenance() as u64;
    kept.frame.windows.helper = (help::<M> as *const ()).expose_provenance() as u64;
    // SAFETY: `machine` was a unique reference until now and is not used again but through this.
    let machine = unsafe { &mut *(*session).machine };
    machine.begin(&mut kept.frame.state);
    show(kept, machine.windows(), Changes::Looked);
    let kept: *mut Kept = from_mut(kept);
    // SAFETY: `enter` is the address of the shared routine of that name, which follows the System V
    // convention: `Arena` writes it at its creation and never again, and the mapping lives.
    let function = unsafe {
        std::mem::transmute::<*const (), extern "sysv64" fn(*mut Kept, u64)>(
            std::ptr::with_exposed_provenance(enter as usize),
        )
    };
    // The call runs what `translate` made. The README says why that touches only the frame behind
    // the pointer, the windows that the frame tells of, and the stack below.
    function(kept, code);
    let _ = mapping;
    // SAFETY: `session` is the local above, and `kept` the reference that was lent; nobody else has
    // either now that the call has returned.
    let (session, kept) = unsafe { (&mut *session, &mut *kept) };
    if let Some(panic) = session.panic.take() {
        resume_unwind(panic);
    }
    let state = &kept.frame.state;
    // SAFETY: as above; code no longer runs.
    unsafe { &mut *session.machine }.end(state);
    Exit::from_bits(state.exit)
}

/// Called by code: does an instruction by its handler, after which anything but zero leaves code;
/// or looks for the translation of `linear`, where zero says that the TLB has it.
extern "sysv64" fn help<M: Machine>(kept: *mut Kept, number: u32, linear: u64) -> u64 {
    // SAFETY: code passes on the pointer that `enter` gave it, which is good until code is left;
    // no reference to what it leads to exists meanwhile.
    let kept = unsafe { &mut *kept };
    // SAFETY: `enter` has put the session's address there, together with that of this function for
    // the same `M`; it lives until code is left, and no reference to it exists meanwhile.
    let session =
        unsafe { &mut *std::ptr::with_exposed_provenance_mut::<Session<M>>(kept.session as usize) };
    // Code asks again where a translation was looked for in vain; what was thrown then is not lost.
    if session.panic.is_some() {
        return 1;
    }
    // SAFETY: `enter` has the machine borrowed until code is left; the windows that were taken from
    // it are taken again below.
    let machine = unsafe { &mut *session.machine };
    // Code has no landing pads: what is thrown goes around it.
    match catch_unwind(AssertUnwindSafe(|| match Wanted::of(number) {
        Some(wanted) => find(kept, machine, linear, wanted),
        None => call(kept, machine, number),
    })) {
        Ok(goes_on) => u64::from(!goes_on),
        Err(panic) => {
            session.panic = Some(panic);
            kept.version = None;
            1
        }
    }
}

/// Whether code goes on behind the instruction.
fn call<M: Machine>(kept: &mut Kept, machine: &mut M, number: u32) -> bool {
    match machine.call(&mut kept.frame.state, number) {
        // What was found is looked at when code is entered again.
        After::Leaves => return false,
        After::GoesOn => show(kept, machine.windows(), Changes::Looked),
        After::GoesOnAlike => show_again(kept, machine, Changes::Known),
    }
    true
}

/// Whether the TLB has the translation now. What was found of other pages stays.
fn find<M: Machine>(kept: &mut Kept, machine: &mut M, linear: u64, wanted: Wanted) -> bool {
    let filled = machine.fill(&mut kept.frame.state, linear, wanted);
    let changes = match filled {
        Filled::Known(Replaced::Nothing) => Changes::Known,
        Filled::Known(Replaced::Page(page)) => {
            kept.frame.reads.forget_page(page);
            kept.frame.writes.forget_page(page);
            Changes::Known
        }
        Filled::Known(Replaced::Unknown) => Changes::Unknown,
        Filled::Unknown => Changes::Looked,
    };
    show_again(kept, machine, changes);
    filled != Filled::Unknown
}

fn forget(frame: &mut Frame) {
    frame.reads.forget();
    frame.writes.forget();
}

/// Whether what has changed since accesses were found concerns where.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Changes {
    /// It does not, or has been taken out.
    Known,
    /// The version tells.
    Looked,
    /// It may.
    Unknown,
}

/// Code has been shown what it may touch, and by what the machine has promised that is as it was,
/// but for entries of the TLB. Whether it still lies where it lay is not left to the promise.
fn show_again<M: Machine>(kept: &mut Kept, machine: &mut M, changes: Changes) {
    let ground = machine.ground();
    let is_there = |shown: u64, lent: &Option<&mut [u128; 16]>| {
        shown == 0 || lent.as_ref().is_some_and(|lent| lent.as_ptr().addr() as u64 == shown)
    };
    let shown = &kept.frame.windows;
    let is_lent = are_same(&Lent::of(&ground).0, &kept.lent.0)
        && is_there(shown.vectors, &ground.vectors)
        && is_there(shown.high_halves, &ground.high_halves);
    if is_lent {
        let version = ground.version;
        settle(kept, version, changes);
    } else {
        show(kept, machine.windows(), changes);
    }
}

/// What was found stays only where it is right by this version.
#[inline(always)]
fn settle(kept: &mut Kept, version: Option<Version>, changes: Changes) {
    let is_right = match (changes, version, kept.version) {
        (Changes::Known, ..) => true,
        (Changes::Looked, Some(now), Some(then)) => are_same(&now, &then),
        _ => false,
    };
    if !is_right {
        forget(&mut kept.frame);
    }
    kept.version = version;
}

/// Shows code what it may touch, which may be elsewhere than before. Where accesses were found last
/// is forgotten if that may be outside RAM now, or be found elsewhere.
#[inline(always)]
fn show(kept: &mut Kept, windows: Windows<'_>, changes: Changes) {
    let Windows { ground, sets, context, fs_base, gs_base, strings } = windows;
    let lent = Lent::of(&ground);
    let Ground { ram, watched, tlb, vectors, high_halves, version } = ground;
    assert!(ram.len() >= WIDEST, "RAM of {} bytes is smaller than an access", ram.len());
    // A word for each page in which an access may begin.
    assert!(watched.len() >= ram.len().div_ceil(0x1000), "a page of RAM has no watch");
    assert!(sets.0.max(sets.1) + TRANSLATIONS <= tlb.len(), "a set lies outside the TLB");
    let (last, at) = (ram.len() - WIDEST, ram.as_mut_ptr().expose_provenance());
    let view = &mut kept.frame.windows;
    let changes = match (view.last, view.ram) == (last as u64, at as u64) {
        true => changes,
        false => Changes::Unknown,
    };
    (view.last, view.ram) = (last as u64, at as u64);
    view.watched = watched.as_ptr().expose_provenance() as u64;
    view.data = tlb[sets.0..].as_ptr().expose_provenance() as u64;
    view.fetch = tlb[sets.1..].as_ptr().expose_provenance() as u64;
    view.context = context;
    view.fs_base = fs_base;
    view.gs_base = gs_base;
    view.strings = u64::from(strings);
    let at = |all: &mut [u128; 16]| all.as_mut_ptr().expose_provenance() as u64;
    let has_vectors = vectors.is_some();
    view.vectors = vectors.map_or(0, at);
    // Code that uses the high halves does not ask for the low ones.
    view.high_halves = high_halves.filter(|_| has_vectors).map_or(0, at);
    kept.lent = lent;
    settle(kept, version, changes);
}
